"""``python -m flexflow plan``: which strategy a model should have on a machine."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from flexflow.machines import machine_named


def main(arguments: Sequence[str]) -> int:
    """Search a strategy, print what it brings, and write it; the exit status."""
    from flexflow.core import FFModel, FlexFlowError, search

    parser = argparse.ArgumentParser(
        "python -m flexflow plan",
        description="Search the strategy with which a model trains fastest on a machine, which "
        "need not be there.",
        allow_abbrev=False,
    )
    parser.add_argument("model", help="MODULE:FUNCTION, which returns a compiled FFModel")
    parser.add_argument("--machine", required=True, help="a ready-made machine's name, or a file")
    parser.add_argument("--nodes", type=int, help="of a ready-made machine; default: 1")
    parser.add_argument("--batch", type=int, help="what the function is given as batch_size")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="that the search may take; default: 10"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strategy", metavar="FILE", help="write the strategy, as JSON")
    options = parser.parse_args(arguments)
    try:
        build = _builder(options.model, options.batch)
        machine = machine_named(options.machine, options.nodes)
    except (ImportError, OSError, TypeError, ValueError) as error:
        return _failed(error)
    model = build()  # what is wrong in there is told with its lines
    if not isinstance(model, FFModel):
        came = type(model).__name__
        return _failed(f"{options.model} returned {came}, expected a compiled FFModel")
    print(machine.describe().splitlines()[0])
    try:
        found = search(model, machine, seconds=options.seconds, seed=options.seed)
        print(found)
        if options.strategy:
            found.strategy.save(options.strategy)
            print(f"strategy written to {options.strategy}")
    except (FlexFlowError, MemoryError, OSError, ValueError) as error:
        return _failed(error)
    return 0


def _failed(why: object) -> int:
    print(f"flexflow plan: {why}", file=sys.stderr)
    return 1


def _builder(where: str, batch: int | None) -> Callable[[], Any]:
    module, colon, function = where.partition(":")
    if not colon:
        raise ValueError(f"{where}: expected MODULE:FUNCTION")
    sys.path.insert(0, os.getcwd())
    build = getattr(import_module(module), function, None)
    if not callable(build):
        raise ValueError(f"{where}: {module} has no function {function!r}")
    if batch is None:
        return build
    if "batch_size" not in inspect.signature(build).parameters:
        raise TypeError(f"{where}: --batch is for a function with an argument batch_size")
    return partial(build, batch_size=batch)
