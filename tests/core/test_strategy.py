"""Strategies as values: ready-made ones, patterns, files; they compute what one device does."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flexflow.core import (
    ActiMode,
    AdamOptimizer,
    CompMode,
    DataType,
    FFConfig,
    FFModel,
    LossType,
    PoolType,
    SGDOptimizer,
    Strategy,
)

TOKENS = 11


def mlp(shared_memory: bool = True) -> FFModel:
    model = FFModel(FFConfig(batch_size=8, device="reference", shared_memory=shared_memory))
    t = model.dense(model.create_tensor([8, 12], "float64"), 16, name="up")
    t = model.dense(model.relu(t, name="relu"), 12, name="down")
    model.softmax(model.dense(t, 5, name="head"), name="probabilities")
    return model


def cnn(shared_memory: bool = True) -> FFModel:
    model = FFModel(FFConfig(batch_size=8, device="reference", shared_memory=shared_memory))
    t = model.create_tensor([8, 3, 8, 8], "float64")
    t = model.conv2d(t, 6, 3, 3, 1, 1, 1, 1, ActiMode.AC_MODE_RELU, name="conv1")
    t = model.batch_norm(t, name="norm")
    t = model.pool2d(t, 2, 2, 2, 2, 0, 0, PoolType.POOL_MAX, name="pool")
    t = model.conv2d(t, 4, 3, 3, 1, 1, 1, 1, name="conv2")
    model.softmax(model.dense(model.flat(t), 5, name="head"))
    return model


def transformer(shared_memory: bool = True) -> FFModel:
    """A block of an encoder, on tokens."""
    model = FFModel(FFConfig(batch_size=8, device="reference", shared_memory=shared_memory))
    tokens = model.create_tensor([8, 6], "int32")
    t = model.embedding(tokens, TOKENS, 8, datatype="float64", name="table")
    n = model.layer_norm(t, [-1])
    t = model.add(t, model.multihead_attention(n, n, n, 8, 4, name="attention"))
    n = model.layer_norm(t, [-1])
    n = model.dense(n, 16, ActiMode.AC_MODE_GELU, name="up")
    t = model.mean(model.add(t, model.dense(n, 8, name="down")), [1])
    model.softmax(model.dense(t, 5, name="head"))
    return model


def results(
    build: Any, strategy: Strategy | None, shared_memory: bool = True
) -> tuple[list[float], list[np.ndarray]]:
    model = build(shared_memory)
    loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
    model.compile(SGDOptimizer(model, lr=0.05, momentum=0.9), loss, [], strategy=strategy)
    random = np.random.default_rng(0)
    tensor = model.get_layer_by_id(0).get_input_tensor()
    shape = (27, *tensor.dims[1:])
    tokens = tensor.data_type == DataType.DT_INT32
    x = random.integers(0, TOKENS, shape) if tokens else random.normal(size=shape)
    y = random.integers(0, 5, 27)
    losses = [metrics.loss for metrics in model.fit(x, y, epochs=3, verbose=0)]
    weights = [p.get_weights() for op in model.get_layers().values() for p in op.get_parameters()]
    return losses, [*weights, model.predict(x)]


READY_MADE = {
    "dp2": Strategy.data_parallel(2),
    "dp3": Strategy.data_parallel(3),
    "tp2": Strategy.tensor_parallel(2),
    "tp3": Strategy.tensor_parallel(3),
    "hybrid": Strategy.hybrid(dp=2, tp=2),
    "shared updates": Strategy.data_parallel(3).share_updates(),
    "hybrid, shared updates": Strategy.hybrid(dp=2, tp=2).share_updates("*"),
}


@pytest.mark.parametrize("name", READY_MADE)
@pytest.mark.parametrize("build", [mlp, cnn, transformer])
@pytest.mark.parametrize("shared_memory", [True, False])
def test_ready_made(build: Any, name: str, shared_memory: bool) -> None:
    losses, arrays = results(build, None)
    our_losses, our_arrays = results(build, READY_MADE[name], shared_memory)
    np.testing.assert_allclose(our_losses, losses, rtol=1e-12)
    for ours, array in zip(our_arrays, arrays):
        np.testing.assert_allclose(ours, array, rtol=1e-9, atol=1e-12)


def test_layers_with_an_activation_of_their_own_kind() -> None:
    """A layer has the indices of its operator, not those of the activation that follows within."""
    model = FFModel(FFConfig(batch_size=8, device="reference"))
    t = model.batch_norm(model.create_tensor([8, 6, 4, 4], "float64"), name="norm")
    kind, relu = PoolType.POOL_AVG, ActiMode.AC_MODE_RELU
    model.pool2d(t, 2, 2, pool_type=kind, activation=relu, name="pool")
    bound = Strategy(3).split("norm", parameter=3).split("pool", attribute=2).bind(model)
    assert {name: dict(placement.splits) for name, placement in bound.rules} == {
        "norm": {"c": 3},
        "pool": {"c": 2},
    }
    with pytest.raises(ValueError, match=r"norm has no index 'x0' to split; it has c"):
        Strategy(2).split("norm", x0=2).bind(model)


def test_splits_that_no_kernel_can_make_are_refused_by_compile() -> None:
    model = FFModel(FFConfig(batch_size=8, device="reference"))
    t, _ = model.top_k(model.create_tensor([8, 6], "float64"), 4, name="best")
    model.lstm(model.reshape(t, [8, 2, 2]), 3, name="steps")
    output, loss = model.get_last_layer().get_output_tensor(), LossType.LOSS_IDENTITY
    for strategy, message in (
        (Strategy(2).split("steps", t=2), 'along "t": each step needs the one before it'),
        (Strategy(2).split("best", i=2), 'best: .* along "i": each element is compared with'),
    ):
        with pytest.raises(ValueError, match=message):
            model.compile(loss_type=loss, output=output, strategy=strategy)
        model.compile(loss_type=loss, output=output)
        with pytest.raises(ValueError, match=message):
            model.change_strategy(strategy)


def test_deep_models_compile_in_time() -> None:
    """Half a second on one core, where a search from the start for every layer took 16."""
    model = FFModel(FFConfig(batch_size=8, device="reference"))
    t = model.create_tensor([8, 4], "float64")
    for _ in range(60):
        t = model.batch_norm(model.dense(t, 4))
    start = time.process_time()
    model.compile(loss_type=LossType.LOSS_IDENTITY, strategy=Strategy.data_parallel(2))
    assert time.process_time() - start < 5


def test_data_parallel_places_what_reads_data() -> None:
    """The rest follows, and so needs no word."""
    bound = Strategy.data_parallel(2).bind(mlp())
    assert [name for name, _ in bound.rules] == ["up"]
    assert dict(bound.rules)["up"].splits == {"b0": 2}


@pytest.mark.parametrize("shared_memory", [True, False])
def test_shared_updates_keep_slices_of_the_optimizers_state(shared_memory: bool) -> None:
    model = mlp(shared_memory)
    loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
    strategy = Strategy.data_parallel(2).share_updates()
    model.compile(SGDOptimizer(model, lr=0.1, momentum=0.9), loss, strategy=strategy)
    plan = model.plan()
    # A whole copy in each memory.
    assert plan.count('"up/kernel"\n') == (1 if shared_memory else 2)
    state = '"optimizer/up/kernel/velocity" '
    assert state + "[0:8, 0:12] of [16, 12]" in plan
    assert state + "[8:16, 0:12] of [16, 12]" in plan


def test_tensor_parallel_alternates() -> None:
    """Columns, then rows, so that what lies between stays split."""
    bound = dict(Strategy.tensor_parallel(2).bind(mlp()).rules)
    assert {name: dict(placement.splits) for name, placement in bound.items()} == {
        "up": {"o": 2},
        "down": {"i": 2},
        "head": {"o": 2},
    }
    hybrid = dict(Strategy.hybrid(dp=2, tp=2).bind(mlp()).rules)
    assert hybrid["down"].splits == {"b0": 2, "i": 2}
    assert hybrid["down"].grid() == (2, 1)


def splits_of(strategy: Strategy, model: FFModel) -> dict[str, dict[str, int]]:
    return {name: dict(placement.splits) for name, placement in strategy.bind(model).rules}


def test_tensor_parallel_shares_out_heads_and_words() -> None:
    assert splits_of(Strategy.tensor_parallel(2), transformer()) == {
        "table": {"v": 2},
        "attention": {"h": 2},
        "up": {"o": 2},
        "down": {"i": 2},
        "head": {"o": 2},
    }
    assert "attention" not in splits_of(Strategy.tensor_parallel(5), transformer())


def test_tensor_parallel_of_one_output() -> None:
    """A layer with one output has no columns; its rows are what is shared out."""
    model = FFModel(FFConfig(batch_size=8))
    t = model.dense(model.create_tensor([8, 12]), 16, name="up")
    model.dense(t, 1, name="score")
    assert splits_of(Strategy.tensor_parallel(2), model) == {"up": {"o": 2}, "score": {"i": 2}}


@pytest.mark.parametrize("strategy", [Strategy.tensor_parallel(2), Strategy.hybrid(dp=2, tp=2)])
def test_heads_stay_where_they_are(strategy: Strategy) -> None:
    """Between the projections nothing moves: the softmax of a head is computed beside it, whole."""
    model = transformer()
    loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
    model.compile(SGDOptimizer(model, lr=0.1), loss, strategy=strategy)
    forward = model.plan().partition("forward:")[2].partition("backward:")[0].splitlines()
    inside = [line for line in forward if "attention:" in line or "attention@" in line]
    moved = {line.rpartition("# ")[2].rpartition("@")[0] for line in inside if "= move(" in line}
    assert moved == {"reduction/attention:einsum_5"}  # of the last projection's sums
    softmaxes = [line for line in inside if "= softmax(" in line]
    assert len(softmaxes) == strategy.devices


def test_the_last_rule_counts() -> None:
    """What a later one says of an operator, earlier ones no longer do."""
    bound = Strategy(2).split("*", o=2).split("up", o=2).split("up", b0=2).bind(mlp())
    assert dict(dict(bound.rules)["up"].splits) == {"b0": 2}


def test_one_device_needs_no_strategy() -> None:
    plans = []
    for strategy in (None, Strategy.data_parallel(1)):
        model = mlp()
        loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
        model.compile(SGDOptimizer(model), loss, strategy=strategy)
        plans.append(model.plan())
    assert plans[0] == plans[1]


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "strategy.json"
    for strategy in (
        Strategy.hybrid(dp=2, tp=2).split("head", start=1, o=2),
        Strategy(3),
        Strategy.data_parallel(2).share_updates("up"),
        Strategy(1).recompute("up").recompute("r*"),
        Strategy.hybrid(dp=2, pp=2, micro_batches=3),
        Strategy(2).pipeline(["up", "r*"], ["*"], micro_batches=4),
    ):
        strategy.save(path)
        assert Strategy.load(path) == strategy
    for strategy in (Strategy.tensor_parallel(2), Strategy.hybrid(dp=2, pp=2)):
        bound = strategy.bind(mlp())
        bound.save(path)
        assert Strategy.load(path) == bound
        assert str(Strategy.load(path).bind(mlp())) == str(bound)
        assert results(mlp, Strategy.load(path))[0] == results(mlp, bound)[0]


GOOD = Strategy(2).split("up", o=2).to_json()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "x"}, r"\"format\" is 'x'"),
        ({"version": 2}, r"\"version\" is 2; this version reads 1"),
        ({"devices": 0}, r"bad.json: Strategy: devices: got 0, expected at least 1"),
        ({"devices": "2"}, r"bad.json: Strategy: devices: got '2', expected an integer"),
        ({"devices": 10**9}, r"devices: got 1000000000, expected at most 65536"),
        ({"micro_batches": 10**9}, r"\"micro_batches\": got 1000000000, expected at most 65536"),
        ({"stages": [["up"], 3]}, r"bad.json: pipeline: stage is 3, expected a list of names"),
        ({"ops": 3}, r"bad.json: \"ops\" is 3, not a list"),
        (
            {"ops": [{"op": "up", "splits": {"o": 2}, "strides": 1}]},
            r"strides: got 1, expected a list",
        ),
        ({"ops": [{"op": "up", "splits": {"start": 3}}]}, r"the parts reach device 2"),
        ({"colour": 1}, r"unknown entries \['colour'\]"),
        ({"rewrites": [1]}, r"\"rewrites\" is not empty; this version does not act on it"),
        ({"optimizer_sharding": "up"}, r"\"optimizer_sharding\" is 'up', not a list"),
        ({"micro_batches": 0}, r"\"micro_batches\": got 0, expected at least 1"),
        ({"pipeline": True}, r"\"pipeline\": got True, expected an integer"),
        ({"pipeline": 3}, r"\"pipeline\" is 3, no divisor of 2 devices"),
        ({"pipeline": 2, "stages": [["up"], ["*"]]}, r"\"pipeline\" is 2 beside \"stages\""),
        ({"stages": {"up": 1}}, r"\"stages\" is {'up': 1}, not a list"),
        ({"stages": ["up", "down"]}, r"pipeline: stage is 'up', expected a list of"),
        ({"stages": [["up"], ["*"], ["*"]]}, r"pipeline: 3 stages for 2 devices"),
        ({"recompute": "up"}, r"\"recompute\" is 'up', not a list of names or patterns"),
        ({"recompute": ["up", 1]}, r"\"recompute\" is \['up', 1\], not a list"),
        ({"ops": [{"splits": {}}]}, r"entry 0 of \"ops\" has no name"),
        ({"ops": [{"op": "up", "splits": {"o": 0}}]}, r"parts of o: got 0, expected at least 1"),
        ({"ops": [{"op": "up", "splits": {"o": 3}}]}, r"the parts reach device 2"),
        ({"ops": [{"op": "up", "splits": {"o": 2}, "strides": [1, 1]}]}, r"2 strides for 1 splits"),
        ({"ops": [{"op": "up", "split": {"o": 2}}]}, r"up: unknown entries \['split'\]"),
    ],
)
def test_bad_files(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(ValueError, match=message):
        Strategy.load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000, b"1" * 5000])
def test_not_json(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"bad.json: not JSON"):
        Strategy.load(path)


def test_a_file_that_does_not_fit_is_named_with_what_may_be_meant(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    for strategy, message in (
        (Strategy(2).split("downn", o=2), r"no operator .* matches 'downn'; did you mean 'down'\?"),
        (
            Strategy(2).split("down", smaple=2),
            r"down has no index 'smaple'.*; did you mean 'sample'\?",
        ),
        (Strategy(2).pipeline(["head"], ["up"], micro_batches=2), r"head is in stage 0"),
        (Strategy.hybrid(pp=9), r"a pipeline of 9 stages"),
        (Strategy(2).split("side", o=2), r"no operator .*; it has down, head, .* and 1 more$"),
    ):
        strategy.save(path)
        for act in (Strategy.bind, Strategy.to_dot):
            with pytest.raises(ValueError, match=rf"mine\.json: {message}"):
                act(Strategy.load(path), mlp())
            with pytest.raises(ValueError, match=rf"^strategy: {message}"):
                act(strategy, mlp())


def test_compile_names_the_file_that_no_kernel_can_follow(tmp_path: Path) -> None:
    model = FFModel(FFConfig(batch_size=8))
    model.lstm(model.create_tensor([8, 2, 2]), 3, name="steps")
    path = tmp_path / "mine.json"
    Strategy(2).split("steps", t=2).save(path)
    with pytest.raises(ValueError, match=r'mine\.json: steps: .* along "t": each step needs'):
        model.compile(loss_type=LossType.LOSS_IDENTITY, strategy=Strategy.load(path))


def test_files_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says who wanted them."""
    with pytest.raises(FileNotFoundError, match=r"Strategy\.load: .*: 'no\.json'"):
        Strategy.load("no.json")
    monkeypatch.setattr("sys.argv", ["x", "--import-strategy", "no.json"])
    model = mlp()
    with pytest.raises(FileNotFoundError, match=r"compile: --import-strategy: .*: 'no\.json'"):
        model.compile(SGDOptimizer(model), LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY)


