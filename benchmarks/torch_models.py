"""The models of models.py in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import models
import torch
from torch import nn

ACTIVATIONS = {"none": [], "relu": [nn.ReLU], "gelu": [nn.GELU]}


def built(model: models.Model) -> nn.Module:
    """The model with its weights."""
    net = nn.Sequential(*chain(model.layers, model.input_shape))
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), models.weights(model)):
            parameter.copy_(torch.from_numpy(value))
    return net


def chain(layers: Sequence[models.Layer], shape: models.Shape) -> list[nn.Module]:
    """The modules of layers that read one another."""
    modules = []
    for layer in layers:
        modules += modules_of(layer, shape)
        shape = layer.result(shape)
    return modules


@singledispatch
def modules_of(layer: Any, shape: models.Shape) -> list[nn.Module]:
    """The modules of one layer on samples of a shape."""
    raise NotImplementedError(layer)


@modules_of.register
def _(layer: models.Dense, shape: models.Shape) -> list[nn.Module]:
    activation = [module() for module in ACTIVATIONS[layer.activation]]
    return [nn.Linear(shape[-1], layer.units), *activation]


@modules_of.register
def _(layer: models.Conv, shape: models.Shape) -> list[nn.Module]:
    return [nn.Conv2d(shape[0], layer.channels, 3, padding=1), nn.ReLU()]


@modules_of.register
def _(layer: models.Pool, shape: models.Shape) -> list[nn.Module]:
    return [nn.MaxPool2d(2)]


@modules_of.register
def _(layer: models.Flatten, shape: models.Shape) -> list[nn.Module]:
    return [nn.Flatten()]


@modules_of.register
def _(layer: models.Mean, shape: models.Shape) -> list[nn.Module]:
    return [Mean()]


@modules_of.register
def _(layer: models.Tokens, shape: models.Shape) -> list[nn.Module]:
    return [nn.Embedding(layer.entries, layer.features)]


@modules_of.register
def _(layer: models.Norm, shape: models.Shape) -> list[nn.Module]:
    return [nn.LayerNorm(shape[-1])]


@modules_of.register
def _(layer: models.Attention, shape: models.Shape) -> list[nn.Module]:
    return [Attention(shape[-1], layer.heads)]


@modules_of.register
def _(layer: models.Residual, shape: models.Shape) -> list[nn.Module]:
    return [Residual(*chain(layer.layers, shape))]


class Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)


class Residual(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + super().forward(x)


class Attention(nn.Module):
    """Self-attention of (batch, sequence, features)."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_projection = nn.Linear(features, 3 * features)
        self.out_projection = nn.Linear(features, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.in_projection(x).chunk(3, -1)
        query, key, value = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.out_projection(mixed.transpose(1, 2).flatten(2))
