"""The progress bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from numbers import Real

from flexflow.core.ranks import rank

_WIDTH = 20
_PLAIN = str.maketrans("━─", "=-")


class Progbar:
    """Prints how far a loop is, on one line that is overwritten; into a file or a pipe, only its
    last state. Where nothing can be printed, nothing is, and the loop goes on.

    Args:
        target: number of steps.
        verbose: 0 for nothing, 1 for a bar, 2 for one line at the end.
        interval: seconds between two updates.
    """

    def __init__(self, target: int, verbose: int = 1, interval: float = 0.05) -> None:
        self.target, self.verbose, self.interval = target, verbose, interval
        self._start = time.perf_counter()
        self._shown = 0.0
        self._width = 0
        self._step = 0

    def show(self, step: int, values: Mapping[str, float]) -> None:
        """Show that so many steps are done, if an update is due."""
        self._step = step
        now = time.perf_counter()
        if self.verbose == 1 and _is_terminal() and now - self._shown >= self.interval:
            self._shown = now
            self._print(self._bar(step) + self._time(now, step) + _text(values), "")

    def finish(self, values: Mapping[str, float]) -> None:
        """Show the end, and leave the line."""
        text = self._time(time.perf_counter(), None) + _text(values)
        if self.verbose == 1:
            self._print(self._bar(self._step) + text, "\n")
        elif self.verbose == 2:
            self._print(f"{self._step}/{self.target} -{text}", "\n")

    def _print(self, line: str, end: str) -> None:
        if rank():
            return
        back = "\r" if self._width else ""
        with suppress(AttributeError, OSError, ValueError):  # no output, or a closed one
            sys.stdout.write(_encodable(back + line.ljust(self._width) + end))
            sys.stdout.flush()
        self._width = 0 if end else len(line)

    def _bar(self, step: int) -> str:
        done = _WIDTH * step // max(self.target, 1)
        count = f"{step:>{len(str(self.target))}}/{self.target}"
        return f"{count} {'━' * done}{'─' * (_WIDTH - done)}"

    def _time(self, now: float, step: int | None) -> str:
        passed = now - self._start
        if step is not None and step < self.target:
            return f" {max(passed / max(step, 1) * (self.target - step), 0):.0f}s"
        return f" {_seconds(passed)} {_seconds(passed / max(self._step, 1))}/step"


def _is_terminal() -> bool:
    with suppress(AttributeError, OSError, ValueError):
        return sys.stdout.isatty()
    return False


def _encodable(text: str) -> str:
    """A text in characters that the output has.

    >>> _encodable("━─") in ("━─", "=-")
    True
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)


def _seconds(value: float) -> str:
    """A duration in a readable unit.

    >>> _seconds(12.3), _seconds(0.0123), _seconds(0.0000123)
    ('12s', '12ms', '12us')
    """
    if value >= 1:
        return f"{value:.0f}s"
    return f"{value * 1e3:.0f}ms" if value >= 1e-3 else f"{value * 1e6:.0f}us"


def _text(values: Mapping[str, float]) -> str:
    """Loss and metrics; small ones in scientific notation. What callbacks add may be no number."""
    parts = (
        f"{name}: {value}"
        if not isinstance(value, Real)
        else f"{name}: {value:.4f}"
        if abs(value) > 1e-3
        else f"{name}: {value:.4e}"
        for name, value in values.items()
    )
    return "".join(f" - {part}" for part in parts)
