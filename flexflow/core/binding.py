"""From the rules of a strategy to the operators of a model."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flexflow.core.guard import did_you_mean
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
# What makes a pattern more than a name. A bound strategy has names only, and many of them.
_WILD = re.compile(r"[*?\[]")


class Binding:
    """Turns patterns, kinds and tensor parallelism into placements of the operators of a model."""

    def __init__(self, strategy: Strategy, model: FFModel) -> None:
        self.strategy, self.model = strategy, model
        self.columns: set[int] = set()  # tensors whose channels are split
        self.placed: set[int] = set()  # tensors made, directly or not, by a placed operator
        self.stages = stages_of(strategy, model)
        self.general: set[str] = set()  # names of indices in the rule for all operators ...
        self.resolved: set[str] = set()  # ... and those of them that some operator has

    def placements(self) -> Iterator[tuple[str, Placement]]:
        stage_of_tensor: dict[int, int] = {}
        for op in self.model.get_layers().values():
            stage = self.stages[op.name]
            follows = any(
                tensor in self.placed and stage_of_tensor[tensor] == stage for tensor in _inputs(op)
            )
            stage_of_tensor.update(dict.fromkeys(_outputs(op), stage))
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
            raise ValueError(f"no operator that '*' matches has an index {name!r}")

    def _rule(self, name: str) -> tuple[str, Placement] | None:
        rules = reversed(self.strategy.rules)
        return next((rule for rule in rules if matches(name, [rule[0]])), None)

    def _as_said(self, op: Op, said: Placement) -> Placement:
        """What a rule says about this operator, with kinds as indices."""
        indices = indices_of(self.model, op)
        splits: dict[str, int] = {}
        for name, degree in said.splits.items():
            index = resolve(name, indices)
            if index is None:
                known = ", ".join(f"{i.name} ({i.kind})" for i in indices)
                raise ValueError(
                    f"{op.name} has no index {name!r} to split; it has {known or 'none'}"
                    + did_you_mean(name, [*KINDS, *(i.name for i in indices)])
                )
            _add(splits, index.name, degree, op)
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
                _add(splits, index.name, degree, op)
                strides.append(stride)
        if tensor is not None and tensor.name not in splits:
            splits[tensor.name] = self.strategy.tensor_parallel_degree
            strides.append(1)
        if not splits and self.strategy.stage_count == self.strategy.micro_batches == 1:
            return None
        return Placement(splits, said.start, tuple(strides))

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


def stages_of(strategy: Strategy, model: FFModel) -> dict[str, int]:
    """The stage of the pipeline that each operator belongs to, by its name.

    Raises:
        ValueError: a stage is empty, or an operator reads what a later stage makes.
    """
    operators = list(model.get_layers().values())
    if strategy.pipeline_degree > 1:
        return _even_stages(model, operators, strategy.pipeline_degree)
    stages: dict[str, int] = {}
    makers: dict[int, Op] = {}
    for op in operators:
        before = [makers[tensor] for tensor in _inputs(op) if tensor in makers]
        latest = max(before, key=lambda maker: stages[maker.name], default=None)
        least = stages[latest.name] if latest is not None else 0
        named = (k for k, patterns in enumerate(strategy.stages) if matches(op.name, patterns))
        stages[op.name] = next(named, least)
        if latest is not None and stages[op.name] < least:
            raise ValueError(
                f"{op.name} is in stage {stages[op.name]} of the pipeline and reads what "
                f"{latest.name} of stage {least} makes; expected the same or a later stage"
            )
        makers.update(dict.fromkeys(_outputs(op), op))
    for number, patterns in enumerate(strategy.stages):
        if number not in stages.values():
            raise ValueError(f"no operator of the model is in stage {number}: {patterns}")
    return stages


def _even_stages(model: FFModel, operators: Sequence[Op], count: int) -> dict[str, int]:
    """Operators in their order, cut so that the stage with the most work has as little as can be;
    work is floating-point operations, and each operator counts for one at least."""
    if len(operators) < count:
        raise ValueError(f"a pipeline of {count} stages of a model with {len(operators)} operators")
    work = [0.0]
    for op in operators:
        work.append(work[-1] + max(1.0, model.flops(op.made)))
    ends = range(len(operators) + 1)
    most = [work[end] for end in ends]  # of the first stages up to `end`, the most of one of them
    cuts: list[list[int]] = []
    for stage in range(1, count):
        reach = [[max(most[cut], work[end] - work[cut]) for cut in range(end)] for end in ends]
        best = [min(range(stage, end), key=reach[end].__getitem__, default=stage) for end in ends]
        most = [reach[end][cut] if cut < end else most[end] for end, cut in zip(ends, best)]
        cuts.append(best)
    starts, end = [], len(operators)
    for best in reversed(cuts):
        end = best[end]
        starts.append(end)
    return {op.name: sum(k >= start for start in starts) for k, op in enumerate(operators)}


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether some pattern is the name or, with ``*`` and ``?``, stands for it."""
    return name in patterns or any(
        fnmatch.fnmatchcase(name, pattern) for pattern in patterns if _WILD.search(pattern)
    )


def _add(splits: dict[str, int], index: str, degree: int, op: Op) -> None:
    """A kind may stand for an index that is named as well."""
    if index in splits:
        raise ValueError(
            f"{op.name}: index {index!r} is split in {splits[index]} and in {degree}; "
            "name it, or its kind, once"
        )
    splits[index] = degree


def _outputs(op: Op) -> list[int]:
    return [op.get_output_by_id(k).id for k in range(op.get_number_outputs())]


def _inputs(op: Op) -> list[int]:
    return [op.get_input_by_id(k).id for k in range(op.get_number_inputs())]
