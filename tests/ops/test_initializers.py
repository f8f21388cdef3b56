"""First values of weights: statistics, bounds, seeds and fans (the operator `initialize`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flexflow.core import (
    CompMode,
    FFConfig,
    FFModel,
    GlorotNormalInitializer,
    GlorotUniformInitializer,
    HeNormalInitializer,
    HeUniformInitializer,
    Initializer,
    LecunNormalInitializer,
    LecunUniformInitializer,
    LossType,
    NormInitializer,
    TruncatedNormalInitializer,
    UniformInitializer,
)

SHAPE = (300, 500)  # out, in
# The standard deviation of a standard normal cut at 2 is not 1; it is this.
CUT = 0.8796256610342398


def drawn(
    initializer: Initializer | None, shape: Any = SHAPE, dtype: str = "float32", seed: int = 0
) -> np.ndarray:
    model = FFModel(FFConfig(seed=seed))
    return model.create_parameter(shape, dtype, initializer).get_weights().astype(np.float64)


def check_moments(values: np.ndarray, mean: float, deviation: float) -> None:
    """Within five standard deviations of the estimates."""
    count = values.size
    assert abs(values.mean() - mean) < 5 * deviation / np.sqrt(count)
    assert abs(values.std() / deviation - 1) < 5 / np.sqrt(count)


@pytest.mark.parametrize(
    ("kind", "variance"),
    [
        (GlorotUniformInitializer, 2 / 800),
        (HeUniformInitializer, 2 / 500),
        (LecunUniformInitializer, 1 / 500),
    ],
)
def test_uniform_from_fans(kind: Any, variance: float) -> None:
    values = drawn(kind(3))
    check_moments(values, 0, np.sqrt(variance))
    bound = np.sqrt(3 * variance)
    assert np.abs(values).max() <= bound * (1 + 1e-6)
    assert np.abs(values).max() > 0.999 * bound


@pytest.mark.parametrize(
    ("kind", "variance"),
    [
        (GlorotNormalInitializer, 2 / 800),
        (HeNormalInitializer, 2 / 500),
        (LecunNormalInitializer, 1 / 500),
    ],
)
def test_normal_from_fans(kind: Any, variance: float) -> None:
    values = drawn(kind(3))
    check_moments(values, 0, np.sqrt(variance))  # after the cut
    bound = 2 * np.sqrt(variance) / CUT
    assert 0.99 * bound < np.abs(values).max() <= bound * (1 + 1e-6)


@pytest.mark.parametrize(
    ("shape", "fan_in", "fan_out"),
    [
        ((7, 5), 5, 7),
        ((8, 3, 5, 2), 3 * 5 * 2, 8 * 5 * 2),
        ((64,), 64, 64),
    ],
)
def test_fans_of_shapes(shape: tuple[int, ...], fan_in: int, fan_out: int) -> None:
    """(out, in, window...): the largest of many draws shows the bound."""
    bounds = {
        GlorotUniformInitializer: np.sqrt(6 / (fan_in + fan_out)),
        HeUniformInitializer: np.sqrt(6 / fan_in),
        LecunUniformInitializer: np.sqrt(3 / fan_in),
    }
    for kind, bound in bounds.items():
        largest = max(np.abs(drawn(kind(seed), shape)).max() for seed in range(60))
        assert 0.97 * bound < largest <= bound * (1 + 1e-6), kind


def test_layers_have_the_fans_of_their_kernels() -> None:
    """Groups make the kernel smaller, and so does the layer's share of the inputs."""
    model = FFModel(FFConfig())
    x = model.create_tensor([2, 16, 8, 8], "float32")
    kernel = model.conv2d(x, 64, 3, 3, groups=4).owner_op.get_weight_tensor()
    assert kernel.dims == (64, 4, 3, 3)
    bound = np.sqrt(6 / (4 * 9 + 64 * 9))
    assert 0.98 * bound < np.abs(kernel.get_weights()).max() <= bound * (1 + 1e-6)


def test_uniform() -> None:
    values = drawn(UniformInitializer(3, -0.5, 2.0))
    assert values.min() >= -0.5
    assert values.max() < 2.0
    check_moments(values, 0.75, 2.5 / np.sqrt(12))


def test_normal() -> None:
    values = drawn(NormInitializer(3, 1.5, 0.2))
    check_moments(values, 1.5, 0.2)
    standard = (values - 1.5) / 0.2
    assert np.abs(standard).max() > 4  # not cut
    assert abs((standard**3).mean()) < 5 * np.sqrt(15 / values.size)
    assert abs((standard**4).mean() - 3) < 5 * np.sqrt(96 / values.size)


def test_truncated_normal() -> None:
    values = drawn(TruncatedNormalInitializer(3, -1.0, 0.5))
    assert np.abs(values + 1).max() <= 1.0 + 1e-6
    check_moments(values, -1.0, 0.5 * CUT)


@pytest.mark.parametrize(
    "initializer",
    [
        GlorotUniformInitializer(5),
        NormInitializer(5),
        TruncatedNormalInitializer(5),
        HeNormalInitializer(5),
    ],
)
def test_seeds(initializer: Initializer) -> None:
    values = drawn(initializer)
    np.testing.assert_array_equal(values, drawn(initializer))
    np.testing.assert_array_equal(values, drawn(initializer, seed=9))  # its own seed counts
    assert (values != drawn(type(initializer)(6))).mean() > 0.99
    # The same numbers in any type, up to its rounding.
    np.testing.assert_allclose(values, drawn(initializer, dtype="float64"), rtol=1e-6)
    np.testing.assert_allclose(values, drawn(initializer, dtype="float16"), rtol=1e-3, atol=1e-7)


def test_seed_of_the_model() -> None:
    one, same, other = drawn(None, seed=1), drawn(None, seed=1), drawn(None, seed=2)
    np.testing.assert_array_equal(one, same)
    assert (one != other).mean() > 0.99


def test_weights_of_one_model_differ() -> None:
    model = FFModel(FFConfig())
    x = model.create_tensor([4, 50], "float32")
    first, second = (model.dense(x, 50).owner_op.get_weight_tensor() for _ in range(2))
    assert (first.get_weights() != second.get_weights()).mean() > 0.99


def test_weights_and_masks_of_one_seed_are_apart() -> None:
    """A dropout and a weight of the same seed and stream share no numbers."""
    uniform = drawn(UniformInitializer(0, 0.0, 1.0), (1000,))
    model = FFModel(FFConfig())
    x = model.create_tensor([1000], "float32")
    y = model.dropout(x, 0.5, 0)
    model.compile(loss_type=LossType.LOSS_IDENTITY, output=y)
    model.label_tensor.set_tensor(model, np.zeros(1000))
    x.set_tensor(model, np.ones(1000))
    model.forward()
    assert 0.4 < ((y.get_tensor() != 0) == (uniform >= 0.5)).mean() < 0.6


def test_reading_early_or_late_gives_the_same() -> None:
    def build() -> tuple[FFModel, Any]:
        model = FFModel(FFConfig(seed=4))
        x = model.create_tensor([4, 6], "float32")
        return model, model.dense(x, 3).owner_op.get_weight_tensor()

    early, late = build(), build()
    before = early[1].get_weights()
    late[0].compile(comp_mode=CompMode.INFERENCE)
    late[0].predict(np.zeros((4, 6), np.float32))
    np.testing.assert_array_equal(before, late[1].get_weights())
