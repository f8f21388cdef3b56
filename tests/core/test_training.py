"""Training: whole epochs, loops by hand, and what both give."""

from __future__ import annotations

import math
import re
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from core_models import ACCURACY, SPARSE, classifier, compiled, linear_regression, samples, weights

from flexflow.core import (
    ActiMode,
    AdamOptimizer,
    CompMode,
    FFConfig,
    FFModel,
    FlexFlowError,
    LossType,
    MetricsType,
    PerfMetrics,
    SGDOptimizer,
    SingleDataLoader,
)


def by_hand(ffmodel: FFModel, x: np.ndarray, y: np.ndarray, epochs: int, **keywords: Any) -> Any:
    """FlexFlow's loop; the metrics of each epoch."""
    config = ffmodel.ffconfig
    inputs = ffmodel.create_data_loader(
        ffmodel.get_layer_by_id(0).get_input_tensor(), x, **keywords
    )
    labels = ffmodel.create_data_loader(ffmodel.label_tensor, y, **keywords)
    ffmodel.init_layers()
    history = []
    for _ in range(epochs):
        inputs.reset()
        labels.reset()
        ffmodel.reset_metrics()
        for _ in range(len(inputs)):
            config.begin_trace(200)
            inputs.next_batch(ffmodel)
            labels.next_batch(ffmodel)
            ffmodel.forward()
            ffmodel.zero_gradients()
            ffmodel.backward()
            ffmodel.update()
            config.end_trace(200)
        history.append(ffmodel.get_perf_metrics())
    return history


def same(a: list[np.ndarray], b: list[np.ndarray]) -> None:
    for one, other in zip(a, b):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("keywords", [{}, {"shuffle": True}, {"drop_last": True}])
@pytest.mark.parametrize("kind", [SGDOptimizer, AdamOptimizer])
def test_by_hand_is_fit(kind: Any, keywords: dict[str, bool]) -> None:
    x, y = samples(29)
    first, second = classifier(), classifier()
    for ffmodel in (first, second):
        ffmodel.compile(kind(ffmodel), SPARSE, [ACCURACY])
    ours = by_hand(first, x, y, 3, **keywords)
    theirs = second.fit(x, y, epochs=3, verbose=0, **keywords)
    for one, other in zip(ours, theirs):
        assert one.samples == other.samples == (24 if "drop_last" in keywords else 29)
        np.testing.assert_allclose(one.loss, other.loss, rtol=1e-5)
        assert one.get_accuracy() == other.get_accuracy()
    same(weights(first), weights(second))


def test_loaders_and_arrays_are_the_same_to_fit() -> None:
    x, y = samples(29)
    first, second, third = compiled(), compiled(), compiled()
    loaders = [
        SingleDataLoader(ffmodel, tensor, array, 29, tensor.data_type, shuffle=True)
        for ffmodel in (first,)
        for tensor, array in (
            (ffmodel.get_layer_by_id(0).get_input_tensor(), x),
            (ffmodel.label_tensor, y),
        )
    ]
    given = [loaders[0]]
    first.fit(given, loaders[1], epochs=2, verbose=0)
    assert given == [loaders[0]]  # FlexFlow's fit appends y to it
    second.fit([x.tolist()], y.tolist(), epochs=2, shuffle=True, verbose=0)
    third.fit(x, y, shuffle=True, verbose=0)
    third.fit(x, y, shuffle=True, verbose=0)  # goes on with the next order
    same(weights(first), weights(second))
    same(weights(first), weights(third))


def test_shuffling_changes_the_order_and_loses_nothing() -> None:
    x = np.arange(23.0).reshape(23, 1)
    ffmodel = FFModel(FFConfig(seed=5))
    tensor = ffmodel.create_tensor([4, 1], "float64", name="x")
    ffmodel.identity(tensor)
    ffmodel.compile(comp_mode=CompMode.INFERENCE)
    loader = ffmodel.create_data_loader(tensor, x, shuffle=True)
    orders = []
    for _ in range(3):
        loader.reset()
        order = []
        for _ in range(len(loader)):
            rows = loader.next_batch(ffmodel)
            order += tensor.get_tensor().ravel().tolist()
            assert rows == min(4, 23 - len(order) + rows)
        orders.append(order)
    assert all(sorted(order) == x.ravel().tolist() for order in orders)
    assert len({tuple(order) for order in orders}) == 3


