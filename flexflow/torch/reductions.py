"""Rows of reductions, and of the largest elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Union

import torch

from flexflow.core import Tensor
from flexflow.torch.builder import Builder, Missing, Value, axis, dtype, is_tensor, shape
from flexflow.torch.elementwise import maximum, minimum
from flexflow.torch.rows import Lower, Target, lowers

Dims = Union[None, int, Sequence[int]]


def axes(x: Value, dim: Dims) -> list[int]:
    """Dimensions counted from the front; none given, or an empty sequence: all."""
    dims = (
        list(range(len(shape(x)))) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    )
    return sorted(axis(x, d) for d in dims) or list(range(len(shape(x))))


@lowers(torch.mean, "mean")
def mean(
    b: Builder,
    input: Value,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    x = b.cast(input, dtype) if dtype else input
    return b.op("reduce_mean", x, axes=axes(x, dim), keepdims=keepdim)


@lowers(torch.sum, "sum")
def sum(
    b: Builder,
    input: Value,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    x = b.cast(input, dtype or _sum_dtype(input))
    return b.op("reduce_sum", x, axes=axes(x, dim), keepdims=keepdim)


def _sum_dtype(x: Value) -> torch.dtype:
    return dtype(x) if dtype(x).is_floating_point else torch.int64


@lowers(torch.amax, "amax")
def amax(b: Builder, input: Value, dim: Dims = (), keepdim: bool = False) -> Tensor:
    return b.op("reduce_max", input, axes=axes(input, dim), keepdims=keepdim)


@lowers(torch.amin, "amin")
def amin(b: Builder, input: Value, dim: Dims = (), keepdim: bool = False) -> Tensor:
    return b.op("reduce_min", input, axes=axes(input, dim), keepdims=keepdim)


class Extremes(NamedTuple):
    """What ``max(dim)`` and ``min(dim)`` return."""

    values: Tensor
    indices: Missing


def _extreme(name: str, along: Lower, between: Lower, *targets: Target) -> None:
    """A row for ``max`` or ``min``, each three functions in one."""

    @lowers(*targets)
    def lower(
        b: Builder,
        input: Value,
        dim: int | Value | None = None,
        keepdim: bool = False,
        *,
        other: Value | None = None,
    ) -> Any:
        if is_tensor(dim) or other is not None:
            return between(b, input, dim if other is None else other)
        if dim is None:
            return along(b, input)
        # Of equal values PyTorch gives the gradient to one; here they share it, as amax and amin
        # do.
        return Extremes(along(b, input, dim, keepdim), Missing(f"the indices of {name}"))


class Largest(NamedTuple):
    """What ``topk`` returns."""

    values: Tensor
    indices: Value


@lowers(torch.topk, "topk")
def topk(
    b: Builder, input: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Largest:
    at, last = axis(input, dim), len(shape(input)) - 1
    perm = list(range(last + 1))
    perm[at], perm[last] = last, at
    x = input if at == last else b.step("transpose", input, perm=perm)
    x = x if largest else b.step("negative", x)
    values, indices = b.several("top_k", 2, x, k=k, sorted=sorted)
    values = values if largest else b.step("negative", values)
    found = [values, b.cast(indices, torch.int64)]
    return Largest(*(one if at == last else b.step("transpose", one, perm=perm) for one in found))


_extreme("max", amax, maximum, torch.max, "max")
_extreme("min", amin, minimum, torch.min, "min")
