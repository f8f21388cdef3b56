"""Layers that multiply tensors by equation."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from flexflow.core.products import einsum_equation
from flexflow.keras import activations, backend
from flexflow.keras.activations import ActivationLike
from flexflow.keras.graph import KerasTensor, Shape
from flexflow.keras.initializers import InitializerLike
from flexflow.keras.layers.base import Layer
from flexflow.keras.layers.core import activate, sample_axis
from flexflow.keras.lowering import Lowering, Value
from flexflow.keras.regularizers import RegularizerLike


class Dot(Layer):
    """Products of two tensors, sample by sample, summed over an axis of each.

    Called on a list of two tensors; output (batch, other axes of the first, other axes of the
    second), or (batch, 1) where there are none.

    Args:
        axes: the axis of both, or a pair of axes; not the batch's.
        normalize: must be False.

    Raises:
        ValueError: not two tensors, or axes of different sizes.

    >>> from flexflow.keras import Input
    >>> Dot(axes=(2, 1))([Input((4, 3)), Input((3, 5))]).shape
    (None, 4, 5)
    """

    def __init__(
        self, axes: int | Sequence[int], normalize: bool = False, **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        backend.refuse(self._who, neutral=(False,), normalize=normalize)
        pair = (axes, axes) if isinstance(axes, int) else tuple(axes)
        if len(pair) != 2:
            raise ValueError(f"{self._who}: axes={axes!r}, expected an axis or a pair of them")
        self.axes = pair

    def check_inputs(self, shapes: Sequence[Shape]) -> None:
        if len(shapes) != 2:
            raise ValueError(f"{self._who}: got {len(shapes)} inputs, expected a list of 2 tensors")
        sizes = [shape[self._axis(k, shape)] for k, shape in enumerate(shapes)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"{self._who}: got shapes {list(shapes)}, expected equal sizes on the axes "
                f"{self.axes}"
            )

    def _axis(self, which: int, shape: Sequence[Any]) -> int:
        return sample_axis(self._who, self.axes[which], len(shape))

    def compute_output_shape(self, input_shape: Any) -> Shape:
        rest = [
            size
            for k, shape in enumerate(input_shape)
            for axis, size in enumerate(shape)
            if axis not in (0, self._axis(k, shape))
        ]
        return (None, *(rest or [1]))

    def lower(self, to: Lowering, a: Value, b: Value) -> Value:
        x, y = to.plain(a), to.plain(b)
        # a: the batch; z: what is summed over.
        first = list(ascii_lowercase[: x.num_dims])
        second = ["a", *ascii_uppercase[1 : y.num_dims]]
        first[self._axis(0, x.dims)] = second[self._axis(1, y.dims)] = "z"
        rest = "".join(one for one in (*first[1:], *second[1:]) if one != "z")
        product = to.ff.einsum(f"{''.join(first)},{''.join(second)}->a{rest}", x, y, self.name)
        return Value(product if rest else to.ff.reshape(product, [x.dims[0], 1]))


class EinsumDense(Layer):
    """activation(einsum(equation, x, kernel) + bias): a dense layer over any axes.

    The kernel's shape follows from the equation and the shapes of input and output; the bias has
    the output's sizes on ``bias_axes`` and 1 elsewhere after the first of them.

    Args:
        equation: such as "abc,cd->abd"; a letter for each axis, the first that of the batch.
        output_shape: of a sample, or the size of its only axis.
        activation: a name of activations.get(), or None.
        bias_axes: letters of the output's axes, or None for no bias.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer: by name or
            object.

    Raises:
        ValueError: the equation does not fit the shapes. NotImplementedError: "..." in it.

    >>> from flexflow.keras import Input
    >>> EinsumDense("abc,cde->abde", (None, 2, 5), bias_axes="de")(Input((4, 3))).shape
    (None, 4, 2, 5)
    """

    def __init__(
        self,
        equation: str,
        output_shape: int | Sequence[Any],
        activation: ActivationLike = None,
        bias_axes: str | None = None,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike = None,
        bias_regularizer: RegularizerLike = None,
        activity_regularizer: None = None,
        kernel_constraint: None = None,
        bias_constraint: None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        backend.refuse(
            self._who,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
        )
        sides = "".join(equation.split()).split("->") if isinstance(equation, str) else []
        terms = [*sides[0].split(","), *sides[1:]] if sides else []
        if len(terms) != 3 or len(sides) != 2:
            raise ValueError(f"{self._who}: equation={equation!r}, expected one like 'abc,cd->abd'")
        if "..." in equation:
            raise NotImplementedError(
                f"{self._who}: equation={equation!r}: '...' is not supported yet; name the axes"
            )
        self.terms = terms
        sizes = (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
        self.sizes: Shape = (None, *sizes)
        self.activation = activations.get(activation, self._who)
        self.bias_axes = bias_axes
        if bias_axes and not set(bias_axes) <= set(terms[2][1:]):
            raise ValueError(
                f"{self._who}: bias_axes={bias_axes!r}, expected some of {terms[2][1:]!r}"
            )
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer

    def _letters(self, input_shape: Shape) -> dict[str, Any]:
        """The size of each axis, by letter."""
        data, kernel, result = self.terms
        fits = len(data) == len(input_shape) and len(result) == len(self.sizes)
        if not fits or data[0] != result[0] or data[0] in kernel:
            raise ValueError(
                f"{self._who}: the equation {data},{kernel}->{result} does not fit an input of "
                f"shape {input_shape} and an output of shape {self.sizes}"
            )
        known = dict(zip(data, input_shape))
        for letter, size in zip(result, self.sizes):
            if size is not None and known.setdefault(letter, size) != size:
                raise ValueError(
                    f"{self._who}: output_shape={self.sizes[1:]} has {size} for axis {letter!r}, "
                    f"which has {known[letter]} in the input of shape {input_shape}"
                )
        missing = [letter for letter in kernel if known.get(letter) is None]
        if missing:
            raise ValueError(f"{self._who}: nothing says the size of the axes {missing}")
        return known

    def build(self, input_shape: Shape) -> None:
        known = self._letters(input_shape)
        for axis in range(1, len(input_shape)):
            self.fix_axis(input_shape, axis, "an axis")
        self.kernel = self.add_weight(
            "kernel",
            tuple(known[letter] for letter in self.terms[1]),
            self.kernel_initializer,
            self.kernel_regularizer,
        )
        self.bias = None
        if self.bias_axes:
            result = self.terms[2]
            begin = min(map(result.index, self.bias_axes))
            shape = tuple(
                known[letter] if letter in self.bias_axes else 1 for letter in result[begin:]
            )
            self.bias = self.add_weight("bias", shape, self.bias_initializer, self.bias_regularizer)
        self.built = True

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        known = self._letters(input_shape)
        return (None, *(known[letter] for letter in self.terms[2][1:]))

    def lower(self, to: Lowering, x: Value) -> Value:
        data, kernel, result = self.terms
        equation = einsum_equation(
            f"{data},{kernel}->{result}", [len(data), len(kernel)], self.name
        )
        y = to.op(self, "einsum", to.plain(x), self.kernel, equation=equation)
        if self.bias is not None:
            y = to.ff.add(y, to.parameter(self.bias))
        return activate(to, self.activation, Value(y))


def dot(
    inputs: Sequence[KerasTensor], axes: int | Sequence[int] = -1, **arguments: Any
) -> KerasTensor:
    """Dot(axes, **arguments)(inputs)."""
    return Dot(axes, **arguments)(list(inputs))
