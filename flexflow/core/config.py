"""What a program is run with: defaults, then the command line, then explicit arguments."""

from __future__ import annotations

import math
import re
import sys
import time
import warnings
from difflib import get_close_matches
from typing import Any, Union

from flexflow.core._lib import FlexFlowError
from flexflow.core.checks import MOST_INT64, boolean, integer, real, shown
from flexflow.core.guard import did_you_mean

_Kind = Union[type, bool]

# Flag -> the field it sets, and how: a type takes the next argument, True takes none.
_FLAGS: dict[str, tuple[str, _Kind]] = {
    "-e": ("epochs", int),
    "--epochs": ("epochs", int),
    "-b": ("batch_size", int),
    "--batch-size": ("batch_size", int),
    "--lr": ("learning_rate", float),
    "--learning-rate": ("learning_rate", float),
    "--wd": ("weight_decay", float),
    "--weight-decay": ("weight_decay", float),
    "-p": ("print_freq", int),
    "--print-freq": ("print_freq", int),
    "-d": ("dataset_path", str),
    "--dataset": ("dataset_path", str),
    "-ll:cpu": ("devices", int),
    "-ll:fsize": ("device_mem", int),
    "--profiling": ("profiling", True),
    "--fusion": ("perform_fusion", True),
    "--only-data-parallel": ("only_data_parallel", True),
    "--budget": ("search_budget", int),
    "--search-budget": ("search_budget", int),
    "--alpha": ("search_alpha", float),
    "--search-alpha": ("search_alpha", float),
    "--overlap": ("search_overlap_backward_update", True),
    "--import": ("import_strategy_file", str),
    "--import-strategy": ("import_strategy_file", str),
    "--export": ("export_strategy_file", str),
    "--export-strategy": ("export_strategy_file", str),
    "--taskgraph": ("export_strategy_task_graph_file", str),
    "--compgraph": ("export_strategy_computation_graph_file", str),
    "--include-costs-dot-graph": ("include_costs_dot_graph", True),
    "--substitution-json": ("substitution_json_path", str),
    "--enable-parameter-parallel": ("enable_parameter_parallel", True),
    "--enable-attribute-parallel": ("enable_attribute_parallel", True),
    "--enable-propagation": ("enable_propagation", True),
    "--enable-inplace-optimizations": ("enable_inplace_optimizations", True),
    "--allow-tensor-op-math-conversion": ("allow_tensor_op_math_conversion", True),
    "--memory-search": ("perform_memory_search", True),
    "--search-num-nodes": ("search_num_nodes", int),
    "--search-num-workers": ("search_num_workers", int),
    "--base-optimize-threshold": ("base_optimize_threshold", int),
    "--machine-model-version": ("machine_model_version", int),
    "--machine-model-file": ("machine_model_file", str),
    "--simulator-workspace-size": ("simulator_work_space_size", int),
    "--simulator-segment-size": ("simulator_segment_size", int),
    "--simulator-max-num-segments": ("simulator_max_num_segments", int),
    "--python-data-loader-type": ("python_data_loader_type", int),
    "--engine": ("engine", str),
    "--device": ("device", str),
    "--threads": ("threads", int),
    "--shared-memory": ("shared_memory", True),
    "--seed": ("seed", int),
}
# Flags of FlexFlow, with a number each, that cannot be followed.
_REFUSED = {
    "-ll:gpu": "this version computes on CPUs; -ll:cpu sets the number of devices",
    "--nodes": "the number of nodes is that of the processes that were started",
}
_LEGION = ("-ll:", "-lg:", "-dm:", "-hl:", "-realm:", "-cuda:", "-numa:", "-level", "-logfile")
# Read by the search for a strategy, which this version lacks; strategies in files are taken.
_SEARCH = frozenset(
    field
    for field, _ in _FLAGS.values()
    if field.startswith(("search_", "import_", "export_", "simulator_", "machine_", "substitution"))
    or field in ("perform_memory_search", "enable_parameter_parallel", "enable_attribute_parallel")
) - {"import_strategy_file", "export_strategy_file"}
_LEAST = {
    "epochs": 1,
    "batch_size": 1,
    "devices": 1,
    "threads": 0,
    "seed": 0,
    "learning_rate": 0,
    "weight_decay": 0,
    "print_freq": 0,
}
# Most integers go into 31 bits; more devices or threads than these are surely a mistake.
_MOST = {
    "devices": 2**16,
    "seed": MOST_INT64,
    "simulator_work_space_size": MOST_INT64,
    "simulator_segment_size": MOST_INT64,
    "threads": 1024,
}
_SWITCH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_warned: set[str] = set()


def _warn_once(message: str, depth: int = 4) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, stacklevel=depth)


