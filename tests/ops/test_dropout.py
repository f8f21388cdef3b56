"""Masks: what they depend on, and how many elements they drop."""

from __future__ import annotations

import numpy as np
import pytest

from flexflow.core import FFConfig, FFModel, LossType, SGDOptimizer

DEVICES = ["reference", "cpu"]


class Dropout:
    """Ones through a dropout, as often as one likes."""

    def __init__(
        self, shape, rate=0.5, seed=None, device="cpu", dtype="float32", model_seed=0, threads=0
    ) -> None:
        self.model = FFModel(FFConfig(device=device, seed=model_seed, threads=threads))
        self.x = self.model.create_tensor(shape, dtype)
        self.y = self.model.dropout(self.x, rate, seed)
        self.model.compile(loss_type=LossType.LOSS_IDENTITY, output=self.y)
        self.shape = shape

    def run(self, shape=None) -> np.ndarray:
        """The next forward."""
        shape = shape or self.shape
        self.model.label_tensor.set_tensor(self.model, np.zeros(shape))
        self.x.set_tensor(self.model, np.ones(shape))
        self.model.forward()
        return self.y.get_tensor()

    def gradient(self) -> np.ndarray:
        self.model.backward()
        return self.x.get_gradients()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
def test_rate(rate: float, device: str) -> None:
    count = 300 * 401
    y = Dropout((300, 401), rate, device=device).run()
    dropped = (y == 0).sum()
    assert abs(dropped - rate * count) <= 5 * np.sqrt(rate * (1 - rate) * count)
    np.testing.assert_allclose(y[y != 0], 1 / (1 - rate), rtol=1e-6)
    # No row and no column is special.
    if rate > 0:
        for axis in (0, 1):
            shares = (y == 0).mean(axis)
            spread = np.sqrt(rate * (1 - rate) / y.shape[axis])
            assert np.abs(shares - rate).max() < 5 * spread


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_backward_has_the_mask_of_forward(dtype: str, device: str) -> None:
    dropout = Dropout((7, 33), 0.4, device=device, dtype=dtype)
    for _ in range(3):
        y = dropout.run()
        np.testing.assert_allclose(
            dropout.gradient() * 7, y, rtol=1e-2 if dtype[0] == "b" else 1e-6
        )


def test_devices_and_dtypes_draw_the_same() -> None:
    masks = [
        Dropout((5, 67), 0.5, 3, device=device, dtype=dtype).run() != 0
        for device in DEVICES
        for dtype in ("float32", "float64", "float16")
    ]
    for mask in masks[1:]:
        np.testing.assert_array_equal(mask, masks[0])


def test_threads_draw_the_same() -> None:
    masks = [Dropout((257, 129), 0.5, 3, threads=threads).run() for threads in (1, 2, 3, 7)]
    for mask in masks[1:]:
        np.testing.assert_array_equal(mask, masks[0])


def test_an_element_depends_on_its_place_not_on_the_batch() -> None:
    """The first rows of a larger batch draw what a smaller batch draws."""
    large, small = Dropout((64, 9), 0.5, 3), Dropout((64, 9), 0.5, 3)
    np.testing.assert_array_equal(large.run()[:13], small.run((13, 9)))


def test_each_forward_draws_anew_and_reading_does_not() -> None:
    dropout = Dropout((11, 50))
    first = dropout.run()
    np.testing.assert_array_equal(dropout.y.get_tensor(), first)  # read again
    second = dropout.run()
    assert (first != second).mean() > 0.3
    np.testing.assert_array_equal(Dropout((11, 50)).run(), first)  # step 0 of the same seed
    again = Dropout((11, 50))
    again.run()
    np.testing.assert_array_equal(again.run(), second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"seed": 1}, {"seed": 2}),
        ({"seed": 0}, {"seed": 1}),
        ({"model_seed": 1}, {"model_seed": 2}),
        ({"seed": 2**40}, {"seed": 2**41}),
    ],
)
def test_seeds(one: dict[str, int], other: dict[str, int]) -> None:
    def run(settings: dict[str, int]) -> np.ndarray:
        return Dropout((11, 50), **settings).run()

    np.testing.assert_array_equal(run(one), run(one))
    assert (run(one) != run(other)).mean() > 0.3


def test_the_seed_of_the_model_does_not_touch_a_given_one() -> None:
    masks = [Dropout((11, 50), seed=7, model_seed=model_seed).run() for model_seed in (1, 2)]
    np.testing.assert_array_equal(*masks)


def test_two_layers_have_streams_of_their_own() -> None:
    model = FFModel(FFConfig())
    x = model.create_tensor([11, 50], "float32")
    a, b = model.dropout(x, 0.5, 3), model.dropout(x, 0.5, 3)
    model.compile(loss_type=LossType.LOSS_IDENTITY, output=model.add(a, b))
    model.label_tensor.set_tensor(model, np.zeros((11, 50)))
    x.set_tensor(model, np.ones((11, 50)))
    model.forward()
    assert (a.get_tensor() != b.get_tensor()).mean() > 0.3


def test_masks_do_not_repeat_along_the_elements() -> None:
    """No correlation between neighbours, nor over the lengths of Philox's blocks and streams."""
    y = (Dropout((1, 40000), 0.5).run().ravel() != 0) * 2.0 - 1
    for lag in (1, 2, 3, 4, 8, 16, 64, 4096):
        assert abs((y[lag:] * y[:-lag]).mean()) < 5 / np.sqrt(y.size - lag), lag


def test_fit_draws_a_mask_per_step() -> None:
    """With a loss that is the output's sum, the loss of an epoch counts the elements kept."""
    model = FFModel(FFConfig())
    x = model.create_tensor([1, 200], "float32")
    model.dropout(model.multiply(x, model.create_parameter([200])), 0.5)
    model.compile(SGDOptimizer(model, lr=0.0), LossType.LOSS_IDENTITY)
    data = np.ones((40, 200), np.float32)
    losses = [m.loss for m in model.fit(data, np.zeros_like(data), epochs=3, verbose=0)]
    assert len(set(losses)) == 3
