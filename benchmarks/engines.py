"""The engine over Legion against the local one: what a runtime of tasks costs.

    python benchmarks/engines.py [--models mlp cnn transformer] [--rounds 9] [--json FILE]

One device with two threads, two devices with one thread each that share the batch, and two ranks
with such a device each against the local engine's two devices. Prints milliseconds per step, the
ratio of Legion's to the local engine's, and what is added to each step of the plan, in
microseconds. The losses of the first steps are compared. Last, how much longer a script takes from
start to end in two ranks than in one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import alternate
import models
import training

CORES = 2
LOSSES = 20


LAUNCH = ("-m", "flexflow", "launch", "-n")


class Ranks(alternate.Worker):
    """Two ranks under the launcher, stopped while others work: ranks that wait poll."""

    def ask(self, what: str, value: int = 0) -> Any:
        """Wake the ranks for a request, and stop them again."""
        self._send_all(signal.SIGCONT)
        answer = super().ask(what, value)
        self._send_all(signal.SIGSTOP)
        return answer

    def close(self) -> None:
        """Let the processes end."""
        self._send_all(signal.SIGCONT)
        super().close()

    def _send_all(self, number: int) -> None:
        launcher = self.process.pid
        for rank in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
            os.kill(int(rank), number)


def serve_ranks(model: Any, losses: Any, epochs: Any) -> None:
    """Serve in several ranks: what rank 0 is asked, all do."""
    from flexflow.core import rank

    requests = sys.stdin if rank() == 0 else None
    while True:
        line = requests.readline() if requests else ""
        what, value = json.loads(line) if line else ("", 0)
        kinds = ("", "losses", "block", "peak", "steps")
        what, value = kinds[model.agree(kinds.index(what))], model.agree(value)
        if not what:
            return
        answer = alternate.answer(what, value, losses, epochs, models.BATCHES, 0)
        if requests:
            print(json.dumps(answer), flush=True)


def work(engine: str, model: models.Model, devices: int) -> None:
    """Serve one engine."""
    from flexflow.core import Strategy, rank, ranks

    strategy = Strategy.data_parallel(devices) if devices > 1 else None
    built = training.build_flexflow(model, CORES // devices, devices, strategy, engine)
    losses, epochs = training.steps_of(*built, model)
    steps = sum(line.startswith("  ") for line in built[0].plan().splitlines())
    if rank() == 0:
        print(json.dumps(steps), flush=True)
    if ranks() > 1:
        serve_ranks(built[0], losses, epochs)
    else:
        alternate.serve(losses, epochs, models.BATCHES, alternate.resident_mb())


def compare(model: models.Model, devices: int, ranks: int, rounds: int) -> dict[str, Any]:
    """One row of the table."""
    arguments = [model.name, str(devices)]
    threads = CORES // devices
    legion = alternate.Worker if ranks == 1 else Ranks
    prefix = () if ranks == 1 else (*LAUNCH, str(ranks))
    workers = {
        "local": alternate.Worker(__file__, ["local", *arguments], threads),
        "legion": legion(__file__, ["legion", *arguments], threads, prefix=prefix),
    }
    plan_steps = max(worker.receive() for worker in workers.values())
    losses = {engine: worker.ask("losses", LOSSES) for engine, worker in workers.items()}
    apart = max(abs(a - b) for a, b in zip(*losses.values()))
    row = alternate.compare(workers, "local", rounds)
    for worker in workers.values():
        worker.close()
    what = {"model": model.name, "devices": devices, "ranks": ranks}
    return {**what, "steps": plan_steps, "apart": apart, **row}


def start_and_end() -> None:
    """A script that does little."""
    import numpy as np

    from flexflow.core import FFConfig, FFModel, LossType, SGDOptimizer

    model = FFModel(FFConfig(batch_size=8, engine="legion"))
    model.dense(model.create_tensor([8, 4]), 3)
    model.compile(SGDOptimizer(model), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
    model.fit(np.ones((8, 4), np.float32), np.ones((8, 3), np.float32), verbose=0)


def starts(rounds: int) -> float:
    """Seconds that a script takes longer in two ranks than in one; the median."""

    def seconds(ranks: int) -> float:
        command = [sys.executable, *LAUNCH, str(ranks), __file__, "--start"]
        start = time.perf_counter()
        subprocess.run(command, check=True)
        return time.perf_counter() - start

    return statistics.median(seconds(2) - seconds(1) for _ in range(rounds))


def print_row(row: dict[str, Any]) -> None:
    """The row as a line."""
    legion = row["peers"]["legion"]
    added = (legion["ms"] - row["ours_ms"]) * 1e3 / row["steps"]
    who = f"{row['model']:<12} {row['devices']} devices, {row['ranks']} ranks"
    print(
        f"{who}: local {row['ours_ms']:8.3f} ms, legion {legion['ms']:8.3f} ms, "
        f"ratio {legion['ratio']:.2f}; {row['steps']} steps of the plan, {added:.1f} us more each; "
        f"losses differ by {row['apart']:.1e}"
    )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--models", nargs="+", choices=list(models.MODELS), default=list(models.MODELS)
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rows = []
    for name in options.models:
        for devices, ranks in ((1, 1), (CORES, 1), (CORES, CORES)):
            rows.append(compare(models.MODELS[name], devices, ranks, options.rounds))
            print_row(rows[-1])
    print(f"two ranks start and end {starts(options.rounds):.2f} s later than one")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    if "--start" in sys.argv:
        start_and_end()
    elif "--worker" in sys.argv:
        _, _, engine_name, model_name, count = sys.argv
        work(engine_name, models.MODELS[model_name], int(count))
    else:
        main()
