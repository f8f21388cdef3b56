"""Whole models, 20 steps each: under any strategy the loss of every step, and what the weights come
to, are those of one device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

import numpy as np
import pytest
from legal_strategies import random_strategy
from whole_models import IN_MICRO_BATCHES, MODELS, OVER_THE_BATCH, Build, Run, train

from flexflow.core import FFModel, Strategy

# Sums in another order, in float64 and in float32.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}
CLOSE_FLOAT32 = {"rtol": 1e-3, "atol": 1e-4}


def placed(model: FFModel) -> Strategy:
    """Operators in turn on three devices, none of them split."""
    strategy = Strategy(3)
    for number, op in enumerate(model.get_layers().values()):
        strategy.split(op.name, start=number % 3)
    return strategy


STRATEGIES: dict[str, Callable[[FFModel], Strategy]] = {
    "data parallel in 2": lambda model: Strategy.data_parallel(2),
    "data parallel in 3": lambda model: Strategy.data_parallel(3),
    "tensor parallel in 2": lambda model: Strategy.tensor_parallel(2),
    "hybrid, 2 x 2": lambda model: Strategy.hybrid(dp=2, tp=2),
    "operators placed": placed,
    "updates shared": lambda model: Strategy.data_parallel(3).share_updates(),
    "recomputed": lambda model: Strategy.data_parallel(2).recompute("*"),
    "random 1": lambda model: random_strategy(Random(1), model),
    "random 2": lambda model: random_strategy(Random(2), model),
}
NIGHTLY: dict[str, Callable[[FFModel], Strategy]] = {
    "hybrid, 3 x 2, updates shared": lambda model: Strategy.hybrid(dp=3, tp=2).share_updates(),
    "data parallel in 8": lambda model: Strategy.data_parallel(8),
    **{
        f"random {seed}": lambda model, seed=seed: random_strategy(Random(seed), model)
        for seed in range(3, 23)
    },
}
NAMES = [*STRATEGIES, *(pytest.param(name, marks=pytest.mark.nightly) for name in NIGHTLY)]


# In as many micro-batches as the model's normalisation has groups.
PIPELINES: dict[str, Callable[[FFModel], Strategy]] = {
    "in 2 stages": lambda model: Strategy.hybrid(pp=2, micro_batches=4),
    "in 3 stages": lambda model: Strategy.hybrid(pp=3, micro_batches=4),
    "of data and tensor parallel": lambda model: Strategy.hybrid(2, 2, 2, micro_batches=4),
    "recomputed": lambda model: Strategy.hybrid(pp=2, micro_batches=4).recompute("*"),
    "gradients accumulated": lambda model: Strategy.hybrid(micro_batches=4),
}


@cache
def on_one_device(build: Build, batch: int, dtype: str, device: str) -> Run:
    return train(build, None, batch, dtype, device)


def check(
    build: Build,
    strategy: Callable[[FFModel], Strategy],
    close: dict[str, float],
    batch: int = 8,
    dtype: str = "float64",
    device: str = "reference",
) -> None:
    ours = train(build, strategy, batch, dtype, device)
    alone = on_one_device(build, batch, dtype, device)
    assert len(ours.losses) == 20
    np.testing.assert_allclose(ours.losses, alone.losses, rtol=close["rtol"])
    assert ours.weights.keys() == alone.weights.keys()
    for name, values in alone.weights.items():
        np.testing.assert_allclose(ours.weights[name], values, **close, err_msg=name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("build", MODELS)
def test_strategy(build: Build, name: str) -> None:
    check(build, {**STRATEGIES, **NIGHTLY}[name], CLOSE)


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("build", IN_MICRO_BATCHES)
def test_pipeline(build: Build, name: str) -> None:
    check(build, PIPELINES[name], CLOSE)


@pytest.mark.parametrize("build", OVER_THE_BATCH)
def test_pipelines_refuse_what_needs_the_whole_batch(build: Build) -> None:
    """By its name, when the model is compiled. Stages without micro-batches take it."""
    with pytest.raises(ValueError, match=OVER_THE_BATCH[build] + r".*needs the whole batch"):
        train(build, PIPELINES["in 2 stages"])
    check(build, lambda model: Strategy.hybrid(pp=2, micro_batches=1), CLOSE)


@pytest.mark.parametrize("build", MODELS)
def test_batches_smaller_than_the_devices(build: Build) -> None:
    """Of 2 samples on 5 devices, some have nothing to do."""
    check(build, lambda model: Strategy.data_parallel(5).share_updates(), CLOSE, batch=2)


@pytest.mark.parametrize("build", MODELS)
def test_in_float32(build: Build) -> None:
    """On the kernels for CPUs, which sum in the order of their own blocks."""
    check(build, STRATEGIES["hybrid, 2 x 2"], CLOSE_FLOAT32, dtype="float32", device="cpu")


@pytest.mark.parametrize("build", MODELS)
def test_all_weights_learn(build: Build) -> None:
    """Or else the comparisons above would compare little."""
    run = on_one_device(build, 8, "float64", "reference")
    for name, values in run.weights.items():
        moved = np.abs(values - run.before[name]).max()
        # What is added to all keys moves all scores of a query alike.
        assert moved > 0.01 or name.endswith("/k_bias"), name
