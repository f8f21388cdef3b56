"""Penalties on the size of weights: what they add to the gradient in each step."""

from __future__ import annotations

from typing import Any

from flexflow.core.checks import real
from flexflow.core.types import RegularizerMode, check_enum


class Regularizer:
    """A penalty with a strength >= 0, as FlexFlow has it: L1 adds ``strength * sign(w)`` to the
    gradient of a weight, L2 adds ``strength * w``.

    Raises:
        TypeError: ``type`` is no RegularizerMode, or the strength no number.
        ValueError: the strength is negative or not finite.

    >>> Regularizer(RegularizerMode.REG_MODE_L2, 0.01).type
    <RegularizerMode.REG_MODE_L2: 19>
    """

    def __init__(self, type: RegularizerMode, _lambda: float) -> None:
        self.type = check_enum(RegularizerMode, type, "Regularizer")
        self._lambda = real(_lambda, f"{self.__class__.__name__}: the strength", 0)


class L1Regularizer(Regularizer):
    """L1 with a strength.

    >>> L1Regularizer(0.01).type
    <RegularizerMode.REG_MODE_L1: 18>
    """

    def __init__(self, l1: float = 0.01) -> None:
        super().__init__(RegularizerMode.REG_MODE_L1, l1)


class L2Regularizer(Regularizer):
    """L2 with a strength.

    >>> L2Regularizer(0.5).type
    <RegularizerMode.REG_MODE_L2: 19>
    """

    def __init__(self, l2: float = 0.01) -> None:
        super().__init__(RegularizerMode.REG_MODE_L2, l2)


def regularizer_attributes(regularizer: Any) -> dict[str, float]:
    """What a penalty sets on a weight. Any object with FlexFlow's ``type`` and ``_lambda`` will do.

    Raises:
        TypeError: it has none, or of another type. ValueError: a negative strength.

    >>> regularizer_attributes(L2Regularizer(0.5))
    {'l2': 0.5}
    """
    try:
        mode, strength = regularizer.type, regularizer._lambda
    except AttributeError:
        raise TypeError(
            f"kernel_regularizer: got {regularizer!r}, expected L1Regularizer or L2Regularizer"
        ) from None
    mode = check_enum(RegularizerMode, mode, "kernel_regularizer: type")
    if mode is RegularizerMode.REG_MODE_NONE:
        return {}
    name = "l1" if mode is RegularizerMode.REG_MODE_L1 else "l2"
    return {name: real(strength, "kernel_regularizer: _lambda", 0)}
