"""Building graphs: layers, their handles, names, weights and shapes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from core_models import classifier, compiled, samples, weights

from flexflow.core import (
    ActiMode,
    AggrMode,
    CompMode,
    ConstantInitializer,
    DataType,
    FFConfig,
    FFModel,
    GlorotNormalInitializer,
    GlorotUniformInitializer,
    HeNormalInitializer,
    HeUniformInitializer,
    Initializer,
    L2Regularizer,
    LecunNormalInitializer,
    LecunUniformInitializer,
    LossType,
    NormInitializer,
    OneInitializer,
    PoolType,
    SGDOptimizer,
    Tensor,
    TruncatedNormalInitializer,
    UniformInitializer,
    ZeroInitializer,
)

IMAGE = (2, 4, 9, 7)
MATRIX = (2, 6)
Build = Callable[[FFModel, Tensor], Tensor]


def value_of(build: Build, x: np.ndarray, data_type: str = "float32") -> np.ndarray:
    """The output of a model for one batch, by predict."""
    ffmodel = FFModel(FFConfig())
    output = build(ffmodel, ffmodel.create_tensor(x.shape, data_type))
    ffmodel.compile(comp_mode=CompMode.INFERENCE, output=output)
    return ffmodel.predict(x)


@pytest.mark.parametrize(
    ("build", "shape", "expected"),
    [
        (lambda f, x: f.dense(x, 5), MATRIX, (2, 5)),
        (lambda f, x: f.dense(x, 5, use_bias=False), (2, 3, 6), (2, 3, 5)),
        (lambda f, x: f.conv2d(x, 8, 3, 2, 2, 1, 1, 0), IMAGE, (2, 8, 5, 6)),
        (lambda f, x: f.conv2d(x, 8, 3, 3, 1, 1, 1, 1, groups=True), IMAGE, (2, 8, 9, 7)),
        (lambda f, x: f.conv2d(x, 8, 3, 3, 1, 1, 0, 0, groups=4), IMAGE, (2, 8, 7, 5)),
        (lambda f, x: f.conv2d(x, 8, 3, 3, dilation=(2, 3)), IMAGE, (2, 8, 5, 1)),
        (lambda f, x: f.conv2d(x, 8, 3, 3, 2, 2, padding="same"), IMAGE, (2, 8, 5, 4)),
        (lambda f, x: f.conv2d(x, 8, 3, 3, padding="valid"), IMAGE, (2, 8, 7, 5)),
        (lambda f, x: f.conv2d(x, 8, 3, 3, 1, 1, (0, 2), (1, 0)), IMAGE, (2, 8, 9, 6)),
        (lambda f, x: f.pool2d(x, 2, 2, 2, 2, 0, 0), IMAGE, (2, 4, 4, 3)),
        (lambda f, x: f.pool2d(x, 3, 2), IMAGE, (2, 4, 3, 3)),
        (lambda f, x: f.pool2d(x, 2, 2, ceil_mode=True), IMAGE, (2, 4, 5, 4)),
        (lambda f, x: f.batch_norm(x), IMAGE, IMAGE),
        (lambda f, x: f.layer_norm(x, [2, 3]), IMAGE, IMAGE),
        (lambda f, x: f.flat(x), IMAGE, (2, 252)),
        (lambda f, x: f.reshape(x, [2, -1, 3]), MATRIX, (2, 2, 3)),
        (lambda f, x: f.transpose(x, [0, 2, 3, 1]), IMAGE, (2, 9, 7, 4)),
        (lambda f, x: f.concat([x, x, x], -1), MATRIX, (2, 18)),
        (lambda f, x: f.split(x, 3, 1)[2], MATRIX, (2, 2)),
        (lambda f, x: f.split(x, [1, 5], -1)[1], MATRIX, (2, 5)),
        (lambda f, x: f.broadcast_to(x, [3, 2, 6]), MATRIX, (3, 2, 6)),
        (lambda f, x: f.mean(x, [1]), MATRIX, (2,)),
        (lambda f, x: f.reduce_sum(x, [1, 3], keepdims=True), IMAGE, (2, 1, 9, 1)),
        (lambda f, x: f.reduce_max(x, -1), IMAGE, (2, 4, 9)),
        (lambda f, x: f.softmax(x), MATRIX, MATRIX),
        (lambda f, x: f.dropout(x, 0.5, 0), MATRIX, MATRIX),
    ],
)
def test_shapes(build: Build, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    ffmodel = FFModel(FFConfig())
    output = build(ffmodel, ffmodel.create_tensor(shape, DataType.DT_FLOAT))
    assert output.dims == output.shape == expected
    assert output.num_dims == len(expected)
    assert output.data_type is DataType.DT_FLOAT
    assert output.dtype == np.float32
    assert output.owner_op is not None
    assert ffmodel.get_last_layer().get_output_by_id(0).num_dims == output.num_dims


X = np.array([[-2.0, -0.5, 0.5, 2.0]])


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda f, x: x + x, 2 * X),
        (lambda f, x: x + 1, X + 1),
        (lambda f, x: 1 + x, X + 1),
        (lambda f, x: x - 1.5, X - 1.5),
        (lambda f, x: 1 - x, 1 - X),
        (lambda f, x: x - x, 0 * X),
        (lambda f, x: 2 * x, 2 * X),
        (lambda f, x: x * x, X * X),
        (lambda f, x: x / 4, X / 4),
        (lambda f, x: x / x, X / X),
        (lambda f, x: -x, -X),
        (lambda f, x: f.max(x, f.negative(x)), abs(X)),
        (lambda f, x: f.min(x, f.negative(x)), -abs(X)),
        (lambda f, x: f.abs(x), abs(X)),
        (lambda f, x: f.square(x), X * X),
        (lambda f, x: f.pow(x, 3), X**3),
        (lambda f, x: f.rsqrt(f.square(x)), 1 / abs(X)),
        (lambda f, x: f.exp(x), np.exp(X)),
        (lambda f, x: f.log(f.exp(x)), X),
        (lambda f, x: f.sqrt(f.square(x)), abs(X)),
        (lambda f, x: f.sin(x), np.sin(X)),
        (lambda f, x: f.cos(x), np.cos(X)),
        (lambda f, x: f.relu(x), np.maximum(X, 0)),
        (lambda f, x: f.elu(x, alpha=2.0), np.where(X > 0, X, 2 * np.expm1(X))),
        (lambda f, x: f.leaky_relu(x, 0.1), np.where(X > 0, X, 0.1 * X)),
        (lambda f, x: f.sigmoid(x), 1 / (1 + np.exp(-X))),
        (lambda f, x: f.silu(x), X / (1 + np.exp(-X))),
        (lambda f, x: f.tanh(x), np.tanh(X)),
        (lambda f, x: f.identity(x), X),
        (lambda f, x: f.scalar_true_divide(f.scalar_multiply(x, 3, False), 2), 1.5 * X),
        (lambda f, x: f.scalar_sub(f.scalar_add(x, 3), 5), X - 2),
        (lambda f, x: f.reduce_sum(x, [1]), X.sum(1)),
        (lambda f, x: f.reduce_min(x, [1], True), X.min(1, keepdims=True)),
        (lambda f, x: f.mean(x, [1]), X.mean(1)),
        (lambda f, x: f.softmax(x), np.exp(X) / np.exp(X).sum()),
        (lambda f, x: f.exp(f.log_softmax(x)), np.exp(X) / np.exp(X).sum()),
        (lambda f, x: f.cast(f.cast(x, "int32")), np.trunc(X)),
        (lambda f, x: f.dropout(x, 0.5), X),
        (lambda f, x: f.concat(f.split(x, 2, 1)[::-1], 1), X[:, [2, 3, 0, 1]]),
        (lambda f, x: x * f.create_constant([1, 4], X), X * X),
        (lambda f, x: x + f.create_constant([1, 4], 3.0), X + 3),
    ],
)
def test_values(build: Build, expected: np.ndarray) -> None:
    np.testing.assert_allclose(value_of(build, X), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (ActiMode.AC_MODE_NONE, X),
        (ActiMode.AC_MODE_RELU, np.maximum(X, 0)),
        (ActiMode.AC_MODE_SIGMOID, 1 / (1 + np.exp(-X))),
        (ActiMode.AC_MODE_TANH, np.tanh(X)),
        (ActiMode.AC_MODE_GELU, [[-0.04550026, -0.15426877, 0.34573123, 1.95449974]]),
    ],
)
def test_activations(activation: ActiMode, expected: np.ndarray) -> None:
    def dense(f: FFModel, x: Tensor) -> Tensor:
        y = f.dense(x, 4, activation, use_bias=False)
        y.owner_op.get_weight_tensor().set_weights(f, np.eye(4))
        return y

    def pool(f: FFModel, x: Tensor) -> Tensor:
        y = f.pool2d(f.reshape(x, [1, 1, 1, 4]), 1, 1, pool_type=PoolType.POOL_AVG)
        y = f.pool2d(y, 1, 1, activation=activation)
        assert f.get_last_layer().get_output_tensor().name == y.name
        return f.flat(y)

    for build in (dense, pool):
        np.testing.assert_allclose(value_of(build, X), expected, rtol=1e-5, atol=1e-6)


def test_batch_norm_ends_in_relu_unless_told() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3, 5)).astype("f")
    for relu in (True, False):
        out = value_of(lambda f, t: f.batch_norm(t, relu), x)  # noqa: B023
        expected = x / np.sqrt(1 + 1e-5)
        np.testing.assert_allclose(out, np.maximum(expected, 0) if relu else expected, rtol=1e-5)


def test_embedding() -> None:
    table = np.arange(12.0).reshape(4, 3)
    ids = np.array([[0, 3], [2, 2]])
    for aggr, expected in (
        (AggrMode.AGGR_MODE_NONE, table[ids]),
        (AggrMode.AGGR_MODE_SUM, table[ids].sum(1)),
        (AggrMode.AGGR_MODE_AVG, table[ids].mean(1)),
    ):

        def build(f: FFModel, x: Tensor) -> Tensor:
            y = f.embedding(x, 4, 3, aggr)  # noqa: B023
            y.owner_op.get_weight_tensor().set_weights(f, table)
            return y

        for kind in ("int32", "int64"):
            np.testing.assert_array_equal(value_of(build, ids, kind), expected)


@pytest.mark.parametrize("lower", ["int32", "float16", "bfloat16", "float32"])
def test_the_lower_type_is_cast(lower: str) -> None:
    ffmodel = FFModel(FFConfig())
    a = ffmodel.create_tensor([2, 3], lower)
    b = ffmodel.create_tensor([3], "float64")
    for method in (ffmodel.add, ffmodel.subtract, ffmodel.multiply, ffmodel.divide, ffmodel.max):
        assert method(a, b).data_type is DataType.DT_DOUBLE
        assert method(b, a, name="named").dims == (2, 3)
    assert ffmodel.add(b, b).data_type is DataType.DT_DOUBLE


def test_dense_takes_the_type_of_its_input_unless_told() -> None:
    ffmodel = FFModel(FFConfig())
    for kind, given, expected in (
        ("float64", None, "DT_DOUBLE"),
        ("int32", None, "DT_FLOAT"),
        ("float64", DataType.DT_FLOAT, "DT_FLOAT"),
        ("float32", "float16", "DT_HALF"),
    ):
        y = ffmodel.dense(ffmodel.create_tensor([2, 3], kind), 4, datatype=given)
        assert y.data_type.name == expected


def test_handles_of_layers() -> None:
    ffmodel = classifier()
    layers = ffmodel.get_layers()
    assert [(i, op.name, op.kind) for i, op in layers.items()] == [
        (0, "hidden", "linear"),
        (1, "top", "linear"),
        (2, "output", "softmax"),
    ]
    top = ffmodel.get_layer_by_name("top")
    assert top is ffmodel.get_layer_by_id(1)
    assert ffmodel.get_last_layer().name == "output"
    assert top.get_number_inputs() == top.get_number_outputs() == 1
    assert top.get_number_parameters() == 2
    assert top.get_input_tensor().name == "hidden"
    assert top.get_input_tensor().owner_op is layers[0]
    assert top.get_output_tensor().dims == (8, 3)
    assert top.get_weight_tensor().dims == (3, 6)
    assert top.get_bias_tensor().name == top.get_parameter_by_id(1).name == "top/bias"
    assert ffmodel.get_tensor_by_id(top.get_input_tensor().id).name == "hidden"
    assert layers[0].get_input_tensor().owner_op is None


def test_names_are_made_unique() -> None:
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([2, 3], "float32", name="x")
    names = [ffmodel.dense(x, 3, name="same").name for _ in range(3)]
    assert names == ["same", "same_1", "same_2"]
    assert ffmodel.get_layer_by_name("same").idx == 0
    assert ffmodel.relu(x, name="é").name == "é"


def test_print_layers(capsys: pytest.CaptureFixture[str]) -> None:
    ffmodel = classifier()
    ffmodel.print_layers(1)
    line = "1 top (linear): [8, 6] -> [8, 3]; top/kernel [3, 6], top/bias [3]\n"
    assert capsys.readouterr().out == line
    ffmodel.print_layers()
    assert capsys.readouterr().out.count("\n") == 3


def test_shared_weights_are_one() -> None:
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([4, 3], "float32")
    first = ffmodel.dense(x, 3, name="first")
    second = ffmodel.dense(first, 3, shared_op=first.owner_op)
    third = ffmodel.dense(second, 3, shared_op=second)
    layers = ffmodel.get_layers().values()
    assert {op.get_weight_tensor().name for op in layers} == {"first/kernel"}
    kernel = np.random.default_rng(0).normal(size=(3, 3)).astype("f")
    third.owner_op.get_weight_tensor().set_weights(ffmodel, kernel)
    ffmodel.compile(comp_mode=CompMode.INFERENCE)
    data = np.random.default_rng(1).normal(size=(4, 3)).astype("f")
    expected = data @ kernel.T @ kernel.T @ kernel.T
    np.testing.assert_allclose(ffmodel.predict(data), expected, rtol=1e-4, atol=1e-5)


INITIALIZERS: list[tuple[Initializer, float, float, float]] = [
    # initializer, mean, standard deviation, largest absolute value (fan_in 300, fan_out 200)
    (GlorotUniformInitializer(1), 0, (2 / 500) ** 0.5, (6 / 500) ** 0.5),
    (GlorotNormalInitializer(1), 0, (2 / 500) ** 0.5, 2.3 * (2 / 500) ** 0.5),
    (HeUniformInitializer(1), 0, (2 / 300) ** 0.5, (6 / 300) ** 0.5),
    (HeNormalInitializer(1), 0, (2 / 300) ** 0.5, 2.3 * (2 / 300) ** 0.5),
    (LecunUniformInitializer(1), 0, (1 / 300) ** 0.5, (3 / 300) ** 0.5),
    (LecunNormalInitializer(1), 0, (1 / 300) ** 0.5, 2.3 * (1 / 300) ** 0.5),
    (UniformInitializer(1, -3, 1), -1, 4 / 12**0.5, 3),
    (NormInitializer(1, 2.0, 0.5), 2, 0.5, 2 + 6 * 0.5),
    (TruncatedNormalInitializer(1, 0.0, 1.0), 0, 0.88, 2),
    (ConstantInitializer(0.25), 0.25, 0, 0.25),
    (ZeroInitializer(), 0, 0, 0),
    (OneInitializer(), 1, 0, 1),
]


@pytest.mark.parametrize(("initializer", "mean", "deviation", "limit"), INITIALIZERS)
def test_initializers(
    initializer: Initializer, mean: float, deviation: float, limit: float
) -> None:
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([2, 300], "float32")
    y = ffmodel.dense(x, 200, kernel_initializer=initializer)
    kernel = y.owner_op.get_weight_tensor().get_weights()
    assert abs(kernel.mean() - mean) < 0.02 * max(1, deviation)
    assert abs(kernel.std() - deviation) < 0.02 * max(deviation, 0.01)
    assert abs(kernel).max() <= limit * 1.0001


def test_seeds() -> None:
    def kernel(config_seed: int, seed: int | None) -> np.ndarray:
        ffmodel = FFModel(FFConfig(seed=config_seed))
        x = ffmodel.create_tensor([2, 30], "float32")
        y = ffmodel.dense(x, 20, kernel_initializer=UniformInitializer(seed, -1, 1))
        return y.owner_op.get_weight_tensor().get_weights()

    assert np.array_equal(kernel(1, None), kernel(1, None))
    assert not np.array_equal(kernel(1, None), kernel(2, None))
    assert np.array_equal(kernel(1, 0), kernel(2, 0))
    assert not np.array_equal(kernel(1, 0), kernel(1, 3))


def test_default_initializers_and_bias() -> None:
    ffmodel = classifier()
    kernel, bias, other, _ = weights(ffmodel)
    assert 0 < abs(kernel).max() <= (6 / 10) ** 0.5
    assert not bias.any()
    assert not np.array_equal(kernel[:3, :3], other[:3, :3])
    x = ffmodel.create_tensor([2, 3], "float32")
    y = ffmodel.dense(x, 2, bias_initializer=ConstantInitializer(7.0))
    assert y.owner_op.get_bias_tensor().get_weights().tolist() == [7, 7]


def test_regularizer_adds_to_the_gradient() -> None:
    def one_step(regularizer: L2Regularizer | None) -> np.ndarray:
        ffmodel = FFModel(FFConfig())
        x = ffmodel.create_tensor([4, 2], "float32")
        y = ffmodel.dense(x, 1, kernel_initializer=OneInitializer(), kernel_regularizer=regularizer)
        mean = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
        ffmodel.compile(SGDOptimizer(ffmodel, lr=0.5), mean)
        ffmodel.fit(np.ones((4, 2)), np.zeros((4, 1)), verbose=0)
        return y.owner_op.get_weight_tensor().get_weights()

    np.testing.assert_allclose(one_step(None) - one_step(L2Regularizer(0.25)), 0.125, rtol=1e-5)


def test_frozen_weights_stay() -> None:
    x, y = samples()
    ffmodel = compiled()
    hidden, top = ffmodel.get_layer_by_id(0), ffmodel.get_layer_by_id(1)
    hidden.trainable = False
    top.get_bias_tensor().trainable = False
    assert (hidden.trainable, top.trainable) == (False, True)
    before = weights(ffmodel)
    ffmodel.fit(x, y, verbose=0)
    changed = [not np.array_equal(a, b) for a, b in zip(before, weights(ffmodel))]
    assert changed == [False, False, True, False]
    hidden.trainable = True
    before = weights(ffmodel)
    ffmodel.fit(x, y, verbose=0)
    changed = [not np.array_equal(a, b) for a, b in zip(before, weights(ffmodel))]
    assert changed == [True, True, True, False]


def test_running_statistics_are_not_learnt() -> None:
    ffmodel = FFModel(FFConfig())
    norm = ffmodel.batch_norm(ffmodel.create_tensor([4, 3, 5], "float32")).owner_op
    assert [p.trainable for p in norm.get_parameters()] == [True, True, False, False]
    norm.trainable = False
    norm.trainable = True
    assert [p.trainable for p in norm.get_parameters()] == [True, True, False, False]