class FFConfig:
    """The configuration of models: defaults, then FlexFlow's flags in ``sys.argv`` (which stays as
    it is, and what is not ours, or after ``--``, is left alone), then the arguments given here.
    Flags without a value also take ``=true`` and ``=false``.

    Fields, with their flags:
        epochs (``-e``, ``--epochs``), batch_size (``-b``, ``--batch-size``): for scripts to read;
            batch_size is the global one.
        learning_rate (``--lr``), weight_decay (``--wd``): what an optimizer takes when it is made
            without its own.
        print_freq (``-p``): ``fit`` prints a line after every so many steps; 0: once an epoch.
        dataset_path (``-d``, ``--dataset``): for scripts to read.
        devices (``-ll:cpu``): how many devices, each a team of threads, split the work: by samples,
            unless ``compile`` or ``--import-strategy`` give a strategy.
        threads (``--threads``): threads of each device, at most 1024; 0: cores / devices.
        shared_memory (``--shared-memory``): devices of one process read each other's memory: they
            hold one copy of a weight and copy little; False: they copy all that they exchange, as
            devices with memories of their own must.
        only_data_parallel (``--only-data-parallel``): split by samples, whatever strategy a script
            or a file gives.
        import_strategy_file (``--import-strategy``), export_strategy_file (``--export-strategy``):
            JSON files to take the strategy from, where ``compile`` is given none, and to write to.
        engine (``--engine``): name of the engine, "" for the best that there is.
        device (``--device``): "cpu", or "reference" for plain loops.
        seed (``--seed``): of initial weights, dropout and shuffling where they have none; a model
            keeps the one that it was made with.
        profiling (``--profiling``): time each operator; ``fit`` prints the table at its end.
        perform_fusion (``--fusion``): join neighbouring operators.
        enable_tracing: kept for FlexFlow's scripts; plans are always prepared.
        The remaining fields have the names that FlexFlow's ``FFConfig`` has in C++.

    Raises:
        TypeError: an argument is no field, or of a wrong type.
        ValueError: an argument or a flag has a wrong value.

    >>> FFConfig(batch_size=32).batch_size
    32
    """

    epochs: int = 1
    batch_size: int = 64
    learning_rate: float = 0.01
    weight_decay: float = 0.0001
    print_freq: int = 0
    dataset_path: str = ""
    devices: int = 1
    threads: int = 0
    shared_memory: bool = True
    engine: str = ""
    device: str = "cpu"
    seed: int = 0
    device_mem: int = 0
    profiling: bool = False
    perform_fusion: bool = True
    enable_tracing: bool = False
    only_data_parallel: bool = False
    search_budget: int = -1
    search_alpha: float = 1.2
    search_overlap_backward_update: bool = False
    import_strategy_file: str = ""
    export_strategy_file: str = ""
    export_strategy_task_graph_file: str = ""
    export_strategy_computation_graph_file: str = ""
    include_costs_dot_graph: bool = False
    substitution_json_path: str = ""
    enable_sample_parallel: bool = True
    enable_parameter_parallel: bool = False
    enable_attribute_parallel: bool = False
    enable_propagation: bool = False
    enable_inplace_optimizations: bool = False
    allow_tensor_op_math_conversion: bool = False
    perform_memory_search: bool = False
    search_num_nodes: int = 0
    search_num_workers: int = 0
    base_optimize_threshold: int = 10
    machine_model_version: int = 0
    machine_model_file: str = ""
    simulator_work_space_size: int = 2 << 30
    simulator_segment_size: int = 16 << 20
    simulator_max_num_segments: int = 1
    python_data_loader_type: int = 2

    def __init__(self, **fields: Any) -> None:
        self._explicit = frozenset(fields)
        self._given: set[str] = set(fields)
        self._trace: int | None = None
        self._seed_taken = False
        for name, value in fields.items():
            if name.startswith("_") or name not in FFConfig.__annotations__:
                raise TypeError(f"FFConfig has no field {name!r}{_meant(name)}")
            setattr(self, name, value)
        self.parse_args()
        self._warn_without_effect()

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            value = _checked(name, value)
            if name == "seed" and self._seed_taken and value != self.seed:
                _warn_once(
                    f"FFConfig.seed: the models made before keep seed {self.seed}; set it first",
                    depth=3,
                )
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={getattr(self, name)!r}" for name in sorted(self._given))
        return f"FFConfig({given})"

    # ---- the command line ----
    def parse_args(self) -> None:
        """Read ``sys.argv`` again; fields that were given as arguments keep their values.

        Raises:
            ValueError: a flag has no value or a wrong one.
        """
        waiting = sys.argv[:0:-1]
        while waiting and waiting[-1] != "--":
            flag, equals, value = waiting.pop().partition("=")
            kind = int if flag in _REFUSED else _FLAGS[flag][1] if flag in _FLAGS else None
            if kind is None:
                _warn_if_near(flag)
                continue
            text = value if equals else None
            if text is None and kind is not True and waiting and not _looks_like_flag(waiting[-1]):
                text = waiting.pop()
            if flag in _REFUSED:
                self._refuse(flag, text)
            else:
                self._set_from(flag, text)

    def take_seed(self) -> int:
        """The seed, for a model that keeps it from now on."""
        self._seed_taken = True
        return self.seed

    def given(self, name: str) -> bool:
        """Whether a field was set by an argument or a flag.

        >>> FFConfig(seed=1).given("seed"), FFConfig().given("seed")
        (True, False)
        """
        return name in self._given

    def _set_from(self, flag: str, text: str | None) -> None:
        field, kind = _FLAGS[flag]
        try:
            value = _value_of(kind, text)
        except (KeyError, TypeError, ValueError):
            expected = {int: "an integer", float: "a number", str: "a text", True: "true or false"}
            came = "no value" if text is None else repr(text)
            message = f"{flag}: got {came}, expected {expected[kind]}"
            if len(flag) > 2 or kind is str:
                raise ValueError(message) from None
            # A letter is easily another program's: pytest's -p, for one, or unittest's -b.
            _warn_once(f"FFConfig: {message}; ignored")
            return
        self._given.add(field)
        if field not in self._explicit:
            setattr(self, field, value)

    def _refuse(self, flag: str, text: str | None) -> None:
        if not (flag == "-ll:gpu" and text in (None, "0")):
            _warn_once(f"FFConfig: {flag} has no effect: {_REFUSED[flag]}")

    def _warn_without_effect(self) -> None:
        useless = sorted(self._given & _SEARCH)
        if useless:
            _warn_once(
                f"FFConfig: {', '.join(useless)}: without effect, since this version does not "
                "search for a strategy"
            )

    # ---- the machine ----
    @property
    def workers_per_node(self) -> int:
        """How many devices a node has."""
        return self.devices

    @property
    def num_nodes(self) -> int:
        """How many nodes take part."""
        return 1

    # ---- time ----
    def get_current_time(self) -> float:
        """Microseconds since an arbitrary moment; all that was run before is done.

        >>> config = FFConfig()
        >>> start = config.get_current_time()
        >>> config.get_current_time() >= start
        True
        """
        return time.perf_counter() * 1e6

    def begin_trace(self, trace_id: int) -> None:
        """Mark the begin of a repeated piece of work. Plans are prepared without such marks, so
        this only checks that they pair up.

        Raises:
            FlexFlowError: another trace has not ended.
        """
        if self._trace not in (None, trace_id):  # begun again after an interrupted loop
            raise FlexFlowError(
                f"begin_trace({trace_id}): trace {self._trace} has not ended; "
                f"call end_trace({self._trace}) first"
            )
        self._trace = trace_id

    def end_trace(self, trace_id: int) -> None:
        """Mark the end of what ``begin_trace`` began.

        Raises:
            FlexFlowError: no such trace was begun.
        """
        if self._trace != trace_id:
            open_trace = "none" if self._trace is None else self._trace
            raise FlexFlowError(f"end_trace({trace_id}): the trace that was begun is {open_trace}")
        self._trace = None


