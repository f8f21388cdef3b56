"""Small data sets. None is downloaded: each module says which file it reads."""

from flexflow.keras import surface
from flexflow.keras.datasets import cifar10, digits, mnist

__all__ = [
    "cifar10",
    "digits",
    "mnist",
]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
