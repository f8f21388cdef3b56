"""Strategies: how every operator is split, and on which devices its parts run."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexflow.core import strategy_file
from flexflow.core._lib import attributes, text
from flexflow.core.binding import Binding, matches, stages_of
from flexflow.core.checks import integer, integers, need_file, shown, some, told_by
from flexflow.core.drawing import Layout, dot, line_of
from flexflow.core.files import replacing
from flexflow.core.guard import did_you_mean
from flexflow.core.placement import MOST, Placement, indices_of, resolve
from flexflow.core.ranks import ranks
from flexflow.core.values import GraphValues

if TYPE_CHECKING:
    from flexflow.core.model import FFModel

_SHARED, _RECOMPUTED = "updates are shared out", "computed again in the backward pass"


class Strategy:
    """A value that says how a model is executed on several devices.

    It holds rules, pattern by pattern; the last one that matches an operator's name counts, alone.
    Operators that no rule matches follow what they read. Any strategy that fits the model computes
    what one device computes, up to rounding.

    >>> strategy = Strategy(2).split("*", sample=2).split("head*", parameter=2)
    >>> print(strategy)
    strategy for 2 devices
      *: sample in 2, on devices 0, 1
      head*: parameter in 2, on devices 0, 1
    """

    def __init__(self, devices: int) -> None:
        self.devices = integer(devices, "Strategy: devices", 1, MOST)
        self.rules: list[tuple[str, Placement]] = []
        self.tensor_parallel_degree = 1
        self.pipeline_degree = 1  # stages that are cut evenly ...
        self.stages: list[list[str]] = []  # ... or these: patterns of operators
        self.micro_batches = 1
        self.shared_updates: list[str] = []  # patterns of operators
        self.recomputed: list[str] = []  # likewise
        self._origin = "strategy"  # or the file that it was read from, for messages
        # Of what it says, and what that comes to on the model that it is bound to, line by line.
        self._bound_lines: tuple[dict[str, Any], list[str]] | None = None

    # ---- ready-made ones ----
    @classmethod
    def data_parallel(cls, devices: int) -> Strategy:
        """Every operator on its share of the samples; gradients are summed over all devices.

        >>> Strategy.data_parallel(4).devices
        4
        """
        return cls.hybrid(dp=devices)

    @classmethod
    def tensor_parallel(cls, devices: int) -> Strategy:
        """Linear layers and convolutions split in turn by output and by input channels, so that
        every second one needs a sum; attention by its heads, and embeddings by their entries
        (Megatron-LM, Shoeybi et al. 2019).

        >>> Strategy.tensor_parallel(2).devices
        2
        """
        return cls.hybrid(tp=devices)

    @classmethod
    def hybrid(
        cls, dp: int = 1, tp: int = 1, pp: int = 1, micro_batches: int | None = None
    ) -> Strategy:
        """``pp`` stages of a pipeline with about the same work; in each, ``dp`` groups share the
        samples; in each of these, ``tp`` neighbouring devices share the weights.

        Args:
            micro_batches: that a batch is cut into; None: 2 for each stage, 1 without a pipeline.

        Raises:
            ValueError: a number is less than 1. TypeError: it is none.

        >>> print(Strategy.hybrid(dp=2, tp=2, pp=2))
        strategy for 8 devices
          pipeline in 2, with 4 micro-batches
          tensor parallel in 2
          *: sample in 2, on devices 0, 2 of its stage
        """
        dp, tp, pp = (
            integer(degree, f"hybrid: {name}", 1, MOST)
            for name, degree in (("dp", dp), ("tp", tp), ("pp", pp))
        )
        strategy = cls(dp * tp * pp)
        strategy.tensor_parallel_degree = tp
        strategy.pipeline_degree = pp
        if micro_batches is None:
            micro_batches = 2 * pp if pp > 1 else 1
        strategy.micro_batches = integer(micro_batches, "hybrid: micro_batches", 1, MOST)
        if dp > 1:
            strategy.split("*", sample=dp, strides=(tp,))
        return strategy

    # ---- edits ----
    def split(
        self,
        pattern: str,
        *,
        start: int = 0,
        strides: Sequence[int] | None = None,
        **splits: int,
    ) -> Strategy:
        """Say how the operators whose names match a pattern are split; returns the strategy.

        Args:
            pattern: of names, with ``*`` and ``?``.
            start: device of the first part.
            strides: by split, devices from part to part; None: row-major.
            splits: parts by index or kind, as in ``Placement``.

        Raises:
            ValueError: a number is out of range, or a device beyond the strategy's is reached.
            TypeError: an argument of a wrong type.

        >>> Strategy(4).split("dense", sample=2, o=2).rules[0][1].grid()
        (2, 1)
        """
        self.add_rule(pattern, splits, start, strides)
        return self

    def add_rule(self, pattern: Any, splits: Mapping[str, Any], start: Any, strides: Any) -> None:
        """What ``split`` does, of values that may be of any type."""
        who = f"split({_pattern(pattern, 'split')!r})"
        degrees = {
            name: integer(degree, f"{who}: parts of {name}", 1, MOST)
            for name, degree in splits.items()
        }
        grid = None
        if strides is not None:
            grid = tuple(integers(strides, f"{who}: strides"))
            if len(grid) != len(degrees):
                raise ValueError(f"{who}: {len(grid)} strides for {len(degrees)} splits")
            for stride in grid:
                integer(stride, f"{who}: stride", 0, MOST)
        placement = Placement(degrees, integer(start, f"{who}: start", 0), grid)
        if placement.devices() > self.devices:
            raise ValueError(
                f"{who}: the parts reach device {placement.devices() - 1} from device "
                f"{start}; the strategy has devices 0 to {self.devices - 1}"
            )
        self.rules.append((pattern, placement))

    def pipeline(self, *stages: Sequence[str], micro_batches: int) -> Strategy:
        """Cut the model into stages that work one behind the other on micro-batches, forward and
        backward in turn (1F1B, Narayanan et al. 2021), and add up the gradients. The stages have
        equal numbers of neighbouring devices; ``start`` of a split counts from the first device of
        its operator's stage. With one stage, gradients are accumulated, and only the activations of
        one micro-batch are there at a time.

        Args:
            stages: of each, patterns of the names of its operators. One that none matches belongs
                to the last stage of those whose results it reads.
            micro_batches: parts of the batch, as even as can be; a smaller batch may leave some
                empty.

        Raises:
            ValueError: the devices cannot be shared out evenly, or there is no stage or no
                micro-batch. TypeError: a stage is no sequence of texts.

        >>> print(Strategy(2).pipeline(["up"], ["down", "head"], micro_batches=4))
        strategy for 2 devices
          stage 0 of 2, with 4 micro-batches: up
          stage 1 of 2, with 4 micro-batches: down, head
        """
        for stage in stages:
            if not _are_patterns(stage):
                raise TypeError(
                    f"pipeline: stage is {shown(stage)}, expected a list of names or patterns"
                )
        if not stages or self.devices % len(stages):
            raise ValueError(
                f"pipeline: {len(stages)} stages for {self.devices} devices; expected a number of "
                "stages that divides them"
            )
        self.micro_batches = integer(micro_batches, "pipeline: micro_batches", 1, MOST)
        self.stages = [list(stage) for stage in stages]
        self.pipeline_degree = 1
        return self

    @property
    def stage_count(self) -> int:
        """How many stages the pipeline has; 1 without one."""
        return max(self.pipeline_degree, len(self.stages))

    def share_updates(self, pattern: str = "*") -> Strategy:
        """Let devices that hold copies of a weight update a slice each, with the optimizer's state
        of that slice only, and then exchange the slices (ZeRO stage 1, Rajbhandari et al. 2020).

        >>> Strategy.data_parallel(2).share_updates().shared_updates
        ['*']
        """
        self.shared_updates.append(_pattern(pattern, "share_updates"))
        return self

    def recompute(self, pattern: str) -> Strategy:
        """Do not keep what operators make until the backward pass needs it, but compute it again
        there, from the nearest tensors that are kept: less memory for more work ("Training deep
        nets with sublinear memory cost", Chen et al. 2016). Numbers stay the same, to the bit on
        one device. An activation that is part of a layer goes with it; what the caller reads, as
        the prediction, is kept all the same.

        It spares memory where some tensors are kept on the way: of n layers alike, all but every
        sqrt(n)-th. With all of them, the first step backward makes all again at once.

        Args:
            pattern: of names of operators, with ``*`` and ``?``.

        >>> print(Strategy(1).recompute("dense*"))
        strategy for 1 device
          dense*: computed again in the backward pass
        """
        self.recomputed.append(_pattern(pattern, "recompute"))
        return self

    # ---- files ----
    def to_json(self) -> dict[str, Any]:
        """The strategy as plain values."""
        return strategy_file.values_of(self)

    @classmethod
    def from_json(cls, values: Any, where: str = "strategy") -> Strategy:
        """A strategy from plain values; ValueError names what is wrong in them."""
        with told_by(where):
            devices: Any = strategy_file.checked(values).get("devices")
            strategy = cls(devices)
            strategy_file.read_into(strategy, values)
        return strategy

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the strategy as JSON, one operator a line. Several ranks may do so together."""
        values = self.to_json()
        lines = ",\n    ".join(json.dumps(entry) for entry in values.pop("ops"))
        head = json.dumps(values, indent=2)[:-2]
        text = f'{head},\n  "ops": [\n    {lines}\n  ]\n}}\n'
        if ranks() == 1:
            Path(path).write_text(text)
            return
        with replacing(Path(os.path.realpath(path))) as file:
            file.write(text.encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Strategy:
        """Read what ``save`` wrote, or what was written by hand.

        Raises:
            ValueError: it is no JSON, or no strategy; says where and why.
            FileNotFoundError: there is no such file.
        """
        need_file(path, "Strategy.load")
        content = Path(path).read_bytes()
        try:
            values = json.loads(content)
        except (ValueError, RecursionError) as error:  # among others, of bytes that are no text
            raise ValueError(f"{path}: not JSON: {error}") from None
        strategy = cls.from_json(values, str(path))
        strategy._origin = str(path)
        return strategy

    def __str__(self) -> str:
        head = f"strategy for {self.devices} device{'s' * (self.devices > 1)}"
        if self._bound_lines and self._bound_lines[0] == self.to_json():
            stages = f"{self.stage_count} stages, " * (self.stage_count > 1)
            if self.micro_batches > 1 or stages:
                head += f", {stages}{self.micro_batches} micro-batches"
            return "\n  ".join([head, *self._bound_lines[1]])
        return "\n  ".join([head, *self._rule_lines()])

    def __repr__(self) -> str:
        lines = self._rule_lines()
        more = [f"and {len(lines) - 4} more"] * (len(lines) > 4)
        said = "; ".join([*lines[:4], *more]) or "all of a model on device 0"
        return f"<Strategy for {self.devices} device{'s' * (self.devices > 1)}: {said}>"

    def _rule_lines(self) -> list[str]:
        lines = []
        micro = f"with {self.micro_batches} micro-batches"
        if self.pipeline_degree > 1:
            lines.append(f"pipeline in {self.pipeline_degree}, {micro}")
        elif self.micro_batches > 1 and not self.stages:
            lines.append(micro)
        lines += [
            f"stage {k} of {len(self.stages)}, {micro}: {', '.join(stage)}"
            for k, stage in enumerate(self.stages)
        ]
        if self.tensor_parallel_degree > 1:
            lines.append(f"tensor parallel in {self.tensor_parallel_degree}")
        whose = " of its stage" * (self.stage_count > 1)
        lines += [f"{pattern}: {placement}{whose}" for pattern, placement in self.rules]
        lines += [f"{pattern}: {_SHARED}" for pattern in self.shared_updates]
        lines += [f"{pattern}: {_RECOMPUTED}" for pattern in self.recomputed]
        return lines

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Strategy) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    # ---- on a model ----
    def bind(self, model: FFModel) -> Strategy:
        """The strategy with an entry for every operator of the model that it splits, by index. It
        prints one line for every operator, also for those that only follow: what it is split into
        and the devices of its parts, counted from the first one of all.

        Raises:
            ValueError: a pattern matches no operator, or the model cannot be split so; says which
                and why. TypeError: it is no FFModel.

        >>> t = ffmodel.softmax(ffmodel.dense(x, 4, name="top"), name="probabilities")
        >>> print(Strategy.data_parallel(2).bind(ffmodel))
        strategy for 2 devices
          top: b0 in 2, on devices 0, 1
          probabilities: follows what it reads: b0 in 2, on devices 0, 1
        """
        bound = self._resolved(model)
        layout, notes = self._layout(bound, model), bound._notes(model)
        placements = _absolute(bound, model)
        lines = [
            line_of(name, placements.get(name), layout.spreads.get(op.made), notes[name])
            for name, op in ((op.name, op) for op in model.get_layers().values())
        ]
        bound._bound_lines = bound.to_json(), lines
        return bound

    def _resolved(self, model: FFModel) -> Strategy:
        """Bound to a model, but for what is printed."""
        if not isinstance(model, GraphValues):
            raise TypeError(
                f"strategy: got {model!r}, expected an FFModel (of Keras: model.ffmodel)"
            )
        with told_by(self._origin):
            bound = self._with_names(model)
            per_stage = bound.devices // bound.stage_count
            for name, placement in bound.rules:
                if placement.devices() > per_stage:
                    raise ValueError(
                        f"{name}: {placement} reaches beyond its stage, which has "
                        f"{per_stage} device{'s' * (per_stage > 1)}, counted from 0"
                    )
        return bound

    def _with_names(self, model: FFModel) -> Strategy:
        bound = Strategy(self.devices)
        names = [op.name for op in model.get_layers().values()]
        computing = [op.name for op in model.get_layers().values() if op.get_number_inputs()]
        said = [rule[0] for rule in self.rules] + self.shared_updates + self.recomputed
        for pattern in itertools.chain(said, *self.stages):
            if not any(matches(name, [pattern]) for name in names):
                near = did_you_mean(pattern, names) or f"; it has {some(names)}"
                raise ValueError(f"no operator of the model matches {pattern!r}{near}")
        for pattern in self.recomputed:
            if not any(matches(name, [pattern]) for name in computing):
                raise ValueError(
                    f"recompute({pattern!r}): what it matches reads no tensor, so that "
                    "there is nothing to compute again; name operators that do"
                )
        weighted = [op.name for op in model.get_layers().values() if op.get_number_parameters()]
        for pattern in self.shared_updates:
            if not any(matches(name, [pattern]) for name in weighted):
                raise ValueError(
                    f"share_updates({pattern!r}): what it matches has no weights to "
                    "update; name operators that do"
                )
        bound.shared_updates = [name for name in weighted if matches(name, self.shared_updates)]
        bound.recomputed = [name for name in computing if matches(name, self.recomputed)]
        if self.stage_count > 1 or self.micro_batches > 1:
            stages = stages_of(self, model)
            bound.pipeline(
                *([name for name in names if stages[name] == k] for k in range(self.stage_count)),
                micro_batches=self.micro_batches,
            )
        if self.rules or self.tensor_parallel_degree > 1 or bound.stages:
            bound.rules = list(Binding(self, model).placements())
        return bound

    def _layout(self, bound: Strategy, model: FFModel) -> Layout:
        options = attributes(bound_options(bound, model))
        with told_by(self._origin):
            return Layout(text("ff_graph_layout", model.graph_handle, options, len(options)))

    def _notes(self, model: FFModel) -> dict[str, list[str]]:
        """What a bound strategy says of operators beside their parts, also by the tensor that an
        activation of theirs makes."""
        notes = {}
        stages = stages_of(self, model)
        for op in model.get_layers().values():
            said = [f"stage {stages[op.name]}"] * (self.stage_count > 1)
            said += [_RECOMPUTED] * (op.name in self.recomputed)
            notes[op.get_output_by_id(0).name] = said
            notes[op.name] = said + [_SHARED] * (op.name in self.shared_updates)
        return notes

    def to_dot(self, model: FFModel) -> str:
        """The graph of a model in Graphviz's language, as the strategy splits it: each operator
        with its parts by index and its devices, one colour for each set of devices. An edge is
        bold where tensors move between devices, and says how: ``repartition`` (another rectangle of
        a part), ``combine`` (parts are put together), ``replicate`` (a copy), ``reduction``
        (partial results are summed). An edge from an operator to itself is of one that is computed
        in steps with moves between them. An operator tells its stage, its micro-batches, which are
        no parts, and whether it is computed again or its updates are shared out. What is drawn is
        the forward pass in training; the model need not be compiled.

        Raises:
            ValueError: the strategy does not fit the model; names the operator and says why.

        >>> x = ffmodel.create_tensor([64, 16], name="x")
        >>> t = ffmodel.dense(ffmodel.dense(x, 8, name="up"), 4, name="down")
        >>> print(Strategy(2).split("up", o=2).split("down", i=2).to_dot(ffmodel))
        digraph strategy {
          node [shape=box, style="rounded,filled", colorscheme=set312]
          "x" [label="x: input\\ndevice 0", fillcolor=1]
          "up" [label="up: linear\\no in 2\\ndevices 0, 1", fillcolor=2]
          "down" [label="down: linear\\ni in 2\\ndevices 0, 1", fillcolor=2]
          "x" -> "up" [label="replicate", style=bold]
          "up" -> "down"
        }
        """
        bound = self._resolved(model)
        return dot(model, self._layout(bound, model), bound._notes(model))


def _pattern(value: Any, who: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{who}: pattern is {shown(value)}, expected a name or pattern")
    return value


def _are_patterns(values: Any) -> bool:
    """Whether it is a list of texts, and no text."""
    listed = isinstance(values, Sequence) and not isinstance(values, (str, bytes))
    return listed and all(isinstance(value, str) for value in values)


def strategy_options(
    strategy: Strategy | None, model: FFModel, who: str = "compile"
) -> dict[str, Any]:
    """What ``compile`` tells the library about a strategy: the given one, the one of the file that
    ``--import-strategy`` names, or data parallelism over all devices of the configuration; with
    ``--only-data-parallel`` that in any case, over as many devices as the strategy has."""
    config = model.ffconfig
    if strategy is None and config.import_strategy_file:
        need_file(config.import_strategy_file, f"{who}: --import-strategy")
        strategy = Strategy.load(config.import_strategy_file)
    if strategy is None:
        strategy = Strategy.data_parallel(config.device_count())
    if not isinstance(strategy, Strategy):
        raise TypeError(f"{who}: strategy is {strategy!r}, expected a Strategy")
    if config.only_data_parallel:
        strategy = Strategy.data_parallel(max(strategy.devices, config.devices))
    bound = strategy._resolved(model)
    if strategy._origin != "strategy":
        strategy._layout(bound, model)  # what cannot be split so is then told with the file's name
    if config.export_strategy_file:
        bound.save(config.export_strategy_file)
    devices = max(strategy.devices, config.devices)
    devices += -devices % config.ranks  # each has as many
    return {"devices": devices, **bound_options(bound, model)}


def bound_options(bound: Strategy, model: FFModel) -> dict[str, Any]:
    """What the library is told about a strategy that is bound to a model."""
    options: dict[str, Any] = {}
    if bound.stages:
        per_stage = bound.devices // bound.stage_count
        options["stages"] = [device // per_stage for device in range(bound.devices)]
    operators = {op.name: op for op in model.get_layers().values()}
    for name, placement in _absolute(bound, model).items():
        words = [str(placement.start)]
        sample = resolve("sample", indices_of(model, operators[name]))
        if bound.micro_batches > 1 and sample is not None:
            words.append(f"{sample.name}:{bound.micro_batches}:0")
        splits = zip(placement.splits.items(), placement.grid())
        words += [f"{index}:{degree}:{stride}" for (index, degree), stride in splits]
        options[f"place:{name}"] = " ".join(words)
    for op in model.get_layers().values():
        if op.name in bound.shared_updates:
            for weight in op.get_parameters():
                options[f"share_update:{weight.name}"] = True
        if op.name in bound.recomputed:
            # A layer's activation is an operator of its own, which makes the layer's output.
            for name in {op.name, op.get_output_by_id(0).name}:
                options[f"recompute:{name}"] = True
    return options


def _absolute(bound: Strategy, model: FFModel) -> dict[str, Placement]:
    """The placements of a bound strategy, with devices counted from the first of all stages."""
    stages = stages_of(bound, model)
    per_stage = bound.devices // bound.stage_count
    return {
        name: Placement(said.splits, said.start + stages[name] * per_stage, said.grid())
        for name, said in bound.rules
    }
