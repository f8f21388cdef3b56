"""Strategies drawn and printed: every operator, where it lies, and what moves."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flexflow.core import ActiMode, FFConfig, FFModel, LossType, SGDOptimizer, Strategy, Tensor

# A statement of Graphviz's language, as far as drawings need it.
_NAME = r'"(?:[^"\\]|\\.)*"'
_ATTRIBUTES = rf"\[\w+=(?:\w+|{_NAME})(?:, \w+=(?:\w+|{_NAME}))*\]"
_STATEMENT = re.compile(rf"  (?:node|{_NAME}|{_NAME} -> {_NAME})(?: {_ATTRIBUTES})?")


def drawn(model: FFModel, strategy: Strategy) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """The labels of a drawing's nodes and, of its edges, what moves; it is well-formed."""
    first, *lines, last = strategy.to_dot(model).splitlines()
    assert (first, last) == ("digraph strategy {", "}")
    assert all(_STATEMENT.fullmatch(line) for line in lines), lines
    text = "\n".join(lines)
    nodes = dict(re.findall(r'^  "([^"]*)" \[label="(.*?)", fillcolor', text, re.M))
    edges = re.findall(r'^  "([^"]*)" -> "([^"]*)"(?: \[label="(.*?)")?', text, re.M)
    assert len({(a, b) for a, b, _ in edges}) == len(edges)
    assert {name for a, b, _ in edges for name in (a, b)} <= set(nodes)
    return nodes, {(a, b): moves for a, b, moves in edges}


def mlp() -> FFModel:
    model = FFModel(FFConfig(batch_size=8))
    t = model.dense(model.create_tensor([8, 12], name="x"), 16, name="up")
    t = model.dense(model.relu(t, name="relu"), 12, name="down")
    model.softmax(t, name="probabilities")
    return model


def test_one_device() -> None:
    nodes, edges = drawn(mlp(), Strategy(1))
    assert nodes == {
        "x": r"x: input\ndevice 0",
        "up": r"up: linear\ndevice 0",
        "relu": r"relu: relu\ndevice 0",
        "down": r"down: linear\ndevice 0",
        "probabilities": r"probabilities: softmax\ndevice 0",
    }
    assert edges == {
        ("x", "up"): "",
        ("up", "relu"): "",
        ("relu", "down"): "",
        ("down", "probabilities"): "",
    }


def test_data_parallel() -> None:
    """Samples are handed out once; weights have no node."""
    nodes, edges = drawn(mlp(), Strategy.data_parallel(2))
    assert nodes["up"] == r"up: linear\nb0 in 2\ndevices 0, 1"
    assert nodes["probabilities"] == r"probabilities: softmax\nb0 in 2\ndevices 0, 1"
    assert {edge for edge, moves in edges.items() if moves} == {("x", "up")}
    assert edges["x", "up"] == "repartition"


def test_tensor_parallel() -> None:
    """Columns, then rows: one sum at the end, and what lies between stays where it is."""
    nodes, edges = drawn(mlp(), Strategy.tensor_parallel(2))
    assert nodes["relu"] == r"relu: relu\nx1 in 2\ndevices 0, 1"
    assert nodes["down"] == r"down: linear\ni in 2\ndevices 0, 1"
    assert edges["x", "up"] == "replicate"
    assert edges["up", "relu"] == edges["relu", "down"] == ""
    assert edges["down", "probabilities"] == "reduction"


def test_moves_between_placements() -> None:
    """Parts that are put together elsewhere, and a copy."""
    strategy = Strategy(3).split("up", o=2).split("down", start=2).split("probabilities", start=1)
    nodes, edges = drawn(mlp(), strategy)
    assert nodes["down"] == r"down: linear\ndevice 2"
    assert edges["relu", "down"] == "combine"
    assert edges["down", "probabilities"] == "replicate"


def test_operators_that_are_computed_in_steps() -> None:
    """A softmax over split classes sums over its parts in between."""
    nodes, edges = drawn(mlp(), Strategy(2).split("down", o=2))
    assert nodes["probabilities"].endswith("devices 0, 1")
    assert edges["down", "probabilities"] == ""
    assert "reduction" in edges["probabilities", "probabilities"]


