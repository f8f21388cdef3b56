"""Programs of their own, for what would take the test process down with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_program(code: str, timeout: float = 120, **environment: str) -> str:
    """Run Python code beside the models of the tests; what it prints. It must end in time, well."""
    path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    try:
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", code],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "PYTHONPATH": path, **environment},
            cwd=ROOT,
        )
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"still running after {timeout} s: {error.stderr}") from None
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
