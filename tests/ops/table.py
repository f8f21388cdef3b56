"""What a row of the table of operators is made of; the table itself is in cases.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from draws import Draw, normal

Reference = Callable[..., Any]  # (*inputs, *weights, **attributes) -> a tensor or several


@dataclass(frozen=True)
class Case:
    """One call of an operator: its data inputs and attributes."""

    inputs: tuple[Draw, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shapes = ",".join(map(str, self.inputs))
        attrs = "".join(f"-{name}={_short(value)}" for name, value in self.attrs.items())
        return shapes + attrs


@dataclass(frozen=True)
class Row:
    """An operator: what PyTorch says it computes, and the calls that are compared.

    weights: how the weights that it owns are drawn, by name; normal, if nothing is said.
    outputs: how many of its outputs users see.
    cancelling: weights whose gradient is 0 but for rounding, being a sum of terms that cancel.
    roundings: how many more times than others it rounds to a half format, if it consists of others.
    typed: its dtype is an attribute, as none of its inputs has it.
    """

    op: str
    reference: Reference
    cases: tuple[Case, ...]
    weights: Mapping[str, Callable[..., Draw]] = field(default_factory=dict)
    outputs: int | Callable[[Case], int] = 1
    cancelling: tuple[str, ...] = ()
    roundings: int = 1
    typed: bool = False

    def weight(self, name: str, shape: tuple[int, ...]) -> Draw:
        return self.weights.get(name, normal)(*shape)

    def output_count(self, case: Case) -> int:
        return self.outputs(case) if callable(self.outputs) else self.outputs


def case(*inputs: Draw, **attrs: Any) -> Case:
    return Case(inputs, attrs)


def _short(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "x".join(map(str, value)) or "none"
    return str(value)
