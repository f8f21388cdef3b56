"""The law of the house: any legal strategy computes what one device computes."""

from __future__ import annotations

from typing import Any

import numpy as np
from engines.test_random_graphs import BATCH, BINARY, STEP, UNARY, WIDTH
from hypothesis import given, settings
from hypothesis import strategies as st

from flexflow.core import AdamOptimizer, CosineDecay, FFConfig, FFModel, LossType, Strategy
from flexflow.core.strategy import indices_of

ROWS = 3 * BATCH + 3


def build(steps: list[Any]) -> FFModel:
    model = FFModel(FFConfig(device="reference"))
    tensors = [model.create_tensor([BATCH, WIDTH], "float64", name="x")]
    for name, first, second in steps:
        x, y = (tensors[-1 - back % len(tensors)] for back in (first, second))
        tensors.append(UNARY[name](model, x) if name in UNARY else BINARY[name](model, x, y))
    model.dense(model.tanh(tensors[-1]), 3, name="top")
    return model


def draw_strategy(draw: Any, model: FFModel) -> Strategy:
    devices = draw(st.integers(1, 8))
    strategy = Strategy(devices)
    for op in model.get_layers().values():
        free = [index for index in indices_of(model, op) if not index.kind.startswith("whole")]
        splits: dict[str, int] = {}
        for index in draw(st.permutations(free)) if free else []:
            used = int(np.prod(list(splits.values()) or [1]))
            splits[index.name] = draw(st.integers(1, max(1, min(4, devices // used))))
        used = int(np.prod(list(splits.values()) or [1]))
        if draw(st.booleans()):
            start = draw(st.integers(0, devices - used))
            strategy.split(op.name, start=start, **splits)
    if draw(st.booleans()):
        strategy.share_updates()
    for op in model.get_layers().values():
        if draw(st.booleans()):
            strategy.recompute(op.name)
    return strategy


def train(steps: list[Any], strategy: Any) -> tuple[dict[str, np.ndarray], np.ndarray, list[float]]:
    model = build(steps)
    chosen = strategy(model) if strategy is not None else None
    loss = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
    optimizer = AdamOptimizer(model, alpha=CosineDecay(0.01, 4, warmup_steps=1), clipnorm=0.3)
    model.compile(optimizer, loss, strategy=chosen)
    random = np.random.default_rng(0)
    x, y = random.normal(size=(ROWS, WIDTH)), random.normal(size=(ROWS, 3))
    history = model.fit(x, y, verbose=0)
    layers = model.get_layers().values()
    weights = {p.name: p.get_weights() for layer in layers for p in layer.get_parameters()}
    return weights, model.predict(x), [metrics.loss for metrics in history]


@settings(max_examples=200, deadline=None)
@given(st.data(), st.lists(STEP, max_size=8))
def test_random_strategies_of_random_graphs(data: Any, steps: list[Any]) -> None:
    weights, predictions, losses = train(steps, None)
    ours = train(steps, lambda model: draw_strategy(data.draw, model))
    for (name, value), other in zip(weights.items(), ours[0].values()):
        np.testing.assert_allclose(other, value, rtol=1e-8, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(ours[1], predictions, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ours[2], losses, rtol=1e-9)
