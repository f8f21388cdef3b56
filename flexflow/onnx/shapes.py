"""Rows of operators that move or pick elements, of reductions, and of what is asked of a shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from flexflow.core import Tensor
from flexflow.core.types import DTYPE_NAMES
from flexflow.onnx.builder import Builder, Constant, Value, axis, shape
from flexflow.onnx.rows import UnsupportedError, lowers


# ---- another shape for the same elements ----
@lowers("Flatten")
def flatten(b: Builder, x: Value, *, axis: int = 1) -> Tensor:
    sizes = shape(x)
    at = axis + len(sizes) if axis < 0 else axis
    if at == 1:
        return b.op("flat", x)
    return b.op("reshape", x, shape=[math.prod(sizes[:at]), math.prod(sizes[at:])])


@lowers("Reshape")
def reshape(
    b: Builder,
    x: Value,
    shape_input: Value | None = None,
    *,
    allowzero: int = 0,
    shape: Sequence[int] | None = None,
) -> Tensor:
    wanted = b.ints(shape_input, "the shape") if shape is None else list(shape)
    assert wanted is not None
    if not allowzero:
        old = _sizes(x)
        wanted = [old[at] if size == 0 else size for at, size in enumerate(wanted)]
    return b.op("reshape", x, shape=wanted)


_sizes = shape  # `reshape` has an attribute of that name


@lowers("Squeeze")
def squeeze(
    b: Builder, x: Value, axes_input: Value | None = None, *, axes: Sequence[int] | None = None
) -> Tensor:
    given = b.ints(axes_input, "axes") if axes is None else axes
    sizes = shape(x)
    ones = [at for at, size in enumerate(sizes) if size == 1]
    dropped = ones if given is None else [axis(x, at) for at in given]
    return b.op("reshape", x, shape=[size for at, size in enumerate(sizes) if at not in dropped])


@lowers("Unsqueeze")
def unsqueeze(
    b: Builder, x: Value, axes_input: Value | None = None, *, axes: Sequence[int] | None = None
) -> Tensor:
    given = b.ints(axes_input, "axes") if axes is None else list(axes)
    assert given is not None
    sizes = list(shape(x))
    for at in sorted(axis(x, at, extra=len(given)) for at in given):
        sizes.insert(at, 1)
    return b.op("reshape", x, shape=sizes)


@lowers("Expand")
def expand(b: Builder, x: Value, shape_input: Value) -> Tensor:
    wanted = b.ints(shape_input, "the shape")
    assert wanted is not None
    return b.op("broadcast_to", x, shape=list(np.broadcast_shapes(shape(x), tuple(wanted))))


# ---- another order, and several tensors ----
@lowers("Transpose")
def transpose(b: Builder, x: Value, *, perm: Sequence[int] | None = None) -> Tensor:
    return b.op("transpose", x, perm=list(perm or range(len(shape(x)))[::-1]))


@lowers("Concat")
def concat(b: Builder, *inputs: Value, axis: int = 1) -> Tensor:
    return b.op("concat", *inputs, axis=axis)


@lowers("Split")
def split(
    b: Builder,
    x: Value,
    split_input: Value | None = None,
    *,
    axis: int = 0,
    split: Sequence[int] | None = None,
    num_outputs: int | None = None,
) -> tuple[Tensor, ...]:
    sizes = b.ints(split_input, "the sizes") if split is None else list(split)
    if sizes is None:
        extent, parts = shape(x)[axis], num_outputs or b.outputs
        size = -(-extent // parts)  # the last part may be smaller
        sizes = [min(size, extent - start) for start in range(0, extent, size)]
    return b.split(x, sizes, axis)


# ---- parts ----
def part(b: Builder, x: Value, at: int, start: int, stop: int) -> Value:
    """The elements from ``start`` to ``stop`` along an axis."""
    extent = shape(x)[at]
    if start >= stop:
        raise UnsupportedError(f"an empty range of axis {at}, which has {extent} elements")
    if (start, stop) == (0, extent):
        return x
    sizes = [start, stop - start, extent - stop]
    pieces = b.split(x, [size for size in sizes if size], at)
    return pieces[1 if start else 0]


@lowers("Slice")
def slice_v1(
    b: Builder, x: Value, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] = ()
) -> Value:
    return _slice(b, x, starts, ends, axes or range(len(starts)), [1] * len(starts))


@lowers("Slice", since=10)
def slice_v10(
    b: Builder,
    x: Value,
    starts: Value,
    ends: Value,
    axes: Value | None = None,
    steps: Value | None = None,
) -> Value:
    first, last = b.ints(starts, "starts"), b.ints(ends, "ends")
    assert first is not None and last is not None
    along = b.ints(axes, "axes") or range(len(first))
    return _slice(b, x, first, last, along, b.ints(steps, "steps") or [1] * len(first))


def _slice(
    b: Builder,
    x: Value,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int],
) -> Value:
    for start, end, at, step in zip(starts, ends, axes, steps):
        if step != 1:
            raise UnsupportedError(f"a slice with step {step}, but only step 1 is supported")
        at = axis(x, at)
        first, last, _ = slice(start, end).indices(shape(x)[at])
        x = part(b, x, at, first, last)
    return x


@lowers("Gather")
def gather(b: Builder, x: Value, indices: Value, *, axis: int = 0) -> Value:
    if isinstance(indices, Constant):
        return _pick(b, x, indices.array, axis)
    if axis % len(shape(x)) or len(shape(x)) != 2:
        raise UnsupportedError(
            f"rows along axis {axis} of a tensor of shape {shape(x)} picked by computed indices, "
            "but only axis 0 of a table (rank 2) is supported"
        )
    entries, width = shape(x)
    table = b.weight(x)
    type_ = DTYPE_NAMES[table.data_type]
    return b.op("embedding", indices, table, num_entries=entries, out_dim=width, dtype=type_)


def _pick(b: Builder, x: Value, indices: np.ndarray, at: int) -> Value:
    """Elements at constant indices: one of them, or a row of neighbours."""
    at = axis(x, at)
    wanted = indices.reshape(-1) % shape(x)[at]
    if indices.ndim > 1 or not wanted.size or (np.diff(wanted) != 1).any():
        raise UnsupportedError(f"indices {indices.tolist()}, but only one or a range is supported")
    picked = part(b, x, at, int(wanted[0]), int(wanted[-1]) + 1)
    if indices.ndim:
        return picked
    sizes = [size for other, size in enumerate(shape(picked)) if other != at]
    return b.op("reshape", picked, shape=sizes)


@lowers("GatherElements")
def gather_elements(b: Builder, x: Value, indices: Value, *, axis: int = 0) -> Tensor:
    if isinstance(indices, Constant):
        found = indices.array
        counted = np.where(found < 0, found + shape(x)[axis], found)
        indices = b.constant("indices", counted.astype(found.dtype))
    return b.op("gather", x, indices, dim=axis)


# ---- the largest ----
@lowers("TopK")
def top_k_v1(b: Builder, x: Value, *, axis: int = -1, k: int) -> tuple[Tensor, Tensor]:
    return _top_k(b, x, k, axis, True, True)


@lowers("TopK", since=10)
def top_k(
    b: Builder, x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, Tensor]:
    (count,) = b.ints(k, "K") or [0]
    return _top_k(b, x, count, axis, bool(largest), bool(sorted))


def _top_k(
    b: Builder, x: Value, k: int, along: int, largest: bool, ordered: bool
) -> tuple[Tensor, Tensor]:
    at, last = axis(x, along), len(shape(x)) - 1
    perm = list(range(last + 1))
    perm[at], perm[last] = last, at
    rows = x if at == last else b.step("transpose", x, perm=perm)
    rows = rows if largest else b.step("negative", rows)
    values, indices = b.several("top_k", 2, rows, k=k, sorted=ordered)
    values = values if largest else b.step("negative", values)
    found = [values, b.step("cast", indices, dtype="int64")]
    first, second = (one if at == last else b.step("transpose", one, perm=perm) for one in found)
    return first, second


# ---- reductions ----
def _reduction(op_type: str, kind: str) -> None:
    """A row for a reduction, whose axes are an attribute or an input."""

    @lowers(op_type)
    def lower(
        b: Builder,
        x: Value,
        axes_input: Value | None = None,
        *,
        axes: Sequence[int] | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Value:
        along = b.ints(axes_input, "axes") if axes is None else axes
        if not along and noop_with_empty_axes:
            return x
        along = sorted(axis(x, at) for at in along or range(len(shape(x))))
        return b.op(kind, x, axes=along, keepdims=bool(keepdims))


for _type, _kind in {
    "ReduceMean": "reduce_mean",
    "ReduceSum": "reduce_sum",
    "ReduceMax": "reduce_max",
    "ReduceMin": "reduce_min",
}.items():
    _reduction(_type, _kind)


# ---- questions: their answers are constants of the shapes that the model is built for ----
@lowers("Shape")
def shape_of(b: Builder, x: Value, *, start: int = 0, end: int | None = None) -> Constant:
    return Constant(b.name, np.array(shape(x)[start:end], np.int64))


@lowers("Size")
def size_of(b: Builder, x: Value) -> Constant:
    return Constant(b.name, np.array(math.prod(shape(x)), np.int64))
