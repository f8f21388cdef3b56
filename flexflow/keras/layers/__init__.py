"""Layers by Keras's names, one file for each family."""

from flexflow.keras import surface
from flexflow.keras.layers.base import Input, InputLayer, Layer
from flexflow.keras.layers.convolution import Conv2D
from flexflow.keras.layers.core import Activation, Dense, Embedding, LeakyReLU, ReLU, Softmax
from flexflow.keras.layers.merging import (
    Add,
    Concatenate,
    Maximum,
    Minimum,
    Multiply,
    Subtract,
    add,
    concatenate,
    maximum,
    minimum,
    multiply,
    subtract,
)
from flexflow.keras.layers.normalization import BatchNormalization, LayerNormalization
from flexflow.keras.layers.pooling import (
    AveragePooling2D,
    AvgPool2D,
    GlobalAveragePooling2D,
    GlobalAvgPool2D,
    MaxPool2D,
    MaxPooling2D,
)
from flexflow.keras.layers.products import Dot, EinsumDense, dot
from flexflow.keras.layers.recurrent import LSTM
from flexflow.keras.layers.regularization import Dropout
from flexflow.keras.layers.reshaping import Flatten, Permute, Reshape

Convolution2D = Conv2D

__all__ = [
    "LSTM",
    "Activation",
    "Add",
    "AveragePooling2D",
    "AvgPool2D",
    "BatchNormalization",
    "Concatenate",
    "Conv2D",
    "Convolution2D",
    "Dense",
    "Dot",
    "Dropout",
    "EinsumDense",
    "Embedding",
    "Flatten",
    "GlobalAveragePooling2D",
    "GlobalAvgPool2D",
    "Input",
    "InputLayer",
    "Layer",
    "LayerNormalization",
    "LeakyReLU",
    "MaxPool2D",
    "MaxPooling2D",
    "Maximum",
    "Minimum",
    "Multiply",
    "Permute",
    "ReLU",
    "Reshape",
    "Softmax",
    "Subtract",
    "add",
    "concatenate",
    "dot",
    "maximum",
    "minimum",
    "multiply",
    "subtract",
]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
