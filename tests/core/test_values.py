"""Values of tensors: read and written before and after compile, converted, mapped, attached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from core_models import classifier, compiled, linear_regression, samples, weights

from flexflow.core import (
    CompMode,
    DataType,
    FFConfig,
    FFModel,
    FlexFlowError,
    LossType,
    SGDOptimizer,
)
from flexflow.core.arrays import convert, expect_finite, from_storage, is_finite, to_storage, view
from flexflow.core.types import DTYPE_NAMES, as_data_type


def test_weights_before_and_after_compile() -> None:
    ffmodel = classifier()
    top = ffmodel.get_layer_by_name("top")
    kernel, bias = np.full((3, 6), 0.5, "f"), np.array([1.0, 2.0, 3.0], "f")
    top.get_weight_tensor().set_weights(ffmodel, kernel)
    hidden = weights(ffmodel)[0]
    ffmodel.compile(comp_mode=CompMode.INFERENCE)
    assert np.array_equal(top.get_weight_tensor().get_weights(ffmodel), kernel)
    assert np.array_equal(weights(ffmodel)[0], hidden)
    top.get_bias_tensor().set_weights(ffmodel, bias)
    x, _ = samples(8)
    logits = np.maximum(x @ hidden.T, 0) @ kernel.T + bias
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(ffmodel.predict(x), expected, rtol=1e-4)


def test_weights_survive_a_second_compile() -> None:
    x, y = samples()
    ffmodel = compiled()
    ffmodel.fit(x, y, epochs=2, verbose=0)
    before = weights(ffmodel)
    ffmodel.compile(SGDOptimizer(ffmodel), None, comp_mode=CompMode.INFERENCE)
    assert all(np.array_equal(a, b) for a, b in zip(before, weights(ffmodel)))


def test_set_weights_act_in_training() -> None:
    ffmodel, layer = linear_regression()
    x, y = np.eye(4, 2), np.arange(4.0).reshape(4, 1)
    for kernel in ([[0.0, 0.0]], [[1.0, -1.0]]):
        layer.get_weight_tensor().set_weights(ffmodel, kernel)
        layer.get_bias_tensor().set_weights(ffmodel, [0.0])
        ffmodel.fit(x, y, verbose=0)
        error = x @ np.transpose(kernel) - y
        expected = np.array(kernel) - 0.125 * 2 / 4 * error.T @ x
        np.testing.assert_allclose(layer.get_weight_tensor().get_weights(), expected, rtol=1e-12)


def test_gradients_are_those_of_the_loss() -> None:
    ffmodel, layer = linear_regression()
    x, y = np.arange(8.0).reshape(4, 2), np.arange(4.0).reshape(4, 1)
    kernel, bias = (p.get_weights() for p in layer.get_parameters())
    layer.get_input_tensor().set_tensor(ffmodel, x)
    ffmodel.label_tensor.set_tensor(ffmodel, y)
    output = layer.get_output_tensor()
    for passes in (1, 2):  # a second backward adds
        ffmodel.forward()
        ffmodel.backward()
        error = x @ kernel.T + bias - y
        np.testing.assert_allclose(output.get_tensor(ffmodel), x @ kernel.T + bias, rtol=1e-12)
        expected = passes * 2 / 4 * error.T @ x
        gradient = layer.get_weight_tensor().get_gradients(ffmodel, None)
        np.testing.assert_allclose(gradient, expected, rtol=1e-12)
    np.testing.assert_allclose(output.get_gradients(), 2 / 4 * error, rtol=1e-12)
    np.testing.assert_allclose(
        layer.get_input_tensor().get_gradients(), 2 / 4 * error @ kernel, rtol=1e-12
    )
    np.testing.assert_allclose(ffmodel.get_perf_metrics().loss, (error**2).mean(), rtol=1e-12)
    ffmodel.zero_gradients()
    assert not layer.get_weight_tensor().get_gradients().any()


def test_gradient_at_a_softmax_under_cross_entropy() -> None:
    ffmodel = compiled()
    x, y = samples(8)
    output, logits = (ffmodel.get_layer_by_id(i).get_output_tensor() for i in (2, 1))
    ffmodel.get_layer_by_id(0).get_input_tensor().set_tensor(ffmodel, x)
    ffmodel.label_tensor.set_tensor(ffmodel, y)
    ffmodel.forward()
    ffmodel.backward()
    p, hot = output.get_tensor(), np.eye(3)[y]
    np.testing.assert_allclose(logits.get_gradients(), (p - hot) / 8, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(output.get_gradients(), -hot / p / 8, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(output.get_model_output_gradients(), -hot / p / 8, rtol=1e-4)


def test_model_output_is_the_same_from_any_tensor() -> None:
    ffmodel = compiled()
    x, _ = samples(8)
    data = ffmodel.get_layer_by_id(0).get_input_tensor()
    data.set_tensor(ffmodel, x)
    ffmodel.forward()
    expected = ffmodel.get_layer_by_id(2).get_output_tensor().get_tensor(ffmodel)
    assert np.array_equal(data.get_model_output_tensor(ffmodel), expected)
    assert ffmodel.output_tensor.name == "output"


def test_a_smaller_batch_is_read_as_such() -> None:
    ffmodel = compiled()
    x, y = samples(5)
    data = ffmodel.get_layer_by_id(0).get_input_tensor()
    data.set_tensor(ffmodel, x)
    ffmodel.label_tensor.set_tensor(ffmodel, y)
    ffmodel.forward()
    assert data.get_tensor().shape == (5, 4)
    assert ffmodel.output_tensor.get_tensor().shape == (5, 3)
    ffmodel.backward()
    assert ffmodel.get_perf_metrics().samples == 5
    fixed = ffmodel.create_constant([8, 3], np.ones((8, 3)))
    assert fixed.get_tensor().shape == (8, 3)
    data.set_tensor(ffmodel, samples(8)[0])
    assert data.get_tensor().shape == (8, 4)
    assert ffmodel.label_tensor.get_tensor().shape == (5, 1)
    ffmodel.label_tensor.set_tensor(ffmodel, samples(8)[1])
    ffmodel.forward()
    assert ffmodel.output_tensor.get_tensor().shape == (8, 3)


CONVERSIONS = [
    # from, to, what happens: the value, or the error
    *[("float64", name, None) for name in ("float16", "bfloat16", "float32", "float64")],
    *[("int8", name, None) for name in DTYPE_NAMES.values() if name != "bool"],
    *[("uint8", name, None) for name in DTYPE_NAMES.values() if name != "bool"],
    *[("bool", name, None) for name in DTYPE_NAMES.values()],
    *[("float32", name, TypeError) for name in ("bool", "int32", "int64")],
    *[("int64", "bool", TypeError), ("complex64", "float32", TypeError)],
    *[
        ("object", "float32", TypeError),
        ("U3", "float32", TypeError),
        ("M8[s]", "int64", TypeError),
    ],
]


@pytest.mark.parametrize(("source", "name", "error"), CONVERSIONS)
def test_conversions(source: str, name: str, error: type[Exception] | None) -> None:
    values = np.array([0, 1, 1], source)
    if error:
        with pytest.raises(error, match=r"value: got .* expected"):
            convert(values, as_data_type(name), "value")
        return
    ffmodel = FFModel(FFConfig())
    tensor = ffmodel.create_tensor([3], name)
    tensor.set_tensor(ffmodel, values)
    read = tensor.get_tensor(ffmodel)
    assert read.dtype == tensor.dtype
    assert read.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("values", "name", "message"),
    [
        ([2**40], "int32", "the value 1099511627776 does not fit int32"),
        ([-(2**40)], "int32", "the value -1099511627776 does not fit"),
        (np.array([2**63], np.uint64), "int64", "does not fit int64"),
        ([1e300], "float32", "the value 1e.300 does not fit float32"),
        ([1e5], "float16", "the value 100000.0 does not fit float16"),
        ([[1, 2], [3]], "float32", "the values make no array"),
        ([70000], "float16", "the value 70000 does not fit float16"),
        (np.array([65535], np.uint16), "float16", "the value 65535 does not fit float16"),
        (np.float32([3.4e38]), "bfloat16", "does not fit bfloat16"),
        ([-3.4e38], "bfloat16", "does not fit bfloat16"),
        ([2**64], "int64", "18446744073709551616 does not fit 64 bits; expected int64 values"),
    ],
)
def test_values_out_of_range(values: Any, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        convert(values, as_data_type(name), "value")


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a[::2],
        lambda a: a.T.copy().T,
        lambda a: a.astype(">f4"),
        lambda a: a.astype("f8"),
        lambda a: a.tolist(),
        lambda a: memoryview(a),
    ],
)
def test_any_layout_is_taken(make: Callable[[np.ndarray], Any]) -> None:
    array = np.arange(24, dtype="f").reshape(6, 4)
    values = make(array)
    ffmodel = FFModel(FFConfig())
    tensor = ffmodel.create_tensor(np.asarray(values).shape, "float32")
    tensor.set_tensor(ffmodel, values)
    assert np.array_equal(tensor.get_tensor(), np.asarray(values))


def test_nan_stays_nan_in_bfloat16() -> None:
    bits = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000, 0x7F800001, 0xFF800001], np.uint32)
    nan = bits.view(np.float32)
    assert np.isnan(from_storage(to_storage(nan, DataType.DT_BFLOAT16), DataType.DT_BFLOAT16)).all()
    others = np.float32([0.0, -np.inf, np.inf, 3.3895314e38, -1.0])
    stored = to_storage(np.concatenate([others, nan]), DataType.DT_BFLOAT16)
    assert np.array_equal(from_storage(stored, DataType.DT_BFLOAT16)[:5], others)


def test_only_blocks_of_memory_are_passed_as_such() -> None:
    for array in (np.zeros((3, 4), order="F"), np.zeros(6)[::2], np.zeros(6)[::-1]):
        with pytest.raises(ValueError, match="is no block"):
            view(array)


def test_what_fits_is_not_copied() -> None:
    array = np.zeros((3, 4), "f")
    assert np.shares_memory(convert(array, DataType.DT_FLOAT, "x"), array)


def test_bfloat16_rounds_to_even() -> None:
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).normal(size=1000).astype("f") * 100
    ours = from_storage(to_storage(values, DataType.DT_BFLOAT16), DataType.DT_BFLOAT16)
    assert np.array_equal(ours, torch.tensor(values).bfloat16().float().numpy())


def test_finite() -> None:
    assert is_finite(np.full(10, 3e38, "f"))  # the sum is not
    assert not is_finite(np.array([np.inf, -np.inf]))
    assert is_finite(np.array([2**62, 2**62]))
    array = np.zeros((5, 3))
    array[3, 1] = np.nan
    with pytest.raises(ValueError, match="x: row 3 contains NaN or infinity"):
        expect_finite(array, "x")


def test_mapped_access() -> None:
    ffmodel = compiled()
    weight = ffmodel.get_layer_by_name("top").get_weight_tensor()
    config = ffmodel.ffconfig
    assert not weight.is_mapped()
    weight.inline_map(ffmodel, config)
    assert weight.is_mapped()
    weight.get_array(ffmodel, config)[0] = 22.25
    assert weight.get_flat_array(ffmodel, config)[:7].tolist()[:6] == [22.25] * 6
    with pytest.raises(FlexFlowError, match="is mapped already; call inline_unmap"):
        weight.inline_map(ffmodel, config)
    weight.inline_unmap(ffmodel, config)
    assert (weight.get_weights(ffmodel)[0] == 22.25).all()
    with pytest.raises(FlexFlowError, match="is not mapped; call inline_map"):
        weight.get_array(ffmodel, config)
    with pytest.raises(FlexFlowError, match="is not mapped"):
        weight.inline_unmap(ffmodel, config)


def test_a_computed_tensor_cannot_be_changed() -> None:
    ffmodel = compiled()
    ffmodel.get_layer_by_id(0).get_input_tensor().set_tensor(ffmodel, samples(8)[0])
    ffmodel.forward()
    output = ffmodel.output_tensor
    output.inline_map()
    with pytest.raises(ValueError, match="read-only"):
        output.get_array()[0] = 1
    output.inline_unmap()
    with pytest.raises(TypeError, match=r"output.*is computed by softmax; only inputs and weights"):
        output.set_tensor(ffmodel, np.zeros((8, 3)))


def test_attached_arrays_are_read_in_each_forward() -> None:
    ffmodel, layer = linear_regression()
    layer.get_weight_tensor().set_weights(ffmodel, [[1.0, 1.0]])
    data, array = layer.get_input_tensor(), np.zeros((4, 2))
    data.attach_numpy_array(ffmodel, ffmodel.ffconfig, array)
    for value in (1.0, 2.0):
        array[:] = value
        ffmodel.forward()
        assert layer.get_output_tensor().get_tensor().tolist() == [[2 * value]] * 4
    data.detach_numpy_array(ffmodel.ffconfig)
    array[:] = 7
    ffmodel.forward()
    assert layer.get_output_tensor().get_tensor()[0] == 4
    with pytest.raises(FlexFlowError, match="x: no array is attached"):
        data.detach_numpy_array(ffmodel.ffconfig)


def test_attached_arrays_serve_fit_as_well() -> None:
    ffmodel = FFModel(FFConfig(threads=1))
    a, b = (ffmodel.create_tensor([4, 2], "float32", name=name) for name in "ab")
    unused = ffmodel.create_tensor([1000, 2], "float32")
    ffmodel.add(a, b)
    ffmodel.compile(None, LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE, [])
    array, label = np.full((4, 2), 3, "f"), np.full((4, 2), 4, "f")
    b.attach_numpy_array(ffmodel, None, array)
    unused.attach_numpy_array(ffmodel, None, np.zeros((1000, 2), "f"))
    assert ffmodel.predict(np.ones((4, 2))).tolist() == [[4, 4]] * 4
    assert ffmodel.eval(np.ones((8, 2)), np.full((8, 2), 4), verbose=0).loss == 0
    ffmodel.label_tensor.attach_numpy_array(ffmodel, None, label)
    ffmodel.forward()
    array[:], label[:] = 5, 6  # too late for the input, in time for the label
    ffmodel.compute_metrics()
    assert ffmodel.get_perf_metrics().samples == 12
    assert ffmodel.get_perf_metrics().loss == pytest.approx(4 * 4 / 12)
    with pytest.raises(FlexFlowError, match="was never written"):
        unused.get_tensor()


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (np.zeros((4, 2), "f"), TypeError, "x: got float32, expected an array of float64"),
        ([[0.0, 0.0]] * 4, TypeError, "x: got list"),
        (np.zeros((4, 3)), ValueError, r"x: got an array of shape \(4, 3\), expected \(4, 2\)"),
    ],
)
def test_bad_attached_arrays(array: Any, error: type[Exception], message: str) -> None:
    ffmodel, layer = linear_regression()
    with pytest.raises(error, match=message):
        layer.get_input_tensor().attach_numpy_array(ffmodel, None, array)
    with pytest.raises(ValueError, match="dense: is computed; only inputs"):
        layer.get_output_tensor().attach_numpy_array(ffmodel, None, np.zeros((4, 1)))


def test_create_grad() -> None:
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([2, 3], DataType.DT_FLOAT, create_grad=False, name="x")
    with pytest.raises(ValueError, match="x: was created with create_grad=False"):
        x.get_gradients()


def test_constants() -> None:
    ffmodel = FFModel(FFConfig())
    array = np.arange(6.0).reshape(2, 3)
    tensor = ffmodel.create_constant([2, 3], array, "float64")
    assert np.array_equal(tensor.get_tensor(), array)
    assert not ffmodel.tensor_info(tensor.id).trainable
    with pytest.raises(ValueError, match=r"shape \(2, 3\), expected \(3, 2\)"):
        ffmodel.create_constant([3, 2], array)
    with pytest.raises(TypeError, match="got float64 values, expected int32"):
        ffmodel.create_constant([2], 0.5, "int32")


def test_repr() -> None:
    ffmodel = classifier()
    layer = ffmodel.get_layer_by_id(0)
    assert repr(layer) == "<Op 0 hidden: linear>"
    assert repr(layer.get_output_tensor()) == "<Tensor hidden: DT_FLOAT [8, 6]>"
    assert repr(layer.get_weight_tensor()) == "<Parameter hidden/kernel: DT_FLOAT [6, 4]>"


def test_a_weight_can_be_the_output() -> None:
    """In inference mode dropout passes on what it gets, here a weight that no operator reads."""
    model = FFModel(FFConfig())
    scale = model.create_parameter([], "float32", name="scale")
    scale.set_weights(model, np.float32(3))
    y = model.dropout(scale, 0.5)
    model.compile(comp_mode=CompMode.INFERENCE, output=y)
    model.forward()
    assert y.get_tensor() == 3
