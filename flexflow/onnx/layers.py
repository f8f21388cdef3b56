"""Rows of layers: dense, convolution, pooling, normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flexflow.core import Tensor
from flexflow.onnx.builder import Builder, Missing, Value, dtype, shape
from flexflow.onnx.rows import UnsupportedError, lowers


@lowers("Gemm")
def gemm(
    b: Builder,
    x: Value,
    y: Value,
    bias: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803 (ONNX's name)
    transB: int = 0,  # noqa: N803
) -> Tensor:
    x = b.step("transpose", x, perm=[1, 0]) if transA else x
    kernel = b.weight(y)
    kernel = kernel if transB else b.step("transpose", kernel, perm=[1, 0])
    attrs: dict[str, Any] = {"out_channels": kernel.dims[0]}
    if bias is None and alpha == 1:
        return b.op("linear", x, kernel, use_bias=False, **attrs)
    if bias is not None and alpha == beta == 1 and shape(bias) == kernel.dims[:1]:
        return b.op("linear", x, kernel, b.weight(bias), use_bias=True, **attrs)
    product = b.step("linear", x, kernel, use_bias=False, **attrs)
    if bias is None:
        return b.op("scalar_multiply", product, scalar=alpha)
    shift = b.weight(bias)
    product = product if alpha == 1 else b.step("scalar_multiply", product, scalar=alpha)
    shift = shift if beta == 1 else b.step("scalar_multiply", shift, scalar=beta)
    return b.op("add", product, shift)


# ---- windows ----
def window(
    x: Value,
    kernel: Sequence[int],
    auto_pad: str,
    pads: Sequence[int] | None,
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
) -> dict[str, list[int]]:
    """The attributes of a sliding window, with defaults filled in and padding in numbers.

    Raises:
        UnsupportedError: it is not a window over images.
    """
    if len(kernel) != 2 or len(shape(x)) != 4:
        raise UnsupportedError(
            f"a window {list(kernel)} over a tensor of shape {shape(x)}, but only images "
            "(batch, channels, height, width) are supported"
        )
    stride = list(strides or (1, 1))
    dilation = list(dilations or (1, 1))
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same(shape(x)[2:], kernel, stride, dilation, auto_pad == "SAME_LOWER")
    elif auto_pad == "VALID" or pads is None:
        pads = (0, 0, 0, 0)
    return {"kernel": list(kernel), "stride": stride, "pads": list(pads), "dilation": dilation}


def _same(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    lower: bool,
) -> list[int]:
    """Top, left, bottom, right, so that the output has ceil(size / stride) windows; ``lower`` puts
    an odd one first."""
    total = [
        max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        for size, k, s, d in zip(sizes, kernel, stride, dilation)
    ]
    first = [(n + lower) // 2 for n in total]
    return first + [n - before for n, before in zip(total, first)]


@lowers("Conv")
def conv(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    out_channels, _, *kernel = shape(weight)
    if kernel_shape is not None and list(kernel_shape) != kernel:
        raise ValueError(
            f"kernel_shape={list(kernel_shape)}, but the weight's windows are {kernel}; "
            "export the file anew"
        )
    weights = [b.weight(one) for one in (weight, bias) if one is not None]
    return b.op(
        "conv2d",
        x,
        *weights,
        out_channels=out_channels,
        groups=group,
        use_bias=bias is not None,
        **window(x, kernel, auto_pad, pads, strides, dilations),
    )


@lowers("MaxPool", dilations=([1, 1],))
def max_pool(
    b: Builder,
    x: Value,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    storage_order: int = 0,  # of the indices, which are not to be had
    strides: Sequence[int] | None = None,
) -> tuple[Tensor, Missing]:
    attrs = window(x, kernel_shape, auto_pad, pads, strides, None)
    del attrs["dilation"]
    pooled = b.op("pool2d", x, pool_type="max", ceil_mode=bool(ceil_mode), **attrs)
    return pooled, Missing("its indices")


@lowers("AveragePool", dilations=([1, 1],))
def average_pool(
    b: Builder,
    x: Value,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    attrs = window(x, kernel_shape, auto_pad, pads, strides, None)
    del attrs["dilation"]
    return b.op(
        "pool2d",
        x,
        pool_type="avg",
        ceil_mode=bool(ceil_mode),
        count_include_pad=bool(count_include_pad),
        **attrs,
    )


def _global_pool(op_type: str, kind: str) -> None:
    """A row for a pool over all positions."""

    @lowers(op_type)
    def lower(b: Builder, x: Value) -> Tensor:
        return b.op(kind, x, axes=list(range(2, len(shape(x)))), keepdims=True)


_global_pool("GlobalAveragePool", "reduce_mean")
_global_pool("GlobalMaxPool", "reduce_max")


# ---- normalisation ----
@lowers("BatchNormalization", spatial=(1,))
def batch_normalization(
    b: Builder,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
    is_test: int = 0,
) -> tuple[Tensor, ...]:
    trains = b.training
    if trains is None:
        # Before version 14, the number of results says it, and before version 7 an attribute.
        old = b.outputs > 1 if b.opset >= 7 else not is_test
        trains = bool(training_mode) if b.opset >= 14 else old
    operands = (x, b.weight(scale), b.weight(bias), b.statistic(mean), b.statistic(var))
    if not trains:
        return (b.op("batch_norm_inference", *operands, eps=epsilon),)
    # ONNX keeps the variance of the batch itself, without n / (n - 1).
    return (b.op("batch_norm", *operands, eps=epsilon, momentum=momentum, unbiased=False),)


@lowers("LayerNormalization", stash_type=(1,))
def layer_normalization(
    b: Builder,
    x: Value,
    scale: Value,
    bias: Value | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Tensor, ...]:
    if bias is None:
        bias = b.constant("beta", np.zeros(shape(scale), dtype(scale)))
        shift = b.statistic(bias)
    else:
        shift = b.weight(bias)
    axes = list(range(axis if axis < 0 else axis - len(shape(x)), 0))
    return (b.op("layer_norm", x, b.weight(scale), shift, axes=axes, eps=epsilon),)
