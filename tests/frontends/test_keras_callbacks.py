"""What fit() calls and prints: callbacks, History, progress bar, and the arguments that steer
epochs.
"""

from __future__ import annotations

import io
from enum import Enum
from typing import Any

import numpy as np
import pytest

from flexflow.keras import Sequential, callbacks, layers, optimizers


def model_of_a_line(rate: float = 0.1) -> Sequential:
    model = Sequential([layers.Dense(1, kernel_initializer="zeros", input_shape=(1,))])
    model.compile(optimizers.SGD(rate), "mse", ["mae"])
    return model


X = np.linspace(-1, 1, 12)
Y = 2 * X + 1


class Recorder(callbacks.Callback):
    """Notes every call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name.startswith("on_"):
            return lambda *arguments: self.calls.append((name[3:], *arguments[:-1]))
        return found

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Here so that training goes batch by batch."""

    on_test_batch_end = on_predict_batch_end = on_train_batch_end


def test_the_order_of_calls() -> None:
    recorder = Recorder()
    model_of_a_line().fit(
        X, Y, batch_size=6, callbacks=[recorder], verbose=0, validation_split=0.25
    )
    assert recorder.calls == [
        ("train_begin",),
        ("epoch_begin", 0),
        ("train_batch_begin", 0),
        ("train_batch_end", 0),
        ("train_batch_begin", 1),
        ("train_batch_end", 1),
        ("test_begin",),
        ("test_batch_begin", 0),
        ("test_batch_end", 0),
        ("test_end",),
        ("epoch_end", 0),
        ("train_end",),
    ]
    assert recorder.params == {"epochs": 1, "steps": 2, "verbose": 0}


def test_calls_of_predict_and_evaluate() -> None:
    model, recorder = model_of_a_line(), Recorder()
    model.predict(X, 8, callbacks=[recorder], verbose=0)
    model.evaluate(X, Y, 20, callbacks=[recorder], verbose=0)
    names = [call[0] for call in recorder.calls]
    batch = ["batch_begin", "batch_end"]
    expected = ["predict_begin", *(f"predict_{b}" for b in batch * 2), "predict_end"]
    assert names == [*expected, "test_begin", *(f"test_{b}" for b in batch), "test_end"]


def test_flexflows_names_for_batches_and_its_way_to_stop() -> None:
    class Stop(callbacks.Callback):
        batches = 0

        def on_batch_end(self, batch: int, logs: Any = None) -> None:
            self.batches += 1

        def on_epoch_end(self, epoch: int, logs: Any = None) -> bool:
            return epoch == 1

    stop = Stop()
    history = model_of_a_line().fit(X, Y, batch_size=4, epochs=9, callbacks=[stop], verbose=0)
    assert history.epoch == [0, 1] and stop.batches == 6


