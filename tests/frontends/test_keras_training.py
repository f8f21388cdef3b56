"""fit, evaluate and predict of flexflow.keras: numbers, data, and what a user sees of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from flexflow.keras import (
    Input,
    Model,
    Sequential,
    callbacks,
    layers,
    losses,
    metrics,
    optimizers,
    regularizers,
    utils,
)
from flexflow.keras.optimizers import schedules


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def line(features: int = 2, outputs: int = 1, **arguments: object) -> Sequential:
    """A linear model with random weights."""
    model = Sequential([layers.Dense(outputs, input_shape=(features,), **arguments)])
    model.set_weights([random(*w.shape, seed=i + 5) for i, w in enumerate(model.weights)])
    return model


# ---- losses and metrics ----

IDS = np.array([0, 2, 1, 1, 2, 0, 1])
ONE_HOT = utils.to_categorical(IDS, 3)
LOSSES: dict[str, tuple[object, str, np.ndarray, Callable[..., torch.Tensor]]] = {
    "sparse": (
        "sparse_categorical_crossentropy",
        "softmax",
        IDS,
        lambda z: F.cross_entropy(z, torch.tensor(IDS)),
    ),
    "sparse, a column": (
        losses.SparseCategoricalCrossentropy(from_logits=True),
        "linear",
        IDS[:, None].astype(float),
        lambda z: F.cross_entropy(z, torch.tensor(IDS)),
    ),
    "categorical": (
        "categorical_crossentropy",
        "softmax",
        ONE_HOT,
        lambda z: F.cross_entropy(z, torch.tensor(ONE_HOT)),
    ),
    "categorical, smoothed logits": (
        losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.3),
        "linear",
        ONE_HOT,
        lambda z: F.cross_entropy(z, torch.tensor(ONE_HOT), label_smoothing=0.3),
    ),
    "binary": (
        "binary_crossentropy",
        "sigmoid",
        ONE_HOT,
        lambda z: F.binary_cross_entropy_with_logits(z, torch.tensor(ONE_HOT)),
    ),
    "binary logits": (
        losses.BinaryCrossentropy(from_logits=True),
        "linear",
        ONE_HOT,
        lambda z: F.binary_cross_entropy_with_logits(z, torch.tensor(ONE_HOT)),
    ),
    "mse": ("mse", "linear", ONE_HOT, lambda z: F.mse_loss(z, torch.tensor(ONE_HOT))),
    "mae": (
        losses.MeanAbsoluteError,
        "linear",
        ONE_HOT,
        lambda z: F.l1_loss(z, torch.tensor(ONE_HOT)),
    ),
    "identity": ("identity", "linear", ONE_HOT, lambda z: z.sum() / len(z)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_their_gradients(name: str) -> None:
    loss, activation, labels, expected = LOSSES[name]
    model = line(4, 3, activation=activation)
    kernel, bias = (torch.tensor(w, requires_grad=True) for w in model.get_weights())
    x = random(7, 4)
    value = expected(torch.tensor(x) @ kernel + bias)
    value.backward()
    model.compile(optimizers.SGD(0.5), loss)
    # 3 does not divide 7: the last batch counts by its size.
    assert model.evaluate(x, labels, batch_size=3, verbose=0) == pytest.approx(
        value.item(), rel=1e-5
    )
    assert model.train_on_batch(x, labels) == pytest.approx(value.item(), rel=1e-5)
    for now, before in zip(model.get_weights(), (kernel, bias)):
        np.testing.assert_allclose(now, (before - 0.5 * before.grad).detach(), 1e-4, 1e-6)


def test_loss_over_sequences_counts_every_position() -> None:
    model = Sequential([layers.Dense(3, activation="softmax", input_shape=(5, 2))])
    x, ids = random(4, 5, 2), np.arange(20).reshape(4, 5) % 3
    model.compile("sgd", "sparse_categorical_crossentropy", ["accuracy"])
    p = model.predict(x, verbose=0)
    expected = -np.log(np.take_along_axis(p, ids[..., None], 2)).mean()
    loss, accuracy = model.evaluate(x, ids, batch_size=3, verbose=0)
    assert loss == pytest.approx(expected, rel=1e-5)
    assert accuracy == pytest.approx((p.argmax(2) == ids).mean())


@pytest.mark.parametrize(
    ("loss", "labels", "kind"),
    [
        ("sparse_categorical_crossentropy", IDS, metrics.SparseCategoricalAccuracy()),
        ("sparse_categorical_crossentropy", IDS[:, None], "acc"),
        ("categorical_crossentropy", ONE_HOT, metrics.CategoricalAccuracy(name="acc")),
        ("mse", ONE_HOT, metrics.Accuracy),
    ],
)
def test_accuracy_of_classes(loss: str, labels: np.ndarray, kind: object) -> None:
    model = line(4, 3, activation="softmax")
    model.compile("sgd", loss, [kind])
    x = random(7, 4)
    right = (model.predict(x, verbose=0).argmax(1) == IDS).mean()
    assert model.evaluate(x, labels, batch_size=3, verbose=0)[1] == pytest.approx(right)
    assert model.metrics_names == ["loss", metrics.get(kind).name]


@pytest.mark.parametrize("labels", [IDS > 0, (IDS > 0)[:, None].astype(int)])
@pytest.mark.parametrize("kind", ["accuracy", "binary_accuracy"])
def test_accuracy_of_one_value_is_cut_at_a_half(labels: np.ndarray, kind: str) -> None:
    model = line(4, 1, activation="sigmoid")
    model.compile("sgd", "bce", [kind])
    x = random(7, 4)
    right = ((model.predict(x, verbose=0)[:, 0] > 0.5) == (IDS > 0)).mean()
    assert 0 < right < 1
    assert model.evaluate(x, labels, batch_size=2, verbose=0, return_dict=True)[
        kind
    ] == pytest.approx(right)


def test_metrics_of_values() -> None:
    model = line(4, 3)
    model.compile(
        "sgd", "mae", ["mse", metrics.RootMeanSquaredError(name="rmse"), "mean_absolute_error"]
    )
    x, y = random(7, 4), random(7, 3, seed=1)
    error = model.predict(x, verbose=0) - y
    found = model.evaluate(x, y, batch_size=3, verbose=0, return_dict=True)
    expected = {"mse": np.square(error).mean(), "mean_absolute_error": np.abs(error).mean()}
    expected |= {"loss": np.abs(error).mean(), "rmse": np.sqrt(np.square(error).mean())}
    assert found == pytest.approx(expected, rel=1e-5)
    assert list(found) == model.metrics_names


# ---- optimizers and regularizers ----

OPTIMIZERS = {
    "sgd": (lambda: optimizers.SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "sgd with decay": (
        lambda: optimizers.SGD(0.1, weight_decay=0.2),
        lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.2),
    ),
    "momentum": (lambda: optimizers.SGD(0.1, 0.9), lambda p: torch.optim.SGD(p, 0.1, 0.9)),
    "nesterov": (
        lambda: optimizers.SGD(0.1, 0.8, True),
        lambda p: torch.optim.SGD(p, 0.1, 0.8, nesterov=True),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_sgd_takes_pytorchs_steps(name: str) -> None:
    ours, theirs = OPTIMIZERS[name]
    model = line()
    weights = [torch.tensor(w, requires_grad=True) for w in model.get_weights()]
    x, y = random(6, 2), random(6, 1, seed=1)
    model.compile(ours(), "mse")
    model.fit(x, y, batch_size=6, epochs=5, verbose=0)
    optimizer = theirs(weights)
    for _ in range(5):
        optimizer.zero_grad()
        F.mse_loss(torch.tensor(x) @ weights[0] + weights[1], torch.tensor(y)).backward()
        optimizer.step()
    for now, expected in zip(model.get_weights(), weights):
        np.testing.assert_allclose(now, expected.detach(), 1e-4, 1e-6)


def test_global_clipnorm_is_of_all_gradients_together() -> None:
    model = line()
    weights = [torch.tensor(w, requires_grad=True) for w in model.get_weights()]
    x, y = random(6, 2), 10 + random(6, 1, seed=1)
    model.compile(optimizers.SGD(0.1, 0.5, global_clipnorm=0.3), "mse")
    model.fit(x, y, batch_size=6, epochs=4, verbose=0)
    optimizer = torch.optim.SGD(weights, 0.1, 0.5)
    for _ in range(4):
        optimizer.zero_grad()
        F.mse_loss(torch.tensor(x) @ weights[0] + weights[1], torch.tensor(y)).backward()
        assert torch.nn.utils.clip_grad_norm_(weights, 0.3) > 1
        optimizer.step()
    for now, expected in zip(model.get_weights(), weights):
        np.testing.assert_allclose(now, expected.detach(), 1e-4, 1e-6)


# What Keras documents them to be in steps 0, 1, ...
SCHEDULES = {
    "exponential": (schedules.ExponentialDecay(0.1, 3, 0.5), lambda s: 0.1 * 0.5 ** (s / 3)),
    "staircase": (
        schedules.ExponentialDecay(0.1, 3, 0.5, staircase=True),
        lambda s: 0.1 * 0.5 ** (s // 3),
    ),
    "polynomial": (
        schedules.PolynomialDecay(0.1, 4, 0.01, power=2.0),
        lambda s: 0.09 * (1 - min(s, 4) / 4) ** 2 + 0.01,
    ),
    "pieces": (
        schedules.PiecewiseConstantDecay([1, 4], [0.1, 0.05, 0.2]),
        lambda s: 0.1 if s <= 1 else 0.05 if s <= 4 else 0.2,
    ),
    "cosine": (
        schedules.CosineDecay(0.1, 5, alpha=0.2),
        lambda s: 0.1 * (0.8 * (1 + np.cos(np.pi * min(s, 5) / 5)) / 2 + 0.2),
    ),
    "warm-up": (
        schedules.CosineDecay(0.02, 4, warmup_target=0.1, warmup_steps=2),
        lambda s: 0.02 + 0.04 * s if s < 2 else 0.05 * (1 + np.cos(np.pi * min(s - 2, 4) / 4)),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str) -> None:
    """Each step has its rate, whatever the epochs."""
    schedule, formula = SCHEDULES[name]
    model = line()
    weights = [torch.tensor(w, requires_grad=True) for w in model.get_weights()]
    x, y = random(6, 2), random(6, 1, seed=1)
    model.compile(optimizers.SGD(schedule), "mse")
    model.fit(x, y, batch_size=3, epochs=4, verbose=0, shuffle=False)
    for s in range(8):
        rows = slice(0, 3) if s % 2 == 0 else slice(3, 6)
        optimizer = torch.optim.SGD(weights, float(formula(s)))
        optimizer.zero_grad()
        error = torch.tensor(x[rows]) @ weights[0] + weights[1]
        F.mse_loss(error, torch.tensor(y[rows])).backward()
        optimizer.step()
    for now, expected in zip(model.get_weights(), weights):
        np.testing.assert_allclose(now, expected.detach(), 1e-4, 1e-6)


def test_a_schedule_belongs_to_the_optimizer() -> None:
    schedule = schedules.CosineDecay(0.1, 5)
    model = line()
    model.compile(optimizers.Adam(learning_rate=schedule), "mse")
    assert model.optimizer.learning_rate is schedule
    halve = callbacks.LearningRateScheduler(lambda epoch: 0.1)
    with pytest.raises(TypeError, match=r"follows <CosineDecay: .*initial=0.1.* cannot be set"):
        model.fit(random(6, 2), random(6, 1), callbacks=[halve], verbose=0)


def test_adam_takes_keras_steps() -> None:
    """Keras divides by sqrt(v) + epsilon before the correction of v; with a large epsilon that
    shows.
    """
    model = line(use_bias=False)
    (w,) = (w.astype(np.float64) for w in model.get_weights())
    x, y = random(6, 2), random(6, 1, seed=1)
    model.compile(optimizers.Adam(0.1, beta_1=0.8, beta_2=0.95, epsilon=1e-2), "mse")
    model.fit(x, y, batch_size=6, epochs=4, verbose=0)
    m = v = np.zeros_like(w)
    for t in range(1, 5):
        g = 2 * x.T @ (x @ w - y) / 6
        m, v = 0.8 * m + 0.2 * g, 0.95 * v + 0.05 * g * g
        w = w - 0.1 * np.sqrt(1 - 0.95**t) / (1 - 0.8**t) * m / (np.sqrt(v) + 1e-2)
    np.testing.assert_allclose(model.get_weights()[0], w, 1e-4)


def test_compile_starts_the_optimizer_anew() -> None:
    x, y = random(6, 2), random(6, 1, seed=1)

    def trained(recompile: bool) -> np.ndarray:
        model = line()
        model.compile(optimizers.SGD(0.1, 0.9), "mse")
        model.train_on_batch(x, y)
        if recompile:
            model.compile(optimizers.SGD(0.1, 0.9), "mse")
        model.train_on_batch(x, y)
        return model.get_weights()[0]

    assert np.abs(trained(True) - trained(False)).max() > 1e-3


@pytest.mark.parametrize("batch_size", [2, 4])
def test_regularizers_are_in_loss_and_gradient(batch_size: int) -> None:
    x, y = random(4, 2), random(4, 1, seed=1)
    model = line(kernel_regularizer=regularizers.L1L2(0.1, 0.3), bias_regularizer="l2")
    weights = [torch.tensor(w, requires_grad=True) for w in model.get_weights()]
    model.compile(optimizers.SGD(0.1), "mse")

    def loss(begin: int, end: int) -> torch.Tensor:
        kernel, bias = weights
        data = F.mse_loss(torch.tensor(x[begin:end]) @ kernel + bias, torch.tensor(y[begin:end]))
        return (
            data
            + 0.1 * kernel.abs().sum()
            + 0.3 * kernel.square().sum()
            + 0.01 * bias.square().sum()
        )

    assert model.evaluate(x, y, verbose=0) == pytest.approx(loss(0, 4).item(), rel=1e-5)
    seen = []
    for begin in range(0, 4, batch_size):
        value = loss(begin, begin + batch_size)
        seen.append(value.item())
        value.backward()
        with torch.no_grad():
            for w in weights:
                w -= 0.1 * w.grad
                w.grad = None
    history = model.fit(x, y, batch_size=batch_size, shuffle=False, verbose=0).history
    assert history["loss"] == pytest.approx([np.mean(seen)], rel=1e-5)
    for now, expected in zip(model.get_weights(), weights):
        np.testing.assert_allclose(now, expected.detach(), 1e-4, 1e-6)


# ---- data ----


def steps_by_hand(
    weights: list[np.ndarray], batches: list[tuple[np.ndarray, np.ndarray]], rate: float
) -> list[float]:
    """SGD on a linear model, in place; returns the losses."""
    found = []
    for x, y in batches:
        error = x @ weights[0] + weights[1] - y
        found.append(float(np.square(error).mean()))
        weights[0] -= rate * 2 * x.T @ error / len(x)
        weights[1] -= rate * 2 * error.mean(0)
    return found


def test_a_smaller_last_batch_is_trained_on_and_counts_by_its_size() -> None:
    x, y = random(10, 2), random(10, 1, seed=1)
    model = line()
    weights = model.get_weights()
    found = steps_by_hand(weights, [(x[i : i + 4], y[i : i + 4]) for i in (0, 4, 8)], 0.1)
    model.compile(optimizers.SGD(0.1), "mse")
    history = model.fit(x, y, batch_size=4, shuffle=False, verbose=0).history
    assert history["loss"] == pytest.approx([np.average(found, weights=[4, 4, 2])], rel=1e-5)
    for now, expected in zip(model.get_weights(), weights):
        np.testing.assert_allclose(now, expected, 1e-5)


@pytest.mark.parametrize("batch_size", [1, 4, 32])
def test_every_sample_is_evaluated_and_predicted(batch_size: int) -> None:
    model = line()
    model.compile("sgd", "mse")
    x, y = random(10, 2), random(10, 1, seed=1)
    expected = x @ model.get_weights()[0] + model.get_weights()[1]
    np.testing.assert_allclose(model.predict(x, batch_size, verbose=0), expected, 1e-5, 1e-6)
    assert model.evaluate(x, y, batch_size, verbose=0) == pytest.approx(
        np.square(expected - y).mean(), rel=1e-5
    )
    assert model.predict(x, 3, verbose=0, steps=2).shape == (6, 1)


def test_validation_is_on_the_last_part_before_shuffling() -> None:
    x, y = random(10, 2), random(10, 1, seed=1)
    model, other = line(), line()
    for m in (model, other):
        m.compile(optimizers.SGD(0.1), "mse")
    utils.set_random_seed(0)
    history = model.fit(x, y, epochs=2, batch_size=7, validation_split=0.3, verbose=0).history
    other.fit(x[:7], y[:7], epochs=2, batch_size=7, verbose=0)
    assert history["val_loss"][1] == pytest.approx(
        other.evaluate(x[7:], y[7:], verbose=0), rel=1e-5
    )
    assert history["val_loss"][1] == pytest.approx(
        model.evaluate(x[7:], y[7:], verbose=0), rel=1e-6
    )


def test_validation_does_not_disturb_training() -> None:
    x, y = random(10, 2), random(10, 1, seed=1)

    def loss(**arguments: object) -> list[float]:
        utils.set_random_seed(3)
        model = line()
        model.compile(optimizers.SGD(0.1, 0.9), "mse")
        return model.fit(x, y, batch_size=4, epochs=4, verbose=0, **arguments).history["loss"]

    assert loss() == loss(validation_data=(x, y), validation_batch_size=3)


def test_shuffling_takes_each_sample_once_in_a_new_order_each_epoch() -> None:
    """With batches of one and the identity loss, a step moves a weight by its one sample."""
    model = Sequential([layers.Dense(1, use_bias=False, input_shape=(1,))])
    model.compile(optimizers.SGD(1.0), "identity")
    x = 2.0 ** np.arange(6)
    weights, orders = [model.get_weights()[0][0, 0]], []

    class Watch(callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            weights.append(model.get_weights()[0][0, 0])

    for _ in range(2):
        model.fit(x, batch_size=1, epochs=2, callbacks=[Watch()], verbose=0)
    steps = np.round(-np.diff(weights)).reshape(4, 6)
    orders = [tuple(row) for row in steps]
    assert all(sorted(order) == list(x) for order in orders)
    assert len(set(orders)) == 4


def test_a_seed_repeats_weights_shuffling_and_dropout() -> None:
    def run(seed: int) -> list[float]:
        utils.set_random_seed(seed)
        model = Sequential(
            [layers.Dense(8, input_shape=(2,)), layers.Dropout(0.5), layers.Dense(1)]
        )
        model.compile("sgd", "mse")
        return model.fit(random(20, 2), random(20, 1), epochs=3, batch_size=4, verbose=0).history[
            "loss"
        ]

    assert run(1) == run(1) != run(2)


def test_several_inputs_as_list_and_dict_and_lists_of_numbers() -> None:
    a, b = Input((2,), name="a"), Input((1,), name="b")
    model = Model([a, b], layers.Dense(1)(layers.concatenate([a, b])))
    model.compile("sgd", "mse")
    x, z, y = random(6, 2), random(6), random(6)
    first = model.evaluate([x, z], y, verbose=0)
    assert model.evaluate({"b": z, "a": x.tolist()}, [y], verbose=0) == pytest.approx(first)


def test_integers_and_doubles_are_taken_as_they_come() -> None:
    model = line()
    x = np.arange(8).reshape(4, 2)
    for dtype in (np.uint8, np.int64, np.float64, np.float16):
        expected = x @ model.get_weights()[0] + model.get_weights()[1]
        np.testing.assert_allclose(model.predict(x.astype(dtype), verbose=0), expected, 1e-5)


def test_one_batch_methods_return_the_values_of_that_batch_alone() -> None:
    x, y = random(6, 2), random(6, 1, seed=1)
    model = line()
    model.compile(optimizers.SGD(0.1), "mse", ["mae"])
    for _ in range(2):
        before = model.test_on_batch(x, y, return_dict=True)
        found = model.train_on_batch(x, y)
        assert found == pytest.approx([before["loss"], before["mae"]], rel=1e-6)
    np.testing.assert_array_equal(model.predict_on_batch(x), model.predict(x, 6, verbose=0))


def test_a_model_that_only_predicts_needs_no_loss() -> None:
    model = line()
    expected = model.predict(random(3, 2), verbose=0)
    model.compile()
    np.testing.assert_array_equal(model.predict(random(3, 2), verbose=0), expected)
    with pytest.raises(RuntimeError, match="given no loss"):
        model.evaluate(random(3, 2), random(3, 1))
