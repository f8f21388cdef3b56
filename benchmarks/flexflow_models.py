"""The models of models.py in FlexFlow."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

import models
import numpy as np

from flexflow.core import (
    ActiMode,
    DataType,
    FFConfig,
    FFModel,
    LossType,
    SGDOptimizer,
    Strategy,
    Tensor,
)

ACTIVATIONS = {
    "none": ActiMode.AC_MODE_NONE,
    "relu": ActiMode.AC_MODE_RELU,
    "gelu": ActiMode.AC_MODE_GELU,
}


def compiled(
    model: models.Model,
    learning_rate: float,
    threads: int,
    devices: int = 1,
    strategy: Strategy | None = None,
    engine: str = "",
) -> FFModel:
    """The FFModel with its weights, compiled."""
    config = FFConfig(batch_size=model.batch, threads=threads, devices=devices, engine=engine)
    ffmodel = FFModel(config)
    tokens = isinstance(model.layers[0], models.Tokens)
    dtype = DataType.DT_INT32 if tokens else DataType.DT_FLOAT
    x = ffmodel.create_tensor([model.batch, *model.input_shape], dtype)
    ffmodel.softmax(chain(model.layers, ffmodel, x))
    values = iter(models.weights(model))
    for op in ffmodel.get_layers().values():
        parameters = op.get_parameters()
        for parameter, value in zip(parameters, layer_values(op.kind, len(parameters), values)):
            parameter.set_weights(ffmodel, value.reshape(parameter.dims))
    ffmodel.compile(
        SGDOptimizer(ffmodel, lr=learning_rate),
        LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
        [],
        strategy=strategy,
    )
    return ffmodel


def layer_values(kind: str, count: int, values: Iterator[np.ndarray]) -> list[np.ndarray]:
    """The next weights, as FlexFlow has them: attention's queries, keys and values by themselves,
    and all kernels before all biases."""
    if kind != "multihead_attention":
        return [next(values) for _ in range(count)]
    kernels, biases, out_kernel, out_bias = (next(values) for _ in range(4))
    return [*np.split(kernels, 3), out_kernel, *np.split(biases, 3), out_bias]


def chain(layers: tuple[models.Layer, ...], ffmodel: FFModel, x: Tensor) -> Tensor:
    """Append layers that read one another."""
    for layer in layers:
        x = append(layer, ffmodel, x)
    return x


@singledispatch
def append(layer: Any, ffmodel: FFModel, x: Tensor) -> Tensor:
    """Append one layer."""
    raise NotImplementedError(layer)


@append.register
def _(layer: models.Dense, ffmodel: FFModel, x: Tensor) -> Tensor:
    return ffmodel.dense(x, layer.units, ACTIVATIONS[layer.activation])


@append.register
def _(layer: models.Conv, ffmodel: FFModel, x: Tensor) -> Tensor:
    return ffmodel.conv2d(x, layer.channels, 3, 3, 1, 1, 1, 1, ActiMode.AC_MODE_RELU)


@append.register
def _(layer: models.Pool, ffmodel: FFModel, x: Tensor) -> Tensor:
    return ffmodel.pool2d(x, 2, 2, 2, 2, 0, 0)


@append.register
def _(layer: models.Flatten, ffmodel: FFModel, x: Tensor) -> Tensor:
    return ffmodel.flat(x)


@append.register
def _(layer: models.Mean, ffmodel: FFModel, x: Tensor) -> Tensor:
    return ffmodel.mean(x, [1])


@append.register
def _(layer: models.Tokens, ffmodel: FFModel, x: Tensor) -> Tensor:
    return ffmodel.embedding(x, layer.entries, layer.features)


@append.register
def _(layer: models.Norm, ffmodel: FFModel, x: Tensor) -> Tensor:
    return ffmodel.layer_norm(x, [-1])


@append.register
def _(layer: models.Attention, ffmodel: FFModel, x: Tensor) -> Tensor:
    return ffmodel.multihead_attention(x, x, x, x.dims[-1], layer.heads)


@append.register
def _(layer: models.Residual, ffmodel: FFModel, x: Tensor) -> Tensor:
    return ffmodel.add(x, chain(layer.layers, ffmodel, x))
