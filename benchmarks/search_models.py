"""The models that strategies are searched for: those of Unity's evaluation (Unger et al., 2022), in
the sizes of FlexFlow's examples, and layers of the size of GPT-3 (Brown et al., 2020)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flexflow.core import (
    ActiMode,
    AggrMode,
    DataType,
    FFConfig,
    FFModel,
    LossType,
    PoolType,
    SGDOptimizer,
    Tensor,
)

RELU, GELU = ActiMode.AC_MODE_RELU, ActiMode.AC_MODE_GELU
Build = Callable[[FFModel, int], None]


@dataclass(frozen=True)
class Model:
    """A network, and how many samples of it each device gets."""

    build: Build
    samples: int

    def compiled(self, devices: int) -> FFModel:
        """The model at the batch of so many devices."""
        batch = self.samples * devices
        model = FFModel(FFConfig(batch_size=batch))
        self.build(model, batch)
        model.compile(SGDOptimizer(model), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
        return model


def mlp(model: FFModel, batch: int) -> None:
    """Two inputs of 1024 features, and eight layers of 8192 on each (MLP_Unify)."""
    branches = []
    for _ in range(2):
        t = model.create_tensor([batch, 1024])
        for _ in range(8):
            t = model.dense(t, 8192, use_bias=False)
        branches.append(t)
    model.softmax(model.add(*branches))


def tables(model: FFModel, batch: int, count: int) -> list[Tensor]:
    """Embeddings of a million entries with 64 features each."""
    made = []
    for _ in range(count):
        ids = model.create_tensor([batch, 1], DataType.DT_INT64)
        made.append(model.embedding(ids, 1_000_000, 64, AggrMode.AGGR_MODE_SUM))
    return made


def dlrm(model: FFModel, batch: int) -> None:
    """Four embeddings beside an MLP of 4-64-64, under one of 64-64-2 (Naumov et al., 2019)."""
    dense = model.create_tensor([batch, 4])
    for width in (64, 64):
        dense = model.dense(dense, width, RELU)
    t = model.concat([*tables(model, batch, 4), dense], 1)
    for width in (64, 64):
        t = model.dense(t, width, RELU)
    model.dense(t, 2)


def xdl(model: FFModel, batch: int) -> None:
    """Four embeddings under an MLP of 256-256-256-2."""
    t = model.concat(tables(model, batch, 4), 1)
    for width in (256, 256, 256):
        t = model.dense(t, width, RELU)
    model.dense(t, 2)


def candle_uno(model: FFModel, batch: int) -> None:
    """Seven inputs, five of them under towers of eight layers of 4192, and four layers on top."""
    features = []
    for width in (1, 1, 942, 5270, 2048, 5270, 2048):
        t = model.create_tensor([batch, width])
        if width > 1:
            for _ in range(8):
                t = model.dense(t, 4192, RELU)
        features.append(t)
    t = model.concat(features, 1)
    for _ in range(4):
        t = model.dense(t, 4192, RELU)
    model.dense(t, 1)


def encoder(model: FFModel, t: Tensor, hidden: int, heads: int) -> Tensor:
    """A layer of a transformer (Vaswani et al., 2017)."""
    attended = model.multihead_attention(t, t, t, hidden, heads)
    t = model.layer_norm(model.add(t, attended), [-1])
    wide = model.dense(model.dense(t, 4 * hidden, GELU), hidden)
    return model.layer_norm(model.add(t, wide), [-1])


def transformer(layers: int, hidden: int, heads: int, tokens: int) -> Build:
    """Layers of a transformer, and a layer of two features on top."""

    def build(model: FFModel, batch: int) -> None:
        t = model.create_tensor([batch, tokens, hidden])
        for _ in range(layers):
            t = encoder(model, t, hidden, heads)
        model.dense(t, 2)

    return build


def resnext50(model: FFModel, batch: int) -> None:
    """Bottlenecks whose convolutions have 32 groups (Xie et al., 2017)."""
    t = model.create_tensor([batch, 3, 224, 224])
    t = model.conv2d(t, 64, 7, 7, 2, 2, 3, 3, RELU)
    t = model.pool2d(t, 3, 3, 2, 2, 1, 1)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 128 * 2**stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            side = t if block else model.conv2d(t, 2 * width, 1, 1, stride, stride, 0, 0)
            t = model.conv2d(t, width, 1, 1, 1, 1, 0, 0, RELU)
            t = model.conv2d(t, width, 3, 3, stride, stride, 1, 1, RELU, groups=32)
            t = model.relu(model.add(model.conv2d(t, 2 * width, 1, 1, 1, 1, 0, 0), side))
    t = model.pool2d(t, 7, 7, 1, 1, 0, 0, PoolType.POOL_AVG)
    model.softmax(model.dense(model.flat(t), 1000))


def inception_v3(model: FFModel, batch: int) -> None:
    """Szegedy et al., 2016, for images of 299 x 299 and ten classes."""

    def conv(t: Tensor, out: int, h: int, w: int, stride: int = 1, same: bool = True) -> Tensor:
        pad = (h // 2, w // 2) if same else (0, 0)
        return model.conv2d(t, out, h, w, stride, stride, *pad, RELU)

    def pooled(t: Tensor, out: int) -> Tensor:
        t = model.pool2d(t, 3, 3, 1, 1, 1, 1, PoolType.POOL_AVG)
        return conv(t, out, 1, 1)

    def chain(t: Tensor, *layers: tuple[int, int, int]) -> Tensor:
        for out, h, w in layers:
            t = conv(t, out, h, w)
        return t

    t = model.create_tensor([batch, 3, 299, 299])
    t = conv(conv(conv(t, 32, 3, 3, 2, False), 32, 3, 3, 1, False), 64, 3, 3)
    t = model.pool2d(t, 3, 3, 2, 2, 0, 0)
    t = conv(conv(t, 80, 1, 1), 192, 3, 3, 1, False)
    t = model.pool2d(t, 3, 3, 2, 2, 0, 0)
    for pool in (32, 64, 64):
        five = chain(t, (48, 1, 1), (64, 5, 5))
        three = chain(t, (64, 1, 1), (96, 3, 3), (96, 3, 3))
        t = model.concat([conv(t, 64, 1, 1), five, three, pooled(t, pool)], 1)
    reduced = conv(chain(t, (64, 1, 1), (96, 3, 3)), 96, 3, 3, 2, False)
    t = model.concat([conv(t, 384, 3, 3, 2, False), reduced, model.pool2d(t, 3, 3, 2, 2, 0, 0)], 1)
    for c in (128, 160, 160, 192):
        one = chain(t, (c, 1, 1), (c, 1, 7), (192, 7, 1))
        two = chain(t, (c, 1, 1), (c, 7, 1), (c, 1, 7), (c, 7, 1), (192, 1, 7))
        t = model.concat([conv(t, 192, 1, 1), one, two, pooled(t, 192)], 1)
    one = conv(conv(t, 192, 1, 1), 320, 3, 3, 2, False)
    two = conv(chain(t, (192, 1, 1), (192, 1, 7), (192, 7, 1)), 192, 3, 3, 2, False)
    t = model.concat([one, two, model.pool2d(t, 3, 3, 2, 2, 0, 0)], 1)
    for _ in range(2):
        one = conv(t, 384, 1, 1)
        two = chain(t, (448, 1, 1), (384, 3, 3))
        split = [conv(x, 384, h, w) for x in (one, two) for h, w in ((1, 3), (3, 1))]
        t = model.concat([conv(t, 320, 1, 1), *split, pooled(t, 192)], 1)
    t = model.pool2d(t, 8, 8, 1, 1, 0, 0, PoolType.POOL_AVG)
    model.softmax(model.dense(model.flat(t), 10))


MODELS = {
    "resnext50": Model(resnext50, 16),
    "bert-large": Model(transformer(24, 1024, 16, 512), 8),
    "dlrm": Model(dlrm, 256),
    "candle-uno": Model(candle_uno, 256),
    "inception-v3": Model(inception_v3, 64),
    "mlp": Model(mlp, 64),
    "xdl": Model(xdl, 256),
    "gpt3-layers": Model(transformer(96, 12288, 96, 2048), 1),
}
