"""A front end with Keras's names: change ``import keras`` to ``from flexflow import keras``.

>>> from flexflow.keras import Sequential, layers
>>> model = Sequential([layers.Dense(3, activation="softmax", input_shape=(4,))])
>>> model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

Images are (rows, columns, channels) unless backend.set_image_data_format("channels_first") is
called. What is not supported yet raises an error that names it; no argument is taken and ignored.
"""

from flexflow.keras import (
    activations,
    backend,
    callbacks,
    datasets,
    initializers,
    layers,
    losses,
    metrics,
    models,
    optimizers,
    regularizers,
    surface,
    utils,
)
from flexflow.keras.graph import KerasTensor
from flexflow.keras.layers import Input, Layer
from flexflow.keras.models import Model, Sequential

__all__ = [
    "Input",
    "KerasTensor",
    "Layer",
    "Model",
    "Sequential",
    "activations",
    "backend",
    "callbacks",
    "datasets",
    "initializers",
    "layers",
    "losses",
    "metrics",
    "models",
    "optimizers",
    "regularizers",
    "utils",
]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
