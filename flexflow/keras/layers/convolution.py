"""Convolutions."""

from __future__ import annotations

from typing import Any

from flexflow.core.checks import boolean
from flexflow.keras import activations, backend
from flexflow.keras.activations import ActivationLike
from flexflow.keras.graph import Shape
from flexflow.keras.initializers import InitializerLike
from flexflow.keras.layers import windows
from flexflow.keras.layers.base import Layer
from flexflow.keras.layers.core import activate, positive
from flexflow.keras.lowering import Lowering, Value
from flexflow.keras.regularizers import RegularizerLike


class Conv2D(Layer):
    """Convolution of images.

    Input (batch, rows, columns, in), or (batch, in, rows, columns) for channels_first; output
    likewise with ``filters`` channels. Weights kernel (window rows, window columns, in / groups,
    filters) and bias (filters,), in either case.

    Args:
        filters: channels of the output.
        kernel_size, strides, dilation_rate: a number, or two (rows, columns).
        padding: "valid" for none; "same" for an output of size / stride, where what is uneven goes
            to the bottom and right; or FlexFlow's pair of numbers (rows, columns), for both sides
            alike.
        data_format: "channels_last", "channels_first", or None for backend.image_data_format().
        groups: into how many groups channels and filters are divided.
        activation: a name of activations.get(), or None.
        use_bias: whether there is a bias.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer: by name or
            object.

    Raises:
        ValueError: a wrong argument, a window larger than the image, channels that groups does not
            divide.

    >>> from flexflow.keras import Input
    >>> Conv2D(16, 3, strides=2, padding="same")(Input((28, 28, 1))).shape
    (None, 14, 14, 16)
    """

    rank = 4
    axes_text = (
        " (batch, rows, columns, channels) or, channels_first, (batch, channels, rows, columns)"
    )

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: Any = "valid",
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        groups: int = 1,
        activation: ActivationLike = None,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike = None,
        bias_regularizer: RegularizerLike = None,
        activity_regularizer: None = None,
        kernel_constraint: None = None,
        bias_constraint: None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        backend.refuse(
            self._who,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
        )
        self.filters = positive(f"{self._who}: filters", filters)
        self.kernel_size = windows.pair(f"{self._who}: kernel_size", kernel_size)
        self.strides = windows.pair(f"{self._who}: strides", strides)
        self.dilation_rate = windows.pair(f"{self._who}: dilation_rate", dilation_rate)
        self.padding = windows.checked_padding(self._who, padding)
        self.data_format = backend.data_format_or_default(data_format, self._who)
        self.groups = positive(f"{self._who}: groups", groups)
        if self.filters % self.groups:
            raise ValueError(f"{self._who}: groups={groups} does not divide filters={filters}")
        self.activation = activations.get(activation, self._who)
        self.use_bias = boolean(use_bias, f"{self._who}: use_bias")
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer

    def build(self, input_shape: Shape) -> None:
        windows.warn_if_channels_first(self._who, input_shape, self.data_format)
        axis = 3 if self.data_format == "channels_last" else 1
        channels = self.fix_axis(input_shape, axis, "the channels")
        if channels % self.groups:
            raise ValueError(
                f"{self._who}: groups={self.groups} does not divide the {channels} channels of "
                f"{input_shape}"
            )
        self.kernel = self.add_weight(
            "kernel",
            (*self.kernel_size, channels // self.groups, self.filters),
            self.kernel_initializer,
            self.kernel_regularizer,
            core_axes=(3, 2, 0, 1),
        )
        self.bias = (
            self.add_weight("bias", (self.filters,), self.bias_initializer, self.bias_regularizer)
            if self.use_bias
            else None
        )
        self.built = True

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        sizes = windows.output_sizes(
            self._who,
            input_shape,
            self.data_format,
            self.kernel_size,
            self.strides,
            self.padding,
            self.dilation_rate,
        )
        return windows.join_image(sizes, self.filters, self.data_format)

    def lower(self, to: Lowering, x: Value) -> Value:
        weights = [self.kernel] if self.bias is None else [self.kernel, self.bias]
        y = to.op(
            self,
            "conv2d",
            to.channels_first(x, self.data_format),
            *weights,
            out_channels=self.filters,
            kernel=self.kernel_size,
            stride=self.strides,
            dilation=self.dilation_rate,
            groups=self.groups,
            use_bias=self.use_bias,
            activation=self.activation.fused or "none",
            **windows.padding_attributes(self.padding),
        )
        value = to.image(y, self.data_format)
        return value if self.activation.fused else activate(to, self.activation, value)
