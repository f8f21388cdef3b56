"""What all layers have in common: names, weights, and being called on tensors."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from flexflow.core.checks import boolean
from flexflow.keras import backend, initializers, regularizers, surface
from flexflow.keras.graph import KerasTensor, Node, Shape
from flexflow.keras.variable import Variable

if TYPE_CHECKING:
    from flexflow.keras.lowering import Lowering

Tensors = Union[KerasTensor, list[KerasTensor]]


class Layer(surface.Explained):
    """Base of all layers.

    A subclass defines ``build`` (its weights), ``compute_output_shape`` and ``lower`` (the same as
    calls of an FFModel).

    Args:
        name: unique in a model; None for one made from the class's name.
        trainable: False keeps the weights as they are in training.
        dtype: None or ``"float32"``.
        input_shape: shape of an input without the batch, for the first layer of a Sequential;
            ``input_dim=n`` stands for ``input_shape=(n,)``, ``batch_input_shape=(None, …)`` has the
            batch.

    Attributes:
        rank: how many axes an input must have; None: any number.
        any_dtype: whether inputs stay as they are; others are made float32 first.
        input_dtype: of the Input that a Sequential makes for the layer.
        batch_shape: what input_shape says, with None for the batch; or None.
    """

    rank: int | None = None
    axes_text = ""
    any_dtype = False
    input_dtype = "float32"

    def __init__(self, name: str | None = None, trainable: bool = True, **arguments: Any) -> None:
        kind = type(self).__name__
        if not isinstance(name, (str, type(None))):
            raise TypeError(f"{kind}: name={name!r}, expected a string")
        self.name = name or backend.unique_name(backend.snake_case(kind))
        self.batch_shape = _batch_shape(kind, arguments)
        backend.refuse(kind, neutral=(None, "float32"), dtype=arguments.pop("dtype", None))
        if arguments:
            raise TypeError(f"{kind}: unknown argument {next(iter(arguments))!r}")
        self._trainable = boolean(trainable, f"{self._who}: trainable")
        self.built = False
        self._nodes: list[weakref.ref[Node]] = []
        self._variables: list[Variable] = []
        self._fixed_axes: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}>"

    # ---- what a layer defines ----

    def build(self, input_shape: Any) -> None:
        """Make the weights for inputs of this shape (a list of shapes where there are several
        inputs).
        """
        self.built = True

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the output, with None for the batch."""
        return input_shape

    def compute_output_dtype(self, input_dtype: str) -> str:
        """The dtype of the output."""
        return input_dtype if self.any_dtype else backend.floatx()

    # Any keywords, so that a subclass may name its inputs.
    def lower(self, to: Lowering, *inputs: Any, **_: Any) -> Any:
        """Add the layer to the FFModel ``to.ff``: from the Value of each input to that of the
        output.
        """
        raise NotImplementedError(
            f"{type(self).__name__}: layers of one's own are not supported yet; "
            "put the layers of flexflow.keras together"
        )

    # ---- calling ----

    def __call__(self, inputs: Any, training: bool | None = None, **arguments: Any) -> Any:
        """Call the layer on one tensor, or on a list of them where it takes several.

        Args:
            inputs: what Input() or other layers returned.
            training: False for inference mode also while the model is trained; None follows the
                model.

        Raises:
            ValueError: the shapes do not suit the layer.
            TypeError: something that is not a KerasTensor.
        """
        if arguments:
            raise NotImplementedError(
                f"{self._who}: call argument {next(iter(arguments))!r} is not supported yet"
            )
        backend.refuse(self._who, neutral=(None, False), training=training)
        tensors = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        for tensor in tensors:
            if not isinstance(tensor, KerasTensor):
                raise TypeError(
                    f"{self._who}: called on {type(tensor).__name__}, "
                    "expected what Input() or another layer returned; "
                    "for numbers make a Model and call predict()"
                )
        shapes = [tensor.shape for tensor in tensors]
        self.check_inputs(shapes)
        shape = shapes[0] if len(shapes) == 1 else shapes
        if not self.built:
            self.build(shape)
        node = self._make_node(tensors, shape, training)
        self._nodes.append(weakref.ref(node))
        outputs = node.outputs
        return outputs[0] if len(outputs) == 1 else outputs

    def _make_node(self, tensors: list[KerasTensor], shape: Any, training: bool | None) -> Node:
        dtype = self.compute_output_dtype(tensors[0].dtype)
        return Node(self, tensors, [(self.compute_output_shape(shape), dtype)], training)

    def check_inputs(self, shapes: Sequence[Shape]) -> None:
        """Raise a ValueError unless inputs of these shapes suit the layer."""
        if len(shapes) != 1:
            raise ValueError(f"{self._who}: got {len(shapes)} inputs, expected one tensor")
        shape = shapes[0]
        if self.rank is not None and len(shape) != self.rank:
            raise ValueError(
                f"{self._who}: got an input of shape {shape}, "
                f"expected {self.rank} axes{self.axes_text}"
            )
        for axis, size in self._fixed_axes.items():
            if axis >= len(shape) or shape[axis] != size:
                raise ValueError(
                    f"{self._who}: got an input of shape {shape}, expected {size} on axis {axis}, "
                    "which the weights were built for; "
                    "use another layer for inputs of another shape"
                )

    @property
    def _who(self) -> str:
        return f"{type(self).__name__} {self.name!r}"

    # ---- weights ----

    def add_weight(
        self,
        name: str,
        shape: tuple[int, ...],
        initializer: initializers.InitializerLike = "glorot_uniform",
        regularizer: regularizers.RegularizerLike = None,
        trainable: bool = True,
        core_axes: tuple[int, ...] | None = None,
    ) -> Variable:
        """Make a weight of this layer; see Variable."""
        variable = Variable(
            f"{self.name}/{name}",
            shape,
            initializers.get(initializer, f"{self._who}: {name}_initializer"),
            trainable=trainable,
            regularizer=regularizers.get(regularizer, f"{self._who}: {name}_regularizer"),
            core_axes=core_axes,
        )
        self._variables.append(variable)
        return variable

    def fix_axis(self, shape: Shape, axis: int, what: str) -> int:
        """The size of an axis, which every later input must have, too."""
        size = shape[axis]
        if size is None:
            raise ValueError(
                f"{self._who}: {what} (axis {axis}) of the input shape {shape} is None, "
                "expected a number"
            )
        self._fixed_axes[axis] = size
        return size

    @property
    def trainable(self) -> bool:
        """Whether training changes the weights. A model that is compiled follows a change when it
        is compiled again.
        """
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = boolean(value, f"{self._who}: trainable")

    @property
    def weights(self) -> list[Variable]:
        """The weights, in Keras's order."""
        return list(self._variables)

    @property
    def trainable_weights(self) -> list[Variable]:
        """The weights that training changes; none if ``trainable`` is False."""
        return [v for v in self._variables if v.trainable and self.trainable]

    @property
    def non_trainable_weights(self) -> list[Variable]:
        """The other weights: moving statistics, and all of a layer that is not trainable."""
        trainable = {id(v) for v in self.trainable_weights}
        return [v for v in self.weights if id(v) not in trainable]

    def get_weights(self) -> list[np.ndarray]:
        """Copies of the weights' values.

        >>> from flexflow.keras import layers
        >>> dense = layers.Dense(2)
        >>> dense.build((None, 3))
        >>> [w.shape for w in dense.get_weights()]
        [(3, 2), (2,)]
        """
        return [variable.numpy() for variable in self.weights]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Set the weights' values, in the order of get_weights().

        Raises:
            ValueError: another number of arrays or another shape; no weight is changed then.
        """
        variables = self.weights
        if len(weights) != len(variables):
            expected = [f"{v.path} {v.shape}" for v in variables]
            raise ValueError(
                f"{self._who}: set_weights got {len(weights)} arrays, "
                f"expected {len(variables)}: {expected}"
            )
        for variable, value in zip(variables, weights):
            if np.shape(value) != variable.shape:
                raise ValueError(
                    f"{self._who}: set_weights got shape {np.shape(value)} for {variable.path}, "
                    f"expected {variable.shape}"
                )
        for variable, value in zip(variables, weights):
            variable.assign(value)

    def count_params(self) -> int:
        """How many numbers the weights hold.

        Raises:
            ValueError: the layer has no weights yet since it was not called.
        """
        if not self.built:
            raise ValueError(
                f"{self._who}: not built yet, so it has no weights to count; "
                "call it or its model first"
            )
        return sum(variable.size for variable in self.weights)

    # ---- the ends of its one call ----

    @property
    def input(self) -> Tensors:
        """The tensor, or the list of tensors, that the layer was called on."""
        tensors = list(self._only_node("input").inputs)
        return tensors[0] if len(tensors) == 1 else tensors

    @property
    def output(self) -> Tensors:
        """The tensor, or the list of tensors, that the call returned."""
        tensors = self._only_node("output").outputs
        return tensors[0] if len(tensors) == 1 else tensors

    @property
    def input_shape(self) -> Any:
        """The shape of the input, or the list of shapes."""
        return shapes_of(self.input)

    @property
    def output_shape(self) -> Any:
        """The shape of the output, or the list of shapes."""
        return shapes_of(self.output)

    @property
    def nodes(self) -> list[Node]:
        """The calls of the layer whose results are still in use."""
        return [node for node in (reference() for reference in self._nodes) if node is not None]

    def _only_node(self, what: str) -> Node:
        if len(self.nodes) != 1:
            raise AttributeError(
                f"{self._who}: called {len(self.nodes)} times, so it has no one {what}; "
                f"see nodes[i].{what}s"
            )
        return self.nodes[0]


def shapes_of(tensors: Tensors) -> Any:
    """The shape of a tensor, or the shapes of a list of them."""
    return [t.shape for t in tensors] if isinstance(tensors, list) else tensors.shape


def _batch_shape(kind: str, arguments: dict[str, Any]) -> Shape | None:
    """Take what says the shape of an input out of a layer's arguments."""
    given = {
        key: arguments.pop(key)
        for key in ("input_shape", "input_dim", "batch_input_shape")
        if key in arguments
    }
    given = {key: value for key, value in given.items() if value is not None}
    if not given:
        return None
    if len(given) > 1:
        raise ValueError(f"{kind}: {' and '.join(given)} are given, expected one of them")
    key, value = next(iter(given.items()))
    if key == "input_dim":
        return checked_shape((None, value), f"{kind}: input_dim={value!r}")
    shape = tuple(value) if isinstance(value, (list, tuple)) else (None, value)
    return checked_shape(
        shape if key == "batch_input_shape" else (None, *shape), f"{kind}: {key}={value!r}"
    )


