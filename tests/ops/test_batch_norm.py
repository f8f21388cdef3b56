"""batch_norm beyond its row: running statistics, inference, frozen layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tolerances import assert_close

from flexflow.core import CompMode, FFConfig, FFModel, LossType, SGDOptimizer

DEVICES = [("float64", "reference"), ("float32", "cpu")]
SHAPES = [(8, 3), (4, 5, 3), (3, 4, 5, 2), (2, 17, 3, 3)]
random = np.random.default_rng(0)


class Norm:
    """One batch_norm of an input, with the sum of its output as the loss."""

    def __init__(self, shape, dtype="float64", device="reference", mode=CompMode.TRAINING, **attrs):
        self.model = FFModel(FFConfig(device=device))
        self.x = self.model.create_tensor(shape, dtype)
        self.y = self.model.batch_norm(self.x, relu=False, **attrs)
        layer = self.y.owner_op
        self.gamma, self.beta, self.mean, self.var = layer.get_parameters()
        optimizer = SGDOptimizer(self.model, lr=0.1) if mode is CompMode.TRAINING else None
        self.model.compile(optimizer, LossType.LOSS_IDENTITY, comp_mode=mode)

    def write(self, x: np.ndarray) -> None:
        self.model.label_tensor.set_tensor(self.model, np.zeros(x.shape))
        self.x.set_tensor(self.model, x)


def images(*shape: int) -> np.ndarray:
    return (random.normal(size=shape) * 2 + 0.5).astype(np.float32)


@pytest.mark.parametrize(("dtype", "device"), DEVICES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("momentum", [0.9, 0.5, 0.0])
def test_running_statistics(
    shape: tuple[int, ...], momentum: float, dtype: str, device: str
) -> None:
    """PyTorch's momentum is the share of the new statistics; its variance is unbiased."""
    norm = Norm(shape, dtype, device, momentum=momentum)
    mean = torch.zeros(shape[1], dtype=torch.float64)
    var = torch.ones(shape[1], dtype=torch.float64)
    for _ in range(3):
        x = images(*shape)
        norm.write(x)
        norm.model.forward()
        F.batch_norm(torch.tensor(x).double(), mean, var, training=True, momentum=1 - momentum)
        norm.y.get_tensor()  # reading does not count the batch again
        assert_close(norm.mean.get_weights(), mean.numpy(), dtype, "mean")
        assert_close(norm.var.get_weights(), var.numpy(), dtype, "variance")


def test_biased_running_variance() -> None:
    norm = Norm((6, 3), unbiased=False, momentum=0.0)
    x = images(6, 3)
    norm.write(x)
    norm.model.forward()
    np.testing.assert_allclose(norm.var.get_weights(), x.astype(np.float64).var(0), rtol=1e-12)


@pytest.mark.parametrize(("dtype", "device"), DEVICES)
@pytest.mark.parametrize("shape", SHAPES)
def test_inference_takes_running_statistics(
    shape: tuple[int, ...], dtype: str, device: str
) -> None:
    norm = Norm(shape, dtype, device)
    values = [random.uniform(0.5, 2, size=shape[1]).astype(np.float32) for _ in range(4)]
    gamma, beta, mean, var = values
    for weight, value in zip((norm.gamma, norm.beta, norm.mean, norm.var), values):
        weight.set_weights(norm.model, value)
    x = images(2 * shape[0] + 1, *shape[1:])
    expected = F.batch_norm(*(torch.tensor(a).double() for a in (x, mean, var, gamma, beta)))
    assert_close(norm.model.predict(x), expected.numpy(), dtype, "prediction")
    for weight, value in zip((norm.gamma, norm.beta, norm.mean, norm.var), values):
        np.testing.assert_array_equal(weight.get_weights(), value.astype(dtype))


def test_fit_moves_statistics_like_the_manual_loop() -> None:
    x = images(10, 3)
    y = np.zeros_like(x)
    fitted, by_hand = Norm((4, 3)), Norm((4, 3))
    fitted.model.fit(x, y, verbose=0)
    for rows in (slice(0, 4), slice(4, 8), slice(8, 10)):
        by_hand.write(x[rows])
        by_hand.model.zero_gradients()
        by_hand.model.forward()
        by_hand.model.backward()
        by_hand.model.update()
    for name in ("gamma", "beta", "mean", "var"):
        ours, theirs = getattr(fitted, name), getattr(by_hand, name)
        np.testing.assert_allclose(ours.get_weights(), theirs.get_weights(), rtol=1e-12)


def test_evaluation_moves_nothing() -> None:
    norm = Norm((4, 3))
    x = images(8, 3)
    norm.model.eval(x, np.zeros_like(x), verbose=0)
    norm.model.predict(x)
    np.testing.assert_array_equal(norm.mean.get_weights(), np.zeros(3))
    np.testing.assert_array_equal(norm.var.get_weights(), np.ones(3))


@pytest.mark.parametrize("frozen", ["scale", "center"])
def test_scale_and_shift_can_be_left_out(frozen: str) -> None:
    norm = Norm((4, 3), **{frozen: False})
    norm.model.fit(images(8, 3), np.zeros((8, 3)), verbose=0)
    stays = norm.gamma if frozen == "scale" else norm.beta
    np.testing.assert_array_equal(stays.get_weights(), np.full(3, frozen == "scale"))


def test_constant_channels_are_safe() -> None:
    """A variance of 0 divides by the root of eps."""
    norm = Norm((4, 3))
    norm.write(np.ones((4, 3)))
    norm.model.forward()
    norm.model.backward()
    np.testing.assert_array_equal(norm.y.get_tensor(), np.zeros((4, 3)))
    assert np.isfinite(norm.x.get_gradients()).all()
