"""The graph of a functional model: values (KerasTensor), calls of layers (Node), and the part
between two ends (Graph).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Optional

if TYPE_CHECKING:
    from flexflow.keras.layers.base import Layer

Shape = tuple[Optional[int], ...]


def sizes(shape: Shape) -> tuple[int, ...]:
    """The sizes of a sample: all but the batch's, without those that are not known.

    >>> sizes((None, 28, 28))
    (28, 28)
    """
    return tuple(size for size in shape[1:] if size is not None)


class KerasTensor:
    """A value that a model will compute: what Input() and calls of layers return.

    Attributes:
        shape: with None for the batch, such as (None, 28, 28, 1).
        dtype: ``"float32"``, ``"int32"``, …
        node: the call that computes it; index: which of that call's results it is.

    ``a + b``, ``a - b`` and ``a * b`` add the layers Add, Subtract and Multiply; no other operator
    is supported, nor one with a number or an array.

    Raises:
        TypeError: another operator; the message says which layers to use.

    >>> from flexflow.keras import Input
    >>> (Input((3,)) + Input((3,))).shape
    (None, 3)
    """

    def __init__(self, shape: Shape, dtype: str, node: Node, index: int = 0) -> None:
        self.shape, self.dtype, self.node, self.index = tuple(shape), dtype, node, index

    @property
    def key(self) -> tuple[int, int]:
        """What tells it from all other tensors of a graph."""
        return id(self.node), self.index

    @property
    def name(self) -> str:
        """The name of the layer that computes it."""
        return self.node.layer.name

    @property
    def ndim(self) -> int:
        """The number of axes, the batch's included."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<KerasTensor shape={self.shape} dtype={self.dtype} from {self.name!r}>"

    # NumPy would take the tensor for an element; so it leaves operators to those below.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> KerasTensor:
        return self._merge("Add", "+", other)

    def __sub__(self, other: Any) -> KerasTensor:
        return self._merge("Subtract", "-", other)

    def __mul__(self, other: Any) -> KerasTensor:
        return self._merge("Multiply", "*", other)

    def _merge(self, layer: str, sign: str, other: Any) -> KerasTensor:
        if not isinstance(other, KerasTensor):
            self._refuse(sign, other)
        # Here and not above: layers are made of this file's classes.
        from flexflow.keras.layers import merging

        return getattr(merging, layer)()([self, other])

    def _refuse(self, sign: str, *others: Any) -> NoReturn:
        operands = "".join(f" with {type(other).__name__}" for other in others[:1])
        raise TypeError(
            f"{self!r}: the operator {sign}{operands} is not supported; expected +, - or * of two "
            "tensors of a model. Use layers: Add, Subtract, Multiply, Maximum, Minimum, "
            "Concatenate, Reshape, Activation; scale by numbers in the data or in a Dense layer"
        )

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            f"{self!r} has no numbers: it stands for what a model will compute. Make a Model of it "
            "and call predict()."
        )


def _refusal(sign: str) -> Any:
    def operator(self: KerasTensor, *others: Any) -> NoReturn:
        self._refuse(sign, *others)

    return operator


for _names, _sign in (
    ("radd", "+"),
    ("rsub", "-"),
    ("rmul", "*"),
    ("truediv rtruediv", "/"),
    ("floordiv rfloordiv", "//"),
    ("mod rmod", "%"),
    ("pow rpow", "**"),
    ("matmul rmatmul", "@"),
    ("neg", "-"),
    ("pos", "+"),
    ("abs", "abs()"),
    ("and rand", "&"),
    ("or ror", "|"),
    ("xor rxor", "^"),
    ("invert", "~"),
    ("lt", "<"),
    ("le", "<="),
    ("gt", ">"),
    ("ge", ">="),
    ("getitem", "[]"),
):
    for _name in _names.split():
        setattr(KerasTensor, f"__{_name}__", _refusal(_sign))


