"""A layer's weights, which any number of models may share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from flexflow.keras.regularizers import Regularizer


class Home(Protocol):
    """Where the value of a variable lives while a model computes with it."""

    def read(self, variable: Variable) -> np.ndarray: ...


class Variable:
    """A weight of a layer, with Keras's shape and layout.

    The value lives in one place at a time: here, until a model takes it over, then in the FFModel
    that took it last. So models that share layers see each other's training, and none keeps a
    second copy in Python.

    Attributes:
        name, path: ``"kernel"`` and ``"dense/kernel"``.
        shape: in Keras's layout, such as (in, out) for a dense kernel.
        trainable: whether training may change it; a layer's ``trainable`` is asked besides.
        core_axes: the axes of ``shape`` in the order in which the core keeps them; None if that is
            the same.

    >>> from flexflow.keras import layers
    >>> dense = layers.Dense(2, name="dense")
    >>> dense.build((None, 3))
    >>> dense.kernel.path, dense.kernel.shape
    ('dense/kernel', (3, 2))
    """

    def __init__(
        self,
        path: str,
        shape: tuple[int, ...],
        initializer: Callable[..., Any],
        *,
        trainable: bool = True,
        regularizer: Regularizer | None = None,
        core_axes: tuple[int, ...] | None = None,
    ) -> None:
        self.path = path
        self.name = path.rpartition("/")[2]
        self.shape = tuple(shape)
        self.dtype = "float32"
        self.trainable = trainable
        self.regularizer = regularizer
        self.core_axes = core_axes
        self._home: Home | None = None
        self._value: np.ndarray | None = None
        self.assign(initializer(self.shape, dtype=self.dtype))

    def __repr__(self) -> str:
        return f"<Variable {self.path} shape={self.shape} dtype={self.dtype}>"

    def numpy(self) -> np.ndarray:
        """The value, as a copy."""
        if self._home is not None:
            return self._home.read(self)
        assert self._value is not None
        return self._value.copy()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def assign(self, value: Any) -> None:
        """Set the value.

        Raises:
            ValueError: another shape than the variable's, or not numbers.
        """
        try:
            array = np.array(value, dtype=self.dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{self.path}: got {type(value).__name__}, expected numbers"
            ) from error
        if array.shape != self.shape:
            raise ValueError(
                f"{self.path}: got a value of shape {array.shape}, expected {self.shape}"
            )
        self._value, self._home = array, None

    def is_at(self, home: Home) -> bool:
        """Whether the value lives there."""
        return self._home is home

    def move_to(self, home: Home) -> None:
        """Note that the value lives there from now on; the caller has put it there."""
        self._home, self._value = home, None

    def to_core(self, value: np.ndarray) -> np.ndarray:
        """A value in the core's layout."""
        return (
            value
            if self.core_axes is None
            else np.ascontiguousarray(value.transpose(self.core_axes))
        )

    def from_core(self, value: np.ndarray) -> np.ndarray:
        """A value of the core in Keras's layout."""
        if self.core_axes is None:
            return value
        return np.ascontiguousarray(value.transpose(np.argsort(self.core_axes)))

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return int(np.prod(self.shape, dtype=np.int64))
