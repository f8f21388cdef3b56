"""Dense, Activation and Embedding, and the activations that are layers of their own."""

from __future__ import annotations

from numbers import Real
from typing import Any

from flexflow.core import DataType
from flexflow.core.checks import boolean, real
from flexflow.keras import activations, backend
from flexflow.keras.activations import ActivationLike
from flexflow.keras.graph import Shape
from flexflow.keras.initializers import InitializerLike
from flexflow.keras.layers.base import Layer
from flexflow.keras.lowering import Lowering, Value
from flexflow.keras.regularizers import RegularizerLike


def positive(who: str, value: Any) -> int:
    """A count that must be a whole number above 0."""
    if not isinstance(value, Real) or isinstance(value, bool) or value < 1 or value % 1:
        raise ValueError(f"{who}={value!r}, expected a whole number above 0")
    return int(value)


def activate(to: Lowering, activation: activations.Activation, value: Value) -> Value:
    """An activation of its own after a layer; softmax and its kind go along Keras's last axis."""
    axis = value.core_axis(value.tensor.num_dims - 1)
    return Value(activation.add(to.ff, value.tensor, axis), value.moved)


class Dense(Layer):
    """activation(x @ kernel + bias), on the last axis of an input of any rank.

    Input (batch, …, in), output (batch, …, units); weights kernel (in, units) and bias (units,).

    Args:
        units: size of the output's last axis.
        activation: a name of activations.get(), or None.
        use_bias: whether there is a bias.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer: by name or
            object.

    Raises:
        ValueError: units below 1, an unknown name, or an input without a known last axis.

    >>> from flexflow.keras import Input
    >>> Dense(10, activation="softmax")(Input((5, 4))).shape
    (None, 5, 10)
    """

    def __init__(
        self,
        units: int,
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
        self.units = positive(f"{self._who}: units", units)
        self.activation = activations.get(activation, self._who)
        self.use_bias = boolean(use_bias, f"{self._who}: use_bias")
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer

    def build(self, input_shape: Shape) -> None:
        features = self.fix_axis(input_shape, len(input_shape) - 1, "the last axis")
        self.kernel = self.add_weight(
            "kernel",
            (features, self.units),
            self.kernel_initializer,
            self.kernel_regularizer,
            core_axes=(1, 0),
        )
        self.bias = (
            self.add_weight("bias", (self.units,), self.bias_initializer, self.bias_regularizer)
            if self.use_bias
            else None
        )
        self.built = True

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units)

    def lower(self, to: Lowering, x: Value) -> Value:
        weights = [self.kernel] if self.bias is None else [self.kernel, self.bias]
        y = to.op(
            self,
            "linear",
            to.plain(x),
            *weights,
            out_channels=self.units,
            use_bias=self.use_bias,
            activation=self.activation.fused or "none",
        )
        return Value(y) if self.activation.fused else activate(to, self.activation, Value(y))


