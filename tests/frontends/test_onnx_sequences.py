"""Products of batches, picks, attention and recurrence of ONNX files, in hand-made graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
from test_onnx_operators import apply, check, ints, model, node, r

from flexflow.core import CompMode


@pytest.mark.parametrize(
    ("x", "z"),
    [
        ((3, 2, 4), (3, 4, 5)),
        ((3, 1, 2, 4), (3, 2, 4, 5)),
        ((3, 2, 4), (3, 4, 2)),
        ((2, 3, 4), (2, 2, 4, 5)),
    ],
    ids=str,
)
def test_matmul_of_batches(x: tuple[int, ...], z: tuple[int, ...]) -> None:
    if len(x) < len(z):
        check(node("MatMul", "w z"), {"z": r(*z)}, {"w": r(*x[1:])})
    else:
        check(node("MatMul", "x z"), {"x": r(*x), "z": r(*z)})
        check(
            node("MatMul", "x w"), {"x": r(*x)}, {"w": r(*z[1:])} if len(z) == 4 else {"w": r(*z)}
        )


def test_matmul_with_vectors() -> None:
    check(node("MatMul", "w x"), {"x": r(3, 4, 5)}, {"w": r(4)})
    check(node("MatMul", "x w"), {"x": r(3, 2, 4)}, {"w": r(4)})


def test_einsum() -> None:
    both = {"x": r(3, 2, 4), "z": r(3, 4, 5)}
    check(node("Einsum", "x z", equation="bnk,bkm->bnm"), both)
    check(node("Einsum", "x z", equation="bnk, bkm"), both)
    check(node("Einsum", "x w", equation="...k,km->...m"), {"x": r(3, 2, 4)}, {"w": r(4, 5)})


def test_gather_elements() -> None:
    x = {"x": r(3, 5)}
    check(node("GatherElements", "x n", axis=1), {**x, "n": np.array([[0, 4], [1, 1], [3, 0]])})
    check(node("GatherElements", "x n"), x, {"n": np.array([[0, -1, 2, 2, 1], [1, 1, -3, 0, -2]])})
    check(node("GatherElements", "x n", axis=1), x, {"n": np.array([[-5], [2], [-1]])})


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_gather_elements_out_of_range(dtype: Any) -> None:
    """Constants are checked like all others."""
    indices = np.array([[7, 0, 0, 0, 0]], dtype)
    proto = model([node("GatherElements", "x n")], {"x": r(3, 5)}, {"n": indices}, 17, ["y"])
    ffmodel, tensors, results, _ = apply(proto, {"x": r(3, 5)})
    ffmodel.compile(comp_mode=CompMode.INFERENCE, output=results[0])
    tensors["x"].set_tensor(ffmodel, r(3, 5))
    with pytest.raises(ValueError, match=r"index 7 at position 0 is out of range"):
        ffmodel.forward()


def test_top_k() -> None:
    k = {"k": ints(2)}
    cast = node("Cast", "i", "j", to=11)  # to double, so that they can be compared
    for opset, attributes in ((11, {}), (11, {"axis": 0, "largest": 0}), (10, {"axis": 1})):
        x = {"x": r(2, 4, 3)}
        check(node("TopK", "x k", "y i", **attributes), x, k, opset)
        check([node("TopK", "x k", "y i", **attributes), cast], x, k, opset, "y j", False)
    check(node("TopK", "x", "y i", k=3), {"x": r(3, 5)}, opset=9)


HEADS = {"q": r(2, 3, 4, 5), "k": r(2, 3, 6, 5) * 0.7, "v": r(2, 3, 6, 4)}
MERGED = {"q": r(2, 4, 6), "k": r(2, 5, 6), "v": r(2, 5, 9)}


def test_attention() -> None:
    check(node("Attention", "q k v"), HEADS, opset=23, gradients=False)
    check(node("Attention", "q k v", scale=0.25, is_causal=1), HEADS, opset=23, gradients=False)
    check(node("Attention", "q k v w"), HEADS, {"w": r(4, 6)}, opset=23, gradients=False)
    seen = np.tri(4, 6, 1, dtype=bool)
    check(node("Attention", "q k v w"), HEADS, {"w": seen}, opset=23, gradients=False)


def test_attention_with_merged_heads() -> None:
    heads = {"q_num_heads": 3, "kv_num_heads": 3}
    check(node("Attention", "q k v", **heads), MERGED, opset=23)
    check(node("Attention", "q k v", is_causal=1, **heads), MERGED, opset=24, gradients=False)


X, UNITS = r(4, 2, 3), 5
WEIGHTS = {"w": r(1, 20, 3), "r": r(1, 20, 5) * 0.6}
BIAS = {"b": r(1, 40)}
STATES = {"h": r(1, 2, 5), "c": r(1, 2, 5) * 0.3}


def test_lstm() -> None:
    lstm = node("LSTM", "x w r", "y yh yc", hidden_size=UNITS)
    check(lstm, {"x": X}, WEIGHTS, opset=14, outputs="y yh yc")
    lstm = node("LSTM", "x w r b _ h c", "y yh yc", hidden_size=UNITS, direction="forward")
    check(lstm, {"x": X}, {**WEIGHTS, **BIAS, **STATES}, opset=22, outputs="y yh yc")
    named = node("LSTM", "x w r b", hidden_size=UNITS, activations=["Sigmoid", "Tanh", "Tanh"])
    check(named, {"x": X}, {**WEIGHTS, **BIAS}, gradients=False)


def test_lstm_with_the_batch_first() -> None:
    """What ONNX's layout 1 is: the same numbers, with two axes exchanged."""
    first = model([node("LSTM", "x w r", "y yh yc")], {"x": X}, WEIGHTS, 14, ["y", "yh", "yc"])
    second = model(
        [node("LSTM", "x w r", "y yh yc", layout=1)], {"x": X}, WEIGHTS, 14, ["y", "yh", "yc"]
    )
    found = []
    for proto, x in ((first, X), (second, np.ascontiguousarray(X.transpose(1, 0, 2)))):
        ffmodel, tensors, results, _ = apply(proto, {"x": x})
        ffmodel.compile(comp_mode=CompMode.INFERENCE, output=results[0])
        tensors["x"].set_tensor(ffmodel, x)
        ffmodel.forward()
        found.append([one.get_tensor() for one in results])
    for ours, other, axes in zip(*found, ([2, 0, 1, 3], [1, 0, 2], [1, 0, 2])):
        np.testing.assert_allclose(other, ours.transpose(axes), rtol=1e-12)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (node("LSTM", "x w r", direction="reverse"), "direction='reverse', but only 'forward'"),
        (node("LSTM", "x w r", clip=1.0), "clip=1.0, but only None"),
        (node("LSTM", "x w r", activations=["Relu"] * 3), "activations="),
        (node("LSTM", "x w r _ _ h"), "one of initial_h and initial_c"),
        (node("LSTM", "x w r _ n"), "input sequence_lens: leave it out"),
        (node("Einsum", "x x x", equation="abc,abc,abc->a"), "3 inputs, but only products of two"),
        (node("Attention", "x x x", softcap=2.0), "softcap=2.0"),
        (node("Attention", "x x x"), "q_num_heads=None and kv_num_heads=None"),
        (node("TopK", "x m", "y i"), "K is computed"),
    ],
)
def test_refusals(made: Any, message: str) -> None:
    inputs = {"x": X, "m": ints(1)}
    proto = model([made], inputs, {**WEIGHTS, **STATES, "n": ints(4, 4)}, 23, ["y"])
    with pytest.raises(NotImplementedError, match=message):
        apply(proto, inputs)
