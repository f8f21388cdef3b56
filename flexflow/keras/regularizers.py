"""Penalties on weights, added to the loss.

With Keras's factors: ``L2(l2)`` adds ``l2 * sum(w**2)`` to the loss, so ``2 * l2 * w`` to the
gradient. (FlexFlow's own ``L2`` added ``l2 * w`` to the gradient and nothing to the loss.)
"""

from __future__ import annotations

from typing import Union

import numpy as np

from flexflow.keras import surface

RegularizerLike = Union[None, str, "Regularizer"]


class Regularizer:
    """A penalty of l1 * sum(abs(w)) + l2 * sum(w**2); use L1, L2 or L1L2."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        for name, value in (("l1", l1), ("l2", l2)):
            if not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
                raise ValueError(f"{type(self).__name__}: {name}={value!r}, expected a number >= 0")
        self.l1, self.l2 = float(l1), float(l2)

    def __call__(self, weight: np.ndarray) -> float:
        """The penalty of a weight's value."""
        weight = np.asarray(weight, dtype=np.float64)
        return float(self.l1 * np.abs(weight).sum() + self.l2 * np.square(weight).sum())


class L1(Regularizer):
    """l1 * sum(abs(w)).

    >>> L1(0.5)(np.array([1.0, -2.0]))
    1.5
    """

    def __init__(self, l1: float = 0.01) -> None:
        super().__init__(l1=l1)


class L2(Regularizer):
    """l2 * sum(w**2).

    >>> L2(0.5)(np.array([1.0, -2.0]))
    2.5
    """

    def __init__(self, l2: float = 0.01) -> None:
        super().__init__(l2=l2)


class L1L2(Regularizer):
    """l1 * sum(abs(w)) + l2 * sum(w**2).

    >>> L1L2(0.5, 0.5)(np.array([1.0, -2.0]))
    4.0
    """


_BY_NAME = {"l1": (0.01, 0.0), "l2": (0.0, 0.01), "l1_l2": (0.01, 0.01)}
_BY_NAME.update(L1=_BY_NAME["l1"], L2=_BY_NAME["l2"], L1L2=_BY_NAME["l1_l2"])


def get(identifier: RegularizerLike, who: str = "regularizer") -> Regularizer | None:
    """A regularizer from itself or its name; None stays None.

    Raises:
        ValueError: there is no regularizer of this name.
        NotImplementedError: a callable of one's own.

    >>> get("l2").l2
    0.01
    """
    if identifier is None or isinstance(identifier, Regularizer):
        return identifier
    if isinstance(identifier, str):
        if identifier not in _BY_NAME:
            raise ValueError(f"{who}={identifier!r} is unknown; known are 'l1', 'l2' and 'l1_l2'")
        return L1L2(*_BY_NAME[identifier])
    raise NotImplementedError(
        f"{who}={identifier!r}: only L1, L2 and L1L2 are supported, or their names"
    )


__all__ = ["L1", "L1L2", "L2", "Regularizer", "get"]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
