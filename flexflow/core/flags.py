"""Flags on the command line: FlexFlow's, those of a runtime, and what a near miss meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, Union

Kind = Union[type, bool]

# Flag -> the field it sets, and how: a type takes the next argument, True takes none.
FLAGS: dict[str, tuple[str, Kind]] = {
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
REFUSED = {
    "-ll:gpu": "this version computes on CPUs; -ll:cpu sets the number of devices",
    "--nodes": "the number of nodes is that of the processes that were started",
}
_RUNTIME = re.compile(r"-(ll|lg|dm|hl|realm|cuda|numa|ucx|gex):|-(level|logfile)$")


class Word(NamedTuple):
    """A flag with the value that it has, if any, and to whom it belongs."""

    flag: str
    value: str | None
    ours: bool  # FlexFlow's
    runtimes: bool  # a runtime's, such as Legion's; may be both


def words_of(arguments: Sequence[str]) -> Iterator[Word]:
    """What a command line says.

    >>> [(word.flag, word.value) for word in words_of(["a.csv", "-b", "3", "-ll:util=1"])]
    [('a.csv', None), ('-b', '3'), ('-ll:util', '1')]
    """
    waiting = list(reversed(arguments))
    while waiting:
        flag, equals, text = waiting.pop().partition("=")
        value = text if equals else None
        ours = flag in FLAGS or flag in REFUSED
        runtimes = is_runtimes(flag) and flag not in REFUSED
        takes = (ours or runtimes) and FLAGS.get(flag, ("", str))[1] is not True
        if value is None and takes and waiting and not _looks_like_flag(waiting[-1]):
            value = waiting.pop()
        yield Word(flag, value, ours, runtimes)


def is_runtimes(flag: str) -> bool:
    """Whether a flag is one of the runtimes under an engine.

    >>> is_runtimes("-ll:util"), is_runtimes("-level"), is_runtimes("--levels")
    (True, True, False)
    """
    return _RUNTIME.match(flag) is not None


def value_of(kind: Kind, text: str | None) -> Any:
    """The value that a flag's text means, in the kind of its field; an exception if none."""
    if kind is True:
        return True if text is None else _SWITCH[text.lower()]
    if text is None:
        raise ValueError
    return kind(text)  # type: ignore[operator]


_SWITCH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _looks_like_flag(text: str) -> bool:
    return re.match(r"-[^\d.]", text) is not None


def near_miss(flag: str) -> str | None:
    """The flag of FlexFlow that was likely meant by one that is none.

    >>> near_miss("--batchsize"), near_miss("--verbose")
    ('--batch-size', None)
    """
    if not flag.startswith("-"):
        return None
    glued = re.fullmatch(r"(-[a-z])(\d+)", flag)
    if glued and glued[1] in FLAGS:
        return f"{glued[1]} {glued[2]}"
    off = flag.replace("--no-", "--", 1)
    if off != flag and FLAGS.get(off, ("", int))[1] is True:
        return f"{off}=false"
    if flag.lower() in FLAGS:
        return flag.lower()
    if flag[:4] in ("--lr", "--wd") and flag[4:].isalpha():
        return flag[:4]
    near = get_close_matches(flag, FLAGS, 1, 0.85) if len(flag) > 3 else []
    return near[0] if near else None
