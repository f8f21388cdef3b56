"""The engine over Legion against the local one: what a runtime of tasks costs.

    python benchmarks/engines.py [--models mlp cnn transformer] [--rounds 9] [--json FILE]

One device with two threads, and two devices with one thread each that share the batch. Prints
milliseconds per step, the ratio of Legion's to the local engine's, and what is added to each step
of the plan, in microseconds. The losses of the first steps are compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import alternate
import models
import training

CORES = 2
ENGINES = ("local", "legion")
LOSSES = 20


def work(engine: str, model: models.Model, devices: int) -> None:
    """Serve one engine."""
    from flexflow.core import Strategy

    strategy = Strategy.data_parallel(devices) if devices > 1 else None
    built = training.build_flexflow(model, CORES // devices, devices, strategy, engine)
    losses, epochs = training.steps_of(*built, model)
    steps = sum(line.startswith("  ") for line in built[0].plan().splitlines())
    print(json.dumps(steps), flush=True)
    alternate.serve(losses, epochs, models.BATCHES, alternate.resident_mb())


def compare(model: models.Model, devices: int, rounds: int) -> dict[str, Any]:
    """One row of the table."""
    arguments = [model.name, str(devices)]
    workers = {e: alternate.Worker(__file__, [e, *arguments], CORES // devices) for e in ENGINES}
    plan_steps = max(worker.receive() for worker in workers.values())
    losses = {engine: worker.ask("losses", LOSSES) for engine, worker in workers.items()}
    apart = max(abs(a - b) for a, b in zip(*losses.values()))
    row = alternate.compare(workers, "local", rounds)
    for worker in workers.values():
        worker.close()
    return {"model": model.name, "devices": devices, "steps": plan_steps, "apart": apart, **row}


def print_row(row: dict[str, Any]) -> None:
    """The row as a line."""
    legion = row["peers"]["legion"]
    added = (legion["ms"] - row["ours_ms"]) * 1e3 / row["steps"]
    print(
        f"{row['model']:<12} {row['devices']} devices: local {row['ours_ms']:8.3f} ms, "
        f"legion {legion['ms']:8.3f} ms, ratio {legion['ratio']:.2f}; {row['steps']} steps of the "
        f"plan, {added:.1f} us more each; losses differ by {row['apart']:.1e}"
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
        for devices in (1, CORES):
            rows.append(compare(models.MODELS[name], devices, options.rounds))
            print_row(rows[-1])
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    if "--worker" in sys.argv:
        _, _, engine_name, model_name, count = sys.argv
        work(engine_name, models.MODELS[model_name], int(count))
    else:
        main()
