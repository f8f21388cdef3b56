"""The examples in the docstrings run, and say what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import flexflow
import flexflow.core

MODULES = ["flexflow"] + [
    f"flexflow.core.{module.name}" for module in pkgutil.iter_modules(flexflow.core.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    """Examples stand after `from flexflow.core import *`, beside a model with two inputs."""
    names = {key: getattr(flexflow.core, key) for key in flexflow.core.__all__}
    module = importlib.import_module(name)
    for test in doctest.DocTestFinder().find(module, name, extraglobs={**names, "np": np}):
        config = flexflow.core.FFConfig()
        ffmodel = flexflow.core.FFModel(config)
        test.globs.update(
            config=config,
            ffmodel=ffmodel,
            x=ffmodel.create_tensor([64, 16], "float32"),
            images=ffmodel.create_tensor([64, 3, 32, 32], "float32"),
        )
        report: list[str] = []
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
        assert result.failed == 0, "".join(report)
