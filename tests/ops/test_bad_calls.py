"""Calls that make no sense: an exception that says so, never a crash, never a fault of FlexFlow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cases import ROWS
from draws import normal
from runner import Trial, expected
from table import case
from tolerances import assert_close

from flexflow.core import describe

HERE = Path(__file__).parent
# A sanitizer needs more addresses than these tests leave it.
unless_sanitized = pytest.mark.skipif(
    "fsanitize" in describe("options"), reason="the memory of the program is limited"
)


def run_nonsense(first: int, count: int, timeout: float) -> None:
    path = os.pathsep.join([str(HERE.parents[1]), str(HERE)])
    done = subprocess.run(
        [sys.executable, str(HERE / "nonsense.py"), str(first), str(count)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@unless_sanitized
def test_nonsense() -> None:
    run_nonsense(0, 400, 120)


@pytest.mark.parametrize(
    ("op", "shape", "attrs"),
    [
        ("broadcast_to", (1, 3), {"shape": [-(2**62), 3]}),
        ("elu", (4, 3), {"alpha": float("nan")}),
        ("conv2d", (2, 3, 4, 4), {"out_channels": 2, "kernel": [3, 3], "stride": [5, 2**31]}),
        ("pool2d", (2, 3, 4, 4), {"pool_type": "avg", "kernel": [3, 3], "stride": [2**33, 2]}),
    ],
)
def test_what_was_a_fault_once(op: str, shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    """It works, or is refused with the name of the operator."""
    row = next(row for row in ROWS if row.op == op)
    try:
        trial = Trial(row, case(normal(*shape), **attrs), "float32", "cpu")
        result = trial.train()
    except (ValueError, TypeError) as error:
        assert "op" in str(error)
    else:
        wanted = expected(row, trial)
        assert_close(result.outputs["y0"], wanted.outputs["y0"], "float32", "output")


@unless_sanitized
@pytest.mark.nightly
def test_much_nonsense() -> None:
    run_nonsense(400, 10000, 290)
