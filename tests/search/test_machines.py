"""Machine models: ways between devices, ready-made machines, and the command that shows them."""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import sys
import threading
import time
from ctypes import byref, c_double, c_size_t, c_uint64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_values import KIND, link, machine, wire

from flexflow.core import DataType, FFConfig, FFModel, FlexFlowError, MachineModel, _abi
from flexflow.core._lib import call, text
from flexflow.core.machine_file import parsed
from flexflow.core.topology import TYPES

ROOT = Path(__file__).resolve().parents[2]
NAMES = tuple(MachineModel.names())


def hops(model: MachineModel, a: int, b: int) -> int:
    return len(model.route(a, b).links)


# ---- ways ----
@st.composite
def networks(draw: st.DrawFn) -> dict[str, Any]:
    devices, switches = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    names = [f"cpu{n}" for n in range(devices)] + [f"switch{n}" for n in range(switches)]
    pairs = list(itertools.permutations(names, 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=14))
    connections = [
        link(
            *(a, b),
            one_way=True,
            latency=draw(st.integers(0, 20)) * 1e-4,
            bandwidth=draw(st.integers(1, 30)) * 1e8,
        )
        for a, b in chosen
    ]
    return machine(*connections, devices=devices, switches={"switch": switches})


@given(networks())
def test_ways_are_the_fastest_there_are(values: dict[str, Any]) -> None:
    """Against Floyd and Warshall's algorithm."""
    model = MachineModel(values)
    vertices = len(model.devices) + len(model.switches)
    best = np.full((vertices, vertices), np.inf)
    np.fill_diagonal(best, 0)
    for source, target, latency, bandwidth in model.links:
        best[source, target] = latency + 1e6 / bandwidth
    for k in range(vertices):
        best = np.minimum(best, best[:, k, None] + best[None, k])
    for a, b in itertools.product(range(len(model.devices)), repeat=2):
        if np.isinf(best[a, b]):
            with pytest.raises(ValueError, match=f"no way leads from device {a} to device {b}"):
                model.route(a, b)
            continue
        numbers, latency, bandwidth = model.route(a, b)
        way = [model.links[number] for number in numbers]
        assert [a, *(step.target for step in way)] == [*(step.source for step in way), b]
        seconds = sum(step.latency + 1e6 / step.bandwidth for step in way)
        assert seconds == pytest.approx(best[a, b], rel=1e-12)
        assert latency == pytest.approx(sum(step.latency for step in way), rel=1e-12)
        assert bandwidth == min((step.bandwidth for step in way), default=math.inf)