def test_strategies_tell_what_they_are() -> None:
    assert str(Strategy(1)) == "strategy for 1 device"
    assert repr(Strategy(1)) == "<Strategy for 1 device: all of a model on device 0>"
    strategy = Strategy(8).split("a", start=1).split("b", b0=2, o=2).split("c", sample=8)
    strategy.split("d", sample=2, strides=(4,)).share_updates("a")
    assert str(strategy).splitlines()[1:] == [
        "  a: whole, on device 1",
        "  b: b0 in 2 x o in 2, on devices 0, 1, 2, 3",
        "  c: sample in 8, on devices 0 to 7",
        "  d: sample in 2, on devices 0, 4",
        "  a: updates are shared out",
    ]
    assert repr(strategy).startswith("<Strategy for 8 devices: a: whole, on device 1; b: b0 in 2")
    assert repr(strategy).endswith("; and 1 more>")
    many = Strategy(2**16).split("a", sample=2**12, o=2**12, strides=[0, 0]).split("b", o=2**16)
    many.split("c", b0=2, o=64, strides=[2, 4])
    assert str(many).splitlines()[1:] == [
        "  a: sample in 4096 x o in 4096, on device 0",
        "  b: o in 65536, on devices 0 to 65535",
        "  c: b0 in 2 x o in 64, on devices 0 to 254 by [2, 4]",
    ]


