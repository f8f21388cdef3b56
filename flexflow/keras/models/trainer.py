"""fit, evaluate and predict: what a model does besides being a graph of layers."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from flexflow.core.checks import boolean
from flexflow.core.progress import say
from flexflow.keras import backend
from flexflow.keras.callbacks import Callback, CallbackList, History, Logs, ProgbarLogger
from flexflow.keras.models import arguments
from flexflow.keras.models.arguments import Values, Verbose
from flexflow.keras.models.compiled import Compiled
from flexflow.keras.models.data import Arrays, collect
from flexflow.keras.models.program import Feed, Program


class Trainer(Compiled):
    """Methods of Model and Sequential. Data are arrays; no sample is left out, however many."""

    def __init__(self) -> None:
        super().__init__()
        self._stop_training = False
        self.history: History | None = None
        self._shuffle_seed = backend.next_seed()
        self._epochs_run = 0

    # ---- training ----

    @property
    def stop_training(self) -> bool:
        """Whether training is to end after this batch or epoch; callbacks set it."""
        return self._stop_training

    @stop_training.setter
    def stop_training(self, value: bool) -> None:
        self._stop_training = boolean(value, f"{self.name}: stop_training")

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Verbose = "auto",
        callbacks: Sequence[Callback] | None = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: None = None,
        sample_weight: None = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int | Iterable[int] = 1,
    ) -> History:
        """Train.

        Args:
            x: an array of samples; for several inputs a list of arrays, or a dict of them by the
                inputs' names.
            y: the labels; see the loss.
            batch_size: None for 32, or what ``-b`` on the command line says. The last batch may be
                smaller.
            epochs: the number of the last epoch, counted from 1.
            verbose: 0 for silence, 1 or "auto" for a progress bar, 2 for a line for each epoch.
            callbacks: a list of objects of flexflow.keras.callbacks.
            validation_split: share of the samples, the last ones before shuffling, that are
                validated on instead.
            validation_data: (x, y) to validate on.
            shuffle: whether the order of the samples changes in every epoch.
            initial_epoch: the number of epochs that count as done.
            steps_per_epoch: end each epoch after so many batches; each starts at the beginning of
                its order.
            validation_steps: likewise for validation.
            validation_batch_size: None for batch_size.
            validation_freq: validate after every so many epochs, or after those whose numbers are
                listed.

        Returns:
            A History: the means over each epoch of the loss and the metrics, and those of
                validation as "val_…".

        Raises:
            FlexFlowError: compile() with a loss was not called.
            FloatingPointError: the loss became NaN or infinite, as does not happen in Keras, which
                goes on.
            ValueError: data that do not fit, or an argument out of range.
            NotImplementedError: an argument that is not supported.

        >>> from flexflow.keras import Sequential, layers
        >>> model = Sequential([layers.Dense(1, input_shape=(1,))])
        >>> model.compile("sgd", "mse")
        >>> x = np.arange(8.0)
        >>> history = model.fit(x, 2 * x, epochs=3, verbose=0, validation_split=0.25)
        >>> sorted(history.history), history.epoch
        (['loss', 'val_loss'], [0, 1, 2])
        """
        who = f"{self.name}.fit"
        backend.refuse(who, class_weight=class_weight, sample_weight=sample_weight)
        backend.refuse(who, neutral=(True, False), shuffle=shuffle)
        arguments.check_epochs(who, epochs, initial_epoch)
        train, held_out = self._split(
            who, self._collect("fit", x, y), validation_data, validation_split
        )
        program = self._ready(arguments.batch_size(who, batch_size), "fit")
        self._warn_if_frozen_since(program)
        feed = _feed(program, who, train, batch_size, "steps_per_epoch", steps_per_epoch)
        validation = None
        if held_out is not None:
            size = feed.batch_size
            if validation_batch_size is not None:
                name = "validation_batch_size"
                size = arguments.batch_size(who, validation_batch_size, name)
            validation = _feed(program, who, held_out, size, "validation_steps", validation_steps)
        history = History()
        listeners = self._listeners(callbacks, verbose, epochs, feed.steps, history)
        self.history = history
        rounds = range(initial_epoch, epochs)
        due = arguments.due_epochs(who, validation_freq, rounds)
        self._train(program, feed, rounds, listeners, shuffle, validation, due)
        if program.ff.ffconfig.profiling and arguments.verbosity(verbose):
            say(program.ff.profile_report())
        return history

    def _split(
        self, who: str, arrays: Arrays, validation_data: Any, validation_split: float
    ) -> tuple[Arrays, Arrays | None]:
        """What to train on, and what to validate on."""
        if validation_data is not None:
            return arrays, self._collect("fit", *arguments.pair(who, validation_data))
        if validation_split is None or validation_split == 0:
            return arrays, None
        return arrays.split(validation_split, who)

    def _train(
        self,
        program: Program,
        feed: Feed,
        epochs: range,
        listeners: CallbackList,
        shuffle: bool,
        validation: Feed | None,
        due: Collection[int],
    ) -> None:
        """The loop over epochs and batches that all training goes through."""
        self.stop_training = False
        logs: Logs = {}
        listeners.call("train_begin", None)
        for epoch in epochs:
            listeners.call("epoch_begin", epoch, None)
            order = (self._shuffle_seed, self._epochs_run) if shuffle else None
            slices = program.run(
                "train", feed, every_batch=listeners.wants_every_batch("train"), order=order
            )
            batches = 0
            while batches < feed.steps:
                listeners.call("train_batch_begin", batches, None)
                batches, logs = next(slices)
                listeners.call("train_batch_end", batches - 1, logs)
                if self.stop_training:
                    break
            self._epochs_run += 1
            if validation is not None and epoch in due:
                found = self._test(program, validation, listeners)
                logs.update({f"val_{name}": value for name, value in found.items()})
            listeners.call("epoch_end", epoch, logs)
            if self.stop_training:
                break
        listeners.call("train_end", logs)

    def _test(self, program: Program, feed: Feed, listeners: CallbackList) -> Logs:
        """Loss and metrics of all of a feed, in inference mode."""
        batches = 0
        logs: Logs = {}
        listeners.call("test_begin", None)
        slices = program.run("evaluate", feed, every_batch=listeners.wants_every_batch("test"))
        while batches < feed.steps:
            listeners.call("test_batch_begin", batches, None)
            batches, logs = next(slices)
            listeners.call("test_batch_end", batches - 1, logs)
        listeners.call("test_end", logs)
        return logs

    # ---- evaluation and prediction ----

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Verbose = "auto",
        sample_weight: None = None,
        steps: int | None = None,
        callbacks: Sequence[Callback] | None = None,
        return_dict: bool = False,
    ) -> Values:
        """Loss and metrics of data, in inference mode.

        Args:
            x, y, batch_size, verbose, callbacks: see fit().
            steps: stop after so many batches; None for all.
            return_dict: return a dict by name.

        Returns:
            The loss, or a list of it and the metrics if there are any; metrics_names are their
            names.

        Raises:
            As fit().
        """
        who = f"{self.name}.evaluate"
        backend.refuse(who, sample_weight=sample_weight)
        arrays = self._collect("evaluate", x, y)
        program = self._ready(arguments.batch_size(who, batch_size), "evaluate")
        feed = _feed(program, who, arrays, batch_size, "steps", steps)
        listeners = self._listeners(callbacks, verbose, 1, feed.steps)
        return arguments.packed(self._test(program, feed, listeners), return_dict)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Verbose = "auto",
        steps: int | None = None,
        callbacks: Sequence[Callback] | None = None,
    ) -> np.ndarray:
        """The output for every sample, in inference mode; compile() is not needed.

        Args:
            x, batch_size, verbose, callbacks: see fit().
            steps: stop after so many batches; None for all.

        Returns:
            An array of (samples, …), which is cuPyNumeric's if x is.

        Raises:
            ValueError: data that do not fit.

        >>> from flexflow.keras import Sequential, layers
        >>> model = Sequential([layers.Dense(3, input_shape=(4,))])
        >>> model.predict(np.zeros((50, 4)), verbose=0).shape
        (50, 3)
        """
        who = f"{self.name}.predict"
        arrays = self._collect("predict", x)
        size = arguments.batch_size(who, batch_size)
        if steps is not None:
            arrays = arrays.part(0, size * arguments.steps(f"{who}: steps", steps, arrays, size))
        program = self._ready(size)
        feed = program.feed(arrays, size)
        listeners = self._listeners(callbacks, verbose, 1, feed.steps)
        batches, rows = 0, np.empty(0)
        listeners.call("predict_begin", None)
        slices = program.predict(feed, listeners.wants_every_batch("predict"), x)
        while batches < feed.steps:
            listeners.call("predict_batch_begin", batches, None)
            batches, rows = next(slices)
            listeners.call("predict_batch_end", batches - 1, None)
        listeners.call("predict_end", None)
        return rows

    # ---- one batch ----

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: None = None,
        class_weight: None = None,
        return_dict: bool = False,
    ) -> Values:
        """One step of training on all of x as one batch. Returns loss and metrics of this batch
        alone; see evaluate().
        """
        backend.refuse(
            f"{self.name}.train_on_batch", sample_weight=sample_weight, class_weight=class_weight
        )
        return self._on_batch("train", "train_on_batch", x, y, return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: None = None, return_dict: bool = False
    ) -> Values:
        """Loss and metrics of all of x as one batch, in inference mode; see evaluate()."""
        backend.refuse(f"{self.name}.test_on_batch", sample_weight=sample_weight)
        return self._on_batch("evaluate", "test_on_batch", x, y, return_dict)

    def predict_on_batch(self, x: Any) -> np.ndarray:
        """The output for all of x as one batch, in inference mode."""
        return self.predict(x, batch_size=self._collect("predict_on_batch", x).rows, verbose=0)

    def _on_batch(self, step: str, method: str, x: Any, y: Any, return_dict: bool) -> Values:
        arrays = self._collect(method, x, y)
        program = self._ready(arrays.rows, method)
        ((_, logs),) = program.run(step, program.feed(arrays, arrays.rows))
        return arguments.packed(logs, return_dict)

    # ---- what the methods share ----

    def _collect(self, method: str, x: Any, y: Any = None) -> Arrays:
        """The data for a method; without a loss, labels are refused."""
        graph = self.complete_graph(x)
        loss = None if method.startswith("predict") else self.loss
        return collect(f"{self.name}.{method}", graph.inputs, x, y, graph.outputs[0].shape, loss)

    def _listeners(
        self,
        callbacks: Sequence[Callback] | Callback | None,
        verbose: Verbose,
        epochs: int,
        steps: int,
        *last: Callback,
    ) -> CallbackList:
        level = arguments.verbosity(verbose)
        given = [callbacks] if isinstance(callbacks, Callback) else callbacks or []
        bar = [ProgbarLogger()] if level else []
        return CallbackList([*given, *bar, *last], self, epochs=epochs, steps=steps, verbose=level)

    def _warn_if_frozen_since(self, program: Program) -> None:
        wanted = {id(variable) for variable in self.trainable_weights}
        if wanted not in (program.trainable_ids, program.warned_of):
            program.warned_of = wanted
            warnings.warn(
                f"{self.name}: layers' trainable has changed since the model was first run after "
                "compile(); "
                "compile() again to train by it",
                stacklevel=3,
            )


def _feed(
    program: Program, who: str, arrays: Arrays, batch_size: int | None, name: str, steps: int | None
) -> Feed:
    """Data for a program; ``steps`` is the argument called ``name``."""
    size = arguments.batch_size(who, batch_size)
    return program.feed(arrays, size, arguments.steps(f"{who}: {name}", steps, arrays, size))
