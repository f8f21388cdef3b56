"""What convolution and pooling share: pairs of numbers, paddings, sizes of outputs."""

from __future__ import annotations

import warnings
from typing import Any, Union

from flexflow.keras.graph import Shape

Pair = tuple[int, int]
Padding = Union[str, Pair]


def pair(who: str, value: Any) -> Pair:
    """Two whole numbers above 0 (rows, columns), from one or two."""
    values = tuple(value) if isinstance(value, (list, tuple)) else (value, value)
    if len(values) != 2 or any(
        isinstance(v, bool) or not isinstance(v, int) or v < 1 for v in values
    ):
        raise ValueError(
            f"{who}={value!r}, expected a whole number above 0 or a pair of them (rows, columns)"
        )
    return values


def checked_padding(who: str, padding: Any) -> Padding:
    """ "valid", "same", or FlexFlow's pair of numbers (rows, columns), each for both sides."""
    if isinstance(padding, str):
        if padding.lower() in ("valid", "same"):
            return padding.lower()
    elif (
        isinstance(padding, (list, tuple))
        and len(padding) == 2
        and all(type(p) is int and p >= 0 for p in padding)
    ):
        return tuple(padding)
    raise ValueError(
        f"{who}: padding={padding!r}, expected 'valid', 'same' or a pair of numbers (rows, columns)"
    )


def padding_attributes(padding: Padding) -> dict[str, Any]:
    """A padding as attributes of the core's operators."""
    if isinstance(padding, str):
        return {"padding": padding}
    return {"padding": "explicit", "pads": [*padding, *padding]}


def split_image(shape: Shape, data_format: str) -> tuple[tuple[Any, Any], Any]:
    """(rows, columns) and channels of the shape of a batch of images."""
    _, a, b, c = shape
    return ((a, b), c) if data_format == "channels_last" else ((b, c), a)


def join_image(sizes: tuple[Any, ...], channels: Any, data_format: str) -> Shape:
    """The reverse of split_image, with None for the batch."""
    return (None, *sizes, channels) if data_format == "channels_last" else (None, channels, *sizes)


def warn_if_channels_first(who: str, shape: Shape, data_format: str) -> None:
    """Warn of an input such as (3, 32, 32), which FlexFlow's scripts have: as channels_last it is
    legal, and nonsense."""
    if (
        data_format == "channels_last"
        and shape[1] in (1, 3)
        and shape[2] == shape[3]
        and shape[3] != 1
    ):
        warnings.warn(
            f"{who}: an input of shape {shape} is read as images of {shape[1]} rows and {shape[3]} "
            "channels; if the channels come first, call "
            'keras.backend.set_image_data_format("channels_first") before the layers are made',
            stacklevel=5,
        )


def output_sizes(
    who: str,
    shape: Shape,
    data_format: str,
    window: Pair,
    strides: Pair,
    padding: Padding,
    dilation: Pair = (1, 1),
) -> Pair:
    """Rows and columns of what a window gives as it moves over images.

    "valid" has the places where the whole window lies inside; "same" has size / stride places,
    rounded up.

    Raises:
        ValueError: the window is larger than the image.
    """
    sizes, _ = split_image(shape, data_format)
    result = []
    for i, size in enumerate(sizes):
        if size is None:
            raise ValueError(
                f"{who}: got an input of shape {shape}, expected known rows and columns"
            )
        if padding == "same":
            result.append(-(-size // strides[i]))
            continue
        padded = size + (0 if padding == "valid" else 2 * padding[i])
        reach = dilation[i] * (window[i] - 1) + 1
        if reach > padded:
            raise ValueError(
                f"{who}: a window of {window} with dilation {dilation} is larger than the image in "
                "an input of shape "
                f"{shape}, read as data_format={data_format!r}; "
                "use a smaller window or padding='same', or, if the axes "
                "are in another order, data_format or keras.backend.set_image_data_format()"
            )
        result.append((padded - reach) // strides[i] + 1)
    return result[0], result[1]
