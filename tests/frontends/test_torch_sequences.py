"""Attention and recurrence of PyTorch modules: masks, states, a block that is trained; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as fn  # noqa: E402
from torch import nn  # noqa: E402
from torch_peer import Peers  # noqa: E402

from flexflow.core import FFConfig, FFModel  # noqa: E402
from flexflow.torch.model import PyTorchModel  # noqa: E402

WORDS, FEATURES = 5, 6
X = np.random.default_rng(0).normal(size=(3, WORDS, FEATURES))
LATER = torch.ones(WORDS, WORDS).triu(1).bool()
MASKS = {
    "bool": LATER,
    "float": nn.Transformer.generate_square_subsequent_mask(WORDS),
}


def build(module: Any) -> Any:
    def into(ffmodel: Any, inputs: Any) -> Any:
        importer = PyTorchModel(module)
        return importer.torch_to_ff(ffmodel, inputs), importer.weights

    return into


class Masked(nn.Module):
    """Self-attention with arguments of its forward."""

    def __init__(self, mask: Any = None, **arguments: Any) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(FEATURES, 2, batch_first=True)
        self.register_buffer("mask", mask)
        self.arguments = arguments

    def forward(self, x: Any) -> Any:
        return self.layer(x, x, x, attn_mask=self.mask, **self.arguments)[0]


class Block(nn.Module):
    """A layer of a transformer that looks back only."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(FEATURES, 3, batch_first=True)
        self.first, self.second = nn.LayerNorm(FEATURES), nn.LayerNorm(FEATURES)
        self.up, self.down = nn.Linear(FEATURES, 11), nn.Linear(11, FEATURES)

    def forward(self, x: Any) -> Any:
        mask = torch.full((x.size(1), x.size(1)), float("-inf")).triu(1)
        attended, _ = self.attention(x, x, x, need_weights=False, attn_mask=mask, is_causal=True)
        x = self.first(x + attended)
        return self.second(x + self.down(fn.gelu(self.up(x))))


class Recurrent(nn.Module):
    """A layer that begins with states, all of whose results count."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self.layer = nn.LSTM(FEATURES, 4, 2, **arguments)

    def forward(self, x: Any, h: Any, c: Any) -> Any:
        y, (h, c) = self.layer(x, (h, c))
        return y, h, c


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("mask", MASKS)
def test_causal_masks(mask: str, dtype: str) -> None:
    torch.manual_seed(0)
    Peers(Masked(MASKS[mask], need_weights=False), [X], build, dtype).check()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_transformer_block(dtype: str) -> None:
    torch.manual_seed(0)
    Peers(Block(), [X], build, dtype).check()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_states_of_recurrent_layers(dtype: str) -> None:
    torch.manual_seed(0)
    x = X.transpose(1, 0, 2)  # time first
    h, c = np.random.default_rng(1).normal(size=(2, 2, 3, 4))
    Peers(Recurrent(), [x, h, c], build, dtype).check()


def test_dropout_stands_between_layers_only() -> None:
    for layers, expected in ((1, 0), (3, 2)):
        module = nn.Sequential(nn.LSTM(FEATURES, 4, layers, batch_first=True, dropout=0.3))
        ffmodel = FFModel(FFConfig())
        x = ffmodel.create_tensor(X.shape, "float32")
        PyTorchModel(module).torch_to_ff(ffmodel, [x])
        kinds = [op.kind for op in ffmodel.get_layers().values()]
        assert kinds.count("dropout") == expected and kinds.count("lstm") == layers


class Bare(nn.Module):
    """A layer, and what is to be done with its results."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return self.layer(x)[0]


class Weighed(Masked):
    """One that returns the attention's weights."""

    def forward(self, x: Any) -> Any:
        return self.layer(x, x, x)[1]


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Bare(nn.LSTM(FEATURES, 4, bidirectional=True)), "LSTM 'layer': bidirectional=True"),
        (Bare(nn.LSTM(FEATURES, 4, proj_size=2)), "LSTM 'layer': proj_size=2"),
        (Masked(LATER.T), "MultiheadAttention 'layer': attn_mask: only the causal one"),
        (Masked(LATER * 1.0), "attn_mask: only the causal one"),
        (Masked(LATER, key_padding_mask=torch.ones(3, WORDS)), "key_padding_mask="),
        (Weighed(), "the module's result: the attention's weights"),
    ],
)
@pytest.mark.filterwarnings("ignore:Support for mismatched")
def test_refusals(module: nn.Module, message: str) -> None:
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor(X.shape, "float32")
    with pytest.raises(NotImplementedError, match=message):
        PyTorchModel(module).torch_to_ff(ffmodel, [x])


def test_what_is_no_batch_is_refused() -> None:
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor(X.shape[1:], "float32")
    for module in (Masked(), Bare(nn.LSTM(FEATURES, 4))):
        with pytest.raises(NotImplementedError, match=r"of shape \(5, 6\), but only batches"):
            PyTorchModel(module).torch_to_ff(ffmodel, [x])