@pytest.mark.parametrize("wrong", [None, b"up", 1, ["up"]])
def test_patterns_are_texts(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"split: pattern is .*, expected a name or pattern"):
        Strategy(2).split(wrong, sample=2)
    with pytest.raises(TypeError, match=r"share_updates: pattern is .*, expected a name or"):
        Strategy(2).share_updates(wrong)
    with pytest.raises(TypeError, match=r"pipeline: stage is .*, expected a list of names or"):
        Strategy(2).pipeline([wrong], micro_batches=2)


def test_strides_beyond_all_devices() -> None:
    with pytest.raises(ValueError, match=r"stride: got 4611686018427387904, expected at most"):
        Strategy(2).split("up", strides=[2**62], sample=1)


def test_codes_of_characters_are_no_strides() -> None:
    with pytest.raises(TypeError, match=r"strides: got b'\\x01', expected a list of integers"):
        Strategy(2).split("up", strides=b"\x01", sample=2)


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    two = np.int64(2)
    given = Strategy.hybrid(dp=two, tp=two, pp=two, micro_batches=two).split("up", start=two, o=two)
    assert given == Strategy.hybrid(dp=2, tp=2, pp=2, micro_batches=2).split("up", start=2, o=2)
    given.save(tmp_path / "strategy.json")
    assert Strategy.load(tmp_path / "strategy.json") == given


