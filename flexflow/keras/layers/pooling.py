"""Pooling of images."""

from __future__ import annotations

from typing import Any, ClassVar

from flexflow.core.checks import boolean
from flexflow.keras import backend
from flexflow.keras.graph import Shape
from flexflow.keras.layers import windows
from flexflow.keras.layers.base import Layer
from flexflow.keras.lowering import Lowering, Value


class _Pooling2D(Layer):
    """One value for every window; see the subclasses."""

    rank = 4
    axes_text = (
        " (batch, rows, columns, channels) or, channels_first, (batch, channels, rows, columns)"
    )
    pool_type: ClassVar[str]

    def __init__(
        self,
        pool_size: Any = (2, 2),
        strides: Any = None,
        padding: Any = "valid",
        data_format: str | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self.pool_size = windows.pair(f"{self._who}: pool_size", pool_size)
        self.strides = windows.pair(
            f"{self._who}: strides", pool_size if strides is None else strides
        )
        self.padding = windows.checked_padding(self._who, padding)
        self.data_format = backend.data_format_or_default(data_format, self._who)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        sizes = windows.output_sizes(
            self._who, input_shape, self.data_format, self.pool_size, self.strides, self.padding
        )
        return windows.join_image(
            sizes, windows.split_image(input_shape, self.data_format)[1], self.data_format
        )

    def lower(self, to: Lowering, x: Value) -> Value:
        y = to.op(
            self,
            "pool2d",
            to.channels_first(x, self.data_format),
            kernel=self.pool_size,
            stride=self.strides,
            pool_type=self.pool_type,
            **windows.padding_attributes(self.padding),
        )
        return to.image(y, self.data_format)


class MaxPooling2D(_Pooling2D):
    """The greatest value of each window.

    Input (batch, rows, columns, channels), or (batch, channels, rows, columns) for channels_first;
    output likewise.

    Args:
        pool_size: of the window, a number or two (rows, columns).
        strides: likewise; None: pool_size.
        padding: "valid", "same" (see Conv2D), or FlexFlow's pair of numbers (rows, columns).
            Padding never wins.
        data_format: "channels_last", "channels_first", or None for backend.image_data_format().

    Raises:
        ValueError: a wrong argument, or a window larger than the image.

    >>> from flexflow.keras import Input
    >>> MaxPooling2D()(Input((28, 28, 3))).shape
    (None, 14, 14, 3)
    """

    pool_type = "max"


class AveragePooling2D(_Pooling2D):
    """The mean of each window, where padding does not count. Arguments, shapes and errors as in
    MaxPooling2D.

    >>> from flexflow.keras import Input
    >>> AveragePooling2D(3, strides=2, padding="same")(Input((7, 7, 3))).shape
    (None, 4, 4, 3)
    """

    pool_type = "avg"


class GlobalAveragePooling2D(Layer):
    """The mean of each channel.

    Input (batch, rows, columns, channels), or (batch, channels, rows, columns) for channels_first;
    output (batch, channels), or with keepdims rows and columns of 1.

    Args:
        data_format: "channels_last", "channels_first", or None for backend.image_data_format().
        keepdims: whether rows and columns stay as axes of size 1.

    >>> from flexflow.keras import Input
    >>> GlobalAveragePooling2D()(Input((7, 7, 3))).shape
    (None, 3)
    """

    rank = 4
    axes_text = _Pooling2D.axes_text

    def __init__(
        self, data_format: str | None = None, keepdims: bool = False, **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        self.data_format = backend.data_format_or_default(data_format, self._who)
        self.keepdims = boolean(keepdims, f"{self._who}: keepdims")

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        channels = windows.split_image(input_shape, self.data_format)[1]
        return windows.join_image((1, 1) if self.keepdims else (), channels, self.data_format)

    def lower(self, to: Lowering, x: Value) -> Value:
        y = to.ff.mean(
            to.channels_first(x, self.data_format), [2, 3], self.keepdims, name=self.name
        )
        return to.image(y, self.data_format)


MaxPool2D = MaxPooling2D
AvgPool2D = AveragePooling2D
GlobalAvgPool2D = GlobalAveragePooling2D
