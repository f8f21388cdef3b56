"""One optimised step, and the same step by hand in sections, compute the same; so do all ways to
cut the data."""

from __future__ import annotations

import numpy as np
import pytest
from engine_models import SHAPES, Build, cnn, compiled, mlp, regularised, resnet, samples, weights

from flexflow.core import FFModel

DEVICES = [("float64", "reference", 1e-10), ("float32", "cpu", 2e-4)]
MODELS = list(SHAPES)


def by_hand(model: FFModel, x: np.ndarray, y: np.ndarray, epochs: int) -> list[float]:
    """FlexFlow's loop; the loss of each epoch."""
    inputs = model.create_data_loader(model.get_layers()[0].get_input_tensor(), x)
    labels = model.create_data_loader(model.label_tensor, y)
    losses = []
    for _ in range(epochs):
        inputs.reset()
        labels.reset()
        model.reset_metrics()
        for _ in range(len(inputs)):
            inputs.next_batch(model)
            labels.next_batch(model)
            model.forward()
            model.zero_gradients()
            model.backward()
            model.update()
        losses.append(model.get_perf_metrics().loss)
    return losses


def assert_same(a: FFModel, b: FFModel, tolerance: float) -> None:
    for (name, one), other in zip(weights(a).items(), weights(b).values()):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize(("dtype", "device", "tolerance"), DEVICES)
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("build", MODELS)
def test_fit_is_the_manual_loop(
    build: Build, optimizer: str, dtype: str, device: str, tolerance: float
) -> None:
    """Batches of 8, 8 and 5."""
    x, y = samples(build, 21)
    rate = 0.002 if optimizer == "adam" else 0.02
    fitted, manual = (
        compiled(build, dtype=dtype, device=device, optimizer=optimizer, lr=rate) for _ in range(2)
    )
    losses = [metrics.loss for metrics in fitted.fit(x, y, epochs=3, verbose=0)]
    np.testing.assert_allclose(losses, by_hand(manual, x, y, 3), rtol=tolerance)
    assert_same(fitted, manual, tolerance)


@pytest.mark.parametrize(("dtype", "device", "tolerance"), DEVICES)
@pytest.mark.parametrize("build", MODELS)
def test_fusion_changes_nothing(build: Build, dtype: str, device: str, tolerance: float) -> None:
    x, y = samples(build, 21)
    models = [compiled(build, 8, dtype, device, perform_fusion=fuse) for fuse in (True, False)]
    for model in models:
        model.fit(x, y, epochs=2, verbose=0)
    assert_same(*models, tolerance)
    assert len(models[0].plan()) < len(models[1].plan())


@pytest.mark.parametrize("build", MODELS)
def test_devices_train_the_same(build: Build) -> None:
    """float32 on the CPU's kernels, float64 on the plain ones."""
    x, y = samples(build, 21)
    cpu, plain = compiled(build), compiled(build, dtype="float64", device="reference")
    for model in (cpu, plain):
        model.fit(x, y, epochs=2, verbose=0)
    assert_same(cpu, plain, 1e-3)
    np.testing.assert_allclose(cpu.predict(x), plain.predict(x), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("build", MODELS)
def test_evaluation_does_not_depend_on_the_batch_size(build: Build) -> None:
    """A last, smaller batch counts by its size."""
    x, y = samples(build, 23)
    model = compiled(build, dtype="float64", device="reference")
    model.fit(x, y, verbose=0)
    whole = model.eval(x, y, batch_size=23, verbose=0)
    predictions = model.predict(x, batch_size=23)
    for size in (1, 4, 8, 22, 100):
        part = model.eval(x, y, batch_size=size, verbose=0)
        np.testing.assert_allclose(part.loss, whole.loss, rtol=1e-12)
        assert part.get_accuracy() == whole.get_accuracy()
        assert part.samples == 23
        np.testing.assert_allclose(model.predict(x, batch_size=size), predictions, rtol=1e-10)


@pytest.mark.parametrize("build", [mlp, cnn, resnet])
def test_a_tail_is_a_step_of_its_size(build: Build) -> None:
    """Steps of 8 and 5 rows, whether the 5 are a tail or a batch."""
    x, y = samples(build, 13)
    tail, parts = (compiled(build, dtype="float64", device="reference") for _ in range(2))
    tail.fit(x, y, verbose=0)
    parts.fit(x[:8], y[:8], verbose=0)
    parts.fit(x[8:], y[8:], batch_size=5, verbose=0)
    assert_same(tail, parts, 1e-12)


@pytest.mark.parametrize("build", [mlp, cnn, regularised])
def test_training_predicting_and_evaluating_take_turns(build: Build) -> None:
    """Plans share their memory and the state; none disturbs another."""
    x, y = samples(build, 21)
    plain, busy = (compiled(build, dtype="float64", device="reference") for _ in range(2))
    for _ in range(3):
        plain.fit(x, y, verbose=0)
    for size in (8, 3, 21):
        busy.predict(x, batch_size=size)
        busy.fit(x, y, verbose=0)
        busy.eval(x, y, batch_size=size, verbose=0)
    assert_same(plain, busy, 1e-12)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("build", [mlp, cnn])
def test_any_number_of_threads(build: Build, threads: int) -> None:
    x, y = samples(build, 21)
    one, many = compiled(build, threads=1), compiled(build, threads=threads)
    for model in (one, many):
        model.fit(x, y, epochs=2, verbose=0)
    assert_same(one, many, 2e-4)


@pytest.mark.parametrize("build", MODELS)
def test_it_learns(build: Build) -> None:
    x, y = samples(build, 200)
    model = compiled(build, batch=20, optimizer="adam", lr=0.01)
    model.fit(x, y, epochs=15, verbose=0)
    assert model.eval(*samples(build, 100, seed=1), verbose=0).get_accuracy() > 85
