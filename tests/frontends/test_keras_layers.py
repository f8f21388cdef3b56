"""Every layer of flexflow.keras against PyTorch: outputs, and all weights after a step of training.

A case is a layer behind a Dense, so that the step also goes through the layer's gradient with
respect to its input.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from flexflow.keras import Input, Model, layers, optimizers, utils

RATE = 0.5
RTOL, ATOL = 2e-4, 2e-5

Weights = list[torch.Tensor]


class Case(NamedTuple):
    """A layer, the shape of a sample, and what the layer computes from its input and weights, in
    Keras's layout.
    """

    layer: Callable[[], layers.Layer]
    shape: tuple[int, ...]
    expected: Callable[[torch.Tensor, Weights], torch.Tensor]


def first(x: torch.Tensor) -> torch.Tensor:
    """Channels from the last axis to axis 1."""
    return x.movedim(-1, 1)


def last(x: torch.Tensor) -> torch.Tensor:
    return x.movedim(1, -1)


def pad_same(
    x: torch.Tensor, window: int, stride: int, dilation: int = 1, value: float = 0.0
) -> torch.Tensor:
    """Keras's "same": what is uneven goes to the end."""
    pads: list[int] = []
    for size in (x.shape[3], x.shape[2]):
        reach = dilation * (window - 1) + 1
        total = max((math.ceil(size / stride) - 1) * stride + reach - size, 0)
        pads += [total // 2, total - total // 2]
    return F.pad(x, pads, value=value)


def conv(
    x: torch.Tensor, w: Weights, stride: int = 1, groups: int = 1, dilation: int = 1
) -> torch.Tensor:
    bias = w[1] if len(w) > 1 else None
    return F.conv2d(x, w[0].permute(3, 2, 0, 1), bias, stride, 0, dilation, groups)


def average_same(x: torch.Tensor, window: int, stride: int) -> torch.Tensor:
    """The mean of what lies inside of the image."""
    padded = pad_same(x, window, stride)
    inside = pad_same(torch.ones_like(x), window, stride)
    return F.avg_pool2d(padded, window, stride) / F.avg_pool2d(inside, window, stride)


def batch_norm(x: torch.Tensor, w: Weights, axis: int, eps: float = 1e-3) -> torch.Tensor:
    others = [i for i in range(x.ndim) if i != axis % x.ndim]
    mean, var = x.mean(others, keepdim=True), x.var(others, unbiased=False, keepdim=True)
    shape = [1] * x.ndim
    shape[axis] = -1
    return (x - mean) / torch.sqrt(var + eps) * w[0].view(shape) + w[1].view(shape)


def lstm(x: torch.Tensor, w: Weights) -> torch.Tensor:
    """The hidden states after all steps; Keras's gates are in PyTorch's order."""
    units = w[1].shape[0]
    bias = [w[2], torch.zeros_like(w[2])] if len(w) > 2 else []
    state = [torch.zeros(1, len(x), units)] * 2
    kernels = [w[0].T.contiguous(), w[1].T.contiguous()]
    return torch.lstm(x, state, kernels + bias, bool(bias), 1, 0.0, True, False, True)[0]


def activation(name: str, expected: Callable[[torch.Tensor], torch.Tensor]) -> Case:
    return Case(lambda: layers.Activation(name), (3, 5), lambda x, w: expected(x))


CASES = {
    "dense": Case(lambda: layers.Dense(7), (5,), lambda x, w: x @ w[0] + w[1]),
    "dense relu": Case(lambda: layers.Dense(7, "relu"), (5,), lambda x, w: F.relu(x @ w[0] + w[1])),
    "dense without bias": Case(
        lambda: layers.Dense(4, use_bias=False), (5,), lambda x, w: x @ w[0]
    ),
    "dense of rank 4": Case(
        lambda: layers.Dense(4, "tanh"), (2, 3, 5), lambda x, w: torch.tanh(x @ w[0] + w[1])
    ),
    "dense softmax": Case(
        lambda: layers.Dense(4, "softmax"), (3, 5), lambda x, w: F.softmax(x @ w[0] + w[1], -1)
    ),
    "dense elu": Case(lambda: layers.Dense(4, "elu"), (5,), lambda x, w: F.elu(x @ w[0] + w[1])),
    "einsum dense": Case(
        lambda: layers.EinsumDense("abc,cd->abd", (None, 7), "relu", bias_axes="d"),
        (3, 5),
        lambda x, w: F.relu(x @ w[0] + w[1]),
    ),
    "einsum dense by axes": Case(
        lambda: layers.EinsumDense("abc,bcd->abd", output_shape=(3, 4), bias_axes="b"),
        (3, 5),
        lambda x, w: torch.einsum("abc,bcd->abd", x, w[0]) + w[1],
    ),
    "einsum dense to one axis": Case(
        lambda: layers.EinsumDense("abc,cbd->ad", 4),
        (3, 5),
        lambda x, w: torch.einsum("abc,cbd->ad", x, w[0]),
    ),
    "LSTM": Case(lambda: layers.LSTM(4), (3, 5), lambda x, w: lstm(x, w)[:, -1]),
    "LSTM of sequences": Case(
        lambda: layers.LSTM(4, use_bias=False, return_sequences=True), (3, 5), lstm
    ),
    "conv": Case(lambda: layers.Conv2D(6, (3, 2)), (7, 5, 3), lambda x, w: last(conv(first(x), w))),
    "conv relu": Case(
        lambda: layers.Conv2D(6, 3, activation="relu"),
        (7, 5, 3),
        lambda x, w: F.relu(last(conv(first(x), w))),
    ),
    "conv softmax": Case(
        lambda: layers.Conv2D(4, 1, activation="softmax"),
        (4, 5, 3),
        lambda x, w: F.softmax(last(conv(first(x), w)), -1),
    ),
    "conv same stride 2, even": Case(
        lambda: layers.Conv2D(4, 3, strides=2, padding="same", use_bias=False),
        (8, 6, 3),
        lambda x, w: last(conv(pad_same(first(x), 3, 2), w, 2)),
    ),
    "conv same, even window": Case(
        lambda: layers.Conv2D(4, 4, padding="same"),
        (7, 5, 3),
        lambda x, w: last(conv(pad_same(first(x), 4, 1), w)),
    ),
    "conv same dilated": Case(
        lambda: layers.Conv2D(4, 3, padding="same", dilation_rate=2),
        (7, 9, 2),
        lambda x, w: last(conv(pad_same(first(x), 3, 1, 2), w, dilation=2)),
    ),
    "conv groups": Case(
        lambda: layers.Conv2D(6, 3, groups=2),
        (5, 6, 4),
        lambda x, w: last(conv(first(x), w, groups=2)),
    ),
    "conv of FlexFlow's padding": Case(
        lambda: layers.Conv2D(4, 3, strides=(2, 1), padding=(1, 2)),
        (6, 5, 3),
        lambda x, w: last(F.conv2d(first(x), w[0].permute(3, 2, 0, 1), w[1], (2, 1), (1, 2))),
    ),
    "conv channels_first": Case(
        lambda: layers.Conv2D(4, 3, data_format="channels_first"),
        (3, 6, 5),
        lambda x, w: conv(x, w),
    ),
    "max pooling": Case(
        lambda: layers.MaxPooling2D(), (6, 5, 3), lambda x, w: last(F.max_pool2d(first(x), 2))
    ),
    "max pooling same": Case(
        lambda: layers.MaxPooling2D(3, 2, "same"),
        (6, 7, 2),
        lambda x, w: last(F.max_pool2d(pad_same(first(x), 3, 2, value=-math.inf), 3, 2)),
    ),
    "max pooling channels_first": Case(
        lambda: layers.MaxPooling2D((1, 2), data_format="channels_first"),
        (2, 5, 6),
        lambda x, w: F.max_pool2d(x, (1, 2)),
    ),
    "average pooling": Case(
        lambda: layers.AveragePooling2D((2, 3), (1, 2)),
        (6, 7, 3),
        lambda x, w: last(F.avg_pool2d(first(x), (2, 3), (1, 2))),
    ),
    "average pooling same": Case(
        lambda: layers.AveragePooling2D(3, 2, "same"),
        (6, 7, 2),
        lambda x, w: last(average_same(first(x), 3, 2)),
    ),
    "global average": Case(
        lambda: layers.GlobalAveragePooling2D(), (4, 5, 3), lambda x, w: x.mean((1, 2))
    ),
    "global average keepdims": Case(
        lambda: layers.GlobalAveragePooling2D(keepdims=True),
        (4, 5, 3),
        lambda x, w: x.mean((1, 2), keepdim=True),
    ),
    "global average channels_first": Case(
        lambda: layers.GlobalAveragePooling2D("channels_first"),
        (3, 4, 5),
        lambda x, w: x.mean((2, 3)),
    ),
    "flatten": Case(lambda: layers.Flatten(), (3, 4, 2), lambda x, w: x.flatten(1)),
    "flatten channels_first": Case(
        lambda: layers.Flatten("channels_first"), (2, 3, 4), lambda x, w: last(x).flatten(1)
    ),
    "reshape": Case(lambda: layers.Reshape((-1, 4)), (6, 2), lambda x, w: x.reshape(len(x), 3, 4)),
    "permute": Case(
        lambda: layers.Permute((3, 1, 2)), (2, 3, 4), lambda x, w: x.permute(0, 3, 1, 2)
    ),
    "batch norm of features": Case(
        lambda: layers.BatchNormalization(), (5,), lambda x, w: batch_norm(x, w, -1)
    ),
    "batch norm of images": Case(
        lambda: layers.BatchNormalization(), (3, 4, 5), lambda x, w: batch_norm(x, w, -1)
    ),
    "batch norm of sequences": Case(
        lambda: layers.BatchNormalization(epsilon=0.1),
        (4, 5),
        lambda x, w: batch_norm(x, w, -1, 0.1),
    ),
    "batch norm axis 1": Case(
        lambda: layers.BatchNormalization(axis=1), (3, 4, 5), lambda x, w: batch_norm(x, w, 1)
    ),
    "layer norm": Case(
        lambda: layers.LayerNormalization(),
        (3, 5),
        lambda x, w: F.layer_norm(x, (5,), w[0], w[1], 1e-3),
    ),
    "layer norm of two axes": Case(
        lambda: layers.LayerNormalization([1, 2], 0.1),
        (3, 5),
        lambda x, w: F.layer_norm(x, (3, 5), w[0], w[1], 0.1),
    ),
    "softmax of axis 1": Case(lambda: layers.Softmax(1), (3, 5), lambda x, w: F.softmax(x, 1)),
    "ReLU": Case(lambda: layers.ReLU(), (5,), lambda x, w: F.relu(x)),
    "ReLU to 6": Case(lambda: layers.ReLU(6), (5,), lambda x, w: F.relu6(x)),
    "LeakyReLU": Case(lambda: layers.LeakyReLU(0.2), (5,), lambda x, w: F.leaky_relu(x, 0.2)),
    "relu": activation("relu", F.relu),
    "sigmoid": activation("sigmoid", torch.sigmoid),
    "tanh": activation("tanh", torch.tanh),
    "elu": activation("elu", F.elu),
    "selu": activation("selu", F.selu),
    "gelu": activation("gelu", F.gelu),
    "silu": activation("swish", F.silu),
    "softmax": activation("softmax", lambda x: F.softmax(x, -1)),
    "log_softmax": activation("log_softmax", lambda x: F.log_softmax(x, -1)),
    "exponential": activation("exponential", torch.exp),
    "leaky_relu": activation("leaky_relu", lambda x: F.leaky_relu(x, 0.2)),
    "relu6": activation("relu6", F.relu6),
    "linear": activation("linear", lambda x: x),
}


def randomized(weights: list[np.ndarray], random: np.random.Generator) -> list[np.ndarray]:
    """Values that leave no weight at 0 or 1, where faults hide; variances stay above 0."""
    return [w + random.uniform(0.05, 0.5, w.shape).astype(np.float32) for w in weights]


@pytest.mark.parametrize("name", CASES)
def test_layer_is_what_pytorch_computes(name: str) -> None:
    case = CASES[name]
    random = np.random.default_rng(len(name))
    source = Input(case.shape)
    front, layer = layers.Dense(case.shape[-1]), case.layer()
    model = Model(source, layer(front(source)))
    model.set_weights(randomized(model.get_weights(), random))
    x = random.normal(size=(6, *case.shape)).astype(np.float32)

    weights = [torch.tensor(w, requires_grad=True) for w in model.get_weights()]
    hidden = torch.tensor(x) @ weights[0] + weights[1]
    expected = case.expected(hidden, weights[2:])
    if isinstance(layer, layers.BatchNormalization):
        # In inference it takes the moving statistics; test_batch_normalization looks at those.
        assert model.predict(x, verbose=0).shape == tuple(expected.shape)
    else:
        np.testing.assert_allclose(model.predict(x, verbose=0), expected.detach(), RTOL, ATOL)

    target = random.normal(size=expected.shape).astype(np.float32)
    loss = F.mse_loss(expected, torch.tensor(target))
    loss.backward()
    model.compile(optimizers.SGD(RATE), "mse")
    assert model.train_on_batch(x, target) == pytest.approx(loss.item(), rel=RTOL)
    for variable, now, before in zip(model.weights, model.get_weights(), weights):
        if variable.trainable:
            step = before.grad if before.grad is not None else torch.zeros_like(before)
            np.testing.assert_allclose(
                now, (before - RATE * step).detach(), RTOL, ATOL, err_msg=variable.path
            )


MERGES: dict[str, tuple[type[layers.Layer], Callable[..., np.ndarray]]] = {
    "add": (layers.Add, lambda a, b, c: a + b + c),
    "multiply": (layers.Multiply, lambda a, b, c: a * b * c),
    "maximum": (layers.Maximum, lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "minimum": (layers.Minimum, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "concatenate": (layers.Concatenate, lambda a, b, c: np.concatenate([a, b, c], -1)),
}


@pytest.mark.parametrize("name", MERGES)
def test_merging_three_tensors(name: str) -> None:
    kind, expected = MERGES[name]
    inputs = [Input((4, 3)) for _ in range(3)]
    x = np.random.default_rng(0).normal(size=(3, 5, 4, 3)).astype(np.float32)
    for output in (kind()(inputs), getattr(layers, name)(inputs)):
        np.testing.assert_allclose(
            Model(inputs, output).predict(list(x), verbose=0), expected(*x), 1e-6
        )


@pytest.mark.parametrize(
    ("axes", "a", "b", "equation"),
    [
        (1, (4,), (4,), "ai,ai->a"),
        (-1, (2, 4), (3, 4), "abi,aci->abc"),
        ((2, 1), (2, 4), (4, 5), "abi,aic->abc"),
        ((1, 3), (4, 2), (3, 5, 4), "aib,acdi->abcd"),
    ],
)
def test_dot(axes: int, a: tuple[int, ...], b: tuple[int, ...], equation: str) -> None:
    inputs = [Input(a), Input(b)]
    random = np.random.default_rng(0)
    x = [random.normal(size=(5, *one)).astype(np.float32) for one in (a, b)]
    expected = np.einsum(equation, *x)
    expected = expected[:, None] if expected.ndim == 1 else expected
    for output in (layers.Dot(axes)(inputs), layers.dot(inputs, axes)):
        assert output.shape == (None, *expected.shape[1:])
        found = Model(inputs, output).predict(x, verbose=0)
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


def test_initial_weights_of_lstm() -> None:
    """Keras's: an orthogonal recurrent kernel, and a forget gate that begins open."""
    layer = layers.LSTM(6)
    layer.build((None, 3, 5))
    kernel, recurrent, bias = layer.get_weights()
    assert np.abs(kernel).max() <= math.sqrt(6 / (5 + 24))
    np.testing.assert_allclose(recurrent @ recurrent.T, np.eye(6), atol=1e-6)
    np.testing.assert_array_equal(bias, [0] * 6 + [1] * 6 + [0] * 12)
    layer = layers.LSTM(2, unit_forget_bias=False)
    layer.build((None, 3, 5))
    np.testing.assert_array_equal(layer.get_weights()[2], np.zeros(8))


def test_merging_stretches_sizes_of_one_and_takes_a_tensor_twice() -> None:
    a, b = Input((4, 3)), Input((1, 3))
    x, y = np.ones((2, 4, 3)), np.arange(6.0).reshape(2, 1, 3)
    np.testing.assert_allclose(
        Model([a, b], layers.subtract([b, a])).predict([x, y], verbose=0), y - x
    )
    np.testing.assert_allclose(Model(a, layers.Add()([a, a])).predict(x, verbose=0), 2 * x)
    np.testing.assert_allclose(
        Model([a, b], a * b - (a + b)).predict([x, y], verbose=0), x * y - (x + y)
    )


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_concatenate_axes(axis: int) -> None:
    a, b = Input((4, 3, 2)), Input((4, 3, 2))
    x = np.random.default_rng(0).normal(size=(2, 5, 4, 3, 2)).astype(np.float32)
    model = Model([a, b], layers.Concatenate(axis)([layers.ReLU()(a), b]))
    expected = np.concatenate([np.maximum(x[0], 0), x[1]], axis)
    np.testing.assert_array_equal(model.predict(list(x), verbose=0), expected)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_embedding(dtype: str) -> None:
    layer = layers.Embedding(11, 3)
    source = Input((4,), dtype=dtype)
    model = Model(source, layer(source))
    ids = np.random.default_rng(0).integers(11, size=(6, 4))
    (table,) = model.get_weights()
    assert np.abs(table).max() <= 0.05 and table.std() > 0.01
    np.testing.assert_array_equal(model.predict(ids, verbose=0), table[ids])
    model.compile(optimizers.SGD(1.0), "mse")
    model.train_on_batch(ids, np.zeros((6, 4, 3)))
    step = np.zeros_like(table)
    np.add.at(step, ids, 2 * table[ids] / (6 * 4 * 3))
    np.testing.assert_allclose(model.get_weights()[0], table - step, 1e-5, 1e-7)


def test_embedding_in_front_of_a_sequential_takes_ids_beyond_float_precision() -> None:
    from flexflow.keras import Sequential

    model = Sequential([layers.Embedding(20, 2, input_length=3), layers.Flatten()])
    assert model.inputs[0].dtype == "int32" and model.output_shape == (None, 6)


def test_dropout_in_training_only() -> None:
    source = Input((2000,))
    model = Model(source, layers.Dropout(0.25, seed=0)(source))
    x = np.ones((4, 2000))
    np.testing.assert_array_equal(model.predict(x, verbose=0), x)
    # The identity loss is the sum of a sample's outputs: of 2000 ones, a quarter is dropped.
    model.compile("sgd", "identity")
    assert model.test_on_batch(x) == 2000
    sums = [model.train_on_batch(x) for _ in range(5)]
    assert len(set(sums)) > 1
    assert np.mean(sums) == pytest.approx(2000, rel=0.02)
    assert all(value == pytest.approx(round(value * 3) / 3, abs=0.01) for value in sums)


def test_dropout_with_a_seed_repeats() -> None:
    def losses(seed: int) -> list[float]:
        source = Input((50,))
        model = Model(source, layers.Dropout(0.5, seed=seed)(source))
        model.compile("sgd", "identity")
        return [model.train_on_batch(np.ones((3, 50))) for _ in range(3)]

    assert losses(0) == losses(0) != losses(1)


def test_initializers_of_layers_are_honoured() -> None:
    from flexflow.keras import initializers

    layer = layers.Dense(
        300, kernel_initializer=initializers.HeNormal(seed=3), bias_initializer="ones"
    )
    layer.build((None, 200))
    kernel, bias = layer.get_weights()
    assert kernel.std() == pytest.approx(math.sqrt(2 / 200), rel=0.02)
    assert (bias == 1).all()
    utils.set_random_seed(5)
    one = initializers.get("glorot_uniform")((40, 60))
    utils.set_random_seed(5)
    np.testing.assert_array_equal(one, initializers.get("glorot_uniform")((40, 60)))
    assert np.abs(one).max() <= math.sqrt(6 / 100) and np.abs(one).max() > 0.9 * math.sqrt(6 / 100)
