"""The table of this front end and the decorator that adds a row to it.

A row says how one operator of ONNX becomes operators of FlexFlow. It is a function that takes the
node's inputs by position, None for those that are left out, and its attributes by keyword, under
ONNX's names and with its defaults:

    @lowers("Elu")
    def elu(b: Builder, x: Value, *, alpha: float = 1.0) -> Tensor:
        return b.op("elu", x, alpha=alpha)

An attribute that a row does not take is refused. Where the meaning of an operator changed, each row
says from which version of the operator set on it holds; a version without changes needs no row.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

Lower = Callable[..., Any]

# The last version of the operator set that the rows were compared with.
NEWEST_OPSET = 28


class UnsupportedError(Exception):
    """An operator or an argument of one that cannot be lowered; the message says which and why."""


@dataclass(frozen=True)
class Row:
    """How one operator is lowered, from one version of the operator set on."""

    lower: Lower
    since: int
    only: dict[str, tuple[Any, ...]]  # the values that are supported, by attribute

    def refusals(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Iterator[str]:
        """What of a node the row cannot take."""
        known = inspect.signature(self.lower).parameters
        for name, value in attributes.items():
            if name not in known:
                yield f"attribute {name}={value!r} is not known here"
            elif name in self.only and value not in self.only[name]:
                allowed = " or ".join(map(repr, self.only[name]))
                yield f"{name}={value!r}, but only {allowed} is supported"
        needed = [name for name, p in known.items() if p.default is p.empty]
        for name in needed:
            if known[name].kind is inspect.Parameter.KEYWORD_ONLY and name not in attributes:
                yield f"attribute {name} is missing"
        by_position = [p for p in known.values() if p.kind is not p.KEYWORD_ONLY][1:]
        any_number = any(p.kind is p.VAR_POSITIONAL for p in by_position)
        least = 1 if any_number else sum(p.name in needed for p in by_position)
        if len(inputs) < least or any(one is None for one in inputs[:least]):
            yield f"{sum(one is not None for one in inputs)} inputs, expected at least {least}"
        elif not any_number and len(inputs) > len(by_position):
            yield f"{len(inputs)} inputs, expected at most {len(by_position)}"


ROWS: dict[str, list[Row]] = {}


def lowers(op_type: str, since: int = 1, **only: tuple[Any, ...]) -> Callable[[Lower], Lower]:
    """Add a row.

    Args:
        op_type: ONNX's name of the operator.
        since: the first version of the operator set for which the row holds.
        only: for an attribute, the values that are supported.
    """

    def add(lower: Lower) -> Lower:
        rows = ROWS.setdefault(op_type, [])
        rows.append(Row(lower, since, only))
        rows.sort(key=lambda row: row.since)
        return lower

    return add


def find(op_type: str, opset: int) -> Row:
    """The row for an operator in a version of the operator set.

    Raises:
        UnsupportedError: there is none.
    """
    row: Row | None = None
    for candidate in ROWS.get(op_type, ()):
        row = candidate if candidate.since <= opset else row
    if row is None:
        raise UnsupportedError("there is no such operator here")
    return row