@pytest.mark.parametrize("wrap", [True, False])
@pytest.mark.parametrize("shape", [[5], [2, 3], [4, 4], [2, 1, 5], [3, 4, 2], [4, 4, 4]])
def test_a_torus_has_its_distances(shape: list[int], wrap: bool) -> None:
    n = math.prod(shape)
    model = MachineModel(machine(wire("torus", members="*", shape=shape, wrap=wrap), devices=n))
    for a, b in itertools.product(range(n), repeat=2):
        steps = np.abs(np.array(np.unravel_index(a, shape)) - np.unravel_index(b, shape))
        distance = np.minimum(steps, np.array(shape) - steps).sum() if wrap else steps.sum()
        assert hops(model, a, b) == distance
    neighbours = [extent - 1 if extent < 3 or not wrap else extent for extent in shape]
    assert len(model.links) == 2 * sum(n // e * k for e, k in zip(shape, neighbours))


@pytest.mark.parametrize("dimensions, shape", [(1, [12]), (2, [3, 4]), (3, [2, 2, 3])])
def test_a_torus_of_so_many_dimensions(dimensions: int, shape: list[int]) -> None:
    even, said = (
        MachineModel(machine(wire("torus", members="*", **entry), devices=12))
        for entry in ({"dimensions": dimensions}, {"shape": shape})
    )
    assert even.links == said.links


@pytest.mark.parametrize("devices, arity", [(1, 2), (8, 2), (9, 3), (20, 4), (64, 8)])
def test_a_fat_tree_is_as_wide_as_what_is_below(devices: int, arity: int) -> None:
    tree = wire(
        "fat_tree",
        members="cpu*",
        name="tree",
        arity=arity,
        uplink_latency=1e-7,
        oversubscription=2,
    )
    model = MachineModel(machine(tree, devices=devices))
    for a, b in itertools.combinations(range(devices), 2):
        level = next(k for k in itertools.count(1) if a // arity**k == b // arity**k)
        assert hops(model, a, b) == 2 * level
        assert model.route(a, b).latency == pytest.approx(2e-6 + 2e-7 * (level - 1))
        upwards = [model.links[n].bandwidth for n in model.route(a, b).links[:level]]
        assert upwards == pytest.approx([1e9 * (arity / 2) ** k for k in range(level)])


def test_a_tree_of_pcie_switches_and_nics() -> None:
    """Links from many to few spread evenly."""
    node = machine(
        link("cpu*", "plx*", bandwidth=16e9),
        link("plx*", "socket*", bandwidth=16e9),
        link("socket0", "socket1", bandwidth=40e9),
        link("socket*", "nic*", bandwidth=16e9),
        devices=8,
        count=3,
        switches={"plx": 4, "socket": 2, "nic": 2},
    )
    network = {"switches": {"spine": 1}, "connections": [link("*/nic*", "spine0", bandwidth=10e9)]}
    model = MachineModel({**node, "network": network})
    assert [hops(model, 0, other) for other in (1, 2, 4, 8, 23)] == [2, 4, 5, 8, 8]
    assert model.route(0, 7).bandwidth == 16e9
    assert model.route(0, 23).bandwidth == 10e9
    assert model.devices[17].name == "node2/cpu1"
    assert model.switches[-1] == "spine0"


def test_unlike_devices_and_nodes() -> None:
    fast = {**KIND, "kernels": "cuda", "flops": {"float32": 2e13, "float16": 3e14}, "launch": 5e-6}
    values = machine(devices=2, shared_memory=True)
    values["devices"]["gpu"] = fast
    values["nodes"].append(
        {
            "count": 2,
            "devices": {"gpu": {"kind": "gpu", "count": 2}, "host": {"kind": "core"}},
            "connections": [wire("clique", members=["gpu*", "host0"], bandwidth=5e10)],
        }
    )
    ends = ["*/cpu*", "node1/gpu1", "node2/gpu1"]
    values["network"] = {"connections": [wire("clique", members=ends)]}
    model = MachineModel(values)
    names = [f"node{n}/{d}" for n in (1, 2) for d in ("gpu0", "gpu1", "host0")]
    assert [device.name for device in model.devices] == ["node0/cpu0", "node0/cpu1", *names]
    assert [device.node for device in model.devices] == [0, 0, 1, 1, 1, 2, 2, 2]
    assert [device.space for device in model.devices] == [0, 0, *[-1] * 6]
    assert model.devices[5].kind.flops[DataType.DT_HALF] == 3e14
    assert hops(model, 0, 1) == 1
    assert hops(model, 2, 7) == 3
    assert model.route(2, 7).bandwidth == 1e9
    words = model.describe()
    assert "4 core: float32 1 T/s" in words
    assert "4 gpu: float32 20 T/s, float16 300 T/s" in words


def test_devices_that_no_way_joins() -> None:
    model = MachineModel(machine(link("cpu0", "cpu1"), link("cpu2", "cpu3", one_way=True)))
    assert model.route(2, 3).links == [2]
    for a, b in ((3, 2), (0, 3)):
        with pytest.raises(ValueError, match=f"no way leads from device {a} to device {b}"):
            model.route(a, b)
    with pytest.raises(ValueError, match="route: device: got 4, expected at most 3"):
        model.route(0, 4)
    with pytest.raises(TypeError, match="route: device: got 'cpu1', expected an integer"):
        model.route(0, "cpu1")  # type: ignore[arg-type]
    assert "no way from node0/cpu0 to 2 of the others" in model.describe()


def test_handles_are_of_their_kind() -> None:
    model, graph = MachineModel.load("cpu-box"), FFModel(FFConfig())
    with pytest.raises(TypeError, match="handle of a machine model where a graph is expected"):
        text("ff_graph_text", model.handle)
    out = map(byref, (c_size_t(), c_double(), c_double()))
    with pytest.raises(TypeError, match="handle of a graph where a machine model is expected"):
        call("ff_machine_route", graph.graph_handle, 0, 0, None, 0, *out)
    model._handle.close()
    with pytest.raises(FlexFlowError, match="this machine model was closed"):
        model.route(0, 1)


DEVICES = (_abi.ff_device * 2)(*[_abi.ff_device(b"cpu", 1, 0, -1, 1, 1.0, 0.0)] * 2)
RATES = (_abi.ff_rate * 2)(*(_abi.ff_rate(n, _abi.FF_FLOAT32, 1e12) for n in range(2)))
LINKS = (_abi.ff_link * 1)(_abi.ff_link(0, 1, 0.0, 1e9))


@pytest.mark.parametrize(
    "changed, message",
    [
        ({0: None}, "argument name is NULL"),
        ({1: None}, "argument devices is NULL"),
        ({3: None}, "argument rates is NULL"),
        ({6: None}, "argument links is NULL"),
        ({9: None}, "argument machine is NULL"),
        ({2: 0}, "a rate of device 0: there are 0 devices"),
        ({2: 0, 4: 0, 7: 0}, "a machine has no devices"),
        ({4: 1}, "device 1: it has no rate for float32"),
        ({3: (_abi.ff_rate * 2)(*[RATES[0]] * 2)}, "device 0: a second rate for float32"),
        ({3: (_abi.ff_rate * 2)(_abi.ff_rate(0, 3, 1.0))}, "unknown dtype code 3"),
        ({5: -1}, "a network of 2 devices and -1 switches"),
        ({5: 2**31 - 1}, "a network of 2 devices and 2147483647 switches"),
        ({6: (_abi.ff_link * 1)(_abi.ff_link(0, 2, 0.0, 1e9))}, "link 0, from 0 to 2: there is no"),
        ({1: (_abi.ff_device * 2)(DEVICES[0])}, "device 1: it has no kind"),
    ],
)
def test_the_c_interface_refuses(changed: dict[int, Any], message: str) -> None:
    arguments = [b"two", DEVICES, 2, RATES, 2, 0, LINKS, 1, 1, byref(c_uint64())]
    call("ff_machine_create", *arguments)
    for place, value in changed.items():
        arguments[place] = value
    with pytest.raises(ValueError, match=message):
        call("ff_machine_create", *arguments)


def test_threads_ask_at_once() -> None:
    model, alone = (MachineModel.load("tpu-v4", nodes=16) for _ in range(2))
    expected = [alone.route(a, 63 - a) for a in range(64)]
    found: list[Any] = [None] * 4

    def ask(t: int) -> None:
        found[t] = [model.route(a, 63 - a) for a in range(64)]

    threads = [threading.Thread(target=ask, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


# ---- ready-made machines ----
@pytest.mark.parametrize("nodes", [1, 2, 5])
@pytest.mark.parametrize("name", NAMES)
def test_ready_made_machines(name: str, nodes: int, tmp_path: Path) -> None:
    model = MachineModel.load(name, nodes=nodes)
    assert len(model.devices) == nodes * len(MachineModel.load(name).devices)
    assert (model.name, model.nodes) == (name, nodes)
    devices = range(len(model.devices))
    bandwidths = np.array([[model.route(a, b).bandwidth for b in devices] for a in devices])
    np.testing.assert_array_equal(bandwidths, bandwidths.T)
    latencies = np.array([[model.route(a, b).latency for b in devices] for a in devices])
    np.testing.assert_allclose(latencies, latencies.T)
    inside = np.equal.outer(*[[device.node for device in model.devices]] * 2)
    if nodes > 1:
        assert bandwidths[inside].min() >= bandwidths[~inside].max()

    path = tmp_path / "machine.json"
    model.write(path)
    again = MachineModel.read(path)
    assert again == model
    assert (again.links, again.devices) == (model.links, model.devices)
    assert again != MachineModel.load(name, nodes=nodes + 1)


@pytest.mark.parametrize(
    "name, inside, outside, memory, half",
    [
        ("dgx-a100", 300e9, 25e9, 80, 312e12),
        ("dgx-h100", 450e9, 50e9, 80, 989.4e12),
        ("p3.8xlarge", 25e9, 1.25e9, 16, 125e12),
        ("p3.16xlarge", 25e9, 3.125e9, 16, 125e12),
        ("summit", 50e9, 12.5e9, 16, 125e12),
        ("tpu-v3", 70e9, 70e9, 32, None),
        ("tpu-v4", 50e9, 50e9, 32, None),
        ("cpu-box", 67.2e9, 12.5e9, 256, None),
    ],
)
def test_figures(name: str, inside: float, outside: float, memory: int, half: float | None) -> None:
    model = MachineModel.load(name, nodes=2)
    kind = model.devices[0].kind
    assert model.route(0, 1).bandwidth == inside
    assert model.route(0, len(model.devices) - 1).bandwidth == outside
    assert kind.memory == memory << 30
    assert kind.flops.get(DataType.DT_HALF) == half
    assert model.overlap == (kind.kernels != "cpu")


def test_the_hybrid_cube_mesh_has_six_links_for_each() -> None:
    model = MachineModel.load("p3.16xlarge")
    nvlinks = np.zeros((8, 8))
    for source, target, _, bandwidth in model.links:
        if max(source, target) < 8:
            nvlinks[source, target] = bandwidth / 25e9
    np.testing.assert_array_equal(nvlinks, nvlinks.T)
    np.testing.assert_array_equal(nvlinks.sum(1), 6)
    assert nvlinks[0].tolist() == [0, 1, 1, 2, 2, 0, 0, 0]


@pytest.mark.parametrize("name, nodes", [("dgx-h100", 128), ("tpu-v4", 256)])
def test_1024_devices_are_quick(name: str, nodes: int) -> None:
    start = time.perf_counter()
    model = MachineModel.load(name, nodes=nodes)
    assert len(model.devices) == 1024
    assert {model.route(device, 1023 - device).bandwidth for device in range(1024)} == {50e9}
    assert time.perf_counter() - start < 20  # usually one second


def test_names_that_there_are_not() -> None:
    with pytest.raises(ValueError, match="no machine is called 'dgx-a10'; did you mean 'dgx-a100'"):
        MachineModel.load("dgx-a10")
    with pytest.raises(ValueError, match="'mine'; there is dgx-a100, dgx-h100, p3.8xlarge,"):
        MachineModel.load("mine")
    with pytest.raises(ValueError, match="MachineModel.load: nodes: got 0, expected at least 1"):
        MachineModel.load("dgx-a100", nodes=0)
    with pytest.raises(FileNotFoundError, match="MachineModel.read: there is no such file"):
        MachineModel.read("/nowhere.json")


# ---- the command and the document ----
def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flexflow", "machines", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_the_command(tmp_path: Path) -> None:
    listed = run()
    assert (listed.returncode, listed.stderr) == (0, "")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(NAMES)

    path = tmp_path / "mine.json"
    shown = run("dgx-a100", "--nodes", "4", "--write", str(path))
    machine = MachineModel.load("dgx-a100", nodes=4)
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, machine.describe() + "\n", "")
    assert MachineModel.read(path) == machine
    assert run(str(path)).stdout == shown.stdout


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("{}")
    for arguments, message in (
        (["dgx"], "no machine is called 'dgx'"),
        (["dgx-a100", "--nodes", "0"], "nodes: got 0, expected at least 1"),
        ([str(path)], f"{path}: format is missing; expected 'flexflow machine'"),
        ([str(path), "--nodes", "2"], "is a file, which says that itself"),
        (["cpu-box", "--write", str(tmp_path / "no" / "where")], "No such file or directory"),
    ):
        done = run(*arguments)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert message in done.stderr
    assert run("--nodes", "2").returncode == 2


def test_the_document() -> None:
    """Its example is a machine, its tables have every key and every machine."""
    text = (ROOT / "docs/machines.md").read_text()
    (example,) = re.findall(r"^```json\n(.*?)^```", text, re.M | re.S)
    model = MachineModel(parsed(example))
    assert len(model.devices) == 16
    (snippet,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    names: dict[str, Any] = {}
    exec(snippet, names)
    assert names["machine"].nodes == 4
    keys = set(re.findall(r"^\| `(\w+)` \|", text, re.M))
    top = "format version name overlap devices nodes network"
    kind = "kernels flops memory bandwidth launch threads"
    node = "count switches connections shared_memory type latency"
    assert keys >= set(f"{top} {kind} {node}".split())
    for name, (_, own) in TYPES.items():
        (row,) = re.findall(rf"^\| `{name}` \|.*", text, re.M)
        assert all(f"`{key}`" in row for key in own.split()), name
    for name in NAMES:
        assert f"| `{name}` |" in text
