"""What a program is run with: defaults, then the command line, then explicit arguments."""

from __future__ import annotations

import math
import os
import shlex
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

from flexflow.core._lib import FlexFlowError, describe
from flexflow.core.checks import MOST_INT64, boolean, integer, real, shown
from flexflow.core.flags import FLAGS, REFUSED, near_miss, value_of, words_of
from flexflow.core.guard import did_you_mean
from flexflow.core.machine import RUNTIMES, Machine, machine_of
from flexflow.core.ranks import rank, ranks

# Of the search for a strategy, which takes arguments instead; strategies in files are taken.
_SEARCH = frozenset(
    field
    for field, _ in FLAGS.values()
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
_warned: set[str] = set()


def _warn_once(message: str, depth: int = 4) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, stacklevel=depth)


class FFConfig:
    """The configuration of models: defaults, then the environment (``FLEXFLOW_ENGINE``, a name, and
    ``FLEXFLOW_FLAGS``, flags as on a command line), then FlexFlow's flags in ``sys.argv`` (which
    stays as it is, and what is not ours, or after ``--``, is left alone), then the arguments given
    here. Flags without a value also take ``=true`` and ``=false``.

    Fields, with their flags:
        epochs (``-e``, ``--epochs``), batch_size (``-b``, ``--batch-size``): for scripts to read;
            batch_size is the global one.
        learning_rate (``--lr``), weight_decay (``--wd``): what an optimizer takes when it is made
            without its own.
        print_freq (``-p``): ``fit`` prints a line after every so many steps; 0: once an epoch.
        dataset_path (``-d``, ``--dataset``): for scripts to read.
        devices (``-ll:cpu``): how many devices, each a team of threads, split the work: by samples,
            unless ``compile`` or ``--import-strategy`` give a strategy. With several ranks these
            are the devices of all of them, of which each has as many; the flag is per rank.
        threads (``--threads``): threads of each device, at most 1024; 0: cores / devices.
        shared_memory (``--shared-memory``): devices of one process read each other's memory: they
            hold one copy of a weight and copy little; False: they copy all that they exchange, as
            devices with memories of their own must.
        only_data_parallel (``--only-data-parallel``): split by samples, whatever strategy a script
            or a file gives.
        import_strategy_file (``--import-strategy``), export_strategy_file (``--export-strategy``):
            JSON files to take the strategy from, where ``compile`` is given none, and to write to.
        engine (``--engine``): name of the engine, "" for the best that there is.
        runtime_flags (``-ll:*``, ``-lg:*``, ``-dm:*``, ``-realm:*``, ``-level``, ``-logfile`` and
            the like): words for the runtime under an engine, such as Legion, after those of the
            command line: ``["-ll:util", "1"]``. The engine "local" has no use for them.
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
    runtime_flags: Sequence[str] = ()
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
        self._line_flags: list[str] = []
        self._devices_per_rank = 1  # as the flag says
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
        """Read ``sys.argv`` again, and the environment before it; fields that were given as
        arguments keep their values.

        Raises:
            ValueError: a flag has no value or a wrong one.
        """
        self._line_flags.clear()
        if os.environ.get("FLEXFLOW_ENGINE"):
            self._take("engine", os.environ["FLEXFLOW_ENGINE"])
        self._read(_flags_of_environment())
        self._read(sys.argv[1:])
        if "devices" not in self._explicit:
            self.devices = self._devices_per_rank * self.ranks

    def _read(self, arguments: Sequence[str]) -> None:
        for flag, text, ours, runtimes in words_of(arguments):
            if flag == "--":
                return
            if runtimes:
                self._line_flags += [flag] if text is None else [flag, text]
            if flag in REFUSED:
                self._refuse(flag, text)
            elif ours:
                self._set_from(flag, text)
            elif not runtimes:
                meant = near_miss(flag)
                if meant is not None:
                    _warn_once(
                        f"FFConfig: {flag} is not one of FlexFlow's flags; did you mean {meant}?"
                    )

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
        field, kind = FLAGS[flag]
        try:
            value = value_of(kind, text)
        except (KeyError, TypeError, ValueError):
            expected = {int: "an integer", float: "a number", str: "a text", True: "true or false"}
            came = "no value" if text is None else repr(text)
            message = f"{flag}: got {came}, expected {expected[kind]}"
            if len(flag) > 2 or kind is str:
                raise ValueError(message) from None
            # A letter is easily another program's: pytest's -p, for one, or unittest's -b.
            _warn_once(f"FFConfig: {message}; ignored")
            return
        self._take(field, value)
        if field == "devices":
            self._devices_per_rank = value

    def _take(self, field: str, value: Any) -> None:
        self._given.add(field)
        if field not in self._explicit:
            setattr(self, field, value)

    def _refuse(self, flag: str, text: str | None) -> None:
        if not (flag == "-ll:gpu" and text in (None, "0")):
            _warn_once(f"FFConfig: {flag} has no effect: {REFUSED[flag]}")

    def _warn_without_effect(self) -> None:
        useless = sorted(self._given & _SEARCH)
        if useless:
            _warn_once(
                f"FFConfig: {', '.join(useless)}: without effect, since the search for a "
                "strategy takes arguments instead: see flexflow.core.search"
            )

    # ---- the machine ----
    @property
    def rank(self) -> int:
        """The number of this process among those that run models of this configuration together;
        0 under an engine of one process, such as "local"."""
        return rank() if self.ranks > 1 else 0

    @property
    def ranks(self) -> int:
        """How many processes run models of this configuration together."""
        return 1 if self.engine and self.engine not in RUNTIMES else ranks()

    @property
    def workers_per_node(self) -> int:
        """How many devices a node has. An engine over a runtime is asked, which starts it."""
        return self.device_count() // self.num_nodes

    @property
    def num_nodes(self) -> int:
        """How many nodes take part. An engine over a runtime is asked, which starts it."""
        machine = self._runtimes_machine()
        return 1 if machine is None else machine.nodes

    def device_count(self) -> int:
        """How many devices there are: ``devices``, or those of the runtime under the engine, which
        knows also what was said on a command line that only it has seen."""
        machine = self._runtimes_machine()
        return self.devices if machine is None else machine.devices

    def all_runtime_flags(self) -> list[str]:
        """The words for a runtime: of the environment, the command line and the arguments, in this
        order; ``devices`` is among them as ``-ll:cpu`` where it was given.

        >>> FFConfig(devices=2, runtime_flags=["-ll:util", "1"]).all_runtime_flags()
        ['-ll:util', '1', '-ll:cpu', '2']
        """
        words = [*self._line_flags, *self.runtime_flags]
        if self.given("devices"):
            while "-ll:cpu" in words:
                at = words.index("-ll:cpu")
                del words[at : at + 2]
            if self.devices % self.ranks:
                raise ValueError(
                    f"FFConfig.devices is {self.devices} for {self.ranks} ranks; expected a "
                    "multiple of that, since each rank has as many devices"
                )
            words += ["-ll:cpu", str(self.devices // self.ranks)]
        return words

    def _runtimes_machine(self) -> Machine | None:
        """Of the runtime under the engine; None where there is none under it."""
        engine = self.engine or describe("engine")
        return machine_of(engine, self.all_runtime_flags()) if engine in RUNTIMES else None

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


def _checked(name: str, value: Any) -> Any:
    """A value for a field, in the field's type."""
    if name not in FFConfig.__annotations__:
        raise AttributeError(f"FFConfig has no field {name!r}{_meant(name)}")
    who = f"FFConfig.{name}"
    if name == "runtime_flags":
        return _runtimes_words(value, who)
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


def _flags_of_environment() -> list[str]:
    text = os.environ.get("FLEXFLOW_FLAGS", "")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValueError(f"FLEXFLOW_FLAGS is {text!r}: {error}") from None


def _runtimes_words(value: Any, who: str) -> list[str]:
    """Flags of a runtime and their values, one by one."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(word, str) for word in value):
        raise TypeError(f'{who}: got {shown(value)}, expected a list such as ["-ll:util", "1"]')
    words = []
    for flag, text, _, runtimes in words_of(value):
        if not runtimes:
            why = REFUSED.get(flag, "it is no flag of a runtime, such as -ll:util")
            raise ValueError(f"{who}: {flag!r}: {why}")
        words += [flag] if text is None else [flag, text]
    if any("\n" in word for word in words):
        raise ValueError(f"{who}: got {shown(value)}, expected words without line breaks")
    return words
