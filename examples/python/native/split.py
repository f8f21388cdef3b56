"""A network with branches: three convolutions, joined, then split again, of which one goes on.

python -m examples.python.native.split [-e EPOCHS] [-b BATCH_SIZE]
"""

import sys

import numpy as np

from flexflow.core import *
from flexflow.keras.datasets import digits


def main() -> None:
    ffconfig = FFConfig()
    epochs = ffconfig.epochs if ffconfig.given("epochs") else 10
    (images, labels), _ = digits.load_data()

    ffmodel = FFModel(ffconfig)
    x = ffmodel.create_tensor([ffconfig.batch_size, 1, 8, 8], DataType.DT_FLOAT)
    branches = [ffmodel.conv2d(x, 16, 3, 3, 1, 1, 1, 1, ActiMode.AC_MODE_RELU) for _ in range(3)]
    joined = ffmodel.concat(branches, 1)
    parts = ffmodel.split(joined, 3, 1)
    assert [part.dims for part in parts] == [branch.dims for branch in branches]
    t = ffmodel.flat(ffmodel.pool2d(parts[1], 2, 2))
    ffmodel.softmax(ffmodel.dense(t, 10))

    ffmodel.compile(
        AdamOptimizer(ffmodel, alpha=0.003),
        LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
        [MetricsType.METRICS_ACCURACY],
    )
    kernels = [branch.owner_op.get_weight_tensor() for branch in branches]
    before = [kernel.get_weights(ffmodel) for kernel in kernels]
    history = ffmodel.fit(images[:, None] / 16, labels, epochs=epochs, shuffle=True)
    print(f"training accuracy {history[-1].get_accuracy():.2f} %")
    if len(sys.argv) == 1:  # by default; flags may ask for less
        assert history[-1].get_accuracy() >= 90, "expected a training accuracy of 90 %"

    trained = [
        not np.array_equal(old, new.get_weights(ffmodel)) for old, new in zip(before, kernels)
    ]
    print("branches that were trained:", trained)
    assert trained == [False, True, False]


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
