"""Models: Sequential, and Model for any graph of layers."""

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