def test_an_activation_is_no_operator_of_its_own() -> None:
    """It is computed with the layer, or after the sum that it waits for."""
    model = FFModel(FFConfig(batch_size=8))
    relu = ActiMode.AC_MODE_RELU
    model.dense(model.create_tensor([8, 12], name="x"), 6, relu, name="top")
    nodes, edges = drawn(model, Strategy(2).split("top", b0=2))
    assert nodes["top"] == r"top: linear\nb0 in 2\ndevices 0, 1"
    assert set(edges) == {("x", "top")}
    nodes, edges = drawn(model, Strategy(2).split("top", i=2))
    assert nodes["top"] == r"top: linear\ni in 2\ndevices 0, 1"
    assert edges["top", "top"] == "reduction"


def test_operators_with_several_tensors() -> None:
    model = FFModel(FFConfig(batch_size=4))
    x = model.create_tensor([4, 6], name="x")
    parts = model.split(x, [2, 4], 1, name="parts")
    model.concat([parts[1], parts[0], x], 1, name="joined")
    nodes, edges = drawn(model, Strategy(2).split("parts", sample=2))
    assert list(nodes) == ["x", "parts", "joined"]
    assert edges[("x", "parts")] == "repartition" and ("parts", "joined") in edges
    assert ("x", "joined") in edges


def test_a_model_that_is_compiled() -> None:
    """Its label and its own strategy do not matter, and it stays as it is."""
    model, fresh = mlp(), mlp()
    loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
    model.compile(SGDOptimizer(model), loss, strategy=Strategy.tensor_parallel(2))
    plan = model.plan()
    strategy = Strategy.data_parallel(2)
    assert strategy.to_dot(model) == strategy.to_dot(fresh)
    assert model.plan() == plan


def test_colours_stand_for_devices() -> None:
    model = FFModel(FFConfig(batch_size=4))
    t: Tensor = model.create_tensor([4, 6])
    strategy = Strategy(14)
    for device in range(14):
        t = model.dense(t, 6, name=f"layer{device}")
        strategy.split(f"layer{device}", start=device)
    colours = [int(n) for n in re.findall(r"fillcolor=(\d+)", strategy.to_dot(model))]
    # The input lies on the first device; the scheme has twelve colours.
    assert colours == [1, *range(1, 13), 1, 2]


@pytest.mark.parametrize("name", ['say "up"', "back\\slash", "a b", "line\nbreak", "tab\there"])
def test_odd_names(name: str) -> None:
    model = FFModel(FFConfig(batch_size=4))
    model.dense(model.create_tensor([4, 6], name="x"), 3, name=name)
    lines = Strategy.data_parallel(2).to_dot(model).splitlines()[1:-1]
    assert all(_STATEMENT.fullmatch(line) for line in lines), lines
    assert len(lines) == 4


def test_strategies_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"no operator of the model matches 'side'"):
        Strategy(2).split("side", o=2).to_dot(mlp())
    with pytest.raises(TypeError, match=r"got 3, expected an FFModel \(of Keras: model.ffmodel\)"):
        Strategy(2).to_dot(3)  # type: ignore[arg-type]


def test_bound_strategies_print_every_operator() -> None:
    strategy = Strategy.data_parallel(2).split("down", o=2).share_updates("up").recompute("relu")
    bound = strategy.bind(mlp())
    assert str(bound).splitlines() == [
        "strategy for 2 devices",
        "  up: b0 in 2, on devices 0, 1, updates are shared out",
        "  relu: follows what it reads: x0 in 2, on devices 0, 1, "
        "computed again in the backward pass",
        "  down: o in 2, on devices 0, 1",
        "  probabilities: follows what it reads: x1 in 2, on devices 0, 1",
    ]
    # What is edited is no longer what was bound.
    assert "  up: whole, on device 1" in str(bound.split("up", start=1)).splitlines()


