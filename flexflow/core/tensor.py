"""Handles of tensors and weights."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Final, Union

import numpy as np

from flexflow.core._lib import FlexFlowError
from flexflow.core.arrays import array_types, expect_shape
from flexflow.core.checks import boolean
from flexflow.core.guard import Guarded
from flexflow.core.types import DataType, numpy_dtype

if TYPE_CHECKING:
    from flexflow.core.config import FFConfig
    from flexflow.core.layer import Op
    from flexflow.core.model import FFModel

Operand = Union["Tensor", int, float]


class Member(Guarded):
    """Something of a model. It does not keep the model alive, so that deleting the FFModel frees
    its memory at once."""

    _instead_of_a_copy: ClassVar[str] = "it belongs to its FFModel; use it as it is, or build anew"
    name: Final[str]

    def __init__(self, model: FFModel, name: str) -> None:
        self._model = weakref.ref(model)
        self.name = name

    def owner(self, given: FFModel | None = None) -> FFModel:
        """The model that this belongs to, which is the one that was given, if any.

        Raises:
            FlexFlowError: the model was deleted.
            ValueError: another one was given.
        """
        model = self._model()
        if model is None:
            raise FlexFlowError(f"{self.name}: its FFModel was deleted; keep a reference to it")
        if given is not None and given is not model:
            raise ValueError(f"{self.name}: belongs to another FFModel than the one that was given")
        return model


class Tensor(Member):
    """A tensor of a model, as its layer methods return it. ``+ - * /`` work between tensors, with
    NumPy's broadcasting, and with numbers.

    Attributes:
        dims: its extents, batch first.
        data_type: the type of its elements.
        name: unique in its model.
        id: its number in its model.
        is_input, is_state: whether it is fed from outside, or a weight or the like.

    FlexFlow's methods take the model and the configuration; both may be left out.

    >>> y = x + 1.0
    >>> y.shape, y.dtype, y.num_dims
    ((64, 16), dtype('float32'), 2)
    """

    id: Final[int]
    dims: Final[tuple[int, ...]]
    data_type: Final[DataType]
    is_input: Final[bool]
    is_state: Final[bool]

    def __init__(self, model: FFModel, number: int) -> None:
        info = model.tensor_info(number)
        super().__init__(model, info.name)
        self.id = number
        self.dims = info.dims
        self.data_type = info.data_type
        self.is_input = info.op == "input"
        self.is_state = info.is_state
        self._mapped: np.ndarray | None = None

    def __repr__(self) -> str:
        dims = ", ".join(map(str, self.dims))
        return f"<{type(self).__name__} {self.name}: {self.data_type.name} [{dims}]>"

    @property
    def shape(self) -> tuple[int, ...]:
        """The same as ``dims``."""
        return self.dims

    @property
    def num_dims(self) -> int:
        """How many dimensions it has."""
        return len(self.dims)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the arrays that carry its values."""
        return numpy_dtype(self.data_type)

    @property
    def owner_op(self) -> Op | None:
        """The layer that makes it; None for inputs, constants and weights."""
        return self.owner().layer_of(self)

    # ---- values ----
    def get_tensor(self, ffmodel: FFModel | None = None) -> np.ndarray:
        """A copy of its values: of a weight or an input at any time, of any other tensor once
        ``forward`` has run.

        Raises:
            FlexFlowError: there are no values yet.
        """
        return self.owner(ffmodel).read(self)

    def set_tensor(self, ffmodel: FFModel | None, np_array: Any) -> None:
        """Write the values of an input or a weight.

        Args:
            ffmodel: its model, or None.
            np_array: an array of its shape; integers become floats, floats change precision. An
                input also takes fewer rows: the batch is then so much smaller.

        Raises:
            ValueError: a wrong shape, a value out of range, or a tensor that is computed.
            TypeError: values that do not convert.

        >>> x.set_tensor(ffmodel, np.ones((64, 16)))
        >>> float(x.get_tensor().sum())
        1024.0
        """
        self.owner(ffmodel).write(self, np_array)

    def get_gradients(self, ffmodel: FFModel | None = None, comm_type: Any = None) -> np.ndarray:
        """A copy of the gradient of the loss with respect to this tensor, once ``backward`` has
        run. ``comm_type`` is FlexFlow's: gradients are always those of the whole batch.

        Raises:
            FlexFlowError: there is no gradient yet.
            ValueError: the tensor was created with ``create_grad=False``.
        """
        return self.owner(ffmodel).read_gradient(self)

    def get_model_output_tensor(self, ffmodel: FFModel | None = None) -> np.ndarray:
        """The values of the model's output, whatever tensor this is."""
        return self.owner(ffmodel).output_tensor.get_tensor()

    def get_model_output_gradients(
        self, ffmodel: FFModel | None = None, comm_type: Any = None
    ) -> np.ndarray:
        """The gradient of the model's output, whatever tensor this is."""
        return self.owner(ffmodel).output_tensor.get_gradients()

    # ---- FlexFlow's mapped access ----
    def inline_map(self, ffmodel: FFModel | None = None, ffconfig: FFConfig | None = None) -> None:
        """Fetch the values for ``get_array``; ``inline_unmap`` ends this.

        Raises:
            FlexFlowError: it is mapped already, or has no values yet.

        >>> w = ffmodel.dense(x, 4).owner_op.get_weight_tensor()
        >>> w.inline_map(ffmodel, config)
        >>> w.get_array(ffmodel, config)[:] = 0.5
        >>> w.inline_unmap(ffmodel, config)
        >>> float(w.get_weights(ffmodel)[0, 0])
        0.5
        """
        if self._mapped is not None:
            raise FlexFlowError(f"{self.name}: is mapped already; call inline_unmap() first")
        self._mapped = self.get_tensor(ffmodel)
        self._mapped.flags.writeable = self.is_input or self.is_state

    def inline_unmap(
        self, ffmodel: FFModel | None = None, ffconfig: FFConfig | None = None
    ) -> None:
        """End ``inline_map``; of inputs and weights, what was written into the array is kept.

        Raises:
            FlexFlowError: it is not mapped.
        """
        array = self.get_array(ffmodel)
        if array.flags.writeable:
            self.set_tensor(ffmodel, array)
        self._mapped = None

    def get_array(
        self, ffmodel: FFModel | None = None, ffconfig: FFConfig | None = None
    ) -> np.ndarray:
        """The array of a mapped tensor, of its shape; it can be written if the tensor can.

        Raises:
            FlexFlowError: it is not mapped.
        """
        self.owner(ffmodel)
        if self._mapped is None:
            raise FlexFlowError(f"{self.name}: is not mapped; call inline_map() first")
        return self._mapped

    def get_flat_array(
        self, ffmodel: FFModel | None = None, ffconfig: FFConfig | None = None
    ) -> np.ndarray:
        """The same with one dimension."""
        return self.get_array(ffmodel).reshape(-1)

    def is_mapped(self) -> bool:
        """Whether ``inline_map`` was called."""
        return self._mapped is not None

    def attach_numpy_array(
        self,
        ffmodel: FFModel | None,
        ffconfig: FFConfig | None,
        np_array: np.ndarray,
    ) -> None:
        """Let an input take its values from an array, NumPy's or cuPyNumeric's, which may change:
        each ``forward`` reads it anew. ``SingleDataLoader`` takes a tensor with an array as a data
        set.

        Raises:
            ValueError: not an input, or an array of another shape.
            TypeError: an array of another dtype, or none.
        """
        model = self.owner(ffmodel)
        if not isinstance(np_array, array_types()) or np_array.dtype != self.dtype:
            came = getattr(np_array, "dtype", type(np_array).__name__)
            raise TypeError(f"{self.name}: got {came}, expected an array of {self.dtype}")
        expect_shape(np_array, self.dims, self.name)
        model.attach(self, np_array)

    def detach_numpy_array(self, ffconfig: FFConfig | None = None) -> None:
        """End ``attach_numpy_array``; the tensor keeps its last values.

        Raises:
            FlexFlowError: nothing is attached.
        """
        self.owner().detach(self)

    # ---- operators ----
    def __add__(self, other: Operand) -> Tensor:
        model = self.owner()
        if isinstance(other, Tensor):
            return model.add(self, other)
        return model.scalar_add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Tensor:
        model = self.owner()
        if isinstance(other, Tensor):
            return model.subtract(self, other)
        return model.scalar_sub(self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return -self + other

    def __mul__(self, other: Operand) -> Tensor:
        model = self.owner()
        if isinstance(other, Tensor):
            return model.multiply(self, other)
        return model.scalar_multiply(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Tensor:
        model = self.owner()
        if isinstance(other, Tensor):
            return model.divide(self, other)
        return model.scalar_true_divide(self, other)

    def __neg__(self) -> Tensor:
        return self.owner().negative(self)


class Parameter(Tensor):
    """A weight. It can be read and written before and after ``compile``.

    Kernels are laid out (out, in) for dense, (out, in / groups, height, width) for conv2d and
    (entries, dim) for embedding.

    >>> kernel = ffmodel.dense(x, 4).owner_op.get_weight_tensor()
    >>> kernel.set_weights(ffmodel, np.zeros((4, 16)))
    >>> float(kernel.get_weights(ffmodel).sum())
    0.0
    >>> kernel.trainable = False
    """

    def get_weights(self, ffmodel: FFModel | None = None) -> np.ndarray:
        """A copy of its values."""
        return self.get_tensor(ffmodel)

    def set_weights(self, ffmodel: FFModel | None, np_array: Any) -> None:
        """Write its values: an array of its shape.

        Raises:
            ValueError: a wrong shape. TypeError: values that do not convert.
        """
        self.set_tensor(ffmodel, np_array)

    @property
    def trainable(self) -> bool:
        """Whether training changes it; can be set at any time."""
        return self.owner().tensor_info(self.id).trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self.owner().set_weight(self.id, {"trainable": boolean(value, f"{self.name}: trainable")})
