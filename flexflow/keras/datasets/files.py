"""Where data sets lie on this machine, and what is said of a file that cannot be read."""

from __future__ import annotations

import os
import pickle
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np


def dataset_file(names: list[str], source: str) -> Path:
    """The first of several files that is there.

    Args:
        names: absolute paths, or names in Keras's folder: datasets in KERAS_HOME, or in ~/.keras.
        source: where a user gets the file, for the message.

    Raises:
        FileNotFoundError: none is there; nothing is downloaded.
        TypeError: a name that is no text.
    """
    home = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    for name in names:
        if not isinstance(name, (str, os.PathLike)):
            raise TypeError(f"load_data: path={name!r}, expected the name of a file")
    places = [home / "datasets" / name for name in names]
    for place in places:
        if place.exists():
            return place
    looked = " or ".join(map(str, places))
    raise FileNotFoundError(
        f"there is no {looked}; FlexFlow downloads no data: get the file from {source} and put it "
        "there, "
        "or use keras.datasets.digits, which comes with scikit-learn"
    )


@contextmanager
def reading(path: Path, source: str) -> Iterator[None]:
    """Turn what goes wrong in a file of another content into one error.

    Raises:
        ValueError: it is damaged, or does not hold what it should.
    """
    try:
        yield
    except (
        *(ValueError, TypeError, KeyError, AttributeError, IndexError, ImportError, EOFError),
        *(zipfile.BadZipFile, zlib.error, pickle.UnpicklingError),
    ) as error:
        raise ValueError(
            f"{path} is damaged or another file: {error or type(error).__name__}; get it anew from "
            f"{source}"
        ) from error


def paired(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Images and as many labels.

    Raises:
        ValueError: their numbers differ.
    """
    if images.ndim < 2 or len(images) != len(labels):
        raise ValueError(
            f"images of shape {images.shape} and labels of shape {labels.shape}, expected equally "
            "many"
        )
    return images, labels
