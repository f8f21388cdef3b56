"""Mixture of experts: layers that send samples to experts and put together what these made.

In the examples, ``x`` is a float tensor of shape (64, 16).
"""

from __future__ import annotations

from collections.abc import Sequence

from flexflow.core.checks import integer, real
from flexflow.core.products import ProductOps
from flexflow.core.tensor import Tensor
from flexflow.core.types import ActiMode


class ExpertOps(ProductOps):
    """Methods of FFModel."""

    def group_by(
        self, input: Tensor, assign: Tensor, n: int, alpha: float, name: str | None = None
    ) -> list[Tensor]:
        """For each of n experts, the samples that chose it: (b, ...) and (b, k) -> n times
        (ceil(alpha * k * b / n), ...).

        An expert gives its rows away in the order of the samples; who comes too late goes without,
        and rows that nobody takes are zeros. That order is the whole batch's, on any number of
        devices.

        Args:
            assign: the experts of each sample, of DT_INT32 or DT_INT64 in [0, n).
            alpha: rows of all experts together, per choice; 1 is enough if all are chosen alike.

        >>> values, assign = ffmodel.top_k(ffmodel.dense(x, 4), 2)
        >>> [rows.dims for rows in ffmodel.group_by(x, assign, 4, 1.5)]
        [(48, 16), (48, 16), (48, 16), (48, 16)]
        """
        who = name or "group_by"
        n, alpha = integer(n, f"{who}: n", 1), real(alpha, f"{who}: alpha", 0)
        return self.op("group_by", [input, assign], name, outputs=n, n=n, alpha=alpha)

    def aggregate(
        self, inputs: Sequence[Tensor], n: int, lambda_bal: float = 0.0, name: str | None = None
    ) -> Tensor:
        """What the experts made of each sample, weighed and summed: -> (b, ...).

        Args:
            inputs: ``gate_preds`` (b, k), the weights; ``gate_assign`` (b, k), the experts that
                ``group_by`` was given; ``true_gate_assign`` (b, k), those that the gate would
                choose now, which is the same tensor unless choices are kept from step to step;
                ``full_gate_gradients`` (b, n), the gate's output for all experts; and the results
                (rows, ...) of the n experts.
            lambda_bal: weight of a loss that wants experts chosen alike. Its gradient, lambda_bal *
                n / b * (choices of the expert - k * b / n), goes to ``full_gate_gradients``. The
                result's own gradient flows to ``gate_preds``, where true choices are the given
                ones, and to the experts.

        >>> values, assign = ffmodel.top_k(gate := ffmodel.dense(x, 4), 2)
        >>> made = [ffmodel.dense(rows, 8) for rows in ffmodel.group_by(x, assign, 4, 1.5)]
        >>> ffmodel.aggregate([values, assign, assign, gate, *made], 4, 0.01).dims
        (64, 8)
        """
        who = name or "aggregate"
        if not isinstance(inputs, (list, tuple)):
            raise TypeError(f"{who}: inputs is {inputs!r}, expected a list")
        n, lambda_bal = integer(n, f"{who}: n", 1), real(lambda_bal, f"{who}: lambda_bal")
        return self._op("aggregate", inputs, name, n=n, lambda_bal=lambda_bal)

    def moe(
        self,
        input: Tensor,
        num_exp: int,
        num_select: int,
        expert_hidden_size: int,
        alpha: float,
        lambda_bal: float = 0.0,
        name: str | None = None,
    ) -> Tensor:
        """A layer of experts: (b, i) -> (b, expert_hidden_size). A gate, dense with relu, scores
        them, each sample goes to the best ``num_select`` (``top_k``, ``group_by``), an expert is
        dense with relu and softmax, and ``aggregate`` weighs their results by the softmax of the
        scores.

        Args:
            num_exp, num_select: how many experts there are, and how many each sample has.
            alpha, lambda_bal: of ``group_by`` and ``aggregate``.
            name: of the last layer; those before it are called name/gate, name/expert_0, ...

        >>> ffmodel.moe(x, num_exp=4, num_select=2, expert_hidden_size=8, alpha=2.0).dims
        (64, 8)
        """
        base = name or "moe"
        relu = ActiMode.AC_MODE_RELU
        gate = self._self.dense(input, num_exp, relu, name=f"{base}/gate")
        scores, chosen = self._self.top_k(gate, num_select, sorted=False, name=f"{base}/top_k")
        rows = self.group_by(input, chosen, num_exp, alpha, name=f"{base}/group_by")
        made = [
            self._self.softmax(
                self._self.dense(row, expert_hidden_size, relu, name=f"{base}/expert_{i}")
            )
            for i, row in enumerate(rows)
        ]
        weights = self._self.softmax(scores, name=f"{base}/weights")
        return self.aggregate([weights, chosen, chosen, gate, *made], num_exp, lambda_bal, base)
