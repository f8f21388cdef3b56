"""Sequential: layers one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexflow.keras.graph import Graph, KerasTensor, Shape
from flexflow.keras.layers.base import Input, InputLayer, Layer
from flexflow.keras.models.data import as_array
from flexflow.keras.models.functional import Model


class Sequential(Model):
    """A model of layers of which each takes the output of the one before.

    The shape of the input comes from an Input in front, from the first layer's input_shape, from a
    model in front, or else from the first data or tensor that the model is given.

    Args:
        layers: a list of layers and models, maybe with an Input in front.
        name: None for "sequential", "sequential_1", …

    Raises:
        TypeError: something that is no layer.
        ValueError: a layer that does not suit the one before it, or is in the list twice.

    >>> from flexflow.keras import Input, layers
    >>> model = Sequential([Input((28, 28, 1)), layers.Flatten(), layers.Dense(10)])
    >>> model.output_shape
    (None, 10)
    """

    knows_its_graph = False

    def __init__(
        self,
        layers: Sequence[Any] | None = None,
        name: str | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(name=name, trainable=trainable)
        self._stack: list[Layer] = []
        # The input and the output of each layer, as far as shapes are known.
        self._tensors: list[KerasTensor] = []
        for layer in layers or []:
            self._append(layer)
        self._renew()

    def add(self, layer: Any) -> None:
        """Put a layer, a model or, in front, an Input behind those that there are.

        >>> from flexflow.keras import Sequential, layers
        >>> model = Sequential()
        >>> model.add(layers.Dense(3, input_shape=(4,)))
        >>> len(model.layers)
        1
        """
        self._append(layer)
        self._renew()

    def pop(self) -> Layer:
        """Take the last layer off, and return it.

        Raises:
            ValueError: there is none.
        """
        if not self._stack:
            raise ValueError(f"{self._who}: there is no layer to pop")
        if self._tensors:
            self._tensors.pop()
        layer = self._stack.pop()
        self._renew()
        return layer

    def _append(self, layer: Any) -> None:
        if isinstance(layer, KerasTensor) and isinstance(layer.node.layer, InputLayer):
            layer = layer.node.layer
        if isinstance(layer, InputLayer):
            if self._stack or self._tensors:
                raise ValueError(
                    f"{self._who}: an Input comes after other layers, expected it in front"
                )
            self._tensors = [layer.tensor]
            return
        if not isinstance(layer, Layer):
            raise TypeError(f"{self._who}: got {layer!r}, expected a layer")
        if any(layer is other for other in self._stack):
            raise ValueError(
                f"{self._who}: {layer!r} is in the model already; a Sequential takes a layer once"
            )
        if not self._stack and not self._tensors:
            shape = (
                layer.input_shape if isinstance(layer, Model) and layer.built else layer.batch_shape
            )
            if shape is not None:
                self._start(shape, layer)
        if self._tensors:
            self._extend(layer)
        self._stack.append(layer)

    def _start(self, shape: Shape, first: Layer) -> None:
        dtype = (
            first.inputs[0].dtype if isinstance(first, Model) and first.built else first.input_dtype
        )
        self._tensors = [Input(batch_shape=shape, dtype=dtype, name=f"{self.name}_input")]

    def _extend(self, layer: Layer) -> None:
        output = layer(self._tensors[-1])
        if not isinstance(output, KerasTensor):
            raise ValueError(
                f"{self._who}: {layer!r} has {len(output)} outputs, expected layers of one output"
            )
        self._tensors.append(output)

    def _renew(self) -> None:
        """Make the graph of the layers that there are."""
        self._graph, self.built, self._program = None, False, None
        if self._stack and self._tensors:
            self._set_graph(self._tensors[:1], self._tensors[-1:])

    def build(self, input_shape: Any) -> None:
        """Make the weights for inputs of a shape, with None for the batch."""
        if self.built:
            return
        if not self._stack:
            raise ValueError(f"{self._who}: has no layers; add() some")
        self._start((None, *input_shape[1:]), self._stack[0])
        try:
            for layer in self._stack:
                self._extend(layer)
        except Exception:
            self._tensors = []
            raise
        self._renew()

    def complete_graph(self, x: Any = None) -> Graph:
        if self._graph is None and x is not None:
            array = as_array(f"{self.name}: x", x)
            if array.ndim:
                self.build(array.shape)
        if self._graph is None:
            raise ValueError(
                f"{self._who}: not built yet, since the shape of its input is not known; "
                "put an Input in front, give the first layer input_shape, or call it on data"
            )
        return self._graph

    @property
    def layers(self) -> list[Layer]:
        """The layers in their order, without the Input."""
        return list(self._stack)

    def check_inputs(self, shapes: Sequence[Shape]) -> None:
        if self._graph is not None:
            super().check_inputs(shapes)
        elif len(shapes) != 1:
            raise ValueError(f"{self._who}: got {len(shapes)} inputs, expected one tensor")