def checked_shape(shape: Sequence[Any], who: str) -> Shape:
    """A shape whose first axis is the batch, None, and whose others are known."""
    if not shape or shape[0] is not None:
        raise NotImplementedError(
            f"{who}: the batch is free here; leave its size out, or let it be None"
        )
    for size in shape[1:]:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise ValueError(f"{who}: expected whole numbers above 0")
    return (None, *(int(size) for size in shape[1:]))


class InputLayer(Layer):
    """The place where data enters a model; made by Input()."""

    def __init__(self, shape: Any = None, dtype: str | None = None, **arguments: Any) -> None:
        if shape is not None:
            arguments["input_shape"] = shape
        super().__init__(**arguments)
        if self.batch_shape is None:
            raise ValueError(
                "Input: shape is missing; give the shape of a sample, such as Input((28, 28, 1))"
            )
        self.dtype = dtype or backend.floatx()
        if self.dtype not in ("float32", "int32", "int64"):
            raise NotImplementedError(
                f"Input: dtype={dtype!r}, expected 'float32', 'int32' or 'int64'"
            )
        self.built = True
        # Kept here, unlike other layers' tensors: a Sequential may be given the layer alone.
        self.tensor = Node(self, (), [(self.batch_shape, self.dtype)]).outputs[0]
        self._nodes.append(weakref.ref(self.tensor.node))


def Input(  # noqa: N802
    shape: Any = None,
    batch_size: int | None = None,
    dtype: str | None = None,
    sparse: bool | None = None,
    batch_shape: Any = None,
    name: str | None = None,
    tensor: Any = None,
    ragged: bool | None = None,
) -> KerasTensor:
    """A tensor for the data of a model.

    Args:
        shape: of one sample, such as ``(28, 28, 1)``; ``()`` for single numbers.
        dtype: ``"float32"`` (default), ``"int32"`` or ``"int64"``.
        batch_shape: in place of shape, with None for the batch.
        name: of the input; fit() and predict() take a dict of arrays by these names.

    Raises:
        ValueError: no shape, or a shape with other than whole numbers above 0.
        NotImplementedError: batch_size, sparse, tensor or ragged, or another dtype.

    >>> Input((28, 28, 1)).shape
    (None, 28, 28, 1)
    """
    backend.refuse("Input", batch_size=batch_size, tensor=tensor)
    backend.refuse("Input", neutral=(None, False), sparse=sparse, ragged=ragged)
    return InputLayer(shape, dtype, name=name, batch_input_shape=batch_shape).tensor
