"""From the rules of a strategy to the operators of a model."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flexflow.core.placement import KINDS, Index, Placement, indices_of, resolve

if TYPE_CHECKING:
    from flexflow.core.layer import Op
    from flexflow.core.model import FFModel
    from flexflow.core.strategy import Strategy

# Operators that leave a tensor split as it comes, element by element.
_ELEMENTWISE = frozenset(
    [
        "relu",
        "gelu",
        "sigmoid",
        "tanh",
        "elu",
        "silu",
        "leaky_relu",
        "dropout",
        "identity",
        "exp",
        "sin",
        "cos",
        "scalar_add",
        "scalar_sub",
        "scalar_multiply",
        "scalar_true_divide",
    ]
)
# Operators that share their weights out within themselves, and the index that does so: each device
# has some heads, or some words, and their results are summed.
_WITHIN = {"multihead_attention": "h", "embedding": "v"}


class Binding:
    """Turns patterns, kinds and tensor parallelism into placements of the operators of a model."""

    def __init__(self, strategy: Strategy, model: FFModel) -> None:
        self.strategy, self.model = strategy, model
        self.columns: set[int] = set()  # tensors whose channels are split
        self.placed: set[int] = set()  # tensors made, directly or not, by a placed operator
        self.general: set[str] = set()  # names of indices in the rule for all operators ...
        self.resolved: set[str] = set()  # ... and those of them that some operator has

    def placements(self) -> Iterator[tuple[str, Placement]]:
        for op in self.model.get_layers().values():
            follows = any(tensor in self.placed for tensor in _inputs(op))
            rule = self._rule(op.name)
            if rule is not None and rule[0] != "*":
                placement: Placement | None = self._as_said(op, rule[1])
            else:
                placement = self._in_general(op, rule[1] if rule else Placement(), follows)
            if placement is not None:
                yield op.name, placement
            if placement is not None or follows:
                self.placed.update(_outputs(op))
        for name in sorted(self.general - self.resolved - set(KINDS)):
            raise ValueError(f"strategy: no operator that '*' matches has an index {name!r}")

    def _rule(self, name: str) -> tuple[str, Placement] | None:
        rules = reversed(self.strategy.rules)
        return next((rule for rule in rules if fnmatch.fnmatchcase(name, rule[0])), None)

    def _as_said(self, op: Op, said: Placement) -> Placement:
        """What a rule says about this operator, with kinds as indices."""
        indices = indices_of(self.model, op)
        splits: dict[str, int] = {}
        for name, degree in said.splits.items():
            index = resolve(name, indices)
            if index is None:
                known = ", ".join(f"{i.name} ({i.kind})" for i in indices)
                raise ValueError(
                    f"strategy: {op.name} has no index {name!r} to split; it has {known or 'none'}"
                )
            splits[index.name] = degree
        return Placement(splits, said.start, said.grid())

    def _in_general(self, op: Op, said: Placement, follows: bool) -> Placement | None:
        """What a rule for all operators comes to here. Who has weights to share is placed, and who
        reads nothing that is placed; the others follow what they read."""
        indices = indices_of(self.model, op)
        self.general.update(said.splits)
        self.resolved.update(name for name in said.splits if resolve(name, indices))
        tensor = self._tensor_index(op, indices)
        if tensor is None and follows:
            return None
        splits: dict[str, int] = {}
        strides: list[int] = []
        for (name, degree), stride in zip(said.splits.items(), said.grid()):
            index = resolve(name, indices)
            if index is not None:
                splits[index.name] = degree
                strides.append(stride)
        if tensor is not None and tensor.name not in splits:
            splits[tensor.name] = self.strategy.tensor_parallel_degree
            strides.append(1)
        return Placement(splits, said.start, tuple(strides)) if splits else None

    def _tensor_index(self, op: Op, indices: list[Index]) -> Index | None:
        """The index for tensor parallelism: that of _WITHIN; else output channels, or input
        channels where these come split already."""
        degree = self.strategy.tensor_parallel_degree
        if degree == 1:
            return None
        if op.kind in _WITHIN:
            within = resolve(_WITHIN[op.kind], indices)
            return within if within is not None and within.extent >= degree else None
        inputs = _inputs(op)
        split = bool(inputs) and inputs[0] in self.columns
        if op.kind in _ELEMENTWISE and split:
            self.columns.update(_outputs(op))
        if op.kind not in ("linear", "conv2d"):
            return None
        chosen = resolve("reduction" if split else "parameter", indices)
        if chosen is not None and not split:
            self.columns.update(_outputs(op))
        return chosen


def matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _outputs(op: Op) -> list[int]:
    return [op.get_output_by_id(k).id for k in range(op.get_number_outputs())]


def _inputs(op: Op) -> list[int]:
    return [op.get_input_by_id(k).id for k in range(op.get_number_inputs())]
