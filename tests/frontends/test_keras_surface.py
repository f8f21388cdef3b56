"""What modules and classes of flexflow.keras show, and what they say of Keras's names that they
lack.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flexflow import keras
from flexflow.keras import Input, Sequential, layers
from flexflow.keras.surface import INSTEAD

CLASSES = {
    "Layer": layers.Dense(2),
    "Model": Sequential([layers.Dense(2, input_shape=(3,))]),
    "Optimizer": keras.optimizers.SGD(),
    "LearningRateSchedule": keras.optimizers.schedules.PolynomialDecay(0.1, 10),
    "Metric": keras.metrics.Accuracy(),
    "Loss": keras.losses.MeanSquaredError(),
}
MODULES = ["", *(place for place in INSTEAD if place and place not in CLASSES)]
DATASETS = ["datasets.cifar10", "datasets.digits", "datasets.mnist"]
NAMES = [
    pytest.param(place, name, hint, id=f"{place}.{name}")
    for place, hints in INSTEAD.items()
    for hint, names in hints.items()
    for name in names.split()
]
OPERATORS: dict[str, Callable[[Any], Any]] = {
    "2 * tensor": lambda a: 2 * a,
    "tensor * 2": lambda a: a * 2,
    "tensor + 1": lambda a: a + 1,
    "1 - tensor": lambda a: 1 - a,
    "array + tensor": lambda a: np.ones(4) + a,
    "tensor / 2": lambda a: a / 2,
    "tensor / tensor": lambda a: a / a,
    "tensor // 2": lambda a: a // 2,
    "tensor % 2": lambda a: a % 2,
    "tensor ** 2": lambda a: a**2,
    "tensor @ tensor": lambda a: a @ a,
    "-tensor": operator.neg,
    "abs(tensor)": abs,
    "tensor < 1": lambda a: a < 1,
    "tensor & tensor": lambda a: a & a,
    "tensor[0]": lambda a: a[0],
    "list(tensor)": list,
}


def module(place: str) -> Any:
    return importlib.import_module(f"flexflow.keras.{place}".rstrip("."))


@pytest.mark.parametrize(("place", "name", "hint"), NAMES)
def test_a_name_that_is_missing(place: str, name: str, hint: str) -> None:
    """A row that is supported by now belongs out of the table."""
    owner = CLASSES[place] if place in CLASSES else module(place)
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    assert f"{name} is not supported yet; {hint}" in str(caught.value)


def test_an_unknown_name() -> None:
    with pytest.raises(
        AttributeError, match=r"flexflow.keras.layers has no 'Dens'; it has .*Dense"
    ):
        layers.Dens  # noqa: B018
    with pytest.raises(AttributeError, match="'Dense' object has no attribute 'unit'"):
        layers.Dense(2).unit  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'GRU'"):
        from flexflow.keras.layers import GRU  # noqa: F401


def test_a_property_keeps_its_own_error() -> None:
    with pytest.raises(AttributeError, match="called 0 times, so it has no one input"):
        layers.Dense(2).input  # noqa: B018


@pytest.mark.parametrize("place", [*MODULES, *DATASETS])
def test_a_module_shows_what_it_is_for(place: str) -> None:
    owner = module(place)
    assert dir(owner) == sorted(owner.__all__)
    assert not {"Any", "Union", "annotations", "np", "surface"} & set(dir(owner))
    for name in owner.__all__:
        getattr(owner, name)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_that_is_missing(name: str) -> None:
    a = Input((4,), name="a")
    message = r"KerasTensor .* from 'a'>: the operator .*is not supported.*Use layers: Add,"
    with pytest.raises(TypeError, match=message):
        OPERATORS[name](a)
