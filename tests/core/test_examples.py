"""The examples of the native interface run, from the checkout's root and by path; all examples say
how they are called, and are content with less than their best where flags ask for less.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flexflow.core import Strategy
from flexflow.core._find import library_path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples/python/native").glob("*.py"))
ALL = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "examples/python").rglob("*.py"))
]


def run(*command: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def need_packages_of(name: str) -> None:
    for package in ("sklearn", *(p for p in ("torch", "onnx") if f".{p}." in name)):
        pytest.importorskip(package)
    # Importing it would start Legion here; tests/engines/test_legate.py runs this example, too.
    if "cupynumeric" in name and importlib.util.find_spec("cupynumeric") is None:
        pytest.skip("could not import 'cupynumeric'")


@pytest.mark.parametrize("name", EXAMPLES)
def test_runs_from_the_root(name: str) -> None:
    need_packages_of(name)
    assert run("-m", f"examples.python.native.{name}", cwd=ROOT)


@pytest.mark.parametrize("name", ALL)
def test_is_content_with_less(name: str) -> None:
    """One epoch is enough for no accuracy."""
    need_packages_of(name)
    assert run("-m", name, "-e", "1", cwd=ROOT)


@pytest.mark.parametrize("name", ALL)
def test_prints_its_usage(name: str) -> None:
    need_packages_of(name)
    assert f"python -m {name}" in run("-m", name, "--help", cwd=ROOT)


def test_runs_by_path_with_flags(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    script = str(ROOT / "examples/python/native/digits_mlp.py")
    out = run(script, "-e", "33", "-b", "32", cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert "epoch 33/33" in out


@pytest.mark.parametrize("strategy", ["tensor", "pipeline", "mine.json"])
def test_strategies_by_name_and_by_file(strategy: str, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    Strategy(3).split("up", sample=3).split("down", start=2).save(tmp_path / "mine.json")
    script = str(ROOT / "examples/python/native/strategies.py")
    out = run(script, strategy, "-e", "2", cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert "strategy for 1 device\n" in out and "the loss went from" in out
    expected = {"tensor": "up: o in 2, on devices 0, 1", "pipeline": "2 stages, 4 micro-batches"}
    assert expected.get(strategy, "down: whole, on device 2") in out


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c(tmp_path: Path) -> None:
    """It compiles without a warning, and learns."""
    program = tmp_path / "train_mlp"
    # The sanitizers' runtime comes with the process, not with the library.
    linking = [str(library_path()), f"-Wl,-rpath,{library_path().parent}"]
    linking += ["-Wl,--allow-shlib-undefined"]
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT}/native/include"]
    source = str(ROOT / "examples/c/train_mlp.c")
    built = subprocess.run(
        ["cc", *flags, source, *linking, "-o", str(program)], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    losses = [float(loss) for loss in re.findall(r"loss (\S+),", done.stdout)]
    assert len(losses) == 10
    assert losses[-1] < 0.5 * losses[0]
