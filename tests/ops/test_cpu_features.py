"""The instructions that the CPU has are used, chosen when the program runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flexflow.core._lib import describe

# Somebody has asked for less than the CPU has.
pytestmark = pytest.mark.skipif("ONEDNN_MAX_CPU_ISA" in os.environ, reason="ONEDNN_MAX_CPU_ISA")

PROGRAM = """
import sys
import numpy as np
from flexflow.core import *
dtype = sys.argv[1]
model = FFModel(FFConfig())
x = model.create_tensor([8, 16, 12, 12], dtype)
model.dense(model.flat(model.conv2d(x, 32, 3, 3, 1, 1, 1, 1)), 64)
model.compile(SGDOptimizer(model, lr=0.01), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
model.fit(np.ones((8, 16, 12, 12), np.float32), np.ones((8, 64), np.float32), verbose=0)
"""


def flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split(":")[1].split())
    return set()


def implementations(dtype: str, **environment: str) -> dict[str, set[str]]:
    """By kind of primitive: which of its implementations a training step executes."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, dtype],
        env={**os.environ, "ONEDNN_VERBOSE": "1", **environment},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        fields = line.split(",")
        if "exec" in fields:
            kind = fields.index("exec") + 2
            found.setdefault(fields[kind], set()).add(fields[kind + 1])
    return found


@pytest.mark.skipif("avx512f" not in flags(), reason="this CPU has no AVX-512")
def test_avx512() -> None:
    assert "uses AVX-512" in describe("cpu") and "own kernels use AVX-512" in describe("cpu")
    for kind in ("convolution", "matmul"):
        assert all("avx512_core" in name for name in implementations("float32")[kind])


@pytest.mark.skipif("avx2" not in flags(), reason="this CPU has no AVX2")
def test_a_lesser_cpu_takes_what_it_has() -> None:
    """oneDNN chooses when the program runs: told of less, it computes with less."""
    names = implementations("float32", ONEDNN_MAX_CPU_ISA="AVX2")["convolution"]
    assert names and all("avx2" in name for name in names)


@pytest.mark.parametrize("flag", ["avx512_bf16", "amx_bf16"])
def test_products_of_bfloat16(flag: str) -> None:
    """They have instructions of their own; elsewhere they are computed in float32."""
    if flag not in flags():
        pytest.skip(f"this CPU has no {flag}")
    found = implementations("bfloat16")
    wanted = "amx" if flag == "amx_bf16" else "bf16"
    for kind in ("convolution", "matmul"):
        assert any(wanted in name for name in found[kind]), found
