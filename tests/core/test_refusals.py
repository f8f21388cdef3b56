"""What would act on nothing, on something else, or only once: refused where it is said, with what
was expected. One row each; what a refused call leaves behind is looked at as well."""

from __future__ import annotations

import copy
import io
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from core_models import ACCURACY, SPARSE, classifier, compiled, samples, weights

from flexflow.core import (
    AdamOptimizer,
    CompMode,
    ConstantInitializer,
    DataSet,
    FFConfig,
    FFModel,
    FlexFlowError,
    L2Regularizer,
    LossType,
    NormInitializer,
    SGDOptimizer,
    SingleDataLoader,
    Tensor,
    UniformInitializer,
)
from flexflow.core.regularizers import regularizer_attributes

INF, NAN = float("inf"), float("nan")
X, Y = samples(29)


def first_input(ffmodel: FFModel) -> Any:
    return ffmodel.get_layer_by_id(0).get_input_tensor()


# ---- arguments of layers ----

LAYERS: list[tuple[Callable[[FFModel, Any, Any], Any], type[Exception], str]] = [
    # f: the model; x: (8, 4) floats; m: (8, 4, 6, 6) floats
    (lambda f, x, m: f.conv2d(m, 4, 3, 3, groups=2.9), TypeError, "groups: got 2.9, expected an"),
    (lambda f, x, m: f.conv2d(m, 4, 3, 3, groups="2"), TypeError, "groups: got '2', expected an"),
    (lambda f, x, m: f.conv2d(m, 4, 3, 3, groups=None), TypeError, "conv2d: groups: got None"),
    (lambda f, x, m: f.conv2d(m, 4, 3.0, 3), TypeError, r"kernel_h, kernel_w: got \[3.0, 3\]"),
    (lambda f, x, m: f.conv2d(m, 4, 3, 3, 1.5), TypeError, "stride_h, stride_w: got"),
    (
        lambda f, x, m: f.conv2d(m, 4, 3, 3, padding_h=1.5),
        TypeError,
        "padding_h: got 1.5, expected",
    ),
    (lambda f, x, m: f.conv2d(m, 4, 3, 3, padding_w=None), TypeError, "padding_w: got None"),
    (lambda f, x, m: f.conv2d(m, 4, 3, 3, padding_w=(1, "1")), TypeError, "padding_w: got"),
    (
        lambda f, x, m: f.conv2d(m, 4, 3, 3, dilation=2),
        TypeError,
        "dilation: got 2, expected a list",
    ),
    (lambda f, x, m: f.pool2d(m, 2.0, 2), TypeError, "pool2d: kernel_h, kernel_w: got"),
    (lambda f, x, m: f.pool2d(m, 2, 2, "2"), TypeError, "pool2d: stride_h, stride_w: got"),
    (lambda f, x, m: f.split(x, 2, "1"), TypeError, "split: axis: got '1', expected an integer"),
    (lambda f, x, m: f.split(x, 2, None), TypeError, "split: axis: got None"),
    (lambda f, x, m: f.split(x, 2, 1.0), TypeError, "split: axis: got 1.0"),
    (lambda f, x, m: f.split(x, None, 1), TypeError, "split: sizes: got None"),
    (lambda f, x, m: f.split(x, 2.0, 1), TypeError, "split: sizes: got 2.0"),
    (lambda f, x, m: f.split(x, [2, 2.0], 1), TypeError, "split: sizes: got .*list of integers"),
    (lambda f, x, m: f.concat([x, x], "1"), TypeError, "concat: axis: got '1'"),
    (lambda f, x, m: f.softmax(x, None), TypeError, "softmax: axis: got None"),
    (lambda f, x, m: f.softmax(x, True), TypeError, "softmax: axis: got True"),
    (lambda f, x, m: f.reduce_sum(x, None), TypeError, "reduce_sum: axes: got .None."),
    (lambda f, x, m: f.reduce_sum(x, [1.0]), TypeError, "reduce_sum: axes: got .1.0."),
    (lambda f, x, m: f.reduce_sum(x, [1], "no"), TypeError, "reduce_sum.*keepdims.* is no"),
    (lambda f, x, m: f.reshape(x, 32), TypeError, "reshape: shape: got 32, expected a list"),
    (lambda f, x, m: f.transpose(x, [1.0, 0]), TypeError, "transpose: perm: got"),
    (lambda f, x, m: f.dense(x, 3, use_bias=None), TypeError, "linear: use_bias is None"),
    (lambda f, x, m: f.dense(x, 3, use_bias="no"), TypeError, "use_bias.* is no"),
    (lambda f, x, m: f.elu(x, alpha=None), TypeError, "elu: alpha: got None, expected a finite"),
    (lambda f, x, m: f.pow(x, NAN), ValueError, "pow: exponent: got nan, expected a finite"),
    (lambda f, x, m: f.dropout(x, None), TypeError, "dropout: rate: got None"),
    (lambda f, x, m: f.dropout(x, 0.5, -1), ValueError, "dropout: seed: got -1"),
    (lambda f, x, m: f.dropout(x, 0.5, 2**64), ValueError, "dropout: seed: .*does not fit 64 bits"),
    (lambda f, x, m: f.batch_norm(m, relu="no"), TypeError, "relu: got 'no', expected True or"),
    (
        lambda f, x, m: f.batch_norm(m, eps=-1),
        ValueError,
        "batch_norm: eps: got -1, expected a fin",
    ),
    (lambda f, x, m: f.batch_norm(m, eps=INF), ValueError, "batch_norm: eps: got inf"),
    (lambda f, x, m: f.batch_norm(m, momentum=1.5), ValueError, "momentum: got 1.5, .*at most 1"),
    (lambda f, x, m: f.batch_norm(m, momentum=-0.1), ValueError, "momentum: got -0.1"),
    (lambda f, x, m: f.layer_norm(x, [1], eps=-1), ValueError, "layer_norm: eps: got -1"),
    (lambda f, x, m: f.layer_norm(x, [1], eps="x"), TypeError, "layer_norm: eps: got 'x'"),
    (lambda f, x, m: f.relu(x, name="\udc80"), ValueError, "relu: name is .*surrogates"),
    (lambda f, x, m: f.conv2d(m, 4, 3, 3, padding="\udc80"), ValueError, "padding is .*surrogates"),
    (lambda f, x, m: f.create_tensor([8], create_grad="no"), TypeError, "create_grad: got 'no'"),
    (
        lambda f, x, m: f.create_constant([2], 2**64),
        ValueError,
        "18446744073709551616 does not fit",
    ),
    (
        lambda f, x, m: f.create_constant([2], 10**400),
        ValueError,
        "an integer of 1329 bits does not",
    ),
    (
        lambda f, x, m: f.create_constant([2], 70000, "float16"),
        ValueError,
        "70000 does not fit floa",
    ),
    (
        lambda f, x, m: f.create_constant([2], 3.4e38, "bfloat16"),
        ValueError,
        "does not fit bfloat16",
    ),
    (
        lambda f, x, m: f.create_parameter([2], "float16", ConstantInitializer(7e4)),
        ValueError,
        "create_parameter: the initializer's value: the value 70000.0 does not fit float16",
    ),
    (
        lambda f, x, m: f.dense(x, 3, bias_initializer=UniformInitializer(1, 0, 1e39), name="d"),
        ValueError,
        "d/bias: the initializer's high: the value 1e.39 does not fit float32",
    ),
    (lambda f, x, m: f.get_tensor_by_id(2**64 + x.id), ValueError, "does not fit 64 bits"),
    (lambda f, x, m: f.get_tensor_by_id("0"), TypeError, "id: got '0', expected an integer"),
    (lambda f, x, m: x + 10**400, ValueError, "scalar_add: scalar: got an integer of 1329 bits"),
    (lambda f, x, m: x + True, TypeError, "scalar_add: scalar is True, expected a number"),
]


