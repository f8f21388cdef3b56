"""The models that benchmarks train, in FlexFlow and in PyTorch, with equal weights and data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

BATCHES = 8  # distinct batches, walked in a circle


@dataclass(frozen=True)
class Dense:
    """A dense layer, and whether a ReLU follows."""

    units: int
    relu: bool = True


@dataclass(frozen=True)
class Conv:
    """A 3x3 convolution with ReLU that keeps height and width."""

    channels: int


@dataclass(frozen=True)
class Pool:
    """2x2 max pooling."""


@dataclass(frozen=True)
class Model:
    """A chain of layers on inputs of one shape, with classes at the end."""

    name: str
    input_shape: tuple[int, ...]
    layers: tuple[Any, ...]
    batch: int = 64
    classes: int = 10


MLP = Model("mlp", (784,), (Dense(512), Dense(512), Dense(10, relu=False)))
CNN = Model(
    "cnn",
    (3, 32, 32),
    (Conv(32), Conv(32), Pool(), Conv(64), Conv(64), Pool(), Dense(512), Dense(10, relu=False)),
)
MODELS = {model.name: model for model in (MLP, CNN)}


def replaced(model: Model, **fields: Any) -> Model:
    """The model with other settings, such as its batch."""
    return replace(model, **fields)


def data(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and class ids of all batches."""
    random = np.random.default_rng(7)
    rows = model.batch * BATCHES
    x = random.normal(size=(rows, *model.input_shape)).astype(np.float32)
    return x, random.integers(0, model.classes, rows).astype(np.int32)


def weights(model: Model) -> list[np.ndarray]:
    """Kernel and bias of each layer that has them, in the layout of both frameworks."""
    random = np.random.default_rng(11)
    shape = list(model.input_shape)
    out: list[np.ndarray] = []
    for layer in model.layers:
        if isinstance(layer, Pool):
            shape = [shape[0], shape[1] // 2, shape[2] // 2]
            continue
        if isinstance(layer, Conv):
            kernel: tuple[int, ...] = (layer.channels, shape[0], 3, 3)
            shape[0] = layer.channels
        else:
            kernel = (layer.units, int(np.prod(shape)))
            shape = [layer.units]
        scale = np.sqrt(
            1.0 / (3.0 * np.prod(kernel[1:]))
        )  # the deviation of PyTorch's own initial weights
        out.append((random.normal(size=kernel) * scale).astype(np.float32))
        out.append(np.zeros(kernel[0], np.float32))
    return out