def test_more_parts_than_a_plan_can_have() -> None:
    """Refused at once, where making the plan would take all memory."""
    for name in ("dp", "tp", "pp", "micro_batches"):
        with pytest.raises(ValueError, match=f"hybrid: {name}: got 1000000000, expected at most"):
            Strategy.hybrid(**{name: 10**9})
    strategy = Strategy(1).split("up", strides=[0, 0], sample=2**12, o=2**12)
    model = mlp()
    with pytest.raises(ValueError, match=r"index \"o\" in 4096 parts makes 16777216 parts"):
        model.compile(None, LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, strategy=strategy)


def test_shared_updates_of_no_weights_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"share_updates\('relu'\): what it matches has no weights"
    ):
        Strategy(2).share_updates("relu").bind(mlp())


def test_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices without a strategy share the samples; files come and go by flag."""
    path = tmp_path / "out.json"
    monkeypatch.setattr("sys.argv", ["x", "-ll:cpu", "2", "--export-strategy", str(path)])
    model = mlp()
    loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
    model.compile(SGDOptimizer(model), loss)
    assert Strategy.load(path) == Strategy.data_parallel(2).bind(mlp())
    model.fit(np.zeros((8, 12)), np.zeros(8, np.int32), verbose=0)
    plan = model.plan()
    monkeypatch.setattr("sys.argv", ["x", "--import-strategy", str(path)])
    model = mlp()
    model.compile(SGDOptimizer(model), loss)
    assert model.plan() == plan
    assert plan.count("= linear(") == 6 and "reduction/" in plan


def test_only_data_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same script, for comparison."""
    plans = []
    for strategy, argv in (
        (Strategy.data_parallel(4), ["x"]),
        (Strategy.hybrid(tp=2, pp=2), ["x", "--only-data-parallel"]),
    ):
        monkeypatch.setattr("sys.argv", argv)
        model = mlp()
        loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
        model.compile(SGDOptimizer(model), loss, strategy=strategy)
        plans.append(model.plan())
    assert plans[0] == plans[1]