@pytest.mark.parametrize(("build", "error", "message"), LAYERS)
def test_layers(build: Any, error: type[Exception], message: str) -> None:
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([8, 4], "float32", name="x")
    images = ffmodel.create_tensor([8, 4, 6, 6], "float32", name="images")
    with pytest.raises(error, match=message):
        build(ffmodel, x, images)


def test_numbers_of_numpy_are_numbers() -> None:
    ffmodel = FFModel(FFConfig(batch_size=np.int64(8), learning_rate=np.float32(0.5)))
    x = ffmodel.create_tensor(np.array([8, 4]))
    images = ffmodel.create_tensor([8, 4, 6, 6])
    two, one = np.int64(2), np.int8(1)
    conv = ffmodel.conv2d(images, two, 3, 3, one, one, padding_h=one, padding_w=one, groups=two)
    assert conv.dims == (8, 2, 6, 6)
    assert [part.dims for part in ffmodel.split(x, two, one)] == [(8, 2), (8, 2)]
    assert ffmodel.reduce_sum(x, one).dims == (8,)
    assert ffmodel.reshape(x, np.array([4, 8])).dims == (4, 8)
    assert SGDOptimizer(ffmodel, lr=np.float32(0.5)).learning_rate == 0.5
    ffmodel.batch_norm(images, relu=np.bool_(True), eps=np.float32(0.5))


