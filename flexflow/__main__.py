"""``python -m flexflow COMMAND``: what can be done without a script."""

from __future__ import annotations

import sys
from importlib import import_module

# Command -> the module whose main() takes the arguments after it, and what it does.
COMMANDS = {
    "info": ("flexflow.info", "what is installed, where, and what it runs on"),
    "launch": ("flexflow.core.launch", "run a script in several processes that share its work"),
    "machines": ("flexflow.machines", "machines to search strategies for: list, describe, write"),
    "plan": ("flexflow.plan", "search the strategy of a model for a machine"),
    "jupyter": ("flexflow.jupyter", "install, list and uninstall Jupyter kernels"),
}


def usage() -> str:
    """How it is called, a line for each command."""
    lines = [f"  {name:<8} {does}\n" for name, (_, does) in COMMANDS.items()]
    return "".join(["usage: python -m flexflow COMMAND [OPTIONS]\n\n", *lines])


def main(arguments: list[str]) -> int:
    """Run a command; its exit status."""
    if arguments[:1] in (["-h"], ["--help"], ["help"]):
        print(usage(), end="")
        return 0
    if not arguments or arguments[0] not in COMMANDS:
        print(usage(), end="", file=sys.stderr)
        return 2
    module, _ = COMMANDS[arguments[0]]
    return import_module(module).main(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
