"""UCI's handwritten digits, 8 x 8, which come with scikit-learn."""

from __future__ import annotations

import numpy as np

from flexflow.core.checks import real
from flexflow.keras import surface

Part = tuple[np.ndarray, np.ndarray]


def load_data(test_split: float = 0.2, seed: int = 113) -> tuple[Part, Part]:
    """The 1797 digits, shuffled and divided into a part to train on and one to test with.

    Args:
        test_split: share of the test part, between 0 and 1.
        seed: of the shuffle.

    Returns:
        (x_train, y_train), (x_test, y_test): uint8 images (n, 8, 8) with values 0 to 16, labels
        uint8 0 to 9.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: test_split out of range. TypeError: it is no number.

    >>> (x_train, y_train), (x_test, y_test) = load_data()
    >>> x_train.shape, y_test.shape
    ((1437, 8, 8), (360,))
    """
    if not 0 < real(test_split, "digits: test_split") < 1:
        raise ValueError(f"digits: test_split={test_split}, expected a number between 0 and 1")
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise ImportError(
            "datasets.digits comes with scikit-learn: pip install scikit-learn"
        ) from error
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    images, labels = digits.images.astype(np.uint8)[order], digits.target.astype(np.uint8)[order]
    at = int(len(labels) * (1 - test_split))
    return (images[:at], labels[:at]), (images[at:], labels[at:])


__all__ = ["load_data"]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
