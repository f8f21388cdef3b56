#!/usr/bin/env python3
"""Write flexflow/core/_abi.py, the C interface for ctypes, from native/include/flexflow_c.h.

The header keeps to a small part of C, and this reads exactly that part: ``#define NAME number``,
``typedef`` of a scalar, an enum, a struct or a function pointer, and ``FF_API`` functions. Anything
else is an error, so that nothing is left out in silence.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEADER = ROOT / "native/include/flexflow_c.h"
OUTPUT = ROOT / "flexflow/core/_abi.py"

SCALARS = {
    "char": "c_char",
    "int": "c_int",
    "float": "c_float",
    "double": "c_double",
    "size_t": "c_size_t",
    **{f"{u}int{n}_t": f"c_{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)},
}
POINTERS = {"void*": "c_void_p", "const char*": "c_char_p"}


class Header:
    """What the header declares, as lines of Python; ``types`` has a C type's ctypes form."""

    def __init__(self, text: str) -> None:
        self.types = SCALARS | POINTERS
        self.definitions: list[str] = []
        self.functions: list[str] = []
        for name, value in re.findall(r"^#define (FF_\w+) (-?\w+)$", text, re.M):
            if name != "FF_API":
                self.definitions.append(f"{name} = {value}")
        for declaration in declarations(text):
            self.add(declaration)

    def add(self, c: str) -> None:
        """Translate one declaration, given without comments and with single spaces."""
        if m := re.fullmatch(r"FF_API (.+?)(\w+) ?\((.*)\)", c):
            result, name, parameters = m.groups()
            arguments = "".join(f"{p}, " for p in self.parameters(parameters))
            self.functions.append(f'"{name}": (({arguments.rstrip()}), {self.type(result)}),')
        elif m := re.fullmatch(r"typedef enum (\w+) \{(.*)\} \1", c):
            self.enum(m[1], m[2])
        elif m := re.fullmatch(r"typedef struct (\w+) \{(.*)\} \1", c):
            self.struct(m[1], m[2])
        elif m := re.fullmatch(r"typedef (.+?)\(\* ?(\w+)\) ?\((.*)\)", c):
            result, name, parameters = m.groups()
            signature = ", ".join([self.type(result), *self.parameters(parameters)])
            self.define(name, f"CFUNCTYPE({signature})")
        elif m := re.fullmatch(r"typedef (.+?)(\w+)", c):
            self.define(m[2], self.type(m[1]))
        else:
            raise SystemExit(f"gen_abi: cannot read this declaration: {c}")

    def define(self, name: str, value: str) -> None:
        self.types[name] = name
        self.definitions.append(f"{name} = {value}")

    def enum(self, name: str, body: str) -> None:
        self.define(name, "c_int")
        value = -1
        for item in filter(None, map(str.strip, body.split(","))):
            constant, _, given = map(str.strip, item.partition("="))
            value = int(given, 0) if given else value + 1
            self.definitions.append(f"{constant} = {value}")

    def struct(self, name: str, body: str) -> None:
        fields = []
        for field in filter(None, map(str.strip, body.split(";"))):
            m = re.fullmatch(r"(.+?)(\w+)(?:\[(\w+)\])?", field)
            if not m:
                raise SystemExit(f"gen_abi: cannot read this field of {name}: {field}")
            fields.append(f'("{m[2]}", {self.type(m[1])}{f" * {m[3]}" if m[3] else ""}),')
        self.types[name] = name
        lines = "\n".join(f"        {f}" for f in fields)
        self.definitions.append(
            f"\n\nclass {name}(Structure):\n    _fields_ = [\n{lines}\n    ]\n\n"
        )

    def parameters(self, text: str) -> list[str]:
        items = [p.strip() for p in text.split(",")]
        if items in ([""], ["void"]):
            return []
        # The name goes; a type alone, as function pointers may have it, has no name to lose.
        return [self.type(p if p in self.types else re.sub(r"\w+$", "", p)) for p in items]

    def type(self, c: str) -> str:
        """The ctypes expression of a C type, such as POINTER(c_int64) for ``const int64_t*``."""
        c = re.sub(r" ?\* ?", "*", c).strip()
        if c == "void":
            return "None"
        for spelling in (c, c.removeprefix("const ")):
            if spelling in self.types:
                return self.types[spelling]
        if c.endswith("*"):
            return f"POINTER({self.type(c[:-1])})"
        raise SystemExit(f"gen_abi: unknown type: {c}")

    def python(self) -> str:
        """The whole module."""
        body = re.sub(r"\n{4,}", "\n\n\n", "\n".join(self.definitions))
        functions = "\n".join(f"    {f}" for f in self.functions)
        used = sorted(set(re.findall(r"\b(c_\w+|POINTER|Structure|CFUNCTYPE)\b", body + functions)))
        imports = "\n".join(f"    {name}," for name in ("CDLL", *used))
        digest = hashlib.sha256((body + functions).encode()).hexdigest()[:16]
        return TEMPLATE.format(imports=imports, digest=digest, body=body, functions=functions)


TEMPLATE = '''\
"""The C interface. Written by tools/gen_abi.py from native/include/flexflow_c.h; do not edit."""

from __future__ import annotations

from ctypes import (
{imports}
)
from typing import Any

# Of all that follows; the library carries it too, so that one of another interface is refused.
DIGEST = "{digest}"

{body}

# name: (types of the arguments, type of the result)
FUNCTIONS: dict[str, tuple[tuple[Any, ...], Any]] = {{
{functions}
}}


def declare(library: CDLL) -> None:
    """Give every function of the library its types, so that ctypes checks what is passed."""
    for name, (arguments, result) in FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = result
'''


def declarations(text: str) -> list[str]:
    """The header's declarations, without comments, preprocessor lines and runs of spaces."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = re.sub(r'^\s*#(?:[^\n]*\\\n)*[^\n]*|extern "C" \{|^\}$', " ", text, flags=re.M)
    # A semicolon ends a declaration only outside of braces.
    found = re.findall(r"(?:[^;{}]|\{[^{}]*\})+;", text)
    if rest := re.sub(r"(?:[^;{}]|\{[^{}]*\})+;", "", text).strip():
        raise SystemExit(f"gen_abi: cannot read the header from here on: {rest[:80]}")
    return [" ".join(d[:-1].split()) for d in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if it is stale")
    check = parser.parse_args().check
    new = Header(HEADER.read_text()).python()
    old = OUTPUT.read_text() if OUTPUT.exists() else ""
    if not check:
        if new != old:
            OUTPUT.write_text(new)
        return 0
    sides = (old.splitlines(True), new.splitlines(True), "_abi.py", "_abi.py from the header")
    diff = "".join(difflib.unified_diff(*sides))
    print(f"{diff}{OUTPUT.name} is stale: run tools/gen_abi.py" if diff else "abi ok")
    return bool(diff)


if __name__ == "__main__":
    sys.exit(main())
