"""Reads and writes weights: before compile, between epochs, and from one model to another.

python -m examples.python.native.print_weight
"""

import sys

import numpy as np

from flexflow.core import *


def build(seed: int) -> FFModel:
    """A linear classifier of four features, compiled."""
    ffmodel = FFModel(FFConfig(batch_size=16, seed=seed))
    x = ffmodel.create_tensor([16, 4], DataType.DT_FLOAT)
    ffmodel.softmax(
        ffmodel.dense(x, 3, name="dense", kernel_initializer=NormInitializer(None, 0, 1))
    )
    ffmodel.compile(
        SGDOptimizer(ffmodel, lr=0.5), LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, []
    )
    return ffmodel


def main() -> None:
    data = np.random.default_rng(0).normal(size=(160, 4)).astype(np.float32)
    labels = data[:, :3].argmax(1)

    ffmodel = build(seed=1)
    layer = ffmodel.get_layer_by_name("dense")
    kernel, bias = layer.get_weight_tensor(), layer.get_bias_tensor()
    print("the kernel as it was drawn:", kernel.get_weights(ffmodel), sep="\n")
    kernel.set_weights(ffmodel, np.zeros(kernel.dims))
    bias.trainable = False
    ffmodel.fit(data, labels, epochs=20, verbose=0)
    print("the kernel after training from zeros:", kernel.get_weights(ffmodel), sep="\n")
    assert kernel.get_weights(ffmodel)[:, :3].argmax(1).tolist() == [0, 1, 2]
    assert not bias.get_weights(ffmodel).any()

    copy = build(seed=2)
    for source in layer.get_parameters():
        target = copy.get_layer_by_name("dense").get_parameters()
        next(p for p in target if p.name == source.name).set_weights(
            copy, source.get_weights(ffmodel)
        )
    assert np.array_equal(copy.predict(data), ffmodel.predict(data))
    print("a copy of the model predicts the same")


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
