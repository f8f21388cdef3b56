"""Files of machines: what is wrong in them is told by its path; FlexFlow's formats."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any, Callable

import pytest
from machine_values import KIND, WIRE, link, machine, wire

from flexflow.core import MachineModel

GOOD = machine(
    link("cpu*", "hub0"),
    count=2,
    switches={"hub": 1},
)
GOOD["network"] = {"switches": {"spine": 1}, "connections": [link("*/hub0", "spine0")]}
DELETE = object()


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good machine with another entry, or without one."""
    values: Any = copy.deepcopy(GOOD)
    at = values
    *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in way:
        at = at[key]
    if value is DELETE:
        del at[last]
    else:
        at[last] = value
    return values


WIRE_AT, NODE, KIND_AT = "nodes.0.connections.0", "nodes.0", "devices.core"
BAD: list[tuple[str, Any, str]] = [
    ("format", DELETE, "format is missing; expected 'flexflow machine'"),
    ("format", "flexflow strategy", "format: got 'flexflow strategy', expected 'flexflow machine'"),
    ("version", 2, "version: got 2, expected 1"),
    ("version", True, "version: got True, expected 1"),
    ("name", DELETE, "name is missing; expected a name"),
    ("name", "", "name: got '', expected a name"),
    ("name", 7, "name: got 7, expected a name"),
    ("overlap", "yes", "overlap: got 'yes', expected True or False"),
    ("link", [], "link: unknown key; expected format, version,"),
    ("node", [], "node: unknown key; did you mean 'nodes'?"),
    ("nodes", DELETE, "nodes: there are no devices"),
    ("nodes", {}, "nodes: got {}, expected a list"),
    ("nodes", [7], "nodes[0]: got 7, expected an object"),
    ("devices", [], "devices: got [], expected an object"),
    (KIND_AT, 3, "devices.core: got 3, expected an object"),
    (f"{KIND_AT}.flop", 1, "devices.core.flop: unknown key; did you mean 'flops'?"),
    (f"{KIND_AT}.kernels", DELETE, "devices.core.kernels is missing; expected which kernels"),
    (f"{KIND_AT}.kernels", None, "devices.core.kernels is null; expected which kernels"),
    (f"{KIND_AT}.flops", DELETE, "devices.core.flops.float32 is missing; expected operations"),
    (f"{KIND_AT}.flops", {"float16": 1e12}, "devices.core.flops.float32 is missing"),
    (f"{KIND_AT}.flops.float8", 1e12, "devices.core.flops.float8: unknown type; expected one of"),
    (f"{KIND_AT}.flops.float16", 0, "devices.core.flops.float16: got 0, expected a number above"),
    (f"{KIND_AT}.flops.float32", "1e12", "devices.core.flops.float32: got '1e12', expected a fin"),
    (f"{KIND_AT}.memory", DELETE, "devices.core.memory is missing; expected bytes"),
    (f"{KIND_AT}.memory", 0, "devices.core.memory: got 0, expected a finite number of at least 1"),
    (f"{KIND_AT}.memory", math.nan, "devices.core.memory: got nan"),
    (f"{KIND_AT}.memory", 2.0**63, "devices.core.memory: got 9.2"),
    (f"{KIND_AT}.bandwidth", math.inf, "devices.core.bandwidth: got inf"),
    (f"{KIND_AT}.bandwidth", -1, "devices.core.bandwidth: got -1"),
    (f"{KIND_AT}.launch", -1e-6, "devices.core.launch: got -1e-06, expected a finite number of"),
    (f"{KIND_AT}.threads", 0, "devices.core.threads: got 0, expected at least 1"),
    (f"{KIND_AT}.threads", 1.5, "devices.core.threads: got 1.5, expected an integer"),
    (f"{NODE}.count", 0, "nodes[0].count: got 0, expected at least 1"),
    (f"{NODE}.count", True, "nodes[0].count: got True, expected an integer"),
    (f"{NODE}.shared_memory", 1, "nodes[0].shared_memory: got 1, expected True or False"),
    (f"{NODE}.links", [], "nodes[0].links: unknown key; expected count, devices,"),
    (f"{NODE}.devices", DELETE, "nodes: there are no devices"),
    (
        f"{NODE}.devices.cpu.kind",
        "gpu",
        "nodes[0].devices.cpu.kind: got 'gpu', expected one of \"d",
    ),
    (f"{NODE}.devices.cpu.kind", DELETE, "nodes[0].devices.cpu.kind is missing"),
    (f"{NODE}.devices.cpu.count", 10**6, "nodes[0].devices.cpu.count: got 1000000, expected at mo"),
    (f"{NODE}.devices.cpu.count", 40000, "nodes: more than 65536 devices"),
    (f"{NODE}.devices.cpu.number", 3, "nodes[0].devices.cpu.number: unknown key"),
    (
        f"{NODE}.devices.cpu2",
        {"kind": "core"},
        "nodes[0].devices.cpu2: got 'cpu2', expected letter",
    ),
    (f"{NODE}.switches.cpu", 1, "nodes[0].switches.cpu: there is a cpu0 already"),
    (f"{NODE}.switches.hub", 0, "nodes[0].switches.hub: got 0, expected at least 1"),
    (f"{NODE}.switches.a/b", 1, "nodes[0].switches.a/b: got 'a/b', expected letters"),
    (f"{NODE}.connections", {}, "nodes[0].connections: got {}, expected a list"),
    (WIRE_AT, "cpu0", "nodes[0].connections[0]: got 'cpu0', expected an object"),
    (
        f"{WIRE_AT}.type",
        DELETE,
        "nodes[0].connections[0].type is missing; expected one of link, cl",
    ),
    (f"{WIRE_AT}.type", "star", "nodes[0].connections[0].type: got 'star', expected one of link"),
    (f"{WIRE_AT}.latency", DELETE, "nodes[0].connections[0].latency is missing; expected a number"),
    (f"{WIRE_AT}.latency", -1, "nodes[0].connections[0].latency: got -1"),
    (f"{WIRE_AT}.latency", math.nan, "nodes[0].connections[0].latency: got nan"),
    (
        f"{WIRE_AT}.bandwidth",
        0,
        "nodes[0].connections[0].bandwidth: got 0, expected a number above",
    ),
    (f"{WIRE_AT}.bandwidth", "fast", "nodes[0].connections[0].bandwidth: got 'fast'"),
    (
        f"{WIRE_AT}.from",
        "gpu*",
        "connections[0].from: nothing matches 'gpu*'; there is cpu0, cpu1,",
    ),
    (f"{WIRE_AT}.from", 3, "connections[0].from: got 3, expected a name or pattern"),
    (f"{WIRE_AT}.to", DELETE, "nodes[0].connections[0].to is missing; expected a name or pattern"),
    (
        f"{WIRE_AT}.to",
        "cpu*",
        "nodes[0].connections[0]: a link from node0/cpu0 to node0/cpu0, itsel",
    ),
    (
        f"{WIRE_AT}.members",
        "*",
        "nodes[0].connections[0].members: unknown key; expected type, late",
    ),
    (f"{WIRE_AT}.one_way", 0, "nodes[0].connections[0].one_way: got 0, expected True or False"),
    ("network.connections.0.from", "hub0", "network.connections[0].from: nothing matches 'hub0'"),
    ("network.nodes", [], "network.nodes: unknown key; expected switches or connections"),
    ("network", None, "network: got None, expected an object"),
]


