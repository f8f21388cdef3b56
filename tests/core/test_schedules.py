"""The operators exponential_decay, cosine_decay, polynomial_decay and piecewise_constant: the rate
of every step is that of PyTorch's schedulers and of Keras's formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler as peers

from flexflow.core import (
    AdamOptimizer,
    CosineDecay,
    ExponentialDecay,
    FFConfig,
    FFModel,
    FlexFlowError,
    LossType,
    Parameter,
    PiecewiseConstant,
    PolynomialDecay,
    Schedule,
    SGDOptimizer,
    Strategy,
)

STEPS = 25
X, Y = np.ones((1, 1)), np.zeros((1, 1))


def line(make: Callable[[FFModel], Any]) -> tuple[FFModel, Parameter]:
    """y = w * 1 with the sum as its loss: each step takes the rate from the weight."""
    model = FFModel(FFConfig(threads=1))
    x = model.create_tensor([1, 1], "float64", name="x")
    weight = model.create_parameter([1], "float64", name="w")
    weight.set_weights(model, [0.0])
    y = model.multiply(x, weight)
    model.compile(make(model), LossType.LOSS_IDENTITY, output=y)
    return model, weight


def one_step(model: FFModel, by_hand: bool) -> float:
    """The rate that a step says it used."""
    if by_hand:
        model.get_layers()[0].get_input_tensor().set_tensor(model, X)
        model.label_tensor.set_tensor(model, Y)
        model.forward()
        model.zero_gradients()
        model.backward()
        model.update()
    else:
        model.fit(X, Y, verbose=0)
    return model.get_scalar("learning_rate")


def rates(schedule: Schedule, by_hand: bool = False, steps: int = STEPS) -> list[float]:
    model, weight = line(lambda m: SGDOptimizer(m, lr=schedule))
    assert model.get_scalar("learning_rate") == 0  # no step yet
    got, before = [], 0.0
    for _ in range(steps):
        got.append(one_step(model, by_hand))
        (after,) = weight.get_weights()
        assert before - after == pytest.approx(got[-1], rel=1e-12, abs=1e-15)
        before = after
    return got


def torch_rates(initial: float, make: Callable[[torch.optim.Optimizer], Any]) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=initial)
    scheduler = make(optimizer)
    got = []
    for _ in range(STEPS):
        got.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return got


def warm(steps: int, start: float, then: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """PyTorch's way to warm up."""

    def make(optimizer: torch.optim.Optimizer) -> Any:
        first = peers.LinearLR(optimizer, start_factor=start, total_iters=steps)
        return peers.SequentialLR(optimizer, [first, then(optimizer)], [steps])

    return make


TORCH: list[tuple[Schedule, float, Callable[[Any], Any]]] = [
    (ExponentialDecay(0.1, 1, 0.9), 0.1, lambda o: peers.ExponentialLR(o, 0.9)),
    (ExponentialDecay(0.1, 4, 0.5, staircase=True), 0.1, lambda o: peers.StepLR(o, 4, 0.5)),
    (CosineDecay(0.1, STEPS), 0.1, lambda o: peers.CosineAnnealingLR(o, STEPS)),
    (CosineDecay(0.1, STEPS, 0.2), 0.1, lambda o: peers.CosineAnnealingLR(o, STEPS, 0.02)),
    (PolynomialDecay(0.1, 9, 0.0), 0.1, lambda o: peers.PolynomialLR(o, 9)),
    (PolynomialDecay(0.1, 30, 0.0, 2.5), 0.1, lambda o: peers.PolynomialLR(o, 30, 2.5)),
    (PolynomialDecay(0.1, 9, 0.05), 0.1, lambda o: peers.LinearLR(o, 1.0, 0.5, 9)),
    (
        PiecewiseConstant([4, 9], [0.1, 0.01, 0.001]),
        0.1,
        lambda o: peers.MultiStepLR(o, [5, 10], 0.1),
    ),
    (
        CosineDecay(0.1, 20, warmup_steps=5, warmup_from=0.01),
        0.1,
        warm(5, 0.1, lambda o: peers.CosineAnnealingLR(o, 20)),
    ),
    (
        ExponentialDecay(0.1, 1, 0.9, warmup_steps=7, warmup_from=0.05),
        0.1,
        warm(7, 0.5, lambda o: peers.ExponentialLR(o, 0.9)),
    ),
]


