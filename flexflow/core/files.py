"""Files that are there whole, or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of ``target`` at the end: all of it or nothing,
    whenever the process or the machine stops, and whoever else writes it at the same time."""
    beside = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_native_id()}.tmp")
    try:
        with open(beside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)
    with suppress(OSError):  # some file systems sync no folders; the file is whole all the same
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
