"""Two devices of one thread against one: how well a model is shared out.

    python benchmarks/scaling.py [--models cnn transformer] [--rounds 9] [--json FILE]

Strong scaling keeps the batch, weak scaling doubles it; tensor parallelism keeps it too. The
ceiling of the machine is measured in the same blocks: two independent models of one thread at once,
in two processes. Next to it PyTorch on the same model, in one process of one thread and in two of
DDP (gloo). Prints speed-ups over one device, the part of the ceiling that they reach, DDP's
speed-ups over one process, and FlexFlow's throughput in DDP's.
"""

from __future__ import annotations

import argparse
import json
import math
import socket
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import alternate
import models
import training


@dataclass(frozen=True)
class Setting:
    """How a model is trained on one or two cores, and the setting of one core beside it.

    Attributes:
        framework: "flexflow" or "torch".
        processes: that work at one time.
        batch: of all of them together, in batches of the model.
        kind: "" (each for itself), "data" or "tensor": how the batch, or the model, is shared out.
        baseline: the name of the setting of one core.
    """

    framework: str
    processes: int = 1
    batch: int = 1
    kind: str = ""
    baseline: str = "one"


SETTINGS = {
    "one": Setting("flexflow"),
    "twins": Setting("flexflow", processes=2, batch=2),
    "strong": Setting("flexflow", kind="data"),
    "weak": Setting("flexflow", batch=2, kind="data"),
    "tensor": Setting("flexflow", kind="tensor"),
    "torch": Setting("torch"),
    "ddp strong": Setting("torch", processes=2, kind="data", baseline="torch"),
    "ddp weak": Setting("torch", processes=2, batch=2, kind="data", baseline="torch"),
}


def flexflow_steps(model: models.Model, setting: Setting) -> training.Steps:
    """Training steps of FlexFlow on one or two devices."""
    from flexflow.core import Strategy

    ready_made = {"data": Strategy.data_parallel, "tensor": Strategy.tensor_parallel}
    strategy = ready_made[setting.kind](2) if setting.kind else None
    devices = 2 if setting.kind else 1
    ffmodel, data = training.build_flexflow(model, threads=1, devices=devices, strategy=strategy)
    return training.steps_of(ffmodel, data, model)


def torch_steps(model: models.Model, setting: Setting, rank: int, port: int) -> training.Steps:
    """Training steps of PyTorch, or of one of the processes of its DistributedDataParallel."""
    import torch.distributed

    if setting.kind:
        torch.distributed.init_process_group(
            "gloo",
            init_method=f"tcp://127.0.0.1:{port}",
            rank=rank,
            world_size=setting.processes,
        )
    return training.torch_steps(model, 1, compiled=False, ddp=bool(setting.kind))


def work(name: str, model: models.Model, rank: int, port: int) -> None:
    """Serve one process of a setting."""
    setting = SETTINGS[name]
    mine = models.replaced(model, batch=model.batch * setting.batch // setting.processes)
    if setting.framework == "flexflow":
        steps = flexflow_steps(mine, setting)
    else:
        steps = torch_steps(mine, setting, rank, port)
    alternate.serve(*steps, models.BATCHES, alternate.resident_mb())


def together(workers: list[alternate.Worker], epochs: int) -> float:
    """Milliseconds per step of processes that work at one time."""
    for worker in workers:
        worker.send("block", epochs)
    return max(worker.receive() for worker in workers)


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def measure(model: models.Model, rounds: int) -> dict[str, list[float]]:
    """By setting, milliseconds per step of each round."""
    groups = {}
    for name, setting in SETTINGS.items():
        port = str(free_port())
        arguments = ([name, model.name, str(rank), port] for rank in range(setting.processes))
        groups[name] = [alternate.Worker(__file__, each, 1) for each in arguments]
    blocks = {}
    for name, workers in groups.items():
        together(workers, 1)  # the first steps load kernels and fill caches
        epoch = together(workers, 1) * models.BATCHES
        blocks[name] = max(1, math.ceil(alternate.BLOCK_SECONDS * 1e3 / epoch))
    times: dict[str, list[float]] = {name: [] for name in groups}
    for _ in range(rounds):
        for name, workers in groups.items():
            times[name].append(together(workers, blocks[name]))
            time.sleep(0.05)
    for worker in (worker for workers in groups.values() for worker in workers):
        worker.close()
    return times


def compare(model: models.Model, rounds: int) -> dict[str, Any]:
    """One row of the table: milliseconds per step, speed-ups, and the ratios of those."""
    times = measure(model, rounds)

    def throughput(name: str, other: str) -> float:
        """Samples per second of one setting in those of another."""
        samples = SETTINGS[name].batch / SETTINGS[other].batch
        return statistics.median(b * samples / a for a, b in zip(times[name], times[other]))

    ceiling = throughput("twins", "one")
    row: dict[str, Any] = {"model": model.name, "batch": model.batch, "ceiling": ceiling}
    for name, setting in SETTINGS.items():
        row[name] = {"ms": statistics.median(times[name])}
        if setting.kind:
            row[name]["speed_up"] = throughput(name, setting.baseline)
    for name in ("strong", "weak", "tensor"):
        row[name]["of_ceiling"] = row[name]["speed_up"] / ceiling
    for name in ("strong", "weak"):
        row[name]["of_ddp"] = throughput(name, f"ddp {name}")
    return row


def print_row(row: dict[str, Any]) -> None:
    """The row as a table."""
    print(f"{row['model']}, batch {row['batch']}: two at once: {row['ceiling']:.2f} times one")
    for name in ("strong", "weak", "tensor", "ddp strong", "ddp weak"):
        entry = row[name]
        line = f"  {name:<10} {entry['ms']:8.2f} ms, {entry['speed_up']:.2f} times one"
        if "of_ceiling" in entry:
            line += f", {entry['of_ceiling']:.2f} of the ceiling"
        if "of_ddp" in entry:
            line += f", {entry['of_ddp']:.2f} times DDP"
        print(line)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--models", nargs="+", choices=list(models.MODELS), default=["cnn", "transformer"]
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rows = []
    for name in options.models:
        rows.append(compare(models.MODELS[name], options.rounds))
        print_row(rows[-1])
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    if "--worker" in sys.argv:
        _, _, setting_name, model_name, own_rank, own_port = sys.argv
        work(setting_name, models.MODELS[model_name], int(own_rank), int(own_port))
    else:
        main()
