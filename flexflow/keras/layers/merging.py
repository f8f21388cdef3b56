"""Layers of several inputs, and a function for each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from flexflow.core import FFModel, Tensor
from flexflow.keras.graph import KerasTensor, Shape
from flexflow.keras.layers.base import Layer
from flexflow.keras.layers.core import sample_axis
from flexflow.keras.lowering import Lowering, Value


class _Merge(Layer):
    """An elementwise operation on two or more inputs.

    Called on a list of tensors, whose shapes are equal or have 1 in places; a 1 is stretched, as in
    NumPy.
    """

    most = 0  # inputs; 0: any number

    def merge(self, ff: FFModel, a: Tensor, b: Tensor) -> Tensor:
        raise NotImplementedError

    def check_inputs(self, shapes: Sequence[Shape]) -> None:
        least = self.most or 2
        if len(shapes) < least or (self.most and len(shapes) > self.most):
            wanted = f"{least}" if self.most else f"at least {least}"
            raise ValueError(
                f"{self._who}: got {len(shapes)} inputs, expected a list of {wanted} tensors"
            )
        self.compute_output_shape(shapes)

    def compute_output_shape(self, input_shape: Any) -> Shape:
        if len({len(shape) for shape in input_shape}) > 1:
            raise ValueError(
                f"{self._who}: got shapes {input_shape}, expected shapes with equally many axes"
            )
        return tuple(self._stretch(axis, input_shape) for axis in zip(*input_shape))

    def _stretch(self, sizes: tuple[Any, ...], shapes: Any) -> Any:
        distinct = set(sizes) - {1}
        if len(distinct) > 1:
            raise ValueError(
                f"{self._who}: got shapes {shapes}, expected each axis to have one size, or 1"
            )
        return distinct.pop() if distinct else 1

    def lower(self, to: Lowering, *inputs: Value) -> Value:
        tensors, moved = to.alike(inputs)
        return Value(reduce(lambda a, b: self.merge(to.ff, a, b), tensors), moved)


class Add(_Merge):
    """The sum of two or more tensors.

    Called on a list of tensors with equally many axes; sizes are equal, or 1, which is stretched. A
    tensor may come twice.

    Raises:
        ValueError: fewer than two tensors, or sizes that do not go together.

    >>> from flexflow.keras import Input
    >>> Add()([Input((4, 3)), Input((1, 3))]).shape
    (None, 4, 3)
    """

    def merge(self, ff: FFModel, a: Tensor, b: Tensor) -> Tensor:
        return ff.add(a, b)


class Subtract(_Merge):
    """The first of two tensors less the second; see Add.

    >>> from flexflow.keras import Input
    >>> Subtract()([Input((3,)), Input((3,))]).shape
    (None, 3)
    """

    most = 2

    def merge(self, ff: FFModel, a: Tensor, b: Tensor) -> Tensor:
        return ff.subtract(a, b)


class Multiply(_Merge):
    """The product of two or more tensors; see Add.

    >>> from flexflow.keras import Input
    >>> Multiply()([Input((3,)), Input((3,))]).shape
    (None, 3)
    """

    def merge(self, ff: FFModel, a: Tensor, b: Tensor) -> Tensor:
        return ff.multiply(a, b)


class Maximum(_Merge):
    """The greatest of two or more tensors, element by element; see Add.

    >>> from flexflow.keras import Input
    >>> Maximum()([Input((3,)), Input((3,))]).shape
    (None, 3)
    """

    def merge(self, ff: FFModel, a: Tensor, b: Tensor) -> Tensor:
        return ff.max(a, b)


class Minimum(_Merge):
    """The least of two or more tensors, element by element; see Add.

    >>> from flexflow.keras import Input
    >>> Minimum()([Input((3,)), Input((3,))]).shape
    (None, 3)
    """

    def merge(self, ff: FFModel, a: Tensor, b: Tensor) -> Tensor:
        return ff.min(a, b)


class Concatenate(Layer):
    """Tensors one after the other along an axis.

    Args:
        axis: not the batch's; the last by default, also where FlexFlow's ``concatenate`` took axis
            1.

    Raises:
        ValueError: fewer than two tensors, or shapes that differ in another axis.

    >>> from flexflow.keras import Input
    >>> Concatenate()([Input((4, 3)), Input((4, 5))]).shape
    (None, 4, 8)
    """

    def __init__(self, axis: int = -1, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.axis = axis

    def check_inputs(self, shapes: Sequence[Shape]) -> None:
        if len(shapes) < 2:
            raise ValueError(
                f"{self._who}: got {len(shapes)} inputs, expected a list of at least 2 tensors"
            )
        self.compute_output_shape(shapes)

    def compute_output_shape(self, input_shape: Any) -> Shape:
        axis = sample_axis(self._who, self.axis, len(input_shape[0]))
        rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in input_shape}
        if len(rest) > 1 or len({len(shape) for shape in input_shape}) > 1:
            raise ValueError(
                f"{self._who}: got shapes {input_shape}, "
                f"expected shapes that differ in axis {axis} only"
            )
        first = input_shape[0]
        return (*first[:axis], sum(shape[axis] for shape in input_shape), *first[axis + 1 :])

    def lower(self, to: Lowering, *inputs: Value) -> Value:
        tensors, moved = to.alike(inputs)
        axis = sample_axis(self._who, self.axis, tensors[0].num_dims)
        return Value(
            to.ff.concat(tensors, Value(tensors[0], moved).core_axis(axis), name=self.name), moved
        )


def add(inputs: Sequence[KerasTensor], **arguments: Any) -> KerasTensor:
    """Add(**arguments)(inputs)."""
    return Add(**arguments)(list(inputs))


def subtract(inputs: Sequence[KerasTensor], **arguments: Any) -> KerasTensor:
    """Subtract(**arguments)(inputs)."""
    return Subtract(**arguments)(list(inputs))


def multiply(inputs: Sequence[KerasTensor], **arguments: Any) -> KerasTensor:
    """Multiply(**arguments)(inputs)."""
    return Multiply(**arguments)(list(inputs))


def maximum(inputs: Sequence[KerasTensor], **arguments: Any) -> KerasTensor:
    """Maximum(**arguments)(inputs)."""
    return Maximum(**arguments)(list(inputs))


def minimum(inputs: Sequence[KerasTensor], **arguments: Any) -> KerasTensor:
    """Minimum(**arguments)(inputs)."""
    return Minimum(**arguments)(list(inputs))


def concatenate(inputs: Sequence[KerasTensor], axis: int = -1, **arguments: Any) -> KerasTensor:
    """Concatenate(axis, **arguments)(inputs)."""
    return Concatenate(axis, **arguments)(list(inputs))
