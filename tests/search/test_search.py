"""The search for strategies: never worse than templates, never below its bound, the same again, and
what it finds computes what one device computes."""

from __future__ import annotations

import numpy as np
import pytest
from machine_values import machine, wire
from whole_models import MODELS, Build, dlrm, mlp, train, transformer

from flexflow.core import (
    FFConfig,
    FFModel,
    FlexFlowError,
    LossType,
    MachineModel,
    SGDOptimizer,
    search,
)


def compiled(build: Build, batch: int = 8) -> FFModel:
    model = FFModel(FFConfig(batch_size=batch))
    build(model, batch, "float32")
    model.compile(SGDOptimizer(model), MODELS[build])
    return model


def box(devices: int, overlap: bool = True, memory: float = 1e9, far: float = 1e9) -> MachineModel:
    """Devices that are slow beside their links, so that splits pay for small models."""
    kind = {
        "kernels": "cuda",
        "flops": {"float32": 1e9},
        "memory": memory,
        "bandwidth": 1e9,
        "launch": 1e-7,
    }
    values = machine(wire("clique", latency=1e-8, bandwidth=far, members="*"), devices=devices)
    values["overlap"] = overlap
    values["devices"]["core"] = kind
    return MachineModel(values)


@pytest.mark.parametrize("build", MODELS)
@pytest.mark.parametrize("devices", [2, 4, 6])
@pytest.mark.parametrize("overlap", [True, False])
def test_no_worse_than_templates_and_not_below_the_bound(
    build: Build, devices: int, overlap: bool
) -> None:
    found = search(compiled(build), box(devices, overlap))
    assert found.templates
    for name, estimate in found.templates.items():
        assert found.estimate.seconds <= estimate.seconds * (1 + 1e-9), name
    assert found.lower_bound <= found.estimate.seconds * (1 + 1e-9)
    assert found.estimate.compute > 0
    if not overlap:
        total = found.estimate.compute + found.estimate.sync
        assert found.estimate.seconds == pytest.approx(total)


@pytest.mark.parametrize("build", [build for build in MODELS if build.__name__ != "resnet18"])
@pytest.mark.parametrize("devices", [2, 4])
def test_what_is_found_computes_what_one_device_does(build: Build, devices: int) -> None:
    strategy = search(compiled(build), box(devices)).strategy
    alone, split = train(build, None), train(build, lambda model: strategy)
    np.testing.assert_allclose(split.losses, alone.losses, 1e-7, 1e-9)
    for name, weight in alone.weights.items():
        np.testing.assert_allclose(split.weights[name], weight, 1e-6, 1e-8, err_msg=name)


def test_the_same_search_gives_the_same_answer() -> None:
    model = compiled(transformer)
    one, other = (search(model, box(4)) for _ in range(2))
    assert str(one.strategy) == str(other.strategy)
    assert one.estimate == other.estimate


def linears(*widths: int) -> FFModel:
    model = FFModel(FFConfig(batch_size=8))
    t = model.create_tensor([8, widths[0]])
    for width in widths[1:]:
        t = model.dense(t, width)
    model.compile(SGDOptimizer(model), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
    return model


def test_large_weights_are_split_where_links_are_slow() -> None:
    found = search(linears(4096, 8192, 16), box(4, far=1e7))
    data_parallel = found.templates["data parallel"]
    assert found.estimate.seconds < data_parallel.seconds / 2
    assert found.estimate.memory < data_parallel.memory


def test_memory_is_kept() -> None:
    model = linears(1024, 1024, 1024)
    limit = 0.5 * search(model, box(4)).templates["data parallel"].memory
    assert search(model, box(4, memory=limit)).estimate.memory <= limit
    with pytest.raises(MemoryError, match="within its memory"):
        search(model, box(4, memory=1e5))


def test_kinds_that_are_not_to_be_split() -> None:
    none = dict.fromkeys(("attribute", "parameter", "reduction"), False)
    found = search(compiled(dlrm), box(4), kinds=none)
    assert "parameter" not in str(found.strategy)
    everything = search(compiled(dlrm), box(4))
    assert everything.estimate.seconds <= found.estimate.seconds * (1 + 1e-9)


def test_bad_calls() -> None:
    model = compiled(mlp)
    with pytest.raises(TypeError, match="expected a MachineModel"):
        search(model, 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kinds has 'batch'"):
        search(model, box(2), kinds={"batch": True})
    with pytest.raises(ValueError, match="candidates"):
        search(model, box(2), candidates=0)
    with pytest.raises(FlexFlowError, match="compile"):
        search(FFModel(FFConfig()), box(2))
