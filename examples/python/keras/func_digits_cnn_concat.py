"""Trains a network of two branches and two inputs on UCI's handwritten digits.

    python -m examples.python.keras.func_digits_cnn_concat [-e EPOCHS] [-b BATCH_SIZE]

The functional way: a model within the model, which both inputs go through with the same weights;
branches that are concatenated; and a second model that looks at a layer in the middle.
"""

import sys

import numpy as np

from flexflow.core import FFConfig
from flexflow.keras import Input, Model, layers, utils
from flexflow.keras.datasets import digits


def branches() -> Model:
    """Two convolutions of different windows, side by side."""
    image = Input((8, 8, 1))
    small = layers.Conv2D(8, 3, padding="same", activation="relu")(image)
    large = layers.Conv2D(8, 5, padding="same", activation="relu")(image)
    both = layers.concatenate([small, large])
    return Model(image, layers.MaxPooling2D()(both), name="branches")


def build() -> Model:
    """Probabilities of ten digits from an image and its mirror image."""
    image, mirrored = Input((8, 8, 1), name="image"), Input((8, 8, 1), name="mirrored")
    shared = branches()
    x = layers.Add()([shared(image), shared(mirrored)])
    x = layers.BatchNormalization(momentum=0.9)(layers.Conv2D(32, 3, activation="relu")(x))
    features = layers.GlobalAveragePooling2D(name="features")(x)
    return Model([image, mirrored], layers.Dense(10, activation="softmax")(features))


def views(x: np.ndarray) -> dict[str, np.ndarray]:
    image = x[..., None] / 16.0
    return {"image": image, "mirrored": image[:, :, ::-1]}


def main() -> None:
    config = FFConfig()
    epochs = config.epochs if config.given("epochs") else 10
    utils.set_random_seed(1)
    (x_train, y_train), (x_test, y_test) = digits.load_data()
    model = build()
    model.summary(expand_nested=True)
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
    model.fit(views(x_train), utils.to_categorical(y_train, 10), epochs=epochs, verbose=2)
    loss, accuracy = model.evaluate(views(x_test), utils.to_categorical(y_test, 10), verbose=0)
    print(f"held-out test: loss {loss:.4f}, accuracy {accuracy:.4f}")
    if len(sys.argv) == 1:  # by default; flags may ask for less
        assert accuracy >= 0.9

    # It shares the layers, so it needs no training of its own.
    features = Model(model.inputs, model.get_layer("features").output)
    found = features.predict(views(x_test), verbose=0)
    centres = np.stack([found[y_test == digit].mean(0) for digit in range(10)])
    nearest = np.square(found[:, None] - centres).sum(-1).argmin(1)
    print(f"by the nearest mean of {found.shape[1]} features: {(nearest == y_test).mean():.4f}")


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
