"""The builder that the rows call: it adds operators to an FFModel and brings the file's constants
along."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from flexflow.core import FFModel, Tensor
from flexflow.onnx.rows import UnsupportedError


@dataclass(frozen=True)
class Constant:
    """A value that the file holds or that follows from it.

    Attributes:
        name: of the tensor in the file.
        array: its values.
        initializer: whether it is one of the graph's initializers.
        learnt: whether training changes it; None if the file does not say.
    """

    name: str
    array: np.ndarray
    initializer: bool = False
    learnt: bool | None = None

    @property
    def is_weight(self) -> bool:
        """Whether it is taken for a weight where it is an operand like any other. Exporters write
        literals as initializers of rank 0, so these are not."""
        if self.learnt is not None:
            return self.learnt
        return self.initializer and self.array.ndim > 0 and _is_floating(self.array)


@dataclass(frozen=True)
class Missing:
    """In the place of a value that cannot be had.

    Attributes:
        reason: reported for whoever uses it; empty where it was reported already.
        constant: whether it would be a constant.
    """

    reason: str = ""
    constant: bool = False


Value = Union[Tensor, Constant]


def shape(value: Value) -> tuple[int, ...]:
    """The extents of a value."""
    return tuple(value.dims) if isinstance(value, Tensor) else value.array.shape


def dtype(value: Value) -> np.dtype:
    """The dtype of a value."""
    return value.dtype if isinstance(value, Tensor) else value.array.dtype


def axis(value: Value, at: int, extra: int = 0) -> int:
    """An axis counted from the front; ``extra`` says how many more there are than the value has."""
    rank = len(shape(value)) + extra
    if not -rank <= at < rank:
        raise UnsupportedError(f"axis {at} of a tensor of shape {shape(value)}")
    return at % rank


class Builder:
    """Adds operators for one node of a file after the other.

    Attributes:
        name: of the node that is being lowered; the operator that gives its result is called so,
            and those on the way to it ``name/operator``.
        outputs: how many results the node has.
        opset: the version of the file's operator set.
        training: whether dropout and batch normalisation train; None: as each node says.
    """

    def __init__(self, ffmodel: FFModel, opset: int, training: bool | None) -> None:
        self.name = ""
        self.outputs = 1
        self.opset = opset
        self.training = training
        self._ffmodel = ffmodel
        self._brought: dict[str, Tensor] = {}

    # ---- operators ----
    def op(self, kind: str, *inputs: Value, **attrs: Any) -> Tensor:
        """The operator that gives the node's result."""
        return self._add(kind, inputs, self.name, 1, attrs)[0]

    def step(self, kind: str, *inputs: Value, **attrs: Any) -> Tensor:
        """An operator on the way to the node's result."""
        return self._add(kind, inputs, f"{self.name}/{kind}", 1, attrs)[0]

    def split(self, x: Value, sizes: Sequence[int], axis: int) -> tuple[Tensor, ...]:
        """The pieces of a tensor along an axis."""
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
        """A tensor of the model; a constant becomes one, each of them once."""
        return value if isinstance(value, Tensor) else self._bring(value, value.is_weight)

    def weight(self, value: Value) -> Tensor:
        """An operand that is an operator's weight: trained, unless the file says that it is not."""
        if isinstance(value, Tensor):
            return value
        return self._bring(
            value, _is_floating(value.array) if value.learnt is None else value.learnt
        )

    def statistic(self, value: Value) -> Tensor:
        """The operand that is a running statistic, which is not trained."""
        return value if isinstance(value, Tensor) else self._bring(value, False)

    def constant(self, what: str, array: np.ndarray) -> Constant:
        """A constant that a row needs; ``what`` tells it from others of the node."""
        return Constant(f"{self.name}/{what}", array)

    def weights(self, names: Collection[str]) -> dict[str, Tensor]:
        """Those of the named constants that were brought along, by name."""
        return {name: one for name, one in self._brought.items() if name in names}

    def _bring(self, value: Constant, learnt: bool) -> Tensor:
        if value.name not in self._brought:
            array, model = value.array, self._ffmodel
            tensor = (
                model.create_parameter(array.shape, array.dtype, name=value.name)
                if learnt
                else model.create_constant(array.shape, array, array.dtype, value.name)
            )
            if learnt:
                tensor.set_tensor(model, array)
            self._brought[value.name] = tensor
        return self._brought[value.name]

    def known(self, value: Value, what: str) -> np.ndarray:
        """The values of an input that must be constant.

        Raises:
            UnsupportedError: it depends on the model's inputs.
        """
        if isinstance(value, Tensor):
            raise UnsupportedError(
                f"{what} is computed ('{value.name}'), but only a constant is supported"
            )
        return value.array

    def ints(self, value: Value | None, what: str) -> list[int] | None:
        """The integers of an input that must be constant; None if it is left out."""
        return None if value is None else [int(n) for n in self.known(value, what).reshape(-1)]

    def number(self, value: Value, rank: int) -> float | None:
        """A value as a number, if it is one that is not learnt and that does not widen a tensor of
        a rank."""
        if isinstance(value, Tensor) or value.is_weight:
            return None
        return value.array.item() if value.array.size == 1 and value.array.ndim <= rank else None


def _is_floating(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"
