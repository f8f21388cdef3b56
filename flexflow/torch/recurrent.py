"""Rows of recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from flexflow.core import Tensor
from flexflow.torch.builder import Builder, Value, shape
from flexflow.torch.rows import UnsupportedError, lowers
from flexflow.torch.shapes import unbind


@lowers(nn.LSTM, bidirectional=(False,), proj_size=(0,))
def lstm(
    b: Builder,
    input: Value,
    hx: tuple[Value, Value] | None = None,
    *,
    hidden_size: int,
    num_layers: int,
    bias: bool,
    batch_first: bool,
    dropout: float,
    bidirectional: bool,
    proj_size: int,
    all_weights: Sequence[Sequence[Value]],
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    if len(shape(input)) != 3:
        raise UnsupportedError(f"an input of shape {shape(input)}, but only batches are supported")
    x = input if batch_first else b.step("transpose", input, perm=[1, 0, 2])
    states = [()] * num_layers if hx is None else list(zip(*(unbind(b, one) for one in hx)))
    last: list[list[Tensor]] = []
    for layer, (weights, state) in enumerate(zip(all_weights, states)):
        if layer and dropout and b.training:
            x = b.step("dropout", x, rate=dropout)
        x, *ends = b.several(
            "lstm",
            3,
            x,
            *state,
            *weights,
            hidden_size=hidden_size,
            use_bias=bias,
            initial_state=hx is not None,
        )
        last.append(ends)
    y = x if batch_first else b.step("transpose", x, perm=[1, 0, 2])
    hidden, cell = (_stacked(b, ends) for ends in zip(*last))
    return y, (hidden, cell)


def _stacked(b: Builder, ends: Sequence[Tensor]) -> Tensor:
    """The last states of all layers, as one tensor."""
    rows = [b.step("reshape", one, shape=[1, *shape(one)]) for one in ends]
    return rows[0] if len(rows) == 1 else b.step("concat", *rows, axis=0)