def test_a_last_smaller_batch_counts_by_its_size() -> None:
    ffmodel, layer = linear_regression()
    kernel, bias = (p.get_weights() for p in layer.get_parameters())
    x = np.random.default_rng(0).normal(size=(6, 2))
    y = np.zeros((6, 1))
    error = x @ kernel.T + bias
    metrics = ffmodel.eval(x, y, verbose=0)
    np.testing.assert_allclose(metrics.loss, (error**2).mean(), rtol=1e-12)
    # two steps, by hand: four rows, then two
    for rows in (slice(0, 4), slice(4, 6)):
        error = x[rows] @ kernel.T + bias
        kernel = kernel - 0.125 * 2 * error.T @ x[rows] / len(error)
        bias = bias - 0.125 * 2 * error.mean()
    ffmodel.fit(x, y, verbose=0)
    np.testing.assert_allclose(layer.get_weight_tensor().get_weights(), kernel, rtol=1e-12)
    np.testing.assert_allclose(layer.get_bias_tensor().get_weights(), bias, rtol=1e-12)


@pytest.mark.parametrize("batch_size", [1, 3, 8, 29, 100])
def test_any_batch_size(batch_size: int) -> None:
    x, y = samples(29)
    ffmodel = compiled(batch=8)
    expected = ffmodel.predict(x)
    np.testing.assert_allclose(ffmodel.predict(x, batch_size), expected, rtol=1e-5)
    assert ffmodel.fit(x, y, batch_size, verbose=0)[0].samples == 29
    assert ffmodel.eval(x, y, batch_size, verbose=0).samples == 29


def test_learning_rate_acts_at_once() -> None:
    x, y = samples(8)
    ffmodel = compiled(lr=0.0)
    optimizer = ffmodel.optimizer
    before = weights(ffmodel)
    ffmodel.fit(x, y, verbose=0)
    assert all(np.array_equal(a, b) for a, b in zip(before, weights(ffmodel)))
    assert optimizer is not None
    optimizer.set_learning_rate(0.5)
    assert ffmodel.get_scalar("learning_rate") == 0.5
    ffmodel.fit(x, y, verbose=0)
    assert not np.array_equal(before[0], weights(ffmodel)[0])
    with pytest.raises(ValueError, match="lr: got -1, expected a finite number"):
        optimizer.set_learning_rate(-1)


def test_optimizer_may_be_set_before_compile() -> None:
    ffmodel = classifier()
    ffmodel.optimizer = SGDOptimizer(ffmodel, lr=0.25)
    ffmodel.compile(loss_type=SPARSE, metrics=[])
    assert ffmodel.get_scalar("learning_rate") == 0.25


def test_adam_counts_its_steps() -> None:
    x, y = samples(8)
    ffmodel = classifier()
    ffmodel.compile(AdamOptimizer(ffmodel, alpha=0.125), SPARSE)
    before = weights(ffmodel)
    ffmodel.fit(x, y, verbose=0)
    assert ffmodel.get_scalar("step") == 1
    # the first step of Adam is alpha, whatever the size of the gradient
    moved = abs(weights(ffmodel)[2] - before[2])
    np.testing.assert_allclose(moved, 0.125, rtol=1e-3)


