"""Two devices of one thread against one: how well a model is shared out.

    python benchmarks/scaling.py [--models cnn mlp] [--rounds 9] [--json FILE]

Strong scaling keeps the batch, weak scaling doubles it. The ceiling of the machine is measured in
the same blocks: two independent models of one thread at once, in two processes. Next to it PyTorch
DDP (gloo, two processes) on the same model. Prints speed-ups over one device, and the part of the
ceiling that they reach.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import alternate
import models
import training

# name: (devices, times the batch, strategy)
OURS = {
    "one": (1, 1, ""),
    "strong": (2, 1, "data"),
    "weak": (2, 2, "data"),
    "tensor": (2, 1, "tensor"),
}


def flexflow_steps(model: models.Model, setting: str) -> training.Steps:
    """Training steps of FlexFlow on one or two devices."""
    from flexflow.core import Strategy

    devices, times, kind = OURS[setting]
    strategy = None
    if kind:
        ready_made = Strategy.data_parallel if kind == "data" else Strategy.tensor_parallel
        strategy = ready_made(devices)
    larger = models.replaced(model, batch=model.batch * times)
    ffmodel, data = training.build_flexflow(larger, threads=1, devices=devices, strategy=strategy)
    return training.steps_of(ffmodel, data, larger)


def ddp_steps(model: models.Model, rank: int, port: int) -> training.Steps:
    """Training steps of one of two processes of PyTorch's DistributedDataParallel."""
    import torch
    import torch.distributed

    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    half = models.replaced(model, batch=model.batch // 2)
    return training.torch_steps(half, 1, compiled=False, ddp=True)


def work(setting: str, model: models.Model, rest: list[str]) -> None:
    """Serve one setting in this process."""
    if setting == "ddp":
        steps = ddp_steps(model, int(rest[0]), int(rest[1]))
    else:
        steps = flexflow_steps(model, "one" if setting == "twin" else setting)
    alternate.serve(*steps, models.BATCHES, alternate.resident_mb())


def together(workers: list[alternate.Worker], epochs: int) -> float:
    """Milliseconds per step of processes that work at one time."""
    for worker in workers:
        worker.send("block", epochs)
    return max(worker.receive() for worker in workers)


def free_port() -> int:
    import socket

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def compare(model: models.Model, rounds: int) -> dict[str, Any]:
    """One row of the table: speed-ups over one device."""
    script, port = __file__, str(free_port())
    single = {name: [alternate.Worker(script, [name, model.name], 1)] for name in OURS}
    twins = [alternate.Worker(script, ["twin", model.name], 1) for _ in range(2)]
    ddp = [alternate.Worker(script, ["ddp", model.name, str(rank), port], 1) for rank in range(2)]
    groups = {**single, "twins": twins, "ddp": ddp}
    blocks = {}
    for name, workers in groups.items():
        milliseconds = together(workers, 1)
        epoch = max(milliseconds * models.BATCHES, 1e-3)
        blocks[name] = max(1, round(alternate.BLOCK_SECONDS * 1e3 / epoch))
    times: dict[str, list[float]] = {name: [] for name in groups}
    for _ in range(rounds):
        for name, workers in groups.items():
            times[name].append(together(workers, blocks[name]))
            time.sleep(0.05)
    for workers in groups.values():
        for worker in workers:
            worker.close()

    def speed_up(name: str, work_done: float) -> float:
        ratios = (one * work_done / other for one, other in zip(times["one"], times[name]))
        return statistics.median(ratios)

    ceiling = speed_up("twins", 2)
    row: dict[str, Any] = {"model": model.name, "ceiling": ceiling}
    for name, work_done in (("strong", 1), ("weak", 2), ("tensor", 1), ("ddp", 1)):
        speed = speed_up(name, work_done)
        row[name] = {"speed_up": speed, "of_ceiling": speed / ceiling}
    return row


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=sorted(models.MODELS), default=["cnn"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rows = []
    for name in options.models:
        row = compare(models.MODELS[name], options.rounds)
        rows.append(row)
        print(f"{row['model']}: two independent models: {row['ceiling']:.2f} times one")
        for kind in ("strong", "weak", "tensor", "ddp"):
            print(
                f"  {kind:<7} {row[kind]['speed_up']:.2f} times one device, "
                f"{row[kind]['of_ceiling']:.2f} of the ceiling"
            )
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    if "--worker" in sys.argv:
        _, _, setting_name, model_name, *others = sys.argv
        work(setting_name, models.MODELS[model_name], others)
    else:
        main()
