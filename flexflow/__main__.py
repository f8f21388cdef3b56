"""``python -m flexflow info``: what is installed, where, and what it runs on."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator

USAGE = """\
usage: python -m flexflow info

  info    print version, library, build options, CPU features in use, engines and devices
"""
TOPICS = ("version", "build", "options", "cpu", "engines", "devices")


def info() -> Iterator[tuple[str, str]]:
    """The rows of the table. They come one by one, so that those before a fault are shown."""
    yield "python", f"{platform.python_version()} ({sys.executable})"
    yield "package", __file__.rpartition("/")[0]

    import numpy

    yield "numpy", numpy.__version__

    from flexflow.core._find import library_path
    from flexflow.core._lib import describe

    yield "library", str(library_path())
    for topic in TOPICS:
        yield topic, describe(topic)


def main(arguments: list[str]) -> int:
    """Run a subcommand; its exit status."""
    if arguments != ["info"]:
        asked_for_help = arguments in (["-h"], ["--help"], ["help"])
        print(USAGE, end="", file=sys.stdout if asked_for_help else sys.stderr)
        return 0 if asked_for_help else 2
    try:
        for topic, text in info():
            first, *others = text.strip().split("\n")
            print(f"{topic + ':':<9} {first}")
            for line in others:
                print(f"{'':<9} {line}")
    except BrokenPipeError:  # who reads has seen enough
        sys.stdout = None  # type: ignore[assignment]
    except ImportError as error:
        print(f"problem:  {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
