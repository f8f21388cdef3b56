"""Layers that work on single elements, and reductions: one line each.

``inplace`` and ``inplace_a`` are FlexFlow's: memory is shared wherever that changes no result, so
they change nothing. ``name`` is made unique by a suffix. Floating-point operators refuse integers
with a TypeError unless it is said otherwise. In the examples, ``x`` is a float tensor of shape
(64, 16).
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Union

import numpy as np

from flexflow.core.arrays import convert
from flexflow.core.builder import GraphBuilder
from flexflow.core.checks import integers, real, shown
from flexflow.core.tensor import Tensor
from flexflow.core.types import (
    DTYPE_NAMES,
    DataType,
    DataTypeLike,
    as_data_type,
    is_floating,
    promote,
)

Axes = Union[int, Sequence[int]]


class ElementwiseOps(GraphBuilder):
    """Methods of FFModel. Results have the shape of the input unless it is said otherwise."""

    def _unary(self, kind: str, x: Tensor, name: str | None, **attrs: float) -> Tensor:
        who = f"{name or kind}: "
        return self._op(kind, [x], name, **{key: real(v, who + key) for key, v in attrs.items()})

    def _with_scalar(self, kind: str, x: Tensor, scalar: float, name: str | None) -> Tensor:
        """Numbers travel as doubles, which not all integers of 64 bits fit."""
        who = f"{name or kind}: scalar"
        self._number(x, f"{name or kind}: input 0")
        if isinstance(scalar, bool) or not isinstance(scalar, Real):
            raise TypeError(f"{who} is {shown(scalar)}, expected a number")
        if is_floating(x.data_type):
            # Infinity and NaN are as good as any, but they come as such.
            value = scalar if isinstance(scalar, (float, np.floating)) else real(scalar, who)
            return self._op(kind, [x], name, scalar=value)
        if not isinstance(scalar, Integral) and not float(scalar).is_integer():
            raise TypeError(
                f"{who} is {scalar}, but {x.name} is of {x.dtype}; give an integer, or cast() it"
            )
        exact = int(convert(int(scalar), x.data_type, who))
        if int(float(exact)) != exact:
            raise ValueError(
                f"{who} is {exact}, which no double holds; give create_constant(dims, {exact}, "
                f"{x.data_type})"
            )
        return self._op(kind, [x], name, scalar=float(exact))

    def _of_floats(self, kind: str, x: Tensor, name: str | None) -> Tensor:
        """FlexFlow casts integers to float for some functions."""
        self._number(x, f"{name or kind}: input 0")
        return self._op(kind, [x if is_floating(x.data_type) else self.cast(x)], name)

    def _binary(self, kind: str, x: Tensor, y: Tensor, name: str | None) -> Tensor:
        for i, operand in enumerate((x, y)):
            self._number(operand, f"{name or kind}: input {i}")
        common = promote(x.data_type, y.data_type)
        pair = [t if t.data_type is common else self.cast(t, common) for t in (x, y)]
        return self._op(kind, pair, name)

    def _reduce(self, kind: str, x: Tensor, axes: Axes, keepdims: bool, name: str | None) -> Tensor:
        several = isinstance(axes, (list, tuple, np.ndarray))
        numbers = integers(axes if several else [axes], f"{name or kind}: axes")
        return self._op(kind, [x], name, axes=numbers, keepdims=keepdims)

    # ---- activations ----
    def relu(self, input: Tensor, inplace: bool = True, name: str | None = None) -> Tensor:
        """max(x, 0).

        >>> ffmodel.relu(x).dims
        (64, 16)
        """
        return self._unary("relu", input, name)

    def sigmoid(self, input: Tensor, name: str | None = None) -> Tensor:
        """1 / (1 + exp(-x))."""
        return self._unary("sigmoid", input, name)

    def tanh(self, input: Tensor, name: str | None = None) -> Tensor:
        """The hyperbolic tangent."""
        return self._unary("tanh", input, name)

    def elu(
        self,
        input: Tensor,
        inplace: bool = True,
        name: str | None = None,
        *,
        alpha: float = 1.0,
    ) -> Tensor:
        """x where x > 0, else alpha * (exp(x) - 1) (Clevert et al., 2015)."""
        return self._unary("elu", input, name, alpha=alpha)

    def leaky_relu(self, input: Tensor, alpha: float = 0.01, name: str | None = None) -> Tensor:
        """x where x > 0, else alpha * x."""
        return self._unary("leaky_relu", input, name, alpha=alpha)

    def gelu(
        self,
        input: Tensor,
        inplace: bool = True,
        name: str | None = None,
        *,
        approximate: bool = False,
    ) -> Tensor:
        """x * Phi(x), Phi the normal distribution function (Hendrycks and Gimpel, 2016);
        ``approximate`` takes their form with tanh."""
        return self._op("gelu", [input], name, approximate=approximate)

    def silu(self, input: Tensor, name: str | None = None) -> Tensor:
        """x * sigmoid(x)."""
        return self._unary("silu", input, name)

    # ---- functions ----
    def exp(self, x: Tensor, name: str | None = None) -> Tensor:
        """The exponential; of an integer tensor in float32.

        >>> ids = ffmodel.create_tensor([64, 16], DataType.DT_INT32)
        >>> ffmodel.exp(ids).data_type
        <DataType.DT_FLOAT: 44>
        """
        return self._of_floats("exp", x, name)

    def sin(self, x: Tensor, name: str | None = None) -> Tensor:
        """The sine of radians; of an integer tensor in float32."""
        return self._of_floats("sin", x, name)

    def cos(self, x: Tensor, name: str | None = None) -> Tensor:
        """The cosine of radians; of an integer tensor in float32."""
        return self._of_floats("cos", x, name)

    def log(self, x: Tensor, name: str | None = None) -> Tensor:
        """The natural logarithm; of an integer tensor in float32."""
        return self._of_floats("log", x, name)

    def sqrt(self, x: Tensor, name: str | None = None) -> Tensor:
        """The square root; of an integer tensor in float32."""
        return self._of_floats("sqrt", x, name)

    def rsqrt(self, input: Tensor, name: str | None = None) -> Tensor:
        """1 / sqrt(x)."""
        return self._unary("rsqrt", input, name)

    def pow(self, input: Tensor, exponent: float, name: str | None = None) -> Tensor:
        """x to the power of a number.

        >>> ffmodel.pow(x, 2.0).dims
        (64, 16)
        """
        return self._unary("pow", input, name, exponent=exponent)

    def square(self, input: Tensor, name: str | None = None) -> Tensor:
        """x * x."""
        return self._unary("square", input, name)

    def abs(self, input: Tensor, name: str | None = None) -> Tensor:
        """The absolute value."""
        return self._unary("abs", input, name)

    def negative(self, input: Tensor, name: str | None = None) -> Tensor:
        """-x."""
        return self._unary("negative", input, name)

    def identity(self, input: Tensor, name: str | None = None) -> Tensor:
        """x itself."""
        return self._unary("identity", input, name)

    def cast(
        self,
        input: Tensor,
        data_type: DataTypeLike = DataType.DT_FLOAT,
        name: str | None = None,
    ) -> Tensor:
        """The same values in another type; floats lose their fraction as integers, and everything
        but 0 is True. Gradients pass between floating-point types only.

        >>> ffmodel.cast(x, DataType.DT_INT32).data_type
        <DataType.DT_INT32: 41>
        """
        kind = DTYPE_NAMES[as_data_type(data_type, name or "cast")]
        return self._op("cast", [input], name, dtype=kind)

    # ---- with a number ----
    def scalar_add(
        self, input: Tensor, scalar: float, inplace: bool = True, name: str | None = None
    ) -> Tensor:
        """x + scalar. Of an integer tensor, the scalar must be an integer that its type and a
        double hold exactly; so below.

        >>> ffmodel.scalar_add(x, 1.5).dims
        (64, 16)
        """
        return self._with_scalar("scalar_add", input, scalar, name)

    def scalar_sub(
        self, input: Tensor, scalar: float, inplace: bool = True, name: str | None = None
    ) -> Tensor:
        """x - scalar."""
        return self._with_scalar("scalar_sub", input, scalar, name)

    def scalar_multiply(
        self, input: Tensor, scalar: float, inplace: bool = True, name: str | None = None
    ) -> Tensor:
        """x * scalar."""
        return self._with_scalar("scalar_multiply", input, scalar, name)

    def scalar_true_divide(
        self, input: Tensor, scalar: float, inplace: bool = True, name: str | None = None
    ) -> Tensor:
        """x / scalar."""
        return self._with_scalar("scalar_true_divide", input, scalar, name)

    # ---- of two tensors ----
    def add(self, x: Tensor, y: Tensor, inplace_a: bool = False, name: str | None = None) -> Tensor:
        """x + y. As for the operators below: shapes broadcast as NumPy's do (each may be the larger
        one), the operand of the lower type is cast to the other's.

        Raises:
            ValueError: the shapes do not broadcast.

        >>> row = ffmodel.create_tensor([1, 16], DataType.DT_DOUBLE)
        >>> ffmodel.add(x, row)
        <Tensor add: DT_DOUBLE [64, 16]>
        """
        return self._binary("add", x, y, name)

    def subtract(
        self, x: Tensor, y: Tensor, inplace_a: bool = False, name: str | None = None
    ) -> Tensor:
        """x - y, like ``add``."""
        return self._binary("subtract", x, y, name)

    def multiply(
        self, x: Tensor, y: Tensor, inplace_a: bool = False, name: str | None = None
    ) -> Tensor:
        """x * y, like ``add``."""
        return self._binary("multiply", x, y, name)

    def divide(
        self, x: Tensor, y: Tensor, inplace_a: bool = False, name: str | None = None
    ) -> Tensor:
        """x / y, like ``add``; one of them must be of floats."""
        return self._binary("divide", x, y, name)

    def max(self, x: Tensor, y: Tensor, inplace_a: bool = False, name: str | None = None) -> Tensor:
        """The larger of x and y, like ``add``; equal ones share the gradient."""
        return self._binary("maximum", x, y, name)

    def min(self, x: Tensor, y: Tensor, inplace_a: bool = False, name: str | None = None) -> Tensor:
        """The smaller of x and y, like ``add``; equal ones share the gradient."""
        return self._binary("minimum", x, y, name)

    # ---- reductions ----
    def reduce_sum(
        self, input: Tensor, axes: Axes, keepdims: bool = False, name: str | None = None
    ) -> Tensor:
        """The sum over some axes (negative ones count from the last; none: over all), which stay as
        1 with ``keepdims`` and go without.

        Raises:
            ValueError: there is no such axis, or it is named twice.

        >>> ffmodel.reduce_sum(x, [1]).dims, ffmodel.reduce_sum(x, [1], keepdims=True).dims
        ((64,), (64, 1))
        """
        return self._reduce("reduce_sum", input, axes, keepdims, name)

    def reduce_mean(
        self, input: Tensor, axes: Axes, keepdims: bool = False, name: str | None = None
    ) -> Tensor:
        """The mean over some axes, like ``reduce_sum``."""
        return self._reduce("reduce_mean", input, axes, keepdims, name)

    def mean(
        self, input: Tensor, dims: Axes, keepdims: bool = False, name: str | None = None
    ) -> Tensor:
        """The mean over some axes; FlexFlow's name for ``reduce_mean``."""
        return self.reduce_mean(input, dims, keepdims, name)

    def reduce_max(
        self, input: Tensor, axes: Axes, keepdims: bool = False, name: str | None = None
    ) -> Tensor:
        """The largest value over some axes, like ``reduce_sum``; equal ones share the gradient."""
        return self._reduce("reduce_max", input, axes, keepdims, name)

    def reduce_min(
        self, input: Tensor, axes: Axes, keepdims: bool = False, name: str | None = None
    ) -> Tensor:
        """The smallest value over some axes, like ``reduce_sum``; equal ones share the gradient."""
        return self._reduce("reduce_min", input, axes, keepdims, name)
