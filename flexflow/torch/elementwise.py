"""Rows of elementwise operators: arithmetic with broadcasting and type promotion, functions,
activations, casts."""

from __future__ import annotations

import operator
from typing import Any, Union, cast

import torch
import torch.nn.functional as fn
from torch import nn

from flexflow.core import Tensor
from flexflow.torch.builder import Builder, Value, dtype, is_tensor, shape
from flexflow.torch.rows import UnsupportedError, lowers

Number = Union[int, float, bool]
Operand = Union[Value, Number]


# ---- arithmetic ----
@lowers(torch.add, operator.add, operator.iadd, "add", "add_")
def add(b: Builder, input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    x, y = b.promote(input, times(b, other, alpha))
    if is_tensor(x) and is_tensor(y):
        return b.op("add", x, y)
    return b.op("scalar_add", x, scalar=y) if is_tensor(x) else b.op("scalar_add", y, scalar=x)


@lowers(
    torch.sub, torch.subtract, operator.sub, operator.isub, "sub", "sub_", "subtract", "subtract_"
)
def sub(b: Builder, input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    x, y = b.promote(input, times(b, other, alpha))
    if is_tensor(x) and is_tensor(y):
        return b.op("subtract", x, y)
    if is_tensor(x):
        return b.op("scalar_sub", x, scalar=y)
    return b.op("scalar_add", b.step("negative", y), scalar=x)


@lowers(torch.rsub, "rsub")
def rsub(b: Builder, input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    return sub(b, other, input, alpha=alpha)


@lowers(
    torch.mul, torch.multiply, operator.mul, operator.imul, "mul", "mul_", "multiply", "multiply_"
)
def mul(b: Builder, input: Operand, other: Operand) -> Tensor:
    x, y = b.promote(input, other)
    if is_tensor(x) and is_tensor(y):
        return b.op("multiply", x, y)
    return (
        b.op("scalar_multiply", x, scalar=y)
        if is_tensor(x)
        else b.op("scalar_multiply", y, scalar=x)
    )


@lowers(
    *(torch.div, torch.divide, torch.true_divide, operator.truediv, operator.itruediv),
    *("div", "div_", "divide", "divide_", "true_divide", "true_divide_"),
    rounding_mode=(None,),
)
def div(b: Builder, input: Operand, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    x, y = b.promote(input, other, floating=True)
    if is_tensor(x) and is_tensor(y):
        return b.op("divide", x, y)
    if is_tensor(x):
        return b.op("scalar_true_divide", x, scalar=y)
    return b.op("divide", b.full((1,), x, dtype(y)), y)


@lowers(torch.reciprocal, "reciprocal", "reciprocal_")
def reciprocal(b: Builder, input: Value) -> Tensor:
    return div(b, 1, input)


@lowers(torch.pow, operator.pow, operator.ipow, "pow", "pow_")
def power(b: Builder, input: Operand, exponent: Operand) -> Tensor:
    if is_tensor(exponent) or not is_tensor(input):
        raise UnsupportedError("exponent: a tensor, but only a number is supported")
    if not dtype(input).is_floating_point:
        raise UnsupportedError(f"a power of {dtype(input)}, but only floats are supported")
    return b.op("pow", input, exponent=exponent)


@lowers(torch.maximum, "maximum")
def maximum(b: Builder, input: Value, other: Value) -> Tensor:
    return b.op("maximum", *b.promote(input, other))


@lowers(torch.minimum, "minimum")
def minimum(b: Builder, input: Value, other: Value) -> Tensor:
    return b.op("minimum", *b.promote(input, other))


@lowers(torch.clamp, torch.clip, "clamp", "clamp_", "clip", "clip_")
def clamp(
    b: Builder, input: Value, min: Operand | None = None, max: Operand | None = None
) -> Value:
    bounded = input
    for bound, op in ((min, "maximum"), (max, "minimum")):
        if bound is not None:
            x, y = b.promote(bounded, bound)
            bounded = b.op(op, x, y if is_tensor(y) else b.full((1,), y, dtype(x)))
    return bounded


def times(b: Builder, operand: Operand, alpha: Number) -> Operand:
    """The second operand of ``add`` and ``sub``, scaled."""
    if alpha == 1:
        return operand
    if is_tensor(operand):
        return b.step("scalar_multiply", operand, scalar=alpha)
    return cast(Number, operand) * alpha


# ---- functions of one tensor ----
def _function(name: str, *targets: Any) -> None:
    """A row for a function that has no arguments but its input, and is ``name`` in FlexFlow."""

    @lowers(*targets)
    def lower(b: Builder, input: Value, inplace: bool = False) -> Tensor:
        return b.op(name, b.floating(input))


_function("exp", torch.exp, "exp", "exp_")
_function("log", torch.log, "log", "log_")
_function("sqrt", torch.sqrt, "sqrt", "sqrt_")
_function("rsqrt", torch.rsqrt, "rsqrt", "rsqrt_")
_function("sin", torch.sin, "sin", "sin_")
_function("cos", torch.cos, "cos", "cos_")
_function("sigmoid", torch.sigmoid, torch.special.expit, nn.Sigmoid, "sigmoid", "sigmoid_")
_function("tanh", torch.tanh, nn.Tanh, "tanh", "tanh_")
_function("silu", fn.silu, nn.SiLU)


def _arithmetic(name: str, *targets: Any) -> None:
    """A row for a function of one tensor that keeps integers integers."""

    @lowers(*targets)
    def lower(b: Builder, input: Value, inplace: bool = False) -> Tensor:
        return b.op(name, input)


_arithmetic(
    "negative", torch.neg, torch.negative, operator.neg, "neg", "neg_", "negative", "negative_"
)
_arithmetic("abs", torch.abs, torch.absolute, operator.abs, "abs", "abs_", "absolute")
_arithmetic("square", torch.square, "square", "square_")
_arithmetic("relu", torch.relu, torch.relu_, fn.relu, fn.relu_, nn.ReLU, "relu", "relu_")


# ---- activations ----
@lowers(fn.elu, fn.elu_, nn.ELU)
def elu(b: Builder, input: Value, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return b.op("elu", b.floating(input), alpha=alpha)


@lowers(fn.leaky_relu, fn.leaky_relu_, nn.LeakyReLU)
def leaky_relu(
    b: Builder, input: Value, negative_slope: float = 0.01, inplace: bool = False
) -> Tensor:
    return b.op("leaky_relu", b.floating(input), alpha=negative_slope)


@lowers(fn.gelu, nn.GELU, approximate=("none", "tanh"))
def gelu(b: Builder, input: Value, approximate: str = "none") -> Tensor:
    return b.op("gelu", b.floating(input), approximate=approximate == "tanh")


@lowers(fn.hardtanh, fn.hardtanh_, nn.Hardtanh, nn.ReLU6)
def hardtanh(
    b: Builder, input: Value, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Value:
    return clamp(b, input, min_val, max_val)


@lowers(fn.relu6)
def relu6(b: Builder, input: Value, inplace: bool = False) -> Value:
    return clamp(b, input, 0, 6)


def _normalized(op: str, *targets: Any) -> None:
    """A row for softmax or its logarithm."""

    @lowers(*targets)
    def lower(
        b: Builder,
        input: Value,
        dim: int | None = None,
        _stacklevel: int = 3,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        # PyTorch's rule for a missing dim.
        dim = (0 if len(shape(input)) in (0, 1, 3) else 1) if dim is None else dim
        return b.op(op, b.cast(input, dtype) if dtype else b.floating(input), axis=dim)


_normalized("softmax", fn.softmax, torch.softmax, nn.Softmax, "softmax")
_normalized("log_softmax", fn.log_softmax, torch.log_softmax, nn.LogSoftmax, "log_softmax")


# ---- types and copies ----
@lowers("to")
def to(b: Builder, input: Value, *args: Any, **kwargs: Any) -> Value:
    # A device, blocking and memory formats do not matter here: where tensors lie is FlexFlow's own
    # business.
    for given in (*args, *kwargs.values()):
        if isinstance(given, torch.dtype):
            return b.cast(input, given)
        if is_tensor(given):
            return b.cast(input, dtype(given))
    return input


@lowers("type_as")
def type_as(b: Builder, input: Value, other: Value) -> Value:
    return b.cast(input, dtype(other))


def _conversion(target: torch.dtype, name: str) -> None:
    """A row for a method that is a cast."""

    @lowers(name)
    def lower(b: Builder, input: Value) -> Value:
        return b.cast(input, target)


for _dtype, _name in (
    *((torch.float32, "float"), (torch.float64, "double"), (torch.float16, "half")),
    *(
        (torch.bfloat16, "bfloat16"),
        (torch.int32, "int"),
        (torch.int64, "long"),
        (torch.bool, "bool"),
    ),
):
    _conversion(_dtype, _name)


@lowers(torch.clone, nn.Identity, "contiguous", "clone", "cpu", "cuda")
def same(b: Builder, input: Value, *args: Any, **kwargs: Any) -> Value:
    """Tensors here are values: a copy, or a copy elsewhere, is the tensor itself."""
    return input
