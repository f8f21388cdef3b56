"""The search for strategies: never worse than templates, never below its bound, the same again, and
what it finds computes what one device computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from machine_values import machine, wire
from whole_models import MODELS, Build, mlp, train, transformer

from flexflow.core import (
    FFConfig,
    FFModel,
    FlexFlowError,
    LossType,
    MachineModel,
    SGDOptimizer,
    Strategy,
    search,
)
from flexflow.core.placement import KINDS, indices_of
from flexflow.core.search import _templates
from flexflow.plan import main as plan


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
    model, machine = linears(1024, 1024, 1024), box(4, far=1e7)
    none = dict.fromkeys(KINDS, False)
    only_templates = search(model, machine, kinds=none)
    samples = search(model, machine, kinds={**none, "sample": True})
    everything = search(model, machine)
    assert everything.estimate.seconds <= samples.estimate.seconds * (1 + 1e-9)
    assert samples.estimate.seconds <= only_templates.estimate.seconds * (1 + 1e-9)
    templates = {
        value
        for options in _templates(model, 4).values()
        for name, value in options.items()
        if name.startswith("place:")
    }
    for found, allowed in ((only_templates, set()), (samples, {"sample"})):
        for name, placement in found.strategy.rules:
            (op,) = [op for op in model.get_layers().values() if op.name == name]
            kind = {index.name: index.kind for index in indices_of(model, op)}
            grid = zip(placement.splits.items(), placement.grid())
            words = [f"{index}:{degree}:{stride}" for (index, degree), stride in grid]
            said = " ".join([str(placement.start), *words])
            assert said in templates or {kind[index] for index in placement.splits} <= allowed


def commanded(folder: Path, *arguments: str) -> int:
    """Run ``flexflow plan`` where there is a module of models."""
    (folder / "models_to_plan.py").write_text(
        "from flexflow.core import *\n"
        "def build(batch_size=8):\n"
        "    model = FFModel(FFConfig(batch_size=batch_size))\n"
        "    model.dense(model.create_tensor([batch_size, 64]), 64)\n"
        "    loss = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE\n"
        "    model.compile(SGDOptimizer(model), loss)\n"
        "    return model\n"
        "def nothing(): return 3\n"
        "def faulty(): return 1 / 0\n"
    )
    return plan([*arguments])


def test_plan_writes_a_strategy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("models_to_plan:build", "--machine", "p3.8xlarge", "--batch", "64")
    assert commanded(tmp_path, *arguments, "--strategy", "found.json") == 0
    out = capsys.readouterr().out
    assert out.startswith("p3.8xlarge: 1 node, 4 devices")
    assert "data parallel" in out and "lower bound" in out
    assert Strategy.load("found.json").devices == 4
    box(4).write("box.json")
    assert commanded(tmp_path, "models_to_plan:build", "--machine", "box.json") == 0
    assert capsys.readouterr().out.startswith("test: 1 node, 4 devices")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("models_to_plan", "--machine", "cpu-box"), "expected MODULE:FUNCTION"),
        (("models_to_plan:other", "--machine", "cpu-box"), "has no function 'other'"),
        (("no_such_module:build", "--machine", "cpu-box"), "No module named 'no_such_module'"),
        (("models_to_plan:nothing", "--machine", "cpu-box"), "returned int, expected a compiled"),
        (("models_to_plan:nothing", "--machine", "cpu-box", "--batch", "2"), "argument batch_size"),
        (("models_to_plan:build", "--machine", "cpu-bo"), "no machine is called 'cpu-bo'"),
        (("models_to_plan:build", "--machine", "models_to_plan.py", "--nodes", "2"), "is a file"),
    ],
)
def test_plan_tells_what_is_wrong(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert commanded(tmp_path, *arguments) == 1
    assert message in capsys.readouterr().err


def test_plan_shows_where_a_model_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZeroDivisionError):
        commanded(tmp_path, "models_to_plan:faulty", "--machine", "cpu-box")


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
