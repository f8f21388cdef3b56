"""How one operator is split: parts by index, and the devices that they lie on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flexflow.core._lib import text

if TYPE_CHECKING:
    from flexflow.core.layer import Op
    from flexflow.core.model import FFModel

# Devices of a strategy, and parts of an index. There is an operator for each part: of more, which
# are surely a mistake, a plan would take hours and all memory.
MOST = 2**16
# What one can split along without knowing the names of an operator's indices.
KINDS = ("sample", "parameter", "attribute", "reduction")


@dataclass(frozen=True)
class Index:
    """One index of an operator's loops: its extent, and what splitting it means."""

    name: str
    extent: int
    kind: str  # one of KINDS, or "whole: " and why it cannot be split


@dataclass(frozen=True)
class Placement:
    """How one operator is split: parts per index, and the grid of devices that they lie on.

    Attributes:
        splits: parts by index; the name of a kind ("sample", "parameter", "attribute",
            "reduction") stands for the operator's first index of that kind.
        start: the device of the first part.
        strides: by split, how many devices further the next part lies; None: row-major, the last
            split on neighbouring devices.
    """

    splits: Mapping[str, int] = field(default_factory=dict)
    start: int = 0
    strides: tuple[int, ...] | None = None

    def grid(self) -> tuple[int, ...]:
        """The strides, filled in."""
        if self.strides is not None:
            return self.strides
        strides, step = [], 1
        for degree in reversed(list(self.splits.values())):
            strides.append(step)
            step *= degree
        return tuple(reversed(strides))

    def devices(self) -> int:
        """One more than the highest device that it uses."""
        reach = sum((d - 1) * s for d, s in zip(self.splits.values(), self.grid()))
        return self.start + reach + 1

    def _where(self) -> str:
        first, last = self.start, self.devices() - 1
        if first == last:
            return devices_text([first])
        if math.prod(self.splits.values()) > 64:
            row_major = self.grid() == Placement(self.splits).grid()
            return f"devices {first} to {last}" + f" by {list(self.grid())}" * (not row_major)
        steps = ([p * s for p in range(d)] for d, s in zip(self.splits.values(), self.grid()))
        # The last split runs fastest.
        return devices_text([first + sum(offsets) for offsets in itertools.product(*steps)])

    def __str__(self) -> str:
        splits = " x ".join(f"{index} in {parts}" for index, parts in self.splits.items())
        return f"{splits or 'whole'}, on {self._where()}"


def devices_text(devices: Sequence[int]) -> str:
    """Devices in words.

    >>> devices_text([2]), devices_text([0, 2]), devices_text(range(64))
    ('device 2', 'devices 0, 2', 'devices 0 to 63')
    """
    if len(set(devices)) == 1:
        return f"device {devices[0]}"
    if len(devices) > 4 and list(devices) == list(range(devices[0], devices[-1] + 1)):
        return f"devices {devices[0]} to {devices[-1]}"
    return f"devices {', '.join(map(str, devices))}"


def indices_of(model: FFModel, op: Op) -> list[Index]:
    """The indices that an operator of a model can be split along."""
    lines = text("ff_graph_indices", model.graph_handle, op.made).splitlines()
    fields = (line.split(" ", 2) for line in lines)
    return [Index(name, int(extent), kind) for name, extent, kind in fields]


def resolve(name: str, indices: Sequence[Index]) -> Index | None:
    if name not in KINDS:
        return next((index for index in indices if index.name == name), None)
    # Of an index of extent 1 there is nothing to share out, whatever its kind.
    return next((index for index in indices if index.kind == name and index.extent > 1), None)
