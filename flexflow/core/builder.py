"""The graph of a model: inputs, layers and weights."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flexflow.core._lib import attributes, call, tensor_list
from flexflow.core.arrays import convert, expect_shape
from flexflow.core.checks import boolean, encoded, integer, integers
from flexflow.core.initializers import Initializer
from flexflow.core.layer import Op
from flexflow.core.regularizers import regularizer_attributes
from flexflow.core.tensor import Parameter, Tensor
from flexflow.core.types import DTYPE_NAMES, DataType, DataTypeLike, as_data_type, is_floating
from flexflow.core.values import MOST_OUTPUTS, GraphValues

_MOST_RANK = 8


class GraphBuilder(GraphValues):
    """What FFModel's layer methods stand on."""

    # ---- sources ----
    def create_tensor(
        self,
        dims: Sequence[int],
        data_type: DataTypeLike = DataType.DT_FLOAT,
        create_grad: bool = True,
        name: str | None = None,
    ) -> Tensor:
        """An input of the model.

        Args:
            dims: 1 to 8 extents, the first of them the batch size. ``fit`` and its like also run
                other batch sizes than this.
            data_type: a DataType or what NumPy takes for one.
            create_grad: whether ``get_gradients`` can be asked for its gradient.
            name: made unique by a suffix.

        Raises:
            ValueError: an extent is negative, or there are too many.
            TypeError: the extents are no integers, or there is no such type.

        >>> ffmodel.create_tensor([64, 3, 32, 32], DataType.DT_FLOAT).dims
        (64, 3, 32, 32)
        """
        shape = _shape(dims, name or "create_tensor")
        if not shape:
            raise ValueError(f"{name or 'create_tensor'}: dims is empty, expected the batch first")
        data_type = as_data_type(data_type, name or "create_tensor")
        attrs = {"shape": shape, "dtype": DTYPE_NAMES[data_type]}
        with_gradient = boolean(create_grad, f"{name or 'create_tensor'}: create_grad")
        number = self._add("input", [], name, attrs)[0]
        self._inputs.append(number)
        if not with_gradient:
            self._without_gradient.add(number)
        return Tensor(self._self, number)

    def create_constant(
        self,
        dims: Sequence[int],
        value: Any,
        data_type: DataTypeLike = DataType.DT_FLOAT,
        name: str | None = None,
    ) -> Tensor:
        """A tensor of fixed values.

        Args:
            dims: its extents; whether the first means the batch follows from where it is used.
            value: one number for all elements, or an array of shape ``dims``.

        Raises:
            ValueError: the array has another shape. TypeError: its values do not convert.

        >>> ffmodel.create_constant([2, 3], np.ones((2, 3)), DataType.DT_FLOAT).get_tensor().shape
        (2, 3)
        """
        who = name or "create_constant"
        shape = _shape(dims, who)
        data_type = as_data_type(data_type, who)
        attrs: dict[str, Any] = {"shape": shape, "dtype": DTYPE_NAMES[data_type]}
        array = convert(value, data_type, who)
        # One number travels as a double, which some integers of 64 bits do not fit.
        if array.ndim == 0 and (is_floating(data_type) or int(float(array)) == int(array)):
            attrs["value"] = float(array)
            return Tensor(self._self, self._add("constant", [], name, attrs)[0])
        array = expect_shape(array if array.ndim else np.full(shape, array), tuple(shape), who)
        fixed = self._add("weight", [], name or "constant", {**attrs, "initializer": "zeros"})[0]
        self.set_weight(fixed, {"trainable": False})
        tensor = Tensor(self._self, fixed)
        self.write(tensor, array)
        return tensor

    def create_parameter(
        self,
        dims: Sequence[int],
        data_type: DataTypeLike = DataType.DT_FLOAT,
        initializer: Initializer | None = None,
        name: str | None = None,
    ) -> Parameter:
        """A weight that belongs to no layer.

        >>> scale = ffmodel.create_parameter([16], initializer=OneInitializer(), name="scale")
        >>> (x * scale).dims
        (64, 16)
        """
        data_type = as_data_type(data_type, name or "create_parameter")
        attrs = {
            "shape": _shape(dims, name or "create_parameter"),
            "dtype": DTYPE_NAMES[data_type],
            **weight_attributes(initializer, argument="initializer"),
        }
        _check_fit(attrs, data_type, name or "create_parameter")
        return Parameter(self._self, self._add("weight", [], name, attrs)[0])

    # ---- layers ----
    def _op(
        self, kind: str, inputs: Sequence[Tensor], name: str | None = None, **attrs: Any
    ) -> Tensor:
        """Append a layer of one operator; its first output."""
        for attribute, value in attrs.items():
            if value is None and attribute not in ("shared_op", "weights"):
                raise TypeError(f"{name or kind}: {attribute} is None, expected a value")
        return self.op(kind, inputs, name, outputs=1, **attrs)[0]

    def op(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        name: str | None = None,
        *,
        outputs: int,
        shared_op: Op | Tensor | None = None,
        weights: Mapping[str, Mapping[str, Any]] | None = None,
        **attrs: Any,
    ) -> list[Tensor]:
        """Append a layer of any operator by its name; for front ends.

        Args:
            kind: the operator; ``describe("ops")`` lists all, ``describe("op:NAME")`` explains one.
            inputs: its data, and its weights where it is not to make its own.
            outputs: how many of its outputs users see; the first ones are returned.
            shared_op: the layer whose weights it takes.
            weights: by their names, what initializers and regularizers set.
            attrs: of the operator; None means the operator's own default.

        >>> ffmodel.op("softmax", [x], outputs=1, axis=-1)[0].dims
        (64, 16)
        """
        who = name or kind
        outputs = integer(outputs, f"{who}: outputs", 1)
        numbers = [self._number(tensor, f"{who}: input {i}") for i, tensor in enumerate(inputs)]
        shared = [] if shared_op is None else self._shared_weights(shared_op, kind, who)
        made = self._add(kind, numbers + shared, name, attrs)[:outputs]
        parameters = self._op_inputs(made[0])[len(numbers) :]
        parameters = [n for n in numbers if self.tensor_info(n).is_state] + parameters
        numbers = [n for n in numbers if not self.tensor_info(n).is_state]
        settings = {key: value for key, value in (weights or {}).items() if value}
        if settings and shared:
            raise ValueError(
                f"{who}: shared_op brings the weights; leave initializers and regularizers out"
            )
        for parameter in parameters:
            info = self.tensor_info(parameter)
            key = info.name.rpartition("/")[2]
            if key in settings:
                _check_fit(settings[key], info.data_type, info.name)
                self.set_weight(parameter, settings.pop(key))
        if settings:
            raise ValueError(f"{who}: has no weight {', '.join(settings)} to initialize")
        unique = self.tensor_info(made[0]).name
        layer = Op(
            self._self,
            len(self._layers),
            kind,
            unique,
            numbers,
            parameters,
            made,
            attrs.get("activation"),
        )
        self._layers[layer.idx] = layer
        self._layer_by_tensor.update(dict.fromkeys(made, layer))
        return [Tensor(self._self, number) for number in made]

    def _then(self, tensor: Tensor, kind: str) -> Tensor:
        """Let an operator follow the one of a layer, as part of the layer."""
        layer = self._layer_by_tensor.pop(tensor.id)
        number = self._add(kind, [tensor.id], f"{tensor.name}/{kind}", {})[0]
        layer.follow(kind, tensor.id, number)
        self._layer_by_tensor[number] = layer
        return Tensor(self._self, number)

    def _add(
        self,
        kind: str,
        inputs: Sequence[int],
        name: str | None,
        attrs: Mapping[str, Any],
    ) -> list[int]:
        """Append an operator to the graph; the numbers of its outputs."""
        label = None if name is None else encoded(name, f"{kind}: name")
        given = attributes(attrs)
        outputs = (ctypes.c_int64 * MOST_OUTPUTS)()
        count = ctypes.c_size_t()
        call(
            "ff_graph_add_op",
            self._graph.value,
            kind.encode(),
            label or None,
            given,
            len(given),
            tensor_list(inputs),
            len(inputs),
            outputs,
            MOST_OUTPUTS,
            ctypes.byref(count),
        )
        return list(outputs[: count.value])

    def _number(self, tensor: Any, who: str) -> int:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{who} is {tensor!r}, expected a Tensor")
        if tensor.owner() is not self:
            raise ValueError(f"{who} is {tensor!r} of another FFModel; give one of this")
        return tensor.id

    def _shared_weights(self, shared_op: Op | Tensor, kind: str, who: str) -> list[int]:
        layer = shared_op.owner_op if isinstance(shared_op, Tensor) else shared_op
        if not isinstance(layer, Op):
            raise TypeError(f"{who}: shared_op is {shared_op!r}, expected a layer or its output")
        layer.owner(self._self)
        if layer.kind != kind or not layer.get_number_parameters():
            raise ValueError(
                f"{who}: shared_op is {layer.name}, a layer of kind {layer.kind}; "
                f"expected one of kind {kind} with weights"
            )
        return [parameter.id for parameter in layer.get_parameters()]


def weight_attributes(
    initializer: Initializer | None = None,
    regularizer: Any = None,
    argument: str = "kernel_initializer",
) -> dict[str, Any]:
    """What an initializer and a regularizer set on a weight."""
    attrs: dict[str, Any] = {}
    if initializer is not None:
        if not isinstance(initializer, Initializer):
            raise TypeError(f"{argument}: got {initializer!r}, expected an Initializer")
        attrs.update(initializer.attributes())
    if regularizer is not None:
        attrs.update(regularizer_attributes(regularizer))
    return attrs


def _check_fit(attrs: Mapping[str, Any], data_type: DataType, who: str) -> None:
    """The numbers of an initializer must not become infinite in the weight's type."""
    for name in ("value", "low", "high", "mean", "stddev"):
        if name in attrs and is_floating(data_type):
            convert(attrs[name], data_type, f"{who}: the initializer's {name}")


def _shape(dims: Sequence[int], who: str) -> list[int]:
    shape = integers(dims, f"{who}: dims")
    if len(shape) > _MOST_RANK:
        raise ValueError(f"{who}: got {len(shape)} dimensions, expected at most {_MOST_RANK}")
    return shape
