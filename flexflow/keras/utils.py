"""Helpers for data and for repeatable runs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from flexflow.keras import backend, surface
from flexflow.keras.progress import Progbar


def to_categorical(x: Any, num_classes: int | None = None, dtype: str = "float32") -> np.ndarray:
    """Class ids as one-hot rows.

    Args:
        x: whole numbers >= 0 of any shape; a last axis of 1 is left out.
        num_classes: None for the greatest id + 1.

    Returns:
        An array of shape (*x.shape, num_classes).

    Raises:
        ValueError: a number that is not a class id below num_classes.

    >>> to_categorical([0, 2])
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    ids = np.asarray(x)
    if ids.ndim > 1 and ids.shape[-1] == 1:
        ids = ids[..., 0]
    if ids.dtype.kind not in "biuf" or not np.array_equal(ids, np.floor(ids)):
        raise ValueError(f"to_categorical: got values of type {ids.dtype}, expected whole numbers")
    ids = ids.astype(np.int64)
    classes = int(num_classes) if num_classes else int(ids.max(initial=-1)) + 1
    if ids.size and (ids.min() < 0 or ids.max() >= classes):
        raise ValueError(
            f"to_categorical: got class ids from {ids.min()} to {ids.max()}, "
            f"expected 0 to {classes - 1}"
        )
    return np.asarray(ids[..., np.newaxis] == np.arange(classes), dtype=dtype)


def normalize(x: Any, axis: int = -1, order: int = 2) -> np.ndarray:
    """An array divided by its norms along an axis; rows of zeros stay.

    >>> normalize([[3.0, 4.0]])
    array([[0.6, 0.8]])
    """
    norms = np.atleast_1d(np.linalg.norm(x, order, axis))
    norms[norms == 0] = 1
    return np.asarray(x) / np.expand_dims(norms, axis)


def set_random_seed(seed: int) -> None:
    """Seed Python's and NumPy's generators, and the stream from which weights, dropout and
    shuffling take theirs.

    Without it that stream starts from FFConfig's seed, so that a script is repeatable anyway.

    >>> set_random_seed(1)
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**32:
        raise ValueError(
            f"set_random_seed: got {seed!r}, expected a whole number from 0 to 2**32 - 1"
        )
    random.seed(seed)
    np.random.seed(seed)
    backend.set_seed(int(seed))


__all__ = ["Progbar", "normalize", "set_random_seed", "to_categorical"]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
