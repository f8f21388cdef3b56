"""The operators sgd, adam, regularize and increment, by the steps that they make.

The model is y = w * x with the sum of y as its loss: the gradient of w is x, whatever w is, so that
each step can be given any gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tolerances import assert_close

from flexflow.core import (
    AdamOptimizer,
    FFConfig,
    FFModel,
    LossType,
    Optimizer,
    Parameter,
    SGDOptimizer,
)

SIZE, STEPS = 37, 20
DEVICES = [("float64", "reference"), ("float32", "cpu"), ("float64", "cpu")]
random = np.random.default_rng(0)
START = random.normal(size=SIZE).astype(np.float32)
GRADIENTS = random.normal(size=(STEPS, SIZE)).astype(np.float32)
SGD = [
    {},
    {"weight_decay": 0.1},
    {"momentum": 0.9},
    {"momentum": 0.9, "weight_decay": 0.01},
    {"momentum": 0.8, "nesterov": True},
    {"momentum": 0.8, "nesterov": True, "weight_decay": 0.1},
]
ADAM = [{}, {"beta1": 0.5, "beta2": 0.9}, {"weight_decay": 0.1}, {"epsilon": 0.1}]


def build(
    make: Callable[[FFModel], Optimizer], dtype: str, device: str, **penalties: float
) -> tuple[FFModel, Parameter]:
    model = FFModel(FFConfig(device=device))
    x = model.create_tensor([1, SIZE], dtype)
    weight = model.create_parameter([SIZE], dtype, name="w")
    weight.set_weights(model, START)
    if penalties:
        model.set_weight(weight.id, penalties)
    y = model.multiply(x, weight)
    model.compile(make(model), LossType.LOSS_IDENTITY, output=y)
    return model, weight


def steps(model: FFModel, weight: Parameter, by_hand: bool) -> list[np.ndarray]:
    """The weight after each step."""
    values = []
    labels = np.zeros((1, SIZE))
    for gradient in GRADIENTS:
        if by_hand:
            model.label_tensor.set_tensor(model, labels)
            model.get_layers()[0].get_input_tensor().set_tensor(model, gradient[None])
            model.zero_gradients()
            model.forward()
            model.backward()
            model.update()
        else:
            model.fit(gradient[None], labels, verbose=0)
        values.append(weight.get_weights())
    return values


def adam_steps(alpha=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0):
    """FlexFlow's formula, from the paper by Kingma and Ba (2015), end of section 2."""
    w, m, v = START.astype(np.float64), np.zeros(SIZE), np.zeros(SIZE)
    for t, gradient in enumerate(GRADIENTS.astype(np.float64), 1):
        g = gradient + weight_decay * w
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        rate = alpha * np.sqrt(1 - beta2**t) / (1 - beta1**t)
        w = w - rate * m / (np.sqrt(v) + epsilon)
        yield w


def torch_steps(make: Callable[[list[torch.Tensor]], torch.optim.Optimizer]) -> Any:
    w = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    optimizer = make([w])
    for gradient in GRADIENTS:
        w.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
        yield w.detach().numpy().copy()


def compare(ours: list[np.ndarray], theirs: Any, dtype: str) -> None:
    for step, (one, other) in enumerate(zip(ours, theirs)):
        assert_close(one, other, dtype, f"step {step}")


@pytest.mark.parametrize("by_hand", [False, True], ids=["fit", "by_hand"])
@pytest.mark.parametrize(("dtype", "device"), DEVICES)
@pytest.mark.parametrize("settings", SGD, ids=str)
def test_sgd(settings: dict[str, Any], dtype: str, device: str, by_hand: bool) -> None:
    model, weight = build(lambda m: SGDOptimizer(m, lr=0.1, **settings), dtype, device)
    theirs = torch_steps(lambda w: torch.optim.SGD(w, lr=0.1, **settings))
    compare(steps(model, weight, by_hand), theirs, dtype)
    assert model.get_scalar("step") == STEPS


