"""``python -m flexflow machines``: machines that strategies can be searched for."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flexflow.core import MachineModel


def main(arguments: Sequence[str]) -> int:
    """List the ready-made machines, or print or write one; the exit status."""
    from flexflow.core import MachineModel

    parser = argparse.ArgumentParser(
        "python -m flexflow machines",
        description="List the ready-made machines, or tell about one, or about that of a file.",
        allow_abbrev=False,
    )
    parser.add_argument("machine", nargs="?", help="its name, or a file")
    parser.add_argument("--nodes", type=int, help="how many nodes of a ready-made one; default: 1")
    parser.add_argument("--write", metavar="FILE", help="write it to a file")
    options = parser.parse_args(arguments)
    if options.machine is None:
        if options.nodes is not None or options.write is not None:
            parser.error("--nodes and --write want the name of a machine")
        for name, about in MachineModel.names().items():
            print(f"{name:<12} {about}")
        return 0
    try:
        machine = machine_named(options.machine, options.nodes)
        print(machine.describe())
        if options.write is not None:
            machine.write(options.write)
    except (OSError, ValueError) as error:
        print(f"flexflow machines: {error}", file=sys.stderr)
        return 1
    return 0


def machine_named(where: str, nodes: int | None) -> MachineModel:
    """The ready-made machine of that name with so many nodes (None: 1), or that of a file.

    Raises:
        ValueError: there is none, a number of nodes is given for a file, or the file makes no
            sense. OSError: it cannot be read.
    """
    from flexflow.core import MachineModel

    if where in MachineModel.names() or not os.path.exists(where):
        return MachineModel.load(where, 1 if nodes is None else nodes)
    if nodes is not None:
        raise ValueError(f"--nodes: {where} is a file, which says that itself")
    return MachineModel.read(where)
