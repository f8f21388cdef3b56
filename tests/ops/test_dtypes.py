"""Element types: casts among all of them, integers where operators take them, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from flexflow.core import AdamOptimizer, CompMode, FFConfig, FFModel, LossType

DTYPES = ["bool", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
VALUES = [0.0, 1.0, -1.0, 2.7, -2.7, 3.5, 100.0, 0.1, -0.5, 1.0 / 3, 2049.0, 1e-7]


def torch_dtype(name: str) -> torch.dtype:
    return getattr(torch, name)


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_cast(source: str, target: str, device: str) -> None:
    given = torch.tensor(VALUES, dtype=torch.float64).reshape(4, 3).to(torch_dtype(source))
    model = FFModel(FFConfig(device=device))
    x = model.create_tensor([4, 3], source)
    y = model.cast(x, target)
    model.compile(comp_mode=CompMode.INFERENCE, output=y)
    x.set_tensor(model, as_numpy(given))
    model.forward()
    np.testing.assert_array_equal(y.get_tensor(), as_numpy(given.to(torch_dtype(target))))


@pytest.mark.parametrize("through", ["float16", "bfloat16", "float32"])
def test_gradients_pass_through_float_casts(through: str) -> None:
    model = FFModel(FFConfig(device="reference"))
    x = model.create_tensor([2, 3], "float64")
    y = model.cast(model.scalar_multiply(model.cast(x, through), 3.0), "float64")
    model.compile(loss_type=LossType.LOSS_IDENTITY, output=y)
    x.set_tensor(model, np.ones((2, 3)))
    model.label_tensor.set_tensor(model, np.zeros((2, 3)))
    model.forward()
    model.backward()
    np.testing.assert_array_equal(x.get_gradients(), np.full((2, 3), 1.5))


def test_no_gradient_passes_through_integers() -> None:
    model = FFModel(FFConfig(device="reference"))
    x = model.create_tensor([2, 3], "float64")
    y = model.cast(model.cast(x, "int64"), "float64")
    model.compile(loss_type=LossType.LOSS_IDENTITY, output=model.add(y, x))
    x.set_tensor(model, np.full((2, 3), 1.5))
    model.label_tensor.set_tensor(model, np.zeros((2, 3)))
    model.forward()
    model.backward()
    np.testing.assert_array_equal(x.get_gradients(), np.full((2, 3), 0.5))  # of add alone


FLOATS_ONLY = [
    *("relu", "sigmoid", "tanh", "gelu", "elu", "leaky_relu", "silu", "exp", "log", "sqrt"),
    *("rsqrt", "sin", "cos", "softmax", "log_softmax"),
]
ATTRS: dict[str, Any] = {
    "pow": {"exponent": 2.0},
    "dropout": {"rate": 0.5},
    "scalar_true_divide": {"scalar": 2.0},
    "reduce_mean": {"axes": [0]},
    "linear": {"out_channels": 2},
    "layer_norm": {},
    "batch_norm": {},
}


@pytest.mark.parametrize("op", [*FLOATS_ONLY, *ATTRS])
def test_float_operators_refuse_integers(op: str) -> None:
    model = FFModel(FFConfig())
    x = model.create_tensor([2, 3], "int32")
    with pytest.raises(TypeError, match=r"op.*int32.*expected a floating-point dtype; cast it"):
        model.op(op, [x], "op", outputs=1, **ATTRS.get(op, {}))


@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "maximum", "minimum"])
def test_binary_operators_refuse_two_dtypes(op: str) -> None:
    model = FFModel(FFConfig())
    pair = [model.create_tensor([2, 3], dtype) for dtype in ("float32", "float64")]
    with pytest.raises(TypeError, match="float32 and float64; expected one dtype; cast one"):
        model.op(op, pair, outputs=1)


def test_scalars_of_integers_are_integral() -> None:
    model = FFModel(FFConfig())
    x = model.create_tensor([2, 3], "int64")
    for op in ("scalar_add", "scalar_sub", "scalar_multiply"):
        with pytest.raises(TypeError, match=r"scalar is 1\.5 and the input int64"):
            model.op(op, [x], outputs=1, scalar=1.5)


def test_large_integers_stay_exact() -> None:
    """2^53 + 1 is no float64."""
    model = FFModel(FFConfig())
    x = model.create_tensor([2], "int64")
    outputs = [
        model.scalar_add(x, 2.0),
        model.negative(x),
        model.add(x, x),
        model.max(x, model.scalar_sub(x, 1.0)),
        model.concat([x, x], 0),
    ]
    big = np.array([2**53 + 1, -(2**60) - 1])
    expected = [big + 2, -big, 2 * big, big, np.concatenate([big, big])]
    for y, values in zip(outputs, expected):
        model.compile(comp_mode=CompMode.INFERENCE, output=y)
        x.set_tensor(model, big)
        model.forward()
        np.testing.assert_array_equal(y.get_tensor(), values, y.name)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_training_in_half_precision(dtype: str) -> None:
    """Weights, gradients and optimizer state in 16 bits; the loss still falls."""
    model = FFModel(FFConfig())
    x = model.create_tensor([16, 8], dtype)
    model.dense(model.tanh(model.dense(x, 32)), 4)
    loss = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
    model.compile(AdamOptimizer(model, alpha=0.01), loss)
    random = np.random.default_rng(0)
    data = random.normal(size=(64, 8)).astype(np.float32)
    target = np.tanh(data @ random.normal(size=(8, 4))).astype(np.float32)
    history = model.fit(data, target, epochs=30, verbose=0)
    assert history[-1].loss < 0.2 * history[0].loss
