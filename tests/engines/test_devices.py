"""Several devices in one process: they wait for each other, fail together, share out the work."""

from __future__ import annotations

import time

import numpy as np
import pytest

from flexflow.core import (
    AdamOptimizer,
    AggrMode,
    FFConfig,
    FFModel,
    FlexFlowError,
    LossType,
    MetricsType,
    SGDOptimizer,
    Strategy,
)

ENTRIES, BATCH = 10, 8


def embedder(strategy: Strategy | None) -> FFModel:
    """Its kernels refuse ids that are out of range."""
    model = FFModel(FFConfig(batch_size=BATCH))
    ids = model.create_tensor([BATCH, 1], "int32")
    t = model.embedding(ids, ENTRIES, 6, AggrMode.AGGR_MODE_SUM, name="table")
    model.softmax(model.dense(t, 3, name="top"))
    model.compile(
        SGDOptimizer(model, lr=0.1),
        LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
        [MetricsType.METRICS_ACCURACY],
        strategy=strategy,
    )
    return model


@pytest.mark.parametrize("row", [0, 3, 5, 7])
def test_a_device_that_fails_ends_the_step(row: int) -> None:
    """The others do not wait for it; its error comes at once, and the model goes on."""
    model, alone = embedder(Strategy.data_parallel(4)), embedder(None)
    ids = np.arange(3 * BATCH, dtype=np.int32).reshape(-1, 1) % ENTRIES
    labels = ids[:, 0] % 3
    bad = ids.copy()
    bad[row] = ENTRIES
    for _ in range(100):
        start = time.perf_counter()
        with pytest.raises(ValueError, match=r"table"):
            model.predict(bad)
        assert time.perf_counter() - start < 1
    np.testing.assert_allclose(model.predict(ids), alone.predict(ids), rtol=1e-6)
    losses = [m.fit(ids, labels, epochs=3, verbose=0)[-1].loss for m in (model, alone)]
    np.testing.assert_allclose(*losses, rtol=1e-6)


def test_more_devices_than_cores_and_rows() -> None:
    model, alone = embedder(Strategy.data_parallel(16)), embedder(None)
    ids = np.arange(21, dtype=np.int32).reshape(-1, 1) % ENTRIES
    labels = ids[:, 0] % 3
    histories = [m.fit(ids, labels, epochs=2, verbose=0) for m in (model, alone)]
    for ours, theirs in zip(*histories):
        assert ours.samples == theirs.samples == 21
        np.testing.assert_allclose(ours.loss, theirs.loss, rtol=1e-5)
        assert ours.get_accuracy() == theirs.get_accuracy()


def test_weights_are_sharded_and_read_whole() -> None:
    strategy = Strategy(3).split("top", o=3).split("table", start=1)
    model = FFModel(FFConfig(batch_size=BATCH, device="reference"))
    x = model.create_tensor([BATCH, 5], "float64")
    model.dense(x, 7, name="top")
    before = np.arange(35.0).reshape(7, 5)
    model.get_layer_by_name("top").get_weight_tensor().set_weights(model, before)
    loss = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
    with pytest.raises(ValueError, match=r"no operator of the model matches 'table'"):
        model.compile(AdamOptimizer(model), loss, strategy=strategy)
    model.compile(AdamOptimizer(model), loss, strategy=Strategy(3).split("top", o=3))
    model.fit(np.ones((BATCH, 5)), np.ones((BATCH, 7)), verbose=0)
    after = model.get_layer_by_name("top").get_weight_tensor().get_weights(model)
    assert after.shape == before.shape
    assert np.all(np.abs(after - before) < 0.01) and np.any(after != before)
    plan = model.plan()
    assert '"top/kernel" [0:3, 0:5] of [7, 5]' in plan
    assert '"top/kernel" [3:5, 0:5] of [7, 5]' in plan
    assert '"top/kernel" [5:7, 0:5] of [7, 5]' in plan


def test_strategies_that_do_not_fit() -> None:
    model = FFModel(FFConfig(batch_size=BATCH))
    t = model.dense(model.create_tensor([BATCH, 5]), 4, name="first")
    model.softmax(t, name="probabilities")
    loss = LossType.LOSS_CATEGORICAL_CROSSENTROPY
    for strategy, message in (
        (Strategy(2).split("first", colour=2), r"first has no index 'colour' to split; it has b0"),
        (Strategy(2).split("second", o=2), r"no operator of the model matches 'second'"),
        (Strategy(2).split("*", colour=2), r"no operator that '\*' matches has an index 'colour'"),
    ):
        with pytest.raises(ValueError, match=message):
            model.compile(SGDOptimizer(model), loss, strategy=strategy)
    with pytest.raises(TypeError, match=r"strategy is 3, expected a Strategy"):
        model.compile(SGDOptimizer(model), loss, strategy=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"the parts reach device 4"):
        Strategy(4).split("first", start=1, b0=4)
    with pytest.raises(TypeError, match=r"strides: got \[1.5\], expected a list of integers"):
        Strategy(4).split("first", b0=2, strides=[1.5])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"dp"):
        Strategy.hybrid(dp=-1, tp=-2)
    with pytest.raises(ValueError, match=r"parts of b0: got 0, expected at least 1"):
        Strategy(4).split("first", b0=0)
    with pytest.raises(FlexFlowError, match=r"not compiled"):
        model.predict(np.zeros((BATCH, 5), np.float32))
