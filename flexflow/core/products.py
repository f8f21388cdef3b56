"""Layers that multiply tensors with each other.

In the examples, ``x`` is a float tensor of shape (64, 16).
"""

from __future__ import annotations

from flexflow.core.shapes import ShapeOps
from flexflow.core.tensor import Tensor


class ProductOps(ShapeOps):
    """Methods of FFModel."""

    def batch_matmul(
        self,
        A: Tensor,  # noqa: N803  (FlexFlow's names)
        B: Tensor,  # noqa: N803
        a_seq_length_dim: int | None = None,
        b_seq_length_dim: int | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Products of matrices: (..., n, k) and (..., k, m) -> (..., n, m).

        Args:
            A, B: of one float type and one rank, alike in all dimensions before the last two.
            a_seq_length_dim, b_seq_length_dim: which of their dimensions runs over a sequence: 0
                for the last, 1 for the one before it; None: none. It changes no result.

        Raises:
            ValueError: the shapes do not fit each other, or there is no such dimension.

        >>> a = ffmodel.create_tensor([64, 5, 7], DataType.DT_FLOAT)
        >>> b = ffmodel.create_tensor([64, 7, 3], DataType.DT_FLOAT)
        >>> ffmodel.batch_matmul(a, b).dims
        (64, 5, 3)
        """
        return self._op(
            "batch_matmul",
            [A, B],
            name,
            a_seq_length_dim=a_seq_length_dim,
            b_seq_length_dim=b_seq_length_dim,
        )

    def einsum(self, equation: str, x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
        """Sums of products of two tensors, as torch.einsum has them.

        Args:
            equation: a letter for each dimension of x, of y and of the result, for example
                "bnk,bkm->bnm"; each letter in two of the three at least, and in none twice.

        Raises:
            ValueError: the equation is none, or does not fit the shapes.

        >>> ffmodel.einsum("bi,bj->bij", x, x).dims
        (64, 16, 16)
        """
        if not isinstance(equation, str):
            raise TypeError(f"{name or 'einsum'}: equation is {equation!r}, expected a string")
        parts = ["".join(part.split()) for part in equation.replace("->", ">").split(">")]
        spelt = " -> ".join(" ".join(part).replace(" , ", ", ") for part in parts)
        return self._op("einsum", [x, y], name, equation=spelt)
