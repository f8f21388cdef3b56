"""Losses as a model has them; cases.py compares their values and gradients with PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tolerances import assert_close

from flexflow.core import CompMode, FFConfig, FFModel, LossType, SGDOptimizer

SPARSE = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
DENSE = LossType.LOSS_CATEGORICAL_CROSSENTROPY
BINARY = LossType.LOSS_BINARY_CROSSENTROPY
DEVICES = [("float64", "reference"), ("float32", "cpu")]
random = np.random.default_rng(0)


def train_step(
    layers: Any, loss: LossType, x: np.ndarray, y: np.ndarray, dtype: str, device: str, **attrs: Any
) -> tuple[float, np.ndarray, FFModel]:
    """Loss and gradient of the input, of layers(model, input)."""
    model = FFModel(FFConfig(device=device))
    tensor = model.create_tensor(x.shape, dtype)
    layers(model, tensor)
    model.compile(None, loss, loss_attributes=attrs or None)
    model.label_tensor.set_tensor(model, y)
    tensor.set_tensor(model, x)
    model.reset_metrics()
    model.forward()
    model.backward()
    return model.get_perf_metrics().loss, tensor.get_gradients(), model


@pytest.mark.parametrize(("dtype", "device"), DEVICES)
@pytest.mark.parametrize("fuse", [True, False])
def test_softmax_and_sparse_cross_entropy(dtype: str, device: str, fuse: bool) -> None:
    """The pair, joined or not, is PyTorch's cross_entropy."""
    x = random.normal(size=(7, 5)).astype(np.float32)
    ids = random.integers(0, 5, size=(7, 1))
    model = FFModel(FFConfig(device=device, perform_fusion=fuse))
    tensor = model.create_tensor(x.shape, dtype)
    model.softmax(tensor)
    model.compile(None, SPARSE)
    model.label_tensor.set_tensor(model, ids)
    tensor.set_tensor(model, x)
    model.forward()
    model.backward()
    theirs = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    loss = F.cross_entropy(theirs, torch.from_numpy(ids[:, 0]))
    loss.backward()
    assert_close(np.float64(model.get_perf_metrics().loss), loss.detach().numpy(), dtype, "loss")
    assert theirs.grad is not None
    assert_close(tensor.get_gradients(), theirs.grad.numpy(), dtype, "gradient")


@pytest.mark.parametrize(
    ("build", "loss"),
    [
        (lambda m, x: m.softmax(x), SPARSE),
        (lambda m, x: m.softmax(x), DENSE),
        (lambda m, x: m.sigmoid(x), BINARY),
    ],
)
def test_sure_predictions_keep_their_gradients(build: Any, loss: LossType) -> None:
    """Probabilities that round to 0 or 1 do not spoil the joined loss."""
    x = np.array([[200.0, -200.0], [-200.0, 200.0]], np.float32)
    y = np.array([[1], [1]]) if loss is SPARSE else np.array([[0.0, 1.0], [0.0, 1.0]])
    value, gradient, _ = train_step(build, loss, x, y, "float32", "cpu")
    logits = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    if loss is BINARY:
        theirs = F.binary_cross_entropy_with_logits(logits, torch.tensor(y))
    else:
        theirs = F.cross_entropy(logits, torch.tensor([1, 1]))
    theirs.backward()
    assert logits.grad is not None
    np.testing.assert_allclose(value, theirs.item(), rtol=1e-6)
    np.testing.assert_allclose(gradient, logits.grad.numpy(), rtol=1e-6, atol=1e-12)


def test_probabilities_of_zero_are_bounded() -> None:
    x = np.array([[0.0, 1.0]], np.float32)
    value, gradient, _ = train_step(
        lambda m, t: m.identity(t), SPARSE, x, np.array([[0]]), "float64", "reference"
    )
    np.testing.assert_allclose(value, -np.log(1e-12))
    np.testing.assert_allclose(gradient, [[-1e12, 0]])


@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("label", [-1, 3, 100])
def test_labels_out_of_range(label: int, from_logits: bool) -> None:
    x = np.full((2, 3), 1 / 3, np.float32)
    with pytest.raises(
        ValueError, match=rf"label {label} of sample 1 is no class; expected 0 to 2"
    ):
        train_step(
            lambda m, t: m.identity(t),
            SPARSE,
            x,
            np.array([[0], [label]]),
            "float32",
            "cpu",
            from_logits=from_logits,
        )


def test_a_bad_label_leaves_the_model_usable() -> None:
    model = FFModel(FFConfig())
    model.softmax(model.dense(model.create_tensor([4, 3], "float32"), 5))
    model.compile(SGDOptimizer(model), SPARSE)
    x = random.normal(size=(8, 3)).astype(np.float32)
    good, bad = np.arange(8) % 5, np.full(8, 5)
    with pytest.raises(ValueError, match="label 5"):
        model.fit(x, bad, verbose=0)
    assert np.isfinite(model.fit(x, good, verbose=0)[0].loss)


@pytest.mark.parametrize("shape", [(6,), (6, 1)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_label_shapes(shape: tuple[int, ...], dtype: Any) -> None:
    model = FFModel(FFConfig())
    model.softmax(model.create_tensor([6, 4], "float32"))
    model.compile(None, SPARSE, comp_mode=CompMode.INFERENCE)
    x = random.normal(size=(6, 4)).astype(np.float32)
    ids = random.integers(0, 4, size=6)
    ours = model.eval(x, ids.astype(dtype).reshape(shape), verbose=0).loss
    theirs = F.cross_entropy(torch.tensor(x), torch.from_numpy(ids)).item()
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_loss_is_the_mean_over_the_true_samples() -> None:
    """Batches of 4, 4 and 1: the last sample counts as much as any other."""
    model = FFModel(FFConfig(device="reference"))
    x = model.create_tensor([4, 2], "float64")
    model.identity(x)
    model.compile(None, LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE, [], CompMode.INFERENCE)
    values = random.normal(size=(9, 2))
    labels = random.normal(size=(9, 2))
    ours = model.eval(values, labels, verbose=0)
    np.testing.assert_allclose(ours.loss, ((values - labels) ** 2).mean(), rtol=1e-12)


@pytest.mark.parametrize(
    ("loss", "attrs", "message"),
    [
        (SPARSE, {"label_smoothing": 0.1}, 'unknown attribute "label_smoothing"'),
        (DENSE, {"from_logits": 1}, "expected a bool"),
        (LossType.LOSS_IDENTITY, {"from_logits": True}, "unknown attribute"),
    ],
)
def test_unknown_attributes(loss: LossType, attrs: Any, message: str) -> None:
    model = FFModel(FFConfig())
    model.softmax(model.create_tensor([6, 4], "float32"))
    with pytest.raises((ValueError, TypeError), match=message):
        model.compile(None, loss, loss_attributes=attrs)
