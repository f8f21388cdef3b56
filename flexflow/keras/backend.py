"""Settings that all of flexflow.keras shares: the order of an image's axes, names, seeds.

The default order is Keras's, ``channels_last``: a script written for Keras keeps its shapes when it
changes its import. FlexFlow's own Keras scripts are written for ``channels_first``; they need one
line more::

    from flexflow.keras import backend
    backend.set_image_data_format("channels_first")

Either way the numbers are the same and weights have Keras's layout, so they can be exchanged
between the two. The core keeps images channels first; a ``channels_last`` model is turned once
where images enter and once where they are flattened, not at every layer.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

from flexflow.core import FFConfig
from flexflow.keras import surface

DATA_FORMATS = ("channels_last", "channels_first")

_image_data_format = "channels_last"
_names: Counter[str] = Counter()
_seeds: np.random.Generator | None = None


def backend() -> str:
    """The name of what computes.

    >>> backend()
    'flexflow'
    """
    return "flexflow"


def floatx() -> str:
    """The dtype of weights and of inputs that ask for none.

    >>> floatx()
    'float32'
    """
    return "float32"


def epsilon() -> float:
    """The small number that keeps divisions and logarithms finite.

    >>> epsilon()
    1e-07
    """
    return 1e-7


def image_data_format() -> str:
    """The order of an image's axes where a layer is not told: ``"channels_last"`` (rows, columns,
    channels), unless set_image_data_format() says otherwise.

    >>> image_data_format()
    'channels_last'
    """
    return _image_data_format


def set_image_data_format(data_format: str) -> None:
    """Set what image_data_format() returns, for layers that are made from now on.

    Args:
        data_format: ``"channels_last"`` or ``"channels_first"``.

    Raises:
        ValueError: it is neither.

    >>> set_image_data_format("channels_last")
    """
    global _image_data_format
    _image_data_format = data_format_or_default(data_format, "set_image_data_format")


def data_format_or_default(data_format: str | None, who: str) -> str:
    """A checked data format; image_data_format() for None."""
    if data_format is None:
        return _image_data_format
    if data_format not in DATA_FORMATS:
        raise ValueError(
            f"{who}: data_format={data_format!r}, expected one of {DATA_FORMATS} or None"
        )
    return data_format


def set_seed(seed: int) -> None:
    """Start the stream of seeds anew; see utils.set_random_seed()."""
    global _seeds
    _seeds = np.random.default_rng(seed)


def next_seed() -> int:
    """A seed for one more initializer, dropout or shuffle: the next of a stream, below 2**31.

    Where set_seed() was not called the stream starts from FFConfig's seed (0, or ``--seed N``),
    so that a script run twice, or on several machines at once, computes the same.
    """
    if _seeds is None:
        set_seed(FFConfig().seed)
    assert _seeds is not None
    return int(_seeds.integers(2**31))


def clear_session() -> None:
    """Count the names of layers from the start again.

    >>> clear_session()
    """
    _names.clear()


def unique_name(base: str) -> str:
    """``base``, or ``base_1``, ``base_2``, … if it was given out before."""
    count = _names[base]
    _names[base] += 1
    return f"{base}_{count}" if count else base


def snake_case(name: str) -> str:
    """A class's name as layers are called by default.

    >>> snake_case("MaxPooling2D"), snake_case("ReLU")
    ('max_pooling2d', 're_lu')
    """
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def refuse(who: str, *, neutral: tuple[Any, ...] = (None,), **arguments: Any) -> None:
    """Raise for arguments of Keras that are not supported yet, unless they have a neutral value,
    which leaves them out.
    """
    for name, value in arguments.items():
        if not any(value is n or (type(value) is type(n) and value == n) for n in neutral):
            raise NotImplementedError(
                f"{who}: {name}={shown(value)} is not supported yet; leave {name} out"
            )


def shown(value: Any) -> str:
    """A value for a message: what it is, where writing it out would take long.

    >>> shown(0.5), shown(np.zeros((50, 3)))
    ('0.5', '<ndarray of shape (50, 3)>')
    """
    if hasattr(value, "shape"):
        return f"<{type(value).__name__} of shape {tuple(value.shape)}>"
    text = repr(value)
    if len(text) <= 80:
        return text
    size = f" of {len(value)}" if hasattr(value, "__len__") else ""
    return f"<{type(value).__name__}{size}>"


__all__ = [
    "backend",
    "clear_session",
    "epsilon",
    "floatx",
    "image_data_format",
    "set_image_data_format",
]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
