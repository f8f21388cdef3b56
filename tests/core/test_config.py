"""FFConfig: defaults, then the command line, then arguments."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from flexflow.core import (
    AdamOptimizer,
    CompMode,
    FFConfig,
    FFModel,
    FlexFlowError,
    SGDOptimizer,
    describe,
)
from flexflow.core.flags import FLAGS
from flexflow.core.machine import machine_of

# From FlexFlow's FFConfig::parse_args: flag, field, default.
DEFAULTS = [
    ("-e --epochs", "epochs", 1),
    ("-b --batch-size", "batch_size", 64),
    ("--lr --learning-rate", "learning_rate", 0.01),
    ("--wd --weight-decay", "weight_decay", 0.0001),
    ("-p --print-freq", "print_freq", 0),
    ("-d --dataset", "dataset_path", ""),
    ("--budget --search-budget", "search_budget", -1),
    ("--alpha --search-alpha", "search_alpha", 1.2),
    ("--simulator-workspace-size", "simulator_work_space_size", 2 << 30),
    ("--import --import-strategy", "import_strategy_file", ""),
    ("--export --export-strategy", "export_strategy_file", ""),
    ("--only-data-parallel", "only_data_parallel", False),
    ("--enable-parameter-parallel", "enable_parameter_parallel", False),
    ("--enable-attribute-parallel", "enable_attribute_parallel", False),
    ("-ll:fsize", "device_mem", 0),
    ("-ll:cpu", "devices", 1),
    ("--profiling", "profiling", False),
    ("--allow-tensor-op-math-conversion", "allow_tensor_op_math_conversion", False),
    ("--fusion", "perform_fusion", True),
    ("--overlap", "search_overlap_backward_update", False),
    ("--taskgraph", "export_strategy_task_graph_file", ""),
    ("--include-costs-dot-graph", "include_costs_dot_graph", False),
    ("--compgraph", "export_strategy_computation_graph_file", ""),
    ("--machine-model-version", "machine_model_version", 0),
    ("--machine-model-file", "machine_model_file", ""),
    ("--simulator-segment-size", "simulator_segment_size", 16777216),
    ("--simulator-max-num-segments", "simulator_max_num_segments", 1),
    ("--enable-propagation", "enable_propagation", False),
    ("--enable-inplace-optimizations", "enable_inplace_optimizations", False),
    ("--search-num-nodes", "search_num_nodes", 0),
    ("--search-num-workers", "search_num_workers", 0),
    ("--base-optimize-threshold", "base_optimize_threshold", 10),
    ("--python-data-loader-type", "python_data_loader_type", 2),
    ("--substitution-json", "substitution_json_path", ""),
    ("--memory-search", "perform_memory_search", False),
]


@pytest.mark.parametrize(("flags", "field", "default"), DEFAULTS)
@pytest.mark.filterwarnings("ignore:FFConfig")
def test_flags(command_line: Callable[[str], None], flags: str, field: str, default: Any) -> None:
    assert getattr(FFConfig(), field) == default
    for flag in flags.split():
        if isinstance(default, bool):
            command_line(f"{flag} 17")  # takes no value
            assert getattr(FFConfig(), field) is True
        else:
            command_line(f"before {flag} 17 after")
            assert getattr(FFConfig(), field) == type(default)(17)
            command_line(f"{flag}=18")
            assert getattr(FFConfig(), field) == type(default)(18)
        assert FFConfig().given(field)


def test_every_flag_sets_a_field() -> None:
    assert {field for field, _ in FLAGS.values()} <= set(FFConfig.__annotations__)


def test_argv_stays_and_the_unknown_is_ignored(command_line: Callable[[str], None]) -> None:
    command_line("-ll:fsize 14048 -ll:zsize 12192 -lg:prof 1 -b 16 --test_acc -a data.npz -e 3")
    before = list(sys.argv)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = FFConfig()
    assert (config.batch_size, config.epochs) == (16, 3)
    assert sys.argv == before


def test_flags_of_a_runtime_are_collected(command_line: Callable[[str], None]) -> None:
    command_line(
        "train.py -ll:util 1 -b 16 -lg:no_auto_tracing --verbose -level gpu=6,dma=2 -ll:cpu 2 "
        "data.csv -ll:csize=512 -ll:gpu 0 -dm:memoize -- -lg:prof 1"
    )
    before = list(sys.argv)
    config = FFConfig(runtime_flags=["-realm:eager_alloc_percentage", "50", "-logfile", "a=b"])
    said = "-ll:util 1 -lg:no_auto_tracing -level gpu=6,dma=2 -ll:csize 512 -dm:memoize"
    given = "-realm:eager_alloc_percentage 50 -logfile a=b -ll:cpu 2"
    assert config.all_runtime_flags() == f"{said} {given}".split()
    assert (config.devices, config.workers_per_node, config.batch_size) == (2, 2, 16)
    assert sys.argv == before
    config.parse_args()
    assert config.all_runtime_flags() == f"{said} {given}".split()
    assert FFConfig(devices=3).all_runtime_flags() == [*said.split(), "-ll:cpu", "3"]


def test_flags_of_a_runtime_do_not_change_the_local_engine(
    command_line: Callable[[str], None],
) -> None:
    command_line("-ll:util 1 -lg:prof 1 -level 5")
    model = FFModel(FFConfig(engine="local", threads=1))
    model.dense(model.create_tensor([4, 3]), 2)
    model.compile(comp_mode=CompMode.INFERENCE)
    assert "device 1" not in model.plan("predict")


@pytest.mark.parametrize(
    ("flags", "error", "message"),
    [
        ("-ll:util 1", TypeError, "got '-ll:util 1', expected a list such as"),
        (["-ll:util", 1], TypeError, "expected a list such as"),
        (["--epochs", "3"], ValueError, "'--epochs': it is no flag of a runtime"),
        (["-ll:util", "1", "2"], ValueError, "'2': it is no flag of a runtime"),
        (["-lg:prof", "--", "-lg:spy"], ValueError, "'--': it is no flag"),
        (["-ll:gpu", "1"], ValueError, "'-ll:gpu': this version computes on CPUs"),
        (["-logfile", "a\nb"], ValueError, "without line breaks"),
    ],
)
def test_bad_flags_of_a_runtime(flags: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FFConfig(runtime_flags=flags)


def test_the_environment_comes_before_the_command_line(
    command_line: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEXFLOW_ENGINE", "null")
    assert FFConfig().engine == "null"
    assert FFConfig(engine="local").engine == "local"
    monkeypatch.setenv("FLEXFLOW_FLAGS", "-ll:cpu 2 -b 8 -ll:util 1 --dataset 'my data' -- -e 9")
    config = FFConfig()
    assert (config.engine, config.batch_size, config.epochs) == ("null", 8, 1)
    assert config.dataset_path == "my data"
    assert config.all_runtime_flags() == ["-ll:util", "1", "-ll:cpu", "2"]
    command_line("-b 16 --engine local -ll:cpu 3 -ll:util 2")
    config = FFConfig()
    assert (config.engine, config.batch_size) == ("local", 16)
    assert config.all_runtime_flags() == ["-ll:util", "1", "-ll:util", "2", "-ll:cpu", "3"]
    monkeypatch.setenv("FLEXFLOW_ENGINE", "")
    command_line("")
    assert FFConfig().engine == ""
    monkeypatch.setenv("FLEXFLOW_FLAGS", "--dataset 'my data")
    with pytest.raises(ValueError, match="FLEXFLOW_FLAGS is .*No closing quotation"):
        FFConfig()


def test_the_machine_of_an_engine() -> None:
    assert machine_of("local", ["-ll:cpu", "3"])[:2] == (1, 3)
    assert machine_of("local").lines[0].startswith("device 0, cpu, ")
    with pytest.raises(ValueError, match='engine "fast" is not there'):
        machine_of("fast", ["-ll:cpu", "3"])
    assert describe("engine") in describe("engines")


@pytest.mark.parametrize(
    ("rank", "ranks", "message"),
    [
        ("0", None, "FLEXFLOW_RANK is set, and FLEXFLOW_RANKS is not"),
        (None, "2", "FLEXFLOW_RANKS is set, and FLEXFLOW_RANK is not"),
        ("2", "2", 'FLEXFLOW_RANK is "2"; expected a whole number from 0 to 1'),
        ("", "2", "FLEXFLOW_RANKS is set, and FLEXFLOW_RANK is not"),
        ("0", "2b", 'FLEXFLOW_RANKS is "2b"'),
        ("-1", "2", 'FLEXFLOW_RANK is "-1"'),
    ],
)
def test_ranks_that_make_no_sense(
    monkeypatch: pytest.MonkeyPatch, rank: str | None, ranks: str | None, message: str
) -> None:
    for name, text in (("FLEXFLOW_RANK", rank), ("FLEXFLOW_RANKS", ranks)):
        if text is not None:
            monkeypatch.setenv(name, text)
    with pytest.raises(ValueError, match=message):
        FFConfig()


def test_ranks_under_an_engine_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEXFLOW_RANK", "0")
    monkeypatch.setenv("FLEXFLOW_RANKS", "2")
    model = FFModel(FFConfig(engine="local"))
    model.softmax(model.dense(model.create_tensor([4, 3]), 2))
    with pytest.warns(UserWarning, match="2 ranks were started.*'local'.*a model of its own"):
        model.compile(comp_mode=CompMode.INFERENCE)


def test_arguments_win(command_line: Callable[[str], None]) -> None:
    command_line("-b 16 -e 3")
    config = FFConfig(batch_size=32)
    assert (config.batch_size, config.epochs) == (32, 3)
    command_line("-b 17 -e 4")
    config.parse_args()
    assert (config.batch_size, config.epochs) == (32, 4)


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        ("--batchsize", "--batch-size"),
        ("--batch_size", "--batch-size"),
        ("--epoch", "--epochs"),
        ("--epohcs=3", "--epochs"),
        ("-epochs", "--epochs"),
        ("--learning_rate", "--learning-rate"),
        ("--lrate", "--lr"),
        ("--wdecay", "--wd"),
        ("--LR", "--lr"),
        ("-B", "-b"),
        ("-b5", "-b 5"),
        ("--no-fusion", "--fusion=false"),
        ("--profilling=1", "--profiling"),
    ],
)
def test_near_misses(command_line: Callable[[str], None], flag: str, meant: str) -> None:
    command_line(f"{flag} 3")
    with pytest.warns(UserWarning, match=f"did you mean {meant}"):
        FFConfig()
    with warnings.catch_warnings():  # once is enough
        warnings.simplefilter("error")
        FFConfig()


@pytest.mark.parametrize(
    "flag",
    [
        *("--seq-length", "--num-heads", "-x", "-ll:ocpu", "-ll:cpus", "x--epoch", "epoch"),
        *("--lr-schedule", "--no-cuda", "-j4", "-X", "5", "-"),
    ],
)
def test_no_near_miss(command_line: Callable[[str], None], flag: str) -> None:
    command_line(f"{flag} 3")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FFConfig()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--epochs ten", "--epochs: got 'ten', expected an integer"),
        ("--batch-size", "--batch-size: got no value"),
        ("--lr fast", "--lr: got 'fast', expected a number"),
        ("-b 0", "batch_size: got 0, expected at least 1"),
        ("-e 0", "epochs: got 0"),
        ("-ll:cpu 0", "devices: got 0"),
        ("--lr -1", "learning_rate: got -1.0"),
        ("--lr nan", "learning_rate: got nan"),
        ("--lr inf", "learning_rate: got inf, expected a finite number"),
        ("-b 99999999999999999999", "batch_size: 99999999999999999999 does not fit 64 bits"),
        ("-b 2147483648", "batch_size: got 2147483648, expected at most 2147483647"),
        ("--threads 1025", "threads: got 1025, expected at most 1024"),
        ("--seed -1", "seed: got -1, expected at least 0"),
        ("--engine", "--engine: got no value, expected a text"),
        ("-d", "-d: got no value, expected a text"),
        ("-d -e 3", "-d: got no value"),
        ("--engine --profiling", "--engine: got no value"),
        ("--dataset -- x", "--dataset: got no value"),
        ("--lr --epochs 3", "--lr: got no value, expected a number"),
        ("--profiling=maybe", "--profiling: got 'maybe', expected true or false"),
        ("--fusion=", "--fusion: got '', expected true or false"),
    ],
)
def test_bad_flags(command_line: Callable[[str], None], arguments: str, message: str) -> None:
    command_line(arguments)
    with pytest.raises(ValueError, match=message):
        FFConfig()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", True), ("=true", True), ("=1", True), ("=no", False), ("=0", False), ("=False", False)],
)
def test_switches(command_line: Callable[[str], None], text: str, expected: bool) -> None:
    command_line(f"--profiling{text} --fusion{text}")
    config = FFConfig()
    assert (config.profiling, config.perform_fusion) == (expected, expected)


def test_what_follows_two_dashes_is_anothers(command_line: Callable[[str], None]) -> None:
    command_line("-b 5 --dataset=x -- -b 6 --epochs ten --lrate 3")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = FFConfig()
    assert (config.batch_size, config.dataset_path, config.epochs) == (5, "x", 1)


def test_a_letter_of_another_program_is_left_alone(command_line: Callable[[str], None]) -> None:
    command_line("-p no:cacheprovider -b")
    with pytest.warns(UserWarning, match="ignored"):
        config = FFConfig()
    assert (config.print_freq, config.batch_size) == (0, 64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-ll:gpu 2", "-ll:gpu has no effect"),
        ("--nodes 2", "--nodes has no effect"),
        ("--budget 30 --alpha 1.5", "search_alpha, search_budget: without"),
    ],
)
def test_nothing_is_ignored_in_silence(
    command_line: Callable[[str], None], arguments: str, message: str
) -> None:
    command_line(arguments)
    with pytest.warns(UserWarning, match=message):
        config = FFConfig()
    assert (config.num_nodes, config.workers_per_node) == (1, 1)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"batchsize": 3}, TypeError, "no field 'batchsize'; did you mean 'batch_size'"),
        ({"_trace": 3}, TypeError, "no field '_trace'"),
        ({"batch_size": "3"}, TypeError, "batch_size: got '3', expected an integer"),
        ({"batch_size": 3.5}, TypeError, "batch_size: got 3.5"),
        ({"batch_size": True}, TypeError, "batch_size: got True"),
        ({"batch_size": 0}, ValueError, "batch_size: got 0, expected at least 1"),
        ({"seed": -1}, ValueError, "seed: got -1"),
        ({"seed": 2**63}, ValueError, "seed: 9223372036854775808 does not fit 64 bits"),
        (
            {"batch_size": 10**400},
            ValueError,
            "batch_size: an integer of 1329 bits does not fit 64",
        ),
        ({"epochs": 2**31}, ValueError, "epochs: got 2147483648, expected at most 2147483647"),
        ({"threads": 1025}, ValueError, "threads: got 1025, expected at most 1024"),
        ({"threads": 2**32 + 1}, ValueError, "threads: got 4294967297, expected at most 1024"),
        ({"learning_rate": float("inf")}, ValueError, "learning_rate: got inf, expected a finite"),
        ({"learning_rate": 10**400}, ValueError, "learning_rate: got an integer of 1329 bits, exp"),
        ({"search_alpha": float("nan")}, ValueError, "search_alpha: got nan, expected a finite"),
        ({"engine": None}, TypeError, "engine: got None, expected a string"),
        ({"profiling": 1}, TypeError, "profiling: got 1, expected True or False"),
    ],
)
def test_bad_arguments(fields: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FFConfig(**fields)


def test_setting_a_field_checks_it() -> None:
    config = FFConfig()
    config.batch_size = 5
    config.learning_rate = 1
    assert (config.batch_size, config.learning_rate) == (5, 1.0)
    with pytest.raises(AttributeError, match="did you mean 'batch_size'"):
        config.batchsize = 5  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="expected at least 1"):
        config.batch_size = 0


def test_rates_of_the_command_line_act(command_line: Callable[[str], None]) -> None:
    plain = FFModel(FFConfig())
    assert SGDOptimizer(plain).learning_rate == 0.01
    assert SGDOptimizer(plain).weight_decay == 0.0
    assert AdamOptimizer(plain).learning_rate == 0.001
    command_line("--lr 0.5 --wd 0.25")
    ffmodel = FFModel(FFConfig())
    for optimizer in (SGDOptimizer(ffmodel), AdamOptimizer(ffmodel)):
        assert (optimizer.learning_rate, optimizer.weight_decay) == (0.5, 0.25)
    assert SGDOptimizer(ffmodel, lr=0.01, weight_decay=0).weight_decay == 0
    assert SGDOptimizer(ffmodel, lr=0.01).learning_rate == 0.01


def test_traces_pair_up() -> None:
    config = FFConfig()
    for _ in range(2):
        config.begin_trace(111)
        config.end_trace(111)
    with pytest.raises(FlexFlowError, match=r"end_trace\(111\): the trace that was begun is none"):
        config.end_trace(111)
    config.begin_trace(1)
    config.begin_trace(1)  # a loop that was interrupted begins again
    with pytest.raises(FlexFlowError, match=r"call end_trace\(1\) first"):
        config.begin_trace(2)
    with pytest.raises(FlexFlowError, match="the trace that was begun is 1"):
        config.end_trace(2)


def test_time_is_in_microseconds() -> None:
    import time

    config = FFConfig()
    start = config.get_current_time()
    time.sleep(0.05)
    assert 0.04e6 < config.get_current_time() - start < 5e6
