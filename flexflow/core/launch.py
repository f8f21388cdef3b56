"""``python -m flexflow launch``: one script in several processes, which share the work."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

_GRACE = 10.0  # seconds that ranks get to end by themselves after Ctrl-C or SIGTERM
_PR_SET_PDEATHSIG = 1


def launch(command: Sequence[str], ranks: int, environment: Mapping[str, str] | None = None) -> int:
    """Run a command once for each rank, to the end of all.

    Output of rank 0 is passed on as it is; lines of the others begin with their rank. When a rank
    ends with an error, so do all others.

    Args:
        command: the program and its arguments.
        ranks: how many processes.
        environment: that of the processes; the ranks' own variables are added to it.

    Returns:
        0, or the exit code of the rank that failed first: 128 + N when signal N ended it.
    """
    return _Launch(command, ranks, dict(os.environ if environment is None else environment)).run()


class _Launch:
    def __init__(self, command: Sequence[str], ranks: int, environment: dict[str, str]) -> None:
        self._command = list(command)
        self._ranks = ranks
        self._environment = environment
        self._processes: list[subprocess.Popen[bytes]] = []
        self._readers: list[threading.Thread] = []
        self._asked_to_end: float | None = None

    def run(self) -> int:
        # Open before any rank begins, and handed on to rank 0: nobody else can take the port.
        root = socket.create_server(("127.0.0.1", 0), backlog=self._ranks)
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            for number in before:
                signal.signal(number, self._pass_on)
            for rank in range(self._ranks):
                self._start(rank, root)
            root.close()
            return self._wait()
        finally:
            self._end_all(signal.SIGKILL)
            for reader in self._readers:
                reader.join(1)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self, rank: int, root: socket.socket) -> None:
        host, port = root.getsockname()
        environment = {
            **self._environment,
            "FLEXFLOW_RANK": str(rank),
            "FLEXFLOW_RANKS": str(self._ranks),
            "FLEXFLOW_ROOT": f"{host}:{port}",
        }
        inherited: tuple[int, ...] = ()
        if rank > 0:  # into a pipe, which lines reach when they are printed
            environment.setdefault("PYTHONUNBUFFERED", "1")
        else:
            environment["FLEXFLOW_ROOT_SOCKET"] = str(root.fileno())
            inherited = (root.fileno(),)
        shown = None if rank == 0 else subprocess.PIPE
        process = subprocess.Popen(
            self._command,
            env=environment,
            stdin=None if rank == 0 else subprocess.DEVNULL,
            stdout=shown,
            stderr=shown,
            pass_fds=inherited,
            start_new_session=True,  # Ctrl-C comes from here, once, and reaches its children
            preexec_fn=_die_with(os.getpid()),
        )
        self._processes.append(process)
        for pipe, to in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            if pipe is not None:
                reader = threading.Thread(target=_prefix, args=(rank, pipe, to), daemon=True)
                reader.start()
                self._readers.append(reader)

    def _wait(self) -> int:
        while True:
            codes = [process.poll() for process in self._processes]
            failed = [rank for rank, code in enumerate(codes) if code]
            if failed:
                return self._report(failed[0])
            if None not in codes:
                return 0
            if self._asked_to_end is not None and time.monotonic() > self._asked_to_end + _GRACE:
                return 128 + signal.SIGKILL
            time.sleep(0.02)

    def _report(self, rank: int) -> int:
        code = self._processes[rank].returncode
        how = f"with exit code {code}" if code > 0 else f"by {signal.Signals(-code).name}"
        others = "" if self._ranks == 1 else "; the others are ended, too"
        # After what the rank itself had to say.
        for reader in self._readers:
            reader.join(0.2)
        print(f"flexflow launch: rank {rank} ended {how}{others}", file=sys.stderr, flush=True)
        return code if code > 0 else 128 - code

    def _pass_on(self, number: int, _: object) -> None:
        if self._asked_to_end is None:
            self._asked_to_end = time.monotonic()
        self._end_all(number)

    def _end_all(self, number: int) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        if number == signal.SIGKILL:
            for process in self._processes:
                process.wait()


def _die_with(parent: int) -> Callable[[], None]:
    """What a new process does first: see that it ends when its parent does."""
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended in between
            os._exit(1)

    return prepare


def _prefix(rank: int, pipe: IO[bytes], to: IO[str]) -> None:
    for line in pipe:
        with suppress(OSError, ValueError):  # nobody reads any more; the rank goes on
            to.write(f"[{rank}] {line.decode(errors='replace')}")
            to.flush()


def main(arguments: list[str]) -> int:
    """Run a script in several ranks; the exit status."""
    parser = argparse.ArgumentParser(
        "python -m flexflow launch",
        description="Run a script in several processes of this machine, which share its work.",
        allow_abbrev=False,
    )
    parser.add_argument("-n", "--ranks", type=_positive, required=True, help="how many processes")
    parser.add_argument(
        "--devices-per-rank", type=_positive, metavar="D", help="devices of each process"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="the script is a module")
    parser.add_argument("script", help="what Python runs, with the arguments after it")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    environment = dict(os.environ)
    if options.devices_per_rank:
        flags = f"{environment.get('FLEXFLOW_FLAGS', '')} -ll:cpu {options.devices_per_rank}"
        environment["FLEXFLOW_FLAGS"] = flags.strip()
    module = ["-m"] if options.module else []
    command = [sys.executable, *module, options.script, *options.arguments]
    return launch(command, options.ranks, environment)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"got {value}, expected at least 1")
    return value
