"""Random graphs, in which tensors are used again and again: whatever lowering does with fusion,
memory and order, the numbers stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flexflow.core import ActiMode, AdamOptimizer, FFConfig, FFModel, LossType, Tensor

WIDTH, BATCH, ROWS = 6, 4, 7
UNARY = {
    "relu": lambda m, x: m.relu(x),
    "tanh": lambda m, x: m.tanh(x),
    "sigmoid": lambda m, x: m.sigmoid(x),
    "identity": lambda m, x: m.identity(x),
    "negative": lambda m, x: m.negative(x),
    "halved": lambda m, x: m.scalar_multiply(x, 0.5),
    "dense": lambda m, x: m.dense(x, WIDTH),
    "dense_tanh": lambda m, x: m.dense(x, WIDTH, ActiMode.AC_MODE_TANH),
    "softmax": lambda m, x: m.softmax(x),
    "layer_norm": lambda m, x: m.layer_norm(x, [-1]),
    "batch_norm": lambda m, x: m.batch_norm(x, relu=False),
    "ghost_norm": lambda m, x: m.batch_norm(x, relu=False, groups=2),
    "dropout": lambda m, x: m.dropout(x, 0.25, 1),
    "turned": lambda m, x: m.transpose(m.sin(m.transpose(x, [1, 0])), [1, 0]),
    "folded": lambda m, x: m.flat(m.cos(m.reshape(x, [x.dims[0], 2, 3]))),
    "swapped": lambda m, x: m.concat(m.split(x, [2, 4], 1)[::-1], 1),
    "centred": lambda m, x: m.subtract(x, m.reduce_mean(x, [1], keepdims=True)),
}
BINARY = {
    "add": lambda m, x, y: m.add(x, y),
    "subtract": lambda m, x, y: m.subtract(x, y),
    "multiply": lambda m, x, y: m.multiply(m.tanh(x), y),
    "gated": lambda m, x, y: m.multiply(x, m.sigmoid(y)),
}
# What to append, and the tensors it takes, counted back from the last one.
STEP = st.tuples(
    st.sampled_from(sorted(UNARY) + sorted(BINARY)), st.integers(0, 3), st.integers(0, 3)
)


class Graph:
    def __init__(self, steps: list[Any], frozen: list[int], fuse: bool) -> None:
        self.model = model = FFModel(FFConfig(device="reference", perform_fusion=fuse))
        self.x = model.create_tensor([BATCH, WIDTH], "float64", name="x")
        self.tensors: list[Tensor] = [self.x]
        for name, first, second in steps:
            x, y = (self.tensors[-1 - back % len(self.tensors)] for back in (first, second))
            made = UNARY[name](model, x) if name in UNARY else BINARY[name](model, x, y)
            self.tensors.append(made)
        top = model.dense(model.tanh(self.tensors[-1]), 3, name="top")
        layers = [op for op in model.get_layers().values() if op.get_number_parameters()]
        for index in frozen:
            layers[index % len(layers)].trainable = False
        optimizer = AdamOptimizer(model, alpha=0.01)
        model.compile(optimizer, LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE, output=top)

    def by_hand(self, x: np.ndarray, y: np.ndarray) -> None:
        for start in range(0, ROWS, BATCH):
            rows = slice(start, start + BATCH)
            self.model.label_tensor.set_tensor(self.model, y[rows])
            self.x.set_tensor(self.model, x[rows])
            self.model.zero_gradients()
            self.model.forward()
            self.model.backward()
            self.model.update()

    def weights(self) -> dict[str, np.ndarray]:
        layers = self.model.get_layers().values()
        return {p.name: p.get_weights() for layer in layers for p in layer.get_parameters()}


def assert_same(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> None:
    for (name, one), other in zip(ours.items(), theirs.values()):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10, err_msg=name)


def data() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.normal(size=(ROWS, WIDTH)), random.normal(size=(ROWS, 3))


@given(st.lists(STEP, max_size=8), st.lists(st.integers(0, 5), max_size=2))
def test_fused_or_not_and_by_hand(steps: list[Any], frozen: list[int]) -> None:
    x, y = data()
    graphs = [Graph(steps, frozen, fuse) for fuse in (True, False, True)]
    for graph in graphs[:2]:
        graph.model.fit(x, y, verbose=0)
    graphs[2].by_hand(x, y)
    for graph in graphs[1:]:
        assert_same(graphs[0].weights(), graph.weights())


@given(st.lists(STEP, min_size=1, max_size=6))
def test_every_tensor_can_be_read(steps: list[Any]) -> None:
    """Reading one keeps it, and changes neither itself nor what follows."""
    x, y = data()
    read, plain = Graph(steps, [], True), Graph(steps, [], False)
    for graph in (read, plain):
        graph.model.label_tensor.set_tensor(graph.model, y[:BATCH])
        graph.x.set_tensor(graph.model, x[:BATCH])
        graph.model.forward()
    values = [(r.get_tensor(), p.get_tensor()) for r, p in zip(read.tensors, plain.tensors)]
    for graph in (read, plain):
        graph.model.backward()
    gradients = [
        (r.get_gradients(), p.get_gradients()) for r, p in zip(read.tensors, plain.tensors)
    ]
    for number, (ours, theirs) in enumerate(values + gradients):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10, err_msg=str(number))
    for (before, _), tensor in zip(values, read.tensors):
        np.testing.assert_array_equal(tensor.get_tensor(), before)
    read.model.update()
    plain.model.update()
    assert_same(read.weights(), plain.weights())


@given(st.lists(STEP, max_size=6), st.sampled_from([1, 3, 9]))
def test_predictions_of_any_batch_size(steps: list[Any], batch: int) -> None:
    x, _ = data()
    graph = Graph(steps, [], True)
    expected = graph.model.predict(x)
    np.testing.assert_allclose(graph.model.predict(x, batch_size=batch), expected, rtol=1e-9)
