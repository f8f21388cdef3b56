"""One network, split over devices as the command line says; the loss is that of one device.

    python -m examples.python.native.strategies [STRATEGY] [-e EPOCHS] [-b BATCH_SIZE]

STRATEGY is data (the default), tensor, pipeline, or a strategy file (docs/strategies.md).
Trains on UCI's handwritten digits, 8 x 8, which come with scikit-learn.
"""

from __future__ import annotations

import sys

import numpy as np

from flexflow.core import *
from flexflow.keras.datasets import digits

READY_MADE = {
    "data": Strategy.data_parallel(2),
    "tensor": Strategy.tensor_parallel(2),
    "pipeline": Strategy.hybrid(pp=2, micro_batches=4),
}


def train(config: FFConfig, strategy: Strategy) -> list[float]:
    """The losses of all epochs."""
    (images, labels), _ = digits.load_data()
    model = FFModel(config)
    t = model.create_tensor([config.batch_size, 64], DataType.DT_FLOAT, name="pixels")
    t = model.dense(t, 128, ActiMode.AC_MODE_RELU, name="up")
    t = model.dense(t, 64, ActiMode.AC_MODE_RELU, name="down")
    model.softmax(model.dense(t, 10, name="head"), name="classes")
    print(strategy.bind(model))
    model.compile(
        SGDOptimizer(model, lr=0.1),
        LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
        [MetricsType.METRICS_ACCURACY],
        strategy=strategy,
    )
    epochs = config.epochs if config.given("epochs") else 5
    history = model.fit(images.reshape(len(images), 64) / 16, labels, epochs=epochs, verbose=0)
    return [metrics.loss for metrics in history]


def main() -> None:
    config = FFConfig()
    name = sys.argv[1] if sys.argv[1:] and not sys.argv[1].startswith("-") else "data"
    strategy = READY_MADE[name] if name in READY_MADE else Strategy.load(name)
    losses, expected = train(config, strategy), train(config, Strategy(1))
    print(f"the loss went from {losses[0]:.6f} to {losses[-1]:.6f}")
    print(f"on one device from {expected[0]:.6f} to {expected[-1]:.6f}")
    np.testing.assert_allclose(losses, expected, rtol=1e-3)


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
