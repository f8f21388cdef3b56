"""The models that benchmarks train: chains of layers with equal weights and data.

flexflow_models.py and torch_models.py build them, layer by layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

import numpy as np

BATCHES = 8  # distinct batches, walked in a circle

Shape = tuple[int, ...]  # of one sample


@dataclass(frozen=True)
class Dense:
    """A dense layer on the last dimension, and the activation that follows: relu, gelu or none."""

    units: int
    activation: str = "none"

    def weights(self, random: Any, shape: Shape) -> list[np.ndarray]:
        return [kernel(random, self.units, shape[-1]), zeros(self.units)]

    def result(self, shape: Shape) -> Shape:
        return (*shape[:-1], self.units)


@dataclass(frozen=True)
class Conv:
    """A 3x3 convolution with ReLU that keeps height and width."""

    channels: int

    def weights(self, random: Any, shape: Shape) -> list[np.ndarray]:
        return [kernel(random, self.channels, shape[0], 3, 3), zeros(self.channels)]

    def result(self, shape: Shape) -> Shape:
        return (self.channels, *shape[1:])


class Weightless:
    """A layer that has no weights."""

    def weights(self, random: Any, shape: Shape) -> list[np.ndarray]:
        return []


@dataclass(frozen=True)
class Pool(Weightless):
    """2x2 max pooling."""

    def result(self, shape: Shape) -> Shape:
        return (shape[0], shape[1] // 2, shape[2] // 2)


@dataclass(frozen=True)
class Flatten(Weightless):
    """All features of a sample in one dimension."""

    def result(self, shape: Shape) -> Shape:
        return (int(np.prod(shape)),)


@dataclass(frozen=True)
class Mean(Weightless):
    """The mean over the sequence: (sequence, features) to (features,)."""

    def result(self, shape: Shape) -> Shape:
        return shape[1:]


@dataclass(frozen=True)
class Tokens:
    """A table of vectors, looked up by token."""

    entries: int
    features: int

    def weights(self, random: Any, shape: Shape) -> list[np.ndarray]:
        return [kernel(random, self.entries, self.features)]

    def result(self, shape: Shape) -> Shape:
        return (*shape, self.features)


@dataclass(frozen=True)
class Norm:
    """Layer normalisation of the features, with scale and shift."""

    def weights(self, random: Any, shape: Shape) -> list[np.ndarray]:
        return [zeros(shape[-1]) + 1, zeros(shape[-1])]

    def result(self, shape: Shape) -> Shape:
        return shape


@dataclass(frozen=True)
class Attention:
    """Self-attention: kernel and bias of queries, keys and values in one, and of the result."""

    heads: int

    def weights(self, random: Any, shape: Shape) -> list[np.ndarray]:
        n = shape[-1]
        return [kernel(random, 3 * n, n), zeros(3 * n), kernel(random, n, n), zeros(n)]

    def result(self, shape: Shape) -> Shape:
        return shape


@dataclass(frozen=True)
class Residual:
    """What a chain of layers adds to its input."""

    layers: tuple[Layer, ...]

    def weights(self, random: Any, shape: Shape) -> list[np.ndarray]:
        return chain_weights(self.layers, random, shape)

    def result(self, shape: Shape) -> Shape:
        return shape


Layer = Union[Dense, Conv, Pool, Flatten, Mean, Tokens, Norm, Attention, Residual]


@dataclass(frozen=True)
class Model:
    """A chain of layers on inputs of one shape, with classes at the end."""

    name: str
    input_shape: Shape
    layers: tuple[Layer, ...]
    batch: int = 64
    classes: int = 10


def encoder_block(features: int, heads: int) -> tuple[Residual, Residual]:
    """A block of a transformer that normalises what it reads (Xiong et al., 2020)."""
    feed_forward = (Norm(), Dense(4 * features, "gelu"), Dense(features))
    return Residual((Norm(), Attention(heads))), Residual(feed_forward)


MLP = Model("mlp", (784,), (Dense(512, "relu"), Dense(512, "relu"), Dense(10)))
CNN = Model(
    "cnn",
    (3, 32, 32),
    (
        *(Conv(32), Conv(32), Pool()),
        *(Conv(64), Conv(64), Pool()),
        *(Flatten(), Dense(512, "relu"), Dense(10)),
    ),
)
TRANSFORMER = Model(
    "transformer",
    (64,),
    (Tokens(1000, 256), *encoder_block(256, 4) * 2, Norm(), Mean(), Dense(10)),
    batch=16,
)
MODELS = {model.name: model for model in (MLP, CNN, TRANSFORMER)}


def replaced(model: Model, **fields: Any) -> Model:
    """The model with other settings, such as its batch."""
    return replace(model, **fields)


def data(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (token ids, or numbers) and class ids of all batches."""
    random = np.random.default_rng(7)
    shape = (model.batch * BATCHES, *model.input_shape)
    first = model.layers[0]
    if isinstance(first, Tokens):
        x = random.integers(0, first.entries, shape).astype(np.int32)
    else:
        x = random.normal(size=shape).astype(np.float32)
    return x, random.integers(0, model.classes, shape[0]).astype(np.int32)


def weights(model: Model) -> list[np.ndarray]:
    """The weights of all layers in their order, laid out as PyTorch has them."""
    return chain_weights(model.layers, np.random.default_rng(11), model.input_shape)


def chain_weights(layers: Sequence[Layer], random: Any, shape: Shape) -> list[np.ndarray]:
    """The weights of layers that read one another."""
    values = []
    for layer in layers:
        values += layer.weights(random, shape)
        shape = layer.result(shape)
    return values


def kernel(random: Any, *shape: int) -> np.ndarray:
    """Values with the deviation of PyTorch's own initial weights of dense layers."""
    scale = np.sqrt(1.0 / (3.0 * np.prod(shape[1:])))
    return (random.normal(size=shape) * scale).astype(np.float32)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)
