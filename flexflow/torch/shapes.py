"""Rows of operators that move or pick elements, and of what is asked of a tensor's shape."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Union

import torch
from torch import nn

from flexflow.core import Tensor
from flexflow.torch.builder import Builder, Value, axis, dtype, is_tensor, shape
from flexflow.torch.rows import Row, UnsupportedError, lowers

Sizes = Union[int, Sequence[int]]


def flat_sizes(sizes: tuple[Any, ...], given: Sequence[int] | None) -> list[int]:
    """Sizes that PyTorch takes as one sequence, as arguments one by one, or by keyword."""
    if given is None:
        given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
    if any(isinstance(size, torch.dtype) for size in given):
        raise UnsupportedError(
            "a dtype as the shape (a view of the bits), which has no counterpart"
        )
    return [int(size) for size in given]


# ---- another shape for the same elements ----
@lowers(torch.flatten, nn.Flatten, "flatten")
def flatten(b: Builder, input: Value, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    sizes = shape(input)
    if not sizes:
        return b.op("reshape", input, shape=[1])
    first, last = axis(input, start_dim), axis(input, end_dim)
    if first == 1 and last == len(sizes) - 1:
        return b.op("flat", input)
    return b.op(
        "reshape",
        input,
        shape=[*sizes[:first], math.prod(sizes[first : last + 1]), *sizes[last + 1 :]],
    )


@lowers(torch.unflatten, nn.Unflatten, "unflatten")
def unflatten(
    b: Builder,
    input: Value,
    dim: int,
    unflattened_size: Sequence[int] = (),
    sizes: Sequence[int] = (),
) -> Tensor:
    at = axis(input, dim)
    return b.op(
        "reshape",
        input,
        shape=[*shape(input)[:at], *(unflattened_size or sizes), *shape(input)[at + 1 :]],
    )


@lowers(torch.reshape, "reshape")
def reshape(b: Builder, input: Value, *sizes: Sizes, shape: Sequence[int] | None = None) -> Tensor:
    return b.op("reshape", input, shape=flat_sizes(sizes, shape))


@lowers("view")
def view(b: Builder, input: Value, *sizes: Sizes, size: Sequence[int] | None = None) -> Tensor:
    return b.op("reshape", input, shape=flat_sizes(sizes, size))


@lowers("view_as", "reshape_as")
def view_as(b: Builder, input: Value, other: Value) -> Tensor:
    return b.op("reshape", input, shape=list(shape(other)))


@lowers(torch.squeeze, "squeeze")
def squeeze(b: Builder, input: Value, dim: Sizes | None = None) -> Tensor:
    sizes = shape(input)
    dims = range(len(sizes)) if dim is None else (dim,) if isinstance(dim, int) else dim
    dropped = {axis(input, d) for d in dims}
    return b.op(
        "reshape", input, shape=[n for at, n in enumerate(sizes) if n != 1 or at not in dropped]
    )


@lowers(torch.unsqueeze, "unsqueeze")
def unsqueeze(b: Builder, input: Value, dim: int) -> Tensor:
    at = axis(input, dim, extra=1)
    return b.op("reshape", input, shape=[*shape(input)[:at], 1, *shape(input)[at:]])


# ---- another order of the dimensions ----
@lowers(torch.permute, "permute")
def permute(b: Builder, input: Value, *order: Sizes, dims: Sequence[int] | None = None) -> Tensor:
    return b.op("transpose", input, perm=[axis(input, d) for d in flat_sizes(order, dims)])


@lowers(*(torch.transpose, torch.swapaxes, torch.swapdims), *("transpose", "swapaxes", "swapdims"))
def transpose(b: Builder, input: Value, dim0: int, dim1: int) -> Tensor:
    perm = list(range(len(shape(input))))
    perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
    return b.op("transpose", input, perm=perm)


@lowers(torch.t, "t")
def t(b: Builder, input: Value) -> Value:
    return transpose(b, input, 0, 1) if len(shape(input)) == 2 else input


# ---- several tensors ----
@lowers(torch.cat, torch.concat, torch.concatenate)
def cat(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Tensor:
    return b.op("concat", *_alike(b, tensors), axis=axis(tensors[0], dim))


def _alike(b: Builder, tensors: Sequence[Value]) -> list[Value]:
    met = functools.reduce(torch.promote_types, map(dtype, tensors))
    return [b.cast(one, met) for one in tensors]


@lowers(torch.stack)
def stack(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Tensor:
    at = axis(tensors[0], dim, extra=1)
    sizes = [*shape(tensors[0])[:at], 1, *shape(tensors[0])[at:]]
    grown = [b.step("reshape", one, shape=sizes) for one in _alike(b, tensors)]
    return b.op("concat", *grown, axis=at)


@lowers(torch.split, "split")
def split(
    b: Builder, input: Value, split_size_or_sections: Sizes, dim: int = 0
) -> tuple[Tensor, ...]:
    at = axis(input, dim)
    extent, sections = shape(input)[at], split_size_or_sections
    if isinstance(sections, int):
        sections = [min(sections, extent - start) for start in range(0, extent, sections)]
    return b.split(input, sections, at)


@lowers(torch.chunk, "chunk")
def chunk(b: Builder, input: Value, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    return split(b, input, -(-shape(input)[axis(input, dim)] // chunks), dim)


@lowers(torch.unbind, "unbind")
def unbind(b: Builder, input: Value, dim: int = 0) -> tuple[Tensor, ...]:
    at = axis(input, dim)
    sizes = [*shape(input)[:at], *shape(input)[at + 1 :]]
    return tuple(b.step("reshape", one, shape=sizes) for one in split(b, input, 1, dim))


# ---- copies along dimensions ----
@lowers("expand")
def expand(b: Builder, input: Value, *sizes: Sizes, size: Sequence[int] | None = None) -> Tensor:
    wanted = flat_sizes(sizes, size)
    # -1 keeps an extent; extents are matched from the right.
    old = (1,) * (len(wanted) - len(shape(input))) + shape(input)
    return b.op(
        "broadcast_to", input, shape=[n if n != -1 else kept for n, kept in zip(wanted, old)]
    )


@lowers(torch.broadcast_to, "broadcast_to")
def broadcast_to(b: Builder, input: Value, size: Sequence[int]) -> Tensor:
    return expand(b, input, size)


@lowers("expand_as")
def expand_as(b: Builder, input: Value, other: Value) -> Tensor:
    return expand(b, input, shape(other))


# ---- parts ----
def part(b: Builder, x: Value, at: int, start: int, stop: int) -> Value:
    """The rows from ``start`` to ``stop`` of dimension ``at``."""
    extent = shape(x)[at]
    if start >= stop:
        raise UnsupportedError(
            f"the empty range {start}:{stop} of dimension {at}, which has {extent} elements"
        )
    if (start, stop) == (0, extent):
        return x
    sizes = [start, stop - start, extent - stop]
    pieces = b.split(x, [size for size in sizes if size], at)
    return pieces[1 if start else 0]


@lowers(torch.narrow, "narrow")
def narrow(b: Builder, input: Value, dim: int, start: int, length: int) -> Value:
    at = axis(input, dim)
    first = start % shape(input)[at]
    return part(b, input, at, first, first + length)


@lowers(torch.select, "select")
def select(b: Builder, input: Value, dim: int, index: int) -> Value:
    return getitem(b, input, (slice(None),) * axis(input, dim) + (index,))


@lowers(torch.gather, "gather", sparse_grad=(False,))
def gather(
    b: Builder, input: Value, dim: int, index: Value, *, sparse_grad: bool = False
) -> Tensor:
    return b.op("gather", input, index, dim=axis(input, dim))


@lowers(operator.getitem)
def getitem(b: Builder, input: Any, index: Any) -> Any:
    if not is_tensor(input):
        return input[index]
    items = list(index) if isinstance(index, tuple) else [index]
    for item in items:
        if isinstance(item, bool) or not isinstance(item, (int, slice, type(None), type(Ellipsis))):
            raise UnsupportedError(
                f"index {item!r}: only integers, slices, None and ... are supported"
            )
    missing = len(shape(input)) - sum(item is not None and item is not Ellipsis for item in items)
    if Ellipsis not in items:
        items.append(Ellipsis)
    where = items.index(Ellipsis)
    items[where : where + 1] = [slice(None)] * missing
    return _take(b, input, items)


def _take(b: Builder, x: Value, items: list[Any]) -> Value:
    """One item per dimension of ``x``, and None for each new dimension."""
    sizes: list[int] = []
    at = 0
    for item in items:
        if item is None:
            sizes.append(1)
            continue
        extent = shape(x)[at]
        if isinstance(item, int):
            start = range(extent)[item]
            x = part(b, x, at, start, start + 1)
        else:
            start, stop, step = item.indices(extent)
            if step != 1:
                raise UnsupportedError(f"a slice with step {step}, but only step 1 is supported")
            x = part(b, x, at, start, stop)
            sizes.append(shape(x)[at])
        at += 1
    return x if tuple(sizes) == shape(x) else b.op("reshape", x, shape=sizes)


# ---- questions: their answers are constants of the traced shapes ----
@lowers("size")
def size(b: Builder, input: Value, dim: int | None = None) -> Any:
    sizes = torch.Size(shape(input))
    return sizes if dim is None else sizes[dim]


@lowers("dim", "ndimension")
def rank(b: Builder, input: Value) -> int:
    return len(shape(input))


@lowers(torch.numel, "numel", "nelement")
def numel(b: Builder, input: Value) -> int:
    return math.prod(shape(input))


@lowers(getattr)
def attribute(b: Builder, input: Any, name: str) -> Any:
    if not is_tensor(input):
        return getattr(input, name)
    answers: dict[str, Callable[[], Any]] = {
        "shape": lambda: torch.Size(shape(input)),
        "ndim": lambda: len(shape(input)),
        "dtype": lambda: dtype(input),
        "device": lambda: torch.device("cpu"),
        "T": lambda: permute(b, input, range(len(shape(input)))[::-1]),
        "mT": lambda: transpose(b, input, -2, -1),
    }
    if name not in answers:
        raise UnsupportedError(f"attribute {name!r}: only {', '.join(answers)} are supported")
    return answers[name]()


def is_question(row: Row, arguments: Mapping[str, Any]) -> bool:
    """Whether a call asks for a tensor's shape or type, which are constants."""
    if row.lower is attribute:
        return arguments["name"] in ("shape", "ndim", "dtype", "device")
    return row.lower in (size, rank, numel)


# ---- constants of the traced shapes ----
def _factory(make: Any, *targets: Any) -> None:
    """A row for a function that makes a constant like a tensor."""

    @lowers(*targets)
    def lower(b: Builder, input: Value, *args: Any, **kwargs: Any) -> torch.Tensor:
        return make(torch.empty(shape(input), dtype=dtype(input)), *args, **kwargs)


for _like in (torch.zeros_like, torch.ones_like, torch.full_like):
    _factory(_like, _like)
for _new in ("new_zeros", "new_ones", "new_full", "new_tensor"):
    _factory(getattr(torch.Tensor, _new), _new)
