"""Clipping by square_sum, clip_factor and scale: all gradients together, as PyTorch's
clip_grad_norm_ does it, under any strategy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from flexflow.core import (
    AdamOptimizer,
    FFConfig,
    FFModel,
    L2Regularizer,
    LossType,
    SGDOptimizer,
    Strategy,
)

ROWS = 22
rng = np.random.default_rng(0)
DATA, LABELS = rng.normal(size=(ROWS, 5)), 3 * rng.normal(size=(ROWS, 3))
MSE = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
NORMS = [0.01, 1.0, 2.5, 1e9]  # always, mostly, sometimes, never


def network(
    clipnorm: float | None,
    dtype: str = "float64",
    device: str = "reference",
    optimizer: Any = SGDOptimizer,
    strategy: Strategy | None = None,
    l2: float = 0.0,
) -> FFModel:
    model = FFModel(FFConfig(device=device))
    x = model.create_tensor([8, 5], dtype, name="x")
    regular = L2Regularizer(l2) if l2 else None
    hidden = model.tanh(model.dense(x, 7, name="hidden", kernel_regularizer=regular))
    model.dense(hidden, 3, name="top")
    model.compile(optimizer(model, 0.1, clipnorm=clipnorm), MSE, strategy=strategy)
    return model


def weights(model: FFModel) -> list[np.ndarray]:
    layers = (model.get_layer_by_name(name) for name in ("hidden", "top"))
    return [p.get_weights(model) for layer in layers for p in layer.get_parameters()]


def train(model: FFModel, by_hand: bool, epochs: int = 3) -> None:
    if not by_hand:
        model.fit(DATA, LABELS, epochs=epochs, verbose=0)
        return
    x = model.get_layer_by_name("hidden").get_input_tensor()
    loaders = [
        model.create_data_loader(x, DATA),
        model.create_data_loader(model.label_tensor, LABELS),
    ]
    for _ in range(epochs):
        for loader in loaders:
            loader.reset()
        for _ in range(len(loaders[0])):
            for loader in loaders:
                loader.next_batch()
            model.forward()
            model.zero_gradients()
            model.backward()
            model.update()


def torch_train(start: list[np.ndarray], clipnorm: float, l2: float) -> tuple[Any, list[float]]:
    """The weights, and the norms on the way."""
    w = [torch.tensor(np.float64(value), requires_grad=True) for value in start]
    optimizer = torch.optim.SGD(w, lr=0.1)
    norms = []
    for _ in range(3):
        for first in range(0, ROWS, 8):
            x, y = (torch.tensor(rows[first : first + 8]) for rows in (DATA, LABELS))
            hidden = torch.tanh(x @ w[0].T + w[1])
            loss = ((hidden @ w[2].T + w[3] - y) ** 2).mean() + l2 / 2 * (w[0] ** 2).sum()
            optimizer.zero_grad()
            loss.backward()
            norms.append(float(torch.nn.utils.clip_grad_norm_(w, clipnorm)))
            optimizer.step()
    return [value.detach().numpy() for value in w], norms


@pytest.mark.parametrize("by_hand", [False, True], ids=["fit", "by_hand"])
@pytest.mark.parametrize(("dtype", "device"), [("float64", "reference"), ("float32", "cpu")])
@pytest.mark.parametrize("clipnorm", NORMS)
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_pytorch(clipnorm: float, dtype: str, device: str, by_hand: bool, l2: float) -> None:
    """PyTorch adds 1e-6 to the norm, which is what the tolerance is for. A penalty counts."""
    model = network(clipnorm, dtype, device, l2=l2)
    expected, norms = torch_train(weights(model), clipnorm, l2)
    train(model, by_hand)
    for ours, theirs in zip(weights(model), expected):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)
    assert min(norms) < 2.5 < max(norms) < 1e9  # so that NORMS are what they say


@pytest.mark.parametrize("by_hand", [False, True], ids=["fit", "by_hand"])
@pytest.mark.parametrize("optimizer", [SGDOptimizer, AdamOptimizer])
def test_what_is_not_clipped_stays_as_it_is(optimizer: Any, by_hand: bool) -> None:
    free, clipped = network(None, optimizer=optimizer), network(1e9, optimizer=optimizer)
    for model in (free, clipped):
        train(model, by_hand)
    for ours, theirs in zip(weights(clipped), weights(free)):
        np.testing.assert_array_equal(ours, theirs)


STRATEGIES = [
    Strategy.data_parallel(2),
    Strategy.data_parallel(3),
    Strategy.tensor_parallel(2),
    Strategy.hybrid(dp=2, tp=2),
    Strategy(4).split("hidden", reduction=3).split("top", start=1, parameter=2),
]


@pytest.mark.parametrize("by_hand", [False, True], ids=["fit", "by_hand"])
@pytest.mark.parametrize("optimizer", [SGDOptimizer, AdamOptimizer])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_strategies(strategy: Strategy, optimizer: Any, by_hand: bool) -> None:
    one = network(1.0, optimizer=optimizer)
    several = network(1.0, optimizer=optimizer, strategy=strategy)
    for model in (one, several):
        train(model, by_hand)
    for ours, theirs in zip(weights(several), weights(one)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_the_norm_is_over_all_weights_that_are_trained() -> None:
    """One step from known gradients; a frozen weight does not count."""
    model = network(0.5)
    top = model.get_layer_by_name("top")
    top.trainable = False
    before = weights(model)
    train(model, True, epochs=1)
    frozen = weights(model)
    np.testing.assert_array_equal(frozen[2], before[2])
    first = network(0.5)
    first.get_layer_by_name("top").trainable = False
    first.fit(DATA[:8], LABELS[:8], verbose=0)
    moved = np.concatenate([(b - a).ravel() for a, b in zip(weights(first), before)])
    np.testing.assert_allclose(np.linalg.norm(moved), 0.1 * 0.5, rtol=1e-12)


def test_gradients_can_still_be_read() -> None:
    """Those of backward, not those that the update makes of them."""
    model = network(0.01)
    train(model, True, epochs=1)
    tensor = model.get_layer_by_name("top").get_weight_tensor()
    model.forward()
    model.zero_gradients()
    model.backward()
    before = tensor.get_gradients(model)
    model.update()
    np.testing.assert_array_equal(tensor.get_gradients(model), before)
    assert np.linalg.norm(before) > 0.01


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype: str) -> None:
    clipped, peer = network(0.05, dtype, "cpu"), network(0.05, "float32", "cpu")
    before = weights(clipped)
    for model in (clipped, peer):
        for layer, values in zip(("hidden", "top"), (before[:2], before[2:])):
            for parameter, value in zip(model.get_layer_by_name(layer).get_parameters(), values):
                parameter.set_weights(model, value)
        model.fit(np.float32(DATA), np.float32(LABELS), verbose=0)
    for ours, theirs in zip(weights(clipped), weights(peer)):
        np.testing.assert_allclose(np.float64(ours), theirs, atol=0.01)


def test_a_norm_that_is_nan_is_no_small_one() -> None:
    model = network(1.0)
    model.get_layer_by_name("top").get_weight_tensor().set_weights(model, np.full((3, 7), 1e300))
    with pytest.raises(FloatingPointError):
        model.fit(DATA, LABELS, verbose=0)


@pytest.mark.parametrize(
    ("clipnorm", "error"), [(0, ValueError), (-1.0, ValueError), (float("inf"), ValueError)]
)
def test_errors(clipnorm: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="clipnorm: got"):
        network(clipnorm)
    with pytest.raises(TypeError, match="clipnorm: got '1'"):
        network("1")  # type: ignore[arg-type]
    assert "clipnorm=2.0" in repr(SGDOptimizer(FFModel(FFConfig()), clipnorm=2))
