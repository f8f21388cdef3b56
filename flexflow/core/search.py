"""Finding a strategy for a machine, which need not be there."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from flexflow.core import _abi
from flexflow.core._lib import Handle, attributes, call
from flexflow.core.checks import boolean, integer, real, shown
from flexflow.core.machine_model import MachineModel
from flexflow.core.placement import KINDS
from flexflow.core.strategy import Strategy, bound_options

if TYPE_CHECKING:
    from flexflow.core.model import FFModel

METHODS = ("elimination", "mcmc", "exhaustive")
_SLICE_MS = 100.0  # the longest stay in the library: Ctrl-C waits for it
_MOST_TENSOR_PARALLEL = 8
_ENDLESS = 2**62  # iterations, where time is the limit


class Estimate(NamedTuple):
    """What a step is estimated to take under a strategy, in seconds and bytes.

    ``seconds`` is the larger of the next two where devices move data while they compute, as GPUs
    do, and else their sum.
    """

    seconds: float
    compute: float  # calls, and moves that they wait for
    sync: float  # sums of gradients
    memory: float  # bytes on a device


class Found(NamedTuple):
    """What a search found.

    Attributes:
        strategy: the best strategy.
        estimate: what a step takes under it.
        templates: the same for what the search started from, by name: ``"data parallel"``,
            ``"tensor parallel"``, ``"data parallel 4 x tensor parallel 2"`` and so on.
        lower_bound: seconds that no strategy within the memory of the devices can be below, of all
            those that are searched.
        exact: the strategy is proven to be the best of those.
    """

    strategy: Strategy
    estimate: Estimate
    templates: dict[str, Estimate]
    lower_bound: float
    exact: bool

    @property
    def gap(self) -> float:
        """How far the estimate is above the lower bound, in parts of it."""
        return self.estimate.seconds / self.lower_bound - 1 if self.lower_bound else float("inf")

    def __str__(self) -> str:
        rows = [("found", self.estimate), *self.templates.items()]
        width = max(len(name) for name, _ in rows)
        lines = [
            f"{name:<{width}}  {1e3 * e.seconds:12.4f} ms a step  {e.memory / 2**30:8.2f} GiB"
            for name, e in rows
        ]
        proof = "proven to be the best" if self.exact else f"at most {self.gap:.1%} from the best"
        return "\n".join([*lines, f"lower bound {1e3 * self.lower_bound:.4f} ms: {proof}"])


def search(
    model: FFModel,
    machine: MachineModel,
    *,
    seconds: float = 10.0,
    kinds: Mapping[str, bool] | None = None,
    candidates: int = 240,
    seed: int = 0,
    method: str = "elimination",
    iterations: int | None = None,
    alpha: float = 20.0,
) -> Found:
    """Search the strategy with which a training step takes the least time on a machine.

    Every operator may be split along any of its indices, on any grid of the machine's devices; what
    calls, moves and sums of gradients take is estimated from the machine's rates and links
    (docs/search.md). Ctrl-C ends the search with the best so far.

    Args:
        model: compiled; for which devices makes no difference.
        machine: with the devices that are to be used.
        seconds: after which the best so far is the answer.
        kinds: by ``"sample"``, ``"attribute"``, ``"parameter"`` and ``"reduction"``: False: no
            operator is split along such an index, but by a template.
        candidates: ways to split an operator that are looked at, at most.
        seed: the same seed gives the same answer, if it is found within the seconds.
        method: ``"elimination"``: dynamic programming over a tree decomposition, with a bound;
            ``"mcmc"``: Metropolis's walk from the best template, which gives an operator another
            candidate again and again; ``"exhaustive"``: all assignments, for the smallest graphs.
        iterations: of a walk, how many proposals; None: as many as there is time for.
        alpha: of a walk: a strategy that is slower by a part p is taken with the probability
            exp(-alpha p).

    Raises:
        FlexFlowError: not compiled. MemoryError: no strategy was found that fits into the memory.
        TypeError, ValueError: of the arguments.
    """
    if not isinstance(machine, MachineModel):
        raise TypeError(f"search: machine is {shown(machine)}, expected a MachineModel")
    if method not in METHODS:
        raise ValueError(f"search: method is {shown(method)}; expected one of {', '.join(METHODS)}")
    options = {
        "seconds": real(seconds, "search: seconds", 0),
        "most": integer(candidates, "search: candidates", 1),
        "seed": integer(seed, "search: seed", 0),
        "method": method,
        "alpha": real(alpha, "search: alpha", 0),
        **_kinds(kinds or {}),
    }
    if iterations is not None or method != "elimination":
        most = _ENDLESS if iterations is None else iterations
        options["iterations"] = integer(most, "search: iterations", 1)
    given = attributes(options)
    handle = Handle(
        "ff_search_create", model._need_compiled("search"), machine.handle, given, len(given)
    )
    templates = _templates(model, len(machine.devices))
    for template in templates.values():
        strategy = attributes(template)
        call("ff_search_start_from", handle.value, strategy, len(strategy))
    _run(handle)
    best, text = _read(handle, -1)
    return Found(
        _strategy(text, len(machine.devices)),
        _estimate(best),
        {name: _estimate(_read(handle, i)[0]) for i, name in enumerate(templates)},
        best.lower_bound,
        bool(best.exact),
    )


def _kinds(kinds: Mapping[str, bool]) -> dict[str, bool]:
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"search: kinds has {kind!r}; expected one of {', '.join(KINDS)}")
    return {kind: boolean(on, f"search: kinds[{kind!r}]") for kind, on in kinds.items()}


def _templates(model: FFModel, devices: int) -> dict[str, dict[str, object]]:
    """What people would take, as far as it fits the model."""
    named = {"data parallel": Strategy.data_parallel(devices)}
    degree = 2
    while degree <= min(devices, _MOST_TENSOR_PARALLEL) and devices % degree == 0:
        name = f"data parallel {devices // degree} x tensor parallel {degree}"
        if degree == devices:
            name = "tensor parallel"
        named[name] = Strategy.hybrid(dp=devices // degree, tp=degree)
        degree *= 2
    options = {}
    for name, strategy in named.items():
        try:
            options[name] = bound_options(strategy._resolved(model), model)
        except ValueError:  # nothing in the model can be split so
            continue
    return options


def _run(handle: Handle) -> None:
    finished = ctypes.c_int32()
    while not finished.value:
        try:
            call("ff_search_run", handle.value, _SLICE_MS, ctypes.byref(finished))
        except KeyboardInterrupt:
            call("ff_search_stop", handle.value)


def _read(handle: Handle, which: int) -> tuple[_abi.ff_estimate, str]:
    estimate, text = _abi.ff_estimate(), ctypes.c_char_p()
    call("ff_search_read", handle.value, which, ctypes.byref(estimate), ctypes.byref(text))
    return estimate, (text.value or b"").decode()


def _estimate(values: _abi.ff_estimate) -> Estimate:
    return Estimate(values.seconds, values.compute, values.sync, values.memory)


def _strategy(text: str, devices: int) -> Strategy:
    strategy = Strategy(devices)
    for line in text.splitlines():
        name, placement = line.split("\t")
        start, *splits = placement.split()
        fields = [split.split(":") for split in splits]
        strategy.add_rule(
            name,
            {index: int(degree) for index, degree, _ in fields},
            int(start),
            [int(stride) for *_, stride in fields],
        )
    return strategy
