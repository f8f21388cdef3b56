"""Models: Sequential, and Model for any graph of layers."""

from flexflow.keras import surface
from flexflow.keras.graph import KerasTensor
from flexflow.keras.models.functional import Model
from flexflow.keras.models.sequential import Sequential

# FlexFlow's name for what Input() returns.
Tensor = KerasTensor

__all__ = [
    "Model",
    "Sequential",
    "Tensor",
]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
