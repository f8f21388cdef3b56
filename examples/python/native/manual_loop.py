"""Trains by a loop of one's own: batches, forward, backward and update one by one.

    python -m examples.python.native.manual_loop [-e EPOCHS] [-b BATCH_SIZE]

Two ways to feed the model: a loader, and arrays that are written or attached. Between the steps,
anything can be looked at; here, the largest gradient of each epoch.
"""

import sys

import numpy as np

from flexflow.core import *
from flexflow.keras.datasets import digits


def build(config: FFConfig) -> tuple[FFModel, Tensor]:
    """A perceptron, compiled, and its input."""
    ffmodel = FFModel(config)
    x = ffmodel.create_tensor([config.batch_size, 64], DataType.DT_FLOAT, name="x")
    t = ffmodel.dense(x, 64, ActiMode.AC_MODE_RELU, name="hidden")
    ffmodel.softmax(ffmodel.dense(t, 10, name="top"))
    ffmodel.compile(
        SGDOptimizer(ffmodel, lr=0.1, momentum=0.9),
        LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
        [MetricsType.METRICS_ACCURACY],
    )
    return ffmodel, x


def train_with_loaders(
    config: FFConfig, epochs: int, images: np.ndarray, labels: np.ndarray
) -> FFModel:
    """FlexFlow's loop. The last batch is smaller than the others, and counts by its size."""
    ffmodel, x = build(config)
    dataloader_input = ffmodel.create_data_loader(x, images)
    dataloader_label = ffmodel.create_data_loader(ffmodel.label_tensor, labels)
    kernel = ffmodel.get_layer_by_name("top").get_weight_tensor()
    ffmodel.init_layers()
    for epoch in range(epochs):
        dataloader_input.reset()
        dataloader_label.reset()
        ffmodel.reset_metrics()
        steepest = 0.0
        for _ in range(len(dataloader_input)):
            config.begin_trace(111)
            dataloader_input.next_batch(ffmodel)
            dataloader_label.next_batch(ffmodel)
            ffmodel.forward()
            ffmodel.zero_gradients()
            ffmodel.backward()
            ffmodel.update()
            config.end_trace(111)
            steepest = max(steepest, float(abs(kernel.get_gradients(ffmodel)).max()))
        print(f"epoch {epoch}: {ffmodel.get_perf_metrics()}, largest gradient {steepest:.3f}")
    return ffmodel


def train_with_arrays(
    config: FFConfig, epochs: int, images: np.ndarray, labels: np.ndarray
) -> FFModel:
    """The same steps on arrays: images are written, the labels lie in one that is attached."""
    ffmodel, x = build(config)
    batch_label = np.zeros(ffmodel.label_tensor.dims, np.int32)
    ffmodel.label_tensor.attach_numpy_array(ffmodel, config, batch_label)
    for _ in range(epochs):
        ffmodel.reset_metrics()
        for at in range(0, len(images) - config.batch_size + 1, config.batch_size):
            rows = slice(at, at + config.batch_size)
            x.set_tensor(ffmodel, images[rows])
            batch_label[:, 0] = labels[rows]
            ffmodel.forward()
            ffmodel.zero_gradients()
            ffmodel.backward()
            ffmodel.update()
    return ffmodel


def main() -> None:
    config = FFConfig()
    epochs = config.epochs if config.given("epochs") else 10
    (images, labels), _ = digits.load_data()
    images = (images.reshape(len(images), 64) / 16).astype(np.float32)
    for train in (train_with_loaders, train_with_arrays):
        metrics = train(config, epochs, images, labels).get_perf_metrics()
        print(f"{train.__name__}: {metrics}")
        if len(sys.argv) == 1:  # by default; flags may ask for less
            assert metrics.get_accuracy() >= 90, f"{train.__name__}: expected an accuracy of 90 %"


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
