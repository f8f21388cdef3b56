"""``python -m flexflow launch``: one script in several processes, which share the work."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

_GRACE = 10.0  # seconds that ranks get to end by themselves after Ctrl-C or SIGTERM
_MOST_RANKS = 1024  # that Legion can count
_PR_SET_PDEATHSIG = 1
# What comes first on a connection to rank 0 (engines/legion/rendezvous.cc): a mark, the number of a
# rank, how many there are, and what for.
_HELLO = struct.Struct("=Iiii")
_MARK, _GONE = 0x46464C52, 2


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
        self._signal = 0  # that asked

    def run(self) -> int:
        _take_standard_files()
        # Open before any rank begins, and handed on to rank 0: nobody else can take the port.
        root = socket.create_server(("127.0.0.1", 0), backlog=2 * self._ranks)
        self._root = root.getsockname()
        with root, self._signals_passed_on():
            try:
                for rank in range(self._ranks):
                    if not self._signal:
                        self._start(rank, root)
                root.close()
                if self._signal:  # it came while a rank was starting
                    self._end_all(self._signal)
                return self._wait()
            finally:
                self._end_all(signal.SIGKILL)
                for reader in self._readers:
                    reader.join(1)

    @contextmanager
    def _signals_passed_on(self) -> Iterator[None]:
        # Python has signals come to its main thread, and lets no other one say where they go.
        main = threading.current_thread() is threading.main_thread()
        numbers = [signal.SIGINT, signal.SIGTERM] if main else []
        if main and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._pass_on) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self, rank: int, root: socket.socket) -> None:
        host, port = self._root
        environment = {
            **self._environment,
            "FLEXFLOW_RANK": str(rank),
            "FLEXFLOW_RANKS": str(self._ranks),
            "FLEXFLOW_ROOT": f"{host}:{port}",
            "FLEXFLOW_ROOT_SOCKET": str(root.fileno()),  # that of rank 0
        }
        if rank > 0:  # into a pipe, which lines reach when they are printed
            environment.setdefault("PYTHONUNBUFFERED", "1")
        inherited = (root.fileno(),) if rank == 0 else ()
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
        ended: set[int] = set()
        while True:
            codes = [process.poll() for process in self._processes]
            failed = [rank for rank, code in enumerate(codes) if code]
            if failed:
                return self._report(failed[0])
            for rank in {rank for rank, code in enumerate(codes) if code == 0} - ended:
                self._tell_root(rank)
                ended.add(rank)
            if None not in codes:
                return 0 if codes else 128 + self._signal
            if self._asked_to_end is not None and time.monotonic() > self._asked_to_end + _GRACE:
                return 128 + signal.SIGKILL
            time.sleep(0.02)

    def _tell_root(self, rank: int) -> None:
        """Rank 0 does not wait for one that has ended, if it is still at that."""
        with suppress(OSError), socket.create_connection(self._root, 1) as root:
            root.sendall(_HELLO.pack(_MARK, rank, self._ranks, _GONE))

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
            self._asked_to_end, self._signal = time.monotonic(), number
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


def _take_standard_files() -> None:
    """Where the launcher was started without them, no other file becomes the ranks' output."""
    while (file := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(file, True)
    os.close(file)


def _prefix(rank: int, pipe: IO[bytes], to: IO[str] | None) -> None:
    for line in pipe:
        if to is None:
            continue
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
    parser.add_argument("-n", "--ranks", type=_count, required=True, help="how many processes")
    parser.add_argument(
        "--devices-per-rank", type=_count, metavar="D", help="devices of each process"
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


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_RANKS:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number from 1 to {_MOST_RANKS}")
    return int(text)
