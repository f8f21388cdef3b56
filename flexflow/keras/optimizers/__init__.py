"""Optimizers and their learning rates."""

from __future__ import annotations

from typing import Union

from flexflow.keras import surface
from flexflow.keras.optimizers import schedules
from flexflow.keras.optimizers.optimizers import SGD, Adam, Optimizer

OptimizerLike = Union[str, Optimizer, type[Optimizer]]
_BY_NAME: dict[str, type[Optimizer]] = {"sgd": SGD, "adam": Adam}


def get(identifier: OptimizerLike) -> Optimizer:
    """An optimizer from itself, its class or its name in any case.

    Raises:
        ValueError: there is no optimizer of this name.
        TypeError: it is none of these.

    >>> get("adam").learning_rate
    0.001
    """
    if isinstance(identifier, Optimizer):
        return identifier
    if isinstance(identifier, str):
        if identifier.lower() not in _BY_NAME:
            raise ValueError(
                f"optimizer {identifier!r} is unknown or not supported yet; "
                "known are 'sgd' and 'adam'"
            )
        return _BY_NAME[identifier.lower()]()
    if isinstance(identifier, type) and issubclass(identifier, Optimizer):
        return identifier()
    raise TypeError(
        f"optimizer={identifier!r}, expected 'sgd', 'adam', "
        "or an object of flexflow.keras.optimizers"
    )


__all__ = ["SGD", "Adam", "Optimizer", "get", "schedules"]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
