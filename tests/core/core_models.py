"""Small models for the tests of the core; so small that a second thread only costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from flexflow.core import (
    ActiMode,
    FFConfig,
    FFModel,
    LossType,
    MetricsType,
    SGDOptimizer,
)

SPARSE = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
ACCURACY = MetricsType.METRICS_ACCURACY


def classifier(batch: int = 8, **fields: Any) -> FFModel:
    """Four features to three classes, not compiled."""
    ffmodel = FFModel(FFConfig(**{"batch_size": batch, "threads": 1, **fields}))
    x = ffmodel.create_tensor([batch, 4], "float32", name="x")
    hidden = ffmodel.dense(x, 6, ActiMode.AC_MODE_RELU, name="hidden")
    ffmodel.softmax(ffmodel.dense(hidden, 3, name="top"), name="output")
    return ffmodel


def compiled(batch: int = 8, lr: float = 0.1, **fields: Any) -> FFModel:
    """The same, ready for training."""
    ffmodel = classifier(batch, **fields)
    ffmodel.compile(SGDOptimizer(ffmodel, lr=lr), SPARSE, [ACCURACY])
    return ffmodel


def samples(count: int = 29, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features, and as class the largest of the first three."""
    x = np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)
    return x, x[:, :3].argmax(1).astype(np.int32)


def weights(ffmodel: FFModel) -> list[np.ndarray]:
    """The values of all weights, in order."""
    layers = ffmodel.get_layers().values()
    return [p.get_weights(ffmodel) for layer in layers for p in layer.get_parameters()]


def linear_regression(**fields: Any) -> tuple[FFModel, Any]:
    """One dense layer of two features, with a mean squared error, and that layer."""
    ffmodel = FFModel(FFConfig(threads=1, **fields))
    x = ffmodel.create_tensor([4, 2], "float64", name="x")
    layer = ffmodel.dense(x, 1, name="dense").owner_op
    ffmodel.compile(
        SGDOptimizer(ffmodel, lr=0.125), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE, []
    )
    return ffmodel, layer
