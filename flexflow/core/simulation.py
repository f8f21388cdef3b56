"""What a step of a model would take: its simulation on a machine, and the trace of it."""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any, NamedTuple

from flexflow.core import _abi
from flexflow.core._lib import Handle, call
from flexflow.core.checks import shown
from flexflow.core.costs import keep_costs, recall_costs
from flexflow.core.machine_model import MachineModel

_SLICE_MS = 100.0  # the longest stay in the library: Ctrl-C waits for it
_MOVES = ("replicate", "repartition", "combine", "reduction")


class Stay(NamedTuple):
    """A call on a device, or a transfer over a link, and when."""

    lane: str  # "calls", "moves" (of a device that moves data while it computes) or "link"
    at: int  # number of the device or link
    begin: float  # seconds from the begin of the step
    end: float
    op: str
    name: str
    bytes: int  # that cross a link


class Link(NamedTuple):
    """One direction of a connection. Ends are devices or, numbered after them, switches."""

    source: int
    target: int
    busy: float  # seconds


class Simulation:
    """A simulated step.

    Attributes:
        seconds: that the step takes.
        busy: by device, seconds in which it computes. Where moves take turns with calls, as on
            CPUs, they count.
        exposed: by device, seconds in which it moves data and does not compute.
        peak_memory: by device, bytes.
        bytes_moved: between devices, by kind: ``"replicate"`` (tensors as they are),
            ``"repartition"`` (parts of one), ``"combine"`` (several put together), ``"reduction"``.
        links: with the seconds in which each transfers data.
        stays: what every device and link does, and when: steps in the order of the plan, then
            transfers.
    """

    def __init__(self, handle: Handle) -> None:
        total = _abi.ff_simulated()
        call("ff_simulation_total", handle.value, ctypes.byref(total))
        devices = (_abi.ff_simulated_device * total.devices)()
        links = (_abi.ff_simulated_link * total.links)()
        stays = (_abi.ff_stay * total.stays)()
        call("ff_simulation_read", handle.value, devices, links, stays)
        lanes = {
            _abi.FF_LANE_CALLS: "calls",
            _abi.FF_LANE_MOVES: "moves",
            _abi.FF_LANE_LINK: "link",
        }
        self.seconds: float = total.seconds
        self.busy: list[float] = [device.busy for device in devices]
        self.exposed: list[float] = [device.exposed for device in devices]
        self.peak_memory: list[int] = [device.memory for device in devices]
        self.bytes_moved: dict[str, int] = dict(zip(_MOVES, total.moved))
        self.links = [Link(link.source, link.target, link.busy) for link in links]
        self.stays = [
            Stay(lanes[s.lane], s.at, s.begin, s.end, s.op.decode(), s.name.decode(), s.bytes)
            for s in stays
        ]

    def __repr__(self) -> str:
        busy = ", ".join(f"{share:.0%}" for share in self._busy_shares())
        return f"<Simulation of {self.seconds * 1e3:.3f} ms, devices busy {busy}>"

    def _busy_shares(self) -> list[float]:
        return [busy / self.seconds if self.seconds > 0 else 0.0 for busy in self.busy]

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline as a file for ``chrome://tracing`` or https://ui.perfetto.dev: a track
        for each device and each link, times in microseconds (Trace Event Format).

        Raises:
            OSError: the file cannot be written.
        """
        tracks: dict[tuple[str, int], int] = {}
        events = [self._event(stay, tracks) for stay in self.stays]
        names = [
            {
                "ph": "M",
                "name": "thread_name",
                "pid": 0,
                "tid": number,
                "args": {"name": self._track(lane, at)},
            }
            for (lane, at), number in tracks.items()
        ]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": names + events, "displayTimeUnit": "ms"}, file)

    def _track(self, lane: str, at: int) -> str:
        if lane == "link":
            return f"link {self.links[at].source} to {self.links[at].target}"
        return f"device {at}" + (", moves" if lane == "moves" else "")

    @staticmethod
    def _event(stay: Stay, tracks: dict[tuple[str, int], int]) -> dict[str, Any]:
        event: dict[str, Any] = {
            "ph": "X",
            "name": stay.name or stay.op,
            "cat": stay.op,
            "pid": 0,
            "tid": tracks.setdefault((stay.lane, stay.at), len(tracks)),
            "ts": stay.begin * 1e6,
            "dur": (stay.end - stay.begin) * 1e6,
        }
        if stay.lane == "link":
            event["args"] = {"bytes": stay.bytes}
        return event


def simulate(model: int, sections: int, machine: MachineModel | None) -> Simulation:
    """See ``CompiledModel.simulate``; of a model by its handle."""
    if machine is None:
        _measure(model, sections)
    elif not isinstance(machine, MachineModel):
        raise TypeError(f"simulate: machine is {shown(machine)}, expected a MachineModel or None")
    number = 0 if machine is None else machine.handle
    return Simulation(Handle("ff_simulate", model, sections, number))


def _measure(model: int, sections: int) -> None:
    """Measure what the calls of a step cost, where nobody has done so before."""
    recall_costs()
    left, measured = ctypes.c_int64(), False
    try:
        while True:
            call("ff_costs_measure", model, sections, _SLICE_MS, ctypes.byref(left))
            if left.value == 0:
                break
            measured = True
    finally:
        if measured:
            keep_costs()
