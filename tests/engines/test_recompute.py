"""Activations that are computed again in the backward pass: less memory, the same bits."""

from __future__ import annotations

import re

import numpy as np
import pytest
from engine_models import SHAPES, SPARSE, Build

from flexflow.core import (
    ActiMode,
    AdamOptimizer,
    FFConfig,
    FFModel,
    LossType,
    SGDOptimizer,
    Strategy,
    Tensor,
)

DEPTH, WIDTH, ROWS = 16, 32, 2048
SQUARED = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
RELU = ActiMode.AC_MODE_RELU


def tower(strategy: Strategy | None) -> FFModel:
    """Layers whose activations take far more memory than their weights."""
    model = FFModel(FFConfig(batch_size=ROWS))
    t = model.create_tensor([ROWS, WIDTH], name="x")
    for number in range(DEPTH):
        t = model.dense(t, WIDTH, RELU, name=f"layer{number}")
    model.dense(t, 4, name="head")
    model.compile(SGDOptimizer(model, lr=0.01, momentum=0.9), SQUARED, strategy=strategy)
    return model


def but_each_fourth(strategy: Strategy) -> Strategy:
    for number in range(DEPTH):
        if number % 4 != 3:
            strategy.recompute(f"layer{number}")
    return strategy


def arenas(model: FFModel, step: str = "train") -> list[int]:
    return [int(size) for size in re.findall(r"arena (\d+) B", model.plan(step))]


def pinned(model: FFModel) -> float:
    """MiB that the loop by hand keeps between its calls."""
    report = re.search(r"pinned ([\d.]+) MiB", model.memory_report("manual"))
    assert report is not None
    return float(report.group(1))


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_memory_shrinks(devices: int) -> None:
    """Of 16 activations, 4 are kept, and 3 at a time are made again."""
    plain = tower(Strategy.data_parallel(devices))
    spared = tower(but_each_fourth(Strategy.data_parallel(devices)))
    assert len(arenas(plain)) == devices
    for less, more in zip(arenas(spared), arenas(plain)):
        assert less <= 0.6 * more
    assert pinned(spared) <= 0.4 * pinned(plain)
    assert arenas(spared, "evaluate") == arenas(plain, "evaluate")


def test_copies_come_when_they_are_needed() -> None:
    """Those of one stretch after the gradients of the stretch behind it."""
    plan = tower(but_each_fourth(Strategy(1))).plan()
    names = re.findall(r"# (\S+)$", plan, re.M)
    for first in range(0, DEPTH, 4):
        copies = [names.index(f"layer{first + k}/again") for k in range(3)]
        assert copies == sorted(copies)
        if first + 4 < DEPTH:
            assert names.index(f"layer{first + 4}:linear/linear_grad_weight") < copies[0]
        assert copies[2] < names.index(f"layer{first + 3}:linear/linear_grad_weight")


def lstm(model: FFModel, x: Tensor) -> Tensor:
    """With a workspace that only the gradient's kernel reads."""
    hidden, _, last = model.lstm(x, 7, name="lstm")
    joined = model.concat([model.reduce_mean(hidden, [1]), model.gelu(last)], 1)
    return model.softmax(model.dense(model.dropout(joined, 0.2, 3), 5))


def separate(model: FFModel, x: Tensor) -> Tensor:
    """Activations that are fused into the operators before them."""
    t = model.gelu(model.dense(x, 20, name="first"), name="gelu")
    t = model.relu(model.dense(t, 20, name="second"), name="relu")
    return model.softmax(model.dense(t, 5, name="head"))


def called_twice(model: FFModel, x: Tensor) -> Tensor:
    """One normalisation of two tensors: the statistics that it leaves are those of the second."""
    first = model.batch_norm(model.dense(x, 8), relu=False, name="norm")
    weights = first.owner_op.get_parameters()
    second = model.op("batch_norm", [model.tanh(first), *weights], "again", outputs=1)[0]
    return model.softmax(model.dense(model.add(first, second), 5))


INPUTS: dict[Build, tuple[int, ...]] = {**SHAPES, lstm: (6, 4), separate: (12,), called_twice: (6,)}


