"""Graphs in the language of Graphviz."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flexflow.core.model import FFModel

# Colours of Graphviz's scheme "set312".
_COLOURS = 12
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def dot(model: FFModel, layout: str) -> str:
    """A digraph of a layout, as ``ff_graph_layout`` writes it."""
    colours: dict[str, int] = {}  # by set of devices
    lines = []
    for line in layout.splitlines():
        what, number, *fields = line.split("\t")
        info = model.tensor_info(int(number))
        if what == "op":
            devices, splits = fields
            colour = colours.setdefault(devices, len(colours)) % _COLOURS + 1
            label = [f"{info.name}: {info.op}"]
            label += [" in ".join(split.split(":")) for split in splits.split()]
            numbers = devices.split()
            label.append(f"device{'s' * (len(numbers) > 1)} {', '.join(numbers)}")
            lines.append(f"{_quoted(info.name)} [label={_quoted(*label)}, fillcolor={colour}]")
        else:
            to, moves = fields
            how = f" [label={_quoted(*moves.split())}, style=bold]" if moves else ""
            reader = model.tensor_info(int(to)).name
            lines.append(f"{_quoted(info.name)} -> {_quoted(reader)}{how}")
    head = 'node [shape=box, style="rounded,filled", colorscheme=set312]'
    return "\n".join(["digraph strategy {", *(f"  {line}" for line in [head, *lines]), "}"])


def _quoted(*lines: str) -> str:
    """A string of Graphviz's, line by line."""
    escaped = (line.translate(_ESCAPES) for line in lines)
    return '"' + "\\n".join(escaped) + '"'
