"""Random graphs, in which tensors are used again and again: whatever lowering does with fusion,
memory and order, the numbers stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from drawn_graphs import ENTRIES, IDS, OF_THE_BATCH, STEP, append
from hypothesis import given
from hypothesis import strategies as st

from flexflow.core import AdamOptimizer, AggrMode, FFConfig, FFModel, LossType, Tensor

WIDTH, BATCH, ROWS = 6, 4, 7


class Graph:
    def __init__(self, steps: list[Any], frozen: list[int], fuse: bool) -> None:
        self.model = model = FFModel(FFConfig(device="reference", perform_fusion=fuse))
        self.x = model.create_tensor([BATCH, WIDTH], "float64", name="x")
        self.ids = model.create_tensor([BATCH, IDS], "int32", name="ids")
        self.tensors: list[Tensor] = [self.x]
        for step in steps:
            append(model, self.tensors, self.ids, step)
        last = model.dense(model.flat(model.tanh(self.tensors[-1])), 3, name="top")
        words = model.embedding(self.ids, ENTRIES, 3, AggrMode.AGGR_MODE_SUM, datatype="float64")
        top = model.add(last, words)
        layers = [op for op in model.get_layers().values() if op.get_number_parameters()]
        for index in frozen:
            layers[index % len(layers)].trainable = False
        # An epsilon at which a gradient that is 0 but for rounding moves nothing.
        optimizer = AdamOptimizer(model, alpha=0.01, epsilon=1e-3)
        model.compile(optimizer, LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE, output=top)

    def write(self, x: list[np.ndarray], y: np.ndarray, rows: slice) -> None:
        self.model.label_tensor.set_tensor(self.model, y[rows])
        for tensor, values in zip((self.ids, self.x), reversed(x)):
            tensor.set_tensor(self.model, values[rows])

    def by_hand(self, x: list[np.ndarray], y: np.ndarray) -> None:
        for start in range(0, ROWS, BATCH):
            self.write(x, y, slice(start, start + BATCH))
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


def data() -> tuple[list[np.ndarray], np.ndarray]:
    random = np.random.default_rng(0)
    ids = random.integers(0, ENTRIES, size=(ROWS, IDS)).astype(np.int32)
    return [random.normal(size=(ROWS, WIDTH)), ids], random.normal(size=(ROWS, 3))


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
        graph.write(x, y, slice(0, BATCH))
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
    """But of what is computed over the whole batch."""
    steps = [step for step in steps if step[0] not in OF_THE_BATCH]
    x, _ = data()
    graph = Graph(steps, [], True)
    expected = graph.model.predict(x)
    np.testing.assert_allclose(graph.model.predict(x, batch_size=batch), expected, rtol=1e-9)
