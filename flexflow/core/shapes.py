"""Layers that only move elements: one line each.

In the examples, ``x`` is a float tensor of shape (64, 16) and ``images`` one of (64, 3, 32, 32).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flexflow.core.checks import boolean, integer, integers
from flexflow.core.elementwise import ElementwiseOps
from flexflow.core.tensor import Tensor


class ShapeOps(ElementwiseOps):
    """Methods of FFModel."""

    def flat(self, input: Tensor, name: str | None = None) -> Tensor:
        """(N, ...) -> (N, all the rest).

        >>> ffmodel.flat(images).dims
        (64, 3072)
        """
        return self._op("flat", [input], name)

    def reshape(self, input: Tensor, shape: Sequence[int], name: str | None = None) -> Tensor:
        """The same elements in another shape; one extent may be -1.

        Raises:
            ValueError: the numbers of elements differ.

        >>> ffmodel.reshape(x, [64, 4, -1]).dims
        (64, 4, 4)
        """
        return self._op(
            "reshape", [input], name, shape=integers(shape, f"{name or 'reshape'}: shape")
        )

    def transpose(self, input: Tensor, perm: Sequence[int], name: str | None = None) -> Tensor:
        """Axes in another order: axis i of the result is axis perm[i] of the input.

        >>> ffmodel.transpose(images, [0, 2, 3, 1]).dims
        (64, 32, 32, 3)
        """
        return self._op(
            "transpose", [input], name, perm=integers(perm, f"{name or 'transpose'}: perm")
        )

    def concat(self, tensors: Sequence[Tensor], axis: int, name: str | None = None) -> Tensor:
        """Tensors of one type one after the other along an axis; other extents must be equal.

        >>> ffmodel.concat([x, x], 1).dims
        (64, 32)
        """
        if not isinstance(tensors, (list, tuple)):
            raise TypeError(f"{name or 'concat'}: tensors is {tensors!r}, expected a list")
        axis = integer(axis, f"{name or 'concat'}: axis")
        return self._op("concat", tensors, name, axis=axis)

    def split(
        self,
        input: Tensor,
        sizes: int | Sequence[int],
        axis: int,
        name: str | None = None,
    ) -> list[Tensor]:
        """Parts along an axis: so many equal ones, or those of a list of sizes.

        Raises:
            ValueError: the parts do not make the whole.

        >>> [part.dims for part in ffmodel.split(x, [4, 12], 1)]
        [(64, 4), (64, 12)]
        """
        who = name or "split"
        self._number(input, f"{who}: input 0")
        axis = integer(axis, f"{who}: axis")
        if isinstance(sizes, (list, tuple, np.ndarray)):
            parts = integers(sizes, f"{who}: sizes")
        else:
            parts = _equal_parts(input, integer(sizes, f"{who}: sizes"), axis, who)
        return self.op("split", [input], name, outputs=len(parts), sizes=parts, axis=axis)

    def broadcast_to(self, input: Tensor, shape: Sequence[int], name: str | None = None) -> Tensor:
        """Repeats along axes of extent 1, and along new ones in front.

        >>> row = ffmodel.create_tensor([1, 16], DataType.DT_FLOAT)
        >>> ffmodel.broadcast_to(row, [64, 16]).dims
        (64, 16)
        """
        return self._op(
            "broadcast_to", [input], name, shape=integers(shape, f"{name or 'broadcast_to'}: shape")
        )

    def gather(self, input: Tensor, index: Tensor, dim: int, name: str | None = None) -> Tensor:
        """Elements picked along a dimension, as torch.gather does: for ``dim`` 1,
        y[i, j] = x[i, index[i, j]].

        Args:
            index: of DT_INT32 or DT_INT64 in [0, x.dims[dim]), of the input's rank and in no other
                dimension larger than it; another index is a ValueError when it is met.

        >>> index = ffmodel.create_tensor([64, 3], DataType.DT_INT64)
        >>> ffmodel.gather(x, index, 1).dims
        (64, 3)
        """
        dim = integer(dim, f"{name or 'gather'}: dim")
        return self._op("gather", [input, index], name, dim=dim)

    def top_k(
        self, input: Tensor, k: int, sorted: bool = True, name: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """The k largest elements of the last dimension and where they stand: (..., n) -> (..., k)
        and, of DT_INT32, (..., k). Of equal elements the first ones are taken. Gradients flow to
        the elements that are taken.

        Args:
            k: from 1 to n.
            sorted: the largest first; otherwise in the order in which they stand.

        >>> values, indices = ffmodel.top_k(x, 2)
        >>> values.dims, indices.dims, indices.data_type
        ((64, 2), (64, 2), <DataType.DT_INT32: 41>)
        """
        who = name or "top_k"
        k, sorted = integer(k, f"{who}: k"), boolean(sorted, f"{who}: sorted")
        values, indices = self.op("top_k", [input], name, outputs=2, k=k, sorted=sorted)
        return values, indices


def _equal_parts(input: Tensor, count: int, axis: int, who: str) -> list[int]:
    if not -input.num_dims <= axis < input.num_dims:
        raise ValueError(f"{who}: axis {axis} is out of range for {input.num_dims} dimensions")
    extent = input.dims[axis]
    if count < 1 or extent % count:
        raise ValueError(
            f"{who}: {extent} elements along axis {axis} do not make {count} equal parts; "
            "give a list of sizes"
        )
    return [extent // count] * count
