"""A layer of experts trains alike however it is split, though experts run out of places."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tolerances import assert_close

from flexflow.core import FFConfig, FFModel, LossType, SGDOptimizer, Strategy

SAMPLES, FEATURES, EXPERTS, HIDDEN = 10, 6, 4, 5
INPUTS = np.random.default_rng(7).normal(size=(SAMPLES, FEATURES)).astype(np.float32)


def trained(splits: dict[str, dict[str, int]], alpha: float, samples: int) -> dict[str, np.ndarray]:
    """The weights after three steps, each layer split as it is said."""
    model = FFModel(FFConfig(device="cpu"))
    x = model.create_tensor([SAMPLES, FEATURES])
    y = model.moe(x, EXPERTS, 2, HIDDEN, alpha, 0.05, name="moe")
    strategy = None
    if splits:
        strategy = Strategy(max(math.prod(s.values()) for s in splits.values()))
        for layer, split in splits.items():
            strategy.split(layer, **split)
    loss = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
    model.compile(SGDOptimizer(model, 0.1), loss, output=y, strategy=strategy)
    for _ in range(3):
        x.set_tensor(model, INPUTS[:samples])
        model.label_tensor.set_tensor(model, np.ones((samples, HIDDEN), np.float32))
        model.forward()
        model.zero_gradients()
        model.backward()
        model.update()
    layers = model.get_layers().values()
    return {w.name: w.get_weights(model) for op in layers for w in op.get_parameters()}


@pytest.mark.parametrize("alpha", [0.6, 2.0])
@pytest.mark.parametrize("samples", [SAMPLES, 7])
@pytest.mark.parametrize(
    "splits",
    [
        {"moe/group_by": {"e": 2}, "moe": {"e": 2}},
        {"moe/group_by": {"e": 4}, "moe": {"b0": 3}},
        {"moe/group_by": {"b0": 2}, "moe": {"b0": 2}},
        {"moe/group_by": {"c": 3}, "moe": {"c": 3}},
        {"moe/group_by": {"x1": 2}, "moe": {"x1": 2}},
        {"moe/group_by": {"b0": 2, "e": 2}, "moe": {"e": 2, "c": 2}},
    ],
)
def test_training(splits: dict[str, dict[str, int]], samples: int, alpha: float) -> None:
    alone, split = trained({}, alpha, samples), trained(splits, alpha, samples)
    assert alone.keys() == split.keys()
    for name, value in alone.items():
        assert_close(split[name], value, "float32", name, scale=1.0)


def test_who_comes_too_late_goes_without() -> None:
    model = FFModel(FFConfig(device="cpu"))
    x, chosen = model.create_tensor([4, 1]), model.create_tensor([4, 1], "int32")
    rows = model.group_by(x, chosen, 2, 1.0)
    y = model.aggregate([x, chosen, chosen, model.concat([x, x], 1), *rows], 2)
    loss = LossType.LOSS_IDENTITY
    model.compile(SGDOptimizer(model, 0.1), loss, output=y)
    x.set_tensor(model, np.array([[1], [2], [3], [4]], np.float32))
    chosen.set_tensor(model, np.array([[1], [1], [1], [0]], np.int32))
    model.forward()
    assert rows[0].get_tensor().tolist() == [[4], [0]]
    assert rows[1].get_tensor().tolist() == [[1], [2]]
    assert y.get_tensor().tolist() == [[1], [4], [0], [16]]


def test_an_expert_that_is_none_is_named() -> None:
    model = FFModel(FFConfig(device="cpu"))
    x, chosen = model.create_tensor([2, 3]), model.create_tensor([2, 1], "int64")
    rows = model.group_by(x, chosen, 2, 1.0, name="send")
    model.compile(SGDOptimizer(model, 0.1), LossType.LOSS_IDENTITY, output=rows[0])
    x.set_tensor(model, np.ones((2, 3)))
    chosen.set_tensor(model, np.array([[0], [2]]))
    with pytest.raises(ValueError, match="send.*expert 2 at position 1"):
        model.forward()
