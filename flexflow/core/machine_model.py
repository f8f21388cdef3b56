"""Machines as the search sees them: those of a name, of a file, or of FlexFlow's formats."""

from __future__ import annotations

import copy
import ctypes
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from flexflow.core import _abi
from flexflow.core._lib import Handle, call
from flexflow.core.checks import encoded, integer, need_file, told_by
from flexflow.core.flexflow_machines import simple_machine, values_of_file
from flexflow.core.guard import did_you_mean
from flexflow.core.machine_file import MOST, Contents, Device, Kind, contents, parsed, written
from flexflow.core.machines import MACHINES
from flexflow.core.types import DTYPE_NAMES


class Route(NamedTuple):
    """How data gets from one device to another."""

    links: list[int]  # by number, in order
    latency: float  # seconds, of all links
    bandwidth: float  # bytes per second, of the narrowest link; infinite to the device itself


class MachineModel:
    """A machine to search strategies for: devices, how fast they compute, and the links between
    them. It need not be there. docs/machines.md tells the format of files, and where the figures of
    ready-made machines come from.

    Args:
        values: what a file holds; a copy is kept.

    Raises:
        ValueError: they make no sense; names the path to what is wrong, what came and what was
            expected.

    >>> machine = MachineModel.load("dgx-a100", nodes=4)
    >>> len(machine.devices), machine.devices[9].name, machine.devices[9].kind.name
    (32, 'node1/gpu1', 'a100')
    >>> machine.route(0, 1).bandwidth
    300000000000.0
    """

    def __init__(self, values: Any, where: str = "machine") -> None:
        with told_by(where):
            found = contents(values)
            self._handle = _handle_of(found)
        self._values = copy.deepcopy(values)
        self.name = found.name
        self.nodes = found.nodes
        self.devices: Sequence[Device] = found.devices
        self.switches: Sequence[str] = found.switches
        self.links = found.links
        self.overlap = found.overlap

    # ---- where they come from ----
    @staticmethod
    def names() -> dict[str, str]:
        """The ready-made machines: what each is, by name.

        >>> MachineModel.names()["cpu-box"]
        '2 sockets of a server, 40 cores each, at 100 Gb/s'
        """
        return {name: about for name, (about, _) in MACHINES.items()}

    @classmethod
    def load(cls, name: str, nodes: int = 1) -> MachineModel:
        """A ready-made machine.

        Args:
            name: one of ``names()``. nodes: how many of its nodes.

        Raises:
            ValueError: there is no such machine, or less than one node.
        """
        if name not in MACHINES:
            near = did_you_mean(str(name), MACHINES) or f"; there is {', '.join(MACHINES)}"
            raise ValueError(f"MachineModel.load: no machine is called {name!r}{near}")
        _, values = MACHINES[name]
        count = integer(nodes, "MachineModel.load: nodes", 1, MOST)
        return cls({**values, "nodes": [{"count": count, **values["nodes"][0]}]}, name)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> MachineModel:
        """A machine from a file: of JSON, or of FlexFlow's format for ``--machine-model-file``.

        Raises:
            ValueError: what it says makes no sense; names file, path or line, and what is wrong.
            FileNotFoundError: there is no such file.
        """
        need_file(path, "MachineModel.read")
        with told_by(str(path)):
            text = Path(path).read_bytes().decode()
            is_json = text.lstrip()[:1] in ("{", "[")
            values = parsed(text) if is_json else values_of_file(text, Path(path).stem)
        return cls(values, str(path))

    @classmethod
    def flexflow(
        cls,
        version: int = 0,
        file: str | os.PathLike[str] = "",
        nodes: int = 1,
        workers_per_node: int = 4,
    ) -> MachineModel:
        """What FlexFlow's ``--machine-model-version`` and ``--machine-model-file`` say.

        Args:
            version: 0, a clique of GPUs on each node and a network of a bandwidth that all nodes
                share; 1, what the file says.
            nodes, workers_per_node: of version 0; a file has its own.

        Raises:
            ValueError: the version is another, or wants a file, or the file makes no sense.

        >>> MachineModel.flexflow(nodes=2).route(0, 7).bandwidth == 6 * 2**20 * 1000
        True
        """
        integer(version, "--machine-model-version", 0, 1)
        if version == 1:
            if not os.fspath(file):
                raise ValueError("--machine-model-version 1 needs a file: --machine-model-file")
            return cls.read(file)
        nodes = integer(nodes, "nodes", 1, MOST)
        return cls(simple_machine(nodes, integer(workers_per_node, "workers_per_node", 1, MOST)))

    # ---- what they are asked ----
    @property
    def handle(self) -> int:
        """Of this machine in the library, as long as this object lives."""
        return self._handle.value

    def route(self, source: int, target: int) -> Route:
        """The fastest way for a megabyte between two devices.

        Raises:
            ValueError: there is none, or no such device.

        >>> MachineModel.load("p3.8xlarge").route(0, 3)
        Route(links=[6], latency=6e-07, bandwidth=50000000000.0)
        """
        n, latency, bandwidth = ctypes.c_size_t(), ctypes.c_double(), ctypes.c_double()
        room = (ctypes.c_int32 * (len(self.devices) + len(self.switches)))()
        ends = [integer(end, "route: device", 0, len(self.devices) - 1) for end in (source, target)]
        out = (ctypes.byref(n), ctypes.byref(latency), ctypes.byref(bandwidth))
        call("ff_machine_route", self.handle, *ends, room, len(room), *out)
        return Route(room[: n.value], latency.value, bandwidth.value)

    def describe(self) -> str:
        """The machine in words: its devices by kind, and ways between them.

        >>> print(MachineModel.load("tpu-v3", nodes=4).describe())
        tpu-v3: 4 nodes, 16 devices, 0 switches, 64 links; devices compute while they move data
          16 tpu-v3: bfloat16 123 T/s, float32 123 T/s, 32 GiB at 900 GB/s, 5 us a call
          node0/chip0 -> node0/chip1, nearest: 1 link, 1 us, 70 GB/s
          node0/chip0 -> node2/chip2, farthest: 4 links, 4 us, 70 GB/s
        """
        parts = (
            f"{_counted(self.nodes, 'node')}, {_counted(len(self.devices), 'device')}, "
            f"{len(self.switches)} switches, {_counted(len(self.links), 'link')}"
        )
        overlap = "compute while they" if self.overlap else "compute or"
        lines = [f"{self.name}: {parts}; devices {overlap} move data"]
        kinds = {device.kind.name: device.kind for device in self.devices}
        counts = Counter(device.kind.name for device in self.devices)
        lines += [f"{counts[name]} {_kind_line(kind)}" for name, kind in kinds.items()]
        return "\n  ".join([*lines, *self._ways()])

    def _ways(self) -> list[str]:
        """The ways from the first device to the nearest and the farthest one."""
        first, *others = self.devices
        routes = {}
        for number, device in enumerate(others, 1):
            with suppress(ValueError):  # no way leads there
                routes[device.name] = self.route(0, number)
        ranked = sorted(routes.items(), key=lambda item: item[1].latency + 1e6 / item[1].bandwidth)
        lines = []
        for which, (name, (links, latency, bandwidth)) in zip(
            ("nearest", "farthest"), [*ranked[:1], *ranked[-1:]]
        ):
            figures = f"{latency * 1e6:.3g} us, {bandwidth / 1e9:.4g} GB/s"
            hops = _counted(len(links), "link")
            lines.append(f"{first.name} -> {name}, {which}: {hops}, {figures}")
        apart = len(others) - len(routes)
        return lines + [f"no way from {first.name} to {apart} of the others"] * (apart > 0)

    # ---- files ----
    def to_json(self) -> dict[str, Any]:
        """The machine as plain values, as a file has them."""
        return copy.deepcopy(self._values)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a file that ``read`` takes."""
        Path(path).write_text(written(self._values) + "\n")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MachineModel) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<MachineModel {self.name!r}, {self.nodes} nodes, {len(self.devices)} devices>"


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _kind_line(kind: Kind) -> str:
    rates = [f"{DTYPE_NAMES[dtype]} {rate / 1e12:.4g} T/s" for dtype, rate in kind.flops.items()]
    memory = f"{kind.memory / 2**30:.4g} GiB at {kind.bandwidth / 1e9:.4g} GB/s"
    return f"{kind.name}: {', '.join(rates)}, {memory}, {kind.launch * 1e6:.3g} us a call"


def _array(kind: Any, rows: Sequence[Sequence[Any]]) -> Any:
    return (kind * len(rows))(*(kind(*row) for row in rows))


def _handle_of(found: Contents) -> Handle:
    devices = [
        (
            encoded(kind.kernels, "kernels"),
            *(kind.threads, node, space, kind.memory, kind.bandwidth, kind.launch),
        )
        for _, kind, node, space in found.devices
    ]
    rates = [
        (number, dtype.value, rate)
        for number, device in enumerate(found.devices)
        for dtype, rate in device.kind.flops.items()
    ]
    return Handle(
        "ff_machine_create",
        encoded(found.name, "name"),
        *(_array(_abi.ff_device, devices), len(devices)),
        *(_array(_abi.ff_rate, rates), len(rates)),
        len(found.switches),
        *(_array(_abi.ff_link, found.links), len(found.links)),
        found.overlap,
    )
