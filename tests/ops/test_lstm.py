"""lstm beyond its row: layers of PyTorch's, shared weights, the last states alone, splits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tolerances import assert_close

from flexflow.core import CompMode, FFConfig, FFModel, LossType, SGDOptimizer, Strategy

BATCH, STEPS, FEATURES, UNITS = 6, 4, 5, 3
WORDS = np.random.default_rng(11).normal(size=(BATCH, STEPS, FEATURES)).astype(np.float32)


def test_two_layers_with_the_weights_of_pytorch() -> None:
    theirs = torch.nn.LSTM(FEATURES, UNITS, num_layers=2, batch_first=True)
    model = FFModel(FFConfig(device="cpu"))
    x = model.create_tensor(WORDS.shape)
    first, *_ = model.lstm(x, UNITS)
    second, h, c = model.lstm(first, UNITS)
    for number, y in enumerate((first, second)):
        for weight in y.owner_op.get_parameters():
            name = weight.name.rpartition("/")[2]
            value = getattr(theirs, f"{name}_l{number}")
            weight.set_weights(model, value.detach().numpy())
    output = model.concat([h, c], 1)
    model.compile(comp_mode=CompMode.INFERENCE, output=output)
    x.set_tensor(model, WORDS)
    model.forward()
    _, (h_n, c_n) = theirs(torch.from_numpy(WORDS))
    wanted = torch.cat([h_n[1], c_n[1]], 1).detach().numpy()
    assert_close(output.get_tensor(), wanted, "float32", "last states")


def trained(splits: dict[str, int]) -> dict[str, np.ndarray]:
    """The weights after three steps on the last hidden state, encoder and decoder sharing them."""
    model = FFModel(FFConfig(device="cpu"))
    x = model.create_tensor(WORDS.shape)
    _, h, c = model.lstm(x, UNITS, use_bias=False, name="encode")
    _, y, _ = model.lstm(x, UNITS, False, (h, c), shared_op=h, name="decode")
    strategy = None
    if splits:
        strategy = Strategy(math.prod(splits.values())).split("encode", **splits)
        strategy.split("decode", **splits)
    loss = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
    model.compile(SGDOptimizer(model, 0.3), loss, output=y, strategy=strategy)
    for _ in range(3):
        x.set_tensor(model, WORDS)
        model.label_tensor.set_tensor(model, np.ones((BATCH, UNITS), np.float32))
        model.forward()
        model.zero_gradients()
        model.backward()
        model.update()
    layers = model.get_layers().values()
    return {w.name: w.get_weights(model) for op in layers for w in op.get_parameters()}


def test_training_of_a_shared_layer() -> None:
    model = FFModel(FFConfig(device="cpu"))
    h = model.lstm(model.create_tensor(WORDS.shape), UNITS, use_bias=False, name="encode")[1]
    cell = torch.nn.LSTM(FEATURES, UNITS, bias=False, batch_first=True)
    with torch.no_grad():
        for weight in h.owner_op.get_parameters():
            name = weight.name.rpartition("/")[2]
            getattr(cell, f"{name}_l0").copy_(torch.from_numpy(weight.get_weights(model)))
    optimizer = torch.optim.SGD(cell.parameters(), 0.3)
    words = torch.from_numpy(WORDS)
    for _ in range(3):
        _, states = cell(words)
        _, (y, _) = cell(words, states)
        optimizer.zero_grad()
        ((y[0] - 1) ** 2).mean().backward()
        optimizer.step()
    for name, weight in trained({}).items():
        wanted = getattr(cell, f"{name.rpartition('/')[2]}_l0").detach().numpy()
        assert_close(weight, wanted, "float32", name, scale=1.0)


@pytest.mark.parametrize("splits", [{"b0": 2}, {"b0": 4}, {"i": 2}, {"o": 3}, {"b0": 2, "o": 2}])
def test_training_in_parts(splits: dict[str, int]) -> None:
    alone, split = trained({}), trained(splits)
    for name, weight in alone.items():
        assert_close(split[name], weight, "float32", name, scale=1.0)


def test_what_cannot_be_split_says_why() -> None:
    for index, reason in (("t", "each step needs the one before it"), ("h", "all units feed")):
        with pytest.raises(ValueError, match=f"encode.*{reason}"):
            trained({index: 2})


def test_what_is_refused_is_named() -> None:
    model = FFModel(FFConfig(device="cpu"))
    x, flat = model.create_tensor(WORDS.shape), model.create_tensor([BATCH, FEATURES])
    with pytest.raises(ValueError, match="sequence is empty"):
        model.lstm(model.create_tensor([BATCH, 0, FEATURES]), UNITS)
    with pytest.raises(ValueError, match="batch, sequence, features"):
        model.lstm(flat, UNITS)
    with pytest.raises(ValueError, match="hidden_size"):
        model.lstm(x, 0)
    with pytest.raises(ValueError, match="a state"):
        model.lstm(x, UNITS, initial_state=(flat, flat))
