"""Trains with callbacks: a schedule for the learning rate, early stopping, and one of its own.

python -m examples.python.keras.callback [-e EPOCHS] [-b BATCH_SIZE]
"""

import sys
from typing import Any

from flexflow.core import FFConfig
from flexflow.keras import Sequential, layers, optimizers
from flexflow.keras.callbacks import Callback, EarlyStopping, LearningRateScheduler
from flexflow.keras.datasets import digits


class Best(Callback):
    """Adds the best validation accuracy so far to the logs, for the bar and the History to see."""

    best = 0.0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.best = max(self.best, logs["val_accuracy"])
        logs["best"] = self.best


def main() -> None:
    config = FFConfig()
    epochs = config.epochs if config.given("epochs") else 30
    (x_train, y_train), (x_test, y_test) = digits.load_data()
    x_train, x_test = (x[..., None] / 16.0 for x in (x_train, x_test))
    model = Sequential(
        [
            layers.Conv2D(16, 3, activation="relu", input_shape=(8, 8, 1)),
            layers.AveragePooling2D(padding="same"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ]
    )
    optimizer = optimizers.SGD(0.05, momentum=0.9, nesterov=True)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(
        x_train,
        y_train,
        epochs=epochs,
        validation_split=0.15,
        callbacks=[
            LearningRateScheduler(lambda epoch: 0.05 if epoch < 10 else 0.01),
            EarlyStopping("val_loss", patience=4, restore_best_weights=True, verbose=1),
            Best(),
        ],
    )
    print(f"{len(history.epoch)} epochs, learning rates {set(history.history['learning_rate'])}")
    loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
    print(f"held-out test: loss {loss:.4f}, accuracy {accuracy:.4f}")
    if len(sys.argv) == 1:  # by default; flags may ask for less
        assert accuracy >= 0.9


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
