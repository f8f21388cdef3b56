"""The law of the house: any legal strategy computes what one device computes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
from drawn_graphs import ENTRIES, IDS, MADE_OTHERWISE, STEP, STEPS, append
from hypothesis import given, note, settings
from hypothesis import strategies as st
from legal_strategies import random_pipeline, random_strategy
from whole_models import weights_of

from flexflow.core import (
    AdamOptimizer,
    AggrMode,
    CosineDecay,
    ExponentialDecay,
    FFConfig,
    FFModel,
    L2Regularizer,
    LossType,
    MetricsType,
    SGDOptimizer,
    Strategy,
    Tensor,
    describe,
)
from flexflow.core.types import LOSSES, is_floating

CLASSES = 3
WIDE = 450  # so that gradients of weights are large enough to be summed in slices
KERNELS = [("float64", "reference"), ("float64", "cpu"), ("float32", "cpu")]
CLOSE = {"float64": 1e-9, "float32": 1e-3}
Results = dict[str, Any]  # arrays and numbers by their names
# By the pace at which training does not diverge, which would blow up rounding.
OPTIMIZERS: dict[str, Callable[[FFModel, float], Any]] = {
    "sgd": lambda m, pace: SGDOptimizer(m, lr=0.1 * pace),
    "momentum": lambda m, pace: SGDOptimizer(
        m, ExponentialDecay(0.1 * pace, 2, 0.5), 0.9, nesterov=True
    ),
    # An epsilon at which a gradient that is 0 but for rounding moves nothing.
    "adam": lambda m, pace: AdamOptimizer(
        m, alpha=CosineDecay(0.05 * pace, 4, warmup_steps=1), epsilon=1e-3, clipnorm=0.3
    ),
}
METRICS = [MetricsType.METRICS_MEAN_SQUARED_ERROR, MetricsType.METRICS_MEAN_ABSOLUTE_ERROR]


@dataclass
class Case:
    """A graph, and how it is trained for three steps, the last of which may have fewer samples."""

    steps: list[tuple[str, int, int]]
    batch: int = 4
    width: int = 5
    last: int = 1
    loss: LossType = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
    optimizer: str = "adam"
    read: bool = False  # tensors between, and their gradients
    kernels: tuple[str, str] = KERNELS[0]
    shared_memory: bool = True


class Trial:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.dtype, device = case.kernels
        config = FFConfig(device=device, seed=5, shared_memory=case.shared_memory)
        self.model = model = FFModel(config)
        self.x = model.create_tensor([case.batch, case.width], self.dtype, name="x")
        self.ids = model.create_tensor([case.batch, IDS], "int32", name="ids")
        self.tensors = [self.x]
        for step in case.steps:
            append(model, self.tensors, self.ids, step)
        self._head(model, self.tensors[-1])

    def compiled(self, strategy: Strategy | None) -> Trial:
        optimizer = OPTIMIZERS[self.case.optimizer](self.model, min(1.0, 9 / self.case.width))
        self.model.compile(optimizer, self.case.loss, METRICS, strategy=strategy)
        self.data = self._data()
        return self

    def _head(self, model: FFModel, last: Tensor) -> None:
        last = model.tanh(model.flat(last))
        top = model.dense(last, CLASSES, kernel_regularizer=L2Regularizer(0.01), name="top")
        sums = AggrMode.AGGR_MODE_SUM
        t = model.add(top, model.embedding(self.ids, ENTRIES, CLASSES, sums, datatype=self.dtype))
        if "categorical" in LOSSES[self.case.loss][0]:
            model.softmax(t)
        elif "binary" in LOSSES[self.case.loss][0]:
            model.sigmoid(t)

    def _data(self) -> list[np.ndarray]:
        random = np.random.default_rng(0)
        count = 2 * self.case.batch + self.case.last
        x = random.normal(size=(count, self.case.width))
        ids = random.integers(0, ENTRIES, size=(count, IDS)).astype(np.int32)
        label = self.model.label_tensor
        if is_floating(label.data_type):
            y = random.uniform(0.1, 0.9, size=(count, CLASSES))
            y /= y.sum(1, keepdims=True)
        else:
            y = random.integers(0, CLASSES, size=(count, 1)).astype(np.int32)
        return [x, ids, y]

    def in_epochs(self) -> Results:
        """Training, and then evaluation and prediction in batches of another size."""
        *inputs, labels = self.data
        batch = self.case.batch + 1
        results: Results = {"loss": self.model.fit(inputs, labels, verbose=0)[-1].loss}
        results |= weights_of(self.model)
        evaluated = self.model.eval(inputs, labels, batch, verbose=0).as_dict()
        results |= {f"evaluated {name}": value for name, value in evaluated.items()}
        return results | {"predictions": self.model.predict(inputs, batch)}

    def by_hand(self) -> Results:
        results: Results = {}
        model, read = self.model, self.tensors if self.case.read else []
        weights = [p for op in model.get_layers().values() for p in op.get_parameters()]
        for start in range(0, len(self.data[0]), self.case.batch):
            for tensor, array in zip([model.label_tensor, self.ids, self.x], self.data[::-1]):
                tensor.set_tensor(model, array[start : start + self.case.batch])
            model.zero_gradients()
            model.forward()
            for i, tensor in enumerate([*read, model.output_tensor]):
                results[f"{start}: tensor {i}"] = tensor.get_tensor()
            model.backward()
            for i, tensor in enumerate(read):
                results[f"{start}: gradient of {i}"] = tensor.get_gradients()
            for weight in weights:
                if weight.trainable:
                    results[f"{start}: gradient of {weight.name}"] = weight.get_gradients()
            model.update()
        return results | weights_of(model) | {"loss": model.get_perf_metrics().loss}


def assert_close(ours: Results, theirs: Results, dtype: str = "float64") -> None:
    """Beside the largest element, since the smallest are what is left of larger ones."""
    assert ours.keys() == theirs.keys()
    close = CLOSE[dtype]
    for name, expected in theirs.items():
        scale = np.abs(expected).max(initial=0.0)
        np.testing.assert_allclose(
            ours[name], expected, rtol=close, atol=close * (scale + 1e-3), err_msg=name
        )


def check(case: Case, strategy: Strategy) -> None:
    """In the loop by hand, and in whole epochs."""
    alone, ours = (Trial(case).compiled(s).by_hand() for s in (None, strategy))
    assert_close(ours, alone, case.kernels[0])
    alone, ours = (Trial(case).compiled(s).in_epochs() for s in (None, strategy))
    assert_close(ours, alone, case.kernels[0])


@st.composite
def cases(draw: Callable[..., Any]) -> Case:
    batch = draw(st.integers(1, 7))
    return Case(
        steps=draw(st.lists(STEP, max_size=6)),
        batch=batch,
        width=draw(st.integers(1, 9) | st.just(WIDE)),
        last=draw(st.integers(1, batch)),
        loss=draw(st.sampled_from(list(LOSSES))),
        optimizer=draw(st.sampled_from(sorted(OPTIMIZERS))),
        read=draw(st.booleans()),
        kernels=draw(st.sampled_from(KERNELS)),
        shared_memory=draw(st.booleans()),
    )


# 200 of them, at night 2000, and 60 under a sanitizer.
@settings(max_examples=min(4 * settings.default.max_examples, 2000), deadline=None)
@given(cases(), st.randoms())
def test_random_strategies_of_random_graphs(case: Case, random: Random) -> None:
    strategy = random_strategy(random, Trial(case).model)
    note(f"{strategy}")
    check(case, strategy)


@given(cases(), st.randoms())
def test_random_pipelines_of_random_graphs(case: Case, random: Random) -> None:
    """But for what cannot go forward with a part of the batch, which they refuse by name."""
    strategy = random_pipeline(random, Trial(case).model)
    note(f"{strategy}")
    try:
        check(case, strategy)
    except ValueError as error:
        assert re.search(r"\w+ needs the whole batch|reads no tensor", str(error))


def test_the_gradient_of_a_loss_stays_in_the_last_stage() -> None:
    """It is made for no operator of the user's, whatever their numbers are."""
    steps = [("abs", 0, 0), ("lstm", 0, 0), ("abs", 2, 0), ("abs", 0, 0), ("abs", 0, 0)]
    case = Case(steps, batch=2, width=WIDE, loss=LossType.LOSS_CATEGORICAL_CROSSENTROPY)
    check(case, Strategy.hybrid(pp=3, micro_batches=2))


