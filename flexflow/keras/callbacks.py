"""Callbacks: what happens beside training, at its beginnings and ends.

They are called in the order in which fit() got them; the progress bar and the History come last, so
that a callback may add to ``logs`` what they then show and keep.
"""

from __future__ import annotations

import copy
import math
import warnings
import weakref
from collections.abc import Sequence
from numbers import Real
from typing import Any, Callable

import numpy as np

from flexflow.core.checks import boolean, integer, real
from flexflow.core.progress import say
from flexflow.keras import surface
from flexflow.keras.progress import Progbar

Logs = dict[str, float]


class Callback:
    """Base of all callbacks. Methods of a subclass are called during fit(), evaluate() and
    predict().

    ``on_batch_begin`` and ``on_batch_end`` are other names of the methods for batches of training.
    A callback that has methods for batches makes training go batch by batch; without one, many
    small batches are run in one go.

    Attributes:
        model: the model.
        params: a dict with verbose, epochs and steps.

    >>> class Stop(Callback):
    ...     def on_epoch_end(self, epoch, logs=None):
    ...         self.model.stop_training = logs["loss"] < 0.1
    """

    # Whether methods for batches must be called for each; the progress bar is content with some.
    every_batch = True

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict[str, Any] = {}

    def set_params(self, params: dict[str, Any]) -> None:
        self.params = params

    def set_model(self, model: Any) -> None:
        self.model = model

    def on_train_begin(self, logs: Logs | None = None) -> Any: ...
    def on_train_end(self, logs: Logs | None = None) -> Any: ...
    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> Any: ...
    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> Any: ...
    def on_batch_begin(self, batch: int, logs: Logs | None = None) -> Any: ...
    def on_batch_end(self, batch: int, logs: Logs | None = None) -> Any: ...
    def on_test_begin(self, logs: Logs | None = None) -> Any: ...
    def on_test_end(self, logs: Logs | None = None) -> Any: ...
    def on_test_batch_begin(self, batch: int, logs: Logs | None = None) -> Any: ...
    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> Any: ...
    def on_predict_begin(self, logs: Logs | None = None) -> Any: ...
    def on_predict_end(self, logs: Logs | None = None) -> Any: ...
    def on_predict_batch_begin(self, batch: int, logs: Logs | None = None) -> Any: ...
    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> Any: ...

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> Any:
        return self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> Any:
        return self.on_batch_end(batch, logs)


class CallbackList:
    """Several callbacks as one: ``call("epoch_end", epoch, logs)`` calls on_epoch_end of each."""

    def __init__(self, callbacks: Sequence[Callback], model: Any, **params: Any) -> None:
        for callback in callbacks:
            if not isinstance(callback, Callback):
                raise TypeError(
                    f"callbacks: {callback!r} is no object of flexflow.keras.callbacks.Callback"
                )
        self.callbacks = list(callbacks)
        self.model = model
        for callback in self.callbacks:
            callback.set_params(params)
            callback.set_model(model)

    def call(self, event: str, *arguments: Any) -> None:
        """Call on_<event> of every callback. FlexFlow's rule is kept, too: an on_epoch_end that
        returns True stops.
        """
        for callback in self.callbacks:
            if getattr(callback, f"on_{event}")(*arguments) is True and event == "epoch_end":
                self.model.stop_training = True

    def wants_every_batch(self, phase: str) -> bool:
        """Whether a callback has methods for the batches of "train", "test" or "predict"."""
        names = [f"on_{phase}_batch_begin", f"on_{phase}_batch_end"]
        if phase == "train":
            names += ["on_batch_begin", "on_batch_end"]
        return any(
            callback.every_batch
            and any(getattr(type(callback), n) is not getattr(Callback, n) for n in names)
            for callback in self.callbacks
        )


