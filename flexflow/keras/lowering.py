"""From a graph of layers to the operators of an FFModel.

The core keeps images with their channels on axis 1. A ``channels_last`` value that an image layer
made therefore lies in the FFModel with its last axis moved to place 1; it is a Value with
``moved=True``. Elementwise layers pass it on as it lies, so a chain of image layers costs one
transposition at its start and one at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flexflow.core import DataType, FFModel, Parameter, Tensor
from flexflow.keras.graph import Graph, Node
from flexflow.keras.variable import Variable

if TYPE_CHECKING:
    from flexflow.keras.layers.base import Layer


class Value(NamedTuple):
    """A KerasTensor in an FFModel.

    Attributes:
        tensor: its axes in Keras's order, or, if ``moved``, the last of them in place 1.
    """

    tensor: Tensor
    moved: bool = False

    def core_axis(self, axis: int) -> int:
        """Where one of Keras's axes (0 or more) lies in the tensor."""
        if not self.moved or axis == 0:
            return axis
        return 1 if axis == self.tensor.num_dims - 1 else axis + 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in Keras's order."""
        dims = tuple(self.tensor.dims)
        return (dims[0], *dims[2:], dims[1]) if self.moved else dims


class Lowering:
    """An FFModel that is being built from layers, and which of its parameters stand for which
    variables.

    Attributes:
        ff: the FFModel, for the layers' ``lower`` methods.
        variables, parameters: side by side, each variable once.
        inference: whether the layer that is being lowered was called with training=False, or is in
            a model that was.
    """

    def __init__(self, ff: FFModel, trainable: Sequence[Variable]) -> None:
        self.ff = ff
        self.variables: list[Variable] = []
        self.parameters: list[Parameter] = []
        self.inference = False
        self._trainable = {id(variable) for variable in trainable}
        self._parameter_of: dict[int, Parameter] = {}
        self._transposed: dict[tuple[int, tuple[int, ...]], Tensor] = {}

    def graph(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """Add all of a graph's nodes.

        Args:
            graph: of a model.
            inputs: what stands for graph.inputs.

        Returns:
            What stands for graph.outputs.
        """
        values = {tensor.key: value for tensor, value in zip(graph.inputs, inputs)}
        for node in graph.nodes:
            outputs = self._node(node, [values[tensor.key] for tensor in node.inputs])
            values.update({tensor.key: value for tensor, value in zip(node.outputs, outputs)})
        return [values[tensor.key] for tensor in graph.outputs]

    def _node(self, node: Node, inputs: list[Value]) -> Sequence[Value]:
        before, self.inference = self.inference, self.inference or node.training is False
        if not node.layer.any_dtype:
            inputs = [self._as_float(value) for value in inputs]
        result = node.layer.lower(self, *inputs)
        self.inference = before
        outputs = [result] if isinstance(result, Value) else result
        for tensor, value in zip(node.outputs, outputs):
            if tensor.shape[1:] != value.shape[1:]:
                raise AssertionError(
                    f"{node.layer!r}: lowered to {value.shape}, "
                    f"declared {tensor.shape} (this is a fault of FlexFlow)"
                )
        return outputs

    def _as_float(self, value: Value) -> Value:
        if value.tensor.data_type == DataType.DT_FLOAT:
            return value
        return Value(self.ff.cast(value.tensor, DataType.DT_FLOAT), value.moved)

    # ---- arrangements of axes ----

    def plain(self, value: Value) -> Tensor:
        """The tensor with its axes in Keras's order."""
        if not value.moved:
            return value.tensor
        rank = value.tensor.num_dims
        return self._turned(value.tensor, (0, *range(2, rank), 1))

    def channels_first(self, value: Value, data_format: str) -> Tensor:
        """The tensor with the channels on axis 1."""
        if data_format == "channels_first" or value.tensor.num_dims <= 2:
            return self.plain(value)
        if value.moved:
            return value.tensor
        rank = value.tensor.num_dims
        return self._turned(value.tensor, (0, rank - 1, *range(1, rank - 1)))

    def _turned(self, tensor: Tensor, axes: tuple[int, ...]) -> Tensor:
        """A transposition, made once for all that need it."""
        key = (tensor.id, axes)
        if key not in self._transposed:
            self._transposed[key] = self.ff.transpose(tensor, axes)
        return self._transposed[key]

    @staticmethod
    def image(tensor: Tensor, data_format: str) -> Value:
        """The Value of a tensor that has its channels on axis 1."""
        return Value(tensor, moved=data_format == "channels_last" and tensor.num_dims > 2)

    def alike(self, values: Sequence[Value]) -> tuple[list[Tensor], bool]:
        """Tensors in one arrangement, and whether that is the moved one."""
        moved = (
            all(value.moved for value in values)
            and len({value.tensor.num_dims for value in values}) == 1
        )
        return [value.tensor if moved else self.plain(value) for value in values], moved

    # ---- weights ----

    def op(self, layer: Layer, kind: str, *inputs: Tensor | Variable, **attrs: Any) -> Tensor:
        """Add an operator with weights, which the layer's other calls share.

        Args:
            layer: gives the name.
            kind: what the core calls the operator, such as ``"linear"``.
            inputs: tensors, and variables in the order in which the operator takes its weights.
            attrs: the operator's attributes.
        """
        tensors = [self.parameter(one) if isinstance(one, Variable) else one for one in inputs]
        return self.ff.op(kind, tensors, layer.name, outputs=1, **attrs)[0]

    def parameter(self, variable: Variable) -> Parameter:
        """The parameter of a variable, made when it is first asked for."""
        if id(variable) not in self._parameter_of:
            shape = [
                variable.shape[axis] for axis in variable.core_axes or range(len(variable.shape))
            ]
            parameter = self.ff.create_parameter(shape, variable.dtype, name=variable.path)
            settings: dict[str, Any] = {"trainable": id(variable) in self._trainable}
            if variable.regularizer is not None:
                # The core's l2 is the factor in the gradient, Keras's that in the loss.
                settings.update(l1=variable.regularizer.l1, l2=2 * variable.regularizer.l2)
            self.ff.set_weight(parameter.id, settings)
            self._parameter_of[id(variable)] = parameter
            self.variables.append(variable)
            self.parameters.append(parameter)
        return self._parameter_of[id(variable)]