def test_flags_reach_training(command_line: Any) -> None:
    command_line("-b 4 --lr 0.75")
    config = FFConfig()
    ffmodel = FFModel(config)
    ffmodel.softmax(ffmodel.create_tensor([config.batch_size, 3], "float32"))
    ffmodel.compile(SGDOptimizer(ffmodel), SPARSE, [])
    assert ffmodel.get_scalar("learning_rate") == 0.75
    assert ffmodel.label_tensor.dims == (4, 1)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE, lambda p, y: ((p - y) ** 2).mean()),
        (LossType.LOSS_MEAN_SQUARED_ERROR_SUM_REDUCE, lambda p, y: ((p - y) ** 2).sum(1).mean()),
        (LossType.LOSS_MEAN_ABSOLUTE_ERROR, lambda p, y: abs(p - y).mean()),
        (LossType.LOSS_IDENTITY, lambda p, y: p.sum(1).mean()),
        (LossType.LOSS_CATEGORICAL_CROSSENTROPY, lambda p, y: -(y * np.log(p)).sum(1).mean()),
        (
            LossType.LOSS_BINARY_CROSSENTROPY,
            lambda p, y: -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean(),
        ),
    ],
)
def test_losses(loss: LossType, expected: Any) -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, size=(7, 3))
    y = np.eye(3)[rng.integers(0, 3, 7)]
    ffmodel = FFModel(FFConfig())
    ffmodel.identity(ffmodel.create_tensor([4, 3], "float64"))
    ffmodel.compile(None, loss, [])
    np.testing.assert_allclose(ffmodel.eval(p, y, verbose=0).loss, expected(p, y), rtol=1e-6)


def test_loss_attributes() -> None:
    logits = np.random.default_rng(0).normal(size=(8, 3))
    y = np.arange(8) % 3
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    ffmodel = FFModel(FFConfig())
    ffmodel.identity(ffmodel.create_tensor([8, 3], "float64"))
    ffmodel.compile(None, SPARSE, [], loss_attributes={"from_logits": True})
    expected = -log_p[np.arange(8), y].mean()
    np.testing.assert_allclose(ffmodel.eval(logits, y, verbose=0).loss, expected, rtol=1e-12)


def test_all_metrics() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 1, size=(7, 3))
    p /= p.sum(1, keepdims=True)
    y = np.eye(3)[rng.integers(0, 3, 7)]
    ffmodel = FFModel(FFConfig())
    ffmodel.identity(ffmodel.create_tensor([4, 3], "float64"))
    kinds = [kind for kind in MetricsType if "SPARSE" not in kind.name]
    ffmodel.compile(None, LossType.LOSS_CATEGORICAL_CROSSENTROPY, kinds)
    metrics = ffmodel.eval(p, y, verbose=0)
    hits = (p.argmax(1) == y.argmax(1)).mean()
    squares = ((p - y) ** 2).mean(1)
    expected = {
        "loss": -(y * np.log(p)).sum(1).mean(),
        "accuracy": hits,
        "categorical_crossentropy": -(y * np.log(p)).sum(1).mean(),
        "mean_squared_error": squares.mean(),
        "root_mean_squared_error": np.sqrt(squares).mean(),
        "mean_absolute_error": abs(p - y).mean(),
    }
    assert metrics.as_dict() == pytest.approx(expected)
    assert metrics.get_accuracy() == pytest.approx(100 * hits)
    with pytest.raises(ValueError, match="sparse_categorical_crossentropy was not measured"):
        metrics["sparse_categorical_crossentropy"]


def test_metrics_are_totals_since_the_reset() -> None:
    ffmodel = compiled()
    x, y = samples(8)
    ffmodel.get_layer_by_id(0).get_input_tensor().set_tensor(ffmodel, x)
    ffmodel.label_tensor.set_tensor(ffmodel, y)
    assert ffmodel.get_perf_metrics().samples == 0
    assert math.isnan(ffmodel.get_perf_metrics().loss)
    for times in (1, 2):
        ffmodel.forward()
        ffmodel.compute_metrics()
        ffmodel.compute_metrics()  # a batch counts once
        ffmodel.backward()
        assert ffmodel.get_perf_metrics().samples == 8 * times
    ffmodel.reset_metrics()
    assert ffmodel.get_perf_metrics().samples == 0