def _value_of(kind: _Kind, text: str | None) -> Any:
    if kind is True:
        return True if text is None else _SWITCH[text.lower()]
    if text is None:
        raise ValueError
    return kind(text)  # type: ignore[operator]


def _checked(name: str, value: Any) -> Any:
    """A value for a field, in the field's type."""
    if name not in FFConfig.__annotations__:
        raise AttributeError(f"FFConfig has no field {name!r}{_meant(name)}")
    who = f"FFConfig.{name}"
    kind = type(getattr(FFConfig, name))
    if kind is float:
        return real(value, who, _LEAST.get(name, -math.inf))
    if kind is int:
        return integer(value, who, _LEAST.get(name, -(2**31)), _MOST.get(name, 2**31 - 1))
    if kind is bool:
        return boolean(value, who)
    if not isinstance(value, str):
        raise TypeError(f"{who}: got {shown(value)}, expected a string")
    return value


def _meant(name: str) -> str:
    return did_you_mean(name, FFConfig.__annotations__)


def _looks_like_flag(text: str) -> bool:
    return re.match(r"-[^\d.]", text) is not None


def _warn_if_near(flag: str) -> None:
    if not flag.startswith("-") or flag.startswith(_LEGION):
        return
    meant = _near(flag)
    if meant is not None:
        _warn_once(f"FFConfig: {flag} is not one of FlexFlow's flags; did you mean {meant}?")


def _near(flag: str) -> str | None:
    """The flag that was likely meant."""
    glued = re.fullmatch(r"(-[a-z])(\d+)", flag)
    if glued and glued[1] in _FLAGS:
        return f"{glued[1]} {glued[2]}"
    off = flag.replace("--no-", "--", 1)
    if off != flag and _FLAGS.get(off, ("", int))[1] is True:
        return f"{off}=false"
    if flag.lower() in _FLAGS:
        return flag.lower()
    if flag[:4] in ("--lr", "--wd") and flag[4:].isalpha():
        return flag[:4]
    near = get_close_matches(flag, _FLAGS, 1, 0.85) if len(flag) > 3 else []
    return near[0] if near else None