def test_recompute_is_printed_and_bound() -> None:
    strategy = Strategy(1).recompute("up").recompute("r*")
    assert str(strategy).endswith("  r*: computed again in the backward pass")
    bound = strategy.bind(mlp())
    assert bound.recomputed == ["up", "relu"]
    assert bound.rules == []


def test_recompute_refuses_what_it_cannot_act_on() -> None:
    with pytest.raises(ValueError, match=r"no operator of the model matches 'x\*'"):
        Strategy(1).recompute("x*").bind(mlp())
    with pytest.raises(TypeError, match=r"recompute: pattern is 3, expected a name or pattern"):
        Strategy(1).recompute(3)  # type: ignore[arg-type]
    model = FFModel(FFConfig())
    model.op("constant", [], "c", outputs=1, shape=[4, 3], value=1.0)
    with pytest.raises(ValueError, match=r"recompute\('c'\): what it matches reads no tensor"):
        Strategy(1).recompute("c").bind(model)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("nobody", True, r'recomputes an op "nobody" that the model does not have'),
        ("up/kernel", True, r'recomputes "up/kernel" of kind "weight", which reads nothing'),
        ("up", 1, r"recompute:up is 1; expected true, or no such option"),
    ],
)
def test_the_library_checks_what_is_recomputed(
    option: str, value: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"devices": 1, f"recompute:{option}": value}
    monkeypatch.setattr("flexflow.core.compiled.strategy_options", lambda *_: options)
    model = mlp()
    loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
    with pytest.raises(ValueError, match=message):
        model.compile(SGDOptimizer(model), loss)


