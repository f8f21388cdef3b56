"""``python -m flexflow``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import flexflow
from flexflow.core._find import library_path

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flexflow", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_info() -> None:
    done = run("info")
    assert (done.returncode, done.stderr) == (0, "")
    rows = dict(line.split(":", 1) for line in done.stdout.splitlines() if line[:1].strip())
    assert set(rows) == {
        *("python", "package", "numpy", "library"),
        *("version", "build", "options", "cpu", "engines", "devices"),
    }
    assert rows["library"].strip() == str(library_path())
    assert rows["package"].strip() == str(ROOT / "flexflow")
    assert rows["version"].strip() == flexflow.__version__ == (ROOT / "VERSION").read_text().strip()
    assert "local" in rows["engines"]
    assert "oneDNN" in rows["options"]


def test_info_of_an_engine() -> None:
    done = run("info", "--engine", "local", "-ll:util", "1", "-ll:cpu", "2")
    assert (done.returncode, done.stderr) == (0, "")
    rows = done.stdout.split("engine:   local\n")[1].splitlines()
    assert rows[0] == "nodes:    1"
    assert [row[10:19] for row in rows[1:]] == ["device 0,", "device 1,"]

    done = run("info", "--engine", "fast")
    assert done.returncode == 1
    assert 'problem:  engine "fast" is not there' in done.stderr


def test_threads_are_those_that_the_system_allows() -> None:
    program = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
    program += "from flexflow.core.machine import machine_of; print(machine_of('local').lines[0])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.startswith("device 0, cpu, 1 thread, "), done.stdout + done.stderr


def test_info_says_what_is_wrong() -> None:
    done = run("info", FLEXFLOW_LIBRARY="/nowhere.so")
    assert done.returncode == 1
    assert "numpy:" in done.stdout  # what could be found out
    assert "problem:  FLEXFLOW_LIBRARY is '/nowhere.so'" in done.stderr


def test_usage() -> None:
    for arguments, command in (
        ((), "COMMAND"),
        (("train",), "COMMAND"),
        (("info", "more"), "info"),
        (("jupyter", "list", "more"), "jupyter"),
    ):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"usage: python -m flexflow {command}" in done.stderr
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage:" in done.stdout


def test_unknown_attribute_of_the_package() -> None:
    assert not hasattr(flexflow, "nonsense")
