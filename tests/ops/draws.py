"""Values for the inputs of operators, drawn so that no rounding changes what is compared.

Values are drawn once in float32 (or coarser, for the half formats), so that every dtype and PyTorch
see the same numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

Generator = np.random.Generator


@dataclass(frozen=True)
class Draw:
    """How one input of a case is drawn."""

    values: Callable[[Generator, tuple[int, ...]], np.ndarray]
    shape: tuple[int, ...]
    dtype: str = "float"  # the dtype under test, unless it is named
    differentiable: bool = True

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape)) or "scalar"
        return shape if self.dtype == "float" else f"{shape}:{self.dtype}"

    def of(self, dtype: str, seed: str) -> np.ndarray:
        """The values for a dtype, bfloat16 as float32; they depend on nothing but the seed."""
        random = np.random.default_rng(zlib.crc32(seed.encode()))
        values = self.values(random, self.shape)
        if self.dtype != "float":
            return values.astype(self.dtype)
        return rounded(values, dtype)


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """The values that a dtype can hold, as the array that carries them; float64 gets no more digits
    than float32 has."""
    values = values.astype(np.float32)
    if dtype == "bfloat16":
        return torch.from_numpy(values).bfloat16().float().numpy()
    return values.astype(dtype)


def _away(random: Generator, shape: tuple[int, ...]) -> np.ndarray:
    values = random.normal(size=shape)
    return values + np.where(values < 0, -0.1, 0.1)


def _distinct(random: Generator, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    return random.permutation(np.linspace(-2, 2, count) if count else np.zeros(0)).reshape(shape)


def _distribution(random: Generator, shape: tuple[int, ...]) -> np.ndarray:
    values = random.uniform(0.2, 1, size=shape)
    return values / values.sum(-1, keepdims=True)


def normal(*shape: int) -> Draw:
    """Standard normal."""
    return Draw(lambda random, size: random.normal(size=size), shape)


def away(*shape: int) -> Draw:
    """Normal, at least 0.1 from 0, where some functions have a kink."""
    return Draw(_away, shape)


def positive(*shape: int) -> Draw:
    """From 0.2 to 3."""
    return Draw(lambda random, size: random.uniform(0.2, 3, size=size), shape)


def distinct(*shape: int) -> Draw:
    """Between -2 and 2, no two alike or nearly so."""
    return Draw(_distinct, shape)


def probability(*shape: int) -> Draw:
    """From 0.05 to 0.95."""
    return Draw(lambda random, size: random.uniform(0.05, 0.95, size=size), shape)


def distribution(*shape: int) -> Draw:
    """Positive, of sum 1 along the last axis."""
    return Draw(_distribution, shape)


def integers(*shape: int, low: int = -9, high: int = 10, dtype: str = "int64") -> Draw:
    """Whole numbers in [low, high)."""
    return Draw(lambda random, size: random.integers(low, high, size=size), shape, dtype, False)


def ids(*shape: int, below: int, dtype: str = "int64") -> Draw:
    """Whole numbers in [0, below)."""
    return integers(*shape, low=0, high=below, dtype=dtype)


def given(values: object, dtype: str = "float") -> Draw:
    """These values."""
    array = np.asarray(values)
    return Draw(lambda random, size: array, array.shape, dtype, dtype == "float")


def fixed(draw: Draw) -> Draw:
    """The same draw for an input that gets no gradient, such as a label."""
    return Draw(draw.values, draw.shape, draw.dtype, False)
