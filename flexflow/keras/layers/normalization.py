"""Normalisation over the batch and over features."""

from __future__ import annotations

from typing import Any

from flexflow.core.checks import boolean, real
from flexflow.keras import backend
from flexflow.keras.graph import Shape
from flexflow.keras.initializers import InitializerLike
from flexflow.keras.layers.base import Layer
from flexflow.keras.layers.core import sample_axis
from flexflow.keras.lowering import Lowering, Value
from flexflow.keras.regularizers import RegularizerLike
from flexflow.keras.variable import Variable


def _positive(who: str, value: float) -> float:
    number = real(value, who, 0)
    if not number:
        raise ValueError(f"{who}={value}, expected a number above 0")
    return number


class BatchNormalization(Layer):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta for every channel.

    In training mean and variance are the batch's, and the moving ones follow: moving = momentum *
    moving + (1 - momentum) * batch's. In evaluation and prediction the moving ones are used; so
    they are in training, too, while ``trainable`` is False or where the layer is called with
    training=False. Output of the input's shape.

    Weights, each of the size of the axis: gamma, beta, moving_mean, moving_variance; the last two
    are not trainable.

    Args:
        axis: of the channels: the last, or 1 as in channels_first images.
        momentum: share of the moving statistics that is kept, in [0, 1].
        epsilon: above 0.
        center, scale: whether there are beta and gamma.
        *_initializer, *_regularizer: by name or object.

    Raises:
        ValueError: momentum or epsilon out of range, or an axis that the input lacks.
        NotImplementedError: an axis in the middle, or an argument that is not supported.

    >>> from flexflow.keras import Input
    >>> BatchNormalization()(Input((8, 8, 16))).shape
    (None, 8, 8, 16)
    """

    def __init__(
        self,
        axis: int = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        moving_mean_initializer: InitializerLike = "zeros",
        moving_variance_initializer: InitializerLike = "ones",
        beta_regularizer: RegularizerLike = None,
        gamma_regularizer: RegularizerLike = None,
        beta_constraint: None = None,
        gamma_constraint: None = None,
        synchronized: bool = False,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        backend.refuse(
            self._who, beta_constraint=beta_constraint, gamma_constraint=gamma_constraint
        )
        # Synchronized is what it always is: any split computes what one device does.
        backend.refuse(self._who, neutral=(False, True), synchronized=synchronized)
        self.axis = axis[0] if isinstance(axis, (list, tuple)) and len(axis) == 1 else axis
        self.momentum = real(momentum, f"{self._who}: momentum", 0, most=1)
        self.epsilon = _positive(f"{self._who}: epsilon", epsilon)
        self.center = boolean(center, f"{self._who}: center")
        self.scale = boolean(scale, f"{self._who}: scale")
        self._initializers = (
            gamma_initializer,
            beta_initializer,
            moving_mean_initializer,
            moving_variance_initializer,
        )
        self._regularizers = (gamma_regularizer, beta_regularizer)

    def build(self, input_shape: Shape) -> None:
        axis = sample_axis(self._who, self.axis, len(input_shape))
        if axis not in (1, len(input_shape) - 1):
            raise NotImplementedError(
                f"{self._who}: axis={self.axis} of an input of shape {input_shape} is in the "
                "middle; "
                "only the last axis and axis 1 are supported; put a Permute before and after"
            )
        shape = (self.fix_axis(input_shape, axis, "the channels"),)
        gamma, beta, mean, variance = self._initializers
        self.gamma: Variable | None = None
        self.beta: Variable | None = None
        if self.scale:
            self.gamma = self.add_weight("gamma", shape, gamma, self._regularizers[0])
        if self.center:
            self.beta = self.add_weight("beta", shape, beta, self._regularizers[1])
        self.moving_mean = self.add_weight("moving_mean", shape, mean, trainable=False)
        self.moving_variance = self.add_weight("moving_variance", shape, variance, trainable=False)
        self.built = True

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        sample_axis(self._who, self.axis, len(input_shape))
        return input_shape

    def lower(self, to: Lowering, x: Value) -> Value:
        last = sample_axis(self._who, self.axis, x.tensor.num_dims) == x.tensor.num_dims - 1
        data_format = "channels_last" if last else "channels_first"
        operands = [
            to.channels_first(x, data_format),
            self.gamma or to.ff.create_constant(self.moving_mean.shape, 1.0),
            self.beta or to.ff.create_constant(self.moving_mean.shape, 0.0),
            self.moving_mean,
            self.moving_variance,
        ]
        if to.inference or not self.trainable:
            y = to.op(self, "batch_norm_inference", *operands, eps=self.epsilon)
        else:
            y = to.op(
                self,
                "batch_norm",
                *operands,
                eps=self.epsilon,
                momentum=self.momentum,
                unbiased=False,
            )
        return to.image(y, data_format)


class LayerNormalization(Layer):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta for every sample, over its last axes.

    Output of the input's shape; weights gamma and beta, of the shape of the axes.

    Args:
        axis: the last axis, -1, or a list of the last axes.
        epsilon: above 0.
        center, scale: whether there are beta and gamma.
        *_initializer, *_regularizer: by name or object.

    Raises:
        ValueError: epsilon not above 0, or axes that are not the last ones.
        NotImplementedError: an argument that is not supported.

    >>> from flexflow.keras import Input
    >>> LayerNormalization()(Input((5, 16))).shape
    (None, 5, 16)
    """

    def __init__(
        self,
        axis: Any = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        beta_regularizer: RegularizerLike = None,
        gamma_regularizer: RegularizerLike = None,
        beta_constraint: None = None,
        gamma_constraint: None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        backend.refuse(
            self._who, beta_constraint=beta_constraint, gamma_constraint=gamma_constraint
        )
        self.axis = list(axis) if isinstance(axis, (list, tuple)) else [axis]
        self.epsilon = _positive(f"{self._who}: epsilon", epsilon)
        self.center = boolean(center, f"{self._who}: center")
        self.scale = boolean(scale, f"{self._who}: scale")
        self._initializers = (gamma_initializer, beta_initializer)
        self._regularizers = (gamma_regularizer, beta_regularizer)

    def _axes(self, rank: int) -> list[int]:
        axes = sorted(sample_axis(self._who, axis, rank) for axis in self.axis)
        if axes != list(range(rank - len(axes), rank)):
            raise ValueError(
                f"{self._who}: axis={self.axis} for {rank} axes, expected the last one or ones"
            )
        return axes

    def build(self, input_shape: Shape) -> None:
        axes = self._axes(len(input_shape))
        shape = tuple(self.fix_axis(input_shape, axis, "a normalized axis") for axis in axes)
        self.gamma: Variable | None = None
        self.beta: Variable | None = None
        if self.scale:
            self.gamma = self.add_weight(
                "gamma", shape, self._initializers[0], self._regularizers[0]
            )
        if self.center:
            self.beta = self.add_weight("beta", shape, self._initializers[1], self._regularizers[1])
        self.built = True

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        self._axes(len(input_shape))
        return input_shape

    def lower(self, to: Lowering, x: Value) -> Value:
        tensor = to.plain(x)
        axes = self._axes(tensor.num_dims)
        affine = self.scale or self.center
        weights = []
        if affine:
            shape = tensor.dims[axes[0] :]
            weights = [
                self.gamma or to.ff.create_constant(shape, 1.0),
                self.beta or to.ff.create_constant(shape, 0.0),
            ]
        return Value(
            to.op(
                self,
                "layer_norm",
                tensor,
                *weights,
                axes=axes,
                elementwise_affine=affine,
                eps=self.epsilon,
            )
        )