@pytest.mark.parametrize("path, value, message", BAD)
def test_what_is_wrong_is_named(path: str, value: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(changed(path, value)))
    with pytest.raises(ValueError) as raised:
        MachineModel.read(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert message in str(raised.value)


CONNECTIONS: list[tuple[list[dict[str, Any]], str]] = [
    (
        [link("cpu0", "cpu1"), link("cpu1", "cpu0")],
        "[1]: a second link from node0/cpu1 to node0/cpu0",
    ),
    ([wire("clique", members="*"), link("cpu0", "cpu3")], "[1]: a second link from node0/cpu0 to"),
    ([wire("clique")], "[0].members is missing"),
    ([wire("torus", members="*")], '[0]: expected either "shape" or "dimensions"'),
    ([wire("torus", members="*", shape=[4], dimensions=1)], "[0]: expected either"),
    ([wire("torus", members="*", dimensions=0)], "[0].dimensions: got 0, expected at least 1"),
    (
        [wire("torus", members="*", shape=[3, 2])],
        "[0].shape: got [3, 2], expected extents whose pr",
    ),
    ([wire("torus", members="*", shape=[-2, -2])], "[0].shape: got [-2, -2], expected extents"),
    ([wire("torus", members="*", shape=[])], "[0].shape: got [], expected extents"),
    ([wire("torus", members="*", shape="22")], "[0].shape: got '22', expected a list of integers"),
    ([wire("cube_mesh", members="cpu[0-2]")], "[0].members: got 3, expected 8, or 4 for a half"),
    (
        [wire("fat_tree", members="*", arity=2)],
        "[0].name is missing; expected a name for its switc",
    ),
    (
        [wire("fat_tree", members="*", arity=1, name="t")],
        "[0].arity: got 1, expected an integer fro",
    ),
    (
        [wire("fat_tree", members="cpu*", arity=2, name="t")] * 2,
        "[1].name: there is a t0 already",
    ),
    (
        [wire("fat_tree", members="*", arity=2, name="t", oversubscription=0)],
        "[0].oversubscription: got 0, expected a number above 0",
    ),
]


@pytest.mark.parametrize("connections, message", CONNECTIONS)
def test_connections_that_make_no_sense(connections: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        MachineModel(machine(*connections))
    assert f"machine: nodes[0].connections{message}" in str(raised.value)


def test_files_that_are_no_machines(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    for content, message in (
        (b"{", "not JSON"),
        (b'{"format": 1, "format": 2}', "key 'format' stands twice in one object"),
        (b"[]", "the file: got [], expected an object"),
        (b"[" * 100000, "not JSON"),
        (b"\xff\xfe{}", "can't decode"),
        (b"", "num_nodes is missing; expected an integer"),
        (b"hello", "line 1: got 'hello', expected KEY = VALUE, or all of a file in JSON"),
    ):
        file.write_bytes(content)
        with pytest.raises(ValueError) as raised:
            MachineModel.read(file)
        assert str(raised.value).startswith(f"{file}: ")
        assert message in str(raised.value)


def test_numbers_are_written_as_they_are(tmp_path: Path) -> None:
    numbers = [1 / 3, 1e-300, 123456789.125, 2.5e11, 1e22, 1.7e308, 1000.0, 999.5]
    connections = [link("cpu0", f"cpu{n}", bandwidth=x) for n, x in enumerate(numbers, 1)]
    model = MachineModel(machine(*connections, devices=9))
    file = tmp_path / "machine.json"
    model.write(file)
    assert MachineModel.read(file).links == model.links
    assert json.loads(file.read_text()) == model.to_json()


def test_values_are_copied() -> None:
    values = copy.deepcopy(GOOD)
    model = MachineModel(values)
    values["name"] = model.to_json()["name"] = "other"
    assert model.to_json() == GOOD
    assert MachineModel(GOOD) == model


# ---- FlexFlow's formats ----
EXAMPLE = """# two nodes of two sockets
num_nodes = 2
num_sockets_per_node = 2
num_cpus_per_socket = 10
num_gpus_per_socket = 2
membus_latency = 0.00003
membus_bandwidth = 4.26623
upi_latency = 0.0004
upi_bandwidth = 10.14039
nic_latency = 0.000507
nic_bandwidth = 10.9448431
nic_persocket = 0
pci_latency = 0.001
pci_bandwidth = 12.57846875
nvlink_latency = 0.001
nvlink_bandwidth = 18.52

intra_socket_sys_mem_to_sys_mem = membus
inter_socket_gpu_fb_mem_to_sys_mem = pci_to_host upi
intra_socket_gpu_fb_mem_to_gpu_fb_mem = nvlink
inter_socket_gpu_fb_mem_to_gpu_fb_mem = nvlink
inter_node_gpu_fb_mem_to_gpu_fb_mem = pci_to_host nic pci_to_dev
"""
GB = 2**20 * 1000.0
INTRA, INTER, FAR = (
    f"{scope}_gpu_fb_mem_to_gpu_fb_mem" for scope in ("intra_socket", "inter_socket", "inter_node")
)


def described(tmp_path: Path, *replaced: tuple[str, str]) -> MachineModel:
    text = EXAMPLE
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "machine_config"
    path.write_text(text)
    return MachineModel.flexflow(1, path)


def ways(model: MachineModel, *ends: tuple[int, int]) -> list[tuple[float, float]]:
    """Latencies in microseconds, and bandwidths in FlexFlow's GB/s."""
    routes = [model.route(a, b) for a, b in ends]
    return [(pytest.approx(r.latency * 1e6), pytest.approx(r.bandwidth / GB)) for r in routes]


def test_version_0() -> None:
    model = MachineModel.flexflow(nodes=4, workers_per_node=3)
    assert [device.node for device in model.devices] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert model.route(0, 2) == ([2], 0, 20 * GB)
    assert model.route(0, 4).bandwidth == 12 / 4 * GB
    gpu, host, there = (model.links[number] for number in model.route(2, 9).links)
    assert (gpu.bandwidth, host.bandwidth, there.bandwidth) == (16 * GB, 3 * GB, 16 * GB)


def test_version_1(tmp_path: Path) -> None:
    model = described(tmp_path)
    assert (model.nodes, len(model.devices)) == (2, 8)
    assert ways(model, (0, 1), (0, 2), (3, 0)) == [(1, 18.52)] * 3
    assert ways(model, (0, 4), (3, 6)) == [(1 + 0.507 + 1, 10.9448431)] * 2
    # All GPUs of a socket share its PCIe, and all of a node its NIC.
    shared = [set(model.route(a, b).links) for a, b in ((0, 4), (1, 5), (3, 6))]
    names = [*(device.name for device in model.devices), *model.switches]
    common = {names[model.links[n].source] for n in shared[0] & shared[1]}
    assert {"node0/pci_to_host0", "node0/nic_out0", "node1/nic_in0"} <= common
    common = {names[model.links[n].source] for n in shared[0] & shared[2]}
    assert {"node0/nic_out0", "node1/nic_in0"} <= common
    assert "node0/pci_to_host0" not in common

    again = tmp_path / "again.json"
    model.write(again)
    assert MachineModel.read(again).links == model.links
    assert MachineModel.flexflow(1, again) == model


def test_version_1_by_the_host(tmp_path: Path) -> None:
    model = described(
        tmp_path,
        (f"{INTRA} = nvlink", f"{INTRA} = pci_to_host membus pci_to_dev"),
        (f"{INTER} = nvlink", f"{INTER} = pci_to_host upi pci_to_dev"),
        ("nic_persocket = 0", "nic_persocket = 2"),
    )
    assert ways(model, (0, 1), (2, 3)) == [(2.03, 4.26623)] * 2
    assert ways(model, (0, 2), (3, 1)) == [(2.4, 10.14039)] * 2
    assert ways(model, (0, 4), (0, 7)) == [(2.507, 10.9448431)] * 2
    assert "node1/nic_in3" in model.switches


def test_version_1_free_ways(tmp_path: Path) -> None:
    model = described(tmp_path, (f"{INTRA} = nvlink", f"{INTRA} = null"))
    assert model.route(0, 1).latency == 0
    assert model.route(0, 1).bandwidth > 1e14
    one = described(tmp_path, ("num_nodes = 2", "num_nodes = 1"), (f"{FAR} = pci", f"{FAR} = pci"))
    assert len(one.switches) == 0


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("num_nodes = 2", "", "num_nodes is missing; expected an integer"),
        ("num_nodes = 2", "num_nodes = two", "num_nodes: got 'two', expected an integer"),
        ("num_nodes = 2", "num_nodes = 0", "num_nodes: got 0, expected at least 1"),
        ("num_nodes = 2", "num_nodes 2", "line 2: got 'num_nodes 2', expected KEY = VALUE"),
        (
            "num_nodes = 2",
            "num_node = 2",
            "line 2: unknown key 'num_node'; did you mean 'num_nodes'",
        ),
        ("upi_latency = 0.0004", "num_nodes = 2", "line 8: a second num_nodes"),
        ("pci_latency = 0.001\n", "", "pci_latency is missing; expected a number"),
        ("pci_latency = 0.001", "pci_latency = -1", "pci_latency: got -1.0, expected a finite num"),
        ("nic_bandwidth = 10.9", "nic_bandwidth = nan #", "nic_bandwidth: got 'nan #"),
        ("nic_bandwidth = 10.9448431", "nic_bandwidth = nan", "nic_bandwidth: got nan, expected"),
        (
            "nvlink_bandwidth = 18.52",
            "nvlink_bandwidth = 0",
            "nvlink_bandwidth: got 0, expected a n",
        ),
        (f"{INTRA} = nvlink", "", f"{INTRA} is missing; expected a path"),
        (f"{INTRA} = nvlink", f"{INTRA} = warp", f"{INTRA}: got 'warp', expected words of membus,"),
        (
            f"{INTRA} = nvlink",
            f"{INTRA} = upi",
            f"{INTRA}: got 'upi', expected a path with neither",
        ),
        (
            f"{INTER} = nvlink",
            f"{INTER} = membus",
            f"{INTER}: got 'membus', expected a path with upi",
        ),
        (
            f"{FAR} = pci_to_host nic pci_to_dev",
            f"{FAR} =",
            f"{FAR}: got 'nothing', expected a path w",
        ),
    ],
)
def test_version_1_tells_what_is_wrong(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        described(tmp_path, (old, new))
    assert str(raised.value).startswith(f"{tmp_path / 'machine_config'}: {message}")


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: MachineModel.flexflow(2), "--machine-model-version: got 2, expected at most 1"),
        (lambda: MachineModel.flexflow(1), "needs a file: --machine-model-file"),
        (lambda: MachineModel.flexflow(0, nodes=0), "nodes: got 0, expected at least 1"),
        (lambda: MachineModel.flexflow(workers_per_node=0), "workers_per_node: got 0"),
    ],
)
def test_versions_that_there_are_not(ask: Callable[[], MachineModel], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask()


def test_entries_that_may_be_left_out() -> None:
    model = MachineModel(machine(devices=1))
    (device,) = model.devices
    assert (device.kind.launch, device.kind.threads, device.space) == (0, 1, -1)
    assert model.overlap
    assert (len(model.links), model.route(0, 0)) == (0, ([], 0, math.inf))
    assert KIND["memory"] == device.kind.memory
    assert WIRE["bandwidth"] == 1e9
