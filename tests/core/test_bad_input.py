"""Bad input: one row each. An exception says what came and what was expected; never an abort, never
a silent wrong number. Configuration, data types and arrays have their rows in their own files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from core_models import ACCURACY, SPARSE, classifier, compiled, linear_regression, samples, weights

from flexflow.core import (
    ActiMode,
    AdamOptimizer,
    AggrMode,
    CompMode,
    ConstantInitializer,
    FFConfig,
    FFModel,
    FlexFlowError,
    GlorotUniformInitializer,
    L1Regularizer,
    LossType,
    NormInitializer,
    OneInitializer,
    Regularizer,
    RegularizerMode,
    SGDOptimizer,
    SingleDataLoader,
    UniformInitializer,
    describe,
)

ELSEWHERE = FFModel(FFConfig())
FOREIGN = ELSEWHERE.create_tensor([8, 4], "float32", name="foreign")

LAYERS: list[tuple[Any, type[Exception], str]] = [
    # f: the model; x: (8, 4) floats; i: (8, 4) ids; m: (8, 3, 6, 6) floats
    (lambda f, x, i, m: f.dense("x", 3), TypeError, "dense: input 0 is 'x', expected a Tensor"),
    (lambda f, x, i, m: f.softmax(None), TypeError, "softmax: input 0 is None"),
    (lambda f, x, i, m: f.relu(FOREIGN, name="r"), ValueError, "r: input 0 is .*foreign.*another"),
    (lambda f, x, i, m: f.add(x, FOREIGN), ValueError, "add: input 1 is .*foreign"),
    (lambda f, x, i, m: x + FOREIGN, ValueError, "add: input 1 is .*foreign"),
    (lambda f, x, i, m: x + "1", TypeError, "scalar_add: scalar is '1', expected a number"),
    (lambda f, x, i, m: x * None, (TypeError, ValueError), "scalar_multiply.*scalar"),
    (lambda f, x, i, m: f.dense(x, 0), ValueError, "out_channels.* is 0; expected at least 1"),
    (
        lambda f, x, i, m: f.dense(x, "3", name="d"),
        TypeError,
        "d: out_dim: got '3', expected an integer",
    ),
    (lambda f, x, i, m: f.dense(x, 3.5), TypeError, "dense: out_dim: got 3.5, expected an integer"),
    (lambda f, x, i, m: f.dense(x, 2**70), ValueError, "dense: out_dim: .* does not fit 64 bits"),
    (lambda f, x, i, m: f.dense(x, 3, "relu"), TypeError, "activation: got 'relu', expected one"),
    (lambda f, x, i, m: f.dense(x, 3, datatype="int32"), TypeError, "int32"),
    (lambda f, x, i, m: f.dense(x, 3, datatype="x"), TypeError, "dense: got 'x', expected a Data"),
    (lambda f, x, i, m: f.dense(x, 3, name=5), TypeError, "linear: name is 5, expected a string"),
    (lambda f, x, i, m: f.dense(x, 3, name="a\0b"), ValueError, "name"),
    (lambda f, x, i, m: f.dense(x, 3, width=5), TypeError, "unexpected keyword argument 'width'"),
    (lambda f, x, i, m: f._op("linear", [x], width=5), ValueError, "unknown attribute .width."),
    (lambda f, x, i, m: f._op("lineal", [x]), ValueError, "unknown operator .lineal."),
    (lambda f, x, i, m: f._op("sgd", [x]), ValueError, "sgd"),
    (
        lambda f, x, i, m: f.dense(x, 3, kernel_initializer="zeros"),
        TypeError,
        "kernel_initializer: got 'zeros', expected an Initializer",
    ),
    (
        lambda f, x, i, m: f.dense(x, 3, kernel_regularizer=0.1),
        TypeError,
        "kernel_regularizer: got 0.1, expected L1Regularizer",
    ),
    (
        lambda f, x, i, m: f.dense(x, 3, use_bias=False, bias_initializer=OneInitializer()),
        ValueError,
        "linear: has no weight bias to initialize",
    ),
    (
        lambda f, x, i, m: f.dense(
            x, 3, shared_op=f.dense(x, 3), kernel_initializer=OneInitializer()
        ),
        ValueError,
        "shared_op brings the weights",
    ),
    (lambda f, x, i, m: f.dense(x, 3, shared_op=f.relu(x)), ValueError, "expected one of kind lin"),
    (lambda f, x, i, m: f.dense(x, 3, shared_op=x), TypeError, "shared_op is .*x.*expected a lay"),
    (lambda f, x, i, m: f.dense(x, 3, shared_op=f.dense(x, 4)), ValueError, "kernel"),
    (lambda f, x, i, m: f.conv2d(x, 3, 3, 3), ValueError, "rank 2; expected .N, C, H, W."),
    (lambda f, x, i, m: f.conv2d(m, 4, 3, 3, groups=2), ValueError, "groups"),
    (lambda f, x, i, m: f.conv2d(m, 4, 9, 9), ValueError, "conv2d.*9"),
    (lambda f, x, i, m: f.conv2d(m, 4, 3, 3, 0, 1), ValueError, "stride"),
    (lambda f, x, i, m: f.conv2d(m, 4, 3, 3, 1, 1, -1, 0), ValueError, "pads"),
    (lambda f, x, i, m: f.conv2d(m, 4, 3, 3, dilation=(1,)), ValueError, "dilation"),
    (lambda f, x, i, m: f.conv2d(m, 4, 3, 3, padding="full"), ValueError, "padding.*full"),
    (lambda f, x, i, m: f.conv2d(m, 4, 3, 3, 1, 1, 1, 1, padding="same"), ValueError, "unused"),
    (
        lambda f, x, i, m: f.conv2d(m, 4, 3, 3, 1, 1, (1, 1, 1)),
        ValueError,
        "conv2d: padding_h: .*expected a number or a pair",
    ),
    (lambda f, x, i, m: f.pool2d(m, 3, 3, pool_type="max"), TypeError, "pool2d: pool_type: got 'm"),
    (lambda f, x, i, m: f.pool2d(m, 9, 9), ValueError, "pool2d.*9"),
    (lambda f, x, i, m: f.batch_norm(i), (TypeError, ValueError), "batch_norm.*int64"),
    (lambda f, x, i, m: f.layer_norm(m, [1]), ValueError, "layer_norm.*axes"),
    (lambda f, x, i, m: f.embedding(x, 9, 3), TypeError, "embedding: .*expected int32 or int64"),
    (lambda f, x, i, m: f.embedding(i, 9, 3, "sum"), TypeError, "embedding: aggr: got 'sum'"),
    (lambda f, x, i, m: f.embedding(i, 0, 3), ValueError, "num_entries"),
    (lambda f, x, i, m: f.softmax(x, 2), ValueError, "axis 2 is out of range"),
    (lambda f, x, i, m: f.softmax(i), TypeError, "softmax.*int64.*cast"),
    (lambda f, x, i, m: f.relu(i), TypeError, "relu.*int64.*cast"),
    (lambda f, x, i, m: f.exp(3), TypeError, "exp: input 0 is 3"),
    (lambda f, x, i, m: f.pow(x, "2"), TypeError, "pow.*exponent"),
    (lambda f, x, i, m: f.dropout(x, 1.0), ValueError, "dropout.*rate"),
    (lambda f, x, i, m: f.dropout(x, -0.1), ValueError, "dropout.*rate"),
    (lambda f, x, i, m: f.dropout(x, 0.5, "s"), TypeError, "dropout.*seed"),
    (lambda f, x, i, m: f.reshape(x, [3, -1]), ValueError, "reshape.*3"),
    (lambda f, x, i, m: f.reshape(x, [-1, -1]), ValueError, "reshape.*-1"),
    (
        lambda f, x, i, m: f.reshape(x, ["8", 4]),
        TypeError,
        "reshape: shape: got .*expected a list of integers",
    ),
    (lambda f, x, i, m: f.transpose(x, [0, 0]), ValueError, "transpose.*perm"),
    (lambda f, x, i, m: f.transpose(x, [0]), ValueError, "transpose.*perm"),
    (lambda f, x, i, m: f.concat([], 0), ValueError, "concat: got 0 inputs; expected 1 or more"),
    (lambda f, x, i, m: f.concat([x, i], 0), TypeError, "concat"),
    (lambda f, x, i, m: f.concat([x, m], 0), ValueError, "concat"),
    (lambda f, x, i, m: f.concat(x, 0), TypeError, "concat: tensors is .*expected a list"),
    (lambda f, x, i, m: f.split(x, 3, 1), ValueError, "split: 4 elements .* 3 equal parts"),
    (lambda f, x, i, m: f.split(x, 0, 1), ValueError, "do not make 0 equal parts"),
    (lambda f, x, i, m: f.split(x, [1, 2], 1), ValueError, "split.*sizes"),
    (lambda f, x, i, m: f.split(x, 2, 5), ValueError, "split: axis 5 is out of range"),
    (lambda f, x, i, m: f.broadcast_to(x, [8, 5]), ValueError, "broadcast_to"),
    (lambda f, x, i, m: f.reduce_sum(x, [2]), ValueError, "reduce_sum.*axis 2"),
    (lambda f, x, i, m: f.reduce_sum(x, [1, 1]), ValueError, "reduce_sum.*twice"),
    (lambda f, x, i, m: f.mean(i, [1]), TypeError, "reduce_mean.*int64"),
    (lambda f, x, i, m: f.add(x, m), ValueError, "add: shapes .* do not broadcast"),
    (lambda f, x, i, m: f.divide(i, i), TypeError, "divide.*int64"),
    (lambda f, x, i, m: f.scalar_add(i, 0.5), (TypeError, ValueError), "scalar_add.*0.5"),
    (lambda f, x, i, m: f.cast(x, "complex64"), TypeError, "cast: got 'complex64'"),
    (lambda f, x, i, m: f.create_tensor([], "float32"), ValueError, "dims is empty"),
    (lambda f, x, i, m: f.create_tensor([-1, 2], "float32"), ValueError, "extents of 0 or more"),
    (lambda f, x, i, m: f.create_tensor([1] * 9, "float32"), ValueError, "9 dimensions, expected"),
    (
        lambda f, x, i, m: f.create_tensor(["2"], "float32"),
        TypeError,
        "dims: got .'2'., expected a list of integers",
    ),
    (lambda f, x, i, m: f.create_tensor(5, "float32"), TypeError, "dims: got 5, expected a list"),
    (lambda f, x, i, m: f.create_tensor([2.5], "float32"), TypeError, "dims: got .2.5., expected"),
    (lambda f, x, i, m: f.create_tensor([2], "float8"), TypeError, "got 'float8', expected a Data"),
    (lambda f, x, i, m: f.create_constant([2], "a"), TypeError, "create_constant: got <U1 values"),
    (lambda f, x, i, m: f.get_layer_by_name("no"), ValueError, "there is no layer 'no'; the model"),
    (lambda f, x, i, m: f.get_layer_by_id(99), ValueError, "there is no layer 99"),
    (lambda f, x, i, m: f.get_tensor_by_id(10**9), ValueError, "tensor 1000000000 is not of this"),
    (lambda f, x, i, m: f.get_last_layer(), ValueError, "there is no layer -1; the model has 0"),
    (lambda f, x, i, m: f.relu(x).owner_op.get_weight_tensor(), ValueError, "has no weight 0; it"),
    (lambda f, x, i, m: f.relu(x).owner_op.get_input_by_id(1), ValueError, "has no input 1; it"),
    (lambda f, x, i, m: f.compile(comp_mode=CompMode.INFERENCE), ValueError, "has no layers"),
    (lambda f, x, i, m: x.get_tensor(ELSEWHERE), ValueError, "x: belongs to another FFModel"),
]


@pytest.mark.parametrize(("build", "error", "message"), LAYERS)
def test_layers(build: Any, error: type[Exception], message: str) -> None:
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([8, 4], "float32", name="x")
    ids = ffmodel.create_tensor([8, 4], "int64", name="ids")
    images = ffmodel.create_tensor([8, 3, 6, 6], "float32", name="images")
    with pytest.raises(error, match=f"(?s){message}"):
        build(ffmodel, x, ids, images)


PIECES: list[tuple[Callable[[FFModel], Any], type[Exception], str]] = [
    (lambda f: FFModel(None), TypeError, "FFModel: got None, expected an FFConfig"),
    (lambda f: SGDOptimizer(f, lr=-1), ValueError, "lr: got -1, expected a finite number"),
    (lambda f: SGDOptimizer(f, lr="fast"), TypeError, "lr: got 'fast'"),
    (lambda f: SGDOptimizer(f, lr=float("nan")), ValueError, "lr: got nan"),
    (
        lambda f: SGDOptimizer(f, momentum=1),
        ValueError,
        "momentum: got 1, .*at least 0 and below 1",
    ),
    (lambda f: SGDOptimizer(f, nesterov=True), ValueError, "nesterov=True needs a momentum"),
    (lambda f: SGDOptimizer(f, weight_decay=-1), ValueError, "weight_decay: got -1"),
    (lambda f: AdamOptimizer(f, beta1=1.5), ValueError, "beta1: got 1.5"),
    (lambda f: AdamOptimizer(f, epsilon=0), ValueError, "epsilon is 0"),
    (lambda f: GlorotUniformInitializer(-1), ValueError, "seed: got -1, expected at least 0"),
    (lambda f: GlorotUniformInitializer(1.5), TypeError, "GlorotUniformInitializer: seed: got 1.5"),
    (lambda f: UniformInitializer(1, 2, 1), ValueError, "minv must not be above maxv"),
    (lambda f: NormInitializer(1, 0, -1), ValueError, "stddev: got -1, expected .*at least 0"),
    (lambda f: L1Regularizer(-1), ValueError, "L1Regularizer: the strength: got -1"),
    (lambda f: Regularizer("l1", 1), TypeError, "Regularizer: got 'l1'"),
    (lambda f: describe("weather"), ValueError, "cannot describe .weather."),
    (lambda f: f.compile(None, SPARSE, output=FOREIGN), ValueError, "output is .*foreign"),
    (lambda f: f.compile(SGDOptimizer(f)), ValueError, "loss_type is missing"),
    (lambda f: f.compile("sgd", SPARSE), TypeError, "optimizer: got 'sgd', expected an SGDOptim"),
    (lambda f: f.compile(None, "mse"), TypeError, "loss_type: got 'mse', expected one of Loss"),
    (lambda f: f.compile(None, SPARSE, ["accuracy"]), TypeError, "metrics: got 'accuracy'"),
    (lambda f: f.compile(None, SPARSE, [], "train"), TypeError, "comp_mode: got 'train'"),
    (
        lambda f: f.compile(None, SPARSE, loss_attributes={"from_logit": True}),
        ValueError,
        "unknown attribute .from_logit.; known: from_logits",
    ),
    (
        lambda f: f.compile(comp_mode=CompMode.INFERENCE, loss_attributes={"a": 1}),
        ValueError,
        "loss_attributes without a loss_type",
    ),
    (
        lambda f: f.compile(None, None, [ACCURACY], CompMode.INFERENCE),
        ValueError,
        "metrics without a loss",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), PIECES)
def test_pieces(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(classifier())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"engine": "fast"}, "fast.*local"),
        ({"device": "gpu"}, "gpu.*cpu"),
        ({"devices": 999}, "devices"),
    ],
)
def test_bad_machines(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"(?s){message}"):
        compiled(**fields).predict(samples(8)[0])


X, Y = samples(29)
HOT = np.eye(3, dtype="f")[Y]
HOLE = np.where(np.arange(29)[:, None] == 11, np.nan, X)
DATA: list[tuple[Callable[[FFModel], Any], type[Exception], str]] = [
    (lambda f: f.fit(X[:, :3], Y), ValueError, r"data for x: got .*\(29, 3\), .*\(samples, 4\)"),
    (lambda f: f.fit(X[0], Y), ValueError, r"data for x: got .*\(4,\), expected \(samples, 4\)"),
    (lambda f: f.fit(5.0, Y), ValueError, "data for x: got no samples"),
    (lambda f: f.fit(X[:0], Y[:0]), ValueError, "data for x: got no samples"),
    (lambda f: f.fit(X, Y[:7]), ValueError, "label.* has 7 samples, .*x.* has 29"),
    (lambda f: f.fit(X, HOT), TypeError, "data for label: got float32 values, expected int32"),
    (lambda f: f.fit(X, HOT.astype(int)), ValueError, r"data for label.*expected \(samples, 1\)"),
    (lambda f: f.fit(X, Y.astype("f")), TypeError, r"expected int32; convert them with .astype"),
    (lambda f: f.fit(X, Y.astype(str)), TypeError, "data for label: got <U.* values"),
    (lambda f: f.fit(X, Y + 1), ValueError, "label 3 .*expected 0 to 2"),
    (lambda f: f.fit(X, Y - 1), ValueError, "label -1 .*expected 0 to 2"),
    (
        lambda f: f.fit(X, Y.astype("i8") + 2**40),
        ValueError,
        "data for label: .*does not fit int32",
    ),
    (lambda f: f.fit(X.astype(object), Y), TypeError, "data for x: got object values"),
    (lambda f: f.fit(X.astype(str), Y), TypeError, "data for x: got <U.* values"),
    (lambda f: f.fit(X + 1j, Y), TypeError, "data for x: got complex64 values"),
    (lambda f: f.fit(X.astype("f8") * 1e300, Y), ValueError, "data for x: .*does not fit float32"),
    (lambda f: f.fit([[1, 2], [3]], Y), ValueError, "got 2 arrays, the model has 1 inputs"),
    (lambda f: f.fit([X, X], Y), ValueError, r"got 2 arrays, the model has 1 inputs \(x\)"),
    (lambda f: f.fit([], Y), ValueError, "got 0 arrays"),
    (lambda f: f.fit(None, Y), ValueError, "got 0 arrays"),
    (lambda f: f.fit(X), ValueError, "fit: y is missing"),
    (lambda f: f.eval(X), ValueError, "eval: y is missing"),
    (lambda f: f.fit(HOLE, Y), ValueError, "data for x: row 11 contains NaN or infinity"),
    (lambda f: f.eval(HOLE, Y), ValueError, "data for x: row 11 contains NaN"),
    (lambda f: f.predict(HOLE), ValueError, "data for x: row 11 contains NaN"),
    (lambda f: f.fit(HOLE * np.inf, Y), ValueError, "data for x: row 0 contains NaN or infinity"),
    (lambda f: f.fit(X, Y, batch_size=0), ValueError, "batch_size: got 0, expected at least 1"),
    (lambda f: f.fit(X, Y, batch_size=2.5), TypeError, "batch_size: got 2.5"),
    (lambda f: f.fit(X, Y, epochs=-1), ValueError, "fit: epochs: got -1, expected at least 0"),
    (lambda f: f.fit([loader(f), X], Y), TypeError, "x: got loaders and arrays"),
    (lambda f: loader(f, X, 30), ValueError, "num_samples: got 30, expected 1 to 29"),
    (lambda f: loader(f, X, 0), ValueError, "num_samples: got 0"),
    (lambda f: loader(f, X, 29, "float64"), TypeError, "data_type is float64, but x is of .*FLOAT"),
    (lambda f: SingleDataLoader(f, "x", X), TypeError, "input is 'x', expected a Tensor"),
    (lambda f: SingleDataLoader(f, FOREIGN, X), ValueError, "foreign: belongs to another FFModel"),
    (lambda f: loader(f, ELSEWHERE), TypeError, "data for x: got object values"),
    (lambda f: loader(f, f.label_tensor), FlexFlowError, "label: no array is attached"),
    (
        lambda f: SingleDataLoader(f, f.output_tensor, np.zeros((29, 3))),
        TypeError,
        "output.* is made by softmax; a data set feeds inputs",
    ),
    (lambda f: first_input(f).set_tensor(f, X[:, :2]), ValueError, r"x: got .*\(29, 2\), expected"),
    (lambda f: first_input(f).set_tensor(f, X[0]), ValueError, r"x: got an array of shape \(4,\)"),
    (lambda f: f.get_layer_by_id(0).get_weight_tensor().set_weights(f, X), ValueError, r"\(6, 4\)"),
    (
        lambda f: f.get_layer_by_id(0).get_bias_tensor().set_weights(f, ["a"] * 6),
        TypeError,
        "hidden/bias: got <U1 values",
    ),
    (lambda f: f.output_tensor.set_tensor(f, HOT[:8]), TypeError, "is computed by softmax; only"),
]


def first_input(ffmodel: FFModel) -> Any:
    return ffmodel.get_layer_by_id(0).get_input_tensor()


def loader(ffmodel: FFModel, data: Any = X, *arguments: Any) -> SingleDataLoader:
    return SingleDataLoader(ffmodel, first_input(ffmodel), data, *arguments)


@pytest.mark.parametrize(("call", "error", "message"), DATA)
def test_data(call: Any, error: type[Exception], message: str) -> None:
    ffmodel = compiled()
    before = weights(ffmodel)
    with pytest.raises(error, match=message):
        call(ffmodel)
    if "label" not in message:  # a wrong label may be met after some steps
        assert all(np.array_equal(a, b) for a, b in zip(before, weights(ffmodel)))
    assert ffmodel.fit(X, Y, verbose=0)[0].samples == 29


def test_nan_can_be_allowed_and_is_seen_in_the_loss() -> None:
    ffmodel, layer = linear_regression()
    rows = HOLE[:, :2]
    with pytest.raises(ValueError, match="data for x: row 11 contains NaN"):
        SingleDataLoader(ffmodel, layer.get_input_tensor(), rows)
    inputs = SingleDataLoader(ffmodel, layer.get_input_tensor(), rows, allow_nan=True)
    with pytest.raises(FloatingPointError, match=r"epoch 1/1: the loss became nan in step \d"):
        ffmodel.fit(inputs, X[:, 0], verbose=0)


def test_a_loss_that_explodes_is_said_so() -> None:
    ffmodel = FFModel(FFConfig())
    ffmodel.dense(ffmodel.create_tensor([8, 4], "float32"), 1)
    ffmodel.compile(SGDOptimizer(ffmodel, lr=1e9), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
    with pytest.raises(FloatingPointError, match=r"the loss became .* a smaller learning rate"):
        ffmodel.fit(X, X[:, :1], epochs=20, verbose=0)


def test_ids_out_of_range() -> None:
    ffmodel = FFModel(FFConfig())
    ids = ffmodel.create_tensor([4, 2], "int64")
    ffmodel.embedding(ids, 10, 3, AggrMode.AGGR_MODE_SUM, name="table")
    ffmodel.compile(comp_mode=CompMode.INFERENCE)
    for wrong in (-1, 10):
        with pytest.raises(ValueError, match=f"table: .*{wrong}.*10"):
            ffmodel.predict([np.full((4, 2), wrong)])
    assert ffmodel.predict([np.full((4, 2), 9)]).shape == (4, 3)


ORDER: list[tuple[str, str]] = [
    # what is called, in this order; what the last call says
    ("forward", "forward: the model is not compiled; call compile"),
    ("backward", "backward: the model is not compiled"),
    ("update", "update: the model is not compiled"),
    ("zero_gradients", "zero_gradients: the model is not compiled"),
    ("compute_metrics", "compute_metrics: the model is not compiled"),
    ("reset_metrics", "reset_metrics: the model is not compiled"),
    ("get_perf_metrics", "get_perf_metrics: the model is not compiled"),
    ("init_layers", "init_layers: the model is not compiled"),
    ("label_tensor", "label_tensor: the model is not compiled"),
    ("output_tensor", "output_tensor: the model is not compiled"),
    ("fit", "fit: the model is not compiled"),
    ("eval", "eval: the model is not compiled"),
    ("predict", "predict: the model is not compiled"),
    ("next_batch", "next_batch: the model is not compiled"),
    ("read_output", "output.* is computed by the graph; compile the model and run forward"),
    ("read_input", "input .x. was never written"),
    ("compile forward", "forward: input .x. has no data; write it"),
    ("compile load backward", "backward: .*call forward first"),
    ("compile load compute_metrics", "compute_metrics: .*call forward first"),
    ("compile load update", "update: .*call backward first"),
    ("compile load forward update", "update: .*call backward first"),
    ("compile load forward backward update backward", "backward: .*call forward first"),
    ("compile load forward backward update update", "update: .*call backward first"),
    ("compile read_output", "output.*forward"),
    ("compile load forward read_gradient", "no gradient yet; call forward and backward"),
    ("compile load forward read_gradient read_gradient", "no gradient yet; call forward and back"),
    ("compile load read_gradient forward read_gradient", "no gradient yet; call forward and back"),
    ("compile close forward", "this model was closed"),
    ("compile close fit", "this graph was closed"),
    ("compile close predict", "this graph was closed"),
    ("compile close read_weight", "this graph was closed"),
    ("compile close add_layer", "this graph was closed"),
    ("close compile", "this graph was closed"),
    ("compile load load load load next_batch", "all 29 samples for x were given out; call reset"),
]


@pytest.mark.parametrize(("calls", "message"), ORDER)
def test_wrong_order(calls: str, message: str) -> None:
    ffmodel = classifier()
    x = first_input(ffmodel)
    output = ffmodel.get_layer_by_id(2).get_output_tensor()
    hidden = ffmodel.get_layer_by_id(0)
    inputs = loader(ffmodel)
    labels: list[SingleDataLoader] = []

    def compile_model() -> None:
        ffmodel.compile(SGDOptimizer(ffmodel), SPARSE, [ACCURACY])
        labels.append(SingleDataLoader(ffmodel, ffmodel.label_tensor, Y))

    actions: dict[str, Callable[[], Any]] = {
        "compile": compile_model,
        "load": lambda: (inputs.next_batch(ffmodel), labels[0].next_batch(ffmodel)),
        "next_batch": lambda: inputs.next_batch(ffmodel),
        "label_tensor": lambda: ffmodel.label_tensor,
        "output_tensor": lambda: ffmodel.output_tensor,
        "fit": lambda: ffmodel.fit(X, Y),
        "eval": lambda: ffmodel.eval(X, Y),
        "predict": lambda: ffmodel.predict(X),
        "read_input": lambda: x.get_tensor(ffmodel),
        "read_output": lambda: output.get_tensor(ffmodel),
        "read_gradient": lambda: output.get_gradients(ffmodel),
        "read_weight": lambda: hidden.get_weight_tensor().get_weights(ffmodel),
        "add_layer": lambda: ffmodel.dense(x, 3, ActiMode.AC_MODE_RELU),
    }
    *before, last = calls.split()
    for name in before:
        if name == last == "read_gradient":
            with pytest.raises(FlexFlowError):
                actions[name]()
        else:
            actions.get(name, getattr(ffmodel, name, None))()  # type: ignore[misc]
    with pytest.raises(FlexFlowError, match=message):
        actions.get(last, getattr(ffmodel, last, None) if last not in actions else None)()  # type: ignore[misc]


def test_what_needs_operators_of_later_versions() -> None:
    ffmodel = compiled()
    for step in (ffmodel.forward, ffmodel.backward):
        with pytest.raises(NotImplementedError, match="seq_length"):
            step(seq_length=3)


def test_loaders_in_different_orders_are_refused() -> None:
    ffmodel = compiled()
    inputs = SingleDataLoader(ffmodel, first_input(ffmodel), X, shuffle=True)
    labels = SingleDataLoader(ffmodel, ffmodel.label_tensor, Y)
    inputs.next_batch(ffmodel)
    labels.next_batch(ffmodel)
    ffmodel.forward()
    for step in (ffmodel.backward, ffmodel.compute_metrics):
        with pytest.raises(ValueError, match="x: shuffled, epoch 0, label: as it is"):
            step()
    with pytest.raises(ValueError, match="some loaders shuffle and some do not"):
        ffmodel.fit(inputs, labels)
    assert ffmodel.fit(inputs, labels, shuffle=True, verbose=0)[0].samples == 29


def test_regularizer_by_flexflows_attributes() -> None:
    class Theirs:
        type = RegularizerMode.REG_MODE_L2
        _lambda = 0.5

    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([2, 3], "float32")
    for regularizer in (Theirs(), Regularizer(RegularizerMode.REG_MODE_NONE, 0.0)):
        ffmodel.dense(
            x, 3, kernel_regularizer=regularizer, kernel_initializer=ConstantInitializer()
        )
