"""Changes of a model in training: it goes on as it would have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from flexflow.core import (
    AdamOptimizer,
    CompMode,
    CosineDecay,
    DataSet,
    FFConfig,
    FFModel,
    FlexFlowError,
    LossType,
    MetricsType,
    SGDOptimizer,
    Strategy,
)

BATCH, ROWS = 6, 34  # five batches and a smaller one
rng = np.random.default_rng(0)
DATA, CLASSES = rng.normal(size=(ROWS, 5)), rng.integers(0, 4, ROWS).astype(np.int32)
STRATEGIES = [
    Strategy.data_parallel(2),
    Strategy.hybrid(dp=2, tp=2),
    None,
    Strategy(3).split("hidden", parameter=2, start=1).split("top", reduction=3),
    Strategy.tensor_parallel(4),
    Strategy.data_parallel(3),
]
OPTIMIZERS = {
    "momentum": lambda model: SGDOptimizer(model, 0.1, momentum=0.9, clipnorm=0.5),
    "adam": lambda model: AdamOptimizer(model, CosineDecay(0.02, 30, warmup_steps=5)),
}


def network(choice: str = "adam", strategy: Strategy | None = None) -> FFModel:
    """All kinds of state, in double precision: what differs by more than rounding is seen."""
    model = FFModel(FFConfig(device="reference", seed=1))
    x = model.create_tensor([BATCH, 5], "float64", name="x")
    t = model.batch_norm(model.dense(x, 8, name="hidden", use_bias=False), name="norm")
    model.softmax(model.dense(model.dropout(t, 0.3), 4, name="top"))
    model.compile(
        OPTIMIZERS[choice](model),
        LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
        [MetricsType.METRICS_ACCURACY],
        strategy=strategy,
    )
    return model


def fed(model: FFModel) -> DataSet:
    x = model.get_layer_by_name("hidden").get_input_tensor()
    return DataSet([(x, DATA), (model.label_tensor, CLASSES)])


def states(model: FFModel, folder: Any) -> dict[str, np.ndarray]:
    model.save_checkpoint(folder / "states.npz")
    with np.load(folder / "states.npz") as saved:
        return dict(saved)


def devices(model: FFModel) -> int:
    return len(re.findall(r"^device \d+:", model.plan(), re.M))


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_allclose(values, other[name], rtol=1e-9, atol=1e-11, err_msg=name)


def manual_steps(model: FFModel, epochs: int) -> Iterator[float]:
    """A manual loop, which comes up for air after each step with the loss so far."""
    x = model.get_layer_by_name("hidden").get_input_tensor()
    loaders = [
        model.create_data_loader(x, DATA, shuffle=True),
        model.create_data_loader(model.label_tensor, CLASSES, shuffle=True),
    ]
    for _ in range(epochs):
        for loader in loaders:
            loader.reset()
        model.reset_metrics()
        for _ in range(len(loaders[0])):
            for loader in loaders:
                loader.next_batch()
            model.forward()
            model.zero_gradients()
            model.backward()
            model.update()
            yield model.get_perf_metrics().loss


@pytest.mark.parametrize("choice", OPTIMIZERS)
def test_changes_between_epochs_of_fit(choice: str, tmp_path: Any) -> None:
    changed, unchanged = network(choice, STRATEGIES[-1]), network(choice)
    for strategy in STRATEGIES:
        changed.change_strategy(strategy)
        ours = changed.fit(DATA, CLASSES, shuffle=True, verbose=0)
        theirs = unchanged.fit(DATA, CLASSES, shuffle=True, verbose=0)
        assert ours[0].loss == pytest.approx(theirs[0].loss, rel=1e-10)
        assert ours[0].get_accuracy() == theirs[0].get_accuracy()
    same(states(changed, tmp_path), states(unchanged, tmp_path))
    np.testing.assert_allclose(changed.predict(DATA), unchanged.predict(DATA), rtol=1e-8)


@pytest.mark.parametrize("choice", OPTIMIZERS)
def test_changes_between_steps_of_a_manual_loop(choice: str, tmp_path: Any) -> None:
    changed, unchanged = network(choice), network(choice)
    pairs = zip(manual_steps(changed, 3), manual_steps(unchanged, 3))
    for step, (ours, theirs) in enumerate(pairs):
        assert ours == pytest.approx(theirs, rel=1e-10), step
        changed.change_strategy(STRATEGIES[step % len(STRATEGIES)])
    same(states(changed, tmp_path), states(unchanged, tmp_path))


def test_changes_between_slices(tmp_path: Any) -> None:
    """In the midst of an epoch, of the fused steps."""
    changed, unchanged = network(), network()
    for model in (changed, unchanged):
        data = fed(model)
        data.begin(BATCH, shuffle=True)
        for number, _ in enumerate(model.run("train", data, max_steps=2)):
            if model is changed:
                model.change_strategy(STRATEGIES[number])
    assert changed.get_perf_metrics().loss == pytest.approx(unchanged.get_perf_metrics().loss)
    same(states(changed, tmp_path), states(unchanged, tmp_path))


def test_a_change_changes_no_bit_of_the_state(tmp_path: Any) -> None:
    model = network("momentum")
    model.fit(DATA, CLASSES, epochs=2, verbose=0)
    before = states(model, tmp_path)
    predictions = model.predict(DATA)
    for strategy in STRATEGIES:
        model.change_strategy(strategy)
        model.predict(DATA)  # the states move to where it wants them
        after = states(model, tmp_path)
        assert {n: v.tobytes() for n, v in after.items()} == {
            n: v.tobytes() for n, v in before.items()
        }
    model.change_strategy(None)
    np.testing.assert_array_equal(model.predict(DATA), predictions)


def test_the_plan_is_another_one() -> None:
    model = network()
    one = model.plan()
    assert devices(model) == 1
    model.change_strategy(Strategy.data_parallel(2))
    assert devices(model) == 2
    assert model.plan() == network(strategy=Strategy.data_parallel(2)).plan()
    model.change_strategy(None)
    assert model.plan() == one


def test_a_strategy_that_does_not_fit_changes_nothing(tmp_path: Any) -> None:
    model, unchanged = network(), network()
    for each in (model, unchanged):
        each.fit(DATA, CLASSES, verbose=0)
    plan = model.plan()
    for strategy, message in (
        (Strategy(2).split("absent", sample=2), "no operator of the model matches 'absent'"),
        (Strategy(2).split("top", window=2), "top has no index 'window' to split"),
        (Strategy.data_parallel(300), "300"),
    ):
        with pytest.raises(ValueError, match=message):
            model.change_strategy(strategy)
    with pytest.raises(TypeError, match="change_strategy: strategy is 2, expected a Strategy"):
        model.change_strategy(2)  # type: ignore[arg-type]
    assert model.plan() == plan
    for each in (model, unchanged):
        each.fit(DATA, CLASSES, verbose=0)
    same(states(model, tmp_path), states(unchanged, tmp_path))


def test_needs_a_compiled_model_between_steps() -> None:
    model = FFModel(FFConfig())
    model.dense(model.create_tensor([2, 2]), 3)
    with pytest.raises(FlexFlowError, match="change_strategy: the model is not compiled"):
        model.change_strategy(None)
    model.compile(comp_mode=CompMode.INFERENCE)
    before = model.predict(np.ones((2, 2)))
    model.change_strategy(Strategy.data_parallel(2))
    np.testing.assert_allclose(model.predict(np.ones((2, 2))), before, rtol=1e-6)

    steps = manual_steps(trained := network(), 1)
    next(steps)
    trained.forward()
    trained.change_strategy(Strategy.data_parallel(2))
    with pytest.raises(FlexFlowError, match="call forward first"):
        trained.backward()


# ---- on a condition ----
def test_fit_alters_on_a_condition(tmp_path: Any) -> None:
    model, unchanged = network(), network()
    asked = []

    def trigger(given: FFModel) -> bool:
        assert given is model
        asked.append(int(given.get_scalar("step")))
        return asked[-1] in (12, 18)

    model.recompile_on_condition(
        trigger, lambda given: given.change_strategy(STRATEGIES[given.recompilations])
    )
    losses = [
        [metrics.loss for metrics in each.fit(DATA, CLASSES, epochs=5, verbose=0)]
        for each in (model, unchanged)
    ]
    assert asked[-1] == 30
    assert model.recompilations == 2
    assert devices(model) == 4
    np.testing.assert_allclose(*losses, rtol=1e-10)
    same(states(model, tmp_path), states(unchanged, tmp_path))


@pytest.mark.parametrize("in_the_loop", [False, True])
def test_a_manual_loop_alters_on_a_condition(in_the_loop: bool, tmp_path: Any) -> None:
    """Given once, or in each iteration as FlexFlow has it."""
    model, unchanged = network(), network()

    def given() -> None:
        model.recompile_on_condition(
            lambda m: m.get_scalar("step") == 7,
            lambda m: m.change_strategy(Strategy.data_parallel(2)),
        )

    given()
    for ours, theirs in zip(manual_steps(model, 2), manual_steps(unchanged, 2)):
        assert ours == pytest.approx(theirs, rel=1e-10)
        if in_the_loop:
            given()
    assert model.recompilations == 1
    assert devices(model) == 2
    same(states(model, tmp_path), states(unchanged, tmp_path))


def test_what_else_may_be_altered() -> None:
    model = network("momentum")
    top = model.get_layer_by_name("top")

    def alter(given: FFModel) -> None:
        top.trainable = False
        given.optimizer.learning_rate = 0.025

    model.recompile_on_condition(lambda m: m.recompilations == 0, alter)
    model.fit(DATA, CLASSES, verbose=0)
    frozen = top.get_weight_tensor().get_weights(model)
    model.fit(DATA, CLASSES, epochs=2, verbose=0)
    np.testing.assert_array_equal(top.get_weight_tensor().get_weights(model), frozen)
    assert model.get_scalar("learning_rate") == 0.025
    assert model.recompilations == 1


def test_the_optimizer_may_be_another_in_the_midst_of_an_epoch() -> None:
    model = network("momentum")

    def alter(given: FFModel) -> None:
        given.compile(
            AdamOptimizer(given, 0.01), LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, output=None
        )

    model.recompile_on_condition(lambda m: m.get_scalar("step") == 2, alter)
    data = fed(model)
    data.begin(BATCH)
    assert [p.position for p in model.run("train", data, max_steps=2)] == [12, 24, 34]
    assert isinstance(model.optimizer, AdamOptimizer)
    assert model.recompilations == 3  # each optimizer makes two steps


def test_only_training_asks_and_only_from_outside() -> None:
    model = network()
    asked = []

    def trigger(given: FFModel) -> bool:
        asked.append(given.get_scalar("step"))
        given.fit(DATA, CLASSES, verbose=0)  # would ask for ever
        return False

    model.recompile_on_condition(trigger, lambda given: None)
    model.eval(DATA, CLASSES, verbose=0)
    model.predict(DATA)
    assert not asked
    model.fit(DATA, CLASSES, verbose=0)
    assert asked == [6]
    model.recompile_on_condition(None, None)
    model.fit(DATA, CLASSES, verbose=0)
    assert asked == [6]
    assert model.recompilations == 0


def test_errors_of_the_functions_come_through() -> None:
    model = network()

    def fails(given: FFModel) -> bool:
        raise KeyError("mine")

    model.recompile_on_condition(fails, print)
    with pytest.raises(KeyError, match="mine"):
        model.fit(DATA, CLASSES, verbose=0)
    model.recompile_on_condition(lambda given: "yes", print)  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match="result of trigger: got 'yes', expected True or False"):
        model.fit(DATA, CLASSES, verbose=0)
    for wrong in ((True, print), (print, None), (None, print)):
        with pytest.raises(TypeError, match="recompile_on_condition: (trigger|alter) is"):
            model.recompile_on_condition(*wrong)  # type: ignore[arg-type]
    model.recompile_on_condition(None, None)
    assert len(model.fit(DATA, CLASSES, verbose=0)) == 1
