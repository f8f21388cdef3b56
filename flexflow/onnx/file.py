"""What a file holds, checked to be one graph: every name has one value, and nodes come in an order
in which they can be computed."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import inliner, numpy_helper

from flexflow.onnx import elementwise, rows
from flexflow.onnx.builder import Constant

# How PyTorch's exporter marks what was a parameter and what was a buffer.
_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
_REMEDY = "expected a file as torch.onnx.export() or onnx.save() writes it; export it anew"


def read(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Read a file, and the data beside it.

    Raises:
        ValueError: it is empty, damaged or no ONNX file. OSError: it cannot be read.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"ONNXModel: filename is {type(path).__name__}, expected a path or a ModelProto"
        )
    try:
        proto = onnx.load(path)
    except OSError:
        raise
    except Exception as error:  # of protobuf, of its text and JSON forms, of onnx
        raise ValueError(f"ONNXModel: {path} cannot be read: {error}; {_REMEDY}") from error
    if not proto.graph.output:
        state = "is empty" if os.path.getsize(path) == 0 else "holds no graph with a result"
        raise ValueError(f"ONNXModel: {path} {state}; {_REMEDY}")
    return proto


def place(node: onnx.NodeProto) -> str:
    """What a node is called in messages."""
    return f"{node.op_type} '{node_name(node)}'"


def node_name(node: onnx.NodeProto) -> str:
    """A node's name, or that of its first result."""
    return node.name or next(iter(node.output), "")


class File:
    """What a file holds.

    Attributes:
        nodes: those of its graph in the order of computation, local functions expanded.
        opset: the version of its operator set.
        constants: its initializers by name.
        inputs: the extents of the inputs that have no initializer, by name. types: their types.
        outputs: the names of its results.

    Raises:
        ValueError: it is no graph that can be computed. NotImplementedError: its operator set is
            newer than this front end.
    """

    def __init__(self, proto: onnx.ModelProto, frozen: Collection[str]) -> None:
        if proto.functions:
            proto = inliner.inline_local_functions(proto)
        graph = proto.graph
        self.opset = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
        if self.opset > rows.NEWEST_OPSET:
            raise NotImplementedError(
                f"ONNXModel: the file's operator set is version {self.opset}, known are those up "
                f"to {rows.NEWEST_OPSET}; export it with opset_version={rows.NEWEST_OPSET}"
            )
        self.constants = {
            one.name: Constant(one.name, _array(one), True, learnt)
            for one, learnt in _initializers(graph, frozen)
        }
        free = [one for one in graph.input if one.name not in self.constants]
        self.inputs = {one.name: _extents(one) for one in free}
        self.types = {one.name: _type(one) for one in free}
        self.outputs = [one.name for one in graph.output]
        self.nodes = list(_ordered(graph, {*self.inputs, *self.constants}))
        given = {one for node in self.nodes for one in node.output}.union(
            self.inputs, self.constants
        )
        for one in self.outputs or [""]:
            if one not in given or not one:
                raise ValueError(f"ONNXModel: no node gives the result '{one}'; {_REMEDY}")


def _initializers(graph: onnx.GraphProto, frozen: Collection[str]) -> Iterator[tuple[Any, Any]]:
    """Each initializer, with whether training changes it; None if the file does not say."""
    names = {one.name for one in graph.initializer}
    if isinstance(frozen, str):
        raise TypeError(f"ONNXModel: frozen is {frozen!r}, expected a list of names")
    if not names.issuperset(frozen):
        raise ValueError(f"ONNXModel: frozen names no initializer: {set(frozen) - names}")
    kinds = {
        info.name: entry.value
        for info in (*graph.value_info, *graph.input)
        for entry in getattr(info, "metadata_props", ())
        if entry.key == _KIND
    }
    marks = {"PARAMETER": True, "BUFFER": False}
    for one in graph.initializer:
        yield one, False if one.name in frozen else marks.get(kinds.get(one.name, ""))


def _array(initializer: onnx.TensorProto) -> np.ndarray:
    who = f"ONNXModel: initializer '{initializer.name}'"
    if any(size < 0 for size in initializer.dims):
        raise ValueError(f"{who} has the extents {list(initializer.dims)}; {_REMEDY}")
    try:
        return numpy_helper.to_array(initializer)
    except (KeyError, TypeError, ValueError) as error:  # an unknown type, or too few bytes
        raise ValueError(
            f"{who} of type {initializer.data_type} and extents {list(initializer.dims)} cannot "
            f"be read: {error}; {_REMEDY}"
        ) from error


def _extents(info: onnx.ValueInfoProto) -> tuple[int | str, ...]:
    """The extents of an input; those left open by name, or as "?"."""
    dims = info.type.tensor_type.shape.dim
    return tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in dims)


def _type(info: onnx.ValueInfoProto) -> str:
    number = info.type.tensor_type.elem_type
    if number not in elementwise.TYPES:
        raise NotImplementedError(
            f"ONNXModel: input '{info.name}' is of ONNX's type {number}, which FlexFlow has not; "
            f"it has {', '.join(elementwise.TYPES.values())}"
        )
    return elementwise.TYPES[number]


def _ordered(graph: onnx.GraphProto, given: Collection[str]) -> Iterator[onnx.NodeProto]:
    """The nodes, each behind those whose results it takes, else in the order of the file."""
    makers = _makers(graph, given)
    known, waiting = {"", *given}, list(graph.node)
    while waiting:
        late = []
        for node in waiting:
            if not known.issuperset(node.input):
                late.append(node)
                continue
            known.update(node.output)
            yield node
        if len(late) == len(waiting):
            _raise_stuck(late, known, makers)
        waiting = late


def _makers(graph: onnx.GraphProto, given: Collection[str]) -> dict[str, str]:
    """Who gives each name: a node, or the file itself."""
    makers = dict.fromkeys(given, "an input or initializer")
    for node in graph.node:
        if not node.output:
            raise ValueError(f"ONNXModel: {place(node)} has no output; {_REMEDY}")
        for one in filter(None, node.output):
            if one in makers:
                raise ValueError(
                    f"ONNXModel: {place(node)} gives '{one}', which {makers[one]} gives, too; "
                    "names must be given once; export the file anew"
                )
            makers[one] = place(node)
    return makers


def _raise_stuck(
    late: list[onnx.NodeProto], known: Collection[str], makers: dict[str, str]
) -> None:
    """Say why no node of a list can be computed."""
    for node in late:
        for one in node.input:
            if one not in makers:
                raise ValueError(
                    f"ONNXModel: {place(node)} takes '{one}', which no input, initializer or node "
                    "gives; weights must be in the file (export_params=True)"
                )
    one = next(one for one in late[0].input if one not in known)
    raise ValueError(
        f"ONNXModel: {place(late[0])} takes '{one}', the result of {makers[one]}, which waits for "
        f"its own in turn: the graph has a cycle; {_REMEDY}"
    )
