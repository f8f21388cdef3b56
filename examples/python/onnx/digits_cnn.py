"""A convolutional network is written to an ONNX file by PyTorch, read from it, and trained.

    python -m examples.python.onnx.digits_cnn [-e EPOCHS] [-b BATCH_SIZE]

Trains on UCI's handwritten digits, 8 x 8, which come with scikit-learn.
"""

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

from flexflow.core import *
from flexflow.keras.datasets import digits
from flexflow.onnx.model import ONNXModel


def write(path: Path) -> None:
    """Write a network that has learnt nothing yet; the batch is left open, and dropout kept."""
    torch.manual_seed(0)
    module = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(512, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            module,
            (torch.zeros(2, 1, 8, 8),),
            str(path),
            dynamo=False,
            input_names=["image"],
            dynamic_axes={"image": {0: "batch"}},
            training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
        )


def main() -> None:
    config = FFConfig()
    epochs = config.epochs if config.given("epochs") else 12
    (x_train, y_train), (x_test, y_test) = digits.load_data()
    x_train, x_test = (x[:, None].astype(np.float32) / 16 for x in (x_train, x_test))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits_cnn.onnx"
        write(path)
        importer = ONNXModel(path)

    ffmodel = FFModel(config)
    image = ffmodel.create_tensor([config.batch_size, 1, 8, 8], DataType.DT_FLOAT)
    logits = importer.apply(ffmodel, {"image": image})
    print("weights:", ", ".join(importer.weights))
    ffmodel.compile(
        AdamOptimizer(ffmodel, alpha=0.003),
        LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
        [MetricsType.METRICS_ACCURACY],
        output=logits,
        loss_attributes={"from_logits": True},
    )
    ffmodel.fit(x_train, y_train, epochs=epochs, shuffle=True)

    right = np.mean(ffmodel.predict(x_test).argmax(1) == y_test)
    print(f"{100 * right:.2f} % of {len(y_test)} held-out digits are right")
    if len(sys.argv) == 1:  # by default; flags may ask for less
        assert right >= 0.96, f"{right} of the held-out digits are right, expected 0.96"


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
