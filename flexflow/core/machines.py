"""Ready-made machines. docs/machines.md tells where each figure comes from."""

from __future__ import annotations

from typing import Any

from flexflow.core.machine_file import FORMAT, VERSION

# Microseconds: the least that NCCL's tuning tables give for an NVLink, PCIe and a network.
_NVLINK, _PCIE, _NET = 0.6, 1.0, 2.7


def kind(
    kernels: str, rates: dict[str, float], memory: int, bandwidth: float, **others: Any
) -> dict[str, Any]:
    """A kind of devices; rates in 10^12 operations per second, bandwidth in 10^9 bytes."""
    flops = {dtype: rate * 1e12 for dtype, rate in rates.items()}
    values = {"kernels": kernels, "flops": flops, "memory": memory, "bandwidth": bandwidth * 1e9}
    return {**values, "launch": 5e-6, **others}


V100 = kind("cuda", {"float16": 125, "float32": 15.7, "float64": 7.8}, 16 << 30, 900)
A100 = kind(
    "cuda", {"float16": 312, "bfloat16": 312, "float32": 19.5, "float64": 19.5}, 80 << 30, 2039
)
H100 = kind(
    "cuda", {"float16": 989.4, "bfloat16": 989.4, "float32": 67, "float64": 67}, 80 << 30, 3350
)
# A TPU multiplies float32 in one pass of bfloat16, unless it is told otherwise.
TPU_V3 = kind("tpu", {"bfloat16": 123, "float32": 123}, 32 << 30, 900)
TPU_V4 = kind("tpu", {"bfloat16": 275, "float32": 275}, 32 << 30, 1200)
# 40 cores at 2.3 GHz, each with two units of sixteen multiply-adds.
XEON = kind("cpu", {"float32": 5.888, "float64": 2.944}, 256 << 30, 204.8, launch=1e-6, threads=40)


def wire(kind: str, latency: float, bandwidth: float, **ends: Any) -> dict[str, Any]:
    """A connection; latency in microseconds, bandwidth in 10^9 bytes per second."""
    return {"type": kind, **ends, "latency": latency / 1e6, "bandwidth": bandwidth * 1e9}


def _tree(arity: int, members: Any, bandwidth: float) -> dict[str, Any]:
    """A network whose switches take a tenth of a microsecond each."""
    connection = wire("fat_tree", _NET / 2, bandwidth, members=members, name="fabric", arity=arity)
    return {"connections": [{**connection, "uplink_latency": 1e-7}]}


def machine(
    name: str, devices: dict[str, Any], node: dict[str, Any], network: dict[str, Any], **others: Any
) -> dict[str, Any]:
    """The values of a machine with one node."""
    head = {"format": FORMAT, "version": VERSION, "name": name, **others}
    return {**head, "devices": devices, "nodes": [node], "network": network}


def _dgx(
    name: str, kinds: dict[str, Any], nvlink: float, pcie: float, nic: float, arity: int
) -> Any:
    """Eight GPUs on NVSwitches, each with a NIC; NICs of one number are near each other."""
    (gpu,) = kinds
    node = {
        "devices": {"gpu": {"kind": gpu, "count": 8}},
        "switches": {"nvswitch": 1, "nic": 8},
        "connections": [
            wire("link", _NVLINK / 2, nvlink, **{"from": "gpu*", "to": "nvswitch0"}),
            wire("link", _PCIE, pcie, **{"from": "gpu*", "to": "nic*"}),
        ],
    }
    return machine(name, kinds, node, _tree(arity, [f"*/nic{n}" for n in range(8)], nic))


