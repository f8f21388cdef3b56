"""The format of strategy files: a strategy as plain values, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flexflow.core.checks import integer, shown
from flexflow.core.placement import MOST

if TYPE_CHECKING:
    from flexflow.core.strategy import Strategy

FORMAT, VERSION = "flexflow strategy", 1
_KEYS = frozenset(
    [
        "format",
        "version",
        "devices",
        "tensor_parallel",
        "ops",
        "rewrites",
        "pipeline",
        "stages",
        "micro_batches",
        "recompute",
        "optimizer_sharding",
    ]
)


def values_of(strategy: Strategy) -> dict[str, Any]:
    """A strategy as plain values."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "devices": strategy.devices,
        "tensor_parallel": strategy.tensor_parallel_degree,
        "ops": [
            {
                "op": pattern,
                "splits": dict(placement.splits),
                "start": placement.start,
                "strides": list(placement.grid()),
            }
            for pattern, placement in strategy.rules
        ],
        "rewrites": [],
        "pipeline": strategy.pipeline_degree,
        "stages": [list(stage) for stage in strategy.stages],
        "micro_batches": strategy.micro_batches,
        "recompute": list(strategy.recomputed),
        "optimizer_sharding": list(strategy.shared_updates),
    }


def checked(values: Any) -> dict[str, Any]:
    """Values of this format and version, with no entry that would be ignored; else ValueError."""
    _need(isinstance(values, dict), f"expected an object, got {type(values).__name__}")
    came = values.get("format"), values.get("version")
    _need(came[0] == FORMAT, f'"format" is {came[0]!r}, not {FORMAT!r}')
    good = came[1] == VERSION and came[1] is not True
    _need(good, f'"version" is {came[1]!r}; this version reads {VERSION}')
    _need(set(values) <= _KEYS, f"unknown entries {sorted(set(values) - _KEYS)}")
    unused = values.get("rewrites", []) == []
    _need(unused, '"rewrites" is not empty; this version does not act on it')
    return values


def read_into(strategy: Strategy, values: dict[str, Any]) -> None:
    """Give an empty strategy what checked values say.

    Raises:
        ValueError, TypeError: an entry is wrong; says which.
    """
    strategy.tensor_parallel_degree = _count(values, "tensor_parallel")
    _read_stages(strategy, values)
    strategy.shared_updates += _patterns(values, "optimizer_sharding")
    strategy.recomputed += _patterns(values, "recompute")
    for number, entry in enumerate(_list(values, "ops")):
        _read_rule(strategy, number, entry)


def _read_stages(strategy: Strategy, values: dict[str, Any]) -> None:
    pipeline, micro_batches = _count(values, "pipeline"), _count(values, "micro_batches")
    stages = _list(values, "stages")
    alone = pipeline == 1 or not stages
    _need(alone, f'"pipeline" is {pipeline} beside "stages"; expected one of them')
    even = strategy.devices % pipeline == 0
    _need(even, f'"pipeline" is {pipeline}, no divisor of {strategy.devices} devices')
    if stages:
        strategy.pipeline(*stages, micro_batches=micro_batches)
    strategy.pipeline_degree = pipeline
    strategy.micro_batches = micro_batches


def _read_rule(strategy: Strategy, number: int, entry: Any) -> None:
    named = isinstance(entry, dict) and isinstance(entry.get("op"), str)
    _need(named, f'entry {number} of "ops" has no name of an operator, such as "op": "dense*"')
    splits = entry.get("splits", {})
    _need(isinstance(splits, dict), f'{entry["op"]}: "splits" is {splits!r}')
    extra = set(entry) - {"op", "splits", "start", "strides"}
    _need(not extra, f"{entry['op']}: unknown entries {sorted(extra)}")
    strategy.add_rule(entry["op"], splits, entry.get("start", 0), entry.get("strides"))


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _count(values: dict[str, Any], name: str) -> int:
    return integer(values.get(name, 1), f'"{name}"', 1, MOST)


def _list(values: dict[str, Any], name: str) -> list[Any]:
    given = values.get(name, [])
    _need(isinstance(given, list), f'"{name}" is {shown(given)}, not a list')
    return list(given)


def _patterns(values: dict[str, Any], name: str) -> list[str]:
    given = values.get(name, [])
    good = isinstance(given, list) and all(isinstance(pattern, str) for pattern in given)
    _need(good, f'"{name}" is {given!r}, not a list of names or patterns')
    return list(given)
