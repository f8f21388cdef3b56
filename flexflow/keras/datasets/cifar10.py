"""CIFAR-10: small colour images of ten classes, 32 x 32."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

from flexflow.keras import backend, surface
from flexflow.keras.datasets.files import dataset_file, paired, reading

Part = tuple[np.ndarray, np.ndarray]
SOURCE = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz (unpacked)"
_BATCH = 10000


def load_data(num_samples: int = 50000) -> tuple[Part, Part]:
    """Read CIFAR-10 from the folder cifar-10-batches-py in ~/.keras/datasets (KERAS_HOME/datasets).

    Args:
        num_samples: how many training images, a multiple of 10000; FlexFlow's argument.

    Returns:
        (x_train, y_train), (x_test, y_test): uint8 images (n, 32, 32, 3), or (n, 3, 32, 32) if
        backend.image_data_format() is "channels_first"; labels uint8 (n, 1).

    Raises:
        FileNotFoundError: there is no such folder, or a file of it is missing.
        ValueError: another number of samples, or a file that is damaged.
    """
    if (
        not isinstance(num_samples, int)
        or num_samples % _BATCH
        or not _BATCH <= num_samples <= 5 * _BATCH
    ):
        raise ValueError(f"cifar10: num_samples={num_samples}, expected 10000, 20000, … or 50000")
    folder = dataset_file(
        ["cifar-10-batches-py", "cifar-10-batches-py-target/cifar-10-batches-py"], SOURCE
    )
    parts = [_load(folder, f"data_batch_{i + 1}") for i in range(num_samples // _BATCH)]
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts))
    return (images, labels), _load(folder, "test_batch")


def _load(folder: Path, name: str) -> Part:
    path = dataset_file([str(folder / name)], SOURCE)
    with reading(path, SOURCE), path.open("rb") as file:
        content = _Arrays(file, encoding="bytes").load()
        images = np.asarray(content[b"data"], dtype=np.uint8).reshape(-1, 3, 32, 32)
        labels = np.asarray(content[b"labels"], dtype=np.uint8).reshape(-1, 1)
        images, labels = paired(images, labels)
    if backend.image_data_format() == "channels_last":
        images = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    return images, labels


class _Arrays(pickle.Unpickler):
    """Reads arrays and builtin containers only: a pickle can otherwise run anything."""

    def find_class(self, module: str, name: str) -> object:
        allowed = {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, expected arrays only")
        return super().find_class(module, name)


__all__ = ["load_data"]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
