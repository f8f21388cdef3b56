"""The shortest useful program: arrays in, a trained classifier and its predictions out.

    python -m examples.python.native.digits_mlp [-e EPOCHS] [-b BATCH_SIZE]

Trains on UCI's handwritten digits, 8 x 8, which come with scikit-learn.
"""

import sys

import numpy as np

from flexflow.core import *
from flexflow.keras.datasets import digits


def main() -> None:
    config = FFConfig()
    epochs = config.epochs if config.given("epochs") else 30
    (x_train, y_train), (x_test, y_test) = digits.load_data()
    x_train, x_test = (x.reshape(len(x), 64) / 16 for x in (x_train, x_test))

    ffmodel = FFModel(config)
    x = ffmodel.create_tensor([config.batch_size, 64], DataType.DT_FLOAT)
    hidden = ffmodel.dropout(ffmodel.dense(x, 128, ActiMode.AC_MODE_RELU), 0.2)
    ffmodel.softmax(ffmodel.dense(hidden, 10))
    ffmodel.compile(
        AdamOptimizer(ffmodel, alpha=0.003),
        LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
        [MetricsType.METRICS_ACCURACY],
    )
    history = ffmodel.fit(x_train, y_train, epochs=epochs, shuffle=True)
    print(f"the loss went from {history[0].loss:.3f} to {history[-1].loss:.3f}")

    right = np.mean(ffmodel.predict(x_test).argmax(1) == y_test)
    print(f"{100 * right:.2f} % of {len(y_test)} held-out digits are right")
    if len(sys.argv) == 1:  # by default; flags may ask for less
        assert right >= 0.95, f"{right} of the held-out digits are right, expected 0.95"


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