# ---- numbers of integer tensors ----


def computed(kind: str, build: Callable[[FFModel, Any], Any]) -> Any:
    """What a layer makes of a zero."""
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([1], kind, name="x")
    y = build(ffmodel, x)
    ffmodel.compile(comp_mode=CompMode.INFERENCE, output=y)
    x.set_tensor(ffmodel, [0])
    ffmodel.forward()
    return y.get_tensor().item()


@pytest.mark.parametrize(
    ("kind", "number", "message"),
    [
        ("int64", 2**53 + 1, "9007199254740993, which no double holds; give create_constant"),
        ("int32", 2**40, "scalar: the value 1099511627776 does not fit int32"),
        ("int64", 1e30, "scalar: .* does not fit 64 bits"),
        ("int64", 2**63, "does not fit int64"),
        ("int64", INF, "scalar is inf, but x is of int64"),
        ("int64", NAN, "scalar is nan, but x is of int64"),
        ("int64", 0.5, "scalar is 0.5, but x is of int64"),
    ],
)
def test_scalars_are_exact_or_refused(kind: str, number: float, message: str) -> None:
    for build in (
        lambda f, x: x + number,
        lambda f, x: x - number,
        lambda f, x: x * number,
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            computed(kind, build)


def test_scalars_and_constants_hold_their_value() -> None:
    odd = 2**53 + 1
    assert computed("int64", lambda f, x: x + 2**53) == 2**53
    assert computed("int64", lambda f, x: x + 2.0) == 2
    assert computed("int32", lambda f, x: x - (2**31 - 1)) == 1 - 2**31
    assert computed("int64", lambda f, x: f.add(x, f.create_constant([1], odd, "int64"))) == odd
    assert computed("int64", lambda f, x: f.add(x, f.create_constant([1], 7, "int64"))) == 7
    assert computed("float32", lambda f, x: x - INF) == -INF


# ---- arguments of whole calls ----


def with_two_inputs() -> tuple[FFModel, list[Tensor]]:
    """A model of two inputs, these, and a third that is not used."""
    ffmodel = FFModel(FFConfig(threads=1))
    inputs = [ffmodel.create_tensor([8, 4], name=name) for name in ("a", "b", "spare")]
    a, b, _ = inputs
    ffmodel.softmax(ffmodel.dense(ffmodel.add(a, b), 3))
    ffmodel.compile(SGDOptimizer(ffmodel, lr=0.1), SPARSE, [ACCURACY])
    return ffmodel, inputs


def loaders(ffmodel: FFModel, inputs: list[Tensor], which: str) -> list[SingleDataLoader]:
    """Loaders of inputs by their position; "y" is the label's."""
    return [
        SingleDataLoader(ffmodel, ffmodel.label_tensor, Y)
        if one == "y"
        else SingleDataLoader(ffmodel, inputs[int(one)], X)
        for one in which
    ]


@pytest.mark.parametrize(
    ("ids", "labels", "message"),
    [
        ("0", "y", "train: b gets no data"),
        ("00", "y", "DataSet: a is fed twice"),
        ("010", "y", "DataSet: a is fed twice"),
        ("01y", "y", "DataSet: label is fed twice"),
        ("01", "2", "train: spare is fed, but the model's output does not depend on it"),
        ("0", "1", "train: label gets no data"),
    ],
)
def test_every_input_is_fed_once(ids: str, labels: str, message: str) -> None:
    ffmodel, inputs = with_two_inputs()
    (last,) = loaders(ffmodel, inputs, labels)
    with pytest.raises(ValueError, match=message):
        ffmodel.fit(loaders(ffmodel, inputs, ids), last, verbose=0)
    assert ffmodel.fit(loaders(ffmodel, inputs, "10"), Y, verbose=0)[0].samples == 29


def test_an_attached_array_is_data() -> None:
    ffmodel, inputs = with_two_inputs()
    inputs[1].attach_numpy_array(ffmodel, None, X[:8])
    assert ffmodel.fit(loaders(ffmodel, inputs, "0"), Y, batch_size=8, drop_last=True, verbose=0)
    inputs[0].attach_numpy_array(ffmodel, None, X[:8])
    with pytest.raises(ValueError, match="x: all inputs have attached arrays.*use forward"):
        ffmodel.predict([])


CALLS: list[tuple[Callable[[FFModel], Any], type[Exception], str]] = [
    (lambda f: f.fit(X, Y, epochs=1.5), TypeError, "fit: epochs: got 1.5, expected an integer"),
    (lambda f: f.fit(X, Y, epochs="3"), TypeError, "fit: epochs: got '3'"),
    (lambda f: f.fit(X, Y, shuffle="no"), TypeError, "fit: shuffle: got 'no', expected True or"),
    (lambda f: f.fit(X, Y, drop_last="no"), TypeError, "fit: drop_last: got 'no'"),
    (lambda f: f.fit(X, Y, verbose="no"), TypeError, "verbose: got 'no'"),
    (lambda f: f.fit(X, Y, verbose=3), ValueError, "verbose: got 3, expected at most 2"),
    (
        lambda f: f.fit(X[:3], Y[:3], drop_last=True),
        ValueError,
        "drop_last: leaves nothing, since 3",
    ),
    (lambda f: f.fit(X, Y, batch_size=2**64 + 1), ValueError, "batch_size: .*does not fit 64 bits"),
    (lambda f: f.predict(X, batch_size=2**64 + 1), ValueError, "batch_size: .*does not fit 64"),
    (lambda f: f.predict(X, batch_size=True), TypeError, "batch_size: got True"),
    (lambda f: f.predict(np.ma.masked_array(X, X > 0)), TypeError, "masked array.*filled"),
    (lambda f: f.set_scalar("learning_rate", NAN), ValueError, "learning_rate: got nan"),
    (lambda f: f.set_scalar("learning_rate", -1), ValueError, "learning_rate: got -1"),
    (lambda f: f.set_scalar("learning_rate", "1"), TypeError, "learning_rate: got '1'"),
    (lambda f: f.set_scalar("step", -5), ValueError, "step: got -5"),
    (lambda f: f.set_scalar("step", 1e30), ValueError, "step: got 1e.30, expected a whole number"),
    (lambda f: f.set_scalar("step", 2.5), ValueError, "step: got 2.5, expected a whole number"),
    (lambda f: f.set_scalar("speed", 1), ValueError, "no scalar .speed."),
    (lambda f: f.get_scalar("\udc80"), ValueError, "get_scalar: name is"),
    (lambda f: f.plan("bogus"), ValueError, "plan: got 'bogus', expected one of train, evaluate"),
    (lambda f: f.memory_report(3), ValueError, "memory_report: got 3, expected one of train"),
    (lambda f: f.run("bogus", f.data_set(X, Y)), ValueError, "run: step: got 'bogus'"),
    (lambda f: f.run("manual", f.data_set(X, Y)), ValueError, "run: step is .manual."),
    (lambda f: f.run("train", X), TypeError, "train: data is .*expected a DataSet"),
    (lambda f: f.run("train", f.data_set(X, Y), 0), ValueError, "max_steps: got 0"),
    (lambda f: f.profile("no"), TypeError, "profile: on: got 'no'"),
    (lambda f: f.data_set(X, Y).begin(8, shuffle="no"), TypeError, "shuffle: got 'no'"),
    (lambda f: f.data_set(X, Y).begin(8, seed=2**64), ValueError, "seed: .*does not fit 64 bits"),
    (
        lambda f: SingleDataLoader(f, first_input(f), X, shuffle="no"),
        TypeError,
        "shuffle: got 'no'",
    ),
    (lambda f: SingleDataLoader(f, first_input(f), X, drop_last=1), TypeError, "drop_last: got 1"),
    (lambda f: SingleDataLoader(f, first_input(f), X, allow_nan="no"), TypeError, "allow_nan"),
    (lambda f: SingleDataLoader(f, first_input(f), X, "3"), TypeError, "num_samples: got '3'"),
    (lambda f: f.get_layer_by_id(0).get_parameter_by_id("0"), TypeError, "hidden: id: got '0'"),
    (lambda f: setattr(f.get_layer_by_id(0), "trainable", "no"), TypeError, "hidden: trainable"),
    (
        lambda f: setattr(f.get_layer_by_id(0).get_weight_tensor(), "trainable", "no"),
        TypeError,
        "hidden/kernel: trainable: got 'no', expected True or False",
    ),
    (lambda f: SGDOptimizer(None), TypeError, "SGDOptimizer: ffmodel is None, expected an FFModel"),
    (lambda f: AdamOptimizer("f"), TypeError, "AdamOptimizer: ffmodel is 'f'"),
    (lambda f: SGDOptimizer(f, lr=10**400), ValueError, "lr: got an integer of 1329 bits"),
    (lambda f: SGDOptimizer(f, momentum=0.5, nesterov="no"), TypeError, "nesterov: got 'no'"),
    (lambda f: L2Regularizer("x"), TypeError, "L2Regularizer: the strength: got 'x'"),
    (lambda f: ConstantInitializer(NAN), ValueError, "ConstantInitializer: value: got nan"),
    (lambda f: ConstantInitializer("x"), TypeError, "ConstantInitializer: value: got 'x'"),
    (lambda f: UniformInitializer(1, -INF, INF), ValueError, "UniformInitializer: minv: got -inf"),
    (lambda f: NormInitializer(1, 0, INF), ValueError, "NormInitializer: stddev: got inf"),
    (lambda f: f.compile(None, SPARSE, 5), TypeError, "metrics: got 5, expected one of"),
    (lambda f: f.compile(None, SPARSE, loss_attributes=["a"]), TypeError, "loss_attributes is"),
]


@pytest.mark.parametrize(("call", "error", "message"), CALLS)
def test_calls(call: Any, error: type[Exception], message: str) -> None:
    ffmodel, other = compiled(), compiled()
    with pytest.raises(error, match=message):
        call(ffmodel)
    # Nothing of it stays.
    for one in (ffmodel, other):
        one.fit(X, Y, shuffle=True, verbose=0)
    assert all(np.array_equal(a, b) for a, b in zip(weights(ffmodel), weights(other)))


def test_penalties_of_others_are_checked() -> None:
    class Theirs:
        type = 19
        _lambda = 0.5

    with pytest.raises(TypeError, match="kernel_regularizer: type: got 19, expected one of"):
        regularizer_attributes(Theirs())


def test_a_metric_needs_no_list() -> None:
    ffmodel = classifier()
    ffmodel.compile(SGDOptimizer(ffmodel), SPARSE, ACCURACY)
    assert ffmodel.get_perf_metrics().requested == ("accuracy",)


# ---- data and predictions ----


@pytest.mark.parametrize(
    "make",
    [
        np.asfortranarray,
        lambda a: a[::-1],
        lambda a: a.astype(">f4"),
        lambda a: a.astype("f8"),
        lambda a: (a * 9).astype("i4"),
        lambda a: np.broadcast_to(a[:1], a.shape),
        lambda a: a.tolist(),
    ],
)
def test_data_sets_take_any_array(make: Callable[[np.ndarray], Any]) -> None:
    ffmodel = compiled()
    data = DataSet([(first_input(ffmodel), make(X))])
    data.begin(8)
    rows = np.zeros((29, 3), "f")
    for _ in ffmodel.run("predict", data, predictions=rows):
        pass
    assert np.array_equal(rows, ffmodel.predict(np.asarray(make(X))))


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (lambda f: [], ValueError, "DataSet: got no columns"),
        (lambda f: [X], TypeError, "DataSet: a column is of type ndarray, expected a pair"),
        (lambda f: [(first_input(f), X.astype(str))], TypeError, "data for x: got <U"),
        (
            lambda f: [(first_input(f), X[:, :3])],
            ValueError,
            r"data for x: .*expected \(samples, 4",
        ),
        (lambda f: [(first_input(f), X * 2j)], TypeError, "data for x: got complex"),
        (lambda f: [(f.label_tensor, Y + 0.5)], TypeError, "data for label: got float64 values"),
    ],
)
def test_data_sets(columns: Any, error: type[Exception], message: str) -> None:
    ffmodel = compiled()
    with pytest.raises(error, match=message):
        DataSet(columns(ffmodel))


