"""Trains a convolutional network on UCI's handwritten digits, 8 x 8, which come with scikit-learn.

    python -m examples.python.keras.digits_cnn [-e EPOCHS] [-b BATCH_SIZE]

Prints a progress bar with loss and accuracy for every epoch, and the accuracy on digits that were
held out.
"""

import sys

from flexflow.core import FFConfig
from flexflow.keras import Input, Sequential, layers, utils
from flexflow.keras.datasets import digits


def build() -> Sequential:
    """Two convolutions, normalised and pooled, and a dense layer: images to probabilities.

    An epoch has few batches here, so the moving statistics follow faster than by default.
    """
    return Sequential(
        [
            Input((8, 8, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.BatchNormalization(momentum=0.9),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.BatchNormalization(momentum=0.9),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(10, activation="softmax"),
        ]
    )


def main() -> None:
    config = FFConfig()
    epochs = config.epochs if config.given("epochs") else 15
    utils.set_random_seed(1)
    (x_train, y_train), (x_test, y_test) = digits.load_data()
    x_train, x_test = (x[..., None] / 16.0 for x in (x_train, x_test))

    model = build()
    model.summary()
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x_train, y_train, epochs=epochs, validation_split=0.1)
    loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
    print(f"held-out test: loss {loss:.4f}, accuracy {accuracy:.4f} on {len(x_test)} digits")
    if len(sys.argv) == 1:  # by default; flags may ask for less
        assert accuracy >= 0.97, f"test accuracy {accuracy:.4f}, expected at least 0.97"


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
