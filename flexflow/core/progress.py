"""What ``fit`` shows while it runs: a bar on a terminal, a line per epoch elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from flexflow.core.ranks import rank

_WIDTH = 30


def say(text: str) -> None:
    """Print a line, on rank 0. Where the output takes none, such as a closed pipe, the program goes
    on."""
    if rank():
        return
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    with suppress(AttributeError, OSError, ValueError):
        # In one piece, also where Python does not buffer: ranks share an output.
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        sys.stdout.flush()


class ProgressBar:
    """The progress of one epoch. Where it cannot be shown, it is not; training goes on.

    Args:
        title: what the line begins with.
        total: the samples of the epoch.
        verbose: 0: nothing; 1: a bar on a terminal, and a line at the end; 2: the line.
        every: also a line after so many steps; 0: none.
    """

    def __init__(self, title: str, total: int, verbose: int = 1, every: int = 0) -> None:
        self._title = title
        self._total = total
        self._verbose = verbose
        self._every = every
        self._steps = 0
        self._start = time.perf_counter()
        self._bar: Any = None
        with self._drawing():
            if verbose == 1 and sys.stdout.isatty() and not rank():
                self._bar = _make_bar(title, total)

    def update(self, position: int, steps: int, text: str) -> None:
        """Show that ``position`` samples are done, ``steps`` steps since the last call."""
        with self._drawing():
            if self._bar is not None:
                self._bar.update(position, text)
        before, self._steps = self._steps, self._steps + steps
        if self._verbose and self._every and before // self._every < self._steps // self._every:
            say(f"{self._title}, step {self._steps}: {text}")

    def close(self, text: str) -> None:
        """Show the line of the epoch."""
        with self._drawing():
            if self._bar is not None:
                self._bar.close()
        if self._verbose:
            seconds = time.perf_counter() - self._start
            rate = self._total / seconds if seconds else 0.0
            took = f"{seconds:.2f} s" if seconds >= 0.1 else f"{1e3 * seconds:.1f} ms"
            say(f"{self._title}: {took}, {rate:.0f} samples/s, {text}")

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """Go without the bar if it cannot be drawn."""
        try:
            yield
        except (AttributeError, OSError, ValueError):  # no output, a broken one, or a closed one
            self._bar = None


def _make_bar(title: str, total: int) -> Any:
    try:
        from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return _PlainBar(title, total)
    return _Tqdm(tqdm(total=total, desc=title, leave=False, file=sys.stdout, unit=" samples"))


class _Tqdm:
    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def update(self, position: int, text: str) -> None:
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(position - self._bar.n)

    def close(self) -> None:
        self._bar.close()


class _PlainBar:
    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._shown = 0

    def update(self, position: int, text: str) -> None:
        done = _WIDTH * position // self._total
        bar = "=" * done + "." * (_WIDTH - done)
        self._show(f"{self._title} [{bar}] {position}/{self._total} {text}")

    def close(self) -> None:
        self._show("")
        self._show("")

    def _show(self, line: str) -> None:
        # The spaces wipe what the line before left.
        sys.stdout.write("\r" + line.ljust(self._shown))
        sys.stdout.flush()
        self._shown = len(line)
