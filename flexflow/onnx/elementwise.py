"""Rows of elementwise operators: arithmetic with broadcasting, functions, activations, casts."""

from __future__ import annotations

import functools

import numpy as np

from flexflow.core import Tensor
from flexflow.onnx.builder import Builder, Value, dtype, shape
from flexflow.onnx.rows import UnsupportedError, lowers

# The number of a type in the file: what FlexFlow's operators call it.
TYPES = {
    1: "float32",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    16: "bfloat16",
}


# ---- arithmetic ----
@lowers("Add")
def add(b: Builder, x: Value, y: Value) -> Tensor:
    for one, other in ((x, y), (y, x)):
        number = b.number(other, len(shape(one)))
        if number is not None:
            return b.op("scalar_add", one, scalar=number)
    return b.op("add", x, y)


@lowers("Sub")
def sub(b: Builder, x: Value, y: Value) -> Tensor:
    number = b.number(y, len(shape(x)))
    return b.op("subtract", x, y) if number is None else b.op("scalar_sub", x, scalar=number)


@lowers("Mul")
def mul(b: Builder, x: Value, y: Value) -> Tensor:
    for one, other in ((x, y), (y, x)):
        number = b.number(other, len(shape(one)))
        if number is not None:
            return b.op("scalar_multiply", one, scalar=number)
    return b.op("multiply", x, y)


@lowers("Div")
def div(b: Builder, x: Value, y: Value) -> Tensor:
    if dtype(x).kind in "iub":
        raise UnsupportedError("a quotient of integers, but only floats are supported")
    number = b.number(y, len(shape(x)))
    return b.op("divide", x, y) if number is None else b.op("scalar_true_divide", x, scalar=number)


@lowers("Pow")
def power(b: Builder, x: Value, exponent: Value) -> Tensor:
    values = b.known(exponent, "the exponent")
    if values.size != 1:
        raise UnsupportedError(
            f"an exponent of shape {values.shape}, but only a number is supported"
        )
    return b.op("pow", x, exponent=float(values.item()))


def _variadic(op_type: str, kind: str) -> None:
    """A row for an operator that combines any number of tensors, two by two."""

    @lowers(op_type)
    def lower(b: Builder, *inputs: Value) -> Value:
        if len(inputs) == 1:
            return inputs[0]
        so_far = functools.reduce(functools.partial(b.step, kind), inputs[:-1])
        return b.op(kind, so_far, inputs[-1])


_variadic("Max", "maximum")
_variadic("Min", "minimum")
_variadic("Sum", "add")


# ---- functions of one tensor, and activations ----
def _function(op_type: str, kind: str) -> None:
    """A row for a function without attributes."""

    @lowers(op_type)
    def lower(b: Builder, x: Value) -> Tensor:
        return b.op(kind, x)


for _type, _kind in {
    "Abs": "abs",
    "Cos": "cos",
    "Exp": "exp",
    "Log": "log",
    "Neg": "negative",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Sin": "sin",
    "Sqrt": "sqrt",
    "Tanh": "tanh",
}.items():
    _function(_type, _kind)


@lowers("Reciprocal")
def reciprocal(b: Builder, x: Value) -> Tensor:
    return b.op("divide", b.constant("one", np.ones(1, dtype(x))), x)


@lowers("Elu")
def elu(b: Builder, x: Value, *, alpha: float = 1.0) -> Tensor:
    return b.op("elu", x, alpha=alpha)


@lowers("LeakyRelu")
def leaky_relu(b: Builder, x: Value, *, alpha: float = 0.01) -> Tensor:
    return b.op("leaky_relu", x, alpha=alpha)


@lowers("Gelu", approximate=("none", "tanh"))
def gelu(b: Builder, x: Value, *, approximate: str = "none") -> Tensor:
    return b.op("gelu", x, approximate=approximate == "tanh")


@lowers("Clip")
def clip(
    b: Builder,
    x: Value,
    low: Value | None = None,
    high: Value | None = None,
    *,
    min: float | None = None,
    max: float | None = None,
) -> Value:
    bounds = (("min", "maximum", low, min), ("max", "minimum", high, max))
    for name, kind, operand, attribute in bounds:
        if attribute is not None:
            operand = b.constant(name, np.full(1, attribute, dtype(x)))
        if operand is not None:
            x = b.op(kind, x, operand)
    return x


def _normalized(op_type: str, kind: str) -> None:
    """Rows for softmax or its logarithm."""

    @lowers(op_type, since=13)
    def lower(b: Builder, x: Value, *, axis: int = -1) -> Tensor:
        return b.op(kind, x, axis=axis)

    @lowers(op_type)
    def over_the_rest(b: Builder, x: Value, *, axis: int = 1) -> Tensor:
        """Over all axes from ``axis`` on, as one."""
        sizes = shape(x)
        if axis % len(sizes) == len(sizes) - 1:
            return b.op(kind, x, axis=-1)
        rows = b.step("reshape", x, shape=[*sizes[:axis], -1])
        return b.op("reshape", b.step(kind, rows, axis=-1), shape=list(sizes))


_normalized("Softmax", "softmax")
_normalized("LogSoftmax", "log_softmax")


# ---- types and copies ----
@lowers("Cast")
def cast(b: Builder, x: Value, *, to: int, saturate: int = 1) -> Tensor:
    # `saturate` speaks of 8-bit floats only.
    if to not in TYPES:
        raise UnsupportedError(f"to={to}, a type that FlexFlow has not")
    return b.op("cast", x, dtype=TYPES[to])


@lowers("Identity")
def identity(b: Builder, x: Value) -> Value:
    return x


@lowers("Dropout")
def dropout(
    b: Builder,
    x: Value,
    ratio_input: Value | None = None,
    mode: Value | None = None,
    *,
    ratio: float = 0.5,
    seed: int | None = None,
    is_test: int = 0,
) -> Value:
    if ratio_input is not None:
        ratio = float(b.known(ratio_input, "the ratio").item())
    if ratio == 0 or not _drops(b, mode, is_test):
        return x
    return b.op("dropout", x, rate=ratio, seed=seed)


def _drops(b: Builder, mode: Value | None, is_test: int) -> bool:
    """Whether a dropout trains. Before version 12 a file does not say; it then does."""
    if b.training is not None:
        return b.training
    if b.opset < 12:
        return not is_test
    return mode is not None and bool(b.known(mode, "the training mode").item())
