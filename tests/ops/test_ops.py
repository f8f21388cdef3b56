"""Every row of the table: outputs and all gradients against PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from cases import ROWS
from runner import Result, Trial, expected
from table import Case, Row
from tolerances import assert_close

from flexflow.core.placement import indices_of

DEVICES = {"float64": "reference", "float32": "cpu"}


def all_cases() -> list[Any]:
    return [pytest.param(row, case, id=f"{row.op}[{case}]") for row in ROWS for case in row.cases]


def check(
    row: Row,
    case: Case,
    dtype: str,
    device: str,
    splits: Mapping[str, int] | None = None,
    wanted: Result | None = None,
) -> None:
    trial = Trial(row, case, dtype, device, splits)
    wanted = wanted or expected(row, trial)
    if not trial.upstream:
        for k, y in enumerate(trial.infer()):
            assert_close(y, wanted.outputs[f"y{k}"], str(y.dtype), f"output {k}")
        return
    result = trial.train()
    for name, y in wanted.outputs.items():
        assert_close(result.outputs[name], y, dtype, f"output {name}", roundings=row.roundings)
    assert result.gradients.keys() == wanted.gradients.keys()
    largest = max((np.abs(g).max(initial=0) for g in wanted.gradients.values()), default=0)
    for name, gradient in wanted.gradients.items():
        scale = largest if name.rpartition("/")[2] in row.cancelling else 0
        what = f"gradient of {name}"
        assert_close(result.gradients[name], gradient, dtype, what, scale, row.roundings)


@pytest.mark.parametrize("dtype", DEVICES)
@pytest.mark.parametrize(("row", "case"), all_cases())
def test_against_pytorch(row: Row, case: Case, dtype: str) -> None:
    check(row, case, dtype, DEVICES[dtype])


def free_splits(trial: Trial) -> Iterator[dict[str, int]]:
    """Each index that can be split in 2 and in 3, and each pair of them in 2 x 2."""
    indices = indices_of(trial.model, trial.outputs[0].owner_op)
    free = [i for i in indices if not i.kind.startswith("whole") and i.extent > 1]
    for index in free:
        yield {index.name: 2}
        if index.extent > 2:
            yield {index.name: 3}
    for a, b in itertools.combinations(free, 2):
        yield {a.name: 2, b.name: 2}


@pytest.mark.parametrize("dtype", DEVICES)
@pytest.mark.parametrize(("row", "case"), all_cases())
def test_split(row: Row, case: Case, dtype: str) -> None:
    """Any split of the operator computes what the operator computes."""
    trial = Trial(row, case, dtype, DEVICES[dtype])
    wanted = expected(row, trial)
    for splits in free_splits(trial):
        try:
            check(row, case, dtype, DEVICES[dtype], splits, wanted)
        except Exception as error:
            raise AssertionError(f"{row.op}[{case}] split as {splits}: {error}") from error


def half_cases() -> list[Any]:
    """The first case of each row shows it; products, for which some CPUs have instructions, all."""
    return [
        pytest.param(row, case, id=f"{row.op}[{case}]")
        for row in ROWS
        for case in (row.cases if row.op in ("linear", "conv2d") else row.cases[:1])
    ]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("row", "case"), half_cases())
def test_in_half_precision(row: Row, case: Case, dtype: str) -> None:
    """What is stored is rounded to the format."""
    check(row, case, dtype, "cpu")
