"""How the threads of the CPU kernels should wait: FlexFlow's training step under several settings.

    python benchmarks/threads.py [--models mlp cnn] [--threads 2] [--rounds 9] [--neighbours 1]
                                 [--library tbb=/path/to/another/libflexflow.so]

One process per setting, in alternating blocks; once with the machine to itself and once beside
`--neighbours` processes that never rest. Prints the median milliseconds per step.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import alternate
import models

SETTINGS: dict[str, dict[str, str]] = {
    "short spin": {},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    # What libgomp does when neither variable is set.
    "libgomp default": {"GOMP_SPINCOUNT": "300000"},
}


def measure(workers: dict[str, alternate.Worker], rounds: int) -> dict[str, float]:
    """Median milliseconds per step of each worker, in blocks of a second half."""
    epochs = dict.fromkeys(workers, 1)
    times: dict[str, list[float]] = {name: [] for name in workers}
    for turn in range(rounds + 1):
        for name, worker in workers.items():
            milliseconds = worker.ask("block", epochs[name])
            if turn == 0:  # warm up, and find how many epochs fill a block
                epoch = milliseconds * worker.ask("steps")
                epochs[name] = max(1, math.ceil(alternate.BLOCK_SECONDS * 1e3 / epoch))
            else:
                times[name].append(milliseconds)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--models", nargs="+", choices=sorted(models.MODELS), default=["mlp", "cnn"]
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--neighbours", type=int, default=1)
    parser.add_argument("--library", action="append", default=[], metavar="NAME=PATH")
    options = parser.parse_args()
    settings = dict(SETTINGS)
    for library in options.library:
        name, path = library.split("=", 1)
        settings[name] = {"FLEXFLOW_LIBRARY": path}
    script = str(Path(__file__).parent / "training.py")
    for model in options.models:
        workers = {
            name: alternate.Worker(
                script, ["flexflow", model, str(options.threads)], options.threads, environment
            )
            for name, environment in settings.items()
        }
        alone = measure(workers, options.rounds)
        spin = [sys.executable, "-c", "while True: pass"]
        neighbours = [subprocess.Popen(spin) for _ in range(options.neighbours)]
        try:
            beside = measure(workers, options.rounds)
        finally:
            for neighbour in neighbours:
                neighbour.kill()
                neighbour.wait()
        for worker in workers.values():
            worker.close()
        print(f"{model}: milliseconds per step, alone and beside {options.neighbours} busy")
        for name in settings:
            print(f"  {name:<16} {alone[name]:8.3f} {beside[name]:8.3f}", flush=True)


if __name__ == "__main__":
    main()
