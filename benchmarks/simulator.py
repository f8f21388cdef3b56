#!/usr/bin/env python3
"""Predicted against measured step times of the local engine, with one and two devices.

usage: python benchmarks/simulator.py [--json FILE] [--rounds N] [--patience S] [MODEL ...]

Each strategy of a model is simulated with costs measured here and now; then the strategies take
turns to run, round by round, so that noise hits all alike. A time is that of the fastest twentieth
of single steps.

What else runs on the machine should count little. Before each turn, the script waits until no other
program wants a core, for some seconds at most. Each step that is timed comes after a rest, since
who has rested gets the cores for some milliseconds, and after another step, which fills the caches.
Steps in which a thread had to wait for a core all the same are left out; the table says how many
were left, and where too few were, the strategy is not counted.

The result has the median error, and the median over models of Kendall's tau (b) within a model:
whether the order of the strategies is right. Pairs of strategies closer than 5 % are left out.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import simulated_models

from flexflow.core import FFConfig, FFModel, LossType, SGDOptimizer, Strategy, _abi
from flexflow.core._lib import call
from flexflow.core.types import is_floating

ROUND_SECONDS = 0.25
CLOSE = 0.05  # of which two times are equal
DISTURBED = 0.02  # share of a step in which a thread waits for a core
ENOUGH = 10  # steps that a time needs
REST_SECONDS = 0.005


def waited() -> float:
    """Seconds so far in which threads of this process could have run, and had no core."""
    seconds = 0.0
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            seconds += int((thread / "schedstat").read_text().split()[1]) * 1e-9
    return seconds


def wait_for_quiet(patience: float) -> None:
    """Return when no other program has wanted a core for a while, or patience is at its end."""
    end = time.perf_counter() + patience
    calm = 0
    while calm < 20 and time.perf_counter() < end:
        running = Path("/proc/stat").read_text().partition("procs_running ")[2].split()[0]
        calm = calm + 1 if int(running) <= 1 else 0
        time.sleep(0.01)


class Runner:
    """A model with a strategy, and the times of its steps."""

    def __init__(
        self,
        build: Callable[[FFModel], Sequence[Any]],
        strategy_of: Callable[[FFModel], Strategy | None],
    ) -> None:
        self.model = FFModel(FFConfig(threads=1, seed=1))
        inputs = build(self.model)
        self.model.compile(
            SGDOptimizer(self.model, lr=1e-4),
            LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
            [],
            loss_attributes={"from_logits": True},
            strategy=strategy_of(self.model),
        )
        random = np.random.default_rng(0)
        batch = inputs[0].dims[0]
        arrays = [
            random.normal(size=x.dims).astype(np.float32)
            if is_floating(x.data_type)
            else random.integers(0, simulated_models.ENTRIES, x.dims, np.int32)
            for x in inputs
        ]
        labels = random.integers(0, simulated_models.CLASSES, (batch, 1), np.int32)
        data = self.model.data_set(arrays, labels)
        data.begin(batch)
        next(iter(self.model.run("train", data, max_steps=1)))
        self.times: list[float] = []
        self.steps = 0  # timed so far

    def run(self, seconds: float) -> None:
        """Take the time of single steps, some seconds long."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            time.sleep(REST_SECONDS)
            self.step()
            delay, before = waited(), time.perf_counter()
            self.step()
            taken = time.perf_counter() - before
            self.steps += 1
            if waited() - delay < DISTURBED * taken:
                self.times.append(taken)

    def step(self) -> None:
        """Train on the batch that the inputs hold: the library alone, without data and Python."""
        handle, progress = self.model.compiled_handle, ctypes.byref(_abi.ff_progress())
        call("ff_run", handle, _abi.FF_TRAIN_STEP, 0, 1, 0.0, None, progress)

    def measured(self) -> float:
        """Seconds of a step."""
        return statistics.quantiles(self.times, n=20)[0]


def measure(
    build: Callable[[FFModel], Sequence[Any]], rounds: int, patience: float
) -> list[dict[str, Any]]:
    """A row for each strategy that the model takes."""
    runners = {}
    for name, strategy_of in simulated_models.STRATEGIES.items():
        try:
            runners[name] = Runner(build, strategy_of)
        except ValueError as error:
            print(f"{build.__name__}: no {name}: {error}")
    predicted = {}
    for name, runner in runners.items():
        wait_for_quiet(patience)
        predicted[name] = runner.model.simulate().seconds
    for _ in range(rounds):
        for runner in runners.values():
            wait_for_quiet(patience)
            runner.run(ROUND_SECONDS)
    return [
        {
            "model": build.__name__,
            "strategy": name,
            "devices": len(runner.model.simulate().busy),
            "predicted_ms": predicted[name] * 1e3,
            "measured_ms": runner.measured() * 1e3,
            "undisturbed": len(runner.times),
            "steps": runner.steps,
        }
        for name, runner in runners.items()
        if len(runner.times) >= ENOUGH
    ]


def kendall_tau(rows: Sequence[dict[str, Any]]) -> float | None:
    """Pairs in the right order less those in the wrong one, by their number; None: there are
    none."""
    signs = []
    for a, b in itertools.combinations(rows, 2):
        apart = a["measured_ms"] - b["measured_ms"]
        if abs(apart) > CLOSE * min(a["measured_ms"], b["measured_ms"]):
            signs.append(np.sign(apart) * np.sign(a["predicted_ms"] - b["predicted_ms"]))
    return float(np.mean(signs)) if signs else None


def error_of(row: dict[str, Any]) -> float:
    """The share of the measured time that the prediction is off."""
    return abs(row["predicted_ms"] / row["measured_ms"] - 1)


def report(rows: Sequence[dict[str, Any]]) -> None:
    """A line for each strategy of a model."""
    for row in rows:
        predicted, measured = row["predicted_ms"], row["measured_ms"]
        print(
            f"{row['model']:12} {row['strategy']:22} predicted {predicted:8.3f} ms, "
            f"measured {measured:8.3f} ms, ratio {predicted / measured:.3f}, "
            f"undisturbed {row['undisturbed']} of {row['steps']}"
        )
    tau = kendall_tau(rows)
    errors = statistics.median(map(error_of, rows))
    print(f"{rows[0]['model']:12} median error {errors:.1%}, tau {tau}", flush=True)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="names of models; none: all")
    parser.add_argument("--json", metavar="FILE", help="write the result here")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--patience", type=float, default=10, help="seconds; see above")
    arguments = parser.parse_args()
    pairs, taus = [], []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache  # costs of now, not of an earlier run
        for build in simulated_models.MODELS:
            if arguments.models and build.__name__ not in arguments.models:
                continue
            rows = measure(build, arguments.rounds, arguments.patience)
            if rows:
                report(rows)
            pairs += rows
            taus.append(kendall_tau(rows))
    result = {
        "median_error": statistics.median(map(error_of, pairs)),
        "kendall_tau": statistics.median(tau for tau in taus if tau is not None),
        "pairs": pairs,
    }
    print(f"median error {result['median_error']:.1%}, Kendall's tau {result['kendall_tau']:.2f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
