"""The search for strategies: how long it takes, and what it brings.

    python benchmarks/search.py [--models NAME ...] [--devices 4 16 64 1024] [--seconds 20]
                                [--json FILE]

For each model and number of devices: seconds and peak memory of the search, the step that it
estimates for its answer, for data parallelism, for the best template and for what plain MCMC finds
in the same time, and the lower bound. Four devices are a p3.8xlarge, others nodes of a DGX-A100.
Each search is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from flexflow.core import MachineModel, search

PER_NODE = 8


def machine_of(devices: int) -> MachineModel:
    """The machine with so many devices."""
    if devices == 4:
        return MachineModel.load("p3.8xlarge")
    return MachineModel.load("dgx-a100", nodes=devices // PER_NODE)


def work(name: str, devices: int, seconds: float) -> dict[str, Any]:
    """One row of the table."""
    import search_models

    model = search_models.MODELS[name].compiled(devices)
    machine = machine_of(devices)
    start = time.perf_counter()
    found = search(model, machine, seconds=seconds)
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    walked = search(model, machine, seconds=took, method="mcmc")
    return {
        "model": name,
        "devices": devices,
        "machine": machine.name,
        "seconds": took,
        "peak_mb": peak,
        "ours_ms": 1e3 * found.estimate.seconds,
        "data_parallel_ms": 1e3 * found.templates["data parallel"].seconds,
        "best_template_ms": 1e3 * min(e.seconds for e in found.templates.values()),
        "mcmc_ms": 1e3 * walked.estimate.seconds,
        "lower_bound_ms": 1e3 * found.lower_bound,
    }


def print_row(row: dict[str, Any]) -> None:
    """The row as a line."""
    ours = row["ours_ms"]
    others = (row[f"{name}_ms"] / ours for name in ("data_parallel", "best_template", "mcmc"))
    gap = ours / row["lower_bound_ms"] - 1 if row["lower_bound_ms"] else float("inf")
    print(
        f"{row['model']:<13} {row['devices']:>5} x {row['machine']:<11} {row['seconds']:6.1f} s "
        f"{row['peak_mb']:7.0f} MB  {ours:10.3f} ms;  slower by: data parallel, best template, "
        f"MCMC {', '.join(f'{other:.2f}' for other in others)};  {gap:.1%} above the bound",
        flush=True,
    )


def main() -> None:
    """Run what the command line asks for."""
    import search_models

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=list(search_models.MODELS))
    parser.add_argument("--devices", nargs="+", type=int, default=[4, 16, 64, 256, 1024])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.models or list(search_models.MODELS)
    if options.worker:
        print(json.dumps(work(names[0], options.devices[0], options.seconds)))
        return
    rows = []
    for name in names:
        for devices in options.devices:
            command = [sys.executable, __file__, "--worker", "--models", name]
            command += ["--devices", str(devices), "--seconds", str(options.seconds)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                print(f"{name:<13} {devices:>5}: no answer", flush=True)
                continue
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            print_row(rows[-1])
    gaps = [row["ours_ms"] / row["lower_bound_ms"] - 1 for row in rows if row["lower_bound_ms"]]
    if gaps:
        print(f"median gap to the lower bound: {statistics.median(gaps):.1%}")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