@pytest.mark.parametrize("by_hand", [False, True], ids=["fit", "by_hand"])
@pytest.mark.parametrize(("schedule", "initial", "make"), TORCH)
@pytest.mark.filterwarnings("ignore:.*epoch parameter")
def test_pytorch(
    schedule: Schedule, initial: float, make: Callable[[Any], Any], by_hand: bool
) -> None:
    np.testing.assert_allclose(rates(schedule, by_hand), torch_rates(initial, make), rtol=1e-12)


# The formulas of keras.optimizers.schedules, as its documentation gives them.
def keras_exponential(s: int, initial: float, steps: int, rate: float, staircase: bool) -> float:
    return initial * rate ** (s // steps if staircase else s / steps)


def keras_cosine(
    s: int, initial: float, steps: int, alpha: float, target: float | None, warmup: int
) -> float:
    if target is not None:
        if s < warmup:
            return (target - initial) * (s / warmup) + initial
        initial, s = target, s - warmup
    cosine = 0.5 * (1 + math.cos(math.pi * min(s, steps) / steps))
    return initial * ((1 - alpha) * cosine + alpha)


def keras_polynomial(
    s: int, initial: float, steps: int, end: float, power: float, cycle: bool
) -> float:
    if cycle:
        steps *= 1 if s == 0 else math.ceil(s / steps)
    else:
        s = min(s, steps)
    return (initial - end) * (1 - s / steps) ** power + end


def keras_piecewise(s: int, boundaries: list[int], values: list[float]) -> float:
    for boundary, value in zip(boundaries, values):
        if s <= boundary:
            return value
    return values[-1]


KERAS: list[tuple[Schedule, Callable[[int], float]]] = [
    (ExponentialDecay(0.3, 7, 0.5), lambda s: keras_exponential(s, 0.3, 7, 0.5, False)),
    (ExponentialDecay(0.3, 7, 0.5, True), lambda s: keras_exponential(s, 0.3, 7, 0.5, True)),
    (CosineDecay(0.3, 11), lambda s: keras_cosine(s, 0.3, 11, 0.0, None, 0)),
    (CosineDecay(0.3, 11, 0.1), lambda s: keras_cosine(s, 0.3, 11, 0.1, None, 0)),
    (CosineDecay(0.3, 11, 0.1, 6), lambda s: keras_cosine(s, 0.0, 11, 0.1, 0.3, 6)),
    (
        CosineDecay(0.3, 11, warmup_steps=6, warmup_from=0.1),
        lambda s: keras_cosine(s, 0.1, 11, 0.0, 0.3, 6),
    ),
    (PolynomialDecay(0.3, 7), lambda s: keras_polynomial(s, 0.3, 7, 0.0001, 1.0, False)),
    (
        PolynomialDecay(0.3, 7, 0.1, 0.5, cycle=True),
        lambda s: keras_polynomial(s, 0.3, 7, 0.1, 0.5, True),
    ),
    (
        PiecewiseConstant([3, 4, 11], [0.4, 0.3, 0.2, 0.1]),
        lambda s: keras_piecewise(s, [3, 4, 11], [0.4, 0.3, 0.2, 0.1]),
    ),
    (PiecewiseConstant([], [0.4]), lambda s: 0.4),
    (
        PiecewiseConstant([3], [0.4, 0.1], warmup_steps=4),
        lambda s: 0.1 * s if s < 4 else keras_piecewise(s - 4, [3], [0.4, 0.1]),
    ),
]


@pytest.mark.parametrize(("schedule", "formula"), KERAS)
def test_keras(schedule: Schedule, formula: Callable[[int], float]) -> None:
    expected = [formula(s) for s in range(STEPS)]
    np.testing.assert_allclose(rates(schedule), expected, rtol=1e-12)


@pytest.mark.parametrize("make", [SGDOptimizer, AdamOptimizer])
def test_is_as_if_the_rate_were_set_before_each_step(make: Any) -> None:
    schedule = CosineDecay(0.1, 10, 0.1, warmup_steps=3)
    scheduled, ours = line(lambda m: make(m, schedule))
    by_hand, theirs = line(lambda m: make(m, 0.1))
    for step in range(15):
        scheduled.fit(X, Y, verbose=0)
        rate = scheduled.get_scalar("learning_rate")
        assert rate == pytest.approx(keras_cosine(step, 0.0, 10, 0.1, 0.1, 3), rel=1e-12)
        by_hand.optimizer.set_learning_rate(rate)
        by_hand.fit(X, Y, verbose=0)
        np.testing.assert_array_equal(ours.get_weights(), theirs.get_weights())


def wide(strategy: Strategy | None = None) -> FFModel:
    model = FFModel(FFConfig(device="reference"))
    x = model.create_tensor([6, 4], "float64", name="x")
    model.dense(model.tanh(model.dense(x, 8, name="first")), 3, name="top")
    model.compile(
        AdamOptimizer(model, alpha=ExponentialDecay(0.1, 2, 0.5, warmup_steps=2)),
        LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE,
        strategy=strategy,
    )
    return model


DATA, LABELS = np.random.default_rng(0).normal(size=(2, 20, 4))
LABELS = LABELS[:, :3]


@pytest.mark.parametrize("strategy", [Strategy.data_parallel(2), Strategy.hybrid(2, 2)])
def test_strategies(strategy: Strategy) -> None:
    one, several = wide(), wide(strategy)
    for model in (one, several):
        model.fit(DATA, LABELS, epochs=2, verbose=0)
    assert one.get_scalar("learning_rate") == several.get_scalar("learning_rate") > 0
    np.testing.assert_allclose(several.predict(DATA), one.predict(DATA), rtol=1e-10)


def test_checkpoints_keep_it_by_the_step(tmp_path: Path) -> None:
    model, resumed = wide(), wide()
    model.fit(DATA, LABELS, verbose=0)
    model.save_checkpoint(tmp_path / "run.npz")
    resumed.load_checkpoint(tmp_path / "run.npz")
    assert resumed.get_scalar("learning_rate") == model.get_scalar("learning_rate")
    for each in (model, resumed):
        each.fit(DATA, LABELS, verbose=0)
    assert resumed.get_scalar("learning_rate") == model.get_scalar("learning_rate")
    np.testing.assert_array_equal(resumed.predict(DATA), model.predict(DATA))


def test_setting_the_rate_is_an_error_that_says_so() -> None:
    model, _ = line(lambda m: SGDOptimizer(m, lr=CosineDecay(0.1, 10)))
    follows = r"the rate follows CosineDecay\(initial=0.1, decay_steps=10"
    with pytest.raises(FlexFlowError, match=follows):
        model.optimizer.set_learning_rate(0.5)
    with pytest.raises(FlexFlowError, match=follows):
        model.optimizer.learning_rate = 0.5
    with pytest.raises(FlexFlowError, match="follows the schedule cosine_decay and cannot be set"):
        model.set_scalar("learning_rate", 0.5)
    assert model.optimizer.learning_rate == CosineDecay(0.1, 10)
    model.set_scalar("step", 5)
    assert one_step(model, False) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: CosineDecay(-0.1, 10), ValueError, "CosineDecay: initial: got -0.1, expected"),
        (lambda: CosineDecay(0.1, 0), ValueError, "CosineDecay: decay_steps: got 0, expected at"),
        (lambda: CosineDecay(0.1, 2.5), TypeError, "decay_steps: got 2.5, expected an integer"),
        (lambda: CosineDecay(0.1, 10, float("nan")), ValueError, "alpha: got nan, expected a fin"),
        (lambda: CosineDecay(0.1, 10, warmup_steps=-1), ValueError, "warmup_steps: got -1"),
        (lambda: ExponentialDecay(0.1, 10, 0.5, 1), TypeError, "staircase: got 1, expected True"),
        (lambda: PolynomialDecay(0.1, 10, power=-1), ValueError, "PolynomialDecay: power: got -1"),
        (lambda: PiecewiseConstant([5, 5], [1, 2, 3]), ValueError, r"boundaries are \[5, 5\]"),
        (lambda: PiecewiseConstant([5], [1]), ValueError, "got 1 values for 1 boundaries"),
        (lambda: PiecewiseConstant([5], 0.1), TypeError, "values: got 0.1, expected a list of num"),
        (lambda: PiecewiseConstant(["5"], [1, 2]), TypeError, "boundaries: got "),
    ],
)
def test_errors_name_the_argument(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_is_a_value() -> None:
    schedule = CosineDecay(0.1, np.int64(10))
    assert schedule == CosineDecay(0.1, 10)
    assert schedule.decay_steps == 10
    with pytest.raises(AttributeError):
        schedule.initial = 0.5  # type: ignore[misc]
