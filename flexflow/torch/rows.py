"""The three tables of this front end and the decorator that adds a row to them.

A row says how one operator of PyTorch becomes operators of FlexFlow. It is a function whose
parameters are PyTorch's own, so that calling it binds positional and keyword arguments as PyTorch
does:

    @lowers(fn.elu, nn.ELU)
    def elu(b: Builder, input: Value, alpha: float = 1.0, inplace: bool = False) -> Tensor:
        return b.op("elu", b.floating(input), alpha=alpha)

One row serves the functional form, the method and the module. A module is its functional form with
the module's attributes as arguments: of ``nn.ELU`` the row reads ``alpha`` and ``inplace``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Callable, Union

from torch import nn

Lower = Callable[..., Any]
Target = Union[str, type, Callable[..., Any]]

# PyTorch takes NumPy's names for some arguments, and names of its own in a few methods.
_SYNONYMS = {
    "self": "input",
    "tensor": "input",
    "x": "input",
    "x1": "input",
    "x2": "other",
    "mat2": "other",
    "axis": "dim",
    "axis0": "dim0",
    "axis1": "dim1",
    "keepdims": "keepdim",
    "split_size": "split_size_or_sections",
}


class UnsupportedError(Exception):
    """An operator or an argument of one that cannot be lowered; the message says which and why."""


@dataclass(frozen=True)
class Row:
    """How one operator is lowered."""

    lower: Lower
    signature: inspect.Signature  # of PyTorch's arguments
    only: dict[str, tuple[Any, ...]]  # the values that are supported, by argument

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """The arguments by name, defaults included.

        Raises:
            UnsupportedError: an argument has no place in the row.
        """
        known = self.signature.parameters
        kwargs = {k if k in known else _SYNONYMS.get(k, k): v for k, v in kwargs.items()}
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UnsupportedError(f"{error} in {self.signature}") from None
        bound.apply_defaults()
        return bound

    def refusals(self, bound: inspect.BoundArguments) -> Iterator[str]:
        """What is wrong with arguments that are supported with some values only."""
        for name, allowed in self.only.items():
            value = bound.arguments[name]
            value = tuple(value) if isinstance(value, (list, tuple)) else value
            if not any(_same(value, one) for one in allowed):
                yield f"{name}={value!r}, but only {' or '.join(map(repr, allowed))} is supported"


def _same(value: Any, one: Any) -> bool:
    """Equality of numbers, texts and tuples; False is not 0, and a tensor equals none of them."""
    kinds = {type(value), type(one)}
    return (len(kinds) == 1 or kinds == {int, float}) and bool(value == one)


MODULES: dict[type, Row] = {}
FUNCTIONS: dict[Lower, Row] = {}
METHODS: dict[str, Row] = {}


def lowers(*targets: Target, **only: tuple[Any, ...]) -> Callable[[Lower], Lower]:
    """Add a row for modules (given as types), functions and methods (given by name).

    Args:
        targets: what the row lowers.
        only: for an argument, the values that are supported.
    """

    def add(lower: Lower) -> Lower:
        parameters = list(inspect.signature(lower).parameters.values())[1:]
        row = Row(lower, inspect.Signature(parameters), only)
        for target in targets:
            if isinstance(target, str):
                METHODS[target] = row
            elif isinstance(target, type):
                MODULES[target] = row
            else:
                FUNCTIONS[target] = row
        return lower

    return add


def module_arguments(row: Row, module: nn.Module) -> dict[str, Any]:
    """The arguments of a module's functional form, read from the module."""
    return {
        name: getattr(module, name) for name in row.signature.parameters if hasattr(module, name)
    }
