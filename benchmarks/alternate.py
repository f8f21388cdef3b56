"""Comparing frameworks on a noisy machine: one process per framework, blocks of steps in turn.

A process works while the others sleep, since the thread pools of two frameworks in one process, or
at one time, slow each other. The ratio of two neighbouring blocks is what counts: noise that lasts
longer than a block hits both.
"""

from __future__ import annotations

import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

BLOCK_SECONDS = 0.5


class Worker:
    """A process that serves one framework: a line of JSON asks, a line answers."""

    def __init__(
        self,
        script: str,
        arguments: list[str],
        threads: int,
        settings: Mapping[str, str] = MappingProxyType({}),
        prefix: Sequence[str] = (),  # Python's arguments before the script
    ) -> None:
        counts = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        environment = {**os.environ, **counts, **settings}
        self.process = subprocess.Popen(
            [sys.executable, *prefix, script, "--worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=Path(__file__).parent.parent,
        )

    def ask(self, what: str, value: int = 0) -> Any:
        """Send a request and wait for its answer."""
        self.send(what, value)
        return self.receive()

    def send(self, what: str, value: int = 0) -> None:
        """Send a request."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([what, value]) + "\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        """Wait for an answer."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"worker {self.process.args} ended with {self.process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """Let the process end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def resident_mb() -> float:
    """Resident memory of this process now, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def peak_mb() -> float:
    """The high-water mark of this process's resident memory, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def serve(
    losses: Callable[[int], list[float]],
    epochs: Callable[[int], None],
    epoch_steps: int,
    imported_mb: float,
) -> None:
    """Answer requests on standard input until it ends.

    Args:
        losses: runs that many steps and returns the loss of each.
        epochs: runs that many epochs.
        epoch_steps: the steps of an epoch.
        imported_mb: resident memory after imports, before the model was built.
    """
    for line in sys.stdin:
        what, value = json.loads(line)
        print(json.dumps(answer(what, value, losses, epochs, epoch_steps, imported_mb)), flush=True)


def answer(
    what: str,
    value: int,
    losses: Callable[[int], list[float]],
    epochs: Callable[[int], None],
    epoch_steps: int,
    imported_mb: float,
) -> Any:
    """The answer to one request; see :func:`serve`."""
    if what == "losses":
        return losses(value)
    if what == "block":  # milliseconds per step
        start = time.perf_counter()
        epochs(value)
        return (time.perf_counter() - start) * 1e3 / (value * epoch_steps)
    return {"peak": peak_mb() - imported_mb, "steps": epoch_steps}[what]


def compare(workers: dict[str, Worker], ours: str, rounds: int) -> dict[str, Any]:
    """Alternate blocks: milliseconds (medians), peaks, and the peers' ratios (peer / ours)."""
    epochs = dict.fromkeys(workers, 1)
    for name, worker in workers.items():
        for _ in range(3):  # warm up, and find how many epochs fill a block
            milliseconds = worker.ask("block", epochs[name]) * worker.ask("steps")
            epochs[name] = max(1, math.ceil(BLOCK_SECONDS * 1e3 / milliseconds))
    times: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(rounds):
        for name, worker in workers.items():
            times[name].append(worker.ask("block", epochs[name]))
    peaks = {name: worker.ask("peak") for name, worker in workers.items()}
    peers = {
        name: {
            "ms": statistics.median(times[name]),
            "peak_mb": peaks[name],
            "ratio": statistics.median(p / o for p, o in zip(times[name], times[ours])),
        }
        for name in workers
        if name != ours
    }
    return {
        "ours_ms": statistics.median(times[ours]),
        "ours_peak_mb": peaks[ours],
        "peers": peers,
    }