def test_the_sum_of_two_biases_tells_no_stage() -> None:
    """The expansion of lstm begins with it; the rest follows what it reads, in the later stage."""
    case = Case([("lstm", 0, 0)], batch=2, width=6)
    names = [op.name for op in Trial(case).model.get_layers().values()]
    check(case, Strategy(2).pipeline(names[:1], names[1:], micro_batches=2))


@given(cases(), st.randoms())
def test_strategies_change_on_the_way(case: Case, random: Random) -> None:
    """Weights, statistics and what the optimizer keeps move to where the next strategy wants it."""
    alone, ours = (Trial(case).compiled(None) for _ in range(2))
    for _ in range(3):
        strategy = random_strategy(random, ours.model)
        note(f"{strategy}")
        ours.model.change_strategy(strategy)
        assert_close(ours.in_epochs(), alone.in_epochs(), case.kernels[0])


@pytest.mark.parametrize("name", STEPS)
def test_each_step(name: str) -> None:
    """Whatever is drawn, each of them is tried."""
    case = Case([(name, 0, 1), (name, 0, 1)], width=6, last=3, read=True)
    check(case, random_strategy(Random(name), Trial(case).model))


def test_all_operators_are_drawn() -> None:
    """What lowering makes of them, gradients and updates among it, is not for users to call."""
    drawn = {
        op.kind for name in STEPS for op in Trial(Case([(name, 0, 0)])).model.get_layers().values()
    }
    losses = {name for name, _ in LOSSES.values()}
    offered = {op for op in describe("ops").split() if "internal: 0" in describe(f"op:{op}")}
    assert offered - drawn - losses == set(MADE_OTHERWISE)
