"""Several devices under flexflow.keras, and what else an FFModel can do for a Keras model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flexflow.core import Strategy
from flexflow.keras import Sequential, layers

rng = np.random.default_rng(0)
IMAGES = rng.normal(size=(50, 6, 6, 2)).astype(np.float32)
LABELS = rng.integers(0, 3, 50)


def network(strategy: Any = None, loss: Any = "sparse_categorical_crossentropy") -> Sequential:
    model = Sequential(
        [
            layers.Conv2D(4, 3, activation="relu", input_shape=(6, 6, 2), name="conv"),
            layers.Flatten(),
            layers.Dense(9, activation="tanh", name="hidden"),
            layers.Dense(3, activation="softmax", name="top"),
        ]
    )
    draw = np.random.default_rng(1)
    model.set_weights([draw.normal(size=w.shape).astype(np.float32) * 0.3 for w in model.weights])
    model.compile("adam" if loss else None, loss, strategy=strategy)
    return model


STRATEGIES = [
    Strategy.data_parallel(2),
    Strategy.hybrid(dp=2, tp=2),
    Strategy(3).split("conv", sample=3).split("hidden", parameter=2, start=1),
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_strategy_changes_no_number(strategy: Strategy) -> None:
    one, several = network(), network(strategy)
    histories = [m.fit(IMAGES, LABELS, epochs=3, verbose=0, shuffle=False) for m in (one, several)]
    np.testing.assert_allclose(*(history.history["loss"] for history in histories), rtol=1e-5)
    for ours, theirs in zip(several.get_weights(), one.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
    assert several.ffmodel.plan().count("\ndevice ") + 1 >= strategy.devices


def test_a_model_that_only_predicts() -> None:
    one, several = network(None, None), network(Strategy.data_parallel(2), None)
    np.testing.assert_allclose(several.predict(IMAGES), one.predict(IMAGES), rtol=1e-5)
    assert "device 1:" in several.ffmodel.plan("predict")


def test_what_does_not_fit() -> None:
    with pytest.raises(TypeError, match="compile: strategy is 2, expected a flexflow.core.Strat"):
        network(2)
    model = network(Strategy(2).split("absent", sample=2))
    with pytest.raises(ValueError, match="no operator of the model matches 'absent'"):
        model.fit(IMAGES, LABELS, verbose=0)


def test_the_strategy_may_change_in_training() -> None:
    one, several = network(), network()
    several.ffmodel.recompile_on_condition(
        lambda ff: ff.recompilations == 0, lambda ff: ff.change_strategy(STRATEGIES[0])
    )
    losses = [
        model.fit(IMAGES, LABELS, epochs=3, verbose=0, shuffle=False).history["loss"]
        for model in (one, several)
    ]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert several.ffmodel.recompilations == 1
    assert "device 1:" in several.ffmodel.plan()


def test_checkpoints(tmp_path: Path) -> None:
    """Also those of a model that has not run yet, whose weights live with Keras until then."""
    model, resumed = network(), network()
    resumed.set_weights([0 * w for w in resumed.get_weights()])
    model.ffmodel.save_checkpoint(tmp_path / "start.npz")
    resumed.ffmodel.load_checkpoint(tmp_path / "start.npz")
    for ours, theirs in zip(resumed.get_weights(), model.get_weights()):
        np.testing.assert_array_equal(ours, theirs)
    model.fit(IMAGES, LABELS, verbose=0, shuffle=False)
    model.ffmodel.save_checkpoint(tmp_path / "run.npz")
    resumed.ffmodel.load_checkpoint(tmp_path / "run.npz")
    losses = [
        m.fit(IMAGES, LABELS, epochs=2, verbose=0, shuffle=False).history["loss"]
        for m in (model, resumed)
    ]
    assert losses[0] == losses[1]
    for ours, theirs in zip(resumed.get_weights(), model.get_weights()):
        np.testing.assert_array_equal(ours, theirs)
