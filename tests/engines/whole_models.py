"""Models of the kinds that people train, small enough for 20 steps on plain kernels, and data.

Each builder makes its inputs and returns them; what it makes last is the output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flexflow.core import (
    ActiMode,
    AdamOptimizer,
    AggrMode,
    FFConfig,
    FFModel,
    LossType,
    PoolType,
    Strategy,
    Tensor,
)
from flexflow.core.types import is_floating

RELU, GELU = ActiMode.AC_MODE_RELU, ActiMode.AC_MODE_GELU
CLASSES, ENTRIES = 5, 7
SPARSE = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
BINARY = LossType.LOSS_BINARY_CROSSENTROPY


def classes(model: FFModel, x: Tensor) -> None:
    model.softmax(model.dense(x, CLASSES, name="head"), name="probabilities")


def mlp(model: FFModel, batch: int, dtype: str) -> list[Tensor]:
    """One of its gradients is large enough to be summed in slices."""
    x = t = model.create_tensor([batch, 11], dtype)
    for width in (190, 13):
        t = model.dense(t, width, RELU)
    classes(model, t)
    return [x]


def alexnet(model: FFModel, batch: int, dtype: str) -> list[Tensor]:
    """Its five convolutions and three dense layers (Krizhevsky et al., 2012)."""
    x = model.create_tensor([batch, 3, 23, 21], dtype)
    t = model.conv2d(x, 4, 7, 7, 2, 2, 2, 2, RELU)
    t = model.pool2d(t, 3, 3, 2, 2)
    t = model.conv2d(t, 6, 5, 5, 1, 1, 2, 2, RELU)
    t = model.pool2d(t, 3, 3, 2, 2)
    for channels in (7, 6, 5):
        t = model.conv2d(t, channels, 3, 3, 1, 1, 1, 1, RELU)
    t = model.flat(model.pool2d(t, 2, 1, 1, 1))
    for seed in (1, 2):
        t = model.dropout(model.dense(t, 12, RELU), 0.2, seed)
    classes(model, t)
    return [x]


def resnet18(model: FFModel, batch: int, dtype: str, groups: int = 1) -> list[Tensor]:
    """A stem and four stages of two blocks each (He et al., 2016)."""

    def conv_norm(x: Tensor, channels: int, size: int, stride: int, relu: bool) -> Tensor:
        pad = size // 2
        x = model.conv2d(x, channels, size, size, stride, stride, pad, pad, use_bias=False)
        return model.batch_norm(x, relu=relu, groups=groups)

    x = model.create_tensor([batch, 3, 11, 9], dtype)
    t = model.pool2d(conv_norm(x, 4, 3, 1, True), 3, 3, 1, 1, 1, 1)
    for stage, channels in enumerate((4, 5, 6, 7)):
        for block in (0, 1):
            stride = 2 if stage and not block else 1
            inner = conv_norm(t, channels, 3, stride, True)
            inner = conv_norm(inner, channels, 3, 1, False)
            short = t if stride == 1 else conv_norm(t, channels, 1, stride, False)
            t = model.relu(model.add(inner, short))
    t = model.pool2d(t, t.dims[2], t.dims[3], pool_type=PoolType.POOL_AVG)
    classes(model, model.flat(t))
    return [x]


def resnet18_in_groups(model: FFModel, batch: int, dtype: str) -> list[Tensor]:
    """Whose statistics are those of quarters of the batch."""
    return resnet18(model, batch, dtype, groups=4)


def inception(model: FFModel, batch: int, dtype: str) -> list[Tensor]:
    """A block of four branches (Szegedy et al., 2015)."""
    x = model.create_tensor([batch, 4, 7, 9], dtype)
    three = model.conv2d(model.conv2d(x, 3, 1, 1, activation=RELU), 5, 3, 3, 1, 1, 1, 1, RELU)
    five = model.conv2d(model.conv2d(x, 2, 1, 1, activation=RELU), 3, 5, 5, 1, 1, 2, 2, RELU)
    pooled = model.conv2d(model.pool2d(x, 3, 3, 1, 1, 1, 1), 2, 1, 1, activation=RELU)
    t = model.concat([model.conv2d(x, 3, 1, 1, activation=RELU), three, five, pooled], 1)
    classes(model, model.flat(model.pool2d(t, 3, 3, 2, 2, pool_type=PoolType.POOL_AVG)))
    return [x]


def transformer(model: FFModel, batch: int, dtype: str) -> list[Tensor]:
    """Two layers of an encoder (Vaswani et al., 2017)."""
    x = t = model.create_tensor([batch, 5, 6], dtype)
    for _ in range(2):
        t = model.layer_norm(model.add(t, model.multihead_attention(t, t, t, 6, 3)), [-1])
        inner = model.dense(model.dense(t, 10, GELU), 6)
        t = model.layer_norm(model.add(t, inner), [-1])
    classes(model, model.reduce_mean(t, [1]))
    return [x]


def dlrm(model: FFModel, batch: int, dtype: str) -> list[Tensor]:
    """Sums of embeddings, and the products of all pairs of features (Naumov et al., 2019)."""
    ids = [model.create_tensor([batch, count], "int32") for count in (1, 2, 3)]
    x = t = model.create_tensor([batch, 5], dtype)
    for width in (9, 6):
        t = model.dense(t, width, RELU)
    features = [t] + [
        model.embedding(x, ENTRIES + i, 6, AggrMode.AGGR_MODE_SUM, datatype=dtype)
        for i, x in enumerate(ids)
    ]
    rows = model.reshape(model.concat(features, 1), [batch, len(features), 6])
    pairs = model.flat(model.batch_matmul(rows, model.transpose(rows, [0, 2, 1])))
    t = model.dense(model.concat([t, pairs], 1), 8, RELU)
    model.sigmoid(model.dense(t, 1))
    return [*ids, x]


def experts(model: FFModel, batch: int, dtype: str) -> list[Tensor]:
    """A layer of experts, some of which have to turn samples away."""
    x = model.create_tensor([batch, 7], dtype)
    classes(model, model.moe(x, 4, 2, 6, alpha=1.2, lambda_bal=0.01))
    return [x]


def lstm(model: FFModel, batch: int, dtype: str) -> list[Tensor]:
    """Two layers, each from the states that the one before it ended with."""
    ids = model.create_tensor([batch, 5], "int64")
    words = model.embedding(ids, ENTRIES, 4, datatype=dtype)
    t, hidden, cell = model.lstm(words, 6)
    _, hidden, _ = model.lstm(t, 6, initial_state=(hidden, cell))
    classes(model, hidden)
    return [ids]


MODELS: dict[Callable[[FFModel, int, str], list[Tensor]], LossType] = {
    mlp: SPARSE,
    alexnet: SPARSE,
    resnet18: SPARSE,
    inception: SPARSE,
    transformer: SPARSE,
    dlrm: BINARY,
    experts: SPARSE,
    lstm: SPARSE,
}
# What pipelines do not take, and models that they take in its place.
OVER_THE_BATCH = {resnet18: "norm", experts: "moe"}
IN_MICRO_BATCHES = {
    **{build: loss for build, loss in MODELS.items() if build not in OVER_THE_BATCH},
    resnet18_in_groups: SPARSE,
}
Build = Callable[[FFModel, int, str], list[Tensor]]
STEPS, PER_EPOCH = 20, 5


@dataclass
class Run:
    """The loss of every step, and all weights and running statistics before and after."""

    losses: list[float]
    before: dict[str, np.ndarray]
    weights: dict[str, np.ndarray]


def weights_of(model: FFModel) -> dict[str, np.ndarray]:
    layers = model.get_layers().values()
    return {p.name: p.get_weights() for op in layers for p in op.get_parameters()}


def train(
    build: Build,
    strategy: Callable[[FFModel], Strategy] | None,
    batch: int = 8,
    dtype: str = "float64",
    device: str = "reference",
) -> Run:
    """20 steps, every fifth of which has but 3 samples (or 1, if the batch has no more)."""
    model = FFModel(FFConfig(device=device, seed=3))
    inputs = build(model, batch, dtype)
    chosen = strategy(model) if strategy else None
    # Its epsilon keeps weights at rest whose gradient is 0 but for rounding.
    optimizer = AdamOptimizer(model, alpha=0.01, epsilon=1e-4)
    loss = MODELS[build] if build in MODELS else IN_MICRO_BATCHES[build]
    model.compile(optimizer, loss, strategy=chosen)
    before = weights_of(model)
    random = np.random.default_rng(0)
    rows = (PER_EPOCH - 1) * batch + min(3, batch)

    def values(tensor: Tensor, below: int) -> np.ndarray:
        shape = (rows, *tensor.dims[1:])
        if is_floating(tensor.data_type):
            return random.normal(size=shape)
        return random.integers(0, below, size=shape)

    arrays = [values(tensor, ENTRIES) for tensor in inputs]
    label = model.label_tensor
    labels = values(label, CLASSES)
    data = model.data_set(arrays, labels > 0 if is_floating(label.data_type) else labels)
    losses = []
    while len(losses) < STEPS:
        data.begin(batch)
        model.reset_metrics()
        for _ in model.run("train", data, max_steps=1):
            losses.append(model.get_perf_metrics().loss)
            model.reset_metrics()
    return Run(losses, before, weights_of(model))
