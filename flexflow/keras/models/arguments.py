"""Arguments of fit() and its like: their checks and defaults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Union

import numpy as np

from flexflow.core import FFConfig
from flexflow.keras.models.data import Arrays

Verbose = Union[int, str]
Values = Union[float, list[float], dict[str, float]]


def batch_size(who: str, batch_size: int | None) -> int:
    if batch_size is None:
        config = FFConfig()
        return config.batch_size if config.given("batch_size") else 32
    if (
        isinstance(batch_size, bool)
        or not isinstance(batch_size, (int, np.integer))
        or batch_size < 1
    ):
        raise ValueError(f"{who}: batch_size={batch_size!r}, expected a whole number above 0")
    return int(batch_size)


def check_epochs(who: str, epochs: int, initial_epoch: int) -> None:
    for name, value in (("epochs", epochs), ("initial_epoch", initial_epoch)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
            raise ValueError(f"{who}: {name}={value!r}, expected a whole number >= 0")


def steps(who: str, steps: int | None, arrays: Arrays, batch_size: int) -> int:
    """How many batches to run: all, or those that are asked for."""
    batches = arrays.batches(batch_size)
    if steps is None:
        return batches
    if not isinstance(steps, (int, np.integer)) or not 1 <= steps <= batches:
        raise ValueError(
            f"{who}={steps!r}, expected 1 to {batches}, "
            f"the batches of {batch_size} in {arrays.rows} samples"
        )
    return int(steps)


def verbosity(verbose: Verbose) -> int:
    if verbose not in ("auto", 0, 1, 2):
        raise ValueError(f"verbose={verbose!r}, expected 0, 1, 2 or 'auto'")
    return 1 if verbose == "auto" else int(verbose)


def is_due(epoch: int, frequency: int | Iterable[int]) -> bool:
    """Whether to validate after an epoch, counted from 1."""
    if isinstance(frequency, int) and frequency > 0:
        return epoch % frequency == 0
    if not isinstance(frequency, Iterable):
        raise ValueError(
            f"validation_freq={frequency!r}, expected a whole number above 0 or a list of epochs"
        )
    return epoch in frequency


def pair(who: str, data: Any) -> tuple[Any, Any]:
    """x and y of validation_data."""
    if not isinstance(data, (list, tuple)) or len(data) not in (2, 3):
        raise ValueError(f"{who}: validation_data is {type(data).__name__}, expected a pair (x, y)")
    if len(data) == 3:
        raise NotImplementedError(
            f"{who}: sample weights in validation_data are not supported yet; give (x, y)"
        )
    return data[0], data[1]


def packed(logs: dict[str, float], return_dict: bool) -> Values:
    """Logs as Keras returns them."""
    if return_dict:
        return dict(logs)
    values = list(logs.values())
    return values[0] if len(values) == 1 else values
