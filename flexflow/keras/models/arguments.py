"""Arguments of fit() and its like: their checks and defaults."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Union

import numpy as np

from flexflow.core import FFConfig
from flexflow.core.checks import boolean
from flexflow.keras.models.data import Arrays

Verbose = Union[int, str]
Values = Union[float, list[float], dict[str, float]]


def batch_size(who: str, batch_size: int | None, name: str = "batch_size") -> int:
    if batch_size is None:
        config = FFConfig()
        return config.batch_size if config.given("batch_size") else 32
    if (
        isinstance(batch_size, bool)
        or not isinstance(batch_size, (int, np.integer))
        or batch_size < 1
    ):
        raise ValueError(f"{who}: {name}={batch_size!r}, expected a whole number above 0")
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
    if (
        isinstance(steps, bool)
        or not isinstance(steps, (int, np.integer))
        or not 1 <= steps <= batches
    ):
        raise ValueError(
            f"{who}={steps!r}, expected 1 to {batches}, "
            f"the batches of {batch_size} in {arrays.rows} samples"
        )
    return int(steps)


def verbosity(verbose: Verbose) -> int:
    if verbose not in ("auto", 0, 1, 2):
        raise ValueError(f"verbose={verbose!r}, expected 0, 1, 2 or 'auto'")
    return 1 if verbose == "auto" else int(verbose)


def due_epochs(who: str, frequency: int | Iterable[int], epochs: range) -> Collection[int]:
    """The epochs, counted from 0, after which to validate."""
    single = isinstance(frequency, (int, np.integer))
    given = [frequency] if single or isinstance(frequency, str) else frequency
    numbers = list(given) if isinstance(given, Iterable) else [given]
    for one in numbers:
        if isinstance(one, bool) or not isinstance(one, (int, np.integer)) or one < single:
            raise ValueError(
                f"{who}: validation_freq={frequency!r}, expected a whole number above 0 or a list "
                "of epochs"
            )
    if single:
        return {epoch for epoch in epochs if (epoch + 1) % numbers[0] == 0}
    return {number - 1 for number in numbers}


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
    if boolean(return_dict, "return_dict"):
        return dict(logs)
    values = list(logs.values())
    return values[0] if len(values) == 1 else values
