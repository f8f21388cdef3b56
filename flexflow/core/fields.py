"""The entries of a file's objects: what comes, checked, or an error that names the path to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flexflow.core.checks import boolean, integer, real, shown
from flexflow.core.guard import did_you_mean


class Fields:
    """An object of a file, entry by entry. ``known`` are the keys that it may have.

    Raises:
        ValueError: it is no object, or has a key that is not known.

    >>> Fields({"latency": -1}, "links[2]", "latency bandwidth").number("latency")
    Traceback (most recent call last):
    ...
    ValueError: links[2].latency: got -1, expected a finite number of at least 0
    """

    def __init__(self, values: Any, path: str, known: str) -> None:
        if not isinstance(values, dict):
            raise ValueError(f"{path or 'the file'}: got {shown(values)}, expected an object")
        self.values, self.path = values, path
        for key in values:
            if key not in known.split():
                there = did_you_mean(key, known.split()) or f"; expected {_listed(known.split())}"
                raise ValueError(f"{self.at(key)}: unknown key{there}")

    def at(self, name: str) -> str:
        """The path to an entry."""
        return f"{self.path}.{name}" if self.path else name

    def take(self, name: str, expected: str, fallback: Any = None) -> Any:
        """An entry as it is; ValueError when it is missing and there is nothing in its place."""
        value = self.values.get(name, fallback)
        if value is None:
            came = "is missing" if name not in self.values else "is null"
            raise ValueError(f"{self.at(name)} {came}; expected {expected}")
        return value

    def number(self, name: str, fallback: float | None = None) -> float:
        """A finite number of at least 0."""
        return real(self.take(name, "a number of at least 0", fallback), self.at(name), 0)

    def positive(self, name: str, fallback: float | None = None) -> float:
        """A finite number above 0."""
        return above_0(self.take(name, "a number above 0", fallback), self.at(name))

    def count(self, name: str, most: int, fallback: int | None = None) -> int:
        """An integer from 1 on."""
        return integer(self.take(name, "an integer from 1 on", fallback), self.at(name), 1, most)

    def text(self, name: str, expected: str) -> str:
        """A text that is not empty."""
        value = self.take(name, expected)
        if not isinstance(value, str) or not value:
            raise ValueError(f"{self.at(name)}: got {shown(value)}, expected {expected}")
        return value

    def switch(self, name: str, fallback: bool) -> bool:
        """True or false."""
        return boolean(self.values.get(name, fallback), self.at(name))

    def objects(self, name: str) -> Iterator[tuple[str, Any]]:
        """The entries of an object by name; none where it is missing."""
        value = self.values.get(name, {})
        if not isinstance(value, dict):
            raise ValueError(f"{self.at(name)}: got {shown(value)}, expected an object")
        yield from value.items()

    def items(self, name: str) -> Iterator[tuple[str, Any]]:
        """The items of a list with the paths to them; none where it is missing."""
        value = self.values.get(name, [])
        if not isinstance(value, list):
            raise ValueError(f"{self.at(name)}: got {shown(value)}, expected a list")
        yield from ((f"{self.at(name)}[{n}]", item) for n, item in enumerate(value))


def above_0(value: Any, path: str) -> float:
    """A finite number above 0."""
    number = real(value, path, 0)
    if number == 0:
        raise ValueError(f"{path}: got {shown(value)}, expected a number above 0")
    return number


def _listed(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
