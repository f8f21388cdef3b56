"""Handles of layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from flexflow.core.checks import boolean, integer
from flexflow.core.tensor import Member, Parameter, Tensor

if TYPE_CHECKING:
    from flexflow.core.model import FFModel


class Op(Member):
    """A layer of a model, under the names of accessors that FlexFlow's layer classes have.

    Attributes:
        name: unique in its model. kind: what the library calls the operator. idx: its number.

    >>> layer = ffmodel.dense(x, 4, name="top").owner_op
    >>> layer.name, layer.kind, layer.get_number_parameters()
    ('top', 'linear', 2)
    >>> layer.get_bias_tensor().dims
    (4,)
    """

    idx: Final[int]
    kind: Final[str]

    def __init__(
        self,
        model: FFModel,
        idx: int,
        kind: str,
        name: str,
        inputs: Sequence[int],
        parameters: Sequence[int],
        outputs: Sequence[int],
        activation: str | None,
    ) -> None:
        super().__init__(model, name)
        self.idx = idx
        self.kind = kind
        self._inputs = tuple(inputs)
        self._parameters = tuple(parameters)
        self._outputs = tuple(outputs)
        self._made = outputs[0]
        # Those that were not made to stay as they are, as running statistics are.
        self._learnt = tuple(p for p in parameters if model.tensor_info(p).trainable)
        self._activation = activation

    def __repr__(self) -> str:
        return f"<Op {self.idx} {self.name}: {self.kind}>"

    @property
    def activation(self) -> str | None:
        """The function that it applies last, by the library's name."""
        return self._activation

    @property
    def made(self) -> int:
        """The first tensor that its own operator makes, whatever follows within the layer."""
        return self._made

    def follow(self, kind: str, old: int, new: int) -> None:
        """Let an activation follow within the layer, and its result be the output."""
        self._activation = kind
        self._outputs = tuple(new if number == old else number for number in self._outputs)

    def _pick(self, what: str, numbers: Sequence[int], index: int) -> int:
        if not 0 <= integer(index, f"{self.name}: id") < len(numbers):
            raise ValueError(f"{self.name}: has no {what} {index}; it has {len(numbers)}")
        return numbers[index]

    def get_number_inputs(self) -> int:
        """How many tensors it takes, weights not counted."""
        return len(self._inputs)

    def get_input_by_id(self, id: int) -> Tensor:
        """An input by its position; ValueError if there is none."""
        return Tensor(self.owner(), self._pick("input", self._inputs, id))

    def get_input_tensor(self) -> Tensor:
        """The first input."""
        return self.get_input_by_id(0)

    def get_number_outputs(self) -> int:
        """How many tensors it makes."""
        return len(self._outputs)

    def get_output_by_id(self, id: int) -> Tensor:
        """An output by its position; ValueError if there is none."""
        return Tensor(self.owner(), self._pick("output", self._outputs, id))

    def get_output_tensor(self) -> Tensor:
        """The first output."""
        return self.get_output_by_id(0)

    def get_number_parameters(self) -> int:
        """How many weights it has."""
        return len(self._parameters)

    def get_parameter_by_id(self, id: int) -> Parameter:
        """A weight by its position; ValueError if there is none."""
        return Parameter(self.owner(), self._pick("weight", self._parameters, id))

    def get_parameters(self) -> list[Parameter]:
        """All its weights."""
        return [self.get_parameter_by_id(i) for i in range(len(self._parameters))]

    def get_weight_tensor(self) -> Parameter:
        """Its first weight: kernel or scale."""
        return self.get_parameter_by_id(0)

    def get_bias_tensor(self) -> Parameter:
        """Its second weight: bias or shift."""
        return self.get_parameter_by_id(1)

    @property
    def trainable(self) -> bool:
        """Whether training changes any of its weights; setting it freezes or frees all of those
        that are learnt."""
        return any(Parameter(self.owner(), number).trainable for number in self._learnt)

    @trainable.setter
    def trainable(self, value: bool) -> None:
        value = boolean(value, f"{self.name}: trainable")
        for number in self._learnt:
            Parameter(self.owner(), number).trainable = value