def read_only() -> np.ndarray:
    array = np.zeros((29, 3), "f")
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (np.zeros((29, 3)), TypeError, "predictions: got an array of float64, expected one of flo"),
        (np.zeros((29, 3), "i4"), TypeError, "got an array of int32, expected one of float32"),
        (np.zeros((29, 3), ">f4"), TypeError, "got an array of >f4, expected one of float32"),
        ([[0.0] * 3] * 29, TypeError, "expected an array of float32"),
        (np.zeros((28, 3), "f"), ValueError, r"shape \(28, 3\), expected \(29, 3\)"),
        (np.zeros((29, 2), "f"), ValueError, r"shape \(29, 2\), expected \(29, 3\)"),
        (np.zeros((29, 3), "f", order="F"), ValueError, "read-only or not C-contiguous"),
        (np.zeros((58, 3), "f")[::2], ValueError, "read-only or not C-contiguous"),
        (np.broadcast_to(np.zeros(3, "f"), (29, 3)), ValueError, "read-only or not C-contig"),
        (read_only(), ValueError, "read-only or not C-contiguous"),
    ],
)
def test_predictions(rows: Any, error: type[Exception], message: str) -> None:
    ffmodel = compiled()
    data = ffmodel.data_set(X)
    data.begin(8)
    with pytest.raises(error, match=message):
        ffmodel.run("predict", data, predictions=rows)


