"""``flexflow_python``: the python that FlexFlow is installed for, or Legion's with ``--legion``.

A pip installation calls ``main``; a build and an installed prefix have launchers of their own under
the same name, made from tools/package/flexflow_python.in, which come here for ``--legion`` only.
"""

import os
import shutil
import sys
from pathlib import Path

_MISSING = """\
flexflow_python: {place}
legion_python starts Legion and runs a script as its first task. It comes with an installation of
Legion whose Python bindings were built (https://legion.stanford.edu; Legion_USE_Python and
Legion_BUILD_BINDINGS of its CMake); the wheel of legate has none. Put it on the PATH, or let
LEGION_PYTHON name it. A script can also start Legion itself, without a launcher:
  flexflow_python SCRIPT --engine legion"""


def main() -> None:
    """Become the interpreter, with the arguments as given; its exit status is ours."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--legion"]:
        _become_legion(arguments[1:])
    os.execv(sys.executable, [sys.executable, *arguments])


def _become_legion(arguments: list[str]) -> None:
    program = _legion_python()
    if "-ll:py" not in arguments:  # the script needs a processor that runs Python
        arguments = ["-ll:py", "1", *arguments]
    sys.stdout.flush()
    try:
        os.execve(program, [program, *arguments], _legion_environment())
    except OSError as error:
        sys.exit(_MISSING.format(place=f"{program} cannot be started: {error.strerror}"))


def _legion_python() -> str:
    """The path of legion_python, or the end of the program."""
    named = os.environ.get("LEGION_PYTHON")
    found = shutil.which(named or "legion_python")
    if found is None:
        place = f"LEGION_PYTHON is {named!r}, no program" if named else "no legion_python on PATH"
        sys.exit(_MISSING.format(place=place))
    return found


def _legion_environment() -> dict[str, str]:
    """The environment of legion_python: this interpreter comes first on the PATH, where Legion
    looks for the Python that it loads, and this package can be imported. What several ranks would
    have preloaded belongs here, too."""
    environment = dict(os.environ)
    folders = {
        "PATH": Path(sys.executable).parent,
        "PYTHONPATH": Path(__file__).resolve().parents[1],
    }
    for name, folder in folders.items():
        others = environment.get(name)
        environment[name] = f"{folder}{os.pathsep}{others}" if others else str(folder)
    return environment


if __name__ == "__main__":
    main()
