"""What an argument must be: the value in its type, or an error that names the argument.

``who`` is what messages start with. Numbers of NumPy are numbers; a truth value is no number, and
a string is neither.
"""

from __future__ import annotations

import errno
import math
import operator
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np

LEAST_INT64, MOST_INT64 = -(2**63), 2**63 - 1


def shown(value: Any) -> str:
    """A value for a message; only what it is, if it is large.

    >>> shown("3"), shown(10**5000), shown(np.zeros(99))
    ("'3'", 'an integer of 16610 bits', 'a value of type ndarray')
    """
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 100 else f"a value of type {type(value).__name__}"


def some(names: Iterable[str]) -> str:
    """The first of some names for a message.

    >>> some(["b", "a"]), some("fedcba"), some([])
    ('a, b', 'a, b, c, d and 2 more', 'nothing')
    """
    listed = sorted(names)
    more = f" and {len(listed) - 4} more" if len(listed) > 4 else ""
    return ", ".join(listed[:4]) + more or "nothing"


def integer(value: Any, who: str, least: int = LEAST_INT64, most: int = MOST_INT64) -> int:
    """An integer in a range.

    Raises:
        TypeError: it is none. ValueError: it is out of the range.

    >>> integer(np.int64(3), "axis")
    3
    >>> integer(2.0, "axis")
    Traceback (most recent call last):
    ...
    TypeError: axis: got 2.0, expected an integer
    """
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{who}: got {shown(value)}, expected an integer") from None
    if least <= number <= most:
        return number
    if not LEAST_INT64 <= number <= MOST_INT64:
        raise ValueError(f"{who}: {shown(number)} does not fit 64 bits")
    limit = f"at least {least}" if number < least else f"at most {most}"
    raise ValueError(f"{who}: got {number}, expected {limit}")


def integers(values: Any, who: str) -> list[int]:
    """A list of integers.

    Raises:
        TypeError: it is none.

    >>> integers((2, np.int64(3)), "shape")
    [2, 3]
    """
    try:
        if isinstance(values, (bytes, bytearray)):  # they give the codes of their characters
            raise TypeError
        return [integer(value, who) for value in values]
    except TypeError:
        raise TypeError(f"{who}: got {shown(values)}, expected a list of integers") from None


def real(
    value: Any,
    who: str,
    least: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
) -> float:
    """A finite number, at least ``least``, below ``below`` and at most ``most``.

    Raises:
        TypeError: it is none. ValueError: it is out of the range, not finite, or beyond a double.

    >>> real(np.float32(0.5), "rate", 0, 1)
    0.5
    """
    limits = f" of at least {least}" if least > -math.inf else ""
    limits += f" and below {below}" if below < math.inf else ""
    limits += f" and at most {most}" if most < math.inf else ""
    message = f"{who}: got {shown(value)}, expected a finite number{limits}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(message)
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(message) from None
    if math.isfinite(number) and least <= number < below and number <= most:
        return number
    raise ValueError(message)


def boolean(value: Any, who: str) -> bool:
    """True or False. Anything else is refused: the string "no", say, would mean True.

    Raises:
        TypeError: it is neither.

    >>> boolean(np.bool_(True), "shuffle")
    True
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"{who}: got {shown(value)}, expected True or False")


def encoded(value: Any, who: str) -> bytes:
    """A string as the library takes it.

    Raises:
        TypeError: it is none. ValueError: it holds what UTF-8 or C strings cannot.

    >>> encoded("step", "name")
    b'step'
    """
    if not isinstance(value, str):
        raise TypeError(f"{who} is {shown(value)}, expected a string")
    try:
        if "\0" not in value:
            return value.encode()
    except UnicodeEncodeError:
        pass
    raise ValueError(f"{who} is {value!r}, expected text without zero characters and surrogates")


def need_file(path: str | os.PathLike[str], who: str) -> None:
    """Refuse a path at which there is nothing.

    Raises:
        FileNotFoundError: there is no such file; says who wanted it.
    """
    if not os.path.exists(os.fspath(path)):
        raise FileNotFoundError(errno.ENOENT, f"{who}: there is no such file", os.fspath(path))


@contextmanager
def told_by(where: str) -> Iterator[None]:
    """What is wrong in plain values is told with where they are from, such as a file's name.

    Raises:
        ValueError: for any error of value or type.

    >>> with told_by("fast.json"):
    ...     integer(0, "start", 1)
    Traceback (most recent call last):
    ...
    ValueError: fast.json: start: got 0, expected at least 1
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None
