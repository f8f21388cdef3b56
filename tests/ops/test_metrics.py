"""The operator `metrics`: values by NumPy, totals over batches, labels of both kinds."""

from __future__ import annotations

import numpy as np
import pytest

from flexflow.core import CompMode, FFConfig, FFModel, LossType, MetricsType, PerfMetrics

M = MetricsType
SPARSE = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
DENSE = LossType.LOSS_CATEGORICAL_CROSSENTROPY
SQUARED = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
DEVICES = [("float64", "reference"), ("float32", "cpu"), ("bfloat16", "cpu")]
ROWS = 29  # in batches of 8: the last one has 5
random = np.random.default_rng(0)


def measured(
    predictions: np.ndarray,
    labels: np.ndarray,
    loss: LossType,
    metrics: list[MetricsType],
    dtype: str = "float64",
    device: str = "reference",
) -> PerfMetrics:
    model = FFModel(FFConfig(device=device))
    x = model.create_tensor([8, *predictions.shape[1:]], dtype)
    model.identity(x)
    model.compile(None, loss, metrics, CompMode.INFERENCE)
    return model.eval(predictions, labels, verbose=0)


def distributions(*shape: int) -> np.ndarray:
    values = random.uniform(0.05, 1, size=shape)
    return (values / values.sum(-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(("dtype", "device"), DEVICES)
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 2, 3)])
def test_classes(shape: tuple[int, ...], dtype: str, device: str) -> None:
    """Accuracy and cross-entropies, from ids and from one-hot labels alike."""
    tolerance = 2e-2 if dtype == "bfloat16" else 1e-5
    p = distributions(ROWS, *shape)
    ids = random.integers(0, shape[-1], size=(ROWS, *shape[:-1], 1))
    chosen = np.take_along_axis(p.astype(np.float64), ids, -1)
    accuracy = (p.argmax(-1) == ids[..., 0]).mean()
    one_hot = (np.arange(shape[-1]) == ids).astype(np.float32)
    sparse = [M.METRICS_ACCURACY, M.METRICS_SPARSE_CATEGORICAL_CROSSENTROPY]
    dense = [M.METRICS_ACCURACY, M.METRICS_CATEGORICAL_CROSSENTROPY]
    for labels, loss, metrics in ((ids, SPARSE, sparse), (one_hot, DENSE, dense)):
        result = measured(p, labels, loss, metrics, dtype, device)
        name = metrics[1].name[len("METRICS_") :].lower()
        np.testing.assert_allclose(result["accuracy"], accuracy, atol=0.1 if dtype[0] == "b" else 0)
        np.testing.assert_allclose(result[name], -np.log(chosen).mean(), rtol=tolerance)
        np.testing.assert_allclose(result.loss, -np.log(chosen).mean(), rtol=tolerance)
        assert result.samples == ROWS * int(np.prod(shape[:-1]))


@pytest.mark.parametrize(("dtype", "device"), DEVICES[:2])
@pytest.mark.parametrize("shape", [(1,), (4,), (3, 2)])
def test_errors(shape: tuple[int, ...], dtype: str, device: str) -> None:
    """A sample's error is the mean over its last axis; the root is taken per sample."""
    p, y = random.normal(size=(2, ROWS, *shape)).astype(np.float32)
    metrics = [
        M.METRICS_MEAN_SQUARED_ERROR,
        M.METRICS_ROOT_MEAN_SQUARED_ERROR,
        M.METRICS_MEAN_ABSOLUTE_ERROR,
    ]
    result = measured(p, y, SQUARED, metrics, dtype, device)
    squared = ((p.astype(np.float64) - y) ** 2).mean(-1)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(result["mean_squared_error"], squared.mean(), rtol=tolerance)
    roots = np.sqrt(squared).mean()
    np.testing.assert_allclose(result["root_mean_squared_error"], roots, rtol=tolerance)
    absolute = np.abs(p.astype(np.float64) - y).mean()
    np.testing.assert_allclose(result["mean_absolute_error"], absolute, rtol=tolerance)


def test_accuracy_of_one_class() -> None:
    """On which side of one half."""
    p = random.uniform(size=(ROWS, 1)).astype(np.float32)
    y = (random.uniform(size=(ROWS, 1)) > 0.5).astype(np.float32)
    loss = LossType.LOSS_BINARY_CROSSENTROPY
    result = measured(p, y, loss, [M.METRICS_ACCURACY])
    assert result["accuracy"] == ((p > 0.5) == (y > 0.5)).mean()


def test_logarithms_are_bounded() -> None:
    p = np.zeros((8, 2), np.float32)
    p[:, 1] = 1
    labels = np.zeros((8, 1), np.int32)
    metrics = [M.METRICS_SPARSE_CATEGORICAL_CROSSENTROPY]
    result = measured(p, labels, SPARSE, metrics)
    name = "sparse_categorical_crossentropy"
    np.testing.assert_allclose(result[name], -np.log(1e-8), rtol=1e-12)
    np.testing.assert_allclose(result.loss, -np.log(1e-12), rtol=1e-12)


def test_a_loss_on_logits_leaves_metrics_on_the_prediction() -> None:
    """softmax and cross-entropy are fused; accuracy and entropies still see probabilities."""
    logits = random.normal(size=(ROWS, 4)).astype(np.float32)
    ids = random.integers(0, 4, size=(ROWS, 1))
    model = FFModel(FFConfig(device="reference"))
    model.softmax(model.create_tensor([8, 4], "float64"))
    metrics = [M.METRICS_ACCURACY, M.METRICS_SPARSE_CATEGORICAL_CROSSENTROPY]
    model.compile(None, SPARSE, metrics, CompMode.INFERENCE)
    result = model.eval(logits, ids, verbose=0)
    p = np.exp(logits.astype(np.float64))
    entropy = -np.log(np.take_along_axis(p / p.sum(-1, keepdims=True), ids, -1)).mean()
    np.testing.assert_allclose(result.loss, entropy, rtol=1e-12)
    np.testing.assert_allclose(result["sparse_categorical_crossentropy"], entropy, rtol=1e-12)
    assert result["accuracy"] == (logits.argmax(-1) == ids[:, 0]).mean()


def test_many_rows_are_summed_exactly_enough() -> None:
    """Totals are float64, whatever the dtype of the model."""
    p = np.full((50000, 1), 0.1, np.float32)
    y = np.zeros((50000, 1), np.float32)
    metrics = [M.METRICS_MEAN_ABSOLUTE_ERROR]
    result = measured(p, y, SQUARED, metrics, "float32", "cpu")
    np.testing.assert_allclose(result["mean_absolute_error"], np.float32(0.1), rtol=1e-9)
    assert result.samples == 50000