def test_tensors_that_numpy_cannot_read() -> None:
    torch = pytest.importorskip("torch")
    ffmodel, data = compiled(), torch.from_numpy(X)
    for tensor in (
        data.clone().requires_grad_(),
        data.to(torch.bfloat16),
        data.to_sparse(),
    ):
        with pytest.raises(TypeError, match="data for x: NumPy cannot read a Tensor .*detach"):
            ffmodel.predict(tensor)
    assert np.array_equal(ffmodel.predict(data), ffmodel.predict(X))


# ---- copies and attributes ----


@pytest.mark.parametrize(
    ("take", "message"),
    [
        (lambda f: f, "FFModel cannot be copied or pickled; build another model the same way"),
        (lambda f: FFModel(FFConfig()), "FFModel cannot be copied"),
        (lambda f: first_input(f), "Tensor cannot be copied or pickled; it belongs to its FFModel"),
        (lambda f: f.get_layer_by_id(0), "Op cannot be copied"),
        (lambda f: f.get_layer_by_id(0).get_weight_tensor(), "Parameter cannot be copied"),
        (lambda f: f.optimizer, "SGDOptimizer cannot be copied or pickled; make another one"),
        (lambda f: SingleDataLoader(f, first_input(f), X), "SingleDataLoader cannot be copied"),
        (lambda f: f.data_set(X), "DataSet cannot be copied"),
        (lambda f: f._graph, "Handle cannot be copied"),
        (lambda f: {"model": f}, "FFModel cannot be copied"),
    ],
)
def test_copies(take: Any, message: str) -> None:
    ffmodel = compiled()
    thing = take(ffmodel)
    for make in (copy.deepcopy, pickle.dumps, *([] if isinstance(thing, dict) else [copy.copy])):
        with pytest.raises(TypeError, match=message):
            make(thing)


