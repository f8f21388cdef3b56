"""Rows of products of tensors: of matrices, by equation, and attention."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
import torch.nn.functional as fn
from torch import nn

from flexflow.core import Tensor
from flexflow.core.products import einsum_equation
from flexflow.torch.builder import Builder, Missing, Value, shape
from flexflow.torch.rows import UnsupportedError, lowers


# ---- matrices ----
@lowers(torch.matmul, torch.mm, torch.bmm, operator.matmul, "matmul", "mm", "bmm")
def matmul(b: Builder, input: Value, other: Value) -> Tensor:
    x, y = b.promote(input, other)
    rows, columns = shape(x), shape(y)
    if len(columns) == 2:
        kernel = b.step("transpose", y, perm=[1, 0])
        return b.op("linear", x, kernel, out_channels=columns[1], use_bias=False)
    # A vector is a matrix of one row, or of one column, whose dimension the result lacks.
    if len(rows) == 1:
        x = b.step("reshape", x, shape=[1, *rows])
    if len(columns) == 1:
        y = b.step("reshape", y, shape=[*columns, 1])
    batch = torch.broadcast_shapes(shape(x)[:-2], shape(y)[:-2])
    factors = [_with_batch(b, one, batch) for one in (x, y)]
    sizes = [*batch, *rows[-2:-1], *(columns[-1:] if len(columns) > 1 else ())]
    if len(rows) > 1 and len(columns) > 1:
        return b.op("batch_matmul", *factors)
    return b.op("reshape", b.step("batch_matmul", *factors), shape=sizes)


def _with_batch(b: Builder, x: Value, batch: torch.Size) -> Value:
    sizes = (*batch, *shape(x)[-2:])
    return x if shape(x) == sizes else b.step("broadcast_to", x, shape=list(sizes))


@lowers(torch.addmm, "addmm", beta=(1,), alpha=(1,))
def addmm(
    b: Builder, input: Value, mat1: Value, mat2: Value, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    return b.op("add", input, matmul(b, mat1, mat2))


@lowers(torch.einsum)
def einsum(b: Builder, equation: str, *operands: Any) -> Tensor:
    given = (
        operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    )
    if len(given) != 2:
        raise UnsupportedError(f"{len(given)} operands, but only products of two are supported")
    x, y = b.promote(*given)
    spelt = einsum_equation(equation, [len(shape(one)) for one in (x, y)], "einsum")
    return b.op("einsum", x, y, equation=spelt)


# ---- attention ----
@lowers(fn.scaled_dot_product_attention, dropout_p=(0.0,), enable_gqa=(False,))
def scaled_dot_product_attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    rank = len(shape(key))
    swapped = b.step("transpose", key, perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = matmul(b, query, swapped)
    factor = 1 / math.sqrt(shape(query)[-1]) if scale is None else scale
    scores = b.step("scalar_multiply", scores, scalar=factor)
    if is_causal:
        attn_mask = torch.ones(shape(scores)[-2:]).tril().bool()
    if attn_mask is not None:
        scores = b.step("add", *b.promote(scores, _added(attn_mask)))
    return matmul(b, b.step("softmax", scores, axis=-1), value)


def _added(mask: Value) -> Value:
    """What a mask adds to the scores: one of truth values says who takes part."""
    if isinstance(mask, torch.Tensor) and mask.dtype == torch.bool:
        return torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
    if isinstance(mask, Tensor) or not mask.is_floating_point():
        raise UnsupportedError("attn_mask: computed, but only a constant is supported")
    return mask


@lowers(
    nn.MultiheadAttention,
    key_padding_mask=(None,),
    bias_k=(None,),
    bias_v=(None,),
    add_zero_attn=(False,),
)
def multihead_attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    key_padding_mask: Value | None = None,
    need_weights: bool = True,
    attn_mask: Value | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
    *,
    embed_dim: int,
    num_heads: int,
    dropout: float,
    batch_first: bool,
    in_proj_weight: Value | None,
    in_proj_bias: Value | None,
    q_proj_weight: Value | None,
    k_proj_weight: Value | None,
    v_proj_weight: Value | None,
    out_proj: nn.Linear,
    bias_k: Value | None,
    bias_v: Value | None,
    add_zero_attn: bool,
) -> tuple[Tensor, Missing]:
    if len(shape(query)) != 3:
        raise UnsupportedError(f"a query of shape {shape(query)}, but only batches are supported")
    swap = [1, 0, 2]
    operands: list[Value] = [query, key, value]
    if not batch_first:
        operands = [b.step("transpose", one, perm=swap) for one in operands]
    if in_proj_weight is not None:
        projections: Any = b.split(in_proj_weight, [embed_dim] * 3, 0)
    else:
        projections = (q_proj_weight, k_proj_weight, v_proj_weight)
    heads, head = num_heads, embed_dim // num_heads
    weights = [
        b.step("reshape", one, shape=[heads, head, shape(one)[1]]) for one in projections
    ] + [b.step("reshape", out_proj.weight, shape=[embed_dim, heads, head])]
    if in_proj_bias is not None:
        biases = b.split(in_proj_bias, [embed_dim] * 3, 0)
        weights += [b.step("reshape", one, shape=[heads, head]) for one in biases]
        weights.append(b.tensor(out_proj.bias))
    add = b.op if batch_first else b.step
    result = add(
        "multihead_attention",
        *operands,
        *weights,
        embed_dim=embed_dim,
        num_heads=num_heads,
        dropout=dropout if b.training else 0.0,
        bias=in_proj_bias is not None,
        causal=_is_causal(attn_mask, shape(operands[0])[1], shape(operands[1])[1]),
    )
    if not batch_first:
        result = b.op("transpose", result, perm=swap)
    return result, Missing("the attention's weights")


def _is_causal(mask: Value | None, queries: int, keys: int) -> bool:
    """Whether a mask lets query i attend to the keys up to i."""
    if mask is None:
        return False
    if isinstance(mask, torch.Tensor):
        later = torch.ones(queries, keys).triu(1).bool()
        hidden = mask if mask.dtype == torch.bool else torch.isneginf(mask)
        rest = torch.zeros(1) if mask.dtype == torch.bool else mask.masked_fill(hidden, 0)
        if mask.shape == later.shape and bool((hidden == later).all()) and not rest.any():
            return True
    raise UnsupportedError("attn_mask: only the causal one is supported, as a constant")
