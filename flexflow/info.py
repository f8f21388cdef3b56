"""``python -m flexflow info``: what is installed, where, and what it runs on."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterator, Sequence

TOPICS = ("version", "build", "options", "cpu", "engines", "devices")


def info(engine: str = "", flags: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """The rows of the table. They come one by one, so that those before a fault are shown.

    Args:
        engine: tell the machine of this one, too; its runtime is started for that.
        flags: words for that runtime.
    """
    yield "python", f"{platform.python_version()} ({sys.executable})"
    yield "package", __file__.rpartition("/")[0]

    import numpy

    yield "numpy", numpy.__version__

    from flexflow.core._find import library_path
    from flexflow.core._lib import describe

    yield "library", str(library_path())
    for topic in TOPICS:
        yield topic, describe(topic)
    if engine:
        from flexflow.core.machine import machine_of

        machine = machine_of(engine, flags)
        yield "engine", engine
        yield "nodes", str(machine.nodes)
        yield "machine", "\n".join(machine.lines)


def main(arguments: list[str]) -> int:
    """Print the table; the exit status."""
    parser = argparse.ArgumentParser(
        "python -m flexflow info",
        description="Print version, library, build options, CPU features in use, engines, devices.",
        epilog="Further flags are those of the runtime under the engine: -ll:cpu 2 -ll:util 1",
        allow_abbrev=False,
    )
    parser.add_argument("--engine", help="start this engine, and print its machine as well")
    options, rest = parser.parse_known_args(arguments)
    try:
        flags = _flags(parser, rest) if options.engine or rest else []
        for topic, text in info(options.engine or "", flags):
            first, *others = text.strip().split("\n")
            print(f"{topic + ':':<9} {first}", flush=True)
            for line in others:
                print(f"{'':<9} {line}")
    except BrokenPipeError:  # who reads has seen enough
        sys.stdout = None  # type: ignore[assignment]
    except (ImportError, ValueError, RuntimeError) as error:
        print(f"problem:  {error}", file=sys.stderr)
        return 1
    return 0


def _flags(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """The flags that a script called like this would give to a runtime; refuses other words."""
    from flexflow.core import FFConfig

    try:
        FFConfig(runtime_flags=words)
    except ValueError as error:
        parser.error(str(error))
    return FFConfig().all_runtime_flags()
