"""Rows of products of tensors: of matrices, by equation, and attention."""

from __future__ import annotations

import math

import numpy as np

from flexflow.core import Tensor
from flexflow.core.products import einsum_equation
from flexflow.onnx.builder import Builder, Constant, Value, dtype, shape
from flexflow.onnx.rows import UnsupportedError, lowers


# ---- matrices ----
@lowers("MatMul")
def matmul(b: Builder, x: Value, y: Value) -> Tensor:
    y = b.weight(y)
    rows, columns = shape(x), shape(y)
    if len(columns) == 2:
        kernel = b.step("transpose", y, perm=[1, 0])
        return b.op("linear", x, kernel, out_channels=columns[1], use_bias=False)
    # A vector is a matrix of one row, or of one column, whose dimension the result lacks.
    if len(rows) == 1:
        x = b.step("reshape", x, shape=[1, *rows])
    if len(columns) == 1:
        y = b.step("reshape", y, shape=[*columns, 1])
    batch = np.broadcast_shapes(shape(x)[:-2], shape(y)[:-2])
    factors = [_with_batch(b, one, batch) for one in (x, y)]
    if len(rows) > 1 and len(columns) > 1:
        return b.op("batch_matmul", *factors)
    sizes = [*batch, *rows[-2:-1], *(columns[-1:] if len(columns) > 1 else ())]
    return b.op("reshape", b.step("batch_matmul", *factors), shape=sizes)


def _with_batch(b: Builder, x: Value, batch: tuple[int, ...]) -> Value:
    sizes = (*batch, *shape(x)[-2:])
    return x if shape(x) == sizes else b.step("broadcast_to", x, shape=list(sizes))


@lowers("Einsum")
def einsum(b: Builder, *inputs: Value, equation: str) -> Tensor:
    if len(inputs) != 2:
        raise UnsupportedError(f"{len(inputs)} inputs, but only products of two are supported")
    spelt = einsum_equation(equation, [len(shape(one)) for one in inputs], b.name)
    return b.op("einsum", *map(b.weight, inputs), equation=spelt)


# ---- attention ----
@lowers("Attention", softcap=(0.0,), qk_matmul_output_mode=(0,))
def attention(
    b: Builder,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
) -> tuple[Tensor, ...]:
    merged = len(shape(q)) == 3
    if merged:
        if kv_num_heads != q_num_heads or q_num_heads is None:
            raise UnsupportedError(
                f"q_num_heads={q_num_heads} and kv_num_heads={kv_num_heads}, but only equal "
                "numbers are supported"
            )
        q, k, v = (_heads(b, one, q_num_heads) for one in (q, k, v))
    if shape(q)[1] != shape(k)[1]:
        raise UnsupportedError(f"{shape(q)[1]} heads of Q for {shape(k)[1]} of K")
    scores = b.step("batch_matmul", q, b.step("transpose", k, perm=[0, 1, 3, 2]))
    factor = 1 / math.sqrt(shape(q)[-1]) if scale is None else scale
    scores = b.step("scalar_multiply", scores, scalar=factor)
    for added in _masks(b, mask, bool(is_causal), scores):
        scores = b.step("add", scores, added)
    weights = b.step("softmax", scores, axis=-1)
    if not merged:
        return (b.op("batch_matmul", weights, v),)
    by_head = b.step("transpose", b.step("batch_matmul", weights, v), perm=[0, 2, 1, 3])
    return (b.op("reshape", by_head, shape=[*shape(by_head)[:2], math.prod(shape(by_head)[2:])]),)


def _heads(b: Builder, x: Value, heads: int) -> Tensor:
    """(batch, sequence, heads and features) as (batch, heads, sequence, features)."""
    batch, length, features = shape(x)
    split = b.step("reshape", x, shape=[batch, length, heads, features // heads])
    return b.step("transpose", split, perm=[0, 2, 1, 3])


def _masks(b: Builder, mask: Value | None, causal: bool, scores: Tensor) -> list[Value]:
    """What is added to the scores: minus infinity where a query does not look."""
    added: list[Value] = []
    hidden = lambda seen: np.where(seen, 0, -np.inf).astype(dtype(scores))  # noqa: E731
    if causal:
        added.append(b.constant("causal", hidden(np.tri(*shape(scores)[-2:], dtype=bool))))
    if mask is not None and dtype(mask).kind == "b":
        if isinstance(mask, Tensor):
            raise UnsupportedError("a computed mask of truth values")
        added.append(b.constant("mask", hidden(mask.array)))
    elif isinstance(mask, Constant):
        added.append(b.statistic(mask))
    elif mask is not None:
        added.append(mask)
    return added
