"""Training steps of FlexFlow against PyTorch: same model, weights, data, batch and threads.

    python benchmarks/training.py [--models mlp cnn transformer] [--threads 2] [--rounds 15]
                                  [--json FILE]
    python benchmarks/training.py --profile

Prints milliseconds per step, the ratio peer / FlexFlow (above 1: FlexFlow is faster) against eager
PyTorch and torch.compile, and the peak memory beyond the imports. The losses of all must agree
step by step, else the exit status is 1. With --profile: where FlexFlow's time goes, and how much of
a step is spent outside kernels.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import alternate
import models

LEARNING_RATE = 0.01
LOSS_STEPS = 16
LOSS_TOLERANCE = 1e-4

# Run n steps from the first batch on and return their losses; run n epochs as fast as it can.
Steps = tuple[Callable[[int], list[float]], Callable[[int], None]]


# ---- FlexFlow ----
def build_flexflow(
    model: models.Model,
    threads: int,
    devices: int = 1,
    strategy: Any = None,
    engine: str = "",
) -> tuple[Any, Any]:
    """The compiled FFModel and its data set."""
    import flexflow_models

    ffmodel = flexflow_models.compiled(model, LEARNING_RATE, threads, devices, strategy, engine)
    x, y = models.data(model)
    return ffmodel, ffmodel.data_set(x, y)


def flexflow_steps(model: models.Model, threads: int) -> Steps:
    """Training steps of FlexFlow."""
    return steps_of(*build_flexflow(model, threads), model)


def steps_of(ffmodel: Any, data: Any, model: models.Model) -> Steps:
    """Training steps of a compiled model on its data set."""

    def losses(steps: int) -> list[float]:
        out: list[float] = []
        while len(out) < steps:
            data.begin(model.batch)
            ffmodel.reset_metrics()
            for _ in ffmodel.run("train", data, 1):
                out.append(ffmodel.get_perf_metrics().loss)
                ffmodel.reset_metrics()
        return out[:steps]

    def epochs(count: int) -> None:
        for _ in range(count):
            data.begin(model.batch)
            for _ in ffmodel.run("train", data):
                pass

    return losses, epochs


# ---- PyTorch ----
def torch_steps(model: models.Model, threads: int, compiled: bool, ddp: bool = False) -> Steps:
    """Training steps of PyTorch, eager or through torch.compile, or as one rank of DDP."""
    import torch
    import torch_models
    from torch import nn

    torch.set_num_threads(threads)
    net = torch_models.built(model)
    if ddp:
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)
    criterion = nn.CrossEntropyLoss()
    x, y = models.data(model)
    batches = [
        (torch.from_numpy(x[i : i + model.batch]), torch.from_numpy(y[i : i + model.batch]).long())
        for i in range(0, len(x), model.batch)
    ]

    def loss_of(inputs: Any, labels: Any) -> Any:
        return criterion(net(inputs), labels)

    forward = torch.compile(loss_of) if compiled else loss_of

    def train(inputs: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        loss = forward(inputs, labels)
        loss.backward()
        optimizer.step()
        return loss

    def losses(steps: int) -> list[float]:
        return [train(*batches[k % len(batches)]).item() for k in range(steps)]

    def epochs(count: int) -> None:
        for _ in range(count):
            for batch in batches:
                train(*batch)

    return losses, epochs


# ---- the comparison ----
def work(framework: str, model: models.Model, threads: int) -> None:
    """Serve one framework in this process."""
    if framework == "flexflow":
        import flexflow.core  # noqa: F401

        imported = alternate.resident_mb()
        steps = flexflow_steps(model, threads)
    else:
        import torch  # noqa: F401

        imported = alternate.resident_mb()
        steps = torch_steps(model, threads, compiled=framework == "compiled")
    alternate.serve(*steps, models.BATCHES, imported)


def compare(model: models.Model, threads: int, rounds: int) -> dict[str, Any]:
    """One row of the table."""
    workers = {
        name: alternate.Worker(__file__, [name, model.name, str(threads)], threads)
        for name in ("flexflow", "eager", "compiled")
    }
    losses = {name: worker.ask("losses", LOSS_STEPS) for name, worker in workers.items()}
    difference = max(
        abs(ours - theirs) / max(1.0, abs(theirs))
        for name in ("eager", "compiled")
        for ours, theirs in zip(losses["flexflow"], losses[name])
    )
    row = {"model": model.name, "dtype": "float32", "threads": threads, "batch": model.batch}
    row.update(alternate.compare(workers, "flexflow", rounds))
    row["loss_diff"] = difference
    for worker in workers.values():
        worker.close()
    return row


def profile(model: models.Model, threads: int) -> None:
    """Print the time of each kernel, and what a step takes beyond its kernels."""
    ffmodel, data = build_flexflow(model, threads)

    def epochs(count: int) -> float:
        """Microseconds per step."""
        start = time.perf_counter()
        for _ in range(count):
            data.begin(model.batch)
            for _ in ffmodel.run("train", data):
                pass
        return (time.perf_counter() - start) / count / models.BATCHES * 1e6

    epochs(3)
    count = max(3, round(5e5 / (epochs(1) * models.BATCHES)))  # of half a second or more
    ffmodel.profile(True)
    total = epochs(count)
    report = ffmodel.profile_report()
    ffmodel.profile(False)
    kernels = sum(float(line.split()[0]) for line in report.splitlines()[1:])
    outside = total - kernels
    print(f"{model.name}: {total:.1f} us per step, {kernels:.1f} in kernels, {outside:.1f} outside")
    print(report)


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--models", nargs="+", choices=list(models.MODELS), default=list(models.MODELS)
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    chosen = [models.MODELS[name] for name in options.models]
    if options.profile:
        for model in chosen:
            profile(model, options.threads)
        return 0
    rows = []
    for model in chosen:
        row = compare(model, options.threads, options.rounds)
        rows.append(row)
        print(
            f"{row['model']}: {row['ours_ms']:.3f} ms, peak {row['ours_peak_mb']:.0f} MB, "
            f"loss difference {row['loss_diff']:.1e}"
        )
        for name, peer in row["peers"].items():
            print(
                f"  torch {name}: {peer['ms']:.3f} ms, peak {peer['peak_mb']:.0f} MB, "
                f"ratio {peer['ratio']:.2f}"
            )
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return int(any(row["loss_diff"] > LOSS_TOLERANCE for row in rows))


if __name__ == "__main__":
    if "--worker" in sys.argv:
        _, _, framework_name, model_name, thread_count = sys.argv
        work(framework_name, models.MODELS[model_name], int(thread_count))
    else:
        sys.exit(main())
