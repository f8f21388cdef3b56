"""The walk over the nodes of a file: a value for every name, and one list of all that is not
supported."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, inliner, numpy_helper
from onnx.reference import ReferenceEvaluator

from flexflow.core import FFModel, FlexFlowError, Tensor
from flexflow.core.types import DTYPE_NAMES
from flexflow.onnx import elementwise, layers, rows, shapes
from flexflow.onnx.builder import Builder, Constant, Missing
from flexflow.onnx.rows import UnsupportedError

# Importing a family of rows fills the table.
FAMILIES = (elementwise, layers, shapes)

_QUESTIONS = ("Shape", "Size")
_RANDOM = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
# How PyTorch's exporter marks what was a parameter and what was a buffer.
_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"


def read(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Read a file, and the data beside it.

    Raises:
        ValueError: it is empty, damaged or no ONNX file. OSError: it cannot be read.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"ONNXModel: filename is {type(path).__name__}, expected a path or a ModelProto"
        )
    remedy = "expected a file as torch.onnx.export() or onnx.save() writes it; export it anew"
    try:
        proto = onnx.load(path)
    except OSError:
        raise
    except Exception as error:  # of protobuf, of its text and JSON forms, of onnx
        raise ValueError(f"ONNXModel: {path} cannot be read: {error}; {remedy}") from error
    if not proto.graph.output:
        state = "is empty" if os.path.getsize(path) == 0 else "holds no graph with a result"
        raise ValueError(f"ONNXModel: {path} {state}; {remedy}")
    return proto


class File:
    """What a file holds.

    Attributes:
        graph: its graph, local functions expanded. opset: the version of its operator set.
        constants: its initializers by name.
        inputs: the extents of the inputs that have no initializer, by name. types: their types.
        outputs: the names of its results.
    """

    def __init__(self, proto: onnx.ModelProto, frozen: Collection[str]) -> None:
        if proto.functions:
            proto = inliner.inline_local_functions(proto)
        self.graph = proto.graph
        self.opset = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
        self.constants = {
            one.name: Constant(one.name, numpy_helper.to_array(one), True, learnt)
            for one, learnt in self._initializers(frozen)
        }
        free = [one for one in self.graph.input if one.name not in self.constants]
        self.inputs = {one.name: _extents(one) for one in free}
        self.types = {
            one.name: elementwise.TYPES.get(one.type.tensor_type.elem_type) for one in free
        }
        self.outputs = [one.name for one in self.graph.output]

    def _initializers(self, frozen: Collection[str]) -> Any:
        names = {one.name for one in self.graph.initializer}
        if not names.issuperset(frozen):
            raise ValueError(f"ONNXModel: frozen names no initializer: {set(frozen) - names}")
        kinds = {
            info.name: entry.value
            for info in (*self.graph.value_info, *self.graph.input)
            for entry in getattr(info, "metadata_props", ())
            if entry.key == _KIND
        }
        marks = {"PARAMETER": True, "BUFFER": False}
        for one in self.graph.initializer:
            yield one, False if one.name in frozen else marks.get(kinds.get(one.name, ""))


def _extents(info: onnx.ValueInfoProto) -> tuple[int | str, ...]:
    """The extents of an input; those left open by name, or as "?"."""
    dims = info.type.tensor_type.shape.dim
    return tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in dims)


class Importer:
    """One import of one file into one model."""

    def __init__(self, file: File, ffmodel: FFModel, training: bool | None) -> None:
        self._file = file
        self._builder = Builder(ffmodel, file.opset, training)
        self._values: dict[str, Any] = {"": None, **file.constants}
        self._problems: list[str] = []

    def run(self, inputs: Mapping[str, Tensor]) -> tuple[list[Tensor], dict[str, Tensor]]:
        """See ONNXModel: the results, and the weights by name."""
        self._take(inputs)
        for node in self._file.graph.node:
            results = self._results(node)
            self._values.update(zip(node.output, results))
            self._values[""] = None  # a result that is left out has no name either
        outputs = [self._values[name] for name in self._file.outputs]
        for name, value in zip(self._file.outputs, outputs):
            if isinstance(value, Missing) and value.reason:
                self._problems.append(f"result '{name}': {value.reason} is not supported")
        if self._problems:
            raise NotImplementedError(
                f"ONNXModel: not supported, {len(self._problems)} in all:\n  "
                + "\n  ".join(self._problems)
            )
        results = [self._builder.tensor(value) for value in outputs]
        return results, self._builder.weights(self._file.constants)

    def _take(self, inputs: Mapping[str, Tensor]) -> None:
        expected = self._file.inputs
        if set(inputs) != set(expected):
            raise ValueError(
                f"apply: got tensors for {sorted(inputs)}, expected {sorted(expected)}; "
                "weights must be in the file (export_params=True)"
            )
        for name, tensor in inputs.items():
            if not isinstance(tensor, Tensor):
                raise TypeError(f"apply: input '{name}' is {tensor!r}, expected a Tensor")
            wanted = self._file.types[name]
            if DTYPE_NAMES[tensor.data_type] != wanted:
                raise TypeError(
                    f"apply: input '{name}' is {DTYPE_NAMES[tensor.data_type]}, expected {wanted}"
                )
            self._check_extents(name, tensor.dims, expected[name])
            self._values[name] = tensor

    def _check_extents(self, name: str, got: Sequence[int], expected: Sequence[int | str]) -> None:
        fits = [isinstance(size, str) or size in (0, n) for n, size in zip(got, expected)]
        if len(got) != len(expected) or not all(fits):
            raise ValueError(
                f"apply: input '{name}' is of shape {tuple(got)}, expected {tuple(expected)}; "
                "to use other batch sizes than the exporter saw, export with dynamic_axes or "
                "dynamic_shapes"
            )

    # ---- a node ----
    def _results(self, node: onnx.NodeProto) -> Sequence[Any]:
        """The values of a node's outputs, Missing where there is none; then the list of problems
        says why."""
        place = f"{node.op_type} '{node.name or node.output[0]}'"
        self._builder.name = node.name or node.output[0]
        self._builder.outputs = sum(1 for name in node.output if name)
        inputs = [self._values[name] for name in node.input]
        missing = [one for one in inputs if isinstance(one, Missing)]
        try:
            if self._is_constant(node, inputs):
                return [Missing(constant=True)] * len(node.output) if missing else self._fold(node)
            results = self._lower(node, inputs, missing)
        except UnsupportedError as error:
            self._problems.append(f"{place}: {error}")
            return [Missing()] * len(node.output)
        except (ValueError, TypeError, FlexFlowError) as error:
            raise type(error)(f"{place}: {error}") from error
        rest = [Missing(f"output '{name}' of {place}") for name in node.output[len(results) :]]
        return [*results, *rest]

    def _lower(
        self, node: onnx.NodeProto, inputs: list[Any], missing: list[Missing]
    ) -> Sequence[Any]:
        """Lower an operator by its row."""
        if node.domain not in ("", "ai.onnx"):
            raise UnsupportedError(f"there is no domain '{node.domain}' here")
        row = rows.find(node.op_type, self._file.opset)
        attributes = {one.name: _attribute(one) for one in node.attribute}
        refusals = list(row.refusals(inputs, attributes))
        refusals += [f"{one.reason} is not supported" for one in missing if one.reason]
        if refusals:
            raise UnsupportedError("; ".join(refusals))
        if missing:
            return [Missing(constant=node.op_type in _QUESTIONS)] * len(node.output)
        value = row.lower(self._builder, *inputs, **attributes)
        return value if isinstance(value, tuple) else (value,)

    # ---- constants ----
    def _is_constant(self, node: onnx.NodeProto, inputs: list[Any]) -> bool:
        """Whether a node depends on no input and on nothing that is learnt."""
        return not any(
            isinstance(one, Tensor)
            or (isinstance(one, Constant) and one.is_weight)
            or (isinstance(one, Missing) and not one.constant)
            for one in inputs
        )

    def _fold(self, node: onnx.NodeProto) -> list[Constant]:
        """The results of a node whose inputs are constants, as ONNX's reference implementation
        computes them."""
        if node.op_type in _RANDOM:
            raise UnsupportedError("it draws random numbers, which would be the same in every step")
        feeds = {name: self._values[name].array for name in node.input if name}
        arguments = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in feeds.items()
        ]
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "constant", arguments, results)
        opset = helper.make_opsetid("", self._file.opset)
        try:
            arrays = ReferenceEvaluator(helper.make_model(graph, opset_imports=[opset])).run(
                None, feeds
            )
        except Exception as error:  # whatever the reference implementation raises
            raise UnsupportedError(f"its constant result cannot be computed: {error}") from error
        return [Constant(name, np.asarray(array)) for name, array in zip(node.output, arrays)]


def _attribute(attribute: onnx.AttributeProto) -> Any:
    """The value of an attribute. Floats are taken for the shortest decimal that they stand for:
    0.1, not 0.10000000149."""
    value = helper.get_attribute_value(attribute)
    if isinstance(value, float):
        return float(str(np.float32(value)))
    return value.decode() if isinstance(value, bytes) else value
