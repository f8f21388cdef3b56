"""Every row of the table: outputs and all gradients against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
from cases import ROWS
from runner import Trial, expected
from table import Case, Row
from tolerances import assert_close

DEVICES = {"float64": "reference", "float32": "cpu"}


def all_cases() -> list[Any]:
    return [pytest.param(row, case, id=f"{row.op}[{case}]") for row in ROWS for case in row.cases]


def check(row: Row, case: Case, dtype: str, device: str) -> None:
    trial = Trial(row, case, dtype, device)
    wanted = expected(row, trial)
    if not trial.upstream:
        for k, y in enumerate(trial.infer()):
            assert_close(y, wanted.outputs[f"y{k}"], str(y.dtype), f"output {k}")
        return
    result = trial.train()
    for name, y in wanted.outputs.items():
        assert_close(result.outputs[name], y, dtype, f"output {name}")
    assert result.gradients.keys() == wanted.gradients.keys()
    for name, gradient in wanted.gradients.items():
        assert_close(result.gradients[name], gradient, dtype, f"gradient of {name}")


@pytest.mark.parametrize("dtype", DEVICES)
@pytest.mark.parametrize(("row", "case"), all_cases())
def test_against_pytorch(row: Row, case: Case, dtype: str) -> None:
    check(row, case, dtype, DEVICES[dtype])


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
