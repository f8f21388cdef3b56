"""Simulations of compiled models: their numbers agree with the plan, and files with the numbers."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from flexflow.core import (
    ActiMode,
    FFConfig,
    FFModel,
    LossType,
    MachineModel,
    SGDOptimizer,
    Strategy,
    costs,
)
from flexflow.core._lib import FlexFlowError, call, text

STRATEGIES = {
    "one": None,
    "data": Strategy.data_parallel(2),
    "tensor": Strategy.tensor_parallel(2),
    "pipeline": Strategy.hybrid(pp=2),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Costs are kept in a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def compiled(strategy: Strategy | None = None, width: int = 24, name: str = "hidden") -> FFModel:
    model = FFModel(FFConfig(batch_size=16, threads=1, seed=1))
    x = model.create_tensor([16, 12], "float32")
    t = model.dense(x, width, ActiMode.AC_MODE_RELU, name=name)
    model.softmax(model.dense(t, 5))
    model.compile(
        SGDOptimizer(model, lr=0.1),
        LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
        [],
        strategy=strategy,
    )
    return model


def known() -> dict[str, str]:
    return dict(line.split("\t")[::-1] for line in text("ff_costs_text").splitlines())


@pytest.mark.parametrize("name", STRATEGIES)
def test_numbers_agree_with_the_plan(name: str) -> None:
    model = compiled(STRATEGIES[name])
    simulation = model.simulate()
    devices = 1 if STRATEGIES[name] is None else 2
    calls = [stay for stay in simulation.stays if stay.lane == "calls"]
    assert len(calls) == len(simulation.stays)  # the devices of one memory need no links
    steps = re.findall(r" = (\w+)\(.*# (.*)$", model.plan(), re.M)
    assert [(stay.op, stay.name) for stay in calls] == steps
    for device in range(devices):
        own = [stay for stay in calls if stay.at == device]
        assert sum(stay.end - stay.begin for stay in own) == pytest.approx(simulation.busy[device])
        assert all(a.end <= b.begin for a, b in zip(own, own[1:]))
        assert 0 <= simulation.exposed[device] <= simulation.busy[device] <= simulation.seconds
    assert simulation.seconds >= max(stay.end for stay in calls)
    # A stage reads where the one before it wrote.
    assert (sum(simulation.bytes_moved.values()) > 0) == (name in ("data", "tensor"))


def test_waits_are_kept() -> None:
    model = compiled(STRATEGIES["pipeline"])
    stays = model.simulate().stays
    waits = [
        (int(step), int(other))
        for step, rest in re.findall(r"^  (\d+) @\d.*?((?: after \d+@\d+)+)", model.plan(), re.M)
        for other in re.findall(r"after (\d+)@", rest)
    ]
    assert waits
    assert all(stays[other].end <= stays[step].begin for step, other in waits)


@pytest.mark.parametrize("name", ["one", "tensor"])
def test_memory_is_that_of_the_report(name: str) -> None:
    model = compiled(STRATEGIES[name])
    totals = re.findall(r"total ([\d.]+) (B|MiB)", model.memory_report())
    report = [float(size) * (2**20 if unit == "MiB" else 1) for size, unit in totals]
    assert model.simulate().peak_memory == pytest.approx(report, abs=2**20 * 0.005)


@pytest.mark.parametrize("step", ["train", "evaluate", "predict", "manual"])
def test_every_step_has_a_simulation(step: str) -> None:
    assert compiled().simulate(step).seconds > 0


def test_less_is_faster() -> None:
    model = compiled(width=2000)
    assert model.simulate("predict").seconds < model.simulate("train").seconds
    assert compiled(width=20).simulate().seconds < model.simulate().seconds


def test_nothing_is_trained() -> None:
    model = compiled(STRATEGIES["data"])
    (kernel, *_) = model.get_layers()[0].get_parameters()
    before = kernel.get_weights()
    model.simulate()
    assert np.array_equal(before, kernel.get_weights())
    assert model.get_scalar("step") == 0


def test_a_trace_has_every_step_once(tmp_path: Path) -> None:
    model = compiled(STRATEGIES["data"])
    simulation = model.simulate()
    simulation.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    assert sorted(tracks.values()) == ["device 0", "device 1"]
    shown = [e for e in events if e["ph"] == "X"]
    assert len(shown) == len(simulation.stays)
    for event, stay in zip(shown, simulation.stays):
        assert event["name"] == (stay.name or stay.op)
        assert tracks[event["tid"]] == f"device {stay.at}"
        assert event["ts"] == pytest.approx(stay.begin * 1e6)
        assert event["dur"] == pytest.approx((stay.end - stay.begin) * 1e6)


def test_names_make_no_difference_to_costs() -> None:
    compiled(width=31).simulate()
    before = known()
    compiled(width=31, name="another").simulate()
    assert known() == before
    compiled(width=32).simulate()
    assert len(known()) > len(before)


def test_costs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(width=33).simulate()
    values = json.loads(costs.cost_file().read_text())
    assert values["seconds"] == {key: float(seconds) for key, seconds in known().items()}
    assert list(costs.cost_file().parent.iterdir()) == [costs.cost_file()]
    # As another process finds them, with a cost that this one does not know yet.
    values["seconds"]["a call of another process"] = 1.5
    costs.cost_file().write_text(json.dumps(values))
    monkeypatch.setattr(costs, "_read", set())
    compiled(width=33).simulate()
    assert known()["a call of another process"] == "1.5"


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"format": "flexflow costs", "version": 7}',
        '{"format": "flexflow costs", "version": 1, "build": "other", "seconds": {}}',
        b"\xff\xfe",
    ],
)
def test_a_broken_file_is_passed_over(content: str | bytes) -> None:
    path = costs.cost_file()
    path.parent.mkdir(parents=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.warns(UserWarning, match="are not used"):
        costs.recall_costs()
    costs.keep_costs()
    assert json.loads(path.read_text())["seconds"] == {
        key: float(seconds) for key, seconds in known().items()
    }


@pytest.mark.parametrize("seconds", ["-1", "NaN", '"1"', "true", "null"])
def test_costs_that_are_none_are_passed_over(seconds: str) -> None:
    costs.keep_costs()
    values = costs.cost_file().read_text()
    costs.cost_file().write_text(values.replace('"seconds": {', f'"seconds": {{"odd": {seconds},'))
    with pytest.warns(UserWarning, match="are not used"):
        costs.recall_costs()
    assert "odd" not in known()


def test_a_folder_that_cannot_be_made_is_no_obstacle(cache: Path) -> None:
    (cache / "flexflow").write_text("a file")
    with pytest.warns(UserWarning, match="not kept"):
        compiled(width=34).simulate()


def test_a_second_simulation_measures_nothing() -> None:
    model = compiled(STRATEGIES["tensor"])
    first = model.simulate()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = model.simulate()
    assert first.seconds == second.seconds and first.stays == second.stays


def test_another_machine_is_simulated_by_its_rates(tmp_path: Path) -> None:
    model = compiled(STRATEGIES["data"], width=500)
    before = known()
    machine = MachineModel.load("p3.8xlarge")
    simulation = model.simulate(machine=machine)
    assert known() == before  # nothing is measured
    weights = sum(
        int(np.prod(p.dims)) * 4 for op in model.get_layers().values() for p in op.get_parameters()
    )
    # Of each gradient, a half is summed on each device, and what one lacks of the other is sent.
    assert sum(simulation.bytes_moved.values()) == pytest.approx(2 * weights, rel=0.1)
    assert len(simulation.busy) == len(machine.devices)
    busy = [link for link in simulation.links if link.busy > 0]
    assert busy and all(link.busy <= simulation.seconds for link in busy)
    simulation.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(e["ph"] == "X" for e in events) == len(simulation.stays)
    lanes = {stay.lane for stay in simulation.stays}
    assert lanes == {"calls", "moves", "link"}


def test_faster_machines_are_faster() -> None:
    model = compiled(STRATEGIES["data"], width=500)
    machines = [MachineModel.load(name) for name in ("p3.8xlarge", "dgx-h100")]
    slow, fast = (model.simulate(machine=machine).seconds for machine in machines)
    assert fast < slow


def test_mistakes_are_told() -> None:
    with pytest.raises(FlexFlowError, match="not compiled"):
        FFModel(FFConfig()).simulate()
    with pytest.raises(ValueError, match="expected one of train"):
        compiled().simulate("trian")
    with pytest.raises(TypeError, match="expected a MachineModel"):
        compiled().simulate(machine="dgx-h100")
    with pytest.raises(ValueError, match="at least 0"):
        call("ff_costs_set", b"key", -1.0)
