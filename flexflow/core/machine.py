"""The machine that an engine has, as the engine tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flexflow.core._lib import describe

# Engines over a runtime of their own, which decides what machine there is.
RUNTIMES = frozenset({"legion"})


class Machine(NamedTuple):
    """What an engine tells of its machine."""

    nodes: int
    devices: int  # on all nodes
    lines: list[str]  # the rest, for people: devices, and what the runtime says


def machine_of(engine: str, flags: Sequence[str] = ()) -> Machine:
    """The machine of an engine; its runtime, if it has one, is started or joined.

    Args:
        engine: its name. flags: words for its runtime.

    Raises:
        ValueError: there is no such engine, or its runtime does not take the flags.

    >>> machine_of("local", ["-ll:cpu", "2"])[:2]
    (1, 2)
    """
    nodes, devices, *lines = describe("\n".join([f"machine:{engine}", *flags])).splitlines()
    return Machine(_number(nodes), _number(devices), lines)


def _number(line: str) -> int:
    return int(line.rpartition(" ")[2])