def test_configurations_can_be_copied() -> None:
    config = FFConfig(seed=3)
    FFModel(config)
    assert copy.deepcopy(config).seed == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: setattr(f.optimizer, "lr", 0), "SGDOptimizer has no attribute 'lr' that can be"),
        (lambda f: setattr(f.optimizer, "learning_rat", 0), "did you mean 'learning_rate'"),
        (
            lambda f: setattr(f.optimizer, "momentum", 0.5),
            "SGDOptimizer.momentum is fixed; make ano",
        ),
        (lambda f: setattr(f, "batch_size", 3), "FFModel has no attribute 'batch_size' that can"),
        (lambda f: setattr(f, "optimiser", None), "did you mean 'optimizer'"),
        (lambda f: setattr(f, "ffconfig", None), "has no attribute 'ffconfig' that can be set"),
        (lambda f: setattr(f.get_layer_by_id(0), "trainabel", False), "did you mean 'trainable'"),
        (lambda f: setattr(first_input(f), "dims", (1,)), "Tensor.dims is fixed"),
        (
            lambda f: setattr(f.get_layer_by_id(0), "activation", "relu"),
            "no attribute 'activation'",
        ),
        (
            lambda f: setattr(SingleDataLoader(f, first_input(f), X), "shufle", True),
            "did you mean 'shuffle'",
        ),
    ],
)
def test_attributes(change: Any, message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        change(compiled())


def test_a_programs_own_class_has_its_own_attributes() -> None:
    class Mine(FFModel):
        def __init__(self) -> None:
            super().__init__(FFConfig())
            self.entry = self.create_tensor([8, 4])

    assert Mine().entry.dims == (8, 4)


def test_setting_the_learning_rate_acts() -> None:
    ffmodel = compiled()
    assert ffmodel.optimizer is not None
    ffmodel.optimizer.learning_rate = 0.25
    assert ffmodel.get_scalar("learning_rate") == 0.25


# ---- what a failed call leaves ----


def test_a_compile_that_fails_changes_nothing() -> None:
    ffmodel = compiled()
    old, other = ffmodel.optimizer, SGDOptimizer(ffmodel, lr=0.5)
    assert old is not None
    for wrong in (
        lambda: ffmodel.compile(other, SPARSE, loss_attributes={"bogus": 1}),
        lambda: ffmodel.compile(other, SPARSE, ["accuracy"]),
        lambda: ffmodel.compile(
            other, LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE, loss_attributes={"bogus": 1}
        ),
    ):
        with pytest.raises((TypeError, ValueError)):
            wrong()
        assert ffmodel.optimizer is old
        assert ffmodel._probabilities
    other.set_learning_rate(0.75)
    assert ffmodel.get_scalar("learning_rate") == np.float32(0.1)
    old.set_learning_rate(0.0)
    assert ffmodel.get_scalar("learning_rate") == 0.0


def test_the_optimizer_of_a_compiled_model() -> None:
    ffmodel = compiled()
    old, other = ffmodel.optimizer, AdamOptimizer(ffmodel)
    for wrong in (other, None):
        with pytest.raises(
            FlexFlowError, match="the model is compiled with .*give another one to co"
        ):
            ffmodel.optimizer = wrong
    ffmodel.optimizer = old
    ffmodel.compile(other, SPARSE)
    assert old is not None
    old.set_learning_rate(0.0)  # it serves no more
    other.set_learning_rate(0.5)
    assert ffmodel.get_scalar("learning_rate") == 0.5
    ffmodel.compile(None, SPARSE)
    assert ffmodel.optimizer is other


# ---- the configuration ----


def test_a_seed_changed_too_late_is_said_so() -> None:
    config = FFConfig(seed=1)
    first, before = FFModel(config), FFModel(FFConfig(seed=1))
    with pytest.warns(UserWarning, match="FFConfig.seed: the models made before keep seed 1"):
        config.seed = 2
    assert (first.seed, before.seed, FFModel(config).seed) == (1, 1, 2)


def test_the_engine_that_computes_nothing_says_so() -> None:
    ffmodel = classifier(engine="null")
    with pytest.warns(UserWarning, match="'null' checks plans and computes nothing"):
        ffmodel.compile(SGDOptimizer(ffmodel), SPARSE)
    ffmodel = classifier()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ffmodel.compile(SGDOptimizer(ffmodel), SPARSE)


# ---- output ----


class Terminal(io.TextIOWrapper):
    """One that shows ASCII only."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "ascii")

    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    """A pipe that nobody reads."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        raise BrokenPipeError


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("make", [lambda: None, Terminal, Broken, closed])
def test_output_never_ends_training(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ffmodel = FFModel(FFConfig(profiling=True, print_freq=1, threads=1))
    ffmodel.dense(ffmodel.create_tensor([8, 4]), 1, name="größe")
    ffmodel.compile(SGDOptimizer(ffmodel), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
    monkeypatch.setattr(sys, "stdout", make())
    for tqdm in (True, False):
        if not tqdm:
            monkeypatch.setitem(sys.modules, "tqdm", None)
        assert len(ffmodel.fit(X, X[:, :1], epochs=2)) == 2
