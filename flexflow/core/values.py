"""What the library knows of a graph's tensors, and their values."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np

from flexflow.core import _abi
from flexflow.core._lib import FlexFlowError, Handle, attributes, call
from flexflow.core.arrays import convert, expect_shape, view
from flexflow.core.config import FFConfig
from flexflow.core.guard import Guarded
from flexflow.core.layer import Op
from flexflow.core.tensor import Tensor
from flexflow.core.types import DataType

if TYPE_CHECKING:
    from flexflow.core.model import FFModel

MOST_OUTPUTS = 256


class TensorInfo(NamedTuple):
    """What the library knows of a tensor."""

    name: str
    op: str
    data_type: DataType
    dims: tuple[int, ...]
    is_state: bool
    trainable: bool


class GraphValues(Guarded):
    """What FFModel's parts stand on: the graph in the library, and the tensors in it."""

    _instead_of_a_copy: ClassVar[str] = (
        "build another model the same way, and carry the weights over with get_weights() and "
        "set_weights()"
    )

    def __init__(self, ffconfig: FFConfig) -> None:
        if not isinstance(ffconfig, FFConfig):
            raise TypeError(f"FFModel: got {ffconfig!r}, expected an FFConfig")
        self._ffconfig = ffconfig
        self._seed = ffconfig.take_seed()
        self._graph = Handle("ff_graph_create", self._seed)
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

    @property
    def seed(self) -> int:
        """The seed of its weights, masks and orders: the configuration's when it was made."""
        return self._seed

    # ---- what the library knows of a tensor ----
    def flops(self, number: int) -> float:
        """Floating-point operations of the operator that makes a tensor, forward; for other parts
        of the core."""
        flops = ctypes.c_double()
        call("ff_graph_flops", self._graph.value, number, ctypes.byref(flops))
        return flops.value

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
        inputs = (ctypes.c_int64 * MOST_OUTPUTS)()
        count = ctypes.c_size_t()
        call(
            "ff_graph_op_inputs",
            self._graph.value,
            number,
            inputs,
            MOST_OUTPUTS,
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
