"""input, constant and weight: operators without inputs."""

from __future__ import annotations

import numpy as np
import pytest

from flexflow.core import (
    CompMode,
    ConstantInitializer,
    FFConfig,
    FFModel,
    LossType,
    OneInitializer,
)

DTYPES = ["bool", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_constant(dtype: str, device: str) -> None:
    model = FFModel(FFConfig(device=device))
    x = model.create_tensor([3, 2], dtype)
    value = {"bool": True, "int32": 7, "int64": 2**40}.get(dtype, 0.375)
    constant = model.create_constant([3, 2], value, dtype)
    y = model.concat([x, constant], 1)
    model.compile(comp_mode=CompMode.INFERENCE, output=y)
    values = np.array([[0, 1], [1, 0], [1, 1]], x.dtype)
    x.set_tensor(model, values)
    model.forward()
    expected = np.concatenate([values, np.full((3, 2), value)], 1)
    np.testing.assert_array_equal(y.get_tensor(), expected)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0, 2)])
def test_weight_takes_its_gradient(shape: tuple[int, ...]) -> None:
    model = FFModel(FFConfig(device="reference"))
    weight = model.create_parameter(shape, "float64", OneInitializer(), name="w")
    factor = np.random.default_rng(0).normal(size=shape)
    scaled = model.multiply(weight, model.create_constant(shape, factor, "float64"))
    loss = model.reshape(model.reduce_sum(scaled, []), [1])
    model.compile(loss_type=LossType.LOSS_IDENTITY, output=loss)
    model.label_tensor.set_tensor(model, np.zeros(1))
    model.forward()
    model.backward()
    np.testing.assert_allclose(weight.get_gradients(), factor, rtol=1e-12)
    np.testing.assert_allclose(loss.get_tensor(), [factor.sum()], rtol=1e-12)
    model.backward()  # adds
    np.testing.assert_allclose(weight.get_gradients(), 2 * factor, rtol=1e-12)
    model.zero_gradients()
    assert not weight.get_gradients().any()


def test_constant_weight() -> None:
    model = FFModel(FFConfig())
    weight = model.create_parameter([2, 3], "float32", ConstantInitializer(0.25))
    np.testing.assert_array_equal(weight.get_weights(), np.full((2, 3), 0.25))


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_input_takes_any_batch(rows: int) -> None:
    model = FFModel(FFConfig())
    x = model.create_tensor([4, 3], "float32")
    y = model.scalar_multiply(x, 2.0)
    model.compile(comp_mode=CompMode.INFERENCE, output=y)
    values = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
    x.set_tensor(model, values)
    model.forward()
    np.testing.assert_array_equal(y.get_tensor(), 2 * values)


def test_an_input_beside_the_batch_keeps_its_extent() -> None:
    """Which input was written last says nothing about the batch, unless it carries the batch."""
    model = FFModel(FFConfig())
    x = model.create_tensor([4, 3], "float32")
    table = model.create_tensor([1, 3], "float32")
    y = model.add(x, table)
    model.compile(comp_mode=CompMode.INFERENCE, output=y)
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    row = np.array([[1, 2, 3]], np.float32)
    for rows in (4, 2, 4):
        x.set_tensor(model, data[:rows])
        table.set_tensor(model, row)
        model.forward()
        np.testing.assert_array_equal(y.get_tensor(), data[:rows] + row)
