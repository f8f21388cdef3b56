"""Rows of layers: dense, convolution, pooling, normalisation, embedding, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import torch
import torch.nn.functional as fn
from torch import nn

from flexflow.core import Tensor
from flexflow.torch.builder import Builder, Value, dtype, shape, type_name
from flexflow.torch.rows import UnsupportedError, lowers

Pair = Union[int, Sequence[int]]


def pair(value: Pair) -> list[int]:
    """Height and width, from a number for both or from the two."""
    both = [value, value] if isinstance(value, int) else [int(one) for one in value]
    return both * 2 if len(both) == 1 else both


@lowers(fn.linear, nn.Linear)
def linear(b: Builder, input: Value, weight: Value, bias: Value | None = None) -> Tensor:
    return b.op(
        "linear",
        *_given(input, weight, bias),
        out_channels=shape(weight)[0],
        use_bias=bias is not None,
    )


@lowers(fn.conv2d, nn.Conv2d, padding_mode=("zeros",))
def conv2d(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Pair = 1,
    padding: str | Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> Tensor:
    out_channels, _, *kernel = shape(weight)
    return b.op(
        "conv2d",
        *_given(input, weight, bias),
        out_channels=out_channels,
        kernel=kernel,
        stride=pair(stride),
        pads=_pads(padding, kernel, pair(dilation)),
        dilation=pair(dilation),
        groups=groups,
        use_bias=bias is not None,
    )


def _given(*operands: Value | None) -> list[Value]:
    return [operand for operand in operands if operand is not None]


def _pads(padding: str | Pair, kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Top, left, bottom, right. Where "same" asks for an odd number, the end gets one more."""
    if isinstance(padding, str):
        total = [d * (k - 1) if padding == "same" else 0 for k, d in zip(kernel, dilation)]
        return [n // 2 for n in total] + [n - n // 2 for n in total]
    return pair(padding) * 2


# ---- pooling ----
@lowers(
    *(fn.max_pool2d, torch.max_pool2d, nn.MaxPool2d),
    dilation=(1, (1, 1)),
    return_indices=(False,),
)
def max_pool2d(
    b: Builder,
    input: Value,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    return b.op(
        "pool2d",
        input,
        kernel=pair(kernel_size),
        stride=pair(stride or kernel_size),
        pads=pair(padding) * 2,
        pool_type="max",
        ceil_mode=ceil_mode,
    )


@lowers(fn.avg_pool2d, nn.AvgPool2d, divisor_override=(None,))
def avg_pool2d(
    b: Builder,
    input: Value,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    return b.op(
        "pool2d",
        input,
        kernel=pair(kernel_size),
        stride=pair(stride or kernel_size),
        pads=pair(padding) * 2,
        pool_type="avg",
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )


@lowers(fn.adaptive_avg_pool2d, nn.AdaptiveAvgPool2d)
def adaptive_avg_pool2d(b: Builder, input: Value, output_size: Pair) -> Tensor:
    if output_size in (1, (1, 1)):
        return b.op("reduce_mean", input, axes=[2, 3], keepdims=True)
    return _adaptive(b, input, output_size, "avg")


@lowers(fn.adaptive_max_pool2d, nn.AdaptiveMaxPool2d, return_indices=(False,))
def adaptive_max_pool2d(
    b: Builder, input: Value, output_size: Pair, return_indices: bool = False
) -> Tensor:
    return _adaptive(b, input, output_size, "max")


def _adaptive(b: Builder, input: Value, output_size: Pair, pool_type: str) -> Tensor:
    sizes = shape(input)[2:]
    both = [output_size] * 2 if isinstance(output_size, int) else output_size
    wanted = [size if n is None else n for n, size in zip(both, sizes)]
    if any(size % n for size, n in zip(sizes, wanted)):
        raise UnsupportedError(
            f"output_size={tuple(wanted)} of an input of {sizes}, "
            "but only sizes that divide the input's are supported"
        )
    window = [size // n for size, n in zip(sizes, wanted)]
    return b.op("pool2d", input, kernel=window, stride=window, pool_type=pool_type)


# ---- normalisation ----
@lowers(fn.batch_norm, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
def batch_norm(
    b: Builder,
    input: Value,
    running_mean: Value | None,
    running_var: Value | None,
    weight: Value | None = None,
    bias: Value | None = None,
    training: bool = False,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if running_mean is None or running_var is None:
        raise UnsupportedError("no running statistics (track_running_stats=False)")
    if momentum is None:
        raise UnsupportedError(
            "momentum=None, a cumulative average, but only a number is supported"
        )
    operands = (*_scale_and_shift(input, running_mean, weight, bias), running_mean, running_var)
    if not training:
        return b.op("batch_norm_inference", *operands, eps=eps)
    return b.op(
        "batch_norm",
        *operands,
        eps=eps,
        momentum=1.0 - momentum,
        scale=weight is not None,
        center=bias is not None,
    )


def _scale_and_shift(
    input: Value, like: Value, weight: Value | None, bias: Value | None
) -> tuple[Value, Value, Value]:
    """The input, and its scale and shift: 1 and 0 where the layer has none."""
    sizes, type_ = shape(like), dtype(like)
    ones = torch.ones(sizes, dtype=type_) if weight is None else weight
    return input, ones, torch.zeros(sizes, dtype=type_) if bias is None else bias


@lowers(fn.layer_norm, nn.LayerNorm)
def layer_norm(
    b: Builder,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
) -> Tensor:
    axes = list(range(-len(normalized_shape), 0))
    if weight is None and bias is None:
        return b.op("layer_norm", input, axes=axes, elementwise_affine=False, eps=eps)
    like = weight if weight is not None else bias
    assert like is not None
    return b.op("layer_norm", *_scale_and_shift(input, like, weight, bias), axes=axes, eps=eps)


# ---- embedding and dropout ----
@lowers(fn.embedding, nn.Embedding, max_norm=(None,), scale_grad_by_freq=(False,))
def embedding(
    b: Builder,
    input: Value,
    weight: Value,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,  # how PyTorch stores the gradient; its values are the same
) -> Tensor:
    attrs = _table(weight)
    if padding_idx is None:
        return b.op("embedding", input, weight, **attrs)
    rows = b.step("embedding", input, weight, **attrs)
    return b.op("multiply", rows, _padding_mask(b, input, weight, padding_idx))


def _table(weight: Value) -> dict[str, Any]:
    entries, width = shape(weight)
    return {"num_entries": entries, "out_dim": width, "dtype": type_name(dtype(weight))}


def _padding_mask(b: Builder, ids: Value, weight: Value, padding_idx: int) -> Tensor:
    """0 where an id is the padding's, else 1: the row of the padding then gets no gradient."""
    if not isinstance(weight, torch.Tensor) or weight[padding_idx].any():
        raise UnsupportedError(f"padding_idx={padding_idx} of a row that is not zero")
    table = torch.ones((len(weight), 1), dtype=weight.dtype)
    table[padding_idx] = 0
    return b.step("embedding", ids, table, **_table(table))


@lowers(
    *(fn.embedding_bag, nn.EmbeddingBag),
    offsets=(None,),
    max_norm=(None,),
    scale_grad_by_freq=(False,),
    mode=("sum", "mean"),
    per_sample_weights=(None,),
    include_last_offset=(False,),
    padding_idx=(None,),
)
def embedding_bag(
    b: Builder,
    input: Value,
    weight: Value,
    offsets: Value | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    aggr = {"sum": "sum", "mean": "avg"}[mode]
    return b.op("embedding", input, weight, aggr=aggr, **_table(weight))


@lowers(nn.Dropout)
def dropout(
    b: Builder, input: Value, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Value:
    if not training or p == 0:
        return input
    if p == 1:
        raise UnsupportedError("p=1: everything is dropped, and nothing is learnt")
    return b.op("dropout", input, rate=p)


@lowers(fn.dropout)
def functional_dropout(
    b: Builder, input: Value, p: float = 0.5, training: bool | None = None, inplace: bool = False
) -> Value:
    # PyTorch's default is True, whatever the module's mode is.
    if p and (training is None or (training and not b.training)):
        raise UnsupportedError(
            "it drops in eval() mode, too, and here it would in training only; "
            "pass training=self.training"
        )
    return dropout(b, input, p, bool(training), inplace)
