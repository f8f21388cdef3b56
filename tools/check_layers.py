#!/usr/bin/env python3
"""Fail when a file reaches into a layer above its own.

usage: check_layers.py [ROOT]      exit status 1 and a line per fault

Layers are folders: of native/src for C++, of flexflow/ for Python. So that nothing slips past, an
include or an import must name its target in full (never "../", never a name relative to the file),
and a folder that the tables below do not know is a fault too.
"""

from __future__ import annotations

import ast
import pathlib
import re
import sys
from collections.abc import Iterator

# layer -> layers that it may use besides itself. A file belongs to the longest name that fits.
NATIVE = {
    "base": "",
    "graph": "base",
    "ops": "base graph",
    "kernels": "base graph",
    "kernels/reference": "base graph kernels",
    # A kernel that oneDNN lacks may be the reference loop with threads around it.
    "kernels/cpu": "base graph kernels kernels/reference",
    "kernels/cuda": "base graph kernels",
    "parallel": "base graph ops",
    "lowering": "base graph ops parallel",
    "search": "base graph ops parallel lowering",
    "data": "base graph",
    "engines": "base graph lowering kernels",
    "engines/local": "base graph lowering kernels engines",
    # A plug-in: it sees tasks and memory, no plan and no kernel.
    "engines/legion": "base graph engines",
    "engines/null": "base graph lowering kernels engines",
    # The composition root: it hands the kernels' answers to lowering and search.
    "c_api": "base graph ops kernels parallel lowering search data engines",
}
PYTHON = {
    ".": "core",  # flexflow/*.py: info, the launcher
    "core": "",
    "keras": "core",
    "torch": "core",
    "onnx": "core",
}
# Headers from outside of native/src that only some layers may see: search and simulator build
# without oneDNN, the C interface is a face of the library, not a way for its parts to talk, and the
# id of a build is for who reports or compares it.
PRIVATE_HEADERS = {
    r"(oneapi/dnnl/)?dnnl.*": "kernels",
    r"(cuda|cudnn|cublas|nccl).*": "kernels/cuda",
    r"legion.*|realm.*|mappers/.*": "engines/legion",
    r"flexflow_c\.h": "c_api",
    r"build_info\.h": "c_api engines",
}
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>|(\S+))')
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}

Fault = tuple[int, str]  # line, message


def layer_of(path: str, table: dict[str, str]) -> str | None:
    """The longest folder of a path that is in the table: engines/local for engines/local/x.h."""
    folders = path.split("/")[:-1]
    names = ("/".join(folders[:n]) for n in range(len(folders), 0, -1))
    return next((name for name in names if name in table), None)


def may_use(user: str, used: str, table: dict[str, str]) -> bool:
    return used == user or used in table[user].split()


def native_faults(top: pathlib.Path, file: pathlib.Path) -> Iterator[Fault]:
    name = file.relative_to(top).as_posix()
    layer = layer_of(name, NATIVE)
    if layer is None or name.count("/") > layer.count("/") + 1:
        yield 0, "this folder is no layer: add it to NATIVE in tools/check_layers.py"
        return
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if not (m := INCLUDE.match(line)):
            continue
        quoted, system, computed = m.groups()
        header = quoted or system or ""
        owners = next((o for rx, o in PRIVATE_HEADERS.items() if re.fullmatch(rx, header)), None)
        if computed:
            yield number, f"include of a macro ({computed}): name the file"
        elif owners:
            if not any(f"{layer}/".startswith(f"{owner}/") for owner in owners.split()):
                yield number, f"{header} is for {owners} only"
        elif system and (top / system).exists():
            yield number, f"<{system}> is a header of ours: write it with quotes"
        elif quoted and (".." in quoted.split("/") or not (top / quoted).exists()):
            yield number, f'"{quoted}" must be a path from native/src'
        elif quoted and not may_use(layer, used := layer_of(quoted, NATIVE) or "?", NATIVE):
            yield number, f"{layer} may not include {used}"


def python_faults(top: pathlib.Path, file: pathlib.Path) -> Iterator[Fault]:
    name = file.relative_to(top).as_posix()
    layer = layer_of(name, PYTHON) if "/" in name else "."
    if layer is None:
        yield 0, "this folder is no layer: add it to PYTHON in tools/check_layers.py"
        return
    for number, module in imports(ast.parse(file.read_text())):
        package, _, rest = module.partition(".")
        if module.startswith("."):
            yield number, "relative import: write it from flexflow on"
        elif package == "ctypes" and layer != "core":
            yield number, "ctypes is for core only"
        elif package == "flexflow":
            # A module right under flexflow/ belongs to no front end, so it may be used by none.
            used = rest.partition(".")[0]
            used = used if used in PYTHON else "."
            if not may_use(layer, used, PYTHON):
                yield number, f"{layer} may not import {module}"


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every module that is imported anywhere in a file, also by importlib."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            # `from flexflow import keras` names its layer only behind the `import`.
            names = [f"{module}.{a.name}" for a in node.names] if module == "flexflow" else [module]
            yield from ((node.lineno, name) for name in names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = ast.unparse(node.func).rpartition(".")[2]
            if function in ("import_module", "__import__"):
                yield node.lineno, str(node.args[0].value)


def faults(root: pathlib.Path) -> Iterator[str]:
    native, package = root / "native/src", root / "flexflow"
    cpp = (f for f in sorted(native.rglob("*")) if f.suffix in SUFFIXES)
    found = [(f, native_faults(native, f)) for f in cpp]
    found += [(f, python_faults(package, f)) for f in sorted(package.rglob("*.py"))]
    for file, its_faults in found:
        for line, message in its_faults:
            yield f"{file.relative_to(root)}:{line}: {message}"


if __name__ == "__main__":
    bad = list(faults(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    print("\n".join(bad) or "layers ok")
    sys.exit(bool(bad))