def trained(
    build: Build, strategy: Strategy | None, dtype: str, device: str, by_hand: bool
) -> dict[str, np.ndarray]:
    """All that two epochs leave behind, running statistics too."""
    model = FFModel(FFConfig(batch_size=8, device=device))
    x = model.create_tensor([8, *INPUTS[build]], dtype)
    build(model, x)
    model.compile(AdamOptimizer(model, alpha=0.01), SPARSE, strategy=strategy)
    random = np.random.default_rng(0)
    data, labels = random.normal(size=(21, *INPUTS[build])), random.integers(0, 5, (21, 1))
    if by_hand:
        for start in (0, 8, 16):
            model.label_tensor.set_tensor(model, labels[start : start + 8])
            x.set_tensor(model, data[start : start + 8])
            model.zero_gradients()
            model.forward()
            model.backward()
            model.update()
    else:
        model.fit(data, labels, epochs=2, verbose=0)
    layers = model.get_layers().values()
    weights = {p.name: p.get_weights() for layer in layers for p in layer.get_parameters()}
    return {**weights, "prediction": model.predict(data)}


def assert_equal(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> None:
    for (name, one), other in zip(ours.items(), theirs.values()):
        np.testing.assert_array_equal(one, other, err_msg=name)


DEVICES = [("float32", "cpu"), ("float64", "reference"), ("bfloat16", "cpu")]


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize(("dtype", "device"), DEVICES)
@pytest.mark.parametrize("build", INPUTS)
def test_the_same_bits(build: Build, dtype: str, device: str, by_hand: bool) -> None:
    """Dropout draws its mask again, statistics move once, workspaces come from the copy."""
    plain = trained(build, None, dtype, device, by_hand)
    everything = Strategy(1).recompute("*")
    assert_equal(trained(build, everything, dtype, device, by_hand), plain)


@pytest.mark.parametrize("build", INPUTS)
def test_the_same_bits_of_each_operator(build: Build) -> None:
    plain = trained(build, None, "float32", "cpu", False)
    model = FFModel(FFConfig())
    build(model, model.create_tensor([8, *INPUTS[build]]))
    for op in model.get_layers().values():
        assert_equal(trained(build, Strategy(1).recompute(op.name), "float32", "cpu", False), plain)


@pytest.mark.parametrize("build", INPUTS)
@pytest.mark.parametrize("strategy", [Strategy.data_parallel(3), Strategy.tensor_parallel(2)])
def test_several_devices(build: Build, strategy: Strategy) -> None:
    plain = trained(build, None, "float64", "reference", False)
    spared = Strategy.from_json(strategy.to_json()).recompute("*")
    ours = trained(build, spared, "float64", "reference", False)
    for (name, one), other in zip(ours.items(), plain.values()):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9, err_msg=name)


def plan_of(strategy: Strategy | None, step: str = "train") -> str:
    model = FFModel(FFConfig(batch_size=8))
    separate(model, model.create_tensor([8, *INPUTS[separate]]))
    model.compile(SGDOptimizer(model), SPARSE, strategy=strategy)
    return model.plan(step)


def test_a_fused_operator_goes_by_what_it_makes() -> None:
    """relu is fused into the operator before it, whose own output is nowhere; gelu's gradient
    wants its input, so that both are there."""
    assert "again" not in plan_of(Strategy(1).recompute("second"))
    assert "relu/again" in plan_of(Strategy(1).recompute("relu"))
    assert "first/again" in plan_of(Strategy(1).recompute("first"))


def test_what_is_read_anyway_is_not_made_again() -> None:
    """The prediction, and what nobody reads in the backward pass."""
    assert plan_of(Strategy(1).recompute("softmax*")) == plan_of(None)
    for step in ("evaluate", "predict"):
        assert plan_of(Strategy(1).recompute("*"), step) == plan_of(None, step)


def test_it_can_change_between_steps() -> None:
    models = [tower(None), tower(None)]
    random = np.random.default_rng(0)
    x, y = random.normal(size=(ROWS, WIDTH)), random.normal(size=(ROWS, 4))
    for strategy in (but_each_fourth(Strategy(1)), None):
        models[0].change_strategy(strategy)
        losses = [model.fit(x, y, verbose=0)[-1].loss for model in models]
        assert losses[0] == losses[1]


def test_a_chain_of_thousands() -> None:
    """Its copies hang one on the other."""
    model = FFModel(FFConfig(batch_size=2, device="reference"))
    t = model.create_tensor([2, 3])
    for _ in range(3000):
        t = model.sin(t)
    model.dense(t, 1)
    model.compile(SGDOptimizer(model), SQUARED, strategy=Strategy(1).recompute("sin*"))
    model.fit(np.ones((2, 3)), np.ones((2, 1)), verbose=0)
