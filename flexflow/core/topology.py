"""Connections of a machine: what an entry such as ``{"type": "torus", ...}`` comes to, link by
link."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any, Callable, NamedTuple

from flexflow.core.checks import integers, shown, some
from flexflow.core.fields import Fields

MOST_LINKS = 1 << 22


class Link(NamedTuple):
    """One direction of a connection; the ends are numbers of devices or, after them, switches."""

    source: int
    target: int
    latency: float  # seconds
    bandwidth: float  # bytes per second


class Wiring:
    """Devices and switches by number, and the links between them, as they are laid."""

    def __init__(self, devices: Sequence[str]) -> None:
        self.names = list(devices)
        self.links: list[Link] = []
        self.where = ""  # the entry that is being laid, for messages
        self._laid: set[tuple[int, int]] = set()

    def switch(self, name: str) -> int:
        """A further switch; its number."""
        self.names.append(name)
        return len(self.names) - 1

    def lay(self, a: int, b: int, latency: float, bandwidth: float, one_way: bool = False) -> None:
        """A link from a to b and, unless it is one way, back."""
        for source, target in [(a, b)] if one_way else [(a, b), (b, a)]:
            ends = f"from {self.names[source]} to {self.names[target]}"
            if source == target:
                raise ValueError(f"{self.where}: a link {ends}, itself")
            if (source, target) in self._laid:
                raise ValueError(
                    f"{self.where}: a second link {ends}; give one of them the bandwidth of both"
                )
            if len(self.links) == MOST_LINKS:
                raise ValueError(f"{self.where}: more than {MOST_LINKS} links; use switches")
            self._laid.add((source, target))
            self.links.append(Link(source, target, latency, bandwidth))


class Scope(NamedTuple):
    """What connections may speak of, by the names that they use."""

    wiring: Wiring
    vertices: dict[str, int]
    prefix: str  # of the full names of what is added

    def add(self, group: str, count: int) -> list[int]:
        """Further switches: group0, group1, ..."""
        names = [f"{group}{n}" for n in range(count)]
        for name in names:
            self.vertices[name] = self.wiring.switch(self.prefix + name)
        return [self.vertices[name] for name in names]

    def members(self, entry: Fields, name: str) -> list[int]:
        """What a pattern, or one of a list of patterns, matches, in order and each once."""
        expected = 'a name or pattern such as "gpu*", or a list of these'
        given = entry.take(name, expected)
        patterns = [given] if isinstance(given, str) else given
        if not isinstance(patterns, list) or not all(isinstance(p, str) for p in patterns):
            raise ValueError(f"{entry.at(name)}: got {shown(given)}, expected {expected}")
        found: dict[int, None] = {}
        for pattern in patterns:
            named = self.vertices.get(pattern)
            matched = (
                [v for key, v in self.vertices.items() if fnmatchcase(key, pattern)]
                if named is None
                else [named]
            )
            if not matched:
                there = some(self.vertices)
                raise ValueError(f"{entry.at(name)}: nothing matches {pattern!r}; there is {there}")
            found.update(dict.fromkeys(matched))
        return list(found)


class Wire(NamedTuple):
    """What each link of an entry is like."""

    latency: float
    bandwidth: float


def connect(scope: Scope, values: Any, path: str) -> None:
    """Lay the links of one entry.

    Raises:
        TypeError, ValueError: it makes no sense; names the path to what is wrong.
    """
    every_key = " ".join([_KEYS, *(keys for _, keys in TYPES.values())])
    kind = Fields(values, path, every_key).text("type", f"one of {', '.join(TYPES)}")
    if kind not in TYPES:
        raise ValueError(f"{path}.type: got {kind!r}, expected one of {', '.join(TYPES)}")
    lay, keys = TYPES[kind]
    entry = Fields(values, path, f"{_KEYS} {keys}")
    scope.wiring.where = path
    lay(scope, entry, Wire(entry.number("latency"), entry.positive("bandwidth")))


def _link(scope: Scope, entry: Fields, wire: Wire) -> None:
    """The longer list spread evenly over the shorter one: pairs, stars and levels of a tree."""
    ends = scope.members(entry, "from"), scope.members(entry, "to")
    one_way = entry.switch("one_way", False)
    n = max(map(len, ends))
    for i in range(n):
        a, b = (side[i * len(side) // n] for side in ends)
        scope.wiring.lay(a, b, *wire, one_way=one_way)


def _clique(scope: Scope, entry: Fields, wire: Wire) -> None:
    for a, b in combinations(scope.members(entry, "members"), 2):
        scope.wiring.lay(a, b, *wire)


# Of eight GPUs, each with six links: how many join each two (nvidia-smi topo -m).
_CUBE_MESH = {
    1: [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)],
    2: [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)],
}


def _cube_mesh(scope: Scope, entry: Fields, wire: Wire) -> None:
    members = scope.members(entry, "members")
    if len(members) not in (4, 8):
        raise ValueError(f"{entry.at('members')}: got {len(members)}, expected 8, or 4 for a half")
    for bonded, pairs in _CUBE_MESH.items():
        for a, b in pairs:
            if max(a, b) < len(members):
                scope.wiring.lay(members[a], members[b], wire.latency, wire.bandwidth * bonded)


def even_shape(n: int, dimensions: int) -> list[int]:
    """Extents whose product is n, as even as they can be, the largest last.

    >>> even_shape(64, 3), even_shape(24, 2), even_shape(7, 2)
    ([4, 4, 4], [4, 6], [1, 7])
    """
    if dimensions == 1:
        return [n]
    root = round(n ** (1 / dimensions))
    first = next(d for d in range(root, 0, -1) if n % d == 0)
    return sorted([first, *even_shape(n // first, dimensions - 1)])


def _torus(scope: Scope, entry: Fields, wire: Wire) -> None:
    members = scope.members(entry, "members")
    if ("shape" in entry.values) == ("dimensions" in entry.values):
        raise ValueError(f'{entry.path}: expected either "shape" or "dimensions"')
    if "shape" in entry.values:
        shape = integers(entry.values["shape"], entry.at("shape"))
    else:
        shape = even_shape(len(members), entry.count("dimensions", 8))
    if min(shape, default=0) < 1 or math.prod(shape) != len(members):
        raise ValueError(
            f"{entry.at('shape')}: got {shape}, expected extents whose product is {len(members)}"
        )
    closed = entry.switch("wrap", True)
    stride = 1
    for extent in reversed(shape):
        for i, member in enumerate(members):
            at = i // stride % extent
            if at + 1 < extent:
                scope.wiring.lay(member, members[i + stride], *wire)
            elif closed and extent > 2:
                scope.wiring.lay(member, members[i - at * stride], *wire)
        stride *= extent


def _fat_tree(scope: Scope, entry: Fields, wire: Wire) -> None:
    """Switches over switches; a link upwards is as wide as what is below it (Leiserson, 1985)."""
    level, latency, width = scope.members(entry, "members"), wire.latency, wire.bandwidth
    arity = entry.count("arity", 1 << 20)
    if arity < 2:
        raise ValueError(f"{entry.at('arity')}: got 1, expected an integer from 2 on")
    group = group_name(entry.text("name", "a name for its switches"), entry.at("name"))
    growth = arity / entry.positive("oversubscription", 1)
    upwards = entry.number("uplink_latency", latency)
    sizes = [-(-len(level) // arity)]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // arity))
    if f"{group}0" in scope.vertices:
        raise ValueError(f"{entry.at('name')}: there is a {group}0 already")
    switches = scope.add(group, sum(sizes))
    for size in sizes:
        above, switches = switches[:size], switches[size:]
        for i, member in enumerate(level):
            scope.wiring.lay(member, above[i // arity], latency, width)
        level, latency, width = above, upwards, width * growth


def group_name(name: str, path: str) -> str:
    """A name for what is then numbered; ValueError for one that would be mistaken."""
    if not name.replace("_", "a").replace("-", "a").isalnum() or name[-1].isdigit():
        raise ValueError(
            f"{path}: got {shown(name)}, expected letters, digits, - and _, with no digit at its "
            "end, where numbers are put"
        )
    return name


Lay = Callable[[Scope, Fields, Wire], None]
_KEYS = "type latency bandwidth"
# Type of a connection: what lays it, and the keys that it has beside those of all.
TYPES: dict[str, tuple[Lay, str]] = {
    "link": (_link, "from to one_way"),
    "clique": (_clique, "members"),
    "cube_mesh": (_cube_mesh, "members"),
    "torus": (_torus, "members shape dimensions wrap"),
    "fat_tree": (_fat_tree, "members name arity oversubscription uplink_latency"),
}