class History(Callback):
    """What fit() returns.

    Attributes:
        epoch: the numbers of the epochs that were run.
        history: for each of "loss", the metrics, and "val_…" of them, its values over the epochs.
    """

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []
        self.params: dict[str, Any] = {}

    def set_model(self, model: Any) -> None:
        # The model keeps its history, so the history must not keep the model; see graph.Node.
        self._model = weakref.ref(model)

    @property
    def model(self) -> Any:
        """The model, as long as there is one."""
        return self._model()

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.history, self.epoch = {}, []

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)


class ProgbarLogger(Callback):
    """Prints the progress (verbose=1: a bar; 2: a line for each epoch); fit() adds it."""

    every_batch = False

    def __init__(self) -> None:
        super().__init__()
        self._bar: Progbar | None = None
        self._training = False

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._training = True

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        say(f"Epoch {epoch + 1}/{self.params['epochs']}")
        self._bar = self._new_bar()

    def on_test_begin(self, logs: Logs | None = None) -> None:
        # Validation in the middle of training leaves the bar of its epoch alone.
        if not self._training:
            self._bar = self._new_bar()

    on_predict_begin = on_test_begin

    def _new_bar(self) -> Progbar:
        return Progbar(self.params["steps"], verbose=self.params["verbose"])

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        assert self._bar is not None
        self._bar.show(batch + 1, logs or {})

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        assert self._bar is not None
        self._bar.finish(logs or {})

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if not self._training:
            self.on_train_batch_end(batch, logs)

    def on_test_end(self, logs: Logs | None = None) -> None:
        if not self._training:
            self.on_epoch_end(0, logs)

    on_predict_batch_end = on_test_batch_end
    on_predict_end = on_test_end


class LearningRateScheduler(Callback):
    """Sets the learning rate at the begin of each epoch.

    Args:
        schedule: called with (epoch, learning rate), or with (epoch) if it takes one argument;
            returns the new one.
        verbose: 1 to print it.

    Raises:
        TypeError: at training, the schedule returns no number.

    >>> LearningRateScheduler(lambda epoch, rate: rate * 0.9)
    <LearningRateScheduler>
    """

    def __init__(self, schedule: Callable[..., float], verbose: int = 0) -> None:
        super().__init__()
        self.schedule, self.verbose = schedule, verbose

    def __repr__(self) -> str:
        return "<LearningRateScheduler>"

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        rate = self._rate(epoch, self.model.optimizer.learning_rate)
        if not isinstance(rate, (Real, np.floating)):
            raise TypeError(
                f"LearningRateScheduler: schedule({epoch}) returned {rate!r}, expected a number"
            )
        self.model.optimizer.learning_rate = float(rate)
        if self.verbose:
            say(f"Epoch {epoch + 1}: the learning rate is {float(rate):g}")

    def _rate(self, epoch: int, current: float) -> Any:
        from inspect import signature

        parameters = signature(self.schedule).parameters.values()
        takes = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
        many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        return self.schedule(epoch, current) if takes > 1 or many else self.schedule(epoch)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if logs is not None:
            logs["learning_rate"] = self.model.optimizer.learning_rate


