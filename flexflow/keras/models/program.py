"""A Keras model as an FFModel that is compiled and ready to run."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from flexflow.core import (
    CompMode,
    DataSet,
    FFConfig,
    FFModel,
    PerfMetrics,
    SingleDataLoader,
    Strategy,
)
from flexflow.core.arrays import results_beside
from flexflow.keras.graph import Graph, sizes
from flexflow.keras.losses import Loss
from flexflow.keras.lowering import Lowering, Value
from flexflow.keras.metrics import Metric
from flexflow.keras.models.data import Arrays
from flexflow.keras.optimizers import Optimizer
from flexflow.keras.variable import Variable


class Settings(NamedTuple):
    """What compile() was told."""

    optimizer: Optimizer | None = None
    loss: Loss | None = None
    metrics: Sequence[Metric] = ()
    strategy: Strategy | None = None


class Feed(NamedTuple):
    """Data that go through a model: so many batches of a size, of which the last may be smaller."""

    data: DataSet
    batch_size: int
    steps: int


class Slice(NamedTuple):
    """Some batches that were run in one go: how many batches of the epoch are done now, and the
    means so far.
    """

    batches: int
    logs: dict[str, float]


class Program:
    """A graph of layers in an FFModel, and the home of the values of its variables.

    Attributes:
        trainable_ids: the variables that training changes, by ``id``.
        warned_of: those that the user last asked for in vain, and was told so.

    Args:
        graph: of the model.
        trainable: the variables that training changes.
        settings: an empty one if the model is to predict only.
        batch_size: the size of batch to plan for; others are planned for when they come.
    """

    def __init__(
        self, graph: Graph, trainable: Sequence[Variable], settings: Settings, batch_size: int
    ) -> None:
        self.settings = settings
        self.trainable_ids = {id(variable) for variable in trainable}
        self.warned_of = self.trainable_ids
        self.ff = FFModel(FFConfig(batch_size=batch_size))
        self._inputs = [
            self.ff.create_tensor(
                [batch_size, *sizes(tensor.shape)], tensor.dtype, name=tensor.name
            )
            for tensor in graph.inputs
        ]
        lowering = Lowering(self.ff, trainable)
        (output,) = lowering.graph(graph, [Value(tensor) for tensor in self._inputs])
        self._used = graph.used_inputs()
        # Variables keep their home, so a home must not keep them; see Node.
        self._variables = [weakref.ref(variable) for variable in lowering.variables]
        self._parameters = lowering.parameters
        self._index = {id(variable): i for i, variable in enumerate(lowering.variables)}
        self._penalties = [
            (variable.regularizer, parameter)
            for variable, parameter in zip(lowering.variables, lowering.parameters)
            if variable.regularizer is not None and id(variable) in self.trainable_ids
        ]
        self._compile(lowering, output)

    def _compile(self, lowering: Lowering, output: Value) -> None:
        # A moved value would come out with its axes in another order than Keras's.
        tensor = lowering.plain(output)
        optimizer, loss, metrics, strategy = self.settings
        self._optimizer = (
            optimizer.create(self.ff) if optimizer is not None and loss is not None else None
        )
        self.ff.compile(
            self._optimizer,
            loss.loss_type if loss else None,
            list(dict.fromkeys(metric.measured for metric in metrics)),
            CompMode.TRAINING if loss else CompMode.INFERENCE,
            output=tensor,
            loss_attributes=loss.attributes if loss else None,
            strategy=strategy,
        )

    # ---- values of variables ----

    def read(self, variable: Variable) -> np.ndarray:
        """The value of a variable that lives here."""
        parameter = self._parameters[self._index[id(variable)]]
        return variable.from_core(parameter.get_weights(self.ff))

    def _penalty(self) -> float:
        """What regularizers add to the loss."""
        return sum(
            regularizer(parameter.get_weights(self.ff))
            for regularizer, parameter in self._penalties
        )

    # ---- running ----

    def feed(self, arrays: Arrays, batch_size: int, steps: int | None = None) -> Feed:
        """Arrays as the core takes them; they must not change while it is used. steps: None for all
        batches.
        """
        loaders = [
            SingleDataLoader(self.ff, tensor, array, allow_nan=True)
            for tensor, array, used in zip(self._inputs, arrays.inputs, self._used)
            if used
        ]
        labels = arrays.labels
        if self.settings.loss is not None and not self.settings.loss.needs_labels:
            # The core has a tensor for labels in any case.
            labels = np.zeros((arrays.rows, *self.ff.label_tensor.dims[1:]), np.float32)
        if labels is not None:
            loaders.append(SingleDataLoader(self.ff, self.ff.label_tensor, labels, allow_nan=True))
        data = DataSet([(loader.input, loader.array) for loader in loaders])
        return Feed(data, batch_size, steps or arrays.batches(batch_size))

    def run(
        self,
        step: str,
        feed: Feed,
        *,
        every_batch: bool = False,
        order: tuple[int, int] | None = None,
    ) -> Iterator[Slice]:
        """Run an epoch, many batches in one go.

        Args:
            step: "train" or "evaluate".
            feed: the data; the run ends after feed.steps batches.
            every_batch: come back after each batch.
            order: None to take the samples as they are, or a seed and the number of the epoch.
        """
        self._begin(feed, order)
        # A penalty is that of the weights before each step.
        single = every_batch or (step == "train" and bool(self._penalties))
        means, batches = Means(), 0
        while batches < feed.steps:
            self.catch_up()
            penalty = self._penalty()
            self.ff.reset_metrics()
            progress = next(self.ff.run(step, feed.data, 1 if single else feed.steps - batches))
            batches += progress.steps
            measured = self.ff.get_perf_metrics()
            self._check_loss(step, measured.loss, batches - progress.steps, batches)
            means.add(measured, penalty)
            yield Slice(batches, means.logs(self.settings.metrics))

    def _check_loss(self, step: str, value: float, before: int, now: int) -> None:
        """Raise for a loss that can only get worse, as the core's own fit does."""
        batches = f"batch {now}" if now == before + 1 else f"batches {before + 1} to {now}"
        if not math.isfinite(value):
            raise FloatingPointError(
                f"{step}: the loss became {value} in {batches}; a smaller learning rate, or "
                "smaller data, may help"
            )
        loss = self.settings.loss
        if value < 0 and loss is not None and (loss.probabilities or loss.class_ids):
            raise ValueError(
                f"{step}: the loss {loss.name!r} became {value:.4g} in {batches}: the output left "
                "[0, 1]; end the model with a softmax or sigmoid, or give the loss "
                "from_logits=True"
            )

    def predict(
        self, feed: Feed, every_batch: bool = False, x: Any = None
    ) -> Iterator[tuple[int, np.ndarray]]:
        """The same for the output: how many batches are done, and the array of all samples that is
        being filled, which is of the kind of x.
        """
        self._begin(feed, None)
        output = self.ff.output_tensor
        shape = (feed.data.num_samples, *output.dims[1:])
        results, rows = results_beside(x, shape, output.dtype)
        self.catch_up()
        batches = 0
        for progress in self.ff.run("predict", feed.data, 1 if every_batch else feed.steps, rows):
            batches += progress.steps
            yield batches, results

    def _begin(self, feed: Feed, order: tuple[int, int] | None) -> None:
        seed, epoch = order or (0, 0)
        feed.data.begin(feed.batch_size, shuffle=order is not None, seed=seed, epoch=epoch)

    def catch_up(self) -> None:
        """Take what may have been set since the last slice: weights, and the learning rate."""
        for reference, parameter in zip(self._variables, self._parameters):
            variable = reference()
            if variable is not None and not variable.is_at(self):
                parameter.set_weights(self.ff, variable.to_core(variable.numpy()))
                variable.move_to(self)
        if self._optimizer is not None and self.settings.optimizer is not None:
            rate = self.settings.optimizer.core_rate
            if rate != self._optimizer.learning_rate:
                self._optimizer.set_learning_rate(rate)


class Means:
    """Loss and metrics of several slices, each weighted by its samples.

    They are summed here and not in the core, since a callback may evaluate or predict between two
    slices.
    """

    def __init__(self) -> None:
        self._samples = 0
        self._sums: dict[str, float] = {}

    def add(self, measured: PerfMetrics, penalty: float) -> None:
        """Add a slice, with what regularizers add to its loss."""
        values = measured.as_dict()
        values["loss"] += penalty
        self._samples += measured.samples
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + value * measured.samples

    def logs(self, metrics: Sequence[Metric]) -> dict[str, float]:
        """The loss, and the metrics under their names."""
        means = {name: total / self._samples for name, total in self._sums.items()}
        logs = {"loss": means["loss"]}
        for metric in metrics:
            measured = means[metric.measured.name[len("METRICS_") :].lower()]
            logs[metric.name] = metric.value(measured)
        return logs
