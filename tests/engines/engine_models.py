"""Models that the tests of the engines run, built with FlexFlow's calls, and their data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flexflow.core import (
    ActiMode,
    AdamOptimizer,
    FFConfig,
    FFModel,
    L2Regularizer,
    LossType,
    MetricsType,
    PoolType,
    SGDOptimizer,
    Tensor,
)

RELU = ActiMode.AC_MODE_RELU
SPARSE = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
ACCURACY = MetricsType.METRICS_ACCURACY
CLASSES = 5


def mlp(model: FFModel, x: Tensor) -> Tensor:
    for width in (24, 16):
        x = model.dense(x, width, RELU)
    return model.softmax(model.dense(x, CLASSES))


def cnn(model: FFModel, x: Tensor) -> Tensor:
    """Two convolutions, pool, one more, pool, dense: a small form of the benchmark's."""
    x = model.conv2d(x, 8, 3, 3, 1, 1, 1, 1, RELU)
    x = model.conv2d(x, 8, 3, 3, 1, 1, 1, 1, RELU)
    x = model.pool2d(x, 2, 2)
    x = model.conv2d(x, 16, 3, 3, 1, 1, 0, 0, RELU)
    x = model.pool2d(x, 2, 2)
    x = model.dense(model.flat(x), 20, RELU)
    return model.softmax(model.dense(x, CLASSES))


def resnet(model: FFModel, x: Tensor) -> Tensor:
    """A stem and two residual blocks, the second of which halves the image."""

    def conv_norm(x: Tensor, channels: int, size: int, stride: int, relu: bool) -> Tensor:
        pad = size // 2
        x = model.conv2d(x, channels, size, size, stride, stride, pad, pad, use_bias=False)
        return model.batch_norm(x, relu=relu)

    x = conv_norm(x, 8, 3, 1, True)
    for channels, stride in ((8, 1), (16, 2)):
        inner = conv_norm(conv_norm(x, channels, 3, stride, True), channels, 3, 1, False)
        short = x if stride == 1 else conv_norm(x, channels, 1, stride, False)
        x = model.relu(model.add(inner, short))
    x = model.pool2d(x, x.dims[2], x.dims[3], pool_type=PoolType.POOL_AVG)
    return model.softmax(model.dense(model.flat(x), CLASSES))


def regularised(model: FFModel, x: Tensor) -> Tensor:
    """What needs counters, states and penalties."""
    x = model.batch_norm(model.dense(x, 24, kernel_regularizer=L2Regularizer(0.01)))
    x = model.dropout(x, 0.3, 5)
    x = model.layer_norm(model.reshape(x, [x.dims[0], 4, 6]), [-1])
    return model.softmax(model.dense(model.flat(x), CLASSES))


Build = Callable[[FFModel, Tensor], Tensor]
SHAPES: dict[Build, tuple[int, ...]] = {
    mlp: (12,),
    cnn: (3, 12, 12),
    resnet: (3, 8, 8),
    regularised: (12,),
}


def built(build: Build, batch: int, dtype: str, device: str, **config: Any) -> FFModel:
    """The model, not compiled; its input is called "x"."""
    model = FFModel(FFConfig(device=device, **config))
    build(model, model.create_tensor([batch, *SHAPES[build]], dtype, name="x"))
    return model


def compiled(
    build: Build,
    batch: int = 8,
    dtype: str = "float32",
    device: str = "cpu",
    optimizer: str = "sgd",
    lr: float = 0.05,
    **config: Any,
) -> FFModel:
    model = built(build, batch, dtype, device, **config)
    if optimizer == "adam":
        made: Any = AdamOptimizer(model, alpha=lr)
    else:
        made = SGDOptimizer(model, lr=lr, momentum=0.9 if optimizer == "momentum" else 0.0)
    model.compile(made, SPARSE, [ACCURACY])
    return model


def samples(
    build: Build, count: int, seed: int = 0, noise: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Data with something to learn: each class has a pattern of its own."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, size=count)
    patterns = np.random.default_rng(99).normal(size=(CLASSES, *SHAPES[build]))
    data = patterns[labels] + noise * random.normal(size=(count, *SHAPES[build]))
    return data.astype(np.float32), labels.astype(np.int32).reshape(count, 1)


def weights(model: FFModel) -> dict[str, np.ndarray]:
    layers = model.get_layers().values()
    return {p.name: p.get_weights() for layer in layers for p in layer.get_parameters()}
