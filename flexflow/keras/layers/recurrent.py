"""Recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from flexflow.core.checks import boolean
from flexflow.keras import backend, initializers
from flexflow.keras.graph import Shape
from flexflow.keras.initializers import InitializerLike
from flexflow.keras.layers.base import Layer
from flexflow.keras.layers.core import positive
from flexflow.keras.lowering import Lowering, Value
from flexflow.keras.regularizers import RegularizerLike


class LSTM(Layer):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), from zeros on.

    Input (batch, steps, in), output (batch, units), the hidden state after the last step, or with
    ``return_sequences`` (batch, steps, units), that after each. Weights kernel (in, 4 units),
    recurrent_kernel (units, 4 units) and bias (4 units), of the input, forget, cell and output
    gates in this order.

    Args:
        units: size of the state.
        activation, recurrent_activation: must be "tanh" and "sigmoid".
        use_bias: whether there is a bias.
        kernel_initializer, recurrent_initializer, bias_initializer, kernel_regularizer,
        recurrent_regularizer, bias_regularizer: by name or object.
        unit_forget_bias: whether the bias of the forget gate begins at 1 (Jozefowicz et al., 2015).
        return_sequences: whether the output has all steps.

    Raises:
        ValueError: units below 1, or an input of another rank than 3.
        NotImplementedError: an argument that is not supported.

    >>> from flexflow.keras import Input
    >>> LSTM(5, return_sequences=True)(Input((7, 3))).shape
    (None, 7, 5)
    """

    rank = 3
    axes_text = " (batch, steps, features)"

    def __init__(
        self,
        units: int,
        activation: str = "tanh",
        recurrent_activation: str = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        recurrent_initializer: InitializerLike = "orthogonal",
        bias_initializer: InitializerLike = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: RegularizerLike = None,
        recurrent_regularizer: RegularizerLike = None,
        bias_regularizer: RegularizerLike = None,
        activity_regularizer: None = None,
        kernel_constraint: None = None,
        recurrent_constraint: None = None,
        bias_constraint: None = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        backend.refuse(self._who, neutral=("tanh",), activation=activation)
        backend.refuse(self._who, neutral=("sigmoid",), recurrent_activation=recurrent_activation)
        backend.refuse(
            self._who,
            neutral=(None, False, 0, 0.0),
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            seed=seed,
            return_state=return_state,
            go_backwards=go_backwards,
            stateful=stateful,
            unroll=unroll,
        )
        self.units = positive(f"{self._who}: units", units)
        self.use_bias = boolean(use_bias, f"{self._who}: use_bias")
        self.unit_forget_bias = boolean(unit_forget_bias, f"{self._who}: unit_forget_bias")
        self.return_sequences = boolean(return_sequences, f"{self._who}: return_sequences")
        self.initializers = (kernel_initializer, recurrent_initializer, bias_initializer)
        self.regularizers = (kernel_regularizer, recurrent_regularizer, bias_regularizer)

    def build(self, input_shape: Shape) -> None:
        features = self.fix_axis(input_shape, 2, "the last axis")
        names = ("kernel", "recurrent_kernel", "bias")
        shapes = ((features, 4 * self.units), (self.units, 4 * self.units), (4 * self.units,))
        rows = list(zip(names, shapes, self.initializers, self.regularizers))
        weights = [
            self.add_weight(
                name,
                shape,
                self._bias(given) if name == "bias" else given,
                penalty,
                core_axes=(1, 0) if len(shape) == 2 else None,
            )
            for name, shape, given, penalty in rows[: 3 if self.use_bias else 2]
        ]
        self.kernel, self.recurrent_kernel = weights[:2]
        self.bias = weights[2] if self.use_bias else None
        self.built = True

    def _bias(self, given: InitializerLike) -> InitializerLike:
        if not self.unit_forget_bias:
            return given
        draw = initializers.get(given, f"{self._who}: bias_initializer")

        def initialize(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
            first, rest = draw((self.units,), dtype=dtype), draw((2 * self.units,), dtype=dtype)
            return np.concatenate([first, np.ones(self.units, dtype), rest])

        return initialize

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        batch, steps, _ = input_shape
        return (batch, steps, self.units) if self.return_sequences else (batch, self.units)

    def lower(self, to: Lowering, x: Value) -> Value:
        weights = [to.parameter(self.kernel), to.parameter(self.recurrent_kernel)]
        if self.bias is not None:
            # The core has a bias of the input and one of the state, which add up.
            bias = to.parameter(self.bias)
            none = to.ff.create_constant(bias.dims, 0.0, bias.data_type)
            weights += [bias, none]
        y, last, _ = to.ff.op(
            "lstm",
            [to.plain(x), *weights],
            self.name,
            outputs=3,
            hidden_size=self.units,
            use_bias=self.use_bias,
            initial_state=False,
        )
        return Value(y if self.return_sequences else last)
