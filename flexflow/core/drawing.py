"""What a strategy comes to on a model, as lines and in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flexflow.core.placement import Placement, devices_text

if TYPE_CHECKING:
    from flexflow.core.model import FFModel

# Colours of Graphviz's scheme "set312".
_COLOURS = 12
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@dataclass(frozen=True)
class Spread:
    """An operator in parts: its splits, its devices, and how many micro-batches it runs one by one
    (0: it does not know them)."""

    splits: list[str]
    devices: list[int]
    micro_batches: int


class Layout:
    """What ``ff_graph_layout`` writes: operators by the first tensor that they make, and edges
    between these, with the moves on them."""

    def __init__(self, text: str) -> None:
        self.spreads: dict[int, Spread] = {}
        self.edges: list[tuple[int, int, list[str]]] = []
        for line in text.splitlines():
            what, number, *fields = line.split("\t")
            if what == "op":
                devices, splits, micro_batches = fields
                self.spreads[int(number)] = Spread(
                    [" in ".join(split.split(":")) for split in splits.split()],
                    [int(device) for device in devices.split()],
                    int(micro_batches),
                )
            else:
                self.edges.append((int(number), int(fields[0]), fields[1].split()))


def line_of(name: str, placement: Placement | None, spread: Spread | None, notes: list[str]) -> str:
    """What a bound strategy says of an operator."""
    if placement is not None:
        said = str(placement)
    elif spread is not None:
        splits = " x ".join(spread.splits) or "whole"
        said = f"follows what it reads: {splits}, on {devices_text(spread.devices)}"
    else:
        said = "made wherever it is read"
    return f"{name}: {', '.join([said, *notes])}"


def dot(model: FFModel, layout: Layout, notes: Mapping[str, Sequence[str]]) -> str:
    """A digraph of a layout, with notes on operators."""
    colours: dict[tuple[int, ...], int] = {}
    lines = []
    for number, spread in layout.spreads.items():
        info = model.tensor_info(number)
        colour = colours.setdefault(tuple(spread.devices), len(colours)) % _COLOURS + 1
        label = [f"{info.name}: {info.op}", *spread.splits, devices_text(spread.devices)]
        if spread.micro_batches:
            label.append(f"{spread.micro_batches} micro-batches")
        label += notes.get(info.name, ())
        lines.append(f"{_quoted(info.name)} [label={_quoted(*label)}, fillcolor={colour}]")
    for maker, reader, moves in layout.edges:
        how = f" [label={_quoted(*moves)}, style=bold]" if moves else ""
        names = (_quoted(model.tensor_info(number).name) for number in (maker, reader))
        lines.append(" -> ".join(names) + how)
    head = 'node [shape=box, style="rounded,filled", colorscheme=set312]'
    return "\n".join(["digraph strategy {", *(f"  {line}" for line in [head, *lines]), "}"])


def _quoted(*lines: str) -> str:
    """A string of Graphviz's, line by line."""
    escaped = (line.translate(_ESCAPES) for line in lines)
    return '"' + "\\n".join(escaped) + '"'
