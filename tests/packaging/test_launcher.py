"""``flexflow_python``: what it starts, with which arguments and environment."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = f"""\
#!{sys.executable}
import os, sys
print(sys.argv[1:], os.environ["PATH"].split(":")[0], os.environ["PYTHONPATH"].split(":")[0])
sys.exit(5)
"""


@pytest.fixture(params=["build", "pip"])
def launcher(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A build's, and the script that pip makes; in a folder with another package of the name."""
    (tmp_path / "flexflow").mkdir()
    (tmp_path / "flexflow/__init__.py").write_text("raise SystemExit('the wrong package')")
    if request.param == "pip":
        script = f"import sys; sys.path[0] = {str(ROOT)!r}; import flexflow._launch as l; l.main()"
        return f"{sys.executable} -c {shlex.quote(script)}"
    text = (ROOT / "tools/package/flexflow_python.in").read_text()
    for name, value in (("PACKAGE", ROOT), ("LIBRARY", "$here/no.so"), ("ENVIRONMENT", sys.prefix)):
        text = text.replace(f"@{name}@", str(value))
    path = tmp_path / "flexflow_python"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def run(launcher: str, folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Exit status and output."""
    done = subprocess.run(
        [*shlex.split(launcher), *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout


def test_plain_python_gets_all(launcher: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys; print(sys.argv[1:]); sys.exit(7)")
    assert run(launcher, tmp_path, str(script), "a b", "--legion") == (7, "['a b', '--legion']\n")


def test_legion_python_gets_all(launcher: str, tmp_path: Path) -> None:
    stand_in = tmp_path / "legion_python"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    around = f"{Path(sys.executable).parent} {ROOT}\n"
    for arguments, expected in (
        (["-ll:cpu", "2", "x.py", "a b"], ["-ll:py", "1", "-ll:cpu", "2", "x.py", "a b"]),
        (["x.py", "-ll:py", "2"], ["x.py", "-ll:py", "2"]),
    ):
        answer = (5, f"{expected} {around}")
        named = {"LEGION_PYTHON": str(stand_in)}
        assert run(launcher, tmp_path, "--legion", *arguments, **named) == answer
        found = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        assert run(launcher, tmp_path, "--legion", *arguments, **found) == answer


def test_a_missing_legion_python_is_explained(launcher: str, tmp_path: Path) -> None:
    status, told = run(launcher, tmp_path, "--legion", "x.py", PATH="/usr/bin:/bin")
    assert status == 1
    assert told.startswith("flexflow_python: no legion_python on PATH\nlegion_python starts Legion")
    assert "LEGION_PYTHON" in told and "SCRIPT --engine legion" in told
    status, told = run(launcher, tmp_path, "--legion", "x.py", LEGION_PYTHON="/nowhere")
    assert (status, told.splitlines()[0]) == (
        1,
        "flexflow_python: LEGION_PYTHON is '/nowhere', no program",
    )
    program = tmp_path / "legion_python"
    program.write_bytes(b"\x7f")
    program.chmod(0o755)
    status, told = run(launcher, tmp_path, "--legion", "x.py", LEGION_PYTHON=str(program))
    assert (status, told.splitlines()[0]) == (
        1,
        f"flexflow_python: {program} cannot be started: Exec format error",
    )