class Activation(Layer):
    """An activation, such as ``Activation("relu")``. Output of the input's shape; softmax goes
    along the last axis.

    Args:
        activation: a name of activations.get().

    >>> from flexflow.keras import Input
    >>> Activation("tanh")(Input((3,))).shape
    (None, 3)
    """

    def __init__(self, activation: ActivationLike, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.activation = activations.get(activation, self._who)

    def lower(self, to: Lowering, x: Value) -> Value:
        return activate(to, self.activation, x)


class ReLU(Layer):
    """max(x, 0), cut off at max_value, with a slope below 0.

    Args:
        max_value: None, or 6 without a slope.
        negative_slope: 0 or more; what negative values are multiplied by.

    Raises:
        NotImplementedError: another max_value, both together, or a threshold other than 0.

    >>> from flexflow.keras import Input
    >>> ReLU()(Input((3,))).shape
    (None, 3)
    """

    def __init__(
        self,
        max_value: float | None = None,
        negative_slope: float = 0.0,
        threshold: float = 0.0,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        backend.refuse(
            self._who,
            neutral=(None, 6, 6.0) if not negative_slope else (None,),
            max_value=max_value,
        )
        backend.refuse(self._who, neutral=(0, 0.0), threshold=threshold)
        self.max_value = max_value
        self.negative_slope = real(negative_slope, f"{self._who}: negative_slope", 0)

    def lower(self, to: Lowering, x: Value) -> Value:
        if self.negative_slope:
            return Value(to.ff.leaky_relu(x.tensor, alpha=self.negative_slope), x.moved)
        return activate(to, activations.get("relu" if self.max_value is None else "relu6"), x)


class LeakyReLU(ReLU):
    """x above 0, negative_slope * x below.

    >>> from flexflow.keras import Input
    >>> LeakyReLU(0.1)(Input((3,))).shape
    (None, 3)
    """

    def __init__(self, negative_slope: float = 0.3, **arguments: Any) -> None:
        super().__init__(negative_slope=negative_slope, **arguments)


class Softmax(Layer):
    """Softmax along an axis.

    >>> from flexflow.keras import Input
    >>> Softmax()(Input((3,))).shape
    (None, 3)
    """

    def __init__(self, axis: int = -1, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.axis = axis

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        sample_axis(self._who, self.axis, len(input_shape))
        return input_shape

    def lower(self, to: Lowering, x: Value) -> Value:
        axis = x.core_axis(sample_axis(self._who, self.axis, x.tensor.num_dims))
        return Value(to.ff.softmax(x.tensor, axis), x.moved)


def sample_axis(who: str, axis: int, rank: int) -> int:
    """An axis counted from the front, which is not the batch's."""
    if not isinstance(axis, int) or not -rank < axis < rank or axis == 0:
        raise ValueError(
            f"{who}: axis={axis!r}, expected one of {[*range(1 - rank, 0), *range(1, rank)]} for "
            f"{rank} axes"
        )
    return axis % rank


class Embedding(Layer):
    """A row of a table for every id.

    Input (batch, …) of ids in [0, input_dim), output (batch, …, output_dim); weight embeddings
    (input_dim, output_dim). Ids should come through an Input of dtype "int32" or "int64"; those of
    a "float32" Input are cut to whole numbers.

    Args:
        input_dim: how many ids there are.
        output_dim: length of a row.
        embeddings_initializer, embeddings_regularizer: by name or object.
        input_length: number of ids of a sample, as the first layer of a Sequential; the same as
            ``input_shape=(n,)``.

    Raises:
        ValueError: at training or prediction, an id out of range.

    >>> from flexflow.keras import Input
    >>> Embedding(1000, 8)(Input((20,), dtype="int32")).shape
    (None, 20, 8)
    """

    any_dtype = True
    input_dtype = "int32"

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: InitializerLike = "uniform",
        embeddings_regularizer: RegularizerLike = None,
        embeddings_constraint: None = None,
        mask_zero: bool = False,
        input_length: int | None = None,
        **arguments: Any,
    ) -> None:
        if input_length is not None:
            arguments["input_shape"] = (input_length,)
        super().__init__(**arguments)
        backend.refuse(self._who, embeddings_constraint=embeddings_constraint)
        backend.refuse(self._who, neutral=(False,), mask_zero=mask_zero)
        self.input_dim = positive(f"{self._who}: input_dim", input_dim)
        self.output_dim = positive(f"{self._who}: output_dim", output_dim)
        self.embeddings_initializer, self.embeddings_regularizer = (
            embeddings_initializer,
            embeddings_regularizer,
        )

    def build(self, input_shape: Shape) -> None:
        shape = (self.input_dim, self.output_dim)
        self.embeddings = self.add_weight(
            "embeddings", shape, self.embeddings_initializer, self.embeddings_regularizer
        )
        self.built = True

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape, self.output_dim)

    def compute_output_dtype(self, input_dtype: str) -> str:
        return backend.floatx()

    def lower(self, to: Lowering, x: Value) -> Value:
        ids = to.plain(x)
        if ids.data_type == DataType.DT_FLOAT:
            ids = to.ff.cast(ids, DataType.DT_INT32)
        y = to.op(
            self,
            "embedding",
            ids,
            self.embeddings,
            num_entries=self.input_dim,
            out_dim=self.output_dim,
        )
        return Value(y)