class Node:
    """One call of a layer; a layer called twice has two nodes and one set of weights.

    A tensor keeps its node, a node its layer and its inputs, and a model its tensors. Nothing is
    kept the other way round, so that a model's memory is freed with the last reference to it and
    does not wait for the garbage collector.

    Attributes:
        training: the ``training`` that the call was given: None, or False for inference mode at all
            times.
        specs: shape and dtype of each output.
    """

    def __init__(
        self,
        layer: Layer,
        inputs: Sequence[KerasTensor],
        specs: Sequence[tuple[Shape, str]],
        training: bool | None = None,
    ) -> None:
        self.layer, self.inputs = layer, tuple(inputs)
        self.specs, self.training = tuple(specs), training
        self._alive: weakref.WeakValueDictionary[int, KerasTensor] = weakref.WeakValueDictionary()

    @property
    def outputs(self) -> list[KerasTensor]:
        """What the call returned."""
        return [self._output(i, *spec) for i, spec in enumerate(self.specs)]

    def _output(self, index: int, shape: Shape, dtype: str) -> KerasTensor:
        tensor = self._alive.get(index)
        if tensor is None:
            tensor = self._alive[index] = KerasTensor(shape, dtype, self, index)
        return tensor


class Graph:
    """The calls that lead from some tensors to others.

    Attributes:
        nodes: each after those that it needs.
        layers: without repetition, as Keras orders them: the farther from the outputs, the earlier.

    Args:
        inputs, outputs: an input may be any tensor on the way; what comes before it is left out.
        who: the model, for messages.

    Raises:
        ValueError: an output needs a tensor that no input leads to ("graph disconnected"), or an
            input is given twice.
        TypeError: something that is not a KerasTensor.
    """

    def __init__(
        self, inputs: Sequence[KerasTensor], outputs: Sequence[KerasTensor], who: str
    ) -> None:
        for role, tensors in (("inputs", inputs), ("outputs", outputs)):
            if not tensors:
                raise ValueError(f"{who}: {role} is empty, expected at least one tensor")
            for tensor in tensors:
                if not isinstance(tensor, KerasTensor):
                    raise TypeError(
                        f"{who}: {role} holds {tensor!r}, "
                        "expected what Input() or the call of a layer returned"
                    )
        if len({tensor.key for tensor in inputs}) < len(inputs):
            raise ValueError(f"{who}: a tensor is given twice in inputs={list(inputs)}")
        self.inputs, self.outputs, self.who = tuple(inputs), tuple(outputs), who
        self.nodes = self._order()
        self.layers = self._layers()

    def used_inputs(self) -> list[bool]:
        """For each input, whether an output depends on it."""
        taken = {tensor.key for node in self.nodes for tensor in node.inputs}
        taken.update(tensor.key for tensor in self.outputs)
        return [tensor.key in taken for tensor in self.inputs]

    def _order(self) -> list[Node]:
        """Depth first from the outputs, with a stack of our own, since models outgrow Python's."""
        given = {tensor.key for tensor in self.inputs}
        done: set[int] = set()
        order: list[Node] = []
        for output in self.outputs:
            stack = [] if output.key in given else [(output.node, iter(output.node.inputs))]
            while stack:
                node, rest = stack[-1]
                if not node.inputs:
                    self._fail_disconnected(node)
                following = next(
                    (t for t in rest if t.key not in given and id(t.node) not in done), None
                )
                if following is not None:
                    stack.append((following.node, iter(following.node.inputs)))
                    continue
                stack.pop()
                if id(node) not in done:
                    done.add(id(node))
                    order.append(node)
        return order

    def _fail_disconnected(self, node: Node) -> None:
        names = [tensor.name for tensor in self.inputs]
        raise ValueError(
            f"{self.who}: graph disconnected: the outputs need the Input {node.layer.name!r} "
            f"(shape {node.outputs[0].shape}), and inputs={names} do not lead to it; "
            "add it to inputs"
        )

    def _layers(self) -> list[Layer]:
        """Sorted by the longest way to an output; equals stay in the order of the nodes."""
        depth_of: dict[
            tuple[int, int], int
        ] = {}  # of tensors: the depth of the deepest call that takes them
        depths: dict[Layer, int] = {}
        for node in reversed(self.nodes):
            depth = max((depth_of.get(tensor.key, 0) for tensor in node.outputs), default=0)
            for tensor in node.inputs:
                depth_of[tensor.key] = max(depth_of.get(tensor.key, 0), depth + 1)
            depths[node.layer] = max(depths.get(node.layer, 0), depth)
        sources = [t.node.layer for t in self.inputs if not t.node.inputs]
        depths.update(
            {t.node.layer: depth_of.get(t.key, 0) for t in self.inputs if not t.node.inputs}
        )
        first_seen = dict.fromkeys([*sources, *(node.layer for node in self.nodes)])
        return sorted(first_seen, key=lambda layer: -depths[layer])
