"""Model: layers between inputs and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Union

from flexflow.core.checks import boolean
from flexflow.keras.graph import Graph, KerasTensor, Node, Shape
from flexflow.keras.layers.base import Layer
from flexflow.keras.lowering import Lowering, Value
from flexflow.keras.models.summary import summarize
from flexflow.keras.models.trainer import Trainer
from flexflow.keras.variable import Variable

Tensors = Union[KerasTensor, Sequence[KerasTensor]]


class Model(Trainer, Layer):
    """A model of the layers that lead from inputs to outputs.

    A model is a layer, too: called on tensors it takes part in a larger model, with the same
    weights. A layer that is called several times has one set of weights, and models that share
    layers share what any of them learns.

    Args:
        inputs: a tensor or a list of them: of Input(), or any on the way to the outputs.
        outputs: a tensor or a list of them. A model of several outputs can be part of another, but
            not run yet.
        name: None for "model", "model_1", …

    Raises:
        ValueError: an output depends on an Input that is not among inputs ("graph disconnected").
        TypeError: something that is not a tensor of a model.

    >>> from flexflow.keras import Input, Model, layers
    >>> x = Input((4,))
    >>> hidden = layers.Dense(8, activation="relu")(x)
    >>> model = Model(x, layers.Dense(3, activation="softmax")(hidden))
    >>> model.output_shape, model.count_params()
    ((None, 3), 67)
    """

    any_dtype = True
    knows_its_graph = True  # from the start; a Sequential grows

    def __init__(
        self,
        inputs: Tensors | None = None,
        outputs: Tensors | None = None,
        name: str | None = None,
        trainable: bool = True,
    ) -> None:
        Layer.__init__(self, name=name, trainable=trainable)
        Trainer.__init__(self)
        self._graph: Graph | None = None
        if inputs is not None and outputs is not None:
            self._set_graph(_listed(inputs), _listed(outputs))
        elif self.knows_its_graph:
            raise NotImplementedError(
                f"{self._who}: got no inputs and outputs; "
                "models with a call() of one's own are not supported yet, "
                "give Model(inputs, outputs)"
            )

    def _set_graph(self, inputs: Sequence[KerasTensor], outputs: Sequence[KerasTensor]) -> None:
        self._graph = Graph(inputs, outputs, self._who)
        for name, count in Counter(layer.name for layer in self._graph.layers).items():
            if count > 1:
                raise ValueError(
                    f"{self._who}: two layers have the name {name!r}; give each its own"
                )
        self._program = None
        self.built = True
        if not self._trainable:
            self.trainable = False

    def complete_graph(self, x: Any = None) -> Graph:
        assert self._graph is not None
        return self._graph

    # ---- as a graph of layers ----

    @property
    def layers(self) -> list[Layer]:
        """The layers in the order of their distance from the outputs, the farthest first."""
        return list(self.complete_graph().layers)

    @property
    def inputs(self) -> list[KerasTensor]:
        """The tensors that data are given for."""
        return list(self.complete_graph().inputs)

    @property
    def outputs(self) -> list[KerasTensor]:
        """The tensors that are computed."""
        return list(self.complete_graph().outputs)

    @property
    def input(self) -> Any:
        """The input, or the list of inputs."""
        return _single(self.inputs)

    @property
    def output(self) -> Any:
        """The output, or the list of outputs."""
        return _single(self.outputs)

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs."""
        return [tensor.name for tensor in self.inputs]

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """A layer by its name, or by its place in ``layers``.

        Raises:
            ValueError: there is no such layer, or not one of name and index is given.

        >>> from flexflow.keras import Sequential, layers
        >>> Sequential([layers.Dense(3, name="top", input_shape=(4,))]).get_layer("top").units
        3
        """
        if (name is None) == (index is None):
            raise ValueError(
                f"{self._who}: get_layer got name={name!r} and index={index!r}, "
                "expected one of them"
            )
        layers = self.layers
        if index is not None:
            if not -len(layers) <= index < len(layers):
                raise ValueError(
                    f"{self._who}: there is no layer {index}, only {len(layers)} layers"
                )
            return layers[index]
        for layer in layers:
            if layer.name == name:
                return layer
        raise ValueError(
            f"{self._who}: there is no layer {name!r}; there are {[layer.name for layer in layers]}"
        )

    def summary(
        self,
        line_length: int | None = None,
        positions: None = None,
        print_fn: Any = None,
        expand_nested: bool = False,
        show_trainable: bool = False,
        layer_range: None = None,
    ) -> None:
        """Print the layers with their output shapes and numbers of weights.

        Args:
            line_length: characters in a line.
            print_fn: called with every line; None for print.
            expand_nested: whether to list the layers of models in the model.
            show_trainable: whether to say which layers training changes.

        Raises:
            ValueError: a Sequential that does not know its input shape yet.

        >>> from flexflow.keras import Sequential, layers
        >>> lines = []
        >>> Sequential([layers.Dense(3, input_shape=(4,))]).summary(print_fn=lines.append)
        >>> lines[-3]
        'Total params: 15'
        """
        summarize(
            self, line_length, positions, print_fn, expand_nested, show_trainable, layer_range
        )

    # ---- as a layer ----

    def check_inputs(self, shapes: Sequence[Shape]) -> None:
        expected = [tensor.shape for tensor in self.inputs]
        if list(shapes) != expected:
            raise ValueError(
                f"{self._who}: called on inputs of shapes {list(shapes)}, expected {expected}"
            )

    def _make_node(self, tensors: list[KerasTensor], shape: Any, training: bool | None) -> Node:
        return Node(self, tensors, [(t.shape, t.dtype) for t in self.outputs], training)

    def lower(self, to: Lowering, *inputs: Value) -> Any:
        return to.graph(self.complete_graph(), inputs)

    @property
    def weights(self) -> list[Variable]:
        """The weights of all layers, each once, in the order of the layers."""
        return self._unique(layer.weights for layer in self.layers)

    @property
    def trainable_weights(self) -> list[Variable]:
        """The weights that training changes."""
        return self._unique(layer.trainable_weights for layer in self.layers)

    def _unique(self, groups: Iterable[list[Variable]]) -> list[Variable]:
        self.complete_graph()  # raises for a Sequential that has no weights yet
        return list({id(variable): variable for group in groups for variable in group}.values())

    @property
    def trainable(self) -> bool:
        """Whether training changes the weights; setting it sets it for all layers in the model."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = boolean(value, f"{self._who}: trainable")
        if self._graph is not None:
            for layer in self._graph.layers:
                layer.trainable = value


def _listed(tensors: Any) -> list[KerasTensor]:
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]


def _single(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values
