"""The examples of the native interface run, from the checkout's root and by path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples/python/native").glob("*.py"))


def run(*command: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_runs_from_the_root(name: str) -> None:
    pytest.importorskip("sklearn")
    assert run("-m", f"examples.python.native.{name}", cwd=ROOT)


def test_runs_by_path_with_flags(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    script = str(ROOT / "examples/python/native/digits_mlp.py")
    out = run(script, "-e", "33", "-b", "32", cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert "epoch 33/33" in out