def test_a_pipeline_is_cut_evenly() -> None:
    """By work: the first of the dense layers has the most."""
    bound = Strategy.hybrid(pp=2).bind(mlp())
    assert bound.stages == [["up", "relu"], ["down", "head", "probabilities"]]
    assert bound.micro_batches == 4
    bound = Strategy.hybrid(pp=5).bind(mlp())
    assert [len(stage) for stage in bound.stages] == [1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (Strategy(2).pipeline(["up"], ["x*"], micro_batches=2), r"matches 'x\*'"),
        (Strategy(2).pipeline(["*"], ["head"], micro_batches=2), r"is in stage 1: \['head'\]"),
        (
            Strategy(2).pipeline(["head"], ["up"], micro_batches=2),
            r"head is in stage 0 of the pipeline and reads what down of stage 1 makes",
        ),
        (Strategy.hybrid(pp=6), r"a pipeline of 6 stages of a model with 5 operators"),
        (
            Strategy(2).pipeline(["up"], ["*"], micro_batches=2).split("up", o=2),
            r"up: o in 2, on devices 0, 1 reaches beyond its stage, which has 1 device",
        ),
    ],
)
def test_pipelines_that_do_not_fit(strategy: Strategy, message: str) -> None:
    model = mlp()
    loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
    with pytest.raises(ValueError, match=message):
        model.compile(SGDOptimizer(model), loss, strategy=strategy)


def test_a_stage_holds_few_micro_batches() -> None:
    """1F1B: whatever their number, activations of no more than there are stages."""

    def arena(strategy: Strategy) -> list[int]:
        model = FFModel(FFConfig(batch_size=512, device="reference"))
        t = model.create_tensor([512, 8], "float64")
        for number in range(8):
            t = model.tanh(model.dense(t, 8, name=f"dense{number}"))
        loss = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
        model.compile(SGDOptimizer(model), loss, strategy=strategy)
        return [int(size) for size in re.findall(r"arena (\d+) B", model.plan())]

    rows = [arena(Strategy.hybrid(pp=2, micro_batches=count))[0] for count in (2, 4, 16)]
    assert rows[1] < 0.75 * rows[0] and rows[2] < 0.75 * rows[1]
    assert arena(Strategy.hybrid(micro_batches=8))[0] < 0.5 * arena(Strategy(1))[0]


