"""Trains a convolutional network on handwritten digits of MNIST's shape, by FlexFlow's calls.

    python -m examples.python.native.mnist_cnn [-e EPOCHS] [-b BATCH_SIZE] [--lr RATE]

The digits are UCI's, which come with scikit-learn, scaled up to 28 x 28; nothing is downloaded.
"""

import sys

import numpy as np

from flexflow.core import *
from flexflow.keras.datasets import digits


def images_of(small: np.ndarray) -> np.ndarray:
    """8 x 8 images with values to 16 as (n, 1, 28, 28) with values in [0, 1]."""
    large = np.pad(small.repeat(3, 1).repeat(3, 2), ((0, 0), (2, 2), (2, 2)))
    return (large[:, None] / 16).astype(np.float32)


def build(ffmodel: FFModel, batch_size: int) -> Tensor:
    """Two convolutions, a pooling, two dense layers; the input."""
    input_tensor = ffmodel.create_tensor([batch_size, 1, 28, 28], DataType.DT_FLOAT)
    t = ffmodel.conv2d(input_tensor, 32, 3, 3, 1, 1, 1, 1, ActiMode.AC_MODE_RELU)
    t = ffmodel.conv2d(t, 64, 3, 3, 2, 2, 1, 1, ActiMode.AC_MODE_RELU)
    t = ffmodel.pool2d(t, 2, 2, 2, 2, 0, 0)
    t = ffmodel.flat(t)
    t = ffmodel.dense(t, 128, ActiMode.AC_MODE_RELU)
    t = ffmodel.dense(t, 10)
    ffmodel.softmax(t)
    return input_tensor


def main() -> None:
    ffconfig = FFConfig()
    epochs = ffconfig.epochs if ffconfig.given("epochs") else 8
    (x_train, y_train), (x_test, y_test) = digits.load_data()

    ffmodel = FFModel(ffconfig)
    input_tensor = build(ffmodel, ffconfig.batch_size)
    ffmodel.optimizer = AdamOptimizer(ffmodel)
    ffmodel.compile(
        loss_type=LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
        metrics=[MetricsType.METRICS_ACCURACY],
    )
    dataloader_input = ffmodel.create_data_loader(input_tensor, images_of(x_train), shuffle=True)
    dataloader_label = ffmodel.create_data_loader(ffmodel.label_tensor, y_train, shuffle=True)
    ffmodel.init_layers()
    ffmodel.fit(x=dataloader_input, y=dataloader_label, epochs=epochs)

    accuracy = ffmodel.eval(images_of(x_test), y_test).get_accuracy()
    print(f"{accuracy:.2f} % of {len(y_test)} held-out digits are right")
    if len(sys.argv) == 1:  # by default; flags may ask for less
        assert accuracy >= 93, f"{accuracy:.2f} % are right, expected 93 %"


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
