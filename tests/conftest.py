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
settings.register_profile("nightly", max_examples=1000, deadline=None)
# A sanitizer makes everything some ten times slower.
settings.register_profile("sanitized", max_examples=15, deadline=None, derandomize=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the printed plans of tests/golden anew"
    )
    parser.addoption("--sample", type=int, default=1, metavar="N", help="run every N-th test only")


def is_nightly(config: pytest.Config) -> bool:
    return config.option.markexpr == "nightly"


def pytest_configure(config: pytest.Config) -> None:
    usual = "sanitized" if "LD_PRELOAD" in os.environ else "default"
    settings.load_profile("nightly" if is_nightly(config) else usual)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """At night the tests that draw their examples run again, with many more."""
    every = config.option.sample
    config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if i % every])
    items[:] = items[::every]
    if not is_nightly(config):
        return
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("nightly")


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
        assert path.is_file(), f"{path} is missing; run `make golden` and look at it"
        assert text == path.read_text(), f"{path} differs; if rightly so, `make golden`"

    return compare
