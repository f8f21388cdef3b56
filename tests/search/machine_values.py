"""Small machines, as the values of a file."""

from __future__ import annotations

from typing import Any

KIND = {"kernels": "cpu", "flops": {"float32": 1e12}, "memory": 1e9, "bandwidth": 1e11}
WIRE = {"latency": 1e-6, "bandwidth": 1e9}


def machine(*connections: dict[str, Any], devices: int = 4, **node: Any) -> dict[str, Any]:
    """One node with devices cpu0, cpu1, ..."""
    return {
        "format": "flexflow machine",
        "version": 1,
        "name": "test",
        "devices": {"core": KIND},
        "nodes": [
            {
                "devices": {"cpu": {"kind": "core", "count": devices}},
                "connections": list(connections),
                **node,
            }
        ],
    }


def wire(kind: str, **entry: Any) -> dict[str, Any]:
    return {"type": kind, **WIRE, **entry}


def link(a: str, b: str, **entry: Any) -> dict[str, Any]:
    return wire("link", **{"from": a, "to": b, **entry})
