"""The examples of the Keras front end run, and those in its docstrings say what they say."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import flexflow.keras

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples/python/keras").glob("*.py"))
MODULES = ["flexflow.keras"] + [
    module.name for module in pkgutil.walk_packages(flexflow.keras.__path__, "flexflow.keras.")
]


def run(name: str, *flags: str) -> str:
    pytest.importorskip("sklearn")
    done = subprocess.run(
        [sys.executable, "-m", f"examples.python.keras.{name}", *flags],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    assert "held-out test: loss" in run(name)


def test_flags_of_flexflow_count() -> None:
    """1293 digits are left to train on; 108 at a time make 12 batches."""
    assert "12/12 " in run("digits_cnn", "-b", "108")


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    report: list[str] = []
    module = importlib.import_module(name)
    for test in doctest.DocTestFinder().find(module, name):
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not report, "".join(report)
