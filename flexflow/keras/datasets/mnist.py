"""MNIST: handwritten digits, 28 x 28."""

from __future__ import annotations

import numpy as np

from flexflow.keras import surface
from flexflow.keras.datasets.files import dataset_file, paired, reading

Part = tuple[np.ndarray, np.ndarray]
SOURCE = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"


def load_data(path: str = "mnist.npz") -> tuple[Part, Part]:
    """Read MNIST from Keras's file.

    Args:
        path: a file, absolute or in ~/.keras/datasets (KERAS_HOME/datasets).

    Returns:
        (x_train, y_train), (x_test, y_test): uint8 images (60000, 28, 28) and (10000, 28, 28),
        labels uint8.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged or another file.
    """
    place = dataset_file([path], SOURCE)
    with reading(place, SOURCE), np.load(place, allow_pickle=False) as file:
        train = paired(file["x_train"], file["y_train"])
        return train, paired(file["x_test"], file["y_test"])


__all__ = ["load_data"]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