@pytest.mark.parametrize("by_hand", [False, True], ids=["fit", "by_hand"])
@pytest.mark.parametrize(("dtype", "device"), DEVICES)
@pytest.mark.parametrize("settings", ADAM, ids=str)
def test_adam(settings: dict[str, Any], dtype: str, device: str, by_hand: bool) -> None:
    model, weight = build(lambda m: AdamOptimizer(m, alpha=0.02, **settings), dtype, device)
    compare(steps(model, weight, by_hand), adam_steps(0.02, **settings), dtype)
    assert model.get_scalar("step") == STEPS


def test_adam_is_pytorchs() -> None:
    """But for the place of epsilon, which a small one hides."""
    model, weight = build(lambda m: AdamOptimizer(m, alpha=0.02), "float64", "reference")
    theirs = torch_steps(lambda w: torch.optim.Adam(w, lr=0.02))
    for one, other in zip(steps(model, weight, False), theirs):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("by_hand", [False, True], ids=["fit", "by_hand"])
@pytest.mark.parametrize(("dtype", "device"), DEVICES)
@pytest.mark.parametrize("penalties", [{"l1": 0.3}, {"l2": 0.2}, {"l1": 0.1, "l2": 0.5}], ids=str)
def test_regularize(penalties: dict[str, float], dtype: str, device: str, by_hand: bool) -> None:
    model, weight = build(lambda m: SGDOptimizer(m, lr=0.1), dtype, device, **penalties)
    w, expected = START.astype(np.float64), []
    for gradient in GRADIENTS.astype(np.float64):
        slope = gradient + penalties.get("l1", 0) * np.sign(w) + penalties.get("l2", 0) * w
        w = w - 0.1 * slope
        expected.append(w)
    compare(steps(model, weight, by_hand), expected, dtype)


def test_a_penalty_has_no_slope_at_zero() -> None:
    model, weight = build(lambda m: SGDOptimizer(m, lr=0.1), "float64", "reference", l1=1.0)
    weight.set_weights(model, np.zeros(SIZE))
    model.fit(np.zeros((1, SIZE)), np.zeros((1, SIZE)), verbose=0)
    assert not weight.get_weights().any()


@pytest.mark.parametrize("make", [SGDOptimizer, AdamOptimizer])
def test_frozen_weights_stay(make: Any) -> None:
    model, weight = build(lambda m: make(m), "float32", "cpu", l2=0.5)
    weight.trainable = False
    steps(model, weight, False)
    np.testing.assert_array_equal(weight.get_weights(), START)
    weight.trainable = True
    steps(model, weight, False)
    assert (weight.get_weights() != START).all()


def test_gradients_add_up_over_backwards() -> None:
    """Two backward passes and one update are one step with the sum of the gradients."""
    model, weight = build(lambda m: SGDOptimizer(m, lr=0.1), "float64", "reference")
    x = model.get_layers()[0].get_input_tensor()
    model.zero_gradients()
    for gradient in GRADIENTS[:2]:
        model.label_tensor.set_tensor(model, np.zeros((1, SIZE)))
        x.set_tensor(model, gradient[None])
        model.forward()
        model.backward()
    total = GRADIENTS[:2].astype(np.float64).sum(0)
    assert_close(weight.get_gradients(), total, "float64", "gradient")
    model.update()
    assert_close(weight.get_weights(), START - 0.1 * total, "float64", "weight")


def test_learning_rate_changes_between_steps() -> None:
    model, weight = build(lambda m: SGDOptimizer(m, lr=0.1), "float64", "reference")
    w = START.astype(np.float64)
    for rate, gradient in zip((0.1, 0.5, 0.0, 0.025), GRADIENTS.astype(np.float64)):
        assert model.optimizer is not None
        model.optimizer.set_learning_rate(rate)
        model.fit(gradient[None], np.zeros((1, SIZE)), verbose=0)
        w = w - rate * gradient
        assert_close(weight.get_weights(), w, "float64", f"rate {rate}")
