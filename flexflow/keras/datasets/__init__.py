"""Small data sets. None is downloaded: each module says which file it reads."""

from flexflow.keras.datasets import cifar10, digits, mnist

__all__ = [
    "cifar10",
    "digits",
    "mnist",
]
