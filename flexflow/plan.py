"""``python -m flexflow plan``: which strategy a model should have on a machine."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flexflow.core import FFModel, MachineModel


def main(arguments: Sequence[str]) -> int:
    """Search a strategy, print what it brings, and write it; the exit status."""
    from flexflow.core import FlexFlowError, search

    parser = argparse.ArgumentParser(
        "python -m flexflow plan",
        description="Search the strategy with which a model trains fastest on a machine, which "
        "need not be there.",
        allow_abbrev=False,
    )
    parser.add_argument("model", help="MODULE:FUNCTION, which returns a compiled FFModel")
    parser.add_argument("--machine", required=True, help="a ready-made machine's name, or a file")
    parser.add_argument("--nodes", type=int, default=1, help="of a ready-made machine; default: 1")
    parser.add_argument("--batch", type=int, help="what the function is given as batch_size")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="that the search may take; default: 10"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strategy", metavar="FILE", help="write the strategy, as JSON")
    options = parser.parse_args(arguments)
    try:
        model = _model(options.model, options.batch)
        machine = _machine(options.machine, options.nodes)
        print(machine.describe().splitlines()[0])
        found = search(model, machine, seconds=options.seconds, seed=options.seed)
        print(found)
        if options.strategy:
            found.strategy.save(options.strategy)
            print(f"strategy written to {options.strategy}")
    except (
        AttributeError,
        FlexFlowError,
        ImportError,
        MemoryError,
        OSError,
        TypeError,
        ValueError,
    ) as error:
        print(f"flexflow plan: {error}", file=sys.stderr)
        return 1
    return 0


def _model(where: str, batch: int | None) -> FFModel:
    from flexflow.core import FFModel

    module, colon, function = where.partition(":")
    if not colon:
        raise ValueError(f"{where}: expected MODULE:FUNCTION")
    sys.path.insert(0, os.getcwd())
    build = getattr(import_module(module), function)
    if batch is None:
        model = build()
    elif "batch_size" in inspect.signature(build).parameters:
        model = build(batch_size=batch)
    else:
        raise TypeError(f"{where}: --batch is for a function with an argument batch_size")
    if not isinstance(model, FFModel):
        raise TypeError(f"{where}: returned {type(model).__name__}, expected a compiled FFModel")
    return model


def _machine(name: str, nodes: int) -> MachineModel:
    from flexflow.core import MachineModel

    if name not in MachineModel.names() and os.path.exists(name):
        return MachineModel.read(name)
    return MachineModel.load(name, nodes)
