"""``python -m flexflow jupyter``: kernels with a chosen engine and machine.

A kernel is a plain ipykernel of this interpreter, with FLEXFLOW_ENGINE and FLEXFLOW_FLAGS in its
environment, where FFConfig finds them. Notebooks that want neither need no kernel from here.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# What a configuration may say of the machine -> the flag of the runtime.
MACHINE = {
    "cpus": "-ll:cpu",
    "gpus": "-ll:gpu",
    "omps": "-ll:ocpu",
    "ompthreads": "-ll:othr",
    "utility": "-ll:util",
    "sysmem": "-ll:csize",
    "fbmem": "-ll:fsize",
    "zcmem": "-ll:zsize",
    "regmem": "-ll:rsize",
}
# What else it may say -> the option.
NAMES = {"name": "display_name", "kernel_name": "name", "engine": "engine"}
_EXPECTED = f"{', '.join([*NAMES, *MACHINE])} or other_options"


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a JSON file says of a kernel, in the manner of FlexFlow's ``flexflow_jupyter.json``: an
    object whose fields hold ``{"value": ...}``; null leaves a field to the options.

    Returns:
        The values that are not null, by the name of the option; other_options in words.

    Raises:
        OSError: the file cannot be read. ValueError: it is no such file.
    """
    try:
        fields = json.loads(Path(path).read_text("utf-8"))
    except (ValueError, RecursionError) as error:  # among others, of bytes that are no text
        raise ValueError(f"{path}: not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError(f"{path}: got a {type(fields).__name__}, expected an object of fields")
    said: dict[str, Any] = {}
    for field, entry in fields.items():
        if not isinstance(entry, dict) or "value" not in entry:
            raise ValueError(f'{path}: {field} is {entry!r}, expected {{"value": ...}}')
        value = entry["value"]
        if value is None or field == "exe":  # the interpreter is this one
            continue
        said[NAMES.get(field, field)] = _checked(field, value, f"{path}: {field}")
    return said


def _checked(field: str, value: Any, who: str) -> Any:
    if field in MACHINE:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{who}: got {value!r}, expected a whole number or null")
        return value
    if field == "other_options":
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise ValueError(f"{who}: got {value!r}, expected a list of texts")
        try:
            return [word for option in value for word in shlex.split(option)]
        except ValueError as error:
            raise ValueError(f"{who}: got {value!r}: {error}") from None
    if field not in NAMES:
        raise ValueError(f"{who}: there is no such field; expected {_EXPECTED}")
    # The engine may be empty: the best that there is.
    if not isinstance(value, str) or not value.isprintable() or (field != "engine" and not value):
        raise ValueError(f"{who}: got {value!r}, expected a line of text")
    return value


def environment_of(said: dict[str, Any]) -> dict[str, str]:
    """The environment variables that hold an engine and a machine.

    >>> environment_of({"engine": "legion", "cpus": 2, "other_options": ["-ll:bgwork", "2"]})
    {'FLEXFLOW_ENGINE': 'legion', 'FLEXFLOW_FLAGS': '-ll:cpu 2 -ll:bgwork 2'}
    """
    from flexflow.core.flags import words_of

    words = []
    for flag, value, *_ in words_of(said.get("other_options", [])):
        if flag != "-ll:py":  # of launchers whose runtime runs Python; here Python runs the runtime
            words += [flag] if value is None else [flag, value]
    machine = [(flag, said.get(field)) for field, flag in MACHINE.items()]
    flags = [word for flag, n in machine if n is not None for word in (flag, str(n))]
    found = {"FLEXFLOW_ENGINE": said.get("engine"), "FLEXFLOW_FLAGS": shlex.join([*flags, *words])}
    return {name: value for name, value in found.items() if value}


def set_jupyter_config(path: str | os.PathLike[str]) -> None:
    """Take engine and machine of this process from a file, as a kernel installed with it has them;
    before the first FFConfig is made.

    Raises:
        OSError: the file cannot be read. ValueError: it is no such file.
    """
    os.environ.update(environment_of(read_config(path)))


# ---- kernels ----
def kernel_json(said: dict[str, Any]) -> dict[str, Any]:
    """The ``kernel.json`` of a kernel of this interpreter."""
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    return {
        "argv": command,
        "display_name": said["display_name"],
        "language": "python",
        "env": {**_package_environment(), **environment_of(said)},
        "metadata": {"debugger": True, "flexflow": True},
    }


def _package_environment() -> dict[str, str]:
    """What lets a kernel find this package and its library, unless they are installed."""
    top = str(Path(__file__).resolve().parents[1])
    installed = top in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    # Jupyter puts the variable of its own environment in.
    found = {} if installed else {"PYTHONPATH": f"{top}{os.pathsep}${{PYTHONPATH}}"}
    library = os.environ.get("FLEXFLOW_LIBRARY")
    return {**found, "FLEXFLOW_LIBRARY": os.path.abspath(library)} if library else found


def _manager(prefix: str | None) -> Any:
    """Jupyter's manager of kernels; those of a prefix are its own, too."""
    missing = [n for n in ("ipykernel", "jupyter_client") if importlib.util.find_spec(n) is None]
    if missing:
        raise FileNotFoundError(
            f"{' and '.join(missing)} cannot be found by {sys.executable}, whose kernel it would "
            f"be; install it with\n  {sys.executable} -m pip install ipykernel"
        )
    from jupyter_client.kernelspec import KernelSpecManager

    manager = KernelSpecManager()
    if prefix:
        manager.kernel_dirs.insert(0, os.path.join(prefix, "share", "jupyter", "kernels"))
    return manager


def _ours(manager: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """FlexFlow's kernels: their folders and what their kernel.json says, by name."""
    every = manager.get_all_specs()
    return {
        name: (found["resource_dir"], found["spec"])
        for name, found in sorted(every.items())
        if found["spec"].get("metadata", {}).get("flexflow")
    }


def install(options: argparse.Namespace) -> None:
    """Install a kernel in the place of one of that name."""
    manager = _manager(options.prefix)
    said = {key: value for key, value in vars(options).items() if value is not None}
    for field in (MACHINE.keys() | {"name", "engine"}) & said.keys():
        _checked(field, said[field], f"--{field}")
    _checked("name", said["display_name"], "--display-name")
    if options.json:
        said.update(read_config(options.json))
    spec = kernel_json(said)
    _check_engine(said.get("engine", ""), shlex.split(spec["env"].get("FLEXFLOW_FLAGS", "")))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernel.json").write_text(json.dumps(spec, indent=1) + "\n")
        where = {"prefix": options.prefix} if options.prefix else {"user": True}
        place = manager.install_kernel_spec(folder, said["name"], **where)
    print(f"installed {said['name']} ({said['display_name']}) into {place}")
    for name, value in spec["env"].items():
        print(f"  {name}={value}")


def _check_engine(engine: str, words: Sequence[str]) -> None:
    """Refuse what every FFConfig of the kernel would refuse, or pass over."""
    from flexflow.core import FFConfig, describe
    from flexflow.core.flags import FLAGS, value_of, words_of

    there = describe("engines").split(", ")
    if engine and engine not in there:
        raise ValueError(f"engine {engine!r} is not there; this build has {', '.join(there)}")
    for word in words_of(words):
        if not word.ours and not word.runtimes:
            raise ValueError(f"{word.flag!r} is a flag of neither FlexFlow nor a runtime")
        if word.flag in FLAGS:
            field, kind = FLAGS[word.flag]
            try:
                value = value_of(kind, word.value)
            except (KeyError, ValueError):
                raise ValueError(f"{word.flag}: got {word.value or 'no value'}") from None
            FFConfig(**{field: value})


def list_kernels(options: argparse.Namespace) -> None:
    """Print FlexFlow's kernels."""
    for name, (folder, spec) in _ours(_manager(options.prefix)).items():
        settings = {key: spec["env"].get(key) for key in ("FLEXFLOW_ENGINE", "FLEXFLOW_FLAGS")}
        said = "  ".join(f"{key}={value}" for key, value in settings.items() if value)
        print(f"{name} ({spec['display_name']}) in {folder}{said and '  ' + said}")


def uninstall(options: argparse.Namespace) -> None:
    """Remove a kernel of FlexFlow."""
    manager = _manager(options.prefix)
    kernels = _ours(manager)
    if options.name.lower() not in kernels:
        there = ", ".join(kernels) or "none"
        raise ValueError(
            f"uninstall: {options.name!r} is no kernel of FlexFlow; there are: {there}"
        )
    print(f"removed {manager.remove_kernel_spec(options.name.lower())}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m flexflow jupyter", description=__doc__, allow_abbrev=False
    )
    commands = parser.add_subparsers(required=True, metavar="install|list|uninstall")
    for name, action, does in (
        ("install", install, "make a kernel, in the place of one of the same name"),
        ("list", list_kernels, "print FlexFlow's kernels"),
        ("uninstall", uninstall, "remove one of them"),
    ):
        command = commands.add_parser(name, help=does, description=does, allow_abbrev=False)
        command.set_defaults(action=action)
        where = command.add_mutually_exclusive_group()
        where.add_argument("--user", action="store_true", help="in the user's folder (default)")
        where.add_argument(
            "--prefix", help="in PREFIX/share/jupyter, such as that of an environment"
        )
        if action is install:
            _add_install_options(command)
        elif action is uninstall:
            command.add_argument("name")
    return parser


def _add_install_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--name", default="flexflow", help="of the kernel's folder")
    command.add_argument("--display-name", default="FlexFlow", help="what notebooks show")
    command.add_argument("--engine", help="such as local or legion; default: the best there is")
    for field, flag in MACHINE.items():
        command.add_argument(f"--{field}", type=int, metavar="N", help=f"{flag} N")
    command.add_argument(
        "--json", metavar="FILE", help="a file that says the same; what it says wins"
    )
    command.epilog = "Further flags are for the runtime, such as -lg:prof 1."


def main(arguments: Sequence[str]) -> int:
    """Run a command; its exit status."""
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if rest and options.action is not install:
        parser.error(f"{' '.join(rest)} is not expected")
    options.other_options = rest or None
    try:
        options.action(options)
    except (OSError, ValueError) as error:
        print(f"flexflow jupyter: {error}", file=sys.stderr)
        return 1
    return 0
