"""What the tests of the core share."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from flexflow.core import config


@pytest.fixture(autouse=True)
def command_line(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Set the arguments of the program, none at first; each test is warned afresh."""
    monkeypatch.setattr(config, "_warned", set())

    def arguments(text: str) -> None:
        monkeypatch.setattr(sys, "argv", ["program.py", *text.split()])

    arguments("")
    return arguments
