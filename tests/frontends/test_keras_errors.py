# ruff: noqa: E501 -- tables with a row a line
"""What a user of flexflow.keras is told: a row for each bad input. A message names the thing, what
came and what to do.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flexflow.core import FlexFlowError
from flexflow.keras import (
    Input,
    Model,
    Sequential,
    activations,
    backend,
    callbacks,
    datasets,
    initializers,
    layers,
    losses,
    metrics,
    optimizers,
    regularizers,
    utils,
)
from flexflow.keras.optimizers import schedules

X, Y = np.zeros((6, 4)), np.zeros((6, 3))
IDS = np.zeros(6, int)


def model(loss: Any = "mse", measured: Any = None, activation: Any = None) -> Sequential:
    made = Sequential(
        [layers.Dense(3, activation=activation, input_shape=(4,), name="d")], name="m"
    )
    made.compile("sgd", loss, measured)
    return made


def nan(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array[2] = np.nan
    return array


def disconnected() -> Any:
    a, b = Input((4,), name="a"), Input((4,), name="b")
    return Model(a, layers.Add()([a, b]))


def twice_named() -> Any:
    a = Input((4,))
    return Model(a, layers.Dense(2, name="x")(layers.Dense(2, name="x")(a)))


def two_outputs() -> Model:
    a = Input((4,))
    return Model(a, [layers.Dense(2)(a), layers.Dense(2)(a)])


def another_width() -> Any:
    layer = layers.Dense(2)
    layer(Input((4,)))
    return layer(Input((5,)))


def ids_out_of_range() -> Any:
    made = Sequential([layers.Embedding(10, 2, input_length=3)])
    return made.predict(np.full((2, 3), 10), verbose=0)


def fit(**arguments: Any) -> Any:
    return model().fit(X, Y, verbose=0, **arguments)


Row = tuple[Callable[[], Any], type[Exception], str]
LAYERS: dict[str, Row] = {
    "units": (lambda: layers.Dense(0), ValueError, r"Dense '.*': units=0, expected a whole number above 0"),
    "units of a fraction": (lambda: layers.Dense(2.5), ValueError, "units=2.5"),
    "activation": (lambda: layers.Dense(2, "rellu"), ValueError, r"activation 'rellu' is unknown; known are .*relu"),
    "a function as activation": (lambda: layers.Dense(2, abs), NotImplementedError, "give a name"),
    "initializer": (lambda: layers.Dense(2, kernel_initializer="x")(Input((2,))), ValueError, "kernel_initializer='x'"),
    "regularizer": (lambda: layers.Dense(2, kernel_regularizer=abs)(Input((2,))), NotImplementedError, "only L1"),
    "constraint": (lambda: layers.Dense(2, kernel_constraint="nonneg"), NotImplementedError, "kernel_constraint='nonneg'"),
    "unknown argument": (lambda: layers.Dense(2, unit=3), TypeError, "Dense: unknown argument 'unit'"),
    "dtype": (lambda: layers.Dense(2, dtype="float16"), NotImplementedError, "dtype='float16' is not supported yet"),
    "input_shape": (lambda: layers.Dense(2, input_shape=(4, None)), ValueError, "expected whole numbers above 0"),
    "batch size": (lambda: layers.Dense(2, batch_input_shape=(8, 4)), NotImplementedError, "the batch is free"),
    "Input without shape": (lambda: Input(), ValueError, "shape is missing"),
    "Input of a batch size": (lambda: Input((4,), batch_size=8), NotImplementedError, "batch_size=8"),
    "Input of a dtype": (lambda: Input((4,), dtype="complex64"), NotImplementedError, "complex64"),
    "rank of images": (lambda: layers.Conv2D(2, 3)(Input((8, 8))), ValueError, r"shape \(None, 8, 8\), expected 4 axes"),
    "kernel_size": (lambda: layers.Conv2D(2, (3, 3, 3)), ValueError, r"kernel_size=\(3, 3, 3\)"),
    "strides": (lambda: layers.Conv2D(2, 3, strides=0), ValueError, "strides=0"),
    "padding": (lambda: layers.Conv2D(2, 3, padding="full"), ValueError, "padding='full', expected 'valid', 'same'"),
    "data_format": (lambda: layers.Conv2D(2, 3, data_format="NHWC"), ValueError, "data_format='NHWC'"),
    "groups and filters": (lambda: layers.Conv2D(3, 3, groups=2), ValueError, "groups=2 does not divide filters=3"),
    "groups and channels": (
        lambda: layers.Conv2D(4, 3, groups=2)(Input((8, 8, 3))), ValueError, "does not divide the 3 channels"
    ),
    "axes in the other order": (
        lambda: layers.Conv2D(2, 5)(Input((1, 28, 28))), ValueError, "larger than the image.*set_image_data_format"
    ),
    "pool larger than the image": (lambda: layers.MaxPooling2D(9)(Input((8, 8, 1))), ValueError, "larger than the image"),
    "dropout rate": (lambda: layers.Dropout(1.0), ValueError, "rate: got 1.0, expected a finite number of at least 0 and below 1"),
    "dropout rate as text": (lambda: layers.Dropout("0.5"), TypeError, "rate: got '0.5', expected a finite number"),
    "use_bias": (lambda: layers.Dense(2, use_bias="no"), TypeError, "Dense '.*': use_bias: got 'no', expected True or False"),
    "use_bias of images": (lambda: layers.Conv2D(2, 3, use_bias="no"), TypeError, "use_bias: got 'no'"),
    "trainable": (lambda: layers.Dense(2, trainable="no"), TypeError, "trainable: got 'no', expected True or False"),
    "trainable set": (lambda: setattr(layers.Dense(2), "trainable", "no"), TypeError, "trainable: got 'no'"),
    "trainable of a model": (lambda: setattr(model(), "trainable", "no"), TypeError, "'m': trainable: got 'no'"),
    "center": (lambda: layers.BatchNormalization(center="no"), TypeError, "center: got 'no'"),
    "scale": (lambda: layers.LayerNormalization(scale="no"), TypeError, "scale: got 'no'"),
    "epsilon": (lambda: layers.LayerNormalization(epsilon=0), ValueError, "epsilon=0, expected a number above 0"),
    "epsilon as text": (lambda: layers.BatchNormalization(epsilon="x"), TypeError, "epsilon: got 'x'"),
    "keepdims": (lambda: layers.GlobalAveragePooling2D(keepdims="no"), TypeError, "keepdims: got 'no'"),
    "units as text": (lambda: layers.Dense("abc"), ValueError, "units='abc', expected a whole number"),
    "units of nothing": (lambda: layers.Dense(float("nan")), ValueError, "units=nan, expected a whole number"),
    "slope as text": (lambda: layers.LeakyReLU("0.1"), TypeError, "negative_slope: got '0.1'"),
    "dropout seed": (lambda: layers.Dropout(0.5, seed=-1), ValueError, "seed=-1"),
    "dropout noise_shape": (lambda: layers.Dropout(0.5, (1, 2)), NotImplementedError, "noise_shape"),
    "momentum": (lambda: layers.BatchNormalization(momentum=2), ValueError, "momentum: got 2, expected .* at most 1"),
    "axis of the batch": (lambda: layers.BatchNormalization(0)(Input((4,))), ValueError, "axis=0"),
    "axis in the middle": (
        lambda: layers.BatchNormalization(2)(Input((4, 5, 6))), NotImplementedError, "in the middle"
    ),
    "axes of layer norm": (lambda: layers.LayerNormalization(1)(Input((4, 5))), ValueError, "expected the last"),
    "reshape": (lambda: layers.Reshape((3, -1))(Input((4,))), ValueError, r"has 4 numbers, which do not fit"),
    "reshape with the batch": (lambda: layers.Reshape((-1, -1)), ValueError, "at most one of them -1"),
    "FlexFlow's permute": (lambda: layers.Permute((0, 2, 1)), ValueError, "the batch is left out"),
    "rank of permute": (lambda: layers.Permute((2, 1))(Input((4,))), ValueError, "expected 1 axes"),
    "add of one": (lambda: layers.Add()([Input((4,))]), ValueError, "got 1 inputs, expected a list of at least 2"),
    "subtract of three": (lambda: layers.subtract([Input((4,))] * 3), ValueError, "got 3 inputs, expected a list of 2"),
    "add of other sizes": (lambda: layers.add([Input((4,)), Input((3,))]), ValueError, "each axis to have one size"),
    "add of other ranks": (lambda: layers.add([Input((4,)), Input((4, 1))]), ValueError, "equally many axes"),
    "concatenate": (lambda: layers.concatenate([Input((4, 2)), Input((3, 2))]), ValueError, "differ in axis 2 only"),
    "concatenate of the batch": (lambda: layers.concatenate([Input((4,))] * 2, 0), ValueError, "axis=0"),
    "mask_zero": (lambda: layers.Embedding(3, 2, mask_zero=True), NotImplementedError, "mask_zero"),
    "two inputs for one": (lambda: layers.Dense(2)([Input((4,)), Input((4,))]), ValueError, "got 2 inputs, expected one"),
    "another width": (another_width, ValueError, "expected 4 on axis 1, which the weights were built for"),
    "an array for a tensor": (lambda: layers.Dense(2)(X), TypeError, "called on ndarray"),
    "training=True": (lambda: layers.Dropout(0.5)(Input((4,)), training=True), NotImplementedError, "training=True"),
    "call argument": (lambda: layers.Dense(2)(Input((4,)), mask=1), NotImplementedError, "call argument 'mask'"),
    "weights of another shape": (
        lambda: model().set_weights([np.zeros((3, 4)), np.zeros(3)]), ValueError, r"\(3, 4\) for d/kernel, expected \(4, 3\)"
    ),
    "too few weights": (lambda: model().set_weights([]), ValueError, "got 0 arrays, expected 2"),
    "weights not built": (lambda: layers.Dense(2).count_params(), ValueError, "not built yet"),
    "a tensor as an array": (lambda: np.asarray(Input((4,))), TypeError, "has no numbers"),
}  # fmt: skip

MODELS: dict[str, Row] = {
    "disconnected": (disconnected, ValueError, r"graph disconnected: .* Input 'b'.*inputs=\['a'\]"),
    "no outputs": (lambda: Model(Input((4,)), []), ValueError, "outputs is empty"),
    "an input twice": (lambda: Model([a := Input((4,)), a], a), ValueError, "given twice"),
    "an array as input": (lambda: Model(X, Input((4,))), TypeError, "expected what Input"),
    "names twice": (twice_named, ValueError, "two layers have the name 'x'"),
    "a model of one's own": (lambda: type("Mine", (Model,), {})(), NotImplementedError, "call\\(\\) of one's own"),
    "a model of one's own, prepared": (
        lambda: type("Mine", (Model,), {"__init__": lambda self: Model.__init__(self)})(), NotImplementedError, "one's own"
    ),
    "weights of a Sequential without a shape": (
        lambda: Sequential([layers.Dense(2)]).get_weights(), ValueError, "not built yet"
    ),
    "name": (lambda: layers.Dense(2, name=3), TypeError, "name=3, expected a string"),
    "running two outputs": (lambda: two_outputs().predict(X), NotImplementedError, "2 outputs"),
    "compiling two outputs": (lambda: two_outputs().compile("sgd", "mse"), NotImplementedError, "2 outputs"),
    "shape of a nested model": (lambda: model()(Input((5,))), ValueError, r"shapes \[\(None, 5\)\], expected"),
    "get_layer by name": (lambda: model().get_layer("x"), ValueError, r"no layer 'x'; there are \['d'\]"),
    "get_layer by index": (lambda: model().get_layer(index=3), ValueError, "no layer 3"),
    "get_layer by nothing": (lambda: model().get_layer(), ValueError, "expected one of them"),
    "no layer in a Sequential": (lambda: Sequential([3]), TypeError, "got 3, expected a layer"),
    "a layer twice": (lambda: Sequential([d := layers.Dense(2), d]), ValueError, "in the model already"),
    "Input behind": (lambda: Sequential([layers.Dense(2), Input((4,))]), ValueError, "expected it in front"),
    "pop of nothing": (lambda: Sequential().pop(), ValueError, "no layer to pop"),
    "not built": (lambda: Sequential([layers.Dense(2)]).summary(), ValueError, "not built yet"),
    "input of a shared layer": (lambda: [d := layers.Dense(2), d(Input((4,))), d(Input((4,))), d.input], AttributeError, "called 2 times"),
    "summary positions": (lambda: model().summary(positions=[1.0]), NotImplementedError, "positions"),
}  # fmt: skip

COMPILE: dict[str, Row] = {
    "optimizer": (lambda: model().compile("sgdd", "mse"), ValueError, "optimizer 'sgdd' is unknown"),
    "no optimizer": (lambda: model().compile(loss="mse"), ValueError, "m.compile: give an optimizer: the default of Keras, 'rmsprop', is not.*known are 'sgd' and 'adam'"),
    "Keras's default optimizer": (lambda: model().compile("rmsprop", "mse"), ValueError, "'rmsprop' is unknown.*known are 'sgd' and 'adam'"),
    "optimizer object": (lambda: model().compile(3, "mse"), TypeError, "optimizer=3"),
    "loss": (lambda: model("mze"), ValueError, "loss 'mze' is unknown"),
    "a function as loss": (lambda: model(abs), NotImplementedError, "loss="),
    "losses by output": (lambda: model(["mse"]), NotImplementedError, "one name or object"),
    "classes of one value": (
        lambda: Sequential([layers.Dense(1, input_shape=(2,))]).compile("sgd", "categorical_crossentropy"),
        ValueError, "'binary_crossentropy'",
    ),
    "metric": (lambda: model(measured=["acuracy"]), ValueError, "metric 'acuracy' is unknown"),
    "metrics of a string": (lambda: model(measured="accuracy"), TypeError, "expected a list"),
    "metrics of one name": (lambda: model(measured=["mae", "mae"]), ValueError, "distinct"),
    "metric for ids": (lambda: model(measured=["sparse_categorical_accuracy"]), ValueError, "class ids"),
    "metric for values": (lambda: model("sparse_categorical_crossentropy", ["mse"]), ValueError, "one-hot"),
    "metric without labels": (lambda: model("identity", ["mse"]), ValueError, "needs labels"),
    "binary of several": (lambda: model(measured=["binary_accuracy"]), NotImplementedError, "only for one value"),
    "metrics without a loss": (lambda: model(None, ["mse"]), ValueError, "without a loss"),
    "loss_weights": (lambda: model().compile("sgd", "mse", loss_weights=[1]), NotImplementedError, "loss_weights"),
    "run_eagerly": (lambda: model().compile("sgd", "mse", run_eagerly=True), NotImplementedError, "run_eagerly"),
    "reduction": (lambda: losses.MeanSquaredError("sum"), NotImplementedError, "reduction='sum'"),
    "ignore_class": (lambda: losses.SparseCategoricalCrossentropy(ignore_class=0), NotImplementedError, "ignore_class"),
    "label_smoothing": (lambda: losses.BinaryCrossentropy(label_smoothing=0.1), NotImplementedError, "label_smoothing"),
    "threshold": (lambda: metrics.BinaryAccuracy(threshold=0.3), NotImplementedError, "threshold"),
    "state of LSTM": (lambda: layers.LSTM(3, return_state=True), NotImplementedError, "return_state=True"),
    "activation of LSTM": (lambda: layers.LSTM(3, "relu"), NotImplementedError, "activation='relu'"),
    "dropout of LSTM": (lambda: layers.LSTM(3, dropout=0.2), NotImplementedError, "dropout=0.2"),
    "LSTM of rows": (lambda: layers.LSTM(3)(Input((4,))), ValueError, r"expected 3 axes \(batch, steps, features\)"),
    "orthogonal bias": (lambda: initializers.Orthogonal()((4,)), ValueError, r"got the shape \(4,\), expected a matrix"),
    "normalized dot": (lambda: layers.Dot(1, normalize=True), NotImplementedError, "normalize=True"),
    "dot of one": (lambda: layers.Dot(1)([Input((4,))]), ValueError, "got 1 inputs, expected a list of 2"),
    "dot of sizes": (lambda: layers.Dot(1)([Input((4,)), Input((5,))]), ValueError, r"expected equal sizes on the axes \(1, 1\)"),
    "dot over the batch": (lambda: layers.Dot(0)([Input((4,)), Input((4,))]), ValueError, "axis=0"),
    "axes of dot": (lambda: layers.Dot((1, 1, 1)), ValueError, r"axes=\(1, 1, 1\), expected an axis or a pair"),
    "no equation": (lambda: layers.EinsumDense("abc", 3), ValueError, "equation='abc', expected one like"),
    "dots": (lambda: layers.EinsumDense("...x,xy->...y", 3), NotImplementedError, "'...' is not supported yet"),
    "axes of a bias": (lambda: layers.EinsumDense("ab,bc->ac", 3, bias_axes="b"), ValueError, "bias_axes='b', expected some of 'c'"),
    "equation of another rank": (lambda: layers.EinsumDense("ab,bc->ac", 3)(Input((4, 5))), ValueError, "does not fit an input of"),
    "size of an axis": (lambda: layers.EinsumDense("abc,cd->abd", (9, 3))(Input((4, 5))), ValueError, "has 9 for axis 'b', which has 4"),
    "unknown size": (lambda: layers.EinsumDense("ab,bc->ac", (None,))(Input((4,))), ValueError, r"nothing says the size of the axes \['c'\]"),
    "learning rate": (lambda: optimizers.SGD(-1), ValueError, "learning_rate=-1"),
    "a schedule": (lambda: optimizers.SGD(lambda step: 0.1), NotImplementedError, "optimizers.schedules"),
    "learning rate set": (lambda: setattr(optimizers.Adam(), "learning_rate", None), ValueError, "learning_rate=None"),
    "nesterov": (lambda: optimizers.SGD(nesterov=True), ValueError, "needs a momentum"),
    "decay and momentum": (lambda: optimizers.SGD(0.1, 0.9, weight_decay=0.1), NotImplementedError, "weight_decay"),
    "decay of Adam": (lambda: optimizers.Adam(weight_decay=0.1), NotImplementedError, "weight_decay"),
    "amsgrad": (lambda: optimizers.Adam(amsgrad=True), NotImplementedError, "amsgrad"),
    "clipnorm": (lambda: optimizers.Adam(clipnorm=1.0), NotImplementedError, "clipnorm=1.0, .*use global_clipnorm"),
    "global_clipnorm": (lambda: optimizers.SGD(global_clipnorm=0), ValueError, "global_clipnorm=0, expected a number above 0"),
    "initial rate": (lambda: schedules.ExponentialDecay(-1, 10, 0.5), ValueError, "ExponentialDecay: initial_learning_rate"),
    "end rate": (lambda: schedules.PolynomialDecay(0.1, 10, -1), ValueError, "PolynomialDecay: end_learning_rate"),
    "decay_steps": (lambda: schedules.CosineDecay(0.1, 0), ValueError, "decay_steps"),
    "warm-up without a target": (lambda: schedules.CosineDecay(0.1, 9, warmup_steps=3), ValueError, "warmup_target=None with warmup_steps=3"),
    "warm-up without steps": (lambda: schedules.CosineDecay(0.1, 9, warmup_target=1.0), ValueError, "warmup_target=1.0 with warmup_steps=0"),
    "values of pieces": (lambda: schedules.PiecewiseConstantDecay([3], [0.1]), ValueError, "1 values for 1 boundaries"),
    "rate of a schedule": (lambda: setattr(optimizers.SGD(schedules.CosineDecay(0.1, 9)), "learning_rate", 1), TypeError, "follows <CosineDecay"),
    "schedule for a rate": (lambda: setattr(optimizers.SGD(), "lr", schedules.CosineDecay(0.1, 9)), TypeError, r"compile with SGD"),
    "optimizer argument": (lambda: optimizers.SGD(rate=1), TypeError, "unknown argument 'rate'"),
    "from_logits": (lambda: losses.BinaryCrossentropy(from_logits="yes"), TypeError, "BinaryCrossentropy: from_logits: got 'yes'"),
    "from_logits of ids": (lambda: losses.SparseCategoricalCrossentropy("yes"), TypeError, "from_logits: got 'yes'"),
    "smoothing as text": (lambda: losses.CategoricalCrossentropy(label_smoothing="x"), TypeError, "label_smoothing: got 'x'"),
    "nesterov as text": (lambda: optimizers.SGD(0.1, 0.9, nesterov="no"), TypeError, "nesterov: got 'no'"),
    "beta": (lambda: optimizers.Adam(beta_1=1.0), ValueError, "beta_1=1.0"),
}  # fmt: skip

RUN: dict[str, Row] = {
    "fit before compile": (lambda: Sequential([layers.Dense(3, input_shape=(4,))]).fit(X, Y), FlexFlowError, "comes first"),
    "width of x": (lambda: model().fit(np.zeros((6, 5)), Y), ValueError, r"input 'm_input': got shape \(6, 5\), expected \(samples, 4\)"),
    "no batch axis": (lambda: model().predict(np.zeros(4)), ValueError, r"got shape \(4,\)"),
    "shape of y": (lambda: model().fit(X, np.zeros((6, 2))), ValueError, r"y has the shape \(6, 2\).*expects \(samples, 3\)"),
    "ids for one-hot": (lambda: model("categorical_crossentropy").fit(X, IDS), ValueError, "sparse_categorical_crossentropy"),
    "one label for several values": (lambda: model("binary_crossentropy", activation="sigmoid").fit(X, np.zeros(6)), ValueError, r"\(samples, 3\); for one label a sample let"),
    "one number for several values": (lambda: model().fit(X, np.zeros(6)), ValueError, r"\(samples, 3\); for one label a sample let"),
    "one-hot for ids": (lambda: model("sparse_categorical_crossentropy").fit(X, Y), ValueError, "'categorical_crossentropy'"),
    "fractions for ids": (lambda: model("sparse_categorical_crossentropy").fit(X, IDS + 0.5), ValueError, "fractions"),
    "ids out of range": (
        lambda: model("sparse_categorical_crossentropy", activation="softmax").fit(X, IDS + 3, verbose=0), ValueError, "3"
    ),
    "ids of an embedding out of range": (ids_out_of_range, ValueError, "10"),
    "numbers of samples": (lambda: model().fit(X, Y[:5]), ValueError, "6 samples and y 5"),
    "no samples": (lambda: model().fit(X[:0], Y[:0]), ValueError, "no samples"),
    "y missing": (lambda: model().fit(X), ValueError, "y is missing"),
    "x missing": (lambda: model().fit(), TypeError, "x is NoneType"),
    "x of NaN": (lambda: model().fit(nan(X), Y), ValueError, "x has NaN or infinity in 1 of 6 samples, the first is 2"),
    "y of NaN": (lambda: model().evaluate(X, nan(Y)), ValueError, "y has NaN"),
    "x of strings": (lambda: model().predict(np.full((6, 4), "a")), TypeError, "values of type <U1"),
    "x of unequal rows": (lambda: model().predict([[1, 2, 3, 4], [1]]), ValueError, "makes no array"),
    "a generator": (lambda: model().fit(iter([X])), TypeError, "x is list_iterator, expected an array of real numbers.*equally long lists.*generators"),
    "a generator before the shape is known": (lambda: Sequential([layers.Dense(2)]).predict(iter([X])), TypeError, "expected an array of real numbers"),
    "pairs of samples": (lambda: model().fit(list(zip(X, Y))), ValueError, "makes no array.*Expected an array of real numbers"),
    "an object": (lambda: model().fit(object(), Y), TypeError, "x is object.*equally long lists"),
    "two arrays for one": (lambda: model().predict([X, X]), ValueError, "x"),
    "one list for two": (
        lambda: Model([a := Input((4,), name="a"), b := Input((4,), name="b")], a + b).predict([X]),
        ValueError, r"x is list of 1, expected a list of 2 arrays, for the inputs \['a', 'b'\]",
    ),
    "one array for two": (
        lambda: Model([a := Input((4,), name="a"), b := Input((4,), name="b")], a + b).predict(X),
        ValueError, r"x is ndarray, expected a list of 2 arrays, for the inputs \['a', 'b'\]",
    ),
    "names of a dict": (lambda: model().predict({"z": X}), ValueError, r"arrays for \['z'\], expected \['m_input'\]"),
    "sample_weight": (lambda: fit(sample_weight=np.ones(6)), NotImplementedError, r"sample_weight=<ndarray of shape \(6,\)> is not supported yet"),
    "a long sample_weight": (lambda: fit(sample_weight=[1.0] * 60), NotImplementedError, "sample_weight=<list of 60> is not"),
    "class_weight": (lambda: fit(class_weight={0: 1.0}), NotImplementedError, "class_weight"),
    "batch_size": (lambda: fit(batch_size=0), ValueError, "batch_size=0, expected a whole number above 0"),
    "epochs": (lambda: fit(epochs=-1), ValueError, "epochs=-1"),
    "verbose": (lambda: model().fit(X, Y, verbose=3), ValueError, "verbose=3, expected 0, 1, 2 or 'auto'"),
    "shuffle": (lambda: fit(shuffle="batch"), NotImplementedError, "shuffle='batch'"),
    "validation_split": (lambda: fit(validation_split=1.5), ValueError, "validation_split=1.5"),
    "validation_split as text": (lambda: fit(validation_split="0.5"), TypeError, "validation_split: got '0.5'"),
    "validation_batch_size": (
        lambda: fit(validation_split=0.5, validation_batch_size=0), ValueError, "validation_batch_size=0, expected a whole number above 0"
    ),
    "steps_per_epoch of True": (lambda: fit(steps_per_epoch=True), ValueError, "steps_per_epoch=True, expected 1 to 1"),
    "validation_freq of a fraction": (lambda: fit(validation_split=0.5, validation_freq=1.5), ValueError, "validation_freq=1.5"),
    "validation_freq as text": (lambda: fit(validation_split=0.5, validation_freq="2"), ValueError, "validation_freq='2', expected"),
    "validation_freq of texts": (lambda: fit(validation_freq=["2"]), ValueError, r"validation_freq=\['2'\], expected"),
    "return_dict": (lambda: model().evaluate(X, Y, verbose=0, return_dict="no"), TypeError, "return_dict: got 'no'"),
    "labels beyond class ids": (
        lambda: model("sparse_categorical_crossentropy").fit(X, IDS + 1e30), ValueError, r"y holds 1e\+30, and loss .* expects class ids"
    ),
    "labels that are no probabilities": (
        lambda: model("categorical_crossentropy", activation="softmax").fit(X, Y + 5), ValueError, "y holds values from 5 to 5, .*from 0 to 1"
    ),
    "labels below 0": (
        lambda: model("binary_crossentropy", activation="sigmoid").evaluate(X, Y - 1), ValueError, "y holds values from -1 to -1"
    ),
    "split leaves nothing": (lambda: model().fit(X[:1], Y[:1], validation_split=0.9), ValueError, "leaves 0 for training"),
    "validation_data": (lambda: fit(validation_data=X), ValueError, "expected a pair"),
    "validation weights": (lambda: fit(validation_data=(X, Y, X)), NotImplementedError, "sample weights"),
    "validation_freq": (lambda: fit(validation_data=(X, Y), validation_freq=0), ValueError, "validation_freq=0"),
    "no validation_freq": (lambda: fit(validation_data=(X, Y), validation_freq=None), ValueError, "validation_freq=None"),
    "steps_per_epoch": (lambda: fit(steps_per_epoch=2), ValueError, r"steps_per_epoch=2, expected 1 to 1"),
    "callbacks": (lambda: fit(callbacks=[print]), TypeError, "is no object of"),
    "schedule of a callback": (
        lambda: fit(callbacks=[callbacks.LearningRateScheduler(lambda epoch: None)]), TypeError, "returned None"
    ),
    "patience": (lambda: callbacks.EarlyStopping(patience=-1), ValueError, "patience: got -1, expected at least 0"),
    "min_delta": (lambda: callbacks.EarlyStopping(min_delta="x"), TypeError, "min_delta: got 'x'"),
    "restoring": (lambda: callbacks.EarlyStopping(restore_best_weights="no"), TypeError, "restore_best_weights: got 'no'"),
    "stop_training": (lambda: setattr(model(), "stop_training", "yes"), TypeError, "m: stop_training: got 'yes'"),
    "mode of a callback": (lambda: callbacks.EarlyStopping(mode="up"), ValueError, "mode='up'"),
    "verify without accuracy": (lambda: fit(callbacks=[callbacks.VerifyMetrics(9)]), ValueError, r"metrics=\['accuracy'\]"),
}  # fmt: skip

REST: dict[str, Row] = {
    "image format": (lambda: backend.set_image_data_format("NCHW"), ValueError, "data_format='NCHW'"),
    "initializer": (lambda: initializers.get("glorot"), ValueError, "'glorot' is unknown"),
    "initializer of a number": (lambda: initializers.get(3), TypeError, "expected a name"),
    "initializer seed": (lambda: initializers.RandomNormal(seed=0.5), TypeError, "seed=0.5"),
    "uniform": (lambda: initializers.RandomUniform(1, 0), ValueError, "above maxval"),
    "scaling": (lambda: initializers.VarianceScaling(mode="fan"), ValueError, "mode='fan'"),
    "regularizer": (lambda: regularizers.L2(-1), ValueError, "l2=-1"),
    "regularizer name": (lambda: regularizers.get("l3"), ValueError, "'l3' is unknown"),
    "activation": (lambda: activations.foo, AttributeError, "'foo'"),
    "to_categorical": (lambda: utils.to_categorical([0, 3], 3), ValueError, "from 0 to 3, expected 0 to 2"),
    "to_categorical of fractions": (lambda: utils.to_categorical([0.5]), ValueError, "whole numbers"),
    "test_split": (lambda: datasets.digits.load_data("0.2"), TypeError, "test_split: got '0.2'"),
    "path of mnist": (lambda: datasets.mnist.load_data(3), TypeError, "path=3, expected the name of a file"),
    "seed": (lambda: utils.set_random_seed(-1), ValueError, "-1"),
    "cifar10": (lambda: datasets.cifar10.load_data(40001), ValueError, "num_samples=40001"),
}  # fmt: skip

ROWS = [
    pytest.param(*row, id=f"{group}: {name}")
    for group, table in {
        "layers": LAYERS,
        "models": MODELS,
        "compile": COMPILE,
        "run": RUN,
        "rest": REST,
    }.items()
    for name, row in table.items()
]


@pytest.mark.filterwarnings("ignore:.*read as images")
@pytest.mark.parametrize(("call", "error", "message"), ROWS)
def test_message(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_data_sets_say_which_file_is_missing(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=rf"{tmp_path}.*downloads no data"):
        getattr(datasets, name).load_data()


def test_data_sets_read_files_of_keras(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    folder = tmp_path / "datasets" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    arrays = {
        "x_train": np.ones((3, 28, 28)),
        "y_train": IDS[:3],
        "x_test": np.ones((2, 28, 28)),
        "y_test": IDS[:2],
    }
    np.savez(tmp_path / "datasets" / "mnist.npz", **arrays)
    (x, _), (_, y) = datasets.mnist.load_data()
    assert x.shape == (3, 28, 28) and y.shape == (2,)
    pixels = np.arange(3072 * 2, dtype=np.uint8).reshape(2, 3072)
    for part in ("data_batch_1", "test_batch"):
        (folder / part).write_bytes(pickle.dumps({b"data": pixels, b"labels": [3, 4]}))
    (x, y), _ = datasets.cifar10.load_data(10000)
    assert x.shape == (2, 32, 32, 3) and y.tolist() == [[3], [4]]
    assert x[1, 2, 5, 1] == pixels.reshape(2, 3, 32, 32)[1, 1, 2, 5]
    (folder / "test_batch").write_bytes(pickle.dumps(print))
    with pytest.raises(ValueError, match=r"test_batch is damaged.*builtins.print.*get it anew"):
        datasets.cifar10.load_data(10000)


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


MNIST = {"x_train": np.ones((3, 28, 28)), "y_train": IDS[:3], "x_test": np.ones((2, 28, 28)), "y_test": IDS[:2]}  # fmt: skip
OBJECTS = np.array([{}], dtype=object)
DAMAGED = {
    "empty": b"",
    "text": b"hello",
    "half an archive": npz(**MNIST)[:500],
    "a head of an archive": b"PK\3\4" + bytes(50),
    "other names": npz(x=np.ones(3)),
    "fewer labels": npz(**{**MNIST, "y_train": IDS[:2]}),
    "objects": npz(**{**MNIST, "x_train": OBJECTS}),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_of_mnist(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "mnist.npz").write_bytes(DAMAGED[name])
    with pytest.raises(ValueError, match=r"mnist.npz is damaged or another file: .*anew from http"):
        datasets.mnist.load_data()


def test_damaged_files_of_cifar10(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    folder = tmp_path / "datasets" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"there is no .*data_batch_1; .*get the file from"):
        datasets.cifar10.load_data(10000)
    for content in (
        b"",
        b"junk",
        pickle.dumps({}),
        pickle.dumps([1]),
        pickle.dumps({b"data": [1]}),
    ):
        (folder / "data_batch_1").write_bytes(content)
        with pytest.raises(ValueError, match=r"data_batch_1 is damaged or another file.*anew from"):
            datasets.cifar10.load_data(10000)


@pytest.mark.parametrize("run", ["fit", "evaluate", "train_on_batch"])
def test_a_loss_of_nan_ends_a_run(run: str) -> None:
    made = model()
    made.set_weights([np.full((4, 3), 1e30), np.zeros(3)])
    quiet = {} if run == "train_on_batch" else {"verbose": 0}
    with pytest.raises(
        FloatingPointError, match=r"the loss became inf in batch 1; a smaller learn"
    ):
        getattr(made, run)(X + 1e10, Y, **quiet)


@pytest.mark.filterwarnings("ignore:.*takes probabilities")
def test_a_loss_below_zero_ends_training() -> None:
    made = model("binary_crossentropy")
    made.set_weights([np.zeros((4, 3)), np.full(3, 5.0)])
    with pytest.raises((ValueError, FloatingPointError), match="the loss .*became"):
        made.fit(X, Y, epochs=3, verbose=0)