def test_eval_and_predict_are_in_inference_mode() -> None:
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([4, 50], "float32", name="x")
    ffmodel.dropout(x, 0.5)
    ffmodel.compile(None, LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE, [])
    data = np.ones((4, 50), "f")
    assert np.array_equal(ffmodel.predict(data), data)
    assert ffmodel.eval(data, data, verbose=0).loss == 0
    x.set_tensor(ffmodel, data)
    ffmodel.forward()
    assert set(np.unique(ffmodel.output_tensor.get_tensor())) == {0, 2}


def test_the_same_seed_trains_the_same() -> None:
    x, y = samples(29)
    runs = []
    for seed in (3, 3, 4):
        ffmodel = compiled(seed=seed)
        ffmodel.fit(x, y, epochs=2, shuffle=True, verbose=0)
        runs.append(weights(ffmodel)[0])
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_several_inputs() -> None:
    ffmodel = FFModel(FFConfig())
    a = ffmodel.create_tensor([4, 2], "float64", name="a")
    ffmodel.create_tensor([4, 9], "float64", name="unused")
    b = ffmodel.create_tensor([4, 2], "float64", name="b")
    ffmodel.subtract(a, b)
    ffmodel.compile(comp_mode=CompMode.INFERENCE)
    data = np.random.default_rng(0).normal(size=(2, 6, 2))
    assert np.array_equal(ffmodel.predict(list(data)), data[0] - data[1])
    with pytest.raises(ValueError, match=r"got 1 arrays, the model has 2 inputs \(a, b\)"):
        ffmodel.predict(data[0])


def test_an_input_called_label_is_no_label() -> None:
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([4, 2], "float64", name="label")
    ffmodel.scalar_multiply(x, 2.0)
    ffmodel.compile(None, LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE, [])
    assert ffmodel.label_tensor.id != x.id
    assert ffmodel.eval(np.ones((4, 2)), np.zeros((4, 2)), verbose=0).loss == 4


def test_output_can_be_chosen() -> None:
    ffmodel = classifier()
    logits = ffmodel.get_layer_by_name("top").get_output_tensor()
    ffmodel.compile(comp_mode=CompMode.INFERENCE, output=logits)
    x, _ = samples(8)
    hidden, bias, kernel, _ = weights(ffmodel)
    expected = np.maximum(x @ hidden.T + bias, 0) @ kernel.T
    np.testing.assert_allclose(ffmodel.predict(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64", "int32", "int64"])
def test_predict_in_every_type(name: str) -> None:
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([4, 2], name)
    ffmodel.reshape(x, [4, 2, 1])
    ffmodel.compile(comp_mode=CompMode.INFERENCE)
    data = np.arange(10).reshape(5, 2)
    assert np.array_equal(ffmodel.predict(data), data.reshape(5, 2, 1))


def test_lines(capsys: pytest.CaptureFixture[str], command_line: Any) -> None:
    x, y = samples(29)
    compiled().fit(x, y, epochs=2)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:10] for line in lines] == ["epoch 1/2:", "epoch 2/2:"]
    assert "samples/s, loss" in lines[0]
    assert "accuracy" in lines[0]
    compiled().fit(x, y, verbose=0)
    assert capsys.readouterr().out == ""
    command_line("-p 2")
    compiled().fit(x, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:17] for line in lines[:2]] == ["epoch 1/1, step 2", "epoch 1/1, step 4"]
    compiled(profiling=True).fit(x, y)
    assert "linear" in capsys.readouterr().out


