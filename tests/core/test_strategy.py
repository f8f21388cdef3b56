"""Strategies as values: ready-made ones, patterns, files; they compute what one device does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flexflow.core import (
    ActiMode,
    FFConfig,
    FFModel,
    LossType,
    PoolType,
    SGDOptimizer,
    Strategy,
)


def mlp() -> FFModel:
    model = FFModel(FFConfig(batch_size=8, device="reference"))
    t = model.dense(model.create_tensor([8, 12], "float64"), 16, name="up")
    t = model.dense(model.relu(t, name="relu"), 12, name="down")
    model.softmax(model.dense(t, 5, name="head"), name="probabilities")
    return model


def cnn() -> FFModel:
    model = FFModel(FFConfig(batch_size=8, device="reference"))
    t = model.create_tensor([8, 3, 8, 8], "float64")
    t = model.conv2d(t, 6, 3, 3, 1, 1, 1, 1, ActiMode.AC_MODE_RELU, name="conv1")
    t = model.batch_norm(t, name="norm")
    t = model.pool2d(t, 2, 2, 2, 2, 0, 0, PoolType.POOL_MAX, name="pool")
    t = model.conv2d(t, 4, 3, 3, 1, 1, 1, 1, name="conv2")
    model.softmax(model.dense(model.flat(t), 5, name="head"))
    return model


def results(build: Any, strategy: Strategy | None) -> tuple[list[float], list[np.ndarray]]:
    model = build()
    loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
    model.compile(SGDOptimizer(model, lr=0.05, momentum=0.9), loss, [], strategy=strategy)
    random = np.random.default_rng(0)
    shape = model.get_layer_by_id(0).get_input_tensor().dims[1:]
    x, y = random.normal(size=(27, *shape)), random.integers(0, 5, 27)
    losses = [metrics.loss for metrics in model.fit(x, y, epochs=3, verbose=0)]
    weights = [p.get_weights() for op in model.get_layers().values() for p in op.get_parameters()]
    return losses, [*weights, model.predict(x)]


READY_MADE = {
    "dp2": Strategy.data_parallel(2),
    "dp3": Strategy.data_parallel(3),
    "tp2": Strategy.tensor_parallel(2),
    "tp3": Strategy.tensor_parallel(3),
    "hybrid": Strategy.hybrid(dp=2, tp=2),
    "shared updates": Strategy.data_parallel(3).share_updates(),
    "hybrid, shared updates": Strategy.hybrid(dp=2, tp=2).share_updates("*"),
}


@pytest.mark.parametrize("name", READY_MADE)
@pytest.mark.parametrize("build", [mlp, cnn])
def test_ready_made(build: Any, name: str) -> None:
    losses, arrays = results(build, None)
    our_losses, our_arrays = results(build, READY_MADE[name])
    np.testing.assert_allclose(our_losses, losses, rtol=1e-12)
    for ours, array in zip(our_arrays, arrays):
        np.testing.assert_allclose(ours, array, rtol=1e-9, atol=1e-12)


def test_data_parallel_places_what_reads_data() -> None:
    """The rest follows, and so needs no word."""
    bound = Strategy.data_parallel(2).bind(mlp())
    assert [name for name, _ in bound.rules] == ["up"]
    assert dict(bound.rules)["up"].splits == {"b0": 2}


def test_shared_updates_keep_slices_of_the_optimizers_state() -> None:
    model = mlp()
    loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
    strategy = Strategy.data_parallel(2).share_updates()
    model.compile(SGDOptimizer(model, lr=0.1, momentum=0.9), loss, strategy=strategy)
    plan = model.plan()
    assert plan.count('"up/kernel"\n') == 2  # a whole copy on each device
    state = '"optimizer/up/kernel/velocity" '
    assert state + "[0:8, 0:12] of [16, 12]" in plan
    assert state + "[8:16, 0:12] of [16, 12]" in plan


def test_tensor_parallel_alternates() -> None:
    """Columns, then rows, so that what lies between stays split."""
    bound = dict(Strategy.tensor_parallel(2).bind(mlp()).rules)
    assert {name: dict(placement.splits) for name, placement in bound.items()} == {
        "up": {"o": 2},
        "down": {"i": 2},
        "head": {"o": 2},
    }
    hybrid = dict(Strategy.hybrid(dp=2, tp=2).bind(mlp()).rules)
    assert hybrid["down"].splits == {"b0": 2, "i": 2}
    assert hybrid["down"].grid() == (2, 1)


def test_the_last_rule_counts() -> None:
    """What a later one says of an operator, earlier ones no longer do."""
    bound = Strategy(2).split("*", o=2).split("up", o=2).split("up", b0=2).bind(mlp())
    assert dict(dict(bound.rules)["up"].splits) == {"b0": 2}


def test_one_device_needs_no_strategy() -> None:
    plans = []
    for strategy in (None, Strategy.data_parallel(1)):
        model = mlp()
        loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
        model.compile(SGDOptimizer(model), loss, strategy=strategy)
        plans.append(model.plan())
    assert plans[0] == plans[1]


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "strategy.json"
    for strategy in (
        Strategy.hybrid(dp=2, tp=2).split("head", start=1, o=2),
        Strategy(3),
        Strategy.data_parallel(2).share_updates("up"),
    ):
        strategy.save(path)
        assert Strategy.load(path) == strategy
    bound = Strategy.tensor_parallel(2).bind(mlp())
    bound.save(path)
    assert Strategy.load(path) == bound
    assert str(Strategy.load(path).bind(mlp())) == str(bound)
    assert results(mlp, Strategy.load(path))[0] == results(mlp, bound)[0]


GOOD = Strategy(2).split("up", o=2).to_json()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "x"}, r"\"format\" is 'x'"),
        ({"version": 2}, r"\"version\" is 2; this version reads 1"),
        ({"devices": 0}, r"devices is 0, expected 1 or more"),
        ({"devices": "2"}, r"devices is '2', expected an integer"),
        ({"colour": 1}, r"unknown entries \['colour'\]"),
        ({"rewrites": [1]}, r"\"rewrites\" is not empty; this version does not act on it"),
        ({"optimizer_sharding": "up"}, r"\"optimizer_sharding\" is 'up', not a list"),
        ({"ops": [{"splits": {}}]}, r"entry 0 of \"ops\" has no name"),
        ({"ops": [{"op": "up", "splits": {"o": 0}}]}, r"o=0, expected 1 or more parts"),
        ({"ops": [{"op": "up", "splits": {"o": 3}}]}, r"the parts reach device 2"),
        ({"ops": [{"op": "up", "splits": {"o": 2}, "strides": [1, 1]}]}, r"2 strides for 1 splits"),
        ({"ops": [{"op": "up", "split": {"o": 2}}]}, r"up: unknown entries \['split'\]"),
    ],
)
def test_bad_files(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises((ValueError, TypeError), match=message):
        Strategy.load(path)


def test_not_json(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("{")
    with pytest.raises(ValueError, match=r"bad.json: not JSON"):
        Strategy.load(path)


def test_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices without a strategy share the samples; files come and go by flag."""
    path = tmp_path / "out.json"
    monkeypatch.setattr("sys.argv", ["x", "-ll:cpu", "2", "--export-strategy", str(path)])
    model = mlp()
    loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
    model.compile(SGDOptimizer(model), loss)
    assert Strategy.load(path) == Strategy.data_parallel(2).bind(mlp())
    model.fit(np.zeros((8, 12)), np.zeros(8, np.int32), verbose=0)
    plan = model.plan()
    monkeypatch.setattr("sys.argv", ["x", "--import-strategy", str(path)])
    model = mlp()
    model.compile(SGDOptimizer(model), loss)
    assert model.plan() == plan
    assert plan.count('"up/kernel"') == 2 and "reduction/" in plan