def test_operators_that_follow_tell_where_they_lie() -> None:
    bound = Strategy(2).split("up", start=1).bind(mlp())
    assert str(bound).splitlines()[1:] == [
        "  up: whole, on device 1",
        "  relu: follows what it reads: whole, on device 1",
        "  down: follows what it reads: whole, on device 1",
        "  probabilities: follows what it reads: whole, on device 1",
    ]


def test_pipelines() -> None:
    """Devices are counted from the first of all stages; micro-batches are no parts of a split, and
    cutting them moves nothing between devices."""
    strategy = Strategy(2).pipeline(["up", "relu"], ["*"], micro_batches=4)
    nodes, edges = drawn(mlp(), strategy)
    assert nodes["up"] == r"up: linear\ndevice 0\n4 micro-batches\nstage 0"
    assert nodes["down"] == r"down: linear\ndevice 1\n4 micro-batches\nstage 1"
    assert edges["x", "up"] == edges["up", "relu"] == edges["down", "probabilities"] == ""
    assert edges["relu", "down"] == "replicate"
    assert str(strategy.bind(mlp())).splitlines() == [
        "strategy for 2 devices, 2 stages, 4 micro-batches",
        "  up: whole, on device 0, stage 0",
        "  relu: follows what it reads: whole, on device 0, stage 0",
        "  down: whole, on device 1, stage 1",
        "  probabilities: follows what it reads: whole, on device 1, stage 1",
    ]


def test_parts_and_micro_batches_are_told_apart() -> None:
    nodes, edges = drawn(mlp(), Strategy.hybrid(dp=2, micro_batches=4))
    assert nodes["up"] == r"up: linear\nb0 in 2\ndevices 0, 1\n4 micro-batches"
    assert nodes["probabilities"].startswith(r"probabilities: softmax\nb0 in 2\ndevices 0, 1")
    assert {edge for edge, moves in edges.items() if moves} == {("x", "up")}
    nodes, _ = drawn(mlp(), Strategy.hybrid(dp=2, pp=2, micro_batches=2))
    assert nodes["probabilities"].endswith(r"b0 in 2\ndevices 2, 3\n2 micro-batches\nstage 1")


def test_what_is_computed_again_and_whose_updates_are_shared_is_drawn() -> None:
    model = mlp()
    relu = ActiMode.AC_MODE_RELU
    t = model.batch_norm(model.dense(model.get_last_layer().get_output_tensor(), 4), name="norm")
    model.pool2d(model.reshape(t, [8, 1, 2, 2]), 2, 2, activation=relu, name="pool")
    strategy = Strategy.data_parallel(2).share_updates("up").recompute("up").recompute("pool")
    nodes, _ = drawn(model, strategy)
    marked = {name: label for name, label in nodes.items() if "again" in label}
    assert set(marked) == {"up", "pool", "pool/relu"}
    assert "updates are shared out" in nodes["up"] and "shared" not in nodes["down"]


@pytest.mark.parametrize("edit", [{"start": 1}, {"o": 2}, {"o": 2, "strides": (3,)}])
def test_what_reaches_beyond_its_stage_is_refused_before_compile(edit: dict[str, Any]) -> None:
    stages = ["up"], ["relu"], ["down"], ["p*"]
    strategy = Strategy(4).pipeline(*stages, micro_batches=2).split("up", **edit)
    for act in (Strategy.bind, Strategy.to_dot):
        with pytest.raises(
            ValueError, match=r"up: .* reaches beyond its stage, which has 1 device"
        ):
            act(strategy, mlp())


def test_an_index_of_extent_1_is_not_taken_for_a_sum() -> None:
    """By kind, the index that has something to share out is split."""
    model = FFModel(FFConfig(batch_size=1))
    model.dense(model.create_tensor([1, 6]), 3, name="top")
    bound = Strategy(2).split("top", reduction=2).bind(model)
    assert dict(dict(bound.rules)["top"].splits) == {"i": 2}
    with pytest.raises(ValueError, match=r"no index 'sample'.*b0 \(whole: its extent is 1\)"):
        Strategy(2).split("top", sample=2).bind(model)
