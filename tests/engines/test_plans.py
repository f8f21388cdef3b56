"""Printed plans, and what holds for the plans of any model.

Every plan that any test makes passes the engine "null" as well (tests/conftest.py sees to it).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from engine_models import SHAPES, SPARSE, Build, built, cnn, compiled, mlp, resnet, samples
from hypothesis import given
from hypothesis import strategies as st

from flexflow.core import (
    CompMode,
    FFConfig,
    FFModel,
    LossType,
    PoolType,
    SGDOptimizer,
    Strategy,
    Tensor,
)

STEPS = ["train", "evaluate", "predict", "manual"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("build", [mlp, cnn, resnet])
def test_golden(build: Build, step: str, golden: Callable[[str, str], None]) -> None:
    """On the reference kernels, since the layouts of others depend on the processor."""
    model = compiled(build, device="reference", optimizer="momentum")
    golden(f"{build.__name__}_{step}.txt", model.plan(step))


STRATEGIES = {
    "data_parallel": Strategy.data_parallel(2),
    "tensor_parallel": Strategy.tensor_parallel(2),
    "shared_updates": Strategy.data_parallel(2).share_updates(),
    "placement": Strategy(2).split("down", start=1),
    "pipeline": Strategy.hybrid(pp=2, micro_batches=2),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_golden_of_strategies(name: str, golden: Callable[[str, str], None]) -> None:
    """Of the block of Megatron-LM: columns, an activation, rows."""
    model = FFModel(FFConfig(batch_size=4, device="reference"))
    t = model.dense(model.create_tensor([4, 6], name="x"), 8, name="up")
    model.dense(model.gelu(t, name="gelu"), 6, name="down")
    optimizer = SGDOptimizer(model, lr=0.1, momentum=0.9)
    loss = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
    model.compile(optimizer, loss, strategy=STRATEGIES[name])
    golden(f"strategies/{name}.txt", model.plan())


@pytest.mark.parametrize("build", SHAPES)
def test_plans_are_the_same_every_time(build: Build) -> None:
    first, second = compiled(build), compiled(build)
    for step in STEPS:
        assert first.plan(step) == second.plan(step) == first.plan(step)


@pytest.mark.parametrize("build", SHAPES)
def test_the_engine_that_checks_sees_the_same_plan(build: Build) -> None:
    checked, local = (compiled(build, engine=name, threads=1) for name in ("null", "local"))
    for step in STEPS:
        assert checked.plan(step) == local.plan(step)
    # It runs and computes nothing.
    x, _ = samples(build, 13)
    assert not checked.predict(x).any()


@pytest.mark.parametrize("build", SHAPES)
def test_a_plan_for_inference_needs_less(build: Build) -> None:
    model = compiled(build)
    train, predict = model.plan("train"), model.plan("predict")
    assert "backward:" in train
    for word in ("backward:", "update:", "loss:", "_grad", "sgd"):
        assert word not in predict
    assert "loss:" in model.plan("evaluate")


def test_inference_models_have_no_optimizer_states() -> None:
    model = built(cnn, 8, "float32", "cpu")
    model.compile(None, SPARSE, [], CompMode.INFERENCE)
    assert "optimizer/" not in model.plan("evaluate")


# ---- random models ----

IMAGE = (3, 9, 7)
LAYERS: dict[str, Callable[[FFModel, Tensor], Tensor]] = {
    "conv": lambda m, x: m.conv2d(x, 4, 3, 3, 1, 1, 1, 1),
    "strided": lambda m, x: m.conv2d(x, 6, 3, 2, 2, 1, padding="same"),
    "grouped": lambda m, x: m.conv2d(x, x.dims[1], 3, 3, 1, 1, 1, 1, groups=x.dims[1]),
    "norm": lambda m, x: m.batch_norm(x),
    "layer_norm": lambda m, x: m.layer_norm(x, [-1]),
    "relu": lambda m, x: m.relu(x),
    "gelu": lambda m, x: m.gelu(x),
    "average": lambda m, x: m.pool2d(x, 2, 2, 1, 1, 1, 1, PoolType.POOL_AVG),
    "maximum": lambda m, x: m.pool2d(x, 3, 3, 1, 1, 1, 1),
    "dropout": lambda m, x: m.dropout(x, 0.3, 1),
    "softmax": lambda m, x: m.softmax(x, 1),
    "transpose": lambda m, x: m.transpose(x, [0, 1, 3, 2]),
    "reshape": lambda m, x: m.reshape(x, [x.dims[0], x.dims[1], 1, -1]),
    "split": lambda m, x: m.concat(m.split(x, [1, x.dims[1] - 1], 1)[::-1], 1),
    "residual": lambda m, x: m.add(x, m.tanh(x)),
    "scaled": lambda m, x: m.multiply(x, m.sigmoid(m.reduce_mean(x, [2, 3], keepdims=True))),
    "twice": lambda m, x: m.concat([x, m.sin(x)], 1),
    "view": lambda m, x: m.add(m.identity(m.reshape(x, list(x.dims))), x),
}


def random_model(layers: list[str], dtype: str, device: str, **config: object) -> FFModel:
    model = FFModel(FFConfig(device=device, **config))
    x = model.create_tensor([4, *IMAGE], dtype, name="x")
    for name in layers:
        x = LAYERS[name](model, x)
    # Bounded, since a loss on probabilities clips what a loss on logits does not.
    model.softmax(model.dense(model.tanh(model.flat(x)), 3))
    model.compile(SGDOptimizer(model, lr=0.01, momentum=0.5), SPARSE)
    return model


@given(st.lists(st.sampled_from(sorted(LAYERS)), max_size=6))
def test_random_models(layers: list[str]) -> None:
    """Fused or not, in sections or in one step: the same weights after steps of 4 and 3 rows."""
    random = np.random.default_rng(0)
    x = random.normal(size=(7, *IMAGE))
    y = random.integers(0, 3, size=(7, 1))
    fused = random_model(layers, "float64", "reference")
    plain = random_model(layers, "float64", "reference", perform_fusion=False)
    by_hand = random_model(layers, "float64", "reference")
    fused.fit(x, y, verbose=0)
    plain.fit(x, y, verbose=0)
    inputs = by_hand.get_layers()[0].get_input_tensor()
    for rows in (slice(0, 4), slice(4, 7)):
        by_hand.label_tensor.set_tensor(by_hand, y[rows])
        inputs.set_tensor(by_hand, x[rows])
        by_hand.forward()
        by_hand.zero_gradients()
        by_hand.backward()
        by_hand.update()
    for ours, other, third in zip(*(trained(m) for m in (fused, plain, by_hand))):
        np.testing.assert_allclose(ours, other, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(ours, third, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(fused.predict(x), plain.predict(x), rtol=1e-9)


@given(st.lists(st.sampled_from(sorted(set(LAYERS) - {"maximum"})), max_size=5))
def test_random_models_on_two_devices(layers: list[str]) -> None:
    """Predictions of the CPU's kernels are those of the plain ones; no maximum, which may tie."""
    x = np.random.default_rng(0).normal(size=(7, *IMAGE)).astype(np.float32)
    cpu = random_model(layers, "float32", "cpu")
    plain = random_model(layers, "float64", "reference")
    np.testing.assert_allclose(cpu.predict(x), plain.predict(x), rtol=2e-4, atol=1e-5)


def trained(model: FFModel) -> list[np.ndarray]:
    layers = model.get_layers().values()
    return [p.get_weights() for layer in layers for p in layer.get_parameters()]
