#!/usr/bin/env python3
"""Measure the sources against the house's budgets.

usage: size.py [ROOT]      prints the figures; exit status 1 when one is over its budget

A file is measured in lines, a function in lines without its docstring. C++ functions are measured
by lizard; where that is not installed (`make lint` installs it), they are left out, and the output
says so. Tests are measured by the cap for files alone: a long table of cases is no fault.
"""

from __future__ import annotations

import ast
import pathlib
import re
import sys
from typing import NamedTuple

try:
    import lizard
except ImportError:
    lizard = None

FILE_P90, FILE_CAP = 400, 700
FUNCTION_P90, FUNCTION_CAP = 40, 100
COMMENTS = (5, 10)  # per cent of the lines of C++ that are not empty

CPP = {".h", ".cc", ".cu", ".cuh"}
CODE = ("native", "flexflow", "tools", "benchmarks", "examples", "setup.py")
GENERATED = {"flexflow/core/_abi.py"}


class Size(NamedTuple):
    lines: int
    name: str


def sources(root: pathlib.Path, top: str) -> list[pathlib.Path]:
    files = [root / top] if (root / top).is_file() else sorted((root / top).rglob("*"))
    files = [f for f in files if f.suffix in CPP | {".py", ".c"}]
    return [f for f in files if f.relative_to(root).as_posix() not in GENERATED]


def python_functions(file: pathlib.Path, name: str) -> list[Size]:
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node, clean=False) is not None:
                text = node.body[0]
                lines -= (text.end_lineno or text.lineno) - text.lineno + 1
            found.append(Size(lines, f"{name}:{node.lineno} {node.name}"))
    return found


def cpp_functions(file: pathlib.Path, name: str) -> list[Size]:
    if lizard is None:
        return []
    found = lizard.analyze_file(str(file)).function_list
    return [Size(f.end_line - f.start_line + 1, f"{name}:{f.start_line} {f.name}") for f in found]


def comment_lines(text: str) -> tuple[int, int]:
    """Lines of C++ that are nothing but comment, and lines that are not empty."""
    # Every line of a block comment is made to begin with //.
    lines = re.sub(r"/\*.*?\*/", lambda m: re.sub("^", "//", m[0], flags=re.M), text, flags=re.S)
    filled = [line for line in map(str.strip, lines.splitlines()) if line]
    return sum(line.startswith("//") for line in filled), len(filled)


def p90(sizes: list[Size]) -> int:
    ordered = sorted(size.lines for size in sizes)
    return ordered[(len(ordered) * 9 - 1) // 10] if ordered else 0


def report(kind: str, sizes: list[Size], p90_budget: int, cap: int) -> bool:
    """Print the figures of files or functions; true when they keep the budget."""
    measured, largest = p90(sizes), max(sizes, default=Size(0, "none"))
    print(
        f"{kind:10} {len(sizes):5}   p90 {measured:4} (budget {p90_budget})"
        f"   largest {largest.lines:4} (cap {cap}): {largest.name}"
    )
    over = [size for size in sorted(sizes, reverse=True) if size.lines > cap]
    for size in over:
        print(f"  over the cap: {size.lines} lines: {size.name}")
    if measured > p90_budget:
        print(f"  over the budget: a tenth of all {kind} is longer than {p90_budget} lines")
    return not over and measured <= p90_budget


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    files, functions, comments, code = [], [], 0, 0
    for file in (f for top in CODE for f in sources(root, top)):
        name, text = file.relative_to(root).as_posix(), file.read_text()
        files.append(Size(text.count("\n"), name))
        functions += (python_functions if file.suffix == ".py" else cpp_functions)(file, name)
        if name.startswith("native/"):
            with_comment, filled = comment_lines(text)
            comments, code = comments + with_comment, code + filled
    tests = [Size(f.read_text().count("\n"), f.name) for f in sources(root, "tests")]

    good = [
        report("files", files, FILE_P90, FILE_CAP),
        report("functions", functions, FUNCTION_P90, FUNCTION_CAP),
        report("tests", tests, FILE_CAP, FILE_CAP),
    ]
    if lizard is None:
        print("  functions in C++ were not measured: lizard is not installed")
    share = 100 * comments / max(code, 1)
    print(f"comments   {share:.1f} % of {code} lines of C++ (budget {COMMENTS[0]}-{COMMENTS[1]} %)")
    good.append(not code or COMMENTS[0] <= round(share, 1) <= COMMENTS[1])
    return not all(good)


if __name__ == "__main__":
    sys.exit(main())
