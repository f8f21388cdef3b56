"""The walk over the nodes of a file: a value for every name, and one list of all that is not
supported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from flexflow.core import FFModel, FlexFlowError, Tensor
from flexflow.core.types import DTYPE_NAMES
from flexflow.onnx import elementwise, layers, products, recurrent, rows, shapes
from flexflow.onnx.builder import Builder, Constant, Missing
from flexflow.onnx.file import File, node_name, place
from flexflow.onnx.rows import UnsupportedError

# Importing a family of rows fills the table.
FAMILIES = (elementwise, layers, products, recurrent, shapes)

_QUESTIONS = ("Shape", "Size")
_RANDOM = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)


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
        for node in self._file.nodes:
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
        if not isinstance(inputs, Mapping):
            raise TypeError(
                f"apply: input_dict is {type(inputs).__name__}, expected a dict of tensors for "
                f"{sorted(expected)}"
            )
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
        # Some exporters write 0 or -1 for an extent that is open.
        fits = [isinstance(size, str) or size <= 0 or size == n for n, size in zip(got, expected)]
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
        self._builder.name = node_name(node)
        self._builder.outputs = sum(1 for one in node.output if one)
        inputs = [self._values[one] for one in node.input]
        missing = [one for one in inputs if isinstance(one, Missing)]
        try:
            if self._is_constant(node, inputs):
                return [Missing(constant=True)] * len(node.output) if missing else self._fold(node)
            results = self._lower(node, inputs, missing)
        except UnsupportedError as error:
            self._problems.append(f"{place(node)}: {error}")
            return [Missing()] * len(node.output)
        except (ValueError, TypeError, FlexFlowError) as error:
            raise type(error)(f"{place(node)}: {error}") from error
        rest = [Missing(f"output '{one}' of {place(node)}") for one in node.output[len(results) :]]
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
    if isinstance(value, list):
        return [one.decode() if isinstance(one, bytes) else one for one in value]
    return value.decode() if isinstance(value, bytes) else value