@pytest.mark.parametrize("with_tqdm", [True, False])
def test_bar_on_a_terminal(
    with_tqdm: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    if with_tqdm:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    compiled().fit(*samples(29))
    out = capsys.readouterr().out
    assert "/29" in out
    assert out.splitlines()[-1].split("\r")[-1].startswith("epoch 1/1: ")


def _adds_up(report: str) -> bool:
    """The total of a memory report is that of all that it names, here so little that it is told in
    bytes."""
    (*parts, total) = (int(size) for size in re.findall(r"(?:\w+) (\d+) B(?=[,\n])", report))
    return len(parts) == 5 and ", total " in report and total == sum(parts) > 0


def test_plans_and_reports() -> None:
    ffmodel = compiled()
    for step in ("train", "evaluate", "predict", "manual"):
        assert "linear" in ffmodel.plan(step)
        assert _adds_up(ffmodel.memory_report(step))
    ffmodel.profile()
    ffmodel.fit(*samples(29), verbose=0)
    assert "linear" in ffmodel.profile_report()
    ffmodel.profile(False)


def test_ctrl_c_comes_through() -> None:
    # In the background of a shell, Python starts with Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    ffmodel = compiled(batch=1)
    x, y = samples(200_000)
    started = time.perf_counter()
    timer = threading.Timer(0.3, __import__("_thread").interrupt_main)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            ffmodel.fit(x, y, batch_size=1, epochs=1000, verbose=0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.perf_counter() - started < 5
    assert ffmodel.fit(x[:8], y[:8], verbose=0)[0].samples == 8


def test_perf_metrics_text() -> None:
    metrics = PerfMetrics({"samples": 4, "loss": 2.0, "correct": 3}, ["accuracy"])
    assert str(metrics) == "loss 0.5000, accuracy 75.00%"
    with pytest.raises(ValueError, match="accuracy was not measured"):
        PerfMetrics({"samples": 4, "loss": 2.0, "correct": 0}, []).get_accuracy()


def test_inference_models_cannot_train() -> None:
    ffmodel = classifier()
    ffmodel.compile(None, SPARSE, [ACCURACY], CompMode.INFERENCE)
    x, y = samples(8)
    assert ffmodel.eval(x, y, verbose=0).samples == 8
    with pytest.raises(FlexFlowError, match="compiled for inference"):
        ffmodel.fit(x, y)


def logits_model(**arguments: Any) -> FFModel:
    """Without a softmax at its end."""
    model = FFModel(FFConfig(batch_size=8))
    model.dense(model.create_tensor([8, 4], "float32"), 3, name="top")
    model.compile(
        SGDOptimizer(model, lr=1.0), LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, **arguments
    )
    return model


def test_a_forgotten_softmax_is_said_so() -> None:
    data = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    labels = data[:, :3].argmax(1)
    with pytest.warns(UserWarning, match=r"takes probabilities, but top gives any numbers; end"):
        model = logits_model()
    with pytest.raises(ValueError, match=r"the loss became -.*from_logits"):
        model.fit(data, labels, epochs=50, verbose=0)


def test_logits_are_taken_where_that_is_said(recwarn: pytest.WarningsRecorder) -> None:
    data = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    model = logits_model(loss_attributes={"from_logits": True})
    history = model.fit(data, data[:, :3].argmax(1), epochs=5, verbose=0)
    assert history[-1].loss < 0.5 * history[0].loss
    assert not recwarn.list


def test_what_objects_look_like() -> None:
    model = logits_model(loss_attributes={"from_logits": True})
    assert repr(model) == "<FFModel of 1 layers, compiled>"
    assert repr(model.ffconfig) == "FFConfig(batch_size=8)"
    assert repr(model.optimizer).startswith("<SGDOptimizer: learning_rate=1.0, momentum=0.0")


def test_weights_that_are_not_finite_do_not_hide() -> None:
    """A relu turns NaN into 0 on CPUs, and the loss looks well."""
    model = FFModel(FFConfig(batch_size=8))
    t = model.dense(model.create_tensor([8, 4], "float32"), 3, ActiMode.AC_MODE_RELU, name="first")
    model.softmax(model.dense(t, 3))
    model.compile(SGDOptimizer(model, lr=0.1), LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY)
    kernel = model.get_layer_by_name("first").get_weight_tensor()
    kernel.set_weights(model, np.full((3, 4), np.nan, np.float32))
    data, labels = np.ones((8, 4), np.float32), np.zeros(8, np.int32)
    for run in (model.eval, model.fit):
        with pytest.raises(FloatingPointError, match=r"first/kernel contains NaN|the loss became"):
            run(data, labels, verbose=0)
