"""The format of machine files: what plain values come to, and how they are written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from flexflow.core.checks import integer, real, shown
from flexflow.core.fields import Fields, above_0
from flexflow.core.topology import Link, Scope, Wiring, connect, group_name
from flexflow.core.types import DTYPE_NAMES, DataType

FORMAT, VERSION = "flexflow machine", 1
MOST = 2**16  # devices, as of a strategy
_DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}


class Kind(NamedTuple):
    """What devices of one kind are like."""

    name: str
    kernels: str  # that run there: "cpu", "cuda", ...
    flops: dict[DataType, float]  # per second, by the type that is computed in
    memory: int  # bytes
    bandwidth: float  # of its memory, bytes per second
    launch: float  # seconds of a call beyond its work
    threads: int


class Device(NamedTuple):
    """One device of a machine."""

    name: str  # such as "node0/gpu3"
    kind: Kind
    node: int
    space: int  # devices of one space read each other's memory as their own; -1: one of its own


class Contents(NamedTuple):
    """A machine, device by device and link by link."""

    name: str
    nodes: int
    devices: list[Device]
    switches: list[str]
    links: list[Link]
    overlap: bool


def contents(values: Any) -> Contents:
    """What the values of a file come to.

    Raises:
        TypeError, ValueError: they make no sense; names the path to what is wrong.
    """
    top = Fields(values, "", "format version name overlap devices nodes network")
    for key, expected in (("format", FORMAT), ("version", VERSION)):
        came = top.take(key, repr(expected))
        if came != expected or came is True:
            raise ValueError(f"{key}: got {shown(came)}, expected {expected!r}")
    name, overlap = top.text("name", "a name"), top.switch("overlap", True)
    kinds = {key: _kind(key, kind, f"devices.{key}") for key, kind in top.objects("devices")}
    nodes = [node for path, item in top.items("nodes") for node in _nodes(item, path)]
    devices: list[Device] = []
    scopes: list[tuple[_Node, dict[str, int]]] = []
    for number, node in enumerate(nodes):
        scopes.append((node, {}))
        for local, kind_name, path in node.devices():
            if kind_name not in kinds:
                raise ValueError(
                    f"{path}: got {shown(kind_name)}, expected one of "
                    f'"devices": {", ".join(kinds) or "there are none"}'
                )
            space = number if node.shared_memory else -1
            scopes[-1][1][local] = len(devices)
            devices.append(Device(f"node{number}/{local}", kinds[kind_name], number, space))
            if len(devices) > MOST:
                raise ValueError(f"nodes: more than {MOST} devices")
    if not devices:
        raise ValueError("nodes: there are no devices; expected a list of nodes that have some")
    wiring = _wired(devices, scopes, top)
    switches = wiring.names[len(devices) :]
    return Contents(name, len(nodes), devices, switches, wiring.links, overlap)


def _wired(
    devices: list[Device], scopes: list[tuple[_Node, dict[str, int]]], top: Fields
) -> Wiring:
    wiring = Wiring([device.name for device in devices])
    everything: dict[str, int] = {}
    for number, (node, vertices) in enumerate(scopes):
        _connect(Scope(wiring, vertices, f"node{number}/"), node.fields)
        everything.update({f"node{number}/{name}": v for name, v in vertices.items()})
    network = Fields(top.values.get("network", {}), "network", "switches connections")
    _connect(Scope(wiring, everything, ""), network)
    return wiring


def _connect(scope: Scope, fields: Fields) -> None:
    """Switches and connections of a node, or between nodes."""
    for group, count in fields.objects("switches"):
        path = f"{fields.at('switches')}.{group}"
        if f"{group_name(group, path)}0" in scope.vertices:
            raise ValueError(f"{path}: there is a {group}0 already")
        scope.add(group, integer(count, path, 1, MOST))
    for path, entry in fields.items("connections"):
        connect(scope, entry, path)


def _kind(name: str, values: Any, path: str) -> Kind:
    fields = Fields(values, path, "kernels flops memory bandwidth launch threads")
    flops = {}
    for dtype, rate in fields.objects("flops"):
        if dtype not in _DTYPES:
            known = ", ".join(_DTYPES)
            raise ValueError(f"{path}.flops.{dtype}: unknown type; expected one of {known}")
        flops[_DTYPES[dtype]] = above_0(rate, f"{path}.flops.{dtype}")
    if DataType.DT_FLOAT not in flops:
        raise ValueError(
            f"{path}.flops.float32 is missing; expected operations per second, which count for "
            "types without a number of their own, too"
        )
    memory = real(fields.take("memory", "bytes"), fields.at("memory"), 1, 2**63)
    return Kind(
        name,
        fields.text("kernels", 'which kernels run there, such as "cpu" or "cuda"'),
        flops,
        int(memory),
        fields.positive("bandwidth"),
        fields.number("launch", 0.0),
        fields.count("threads", 2**15, 1),
    )


class _Node:
    """A node, of one or more that are alike."""

    def __init__(self, values: Any, path: str) -> None:
        keys = "count devices switches connections shared_memory"
        self.fields = Fields(values, path, keys)
        self.shared_memory = self.fields.switch("shared_memory", False)

    def devices(self) -> Iterator[tuple[str, Any, str]]:
        """Name in the node, name of the kind, and path to the latter, of each device."""
        for group, values in self.fields.objects("devices"):
            path = f"{self.fields.at('devices')}.{group}"
            fields = Fields(values, path, "kind count")
            kind = fields.text("kind", 'a name in "devices"')
            for n in range(fields.count("count", MOST, 1)):
                yield f"{group_name(group, path)}{n}", kind, fields.at("kind")


def _nodes(values: Any, path: str) -> list[_Node]:
    node = _Node(values, path)
    return [node] * node.fields.count("count", MOST, 1)


def parsed(text: str) -> Any:
    """The values of a JSON text; ValueError for a key that an object has twice, too."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise _TwiceError(f"key {twice!r} stands twice in one object")
        return values

    try:
        return json.loads(text, object_pairs_hook=unique)
    except _TwiceError:
        raise
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None


class _TwiceError(ValueError):
    pass


def written(values: Any, indent: str = "") -> str:
    """Values as JSON, each object and list that fits a line on one.

    >>> print(written({"latency": 1e-06, "bandwidth": 31.5e9, "to": ["nic*"]}))
    {"latency": 1e-06, "bandwidth": 31.5e9, "to": ["nic*"]}
    """
    if isinstance(values, float):
        return _number(values)
    if not isinstance(values, (dict, list)):
        return json.dumps(values)
    inner = indent + "  "
    if isinstance(values, dict):
        items = [f"{json.dumps(key)}: {written(item, inner)}" for key, item in values.items()]
    else:
        items = [written(item, inner) for item in values]
    opening, closing = "{}" if isinstance(values, dict) else "[]"
    flat = f"{opening}{', '.join(items)}{closing}"
    if len(indent) + len(flat) <= 100 and "\n" not in flat:
        return flat
    return f"{opening}\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}{closing}"


def _number(value: float) -> str:
    """A large number in thousands, millions, ..., if that is exactly it."""
    if value >= 1000:
        exponent = int(math.log10(value)) // 3 * 3
        text = f"{value / 10.0**exponent:.15g}e{exponent}"
        if float(text) == value:
            return text
    return repr(value)
