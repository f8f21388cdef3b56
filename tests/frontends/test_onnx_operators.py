"""Every row of the ONNX table, with each attribute, in each of its versions, in hand-made graphs:
results against ONNX's reference implementation, gradients against differences of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from flexflow.core import FFConfig, FFModel, LossType  # noqa: E402
from flexflow.onnx.model import ONNXModel  # noqa: E402

Arrays = Mapping[str, np.ndarray]


def r(*shape: int) -> np.ndarray:
    """Numbers around 0, none of them equal or very near to it."""
    values = np.random.default_rng(len(shape) + sum(shape)).normal(size=shape)
    return values + 0.05 * np.sign(values)


def p(*shape: int) -> np.ndarray:
    """Positive numbers."""
    return np.abs(r(*shape)) + 0.3


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def node(op_type: str, inputs: str, outputs: str = "y", **attributes: Any) -> Any:
    """A node; names are separated by blanks, and "_" leaves one out."""
    names = [[n.strip("_") for n in one.split()] for one in (inputs, outputs)]
    return helper.make_node(op_type, *names, name=f"{op_type}_{outputs.split()[0]}", **attributes)


def model(
    nodes: Sequence[Any], inputs: Arrays, initializers: Arrays, opset: int, outputs: Sequence[str]
) -> Any:
    """A file; extents of inputs are left open."""

    def info(name: str, array: np.ndarray) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        dims = [f"{name}{at}" for at in range(array.ndim)]
        return helper.make_tensor_value_info(name, kind, dims)

    graph = helper.make_graph(
        list(nodes),
        "graph",
        [info(name, array) for name, array in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in initializers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def apply(proto: Any, inputs: Arrays, device: str = "reference", **options: Any) -> Any:
    """A model with a file in it: itself, its inputs and results, and its weights."""
    ffmodel = FFModel(FFConfig(device=device))
    tensors = {
        name: ffmodel.create_tensor(array.shape, array.dtype, name=name)
        for name, array in inputs.items()
    }
    importer = ONNXModel(proto, **options)
    results = importer.apply(ffmodel, tensors)
    return ffmodel, tensors, results if isinstance(results, list) else [results], importer.weights


def forward(ffmodel: Any, tensors: Any, output: Any, inputs: Arrays, label: Any) -> np.ndarray:
    loss = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
    ffmodel.compile(None, loss, output=output)
    for name, array in inputs.items():
        tensors[name].set_tensor(ffmodel, array)
    ffmodel.label_tensor.set_tensor(ffmodel, label.astype(output.dtype))
    ffmodel.forward()
    return output.get_tensor()


def differences(proto: Any, inputs: Arrays, name: str, label: np.ndarray) -> np.ndarray:
    """The gradient of the mean squared error of the first result, by central differences."""
    proto = onnx.ModelProto.FromString(proto.SerializeToString())
    initial = {one.name: one for one in proto.graph.initializer}
    value = inputs[name] if name in inputs else numpy_helper.to_array(initial[name])
    gradient = np.zeros(value.shape)
    for at in np.ndindex(*value.shape):
        losses = []
        for step in (-1e-5, 1e-5):
            moved = value.copy()
            moved[at] += step
            feeds = {**inputs, name: moved} if name in inputs else inputs
            if name not in inputs:
                initial[name].CopyFrom(numpy_helper.from_array(moved, name))
            result = ReferenceEvaluator(proto).run(None, feeds)[0]
            losses.append(((result - label) ** 2).mean())
        gradient[at] = (losses[1] - losses[0]) / 2e-5
    return gradient


def check(
    nodes: Any,
    inputs: Arrays,
    initializers: Arrays | None = None,
    opset: int = 17,
    outputs: str = "y",
    gradients: bool = True,
    tolerance: float = 1e-9,
) -> Any:
    """Compare results in both types, and the gradients of inputs and weights."""
    nodes = nodes if isinstance(nodes, list) else [nodes]
    initializers = initializers or {}
    proto = model(nodes, inputs, initializers, opset, outputs.split())
    expected = ReferenceEvaluator(proto).run(None, dict(inputs))
    label = np.random.default_rng(3).normal(size=expected[0].shape)
    ffmodel, tensors, results, weights = apply(proto, inputs)
    for at in range(len(results))[::-1]:
        same_rows = label if at == 0 else np.zeros(expected[at].shape)
        got = forward(ffmodel, tensors, results[at], inputs, same_rows)
        np.testing.assert_allclose(got, expected[at], rtol=tolerance, atol=tolerance)
    single = {n: a.astype(np.float32) if a.dtype.kind == "f" else a for n, a in inputs.items()}
    constants = {
        n: a.astype(np.float32) if a.dtype.kind == "f" else a for n, a in initializers.items()
    }
    if not any(one.op_type in ("Cast", "Constant") for one in nodes):
        narrow = model(nodes, single, constants, opset, outputs.split())
        other = apply(narrow, single, "cpu")
        got = forward(other[0], other[1], other[2][0], single, label)
        np.testing.assert_allclose(got, expected[0], rtol=1e-4, atol=1e-5)
    if gradients:
        ffmodel.zero_gradients()
        ffmodel.backward()
        learnt = {n: w for n, w in weights.items() if getattr(w, "trainable", False)}
        floats = {n: t for n, t in tensors.items() if t.dtype.kind == "f"}
        for name, tensor in {**floats, **learnt}.items():
            numeric = differences(proto, inputs, name, label)
            np.testing.assert_allclose(tensor.get_gradients(), numeric, rtol=1e-5, atol=1e-7)
    return ffmodel, weights


X = {"x": r(3, 5)}
XY = {"x": r(3, 5), "z": r(3, 5) + 0.4}
IMAGES = {"x": r(2, 3, 5, 7)}


# ---- elementwise ----
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
def test_arithmetic(op_type: str) -> None:
    check(node(op_type, "x z"), {"x": r(3, 5), "z": p(3, 5) + 3})
    check(node(op_type, "x w"), X, {"w": p(5) + 3})
    check(node(op_type, "w x"), {"x": p(3, 5)}, {"w": p(3, 1, 5) + 3}, gradients=False)
    check(node(op_type, "x w"), X, {"w": np.array(2.5)})
    check(node(op_type, "w x"), {"x": p(3, 5)}, {"w": np.array(2.5)})


def test_variadic() -> None:
    for op_type in ("Sum", "Max", "Min"):
        check(node(op_type, "x z w"), XY, {"w": r(5) - 0.2})
        check(node(op_type, "x"), X, gradients=False)


@pytest.mark.parametrize("op_type", ["Abs", "Cos", "Exp", "Neg", "Relu", "Sigmoid", "Sin", "Tanh"])
def test_function(op_type: str) -> None:
    check(node(op_type, "x"), X)


@pytest.mark.parametrize("op_type", ["Log", "Sqrt", "Reciprocal"])
def test_function_of_positive(op_type: str) -> None:
    check(node(op_type, "x"), {"x": p(3, 5)})


def test_pow() -> None:
    check(node("Pow", "x e"), X, {"e": np.array(3.0)})
    check(node("Pow", "x e"), {"x": p(3, 5)}, {"e": np.array([0.5])})


def test_activations() -> None:
    check(node("Elu", "x"), X)
    check(node("Elu", "x", alpha=0.5), X)
    check(node("LeakyRelu", "x", alpha=0.25), X)
    # The reference implementation has constants in float32.
    check(node("Gelu", "x"), X, opset=20, gradients=False, tolerance=1e-7)
    check(node("Gelu", "x", approximate="tanh"), X, opset=20, gradients=False, tolerance=1e-7)


def test_clip() -> None:
    check(node("Clip", "x", min=-0.5, max=0.75), X, opset=6)
    check(node("Clip", "x", max=0.75), X, opset=6)
    check(node("Clip", "x low high"), X, {"low": np.array(-0.5), "high": np.array(0.7)})
    check(node("Clip", "x _ high"), X, {"high": np.array(0.7)})
    check(node("Clip", "x low"), X, {"low": np.array(-0.5)}, opset=11)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
def test_softmax(op_type: str) -> None:
    x = {"x": r(2, 3, 4)}
    check(node(op_type, "x"), x)
    check(node(op_type, "x", axis=1), x)
    check(node(op_type, "x", axis=-2), x, opset=13)
    for axis in ({}, {"axis": 1}, {"axis": 0}, {"axis": 2}, {"axis": -1}):
        old_softmax(op_type, axis)


def old_softmax(op_type: str, attributes: dict[str, int]) -> None:
    """Before version 13: over all axes from ``axis`` on, which the reference has not."""
    values = r(2, 3, 4)
    at = attributes.get("axis", 1) % 3
    rows = values.reshape(int(np.prod(values.shape[:at])), -1)
    shares = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
    expected = (shares if op_type == "Softmax" else np.log(shares)).reshape(values.shape)
    proto = model([node(op_type, "x", **attributes)], {"x": values}, {}, 11, ["y"])
    ffmodel, tensors, (result,), _ = apply(proto, {"x": values})
    got = forward(ffmodel, tensors, result, {"x": values}, expected)
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_cast_and_identity() -> None:
    check(node("Cast", "x", to=TensorProto.FLOAT), X, gradients=False)
    chain = [node("Cast", "n", "a", to=TensorProto.DOUBLE), node("Mul", "a x")]
    check(chain, {"x": r(3, 5), "n": np.arange(15).reshape(3, 5)})
    check(
        [node("Identity", "x", "a"), node("Identity", "w", "b"), node("Mul", "a b")], X, {"w": r(5)}
    )


# ---- shapes ----
@pytest.mark.parametrize("axis", [0, 1, 2, 4, -1])
def test_flatten(axis: int) -> None:
    keep = axis == 1
    check(rows(node("Flatten", "x", "a", axis=axis), keep), {"x": r(2, 3, 2, 4)}, CONSTANTS)
    check(node("Flatten", "x"), {"x": r(2, 3, 2, 4)})


CONSTANTS = {"rows": ints(1, -1), "first": ints(1)}


def rows(one: Any, keep: bool = False) -> list[Any]:
    """A node whose result "a" may have lost the batch, and what brings it into rows again."""
    if keep:
        return [one, node("Identity", "a")]
    return [
        one,
        node("Reshape", "a rows", "b"),
        node("Flatten", "x", "c"),
        node("ReduceSum", "c first", "d", keepdims=1),
        node("Mul", "b d"),
    ]


def test_reshape() -> None:
    x = {"x": r(2, 3, 4)}
    check(node("Reshape", "x s"), x, {"s": ints(0, -1)})
    check(node("Reshape", "x s"), x, {"s": ints(0, 2, 0, -1)[[0, 1, 3]]})
    check(node("Reshape", "x s"), x, {"s": ints(2, -1, 2)})
    check(node("Reshape", "x s", allowzero=1), x, {"s": ints(2, 12)}, opset=14)
    check(rows(node("Reshape", "x s", "a")), x, {"s": ints(-1, 0, 2), **CONSTANTS})
    proto = model([node("Reshape", "x", shape=[0, 12])], x, {}, 4, ["y"])
    assert apply(proto, x)[2][0].dims == (2, 12)


def test_reshape_to_a_computed_shape() -> None:
    """As exporters write x.view(x.size(0), -1)."""
    nodes = [
        node("Shape", "x", "s"),
        node("Constant", "", "zero", value_int=0),
        node("Gather", "s zero", "n"),
        node("Constant", "", "axes", value_ints=[0]),
        node("Unsqueeze", "n axes", "row"),
        node("Constant", "", "rest", value=numpy_helper.from_array(ints(-1))),
        node("Concat", "row rest", "shape", axis=0),
        node("Reshape", "x shape"),
    ]
    check(nodes, {"x": r(2, 3, 4)})


def test_shape_and_size() -> None:
    nodes = [
        node("Shape", "x", "s", start=-1),
        node("Size", "x", "n"),
        node("Add", "s n", "m"),
        node("Cast", "m", "f", to=TensorProto.DOUBLE),
        node("Mul", "x f"),
    ]
    check(nodes, {"x": r(2, 3)})


def test_squeeze_and_unsqueeze() -> None:
    x = {"x": r(3, 1, 5, 1)}
    check(node("Squeeze", "x", axes=[1]), x, opset=11)
    check(node("Squeeze", "x a"), x, {"a": ints(-1, 1)})
    check(node("Squeeze", "x"), x)
    check(node("Unsqueeze", "x", axes=[1, 3]), X, opset=11, gradients=False)
    check(node("Unsqueeze", "x a"), X, {"a": ints(1)})
    check(node("Unsqueeze", "x a"), X, {"a": ints(-1, 1)})


def test_transpose() -> None:
    check(node("Transpose", "x", perm=[0, 3, 1, 2]), IMAGES)
    check(rows(node("Transpose", "x", "a")), {"x": r(2, 3, 4)}, CONSTANTS)
    check(node("Transpose", "x", perm=[0, 2, 1]), {"x": r(2, 3, 4)}, opset=21)


def test_concat_and_split() -> None:
    check(node("Concat", "x z x", axis=1), XY)
    check(node("Concat", "x z", axis=-1), XY)
    y = "y u v"
    check(node("Split", "x", y, axis=1, split=[1, 2, 2]), X, opset=11, outputs=y)
    check(node("Split", "x s", y, axis=-1), X, {"s": ints(2, 2, 1)}, outputs=y)
    check(node("Split", "x", y, axis=1), {"x": r(2, 6)}, outputs=y)
    check(node("Split", "x", y, axis=1, num_outputs=3), {"x": r(2, 10)}, opset=18, outputs=y)


def test_expand() -> None:
    check(node("Expand", "x s"), {"x": r(3, 1)}, {"s": ints(3, 4)})
    check(node("Expand", "x s"), {"x": r(3, 1, 2)}, {"s": ints(4, 1)})


def test_slice() -> None:
    check(node("Slice", "x", starts=[1], ends=[-1], axes=[1]), X, opset=9, gradients=False)
    ends = {"a": ints(1), "b": ints(2**62), "c": ints(1), "d": ints(1)}
    check(node("Slice", "x a b c d"), X, ends)
    check(
        node("Slice", "x a b c"),
        {"x": r(3, 5, 4)},
        {"a": ints(0, -3), "b": ints(4, -1), "c": ints(1, 2)},
    )
    check(node("Slice", "x a b"), X, {"a": ints(0, 2), "b": ints(3, 4)})


def test_gather() -> None:
    n = {"n": np.array([[1, 4, 0], [4, 4, 2]])}
    check(node("Gather", "w n"), n, {"w": r(5, 3)})
    check(
        [node("Constant", "", "w", value=numpy_helper.from_array(r(5, 3))), node("Gather", "w n")],
        n,
    )
    check(node("Gather", "x i", axis=1), X, {"i": np.array(-2)})
    check(node("Gather", "x i", axis=1), X, {"i": ints(1, 2)})


@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"])
def test_reductions(op_type: str) -> None:
    x = {"x": r(2, 3, 4)}
    by_input = 13 if op_type == "ReduceSum" else 18
    check(node(op_type, "x", axes=[1]), x, opset=by_input - 1 if by_input == 18 else 11)
    check(node(op_type, "x a", keepdims=0), x, {"a": ints(1, -1)}, opset=by_input)
    check(rows(node(op_type, "x", "a")), x, CONSTANTS, opset=max(by_input, 13))
    check(node(op_type, "x", noop_with_empty_axes=1), x, opset=by_input, gradients=False)


# ---- layers ----
def test_gemm() -> None:
    w, c = {"w": r(5, 4)}, {"c": r(4)}
    check(node("Gemm", "x w"), X, w)
    check(node("Gemm", "x w c"), X, {**w, **c})
    check(node("Gemm", "x w c", transB=1), X, {"w": r(4, 5), **c})
    check(node("Gemm", "x w c", alpha=0.5, beta=2.0), X, {**w, **c})
    check(node("Gemm", "x w", alpha=0.5), X, w)
    check(node("Gemm", "x w c", transA=1, transB=1), {"x": r(3, 3)}, {"w": r(4, 3), "c": r(4)})
    for bias in (np.array(0.7), r(1), r(1, 1), r(3, 1), r(1, 4), r(3, 4)):
        check(node("Gemm", "x w c"), X, {**w, "c": bias})


def test_matmul() -> None:
    check(node("MatMul", "x w"), X, {"w": r(5, 4)})
    check(
        [node("MatMul", "x w", "a"), node("Add", "a c")],
        {"x": r(2, 3, 5)},
        {"w": r(5, 4), "c": r(4)},
    )
    check(node("MatMul", "x w"), X, {"w": r(5)})
    check(node("MatMul", "x z"), {"x": r(3, 3), "z": r(3, 3) + 0.2})


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 3], "pads": [1, 0, 1, 0], "dilations": [2, 1]},
        {"pads": [0, 1, 2, 3], "kernel_shape": [3, 2]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2], "dilations": [1, 2]},
        {"auto_pad": "VALID", "strides": [1, 2]},
    ],
)
def test_conv(attributes: Any) -> None:
    x = {"x": r(2, 3, 6, 7)}
    check(node("Conv", "x w", **attributes), x, {"w": r(4, 3, 3, 2)}, gradients=not attributes)
    check(node("Conv", "x w c", **attributes), x, {"w": r(4, 3, 3, 2), "c": r(4)}, gradients=False)


def test_conv_groups_and_constant_weights() -> None:
    x = {"x": r(2, 4, 5, 4)}
    check(node("Conv", "x w", group=2), x, {"w": r(6, 2, 2, 2)}, gradients=False)
    constant = node("Constant", "", "w", value=numpy_helper.from_array(r(4, 4, 2, 2)))
    ffmodel, _ = check([constant, node("Conv", "x w")], x, gradients=False)
    kernel = ffmodel.get_layer_by_name("Conv_y").get_weight_tensor()
    assert kernel.name == "w" and ffmodel.tensor_info(kernel.id).trainable


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 2]},
        {"strides": [2, 3], "pads": [1, 0, 0, 1]},
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [3, 2]},
        {"auto_pad": "VALID"},
    ],
)
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "AveragePool with padding"])
def test_pool(kind: str, attributes: Any) -> None:
    if kind == "AveragePool with padding":
        attributes = {**attributes, "count_include_pad": 1}
    check(
        node(kind.split()[0], "x", kernel_shape=[3, 2], **attributes),
        {"x": r(2, 3, 6, 8)},
        gradients=False,
    )


def test_global_pools() -> None:
    check(node("GlobalAveragePool", "x"), IMAGES)
    check(node("GlobalMaxPool", "x"), IMAGES)


STATISTICS = {"g": r(3), "b": r(3), "m": r(3), "v": p(3)}


def test_batch_normalization() -> None:
    _, weights = check(node("BatchNormalization", "x g b m v"), IMAGES, STATISTICS)
    assert [weights[n].name for n in "mv"] == ["m", "v"]
    check(node("BatchNormalization", "x g b m v", epsilon=0.125), IMAGES, STATISTICS)


def test_batch_normalization_trains() -> None:
    """The statistics move as ONNX says: with the batch's variance, not n / (n - 1) of it."""
    one = node("BatchNormalization", "x g b m v", "y p q", training_mode=1, momentum=0.75)
    proto = model([one], IMAGES, STATISTICS, 15, ["y"])
    everything = model([one], IMAGES, STATISTICS, 15, ["y", "p", "q"])
    expected = ReferenceEvaluator(everything).run(None, IMAGES)
    ffmodel, tensors, (result,), weights = apply(proto, IMAGES)
    got = forward(ffmodel, tensors, result, IMAGES, np.zeros(expected[0].shape))
    np.testing.assert_allclose(got, expected[0], atol=1e-9)
    ffmodel.zero_gradients()
    ffmodel.backward()
    for name, moved in zip("mv", expected[1:]):
        np.testing.assert_allclose(weights[name].get_tensor(), moved, atol=1e-9)


