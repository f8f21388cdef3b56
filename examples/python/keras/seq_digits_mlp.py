"""Trains a multi-layer perceptron on UCI's handwritten digits.

    python -m examples.python.keras.seq_digits_mlp [-e EPOCHS] [-b BATCH_SIZE]

FlexFlow's seq_mnist_mlp on data that need no download.
"""

import sys

from flexflow.core import FFConfig
from flexflow.keras import Sequential, initializers, layers, optimizers
from flexflow.keras.callbacks import EpochVerifyMetrics, VerifyMetrics
from flexflow.keras.datasets import digits

ACCURACY = 95  # per cent, in training


def main() -> None:
    config = FFConfig()
    epochs = config.epochs if config.given("epochs") else 20
    (x_train, y_train), (x_test, y_test) = digits.load_data()
    x_train, x_test = (x.reshape(len(x), 64) / 16.0 for x in (x_train, x_test))

    model = Sequential()
    model.add(
        layers.Dense(
            128,
            activation="relu",
            input_shape=(64,),
            kernel_initializer=initializers.GlorotUniform(123),
            bias_initializer=initializers.Zeros(),
        )
    )
    model.add(layers.Dropout(0.2))
    model.add(layers.Dense(128, activation="relu"))
    model.add(layers.Dropout(0.2))
    model.add(layers.Dense(10))
    model.add(layers.Activation("softmax"))

    optimizer = optimizers.SGD(learning_rate=0.05, momentum=0.9)
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.summary()
    # Stops once the accuracy is reached, and fails if by default it never is.
    callbacks = [EpochVerifyMetrics(ACCURACY)]
    if len(sys.argv) == 1:
        callbacks.insert(0, VerifyMetrics(ACCURACY))
    model.fit(x_train, y_train, epochs=epochs, batch_size=config.batch_size, callbacks=callbacks)
    loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
    print(f"held-out test: loss {loss:.4f}, accuracy {accuracy:.4f}")
    if len(sys.argv) == 1:  # by default; flags may ask for less
        assert accuracy >= 0.9


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
