"""multihead_attention beyond its row: dropout, what a split of its heads does, what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tolerances import assert_close

from flexflow.core import CompMode, FFConfig, FFModel, LossType, SGDOptimizer, Strategy, Tensor

BATCH, WORDS, FEATURES, HEADS = 4, 6, 8, 4
WORDS_IN = np.random.default_rng(3).normal(size=(BATCH, WORDS, FEATURES)).astype(np.float32)


def model_of(**options: object) -> tuple[FFModel, Tensor, Tensor]:
    model = FFModel(FFConfig(device="cpu"))
    x = model.create_tensor([BATCH, WORDS, FEATURES])
    y = model.multihead_attention(x, x, x, FEATURES, HEADS, name="attend", **options)  # type: ignore[arg-type]
    return model, x, y


def trained(splits: dict[str, int] | None, **options: object) -> dict[str, np.ndarray]:
    """The weights after three steps."""
    model, x, y = model_of(**options)
    strategy = Strategy(max(2, math.prod(splits.values()))) if splits else None
    if strategy is not None:
        strategy.split("attend", **splits)
    model.compile(
        SGDOptimizer(model, 0.05),
        LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE,
        output=y,
        strategy=strategy,
    )
    for _ in range(3):
        x.set_tensor(model, WORDS_IN)
        model.label_tensor.set_tensor(model, np.ones((BATCH, WORDS, FEATURES), np.float32))
        model.forward()
        model.zero_gradients()
        model.backward()
        model.update()
    return {w.name: w.get_weights(model) for w in y.owner_op.get_parameters()}


@pytest.mark.parametrize("splits", [{"h": 2}, {"h": 4}, {"s": 3}, {"t": 2}, {"b0": 2, "h": 2}])
def test_training_with_dropout_and_a_causal_mask(splits: dict[str, int]) -> None:
    """Neither the dropout nor causal_mask and causal_mask_grad depend on the split."""
    alone, split = (trained(s, dropout=0.3, causal=True, seed=5) for s in (None, splits))
    assert alone.keys() == split.keys()
    for name, weight in alone.items():
        assert_close(split[name], weight, "float32", name, scale=1.0)


def test_dropout_keeps_the_mean_and_leaves_inference_alone() -> None:
    runs = []
    for mode in (CompMode.INFERENCE, CompMode.TRAINING):
        model, x, y = model_of(dropout=0.5, seed=1)
        for weight in y.owner_op.get_parameters():
            weight.set_weights(model, np.full(weight.dims, 0.1, np.float32))
        loss = LossType.LOSS_IDENTITY if mode is CompMode.TRAINING else None
        model.compile(loss_type=loss, comp_mode=mode, output=y)
        x.set_tensor(model, WORDS_IN)
        outputs = []
        for _ in range(400 if mode is CompMode.TRAINING else 1):
            model.forward()
            outputs.append(y.get_tensor())
        runs.append(np.mean(outputs, 0))
    assert np.abs(runs[0] - runs[1]).max() < 0.05
    assert np.abs(runs[0] - runs[1]).max() > 1e-4


def test_weights_are_those_of_pytorch() -> None:
    theirs = torch.nn.MultiheadAttention(FEATURES, HEADS, batch_first=True)
    model, x, y = model_of()
    size = FEATURES // HEADS
    weights = {w.name.rpartition("/")[2]: w for w in y.owner_op.get_parameters()}
    with torch.no_grad():
        theirs.in_proj_bias.uniform_(-1, 1)
        theirs.out_proj.bias.uniform_(-1, 1)
    kernels, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    for kind, kernel, bias in zip("qkv", kernels, biases):
        weights[f"{kind}_kernel"].set_weights(
            model, kernel.detach().numpy().reshape(HEADS, size, FEATURES)
        )
        weights[f"{kind}_bias"].set_weights(model, bias.detach().numpy().reshape(HEADS, size))
    out = theirs.out_proj
    weights["out_kernel"].set_weights(
        model, out.weight.detach().numpy().reshape(FEATURES, HEADS, size)
    )
    weights["out_bias"].set_weights(model, out.bias.detach().numpy())
    model.compile(comp_mode=CompMode.INFERENCE, output=y)
    x.set_tensor(model, WORDS_IN)
    model.forward()
    words = torch.from_numpy(WORDS_IN)
    wanted = theirs(words, words, words, need_weights=False)[0].detach().numpy()
    assert_close(y.get_tensor(), wanted, "float32", "output")


def test_what_is_refused_is_named() -> None:
    for option in ("add_bias_kv", "add_zero_attn"):
        with pytest.raises(NotImplementedError, match=f"attend: {option}"):
            model_of(**{option: True})
    with pytest.raises(ValueError, match="embed_dim 8 does not divide into 3 heads"):
        model = FFModel(FFConfig(device="cpu"))
        x = model.create_tensor([BATCH, WORDS, FEATURES])
        model.multihead_attention(x, x, x, FEATURES, 3)
