"""The graph of a model: inputs, layers and weights, and their values."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from flexflow.core import _abi
from flexflow.core._lib import FlexFlowError, Handle, attributes, call, tensor_list
from flexflow.core.arrays import convert, expect_shape, view
from flexflow.core.config import FFConfig
from flexflow.core.initializers import Initializer
from flexflow.core.layer import Op
from flexflow.core.regularizers import regularizer_attributes
from flexflow.core.tensor import Parameter, Tensor
from flexflow.core.types import DTYPE_NAMES, DataType, DataTypeLike, as_data_type

if TYPE_CHECKING:
    from flexflow.core.model import FFModel

_MOST_OUTPUTS = 256
_MOST_RANK = 8


class TensorInfo(NamedTuple):
    """What the library knows of a tensor."""

    name: str
    op: str
    data_type: DataType
    dims: tuple[int, ...]
    is_state: bool
    trainable: bool


class GraphBuilder:
    """What FFModel's layer methods stand on."""

    def __init__(self, ffconfig: FFConfig) -> None:
        if not isinstance(ffconfig, FFConfig):
            raise TypeError(f"FFModel: got {ffconfig!r}, expected an FFConfig")
        self._ffconfig = ffconfig
        self._graph = Handle("ff_graph_create", ffconfig.seed)
        self._layers: dict[int, Op] = {}
        self._layer_by_tensor: dict[int, Op] = {}
        self._inputs: list[int] = []
        self._without_gradient: set[int] = set()
        self._attached: dict[int, np.ndarray] = {}
        self._rows: dict[int, int] = {}  # of inputs that hold another batch size than their own
        self._orders: dict[int, int | None] = {}  # input -> the epoch of its shuffled order

    @property
    def graph_handle(self) -> int:
        """The library's number for the graph; for other parts of the core."""
        return self._graph.value

    @property
    def _self(self) -> FFModel:
        return cast("FFModel", self)

    @property
    def ffconfig(self) -> FFConfig:
        """The configuration that the model was made with."""
        return self._ffconfig

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
        number = self._add("input", [], name, attrs)[0]
        self._inputs.append(number)
        if not create_grad:
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
        shape = _shape(dims, name or "create_constant")
        data_type = as_data_type(data_type, name or "create_constant")
        attrs: dict[str, Any] = {"shape": shape, "dtype": DTYPE_NAMES[data_type]}
        if np.ndim(value) == 0:
            single = convert(value, data_type, name or "create_constant")
            attrs["value"] = float(single)
            return Tensor(self._self, self._add("constant", [], name, attrs)[0])
        array = expect_shape(np.asarray(value), tuple(shape), name or "create_constant")
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
        return Parameter(self._self, self._add("weight", [], name, attrs)[0])

    # ---- layers ----
    def _op(
        self, kind: str, inputs: Sequence[Tensor], name: str | None = None, **attrs: Any
    ) -> Tensor:
        """Append a layer of one operator; its first output."""
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
            key = self.tensor_info(parameter).name.rpartition("/")[2]
            if key in settings:
                self.set_weight(parameter, settings.pop(key))
        if settings:
            raise ValueError(f"{who}: has no weight {', '.join(settings)} to initialize")
        tensors = self._add_layer(kind, numbers, parameters, made)
        self._layer_by_tensor[made[0]].activation = attrs.get("activation")
        return tensors

    def _add_layer(
        self, kind: str, inputs: Sequence[int], parameters: Sequence[int], outputs: Sequence[int]
    ) -> list[Tensor]:
        name = self.tensor_info(outputs[0]).name
        layer = Op(self._self, len(self._layers), kind, name, inputs, parameters, outputs)
        self._layers[layer.idx] = layer
        for number in outputs:
            self._layer_by_tensor[number] = layer
        return [Tensor(self._self, number) for number in outputs]

    def _then(self, tensor: Tensor, kind: str) -> Tensor:
        """Let an operator follow the one of a layer, as part of the layer."""
        layer = self._layer_by_tensor.pop(tensor.id)
        number = self._add(kind, [tensor.id], f"{tensor.name}/{kind}", {})[0]
        layer.replace_output(tensor.id, number)
        layer.activation = kind
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
        if name is not None and not isinstance(name, str):
            raise TypeError(f"{kind}: name is {name!r}, expected a string")
        if name and "\0" in name:
            raise ValueError(f"{kind}: name is {name!r}, expected one without a zero character")
        given = attributes(attrs)
        outputs = (ctypes.c_int64 * _MOST_OUTPUTS)()
        count = ctypes.c_size_t()
        call(
            "ff_graph_add_op",
            self._graph.value,
            kind.encode(),
            name.encode() if name else None,
            given,
            len(given),
            tensor_list(inputs),
            len(inputs),
            outputs,
            _MOST_OUTPUTS,
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

    # ---- what the library knows of a tensor ----
    def tensor_info(self, number: int) -> TensorInfo:
        """What the library knows of a tensor; for other parts of the core."""
        info = _abi.ff_tensor_info()
        call("ff_graph_tensor_info", self._graph.value, number, ctypes.byref(info))
        return TensorInfo(
            info.name.decode(),
            info.op.decode(),
            DataType(info.dtype),
            tuple(info.shape[: info.rank]),
            bool(info.is_state),
            bool(info.trainable),
        )

    def set_weight(self, number: int, attrs: Mapping[str, Any]) -> None:
        """Change attributes of a weight; for other parts of the core."""
        given = attributes(attrs)
        call("ff_graph_set_weight", self._graph.value, number, given, len(given))

    def _op_inputs(self, number: int) -> list[int]:
        inputs = (ctypes.c_int64 * _MOST_OUTPUTS)()
        count = ctypes.c_size_t()
        call(
            "ff_graph_op_inputs",
            self._graph.value,
            number,
            inputs,
            _MOST_OUTPUTS,
            ctypes.byref(count),
        )
        return list(inputs[: count.value])

    def _inputs_of(self, output: int) -> list[int]:
        """The inputs of the model that a tensor depends on, in the order of their creation."""
        seen = {output}
        waiting = [output]
        while waiting:
            for number in self._op_inputs(waiting.pop()):
                if number not in seen:
                    seen.add(number)
                    waiting.append(number)
        return [number for number in self._inputs if number in seen]

    # ---- values; Tensor's methods say what they do ----
    def read(self, tensor: Tensor) -> np.ndarray:
        """See Tensor.get_tensor."""
        array = np.empty(self._extents(tensor), tensor.dtype)
        call("ff_tensor_read", self._graph.value, tensor.id, view(array))
        return array

    def read_gradient(self, tensor: Tensor) -> np.ndarray:
        """See Tensor.get_gradients."""
        if tensor.id in self._without_gradient:
            raise ValueError(f"{tensor.name}: was created with create_grad=False")
        array = np.empty(self._extents(tensor), tensor.dtype)
        call("ff_gradient_read", self._graph.value, tensor.id, view(array))
        return array

    def write(self, tensor: Tensor, values: Any) -> None:
        """See Tensor.set_tensor."""
        array = convert(values, tensor.data_type, tensor.name)
        expected = tensor.dims
        if tensor.is_input and array.ndim and len(array):
            expected = (len(array), *expected[1:])
        array = expect_shape(array, expected, tensor.name)
        call("ff_tensor_write", self._graph.value, tensor.id, view(array))
        if expected and tensor.is_input:
            self.note_rows(tensor, len(array))
            self._orders.pop(tensor.id, None)

    def _extents(self, tensor: Tensor) -> tuple[int, ...]:
        """The present extents of a tensor: a smaller batch makes it smaller."""
        if not self._rows or not tensor.dims:
            return tensor.dims
        sources = [tensor.id] if tensor.is_input else self._inputs_of(tensor.id)
        if not sources or sources[0] not in self._rows:
            return tensor.dims
        batch = self.tensor_info(sources[0]).dims[0]
        return (tensor.dims[0] * self._rows[sources[0]] // batch, *tensor.dims[1:])

    def note_rows(self, tensor: Tensor, rows: int) -> None:
        """Take note of how many rows an input holds; for other parts of the core."""
        if rows == tensor.dims[0]:
            self._rows.pop(tensor.id, None)
        else:
            self._rows[tensor.id] = rows

    def attach(self, tensor: Tensor, array: np.ndarray) -> None:
        """See Tensor.attach_numpy_array."""
        if not tensor.is_input:
            raise ValueError(f"{tensor.name}: is computed; only inputs can take an array")
        self._attached[tensor.id] = array

    def attached(self, tensor: Tensor) -> np.ndarray:
        """The array that was attached to a tensor; FlexFlowError if there is none."""
        if tensor.id not in self._attached:
            raise FlexFlowError(f"{tensor.name}: no array is attached")
        return self._attached[tensor.id]

    def detach(self, tensor: Tensor) -> None:
        """See Tensor.detach_numpy_array."""
        self.attached(tensor)
        del self._attached[tensor.id]


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


def _shape(dims: Sequence[int], who: str) -> list[int]:
    try:
        shape = [int(extent.__index__()) for extent in dims]
    except (AttributeError, TypeError):
        raise TypeError(f"{who}: dims is {dims!r}, expected a list of integers") from None
    if len(shape) > _MOST_RANK:
        raise ValueError(f"{who}: got {len(shape)} dimensions, expected at most {_MOST_RANK}")
    return shape
