"""Layers that put the same numbers into another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flexflow.keras import backend
from flexflow.keras.graph import Shape, sizes
from flexflow.keras.layers.base import Layer
from flexflow.keras.lowering import Lowering, Value


class Flatten(Layer):
    """All axes of a sample as one: input (batch, …), output (batch, product of …).

    Args:
        data_format: "channels_first" for an input whose axis 1 are the channels: they become the
            innermost axis, so that the output is that of the same model with channels_last; None
            for backend.image_data_format().

    >>> from flexflow.keras import Input
    >>> Flatten()(Input((4, 4, 3))).shape
    (None, 48)
    """

    any_dtype = True

    def __init__(self, data_format: str | None = None, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.data_format = backend.data_format_or_default(data_format, self._who)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (None, math.prod(sizes(input_shape)))

    def lower(self, to: Lowering, x: Value) -> Value:
        tensor = to.plain(x)
        if self.data_format == "channels_first":
            tensor = to.plain(Value(tensor, moved=tensor.num_dims > 2))
        return Value(
            to.ff.reshape(tensor, [tensor.dims[0], math.prod(tensor.dims[1:])], name=self.name)
        )


class Reshape(Layer):
    """A sample in another shape with as many numbers: input (batch, …), output (batch,
    *target_shape).

    Args:
        target_shape: without the batch; one size may be -1, which stands for what remains.

    Raises:
        ValueError: the sizes do not go together.

    >>> from flexflow.keras import Input
    >>> Reshape((-1, 7))(Input((28, 2))).shape
    (None, 8, 7)
    """

    any_dtype = True

    def __init__(self, target_shape: Sequence[int], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.target_shape = tuple(target_shape)
        if self.target_shape.count(-1) > 1 or any(
            type(size) is not int or size < -1 for size in self.target_shape
        ):
            raise ValueError(
                f"{self._who}: target_shape={target_shape}, expected whole numbers, "
                "at most one of them -1; "
                "the batch is left out"
            )

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        total = math.prod(sizes(input_shape))
        known = math.prod(size for size in self.target_shape if size != -1)
        rest = total // known if -1 in self.target_shape and known else 1
        if known * rest != total:
            raise ValueError(
                f"{self._who}: a sample of shape {input_shape[1:]} has {total} numbers, "
                f"which do not fit target_shape={self.target_shape}"
            )
        return (None, *(rest if size == -1 else size for size in self.target_shape))

    def lower(self, to: Lowering, x: Value) -> Value:
        tensor = to.plain(x)
        shape = self.compute_output_shape(tuple(tensor.dims))
        return Value(to.ff.reshape(tensor, (tensor.dims[0], *sizes(shape)), name=self.name))


class Permute(Layer):
    """The axes of a sample in another order.

    Args:
        dims: the input's axes in the order of the output's; they are counted from 1, since the
            batch stays in front. (FlexFlow's Permute had the batch in it, as 0.)

    Raises:
        ValueError: not each axis once.

    >>> from flexflow.keras import Input
    >>> Permute((2, 1))(Input((4, 3))).shape
    (None, 3, 4)
    """

    any_dtype = True

    def __init__(self, dims: Sequence[int], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.dims = tuple(dims)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(
                f"{self._who}: dims={dims}, expected the numbers 1 to {len(self.dims)}, each once; "
                "the batch is left out, and axes are counted from 1"
            )

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        if len(input_shape) != len(self.dims) + 1:
            raise ValueError(
                f"{self._who}: dims={self.dims} for an input of shape {input_shape}, "
                f"expected {len(input_shape) - 1} axes"
            )
        return (input_shape[0], *(input_shape[axis] for axis in self.dims))

    def lower(self, to: Lowering, x: Value) -> Value:
        return Value(to.ff.transpose(to.plain(x), [0, *self.dims], name=self.name))