def test_stopping_in_the_middle_of_an_epoch() -> None:
    class Stop(callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.stop_training = batch == 1

    model = model_of_a_line()
    assert model.fit(X, Y, batch_size=1, epochs=5, callbacks=[Stop()], verbose=0).epoch == [0]
    # The next fit is not stopped by it.
    assert model.fit(X, Y, epochs=2, verbose=0).epoch == [0, 1]


def test_what_a_callback_adds_to_the_logs_is_kept_and_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Extra(callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            logs["extra"] = 7.5 + epoch

    history = model_of_a_line().fit(X, Y, epochs=2, callbacks=[Extra()])
    assert history.history["extra"] == [7.5, 8.5]
    assert "extra: 8.5000" in capsys.readouterr().out


def test_history_keys_and_epochs() -> None:
    model = model_of_a_line()
    history = model.fit(
        X, Y, epochs=5, initial_epoch=1, validation_data=(X, Y), validation_freq=2, verbose=0
    )
    assert history.epoch == [1, 2, 3, 4] and model.history is history
    assert {name: len(values) for name, values in history.history.items()} == {
        "loss": 4,
        "mae": 4,
        "val_loss": 2,
        "val_mae": 2,
    }
    listed = model.fit(X, Y, epochs=3, validation_split=0.5, validation_freq=[3], verbose=0)
    assert len(listed.history["val_loss"]) == 1


def test_losses_of_an_epoch_are_means_over_it() -> None:
    model = model_of_a_line(rate=0.0)
    history = model.fit(X, Y, batch_size=5, verbose=0).history
    assert history["loss"][0] == pytest.approx(np.square(Y).mean(), rel=1e-6)
    assert history["mae"][0] == pytest.approx(np.abs(Y).mean(), rel=1e-6)


def test_steps_per_epoch_and_validation_steps() -> None:
    recorder, model = Recorder(), model_of_a_line(rate=0.0)
    history = model.fit(
        X, Y, batch_size=2, steps_per_epoch=3, validation_data=(X, Y), validation_steps=2, epochs=2,
        shuffle=False, callbacks=[recorder], verbose=0,
    )  # fmt: skip
    assert sum(call[0] == "train_batch_end" for call in recorder.calls) == 6
    assert history.history["loss"][1] == pytest.approx(np.square(Y[:6]).mean(), rel=1e-6)
    assert history.history["val_loss"][1] == pytest.approx(np.square(Y[:4]).mean(), rel=1e-6)


# ---- the callbacks that there are ----


def test_learning_rate_scheduler() -> None:
    model = model_of_a_line()
    schedule = callbacks.LearningRateScheduler(lambda epoch: [0.1, 0.0, 0.2][epoch])
    history = model.fit(X, Y, epochs=3, callbacks=[schedule], verbose=0).history
    assert history["learning_rate"] == [0.1, 0.0, 0.2] and model.optimizer.lr == 0.2
    assert history["loss"][0] > history["loss"][1] == history["loss"][2]
    halve = callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    assert model.fit(X, Y, epochs=2, callbacks=[halve], verbose=0).history["learning_rate"] == [
        0.1,
        0.05,
    ]


def test_a_learning_rate_set_between_batches_counts_from_the_next() -> None:
    class Freeze(callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 0:
                self.kernel = self.model.get_weights()[0]
                self.model.optimizer.learning_rate = 0.0

    model, freeze = model_of_a_line(), Freeze()
    model.fit(X, Y, batch_size=4, callbacks=[freeze], verbose=0)
    assert freeze.kernel != 0 and model.get_weights()[0] == freeze.kernel


def test_what_a_callback_does_between_batches_does_not_disturb_the_means() -> None:
    class Meddle(callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if self.params["verbose"] == 0:
                self.model.evaluate(X, Y, verbose=0)
                self.model.predict(X[:3], verbose=0)
                self.model.set_weights([np.zeros((1, 1)), np.zeros(1)])

    model = model_of_a_line()
    history = model.fit(X, Y, batch_size=5, epochs=2, callbacks=Meddle(), shuffle=False, verbose=0)
    # Every batch begins with weights of zero, so the loss is that of the labels alone.
    assert history.history["loss"] == pytest.approx([np.square(Y).mean()] * 2, rel=1e-6)
    assert not np.any(model.get_weights()[0])


class Script(callbacks.Callback):
    """Sets the logs of each epoch, and the weight to the epoch's number."""

    def __init__(self, values: list[float]) -> None:
        super().__init__()
        self.values = values

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs["watched"] = self.values[epoch]
        self.model.set_weights([np.full((1, 1), epoch), np.zeros(1)])


@pytest.mark.parametrize(
    ("values", "arguments", "epochs", "best"),
    [
        ([3, 2, 2, 1, 1, 1], {"patience": 2}, 6, 3),
        ([3, 2, 2, 2, 1, 1], {"patience": 2}, 4, 1),
        ([3, 2, 1, 1, 1, 1], {}, 4, 2),
        ([1, 2, 3, 2, 2, 2], {"patience": 2, "mode": "max"}, 5, 2),
        ([3, 2.9, 2.8, 1, 1, 1], {"patience": 2, "min_delta": 0.5}, 3, 0),
        ([6, 5, 4, 3, 2, 1], {"patience": 1}, 6, 5),
        ([3, 4, 2, 5, 6, 7], {"start_from_epoch": 2}, 4, 2),
    ],
)
def test_early_stopping(
    values: list[float], arguments: dict[str, Any], epochs: int, best: int
) -> None:
    stop = callbacks.EarlyStopping("watched", restore_best_weights=True, **arguments)
    model = model_of_a_line()
    history = model.fit(X, Y, epochs=6, callbacks=[Script(values), stop], verbose=0)
    assert len(history.epoch) == epochs and stop.best_epoch == best
    assert model.get_weights()[0] == best


def test_early_stopping_warns_when_there_is_nothing_to_watch() -> None:
    with pytest.warns(UserWarning, match="no 'val_loss' but"):
        model_of_a_line().fit(X, Y, callbacks=[callbacks.EarlyStopping()], verbose=0)


def test_flexflows_verify_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    class Wanted(Enum):
        EASY = 40
        HARD = 101

    model = Sequential([layers.Dense(2, activation="softmax", input_shape=(1,))])
    model.compile("sgd", "sparse_categorical_crossentropy", ["accuracy"])
    labels = (X > 0).astype(int)
    model.set_weights([np.array([[-9.0, 9.0]]), np.zeros(2)])
    model.fit(X, labels, callbacks=[callbacks.VerifyMetrics(Wanted.EASY)], verbose=0)
    with pytest.raises(AssertionError, match=r"accuracy 100.00 %, expected at least 101"):
        model.fit(X, labels, callbacks=[callbacks.VerifyMetrics(Wanted.HARD)], verbose=0)
    history = model.fit(
        X, labels, epochs=5, callbacks=[callbacks.EpochVerifyMetrics(Wanted.EASY)], verbose=0
    )
    assert history.epoch == [0] and "now early stop, epoch: 0" in capsys.readouterr().out
    watch = callbacks.EpochVerifyMetrics(Wanted.EASY, early_stop=False)
    assert len(model.fit(X, labels, epochs=3, callbacks=[watch], verbose=0).epoch) == 3


# ---- what is printed ----


def test_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    model = model_of_a_line()
    model.fit(X, Y, epochs=2, verbose=0, validation_split=0.5)
    model.predict(X, verbose=0)
    assert capsys.readouterr().out == ""
    model.fit(X, Y, batch_size=4, epochs=2, verbose=2, validation_split=0.5)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Epoch 1/2" and len(lines) == 4
    assert lines[1].startswith("2/2 - ") and "━" not in lines[1]
    for name in ("loss: ", "mae: ", "val_loss: ", "val_mae: "):
        assert f" - {name}" in lines[3]
    model.fit(X, Y, batch_size=4, verbose="auto")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and lines[1].startswith("3/3 " + 20 * "━")
    model.evaluate(X, Y)
    assert " - loss: " in capsys.readouterr().out


def test_a_terminal_sees_the_bar_move(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flexflow.keras.progress import Progbar

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    bar = Progbar(10, interval=0)
    bar.show(3, {"loss": 0.5})
    bar.show(6, {"loss": 0.00005})
    bar.finish({"loss": 0.25})
    states = capsys.readouterr().out.split("\r")
    assert len(states) == 3
    assert states[0].startswith(" 3/10 ━━━━━━──────────────") and "loss: 0.5000" in states[0]
    assert "loss: 5.0000e-05" in states[1] and states[2].rstrip("\n ").endswith("loss: 0.2500")


class Unwilling:
    """An output that has nothing but write, which fails."""

    def write(self, text: str) -> int:
        raise BrokenPipeError("closed")


def closed() -> io.StringIO:
    output = io.StringIO()
    output.close()
    return output


@pytest.mark.parametrize("output", [None, Unwilling(), closed()], ids=["none", "pipe", "closed"])
def test_output_that_fails_does_not_end_training(
    output: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of_a_line()
    stop = callbacks.EarlyStopping("loss", verbose=1, min_delta=1e9, restore_best_weights=True)
    rate = callbacks.LearningRateScheduler(lambda epoch: 0.1, verbose=1)
    monkeypatch.setattr("sys.stdout", output)
    history = model.fit(X, Y, epochs=3, callbacks=[stop, rate])
    model.evaluate(X, Y)
    model.predict(X)
    model.summary()
    monkeypatch.undo()
    assert history.epoch == [0, 1]


def test_an_output_of_ascii_shows_another_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.TextIOWrapper(io.BytesIO(), "ascii")
    model = model_of_a_line()
    monkeypatch.setattr("sys.stdout", output)
    model.fit(X, Y)
    monkeypatch.undo()
    output.seek(0)
    assert "1/1 ====================" in output.read()


def test_logs_that_are_no_numbers_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    class Note(callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            logs["note"] = "good"

    model_of_a_line().fit(X, Y, callbacks=[Note()])
    assert " - note: good" in capsys.readouterr().out
