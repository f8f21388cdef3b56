"""Models of all kinds whose step takes some milliseconds on one core, and strategies for them.

Each builder makes its inputs and returns them; what it makes last is the output, of class scores.
"""

from __future__ import annotations

from collections.abc import Callable

from flexflow.core import ActiMode, AggrMode, FFModel, PoolType, Strategy, Tensor

RELU, GELU = ActiMode.AC_MODE_RELU, ActiMode.AC_MODE_GELU
CLASSES, ENTRIES = 10, 2000


def mlp(model: FFModel) -> list[Tensor]:
    """Layers of equal width."""
    x = t = model.create_tensor([64, 512], "float32")
    for _ in range(3):
        t = model.dense(t, 512, RELU)
    model.dense(t, CLASSES)
    return [x]


def wide(model: FFModel) -> list[Tensor]:
    """One layer that has nearly all weights, for few samples."""
    x = model.create_tensor([16, 1024], "float32")
    model.dense(model.dense(x, 2048, RELU), CLASSES)
    return [x]


def cnn(model: FFModel) -> list[Tensor]:
    """Convolutions, and a dense layer that has most weights."""
    x = t = model.create_tensor([16, 3, 24, 24], "float32")
    for channels in (16, 32):
        t = model.pool2d(model.conv2d(t, channels, 3, 3, 1, 1, 1, 1, RELU), 2, 2, 2, 2)
    model.dense(model.dense(model.flat(t), 256, RELU), CLASSES)
    return [x]


def resnet(model: FFModel) -> list[Tensor]:
    """Residual blocks with normalised convolutions (He et al., 2016); the batch in two groups."""
    x = model.create_tensor([16, 3, 16, 16], "float32")
    t = model.conv2d(x, 16, 3, 3, 1, 1, 1, 1, RELU)
    for _ in range(2):
        inner = t
        for relu in (True, False):
            inner = model.conv2d(inner, 16, 3, 3, 1, 1, 1, 1, use_bias=False)
            inner = model.batch_norm(inner, relu=relu, groups=4)
        t = model.relu(model.add(t, inner))
    t = model.pool2d(t, 16, 16, pool_type=PoolType.POOL_AVG)
    model.dense(model.flat(t), CLASSES)
    return [x]


def inception(model: FFModel) -> list[Tensor]:
    """Branches side by side (Szegedy et al., 2015)."""
    x = model.create_tensor([16, 16, 14, 14], "float32")
    three = model.conv2d(model.conv2d(x, 16, 1, 1, activation=RELU), 24, 3, 3, 1, 1, 1, 1, RELU)
    five = model.conv2d(model.conv2d(x, 8, 1, 1, activation=RELU), 16, 5, 5, 1, 1, 2, 2, RELU)
    pooled = model.conv2d(model.pool2d(x, 3, 3, 1, 1, 1, 1), 8, 1, 1, activation=RELU)
    t = model.concat([three, five, pooled], 1)
    model.dense(model.flat(model.pool2d(t, 2, 2, 2, 2)), CLASSES)
    return [x]


def transformer(model: FFModel) -> list[Tensor]:
    """Two layers of an encoder (Vaswani et al., 2017)."""
    x = t = model.create_tensor([8, 32, 128], "float32")
    for _ in range(2):
        t = model.layer_norm(model.add(t, model.multihead_attention(t, t, t, 128, 4)), [-1])
        inner = model.dense(model.dense(t, 256, GELU), 128)
        t = model.layer_norm(model.add(t, inner), [-1])
    model.dense(model.reduce_mean(t, [1]), CLASSES)
    return [x]


def dlrm(model: FFModel) -> list[Tensor]:
    """Sums of embeddings, and the products of all pairs of features (Naumov et al., 2019)."""
    ids = [model.create_tensor([64, 4], "int32") for _ in range(4)]
    x = model.create_tensor([64, 64], "float32")
    t = model.dense(model.dense(x, 256, RELU), 32, RELU)
    sums = [model.embedding(each, ENTRIES, 32, AggrMode.AGGR_MODE_SUM) for each in ids]
    rows = model.reshape(model.concat([t, *sums], 1), [64, 5, 32])
    pairs = model.flat(model.batch_matmul(rows, model.transpose(rows, [0, 2, 1])))
    t = model.dense(model.concat([t, pairs], 1), 512, RELU)
    model.dense(model.dense(t, 256, RELU), CLASSES)
    return [*ids, x]


def lstm(model: FFModel) -> list[Tensor]:
    """Two layers over short sentences."""
    ids = model.create_tensor([16, 12], "int32")
    t = model.embedding(ids, ENTRIES, 64)
    for _ in range(2):
        t, hidden, _ = model.lstm(t, 96)
    model.dense(hidden, CLASSES)
    return [ids]


def experts(model: FFModel) -> list[Tensor]:
    """A layer of experts between dense ones."""
    x = model.create_tensor([64, 256], "float32")
    t = model.moe(model.dense(x, 256, RELU), 4, 2, 256, 2.0)
    model.dense(model.dense(t, 256, RELU), CLASSES)
    return [x]


MODELS: list[Callable[[FFModel], list[Tensor]]] = [
    mlp,
    wide,
    cnn,
    resnet,
    inception,
    transformer,
    dlrm,
    lstm,
    experts,
]


def mixed(model: FFModel) -> Strategy:
    """Every second layer with weights by these, all others by samples."""
    strategy = Strategy(2).split("*", sample=2)
    owners = [op for op in model.get_layers().values() if op.kind in ("linear", "conv2d")]
    for op in owners[1::2]:
        strategy.split(op.name, parameter=2)
    return strategy


def placed(model: FFModel) -> Strategy:
    """The second half of the layers on the second device."""
    strategy = Strategy(2)
    ops = list(model.get_layers().values())
    for op in ops[len(ops) // 2 :]:
        strategy.split(op.name, start=1)
    return strategy


# By name: of the devices' threads, and of the model.
STRATEGIES: dict[str, Callable[[FFModel], Strategy | None]] = {
    "one device": lambda model: None,
    "accumulated": lambda model: Strategy.hybrid(micro_batches=2),
    "data": lambda model: Strategy.data_parallel(2),
    "data, updates shared": lambda model: Strategy.data_parallel(2).share_updates(),
    "tensor": lambda model: Strategy.tensor_parallel(2),
    "mixed": mixed,
    "placed": placed,
    "pipeline": lambda model: Strategy.hybrid(pp=2),
}