class EarlyStopping(Callback):
    """Stops training when a value no longer improves.

    Args:
        monitor: a name in the logs, such as "val_loss".
        min_delta: a change that is not larger does not count.
        patience: after how many epochs without an improvement to stop.
        verbose: 1 to say so.
        mode: "min", "max", or "auto": "max" for accuracies, "min" for all else.
        baseline: None, or a value that must be surpassed for an epoch to count as an improvement.
        restore_best_weights: whether the model ends with the weights of its best epoch, also when
            it was not stopped.
        start_from_epoch: before it nothing is monitored.

    Raises:
        ValueError: another mode, or a negative number of epochs. (An epoch whose logs lack the name
            is passed over with a warning.)

    >>> EarlyStopping("val_accuracy", patience=3).mode
    'max'
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0,
        patience: int = 0,
        verbose: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:
        super().__init__()
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"EarlyStopping: mode={mode!r}, expected 'auto', 'min' or 'max'")
        self.monitor, self.verbose = monitor, verbose
        self.patience = integer(patience, "EarlyStopping: patience", 0)
        self.start_from_epoch = integer(start_from_epoch, "EarlyStopping: start_from_epoch", 0)
        self.mode = (
            mode if mode != "auto" else ("max" if monitor.endswith(("acc", "accuracy")) else "min")
        )
        self.min_delta = abs(real(min_delta, "EarlyStopping: min_delta"))
        self.baseline = None if baseline is None else real(baseline, "EarlyStopping: baseline")
        self.restore_best_weights = boolean(
            restore_best_weights, "EarlyStopping: restore_best_weights"
        )

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.wait, self.stopped_epoch, self.best_epoch = 0, 0, 0
        self.best = math.inf if self.mode == "min" else -math.inf
        self.best_weights: list[np.ndarray] | None = None

    def _better(self, value: float, than: float) -> bool:
        return (
            value < than - self.min_delta if self.mode == "min" else value > than + self.min_delta
        )

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        value = (logs or {}).get(self.monitor)
        if value is None:
            warnings.warn(
                f"EarlyStopping: epoch {epoch + 1} has no {self.monitor!r} but "
                f"{sorted(logs or {})}, so it is passed over; "
                "pass validation data for 'val_…', name the metric in compile(), or change monitor",
                stacklevel=2,
            )
            return
        if epoch < self.start_from_epoch:
            return
        self.wait += 1
        if self.best_weights is None or self._better(value, self.best):
            self._keep(epoch)
        if self._better(value, self.best):
            self.best = value
            if self.baseline is None or self._better(value, self.baseline):
                self.wait = 0
        elif self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def _keep(self, epoch: int) -> None:
        self.best_epoch = epoch
        if self.restore_best_weights:
            self.best_weights = self.model.get_weights()

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self.stopped_epoch and self.verbose:
            say(f"Epoch {self.stopped_epoch + 1}: stopped early")
        if self.best_weights is not None:
            if self.verbose:
                say(f"Restored the weights of the best epoch, {self.best_epoch + 1}")
            self.model.set_weights(self.best_weights)


class VerifyMetrics(Callback):
    """FlexFlow's: at the end of training raises an AssertionError unless the accuracy is at least
    so many percent.

    Args:
        accuracy: percent, or an enum with such a value. The model needs the metric "accuracy".

    >>> VerifyMetrics(90).threshold
    90.0
    """

    def __init__(self, accuracy: Any) -> None:
        super().__init__()
        self.threshold = float(getattr(accuracy, "value", accuracy))
        self._last: Logs = {}

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._last = copy.copy(logs or {})

    def _percent(self) -> float:
        for name in ("accuracy", "acc"):
            if name in self._last:
                return 100 * self._last[name]
        raise ValueError(
            f"{type(self).__name__}: no accuracy in {sorted(self._last)}; "
            "compile with metrics=['accuracy']"
        )

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self._percent() < self.threshold:
            raise AssertionError(
                f"VerifyMetrics: accuracy {self._percent():.2f} %, "
                f"expected at least {self.threshold} %"
            )


class EpochVerifyMetrics(VerifyMetrics):
    """FlexFlow's: stops training once the accuracy is above so many percent.

    Args:
        accuracy: percent, or an enum with such a value. The model needs the metric "accuracy".
        early_stop: False to go on all the same.

    >>> EpochVerifyMetrics(90, early_stop=False).early_stop
    False
    """

    def __init__(self, accuracy: Any, early_stop: bool = True) -> None:
        super().__init__(accuracy)
        self.early_stop = boolean(early_stop, "EpochVerifyMetrics: early_stop")

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self.early_stop and self._percent() > self.threshold:
            say(f"Accuracy reaches, now early stop, epoch: {epoch}")
            self.model.stop_training = True

    def on_train_end(self, logs: Logs | None = None) -> None: ...


__all__ = [
    "Callback",
    "CallbackList",
    "EarlyStopping",
    "EpochVerifyMetrics",
    "History",
    "LearningRateScheduler",
    "ProgbarLogger",
    "VerifyMetrics",
]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