def _p3(name: str, gpus: int, ethernet: float) -> Any:
    """V100s in a (half) hybrid cube mesh, pairs of them on PCIe switches, a NIC on a socket."""
    node = {
        "devices": {"gpu": {"kind": "v100", "count": gpus}},
        "switches": {"plx": gpus // 2, "socket": gpus // 4, "nic": 1},
        "connections": [
            wire("cube_mesh", _NVLINK, 25, members="gpu*"),
            wire("link", _PCIE / 2, 15.75, **{"from": "gpu*", "to": "plx*"}),
            wire("link", _PCIE / 2, 15.75, **{"from": "plx*", "to": "socket*"}),
            wire("clique", 0.5, 38.4, members="socket*"),
            wire("link", _PCIE / 2, 15.75, **{"from": "socket0", "to": "nic0"}),
        ],
    }
    network = {
        "switches": {"fabric": 1},
        "connections": [wire("link", 12.5, ethernet, **{"from": "*/nic*", "to": "fabric0"})],
    }
    return machine(name, {"v100": V100}, node, network)


def _summit() -> Any:
    """Two sockets with three V100s each; a port of the NIC belongs to either socket."""
    node = {
        "devices": {"gpu": {"kind": "v100", "count": 6}},
        "switches": {"socket": 2, "nic": 2},
        "connections": [
            wire("clique", _NVLINK, 50, members="gpu[0-2]"),
            wire("clique", _NVLINK, 50, members="gpu[3-5]"),
            wire("link", _NVLINK, 50, **{"from": "gpu*", "to": "socket*"}),
            wire("clique", 0.5, 64, members="socket*"),
            wire("link", _PCIE / 2, 16, **{"from": "socket*", "to": "nic*"}),
        ],
    }
    return machine("summit", {"v100": V100}, node, _tree(18, "*/nic*", 12.5))


def _tpu(name: str, kinds: dict[str, Any], dimensions: int, link: float) -> Any:
    (chip,) = kinds
    node = {"devices": {"chip": {"kind": chip, "count": 4}}}
    torus = wire("torus", 1, link, members="*/chip*", dimensions=dimensions)
    return machine(name, kinds, node, {"connections": [torus]})


def _cpu_box() -> Any:
    node = {
        "shared_memory": True,
        "devices": {"socket": {"kind": "xeon-8380", "count": 2}},
        "switches": {"nic": 1},
        "connections": [
            wire("clique", 0.5, 67.2, members="socket*"),
            wire("link", _PCIE / 2, 31.5, **{"from": "socket*", "to": "nic0"}),
        ],
    }
    return machine("cpu-box", {"xeon-8380": XEON}, node, _tree(32, "*/nic*", 12.5), overlap=False)


# Name -> what it is, and its values with one node.
MACHINES: dict[str, tuple[str, dict[str, Any]]] = {
    "dgx-a100": (
        "8 A100 of 80 GB on NVSwitches, a 200 Gb/s NIC each",
        _dgx("dgx-a100", {"a100": A100}, 300, 31.5, 25, 20),
    ),
    "dgx-h100": (
        "8 H100 of 80 GB on NVSwitches, a 400 Gb/s NIC each",
        _dgx("dgx-h100", {"h100": H100}, 450, 63, 50, 32),
    ),
    "p3.8xlarge": (
        "4 V100 of 16 GB on NVLinks, at 10 Gb/s",
        _p3("p3.8xlarge", 4, 1.25),
    ),
    "p3.16xlarge": (
        "8 V100 of 16 GB in a hybrid cube mesh of NVLinks, at 25 Gb/s",
        _p3("p3.16xlarge", 8, 3.125),
    ),
    "summit": ("6 V100 of 16 GB on 2 sockets, at 2 x 100 Gb/s in a fat tree", _summit()),
    "tpu-v3": ("4 chips of a 2-dimensional torus", _tpu("tpu-v3", {"tpu-v3": TPU_V3}, 2, 70)),
    "tpu-v4": ("4 chips of a 3-dimensional torus", _tpu("tpu-v4", {"tpu-v4": TPU_V4}, 3, 50)),
    "cpu-box": ("2 sockets of a server, 40 cores each, at 100 Gb/s", _cpu_box()),
}