def test_accumulated_gradients_are_summed_as_they_come() -> None:
    """Memory for one gradient of each weight, whatever the number of micro-batches."""

    def arena(micro_batches: int) -> int:
        model = FFModel(FFConfig(batch_size=32, device="reference"))
        t = model.create_tensor([32, 64], "float64")
        for _ in range(6):
            t = model.dense(t, 64, ActiMode.AC_MODE_RELU)
        loss = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
        strategy = Strategy.hybrid(micro_batches=micro_batches)
        model.compile(AdamOptimizer(model), loss, strategy=strategy)
        return int(re.findall(r"arena (\d+) B", model.plan())[0])

    assert arena(16) < arena(4) < arena(2)


def test_reports_are_about_the_whole_batch() -> None:
    """Not about the smaller one that came last."""
    model = mlp()
    loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
    model.compile(SGDOptimizer(model), loss)
    before = model.memory_report(), model.plan()
    model.fit(np.zeros((11, 12)), np.zeros(11, np.int32), verbose=0)
    assert (model.memory_report(), model.plan()) == before


@pytest.mark.parametrize("strides", [(1, 0), (0, 0), (3, 1)])
def test_each_part_serves_one_expert(strides: tuple[int, int]) -> None:
    """Halves of the samples for one expert after another, on the same devices or not."""

    def served(strategy: Strategy) -> np.ndarray:
        model = FFModel(FFConfig(device="reference"))
        x = model.create_tensor([6, 2], "float64")
        chosen = model.create_tensor([6, 1], "int32")
        rows = model.group_by(x, chosen, 3, 1.0, name="experts")
        y = model.concat(rows, 1)
        mode, loss = CompMode.INFERENCE, LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
        model.compile(None, loss, comp_mode=mode, strategy=strategy)
        x.set_tensor(model, np.arange(1.0, 13.0).reshape(6, 2))
        chosen.set_tensor(model, np.array([[0], [1], [2], [2], [1], [0]], np.int32))
        model.forward()
        return y.get_tensor(model)

    expected = [[1, 2, 3, 4, 5, 6], [11, 12, 9, 10, 7, 8]]
    split = Strategy(6).split("experts", strides=strides, b0=2, e=3)
    np.testing.assert_array_equal(served(split), expected)


@pytest.mark.parametrize("splits", [{"g": 2}, {"g": 1}, {"g": 1, "c": 2}])
def test_groups_that_a_small_batch_lacks(splits: dict[str, int]) -> None:
    """The last batch has one row, so one group, and nothing along which groups could be split."""

    def trained(strategy: Strategy | None) -> np.ndarray:
        model = FFModel(FFConfig(device="reference", seed=1))
        t = model.batch_norm(model.create_tensor([4, 3], "float64"), groups=2, name="norm")
        model.dense(t, 2, name="top")
        loss = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
        model.compile(SGDOptimizer(model, lr=0.1), loss, strategy=strategy)
        random = np.random.default_rng(0)
        model.fit(random.normal(size=(9, 3)), random.normal(size=(9, 2)), verbose=0)
        return model.get_layer_by_name("top").get_weight_tensor().get_weights()

    split = Strategy(2).split("norm", **splits)
    np.testing.assert_allclose(trained(split), trained(None), rtol=1e-9)


@pytest.mark.parametrize("pattern", ["up", "*"])
def test_an_index_is_split_once(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"up: index 'b0' is split in 2 and in 4; name it, or its"):
        Strategy(8).split(pattern, sample=2, b0=4).bind(mlp())


def test_an_edited_strategy_is_bound_no_more() -> None:
    """It holds patterns again, and prints as such."""
    model = mlp()
    names = [op.name for op in model.get_layers().values()]
    for edit in (
        lambda bound: bound.split("u*", sample=2),
        lambda bound: bound.pipeline(["u*"], names[1:], micro_batches=2),
        lambda bound: bound.share_updates("u*"),
        lambda bound: bound.recompute("u*"),
    ):
        bound = Strategy(2).split("up", o=2).bind(model)
        assert "u*" in str(edit(bound))


def test_why_an_index_of_extent_1_is_whole() -> None:
    model = FFModel(FFConfig())
    model.dense(model.create_tensor([1, 3]), 2, ActiMode.AC_MODE_RELU, name="top")
    with pytest.raises(ValueError, match=r"no index 'sample' .* b0 \(whole: its extent is 1\)"):
        Strategy(2).split("top", sample=2).bind(model)
