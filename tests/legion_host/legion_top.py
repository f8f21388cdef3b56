"""What Legion's module of this name does for a script: run it as the first task, then clean up."""

from __future__ import annotations

import ctypes
import itertools
import os
import runpy
import sys
from collections.abc import Callable

_host = ctypes.CDLL(None)  # the program that this interpreter is in
_host.host_argument.restype = ctypes.c_char_p
_host.host_argument.argtypes = [ctypes.c_size_t]
_host.host_begin_task.restype = ctypes.c_void_p
_host.host_begin_task.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
_host.host_end_task.argtypes = [ctypes.c_void_p, ctypes.c_int]
_cleanup: list[Callable[[], None]] = []


def add_cleanup_item(action: Callable[[], None]) -> None:
    """Have something called after the script, while Legion still runs."""
    _cleanup.append(action)


def main(data: bytearray, user_data: bytearray, processor: int) -> None:
    """The first task."""
    context = _host.host_begin_task(bytes(data), len(data), processor)
    status = _run()
    for action in _cleanup:
        action()
    sys.stdout.flush()
    sys.stderr.flush()
    _host.host_end_task(context, status)


def _run() -> int:
    words = iter(map(_host.host_argument, itertools.count(1)).__next__, None)
    sys.argv = [os.fsdecode(word) for word in words]
    script = sys.argv[0]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            return ending.code or 0
        print(ending.code, file=sys.stderr)
        return 1
    return 0
