"""Rows of recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence

from flexflow.core import Tensor
from flexflow.onnx.builder import Builder, Value, shape
from flexflow.onnx.rows import UnsupportedError, lowers


@lowers(
    "LSTM",
    activations=(["Sigmoid", "Tanh", "Tanh"],),
    clip=(None,),
    direction=("forward",),
    input_forget=(0,),
)
def lstm(
    b: Builder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None = None,
    lengths: Value | None = None,
    initial_h: Value | None = None,
    initial_c: Value | None = None,
    peepholes: Value | None = None,
    *,
    activations: Sequence[str] = ("Sigmoid", "Tanh", "Tanh"),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,  # the weights say it
    input_forget: int = 0,
    layout: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    for what, given in (("sequence_lens", lengths), ("P", peepholes)):
        if given is not None:
            raise UnsupportedError(f"input {what}: leave it out")
    if (initial_h is None) != (initial_c is None):
        raise UnsupportedError("one of initial_h and initial_c, but only both or none is supported")
    units = shape(r)[-1]
    states = [one for one in (initial_h, initial_c) if one is not None]
    states = [b.step("reshape", one, shape=_without(one, 1 if layout else 0)) for one in states]
    weights = [_ordered(b, one, units, shape(one)[-1:]) for one in map(b.weight, (w, r))]
    if bias is not None:
        halves = b.split(b.weight(bias), [4 * units] * 2, 1)
        weights += [_ordered(b, half, units, ()) for half in halves]
    y, h, c = b.several(
        "lstm",
        3,
        x if layout else b.step("transpose", x, perm=[1, 0, 2]),
        *states,
        *weights,
        hidden_size=units,
        use_bias=bias is not None,
        initial_state=bool(states),
    )
    batch, length = shape(y)[:2]
    ends = [b.step("reshape", one, shape=_with_direction(batch, units, layout)) for one in (h, c)]
    if layout:
        return (b.op("reshape", y, shape=[batch, length, 1, units]), *ends)
    steps = b.step("transpose", y, perm=[1, 0, 2])
    return (b.op("reshape", steps, shape=[length, 1, batch, units]), *ends)


def _without(x: Value, at: int) -> list[int]:
    """The extents without that of the directions, of which there is one."""
    return [size for other, size in enumerate(shape(x)) if other != at]


def _with_direction(batch: int, units: int, layout: int) -> list[int]:
    return [batch, 1, units] if layout else [1, batch, units]


def _ordered(b: Builder, weight: Value, units: int, rest: tuple[int, ...]) -> Tensor:
    """A weight of one direction, its gates (input, output, forget, cell) as (input, forget, cell,
    output)."""
    i, o, f, c = b.split(weight, [units] * 4, 1)
    joined = b.step("concat", i, f, c, o, axis=1)
    return b.step("reshape", joined, shape=[4 * units, *rest])
