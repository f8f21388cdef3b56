#!/usr/bin/env python3
"""Write docs/splits.md, what every operator can be split along, from the operators' definitions.

The library is asked, about one call of each operator: the one in tests/ops/cases.py that has the
most indices with something to share out. So this needs a built library, and PyTorch for that table.
"""

from __future__ import annotations

import argparse
import difflib
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/ops")]
OUTPUT = ROOT / "docs/splits.md"

from cases import ROWS  # noqa: E402
from runner import Trial  # noqa: E402

from flexflow.core import describe  # noqa: E402
from flexflow.core.placement import Index, indices_of  # noqa: E402

# Where values come from; they are not computed.
SOURCES = {"input", "constant", "weight"}

HEAD = """# What can be split how

Written by `tools/gen_splits.py` from the operators' definitions; do not edit.

A strategy splits an operator along its indices, by name or by kind: `split("dense*", o=2)`,
`split("dense*", parameter=2)`; see [Several devices](guide.md#several-devices). The kinds:

* *sample*: the first dimension of the output, which is the batch; *attribute*: another one.
* *parameter*: cuts a weight, and the output.
* *reduction*: what the operator sums, or combines otherwise; each part makes a partial result, and
  these are combined where the result is wanted.

What its indices are may depend on an operator's inputs and attributes: a line is about the call
that it shows, inputs first. Where several operators share a line, the call is the first one's. In a
space, `x*` stands for any number of dimensions, `x0`, `x1` and so on. `input`, `constant` and
`weight` compute nothing; weights lie where the first operator that reads them wants them.

| operator | call | space | can be split along | needs whole |
| --- | --- | --- | --- | --- |
"""


def facts(op: str) -> dict[str, str]:
    lines = (line.partition(": ") for line in describe(f"op:{op}").splitlines())
    return {key: value for key, _, value in lines}


def indices(row: Any, case: Any) -> list[Index]:
    """Those of an operator in a call."""
    trial = Trial(row, case, "float32", "reference")
    return indices_of(trial.model, trial.outputs[0].owner_op)


def telling(row: Any) -> tuple[Any, list[Index]]:
    """The call with the most indices that have something to share out."""
    asked = [(case, indices(row, case)) for case in row.cases]
    return max(asked, key=lambda one: sum(index.extent > 1 for index in one[1]))


def call(case: Any) -> str:
    given = [f"({', '.join(map(str, one.shape))})" for one in case.inputs]
    return ", ".join([*given, *(f"{name}={value!r}" for name, value in case.attrs.items())])


def answers(sharding: str, found: list[Index]) -> str:
    """The columns that say how an operator is split."""
    space = "" if sharding == "function" else f"`{sharding.strip()}`"
    free: dict[str, list[str]] = {}
    whole: dict[str, list[str]] = {}
    for index in found:
        reason = index.kind.partition(": ")[2]
        (whole if reason else free).setdefault(reason or index.kind, []).append(f"`{index.name}`")
    columns = [
        space,
        "; ".join(f"{kind} {' '.join(names)}" for kind, names in free.items()),
        "; ".join(f"{' '.join(names)}: {reason}" for reason, names in whole.items()),
    ]
    return " | ".join(columns)


def lines() -> Iterator[str]:
    rows = {row.op: row for row in ROWS}
    alike: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for op in describe("ops").split():
        if facts(op)["internal"] == "1" or op in SOURCES:
            continue
        case, found = telling(rows[op])
        sharding = facts(op)["sharding"]
        # A space says all of an operator; without one, only operators of the same inputs compare.
        inputs = " ".join(map(str, case.inputs)) if sharding == "function" else ""
        key = answers(sharding, found), inputs
        alike.setdefault(key, (call(case), []))[1].append(f"`{op}`")
    for (columns, _), (shown, names) in alike.items():
        yield f"| {', '.join(names)} | {shown} | {columns} |\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if it is stale")
    check = parser.parse_args().check
    new = HEAD + "".join(lines())
    old = OUTPUT.read_text() if OUTPUT.exists() else ""
    if not check:
        OUTPUT.write_text(new)
        return 0
    sides = (old.splitlines(True), new.splitlines(True), "splits.md", "splits.md as it should be")
    diff = "".join(difflib.unified_diff(*sides))
    print(f"{diff}{OUTPUT.name} is stale: run tools/gen_splits.py" if diff else "splits ok")
    return bool(diff)


if __name__ == "__main__":
    sys.exit(main())
