"""The machines that FlexFlow's ``--machine-model-version`` and ``--machine-model-file`` speak of,
in the form of our files. Neither tells how fast a GPU computes; a V100 is taken for one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, permutations, product
from typing import Any

from flexflow.core.checks import integer, real
from flexflow.core.guard import did_you_mean
from flexflow.core.machine_file import MOST
from flexflow.core.machines import V100, machine

_MIB_PER_MS = 2**20 * 1000.0  # in bytes per second: what FlexFlow calls a GB/s
_FREE = {"latency": 0.0, "bandwidth": 1e15}  # a way that costs next to nothing

_COUNTS = (
    *("num_nodes", "num_sockets_per_node", "num_cpus_per_socket", "num_gpus_per_socket"),
    *("nic_persocket", "nic_distribution"),
)
_DEVICES = ("membus", "upi", "nic", "pci", "nvlink")
_MEMORIES = ("sys_mem", "gpu_fb_mem")
_SCOPES = ("intra_socket", "inter_socket", "inter_node")
_WORDS = ("membus", "upi", "nic", "pci_to_host", "pci_to_dev", "nvlink")
_FIGURES = [f"{device}_{what}" for device in _DEVICES for what in ("latency", "bandwidth")]
_PATHS = [f"{s}_{a}_to_{b}" for s in _SCOPES for a in _MEMORIES for b in _MEMORIES]


def simple_machine(nodes: int, gpus: int) -> dict[str, Any]:
    """Version 0: GPUs of a node joined two by two; nodes by a bandwidth that is cut in parts."""

    def wire(kind: str, mib_per_ms: float, **ends: str) -> dict[str, Any]:
        figures = {"latency": 0.0, "bandwidth": mib_per_ms * _MIB_PER_MS}
        return {"type": kind, **ends, **figures}

    node = {
        "count": nodes,
        "devices": {"gpu": {"kind": "gpu", "count": gpus}},
        "switches": {"host": 1},
        "connections": [
            wire("clique", 20, members="gpu*"),
            wire("link", 16, **{"from": "gpu*", "to": "host0"}),
        ],
    }
    network = {"connections": [wire("clique", 12 / nodes, members="*/host0")]}
    return machine("flexflow-simple", {"gpu": V100}, node, network)


def values_of_file(text: str, name: str) -> dict[str, Any]:
    """Version 1: what a file of lines ``key = value`` says of GPUs and the ways between them.

    Raises:
        TypeError, ValueError: it makes no sense; names the line or the key.
    """
    return _Description(_entries(text)).values(name or "machine")


def _entries(text: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = re.fullmatch(r"\s*(\w+)\s*=(.*)", line)
        if not found:
            raise ValueError(
                f"line {number}: got {line.strip()[:60]!r}, expected KEY = VALUE, or all of a "
                "file in JSON, which begins with {"
            )
        key, value = found[1], found[2].strip()
        known = [*_COUNTS, *_FIGURES, *_PATHS]
        if key not in known:
            raise ValueError(f"line {number}: unknown key {key!r}{did_you_mean(key, known)}")
        if key in entries:
            raise ValueError(f"line {number}: a second {key}")
        entries[key] = value
    return entries


class _Description:
    """What a file says, and the machine that this is."""

    def __init__(self, entries: dict[str, str]) -> None:
        self.entries = entries
        self.nodes = self._count("num_nodes")
        self.sockets = self._count("num_sockets_per_node")
        self.gpus = self._count("num_gpus_per_socket")
        self._count("num_cpus_per_socket", 0)
        per_socket = "nic_persocket" if "nic_persocket" in entries else "nic_distribution"
        self.nics = self.sockets * self._count(per_socket, 0, "0") or 1
        self.switches: dict[str, int] = {}
        self.links: dict[tuple[str, str], dict[str, Any]] = {}
        for key in [key for key in _PATHS if key in entries]:
            self._path(key)

    def values(self, name: str) -> dict[str, Any]:
        """The machine in the form of our files."""
        network: dict[str, Any] = {}
        if self.gpus > 1:
            self._add_ways("intra_socket", [])
        if self.sockets > 1:
            self._add_ways("inter_socket", ["upi"])
        if self.nodes > 1:
            self._add_ways("inter_node", ["nic"])
            network = {"connections": list(self._between_nodes())}
        node = {
            "count": self.nodes,
            "devices": {"gpu": {"kind": "gpu", "count": self.gpus * self.sockets}},
            "switches": self.switches,
            "connections": list(self.links.values()),
        }
        return machine(name, {"gpu": V100}, node, network)

    def _add_ways(self, scope: str, crossing: list[str]) -> None:
        """Links for what a path between GPUs names: an NVLink or nothing directly between each two,
        others by way of what all GPUs of a socket share."""
        key = f"{scope}_gpu_fb_mem_to_gpu_fb_mem"
        words = self._path(key)
        if scope != "inter_node" and words in ([], ["nvlink"]):
            figures = self._figures("nvlink") if words else _FREE
            for a, b in combinations(range(self.gpus * self.sockets), 2):
                if (a // self.gpus == b // self.gpus) == (scope == "intra_socket"):
                    self._link(f"gpu{a}", f"gpu{b}", figures, one_way=False)
        elif [word for word in words if word in ("upi", "nic", "nvlink")] == crossing:
            self._add_path(words)
        else:
            expected = f"{crossing[0]} once" if crossing else "neither upi nor nic"
            alone = "" if scope == "inter_node" else ", or nvlink alone"
            came = " ".join(words) or "nothing"
            raise ValueError(f"{key}: got {came!r}, expected a path with {expected}{alone}")

    def _add_path(self, words: list[str]) -> None:
        """A link for each part, and ways that cost nothing from one part to the next."""
        parts: list[str] = []
        for word in words:
            parts += [f"{word}_out", f"{word}_in"] if word in ("upi", "nic") else [word]
        previous = "gpu*"
        for part in parts:
            if part not in self.switches:
                word = part.split("_")[0]
                count = self.nics if word == "nic" else self.sockets
                self.switches.update({part: count, f"after_{part}": count})
                # An exit and an entrance make up the latency together, and each is as wide.
                figures = self._figures(word)
                figures["latency"] /= 2 if word in ("upi", "nic") else 1
                self._link(f"{part}*", f"after_{part}*", figures)
            if part == "upi_in":
                for a, b in permutations(range(self.sockets), 2):
                    self._link(f"after_upi_out{a}", f"upi_in{b}", _FREE)
            elif part != "nic_in":
                self._link(previous, f"{part}*", _FREE)
            previous = f"after_{part}*"
        self._link(previous, "gpu*", _FREE)

    def _between_nodes(self) -> Iterator[dict[str, Any]]:
        """From each exit of a node to the entrances of all others, since none leads back."""
        for node, nic in product(range(self.nodes), range(self.nics)):
            others = [other for other in range(self.nodes) if other != node]
            ends = [f"node{other}/nic_in{n}" for other, n in product(others, range(self.nics))]
            source = f"node{node}/after_nic_out{nic}"
            yield {"type": "link", "from": source, "to": ends, "one_way": True, **_FREE}

    def _link(self, a: str, b: str, figures: dict[str, float], one_way: bool = True) -> None:
        self.links[a, b] = {"type": "link", "from": a, "to": b, "one_way": one_way, **figures}

    def _figures(self, device: str) -> dict[str, float]:
        """Latency, which the file has in milliseconds, and bandwidth."""
        latency, bandwidth = (self._number(f"{device}_{what}") for what in ("latency", "bandwidth"))
        if bandwidth == 0:
            raise ValueError(f"{device}_bandwidth: got 0, expected a number above 0")
        return {"latency": latency / 1000, "bandwidth": bandwidth * _MIB_PER_MS}

    def _path(self, key: str) -> list[str]:
        words = [word for word in self._entry(key, "a path").split() if word != "null"]
        for word in words:
            if word not in _WORDS:
                raise ValueError(f"{key}: got {word!r}, expected words of {', '.join(_WORDS)}")
        return words

    def _number(self, key: str) -> float:
        text = self._entry(key, "a number")
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{key}: got {text!r}, expected a number") from None
        return real(value, key, 0)

    def _count(self, key: str, least: int = 1, fallback: str | None = None) -> int:
        text = self._entry(key, "an integer", fallback)
        if not re.fullmatch(r"-?\d+", text):
            raise ValueError(f"{key}: got {text!r}, expected an integer")
        return integer(int(text), key, least, MOST)

    def _entry(self, key: str, expected: str, fallback: str | None = None) -> str:
        value = self.entries.get(key, fallback)
        if value is None:
            raise ValueError(f"{key} is missing; expected {expected}")
        return value
