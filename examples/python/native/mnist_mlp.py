"""Trains a perceptron on handwritten digits of MNIST's shape, by FlexFlow's calls.

    python -m examples.python.native.mnist_mlp [-e EPOCHS] [-b BATCH_SIZE] [--lr RATE]

The digits are UCI's, which come with scikit-learn, scaled up to 28 x 28; nothing is downloaded.
"""

import sys

import numpy as np

from flexflow.core import *
from flexflow.keras.datasets import digits


def flat_images(images: np.ndarray) -> np.ndarray:
    """8 x 8 images with values to 16 as rows of 784 numbers in [0, 1]."""
    large = np.pad(images.repeat(3, 1).repeat(3, 2), ((0, 0), (2, 2), (2, 2)))
    return (large / 16).reshape(len(images), 784).astype(np.float32)


def main() -> None:
    ffconfig = FFConfig()
    epochs = ffconfig.epochs if ffconfig.given("epochs") else 20
    print(f"batch size {ffconfig.batch_size}, {ffconfig.workers_per_node} device, {epochs} epochs")
    (x_train, y_train), (x_test, y_test) = digits.load_data()

    ffmodel = FFModel(ffconfig)
    input_tensor = ffmodel.create_tensor([ffconfig.batch_size, 784], DataType.DT_FLOAT)
    kernel_init = UniformInitializer(12, -0.1, 0.1)
    t = ffmodel.dense(input_tensor, 512, ActiMode.AC_MODE_RELU, kernel_initializer=kernel_init)
    t = ffmodel.dense(t, 512, ActiMode.AC_MODE_RELU)
    t = ffmodel.dense(t, 10)
    t = ffmodel.softmax(t)

    lr = ffconfig.learning_rate if ffconfig.given("learning_rate") else 0.1
    ffmodel.optimizer = SGDOptimizer(ffmodel, lr)
    ffmodel.compile(
        loss_type=LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
        metrics=[MetricsType.METRICS_ACCURACY, MetricsType.METRICS_SPARSE_CATEGORICAL_CROSSENTROPY],
    )
    dataloader_input = ffmodel.create_data_loader(input_tensor, flat_images(x_train), shuffle=True)
    dataloader_label = ffmodel.create_data_loader(ffmodel.label_tensor, y_train, shuffle=True)
    ffmodel.init_layers()

    start = ffconfig.get_current_time()
    ffmodel.fit(x=dataloader_input, y=dataloader_label, epochs=epochs)
    seconds = (ffconfig.get_current_time() - start) * 1e-6
    rate = dataloader_input.num_samples * epochs / seconds
    print(f"epochs {epochs}, ELAPSED TIME = {seconds:.4f}s, THROUGHPUT = {rate:.2f} samples/s")

    accuracy = ffmodel.eval(flat_images(x_test), y_test).get_accuracy()
    print(f"{accuracy:.2f} % of {len(y_test)} held-out digits are right")
    if len(sys.argv) == 1:  # by default; flags may ask for less
        assert accuracy >= 95, f"{accuracy:.2f} % are right, expected 95 %"


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