@pytest.mark.parametrize(
    ("opset", "outputs", "attributes", "training", "kind"),
    [
        (15, "y", {}, None, "batch_norm_inference"),
        (15, "y p q", {"training_mode": 1}, None, "batch_norm"),
        (15, "y", {}, True, "batch_norm"),
        (15, "y p q", {"training_mode": 1}, False, "batch_norm_inference"),
        (9, "y", {}, None, "batch_norm_inference"),
        (9, "y p q s t", {}, None, "batch_norm"),
        (7, "y", {"spatial": 1}, None, "batch_norm_inference"),
        (6, "y", {"is_test": 1}, None, "batch_norm_inference"),
        (6, "y", {"is_test": 0}, None, "batch_norm"),
    ],
)
def test_batch_normalization_mode(
    opset: int, outputs: str, attributes: Any, training: bool | None, kind: str
) -> None:
    one = node("BatchNormalization", "x g b m v", outputs, **attributes)
    proto = model([one], IMAGES, STATISTICS, opset, ["y"])
    ffmodel, *_ = apply(proto, IMAGES, training=training)
    assert ffmodel.get_layer_by_name("BatchNormalization_y").kind == kind


@pytest.mark.parametrize(
    ("opset", "inputs", "attributes", "training", "drops"),
    [
        (6, "x", {"ratio": 0.3, "is_test": 0}, None, True),
        (6, "x", {"ratio": 0.3, "is_test": 1}, None, False),
        (7, "x", {"ratio": 0.3}, None, True),
        (7, "x", {}, False, False),
        (13, "x", {}, None, False),
        (13, "x", {}, True, True),
        (13, "x rate on", {"seed": 3}, None, True),
        (13, "x rate off", {}, None, False),
        (13, "x _ on", {}, None, True),
        (13, "x zero on", {}, None, False),
    ],
)
def test_dropout(
    opset: int, inputs: str, attributes: Any, training: bool | None, drops: bool
) -> None:
    constants = {
        "rate": np.array(0.3),
        "zero": np.array(0.0),
        "on": np.array(True),
        "off": np.array(False),
    }
    nodes = [node("Dropout", inputs, "a mask", **attributes), node("Neg", "a")]
    proto = model(nodes, X, constants, opset, ["y"])
    ffmodel, *_ = apply(proto, X, training=training)
    kinds = [layer.kind for layer in ffmodel.get_layers().values()]
    assert kinds == ["dropout"] * drops + ["negative"]


def test_layer_normalization() -> None:
    x = {"x": r(2, 3, 5)}
    check(node("LayerNormalization", "x g b"), x, {"g": r(5), "b": r(5)})
    check(node("LayerNormalization", "x g"), x, {"g": r(5)})
    check(
        node("LayerNormalization", "x g b", axis=1, epsilon=0.125), x, {"g": r(3, 5), "b": r(3, 5)}
    )
    check(
        node("LayerNormalization", "x g b", axis=-2),
        x,
        {"g": r(3, 5), "b": r(3, 5)},
        gradients=False,
    )
