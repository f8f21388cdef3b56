"""What all tests share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# Every plan that a test makes also passes the engine that executes nothing and checks everything.
os.environ["FLEXFLOW_CHECK_PLANS"] = "1"

settings.register_profile("default", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("nightly", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the printed plans of tests/golden anew"
    )


@pytest.fixture(autouse=True)
def no_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """FFConfig reads sys.argv, where pytest's own arguments are."""
    monkeypatch.setattr(sys, "argv", ["program.py"])


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Compare a text with a file of tests/golden."""

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert path.is_file(), f"{path} is missing; run pytest --update-golden and look at it"
        assert text == path.read_text(), f"{path} differs; if rightly so, pytest --update-golden"

    return compare
