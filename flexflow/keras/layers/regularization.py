"""Layers that act in training only."""

from __future__ import annotations

from typing import Any

from flexflow.core.checks import real
from flexflow.keras import backend
from flexflow.keras.layers.base import Layer
from flexflow.keras.lowering import Lowering, Value


class Dropout(Layer):
    """In training, sets a share of its input to zero and multiplies the rest by 1 / (1 - rate);
    else the identity.

    Args:
        rate: the share, in [0, 1).
        noise_shape: must be None.
        seed: None for one from the stream that utils.set_random_seed() starts; 0 is a seed like any
            other.

    Raises:
        ValueError: rate out of range. TypeError: it is no number.

    >>> from flexflow.keras import Input
    >>> Dropout(0.5)(Input((3,))).shape
    (None, 3)
    """

    def __init__(
        self, rate: float, noise_shape: None = None, seed: int | None = None, **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        backend.refuse(self._who, noise_shape=noise_shape)
        if seed is not None and (type(seed) is not int or seed < 0):
            raise ValueError(f"{self._who}: seed={seed!r}, expected a whole number >= 0 or None")
        self.rate = real(rate, f"{self._who}: rate", 0, 1)
        self.seed = backend.next_seed() if seed is None else seed

    def lower(self, to: Lowering, x: Value) -> Value:
        if to.inference or not self.rate:
            return x
        return Value(to.ff.dropout(x.tensor, self.rate, self.seed, name=self.name), x.moved)
