"""Every registered operator answers every question, since no compiler checks that any more."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from pathlib import Path

import pytest
from cases import ELSEWHERE, ROWS

from flexflow.core import FFModel, describe
from flexflow.core.types import LOSSES

OPS = describe("ops").split()
ROW_OF = {row.op: row for row in ROWS}
# Operators that lowering puts in the place of others, and that have gradients of their own.
NO_METHOD = {
    "batch_norm_inference": "what batch_norm is in inference mode",
    "input": "create_tensor",
    "constant": "create_constant",
    "weight": "create_parameter",
}
# Values are fed or kept; or another view of the same memory: nothing to compute.
NO_KERNEL = {"input", "weight"}


def facts(op: str) -> dict[str, list[str]]:
    """The lines of ff_describe by their key."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in describe(f"op:{op}").splitlines():
        key, _, value = line.partition(": ")
        found[key].append(value)
    return found


def is_internal(op: str) -> bool:
    return facts(op)["internal"] == ["1"]


@pytest.mark.parametrize("op", OPS)
def test_is_described(op: str) -> None:
    known = facts(op)
    assert known["doc"][0].endswith("."), "no documentation"
    for attr in known["attr"]:
        _, kind, doc = attr.split(": ", 2)
        assert len(doc) > 5, f"attribute {attr} has no documentation"
        assert kind.startswith(("a ", "an ")), kind
        assert ", required" in kind or " = " in kind, attr


@pytest.mark.parametrize("op", OPS)
def test_has_its_rules(op: str) -> None:
    known = facts(op)
    assert known["shape"] == ["yes"]
    assert known["flops"] == ["yes"]
    assert known["sharding"] != [""], "neither a space nor a reason why it cannot be split"
    assert known["gradient"][0] in ("yes", "none"), "say no_gradient() if there is none"
    kernels = known["kernels"][0].split(", ")
    computes = op not in NO_KERNEL and known["view"] == ["0"]
    if computes and known["expansion"] == ["no"]:
        assert {"cpu", "reference"} & set(kernels), "no kernel for CPUs, and no expansion"


@pytest.mark.parametrize("op", OPS)
def test_has_a_domain_for_its_integers(op: str) -> None:
    """Without one it cannot be profiled: random ids would be out of range."""
    row = ROW_OF.get(op)
    takes_ids = row is not None and any(
        draw.dtype in ("int32", "int64") and not is_generic(op)
        for case in row.cases
        for draw in case.inputs
    )
    if takes_ids:
        assert facts(op)["domain"] == ["yes"]


def is_generic(op: str) -> bool:
    """Integers are numbers like any others to it: it takes floats in the same place."""
    return any(draw.dtype == "float" for case in ROW_OF[op].cases for draw in case.inputs[-1:])


@pytest.mark.parametrize("op", OPS)
def test_has_a_test(op: str) -> None:
    if op in ELSEWHERE:
        path = Path(__file__).parent / ELSEWHERE[op]
        assert path.is_file()
        assert op in path.read_text(), f"{path.name} does not speak of {op}"
        return
    forward = re.sub(r"_grad(_input|_weight)?$", "", op)
    assert forward in ROW_OF, f"cases.py has no row for {forward}"
    if op != forward:
        assert facts(forward)["gradient"] == ["yes"]


@pytest.mark.parametrize("op", [op for op in OPS if not is_internal(op)])
def test_has_a_python_method(op: str) -> None:
    losses = {name for name, _ in LOSSES.values()}
    if op in NO_METHOD or op in losses:
        return
    sources = "".join(inspect.getsource(base) for base in FFModel.__mro__ if base is not object)
    assert f'"{op}"' in sources


def test_rows_are_of_operators() -> None:
    assert set(ROW_OF) <= set(OPS)
    assert set(ELSEWHERE) <= set(OPS)
    assert len(ROW_OF) == len(ROWS)
    assert not set(ROW_OF) & set(ELSEWHERE)


def test_ids_of_cases_are_unique() -> None:
    ids = [f"{row.op}[{case}]" for row in ROWS for case in row.cases]
    assert sorted(set(ids)) == sorted(ids)
