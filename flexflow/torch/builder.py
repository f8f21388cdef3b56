"""The builder that the rows call: it adds operators to an FFModel and brings PyTorch's tensors
along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import torch
from torch import nn

from flexflow.core import DataType, FFModel, Tensor

if TYPE_CHECKING:
    from typing import TypeGuard

# A tensor on an edge of a traced graph: one of FlexFlow's, or one of PyTorch's that is there
# without any input (a parameter, a buffer, a constant).
Value = Union[Tensor, torch.Tensor]

DTYPES = {
    torch.bool: DataType.DT_BOOLEAN,
    torch.int32: DataType.DT_INT32,
    torch.int64: DataType.DT_INT64,
    torch.float16: DataType.DT_HALF,
    torch.bfloat16: DataType.DT_BFLOAT16,
    torch.float32: DataType.DT_FLOAT,
    torch.float64: DataType.DT_DOUBLE,
}
TORCH_DTYPES = {ours: theirs for theirs, ours in DTYPES.items()}


@dataclass(frozen=True)
class Missing:
    """In the place of a value that cannot be had.

    Attributes:
        reason: reported for whoever uses it; empty where it was reported already.
        constant: whether it would be a constant, not a tensor that depends on an input.
    """

    reason: str = ""
    constant: bool = False


def is_tensor(value: Any) -> TypeGuard[Value]:
    """Whether a value is a tensor, FlexFlow's or PyTorch's."""
    return isinstance(value, (Tensor, torch.Tensor))


def shape(value: Value) -> tuple[int, ...]:
    """The extents of a tensor."""
    return tuple(value.dims) if isinstance(value, Tensor) else tuple(value.shape)


def dtype(value: Value) -> torch.dtype:
    """The dtype of a tensor, as PyTorch calls it."""
    return TORCH_DTYPES[value.data_type] if isinstance(value, Tensor) else value.dtype


def type_name(type_: torch.dtype) -> str:
    """What FlexFlow's operators call a dtype."""
    return str(type_).rpartition(".")[2]


def axis(value: Value, dim: int, extra: int = 0) -> int:
    """A dimension counted from the front; ``extra`` is 1 where a new dimension is named."""
    rank = len(shape(value)) + extra
    if not -rank <= dim < rank:
        raise IndexError(f"dim {dim} of a tensor of shape {shape(value)}")
    return dim % rank


class Builder:
    """Adds operators for one node of a traced graph after the other.

    Attributes:
        name: of the node that is being lowered; the operator that gives its result is called so,
            and those on the way to it ``name/operator``.
        training: the mode of the module in whose code the node stands.
    """

    def __init__(self, ffmodel: FFModel, names: dict[int, str]) -> None:
        """
        Args:
            ffmodel: the model to add to.
            names: what PyTorch's tensors are called, by ``id``.
        """
        self.name = ""
        self.training = True
        self._ffmodel = ffmodel
        self._names = names
        # By id: the tensor here, and PyTorch's own, which is kept so that its id stays its own.
        self._brought: dict[int, tuple[Tensor, torch.Tensor]] = {}

    # ---- operators ----
    def op(self, kind: str, *inputs: Value, **attrs: Any) -> Tensor:
        """The operator that gives the node's result."""
        return self._add(kind, inputs, self.name, 1, attrs)[0]

    def step(self, kind: str, *inputs: Value, **attrs: Any) -> Tensor:
        """An operator on the way to the node's result."""
        return self._add(kind, inputs, f"{self.name}/{kind}", 1, attrs)[0]

    def split(self, x: Value, sizes: Sequence[int], axis: int) -> tuple[Tensor, ...]:
        """The pieces of a tensor along a dimension."""
        attrs = {"sizes": list(sizes), "axis": axis}
        return tuple(self._add("split", (x,), self.name, len(sizes), attrs))

    def several(self, kind: str, outputs: int, *inputs: Value, **attrs: Any) -> list[Tensor]:
        """All results of an operator on the way to the node's result."""
        return self._add(kind, inputs, f"{self.name}/{kind}", outputs, attrs)

    def _add(
        self, kind: str, inputs: Sequence[Value], name: str, outputs: int, attrs: dict[str, Any]
    ) -> list[Tensor]:
        tensors = [self.tensor(one) for one in inputs]
        return self._ffmodel.op(kind, tensors, name, outputs=outputs, **attrs)

    # ---- operands ----
    def tensor(self, value: Value) -> Tensor:
        """A tensor of the model: PyTorch's become a weight (a parameter) or a constant, each of
        them once."""
        if isinstance(value, Tensor):
            return value
        if id(value) not in self._brought:
            self._brought[id(value)] = (self._bring(value), value)
        return self._brought[id(value)][0]

    def weights(self, named: Mapping[str, torch.Tensor]) -> dict[str, Tensor]:
        """Those of some named tensors that were brought along, by name."""
        brought = {name: self._brought.get(id(one)) for name, one in named.items()}
        return {name: pair[0] for name, pair in brought.items() if pair is not None}

    def _bring(self, value: torch.Tensor) -> Tensor:
        name = self._names.get(id(value), f"{self.name}/constant")
        if value.dtype not in DTYPES:
            raise TypeError(f"{name}: {value.dtype} has no counterpart in FlexFlow")
        data_type = DTYPES[value.dtype]
        # NumPy has no bfloat16; its values travel as float32.
        exact = value.detach().cpu()
        array = (exact.float() if value.dtype == torch.bfloat16 else exact).numpy()
        if not isinstance(value, nn.Parameter):
            return self._ffmodel.create_constant(array.shape, array, data_type, name)
        weight = self._ffmodel.create_parameter(array.shape, data_type, name=name)
        weight.set_weights(self._ffmodel, array)
        weight.trainable = value.requires_grad
        return weight

    def full(self, sizes: Sequence[int], value: float, type_: torch.dtype) -> torch.Tensor:
        """A constant of one number."""
        return torch.full(tuple(sizes), value, dtype=type_)

    def cast(self, value: Value, type_: torch.dtype) -> Value:
        """The same values as another type."""
        if dtype(value) == type_:
            return value
        if type_ not in DTYPES:
            raise TypeError(f"{self.name}: {type_} has no counterpart in FlexFlow")
        return self.step("cast", value, dtype=type_name(type_))

    def floating(self, value: Value) -> Value:
        """A tensor as PyTorch hands it to a function of real numbers: integers become floats."""
        if dtype(value).is_floating_point:
            return value
        return self.cast(value, torch.get_default_dtype())

    def promote(self, x: Any, y: Any, floating: bool = False) -> tuple[Any, Any]:
        """Two operands, a tensor at least, in the type in which PyTorch lets them meet; numbers
        stay numbers.

        Args:
            floating: whether the type must have fractions.
        """
        met = torch.result_type(_example(x), _example(y))
        if floating and not met.is_floating_point:
            met = torch.get_default_dtype()
        first, second = (self.cast(one, met) if is_tensor(one) else one for one in (x, y))
        return first, second


def _example(operand: Any) -> Any:
    """A number, or a tensor of the operand's shape and type without memory."""
    if not is_tensor(operand):
        return operand
    return torch.empty(shape(operand), dtype=dtype(operand), device="meta")
