"""What PyTorch leaves open, top_k settles: equal elements, and no numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flexflow.core import CompMode, FFConfig, FFModel

NAN = float("nan")


def top_k(rows: list[list[float]], k: int, **options: bool) -> tuple[np.ndarray, np.ndarray]:
    model = FFModel(FFConfig(device="cpu"))
    x = model.create_tensor(np.shape(rows))
    values, indices = model.top_k(x, k, **options)
    model.compile(comp_mode=CompMode.INFERENCE, output=values)
    x.set_tensor(model, np.array(rows, np.float32))
    model.forward()
    return values.get_tensor(), indices.get_tensor()


def test_of_equal_elements_the_first_are_taken() -> None:
    values, indices = top_k([[1, 3, 3, 2, 3], [0, 0, 0, 0, 0]], 2)
    assert values.tolist() == [[3, 3], [0, 0]]
    assert indices.tolist() == [[1, 2], [0, 1]]


def test_unsorted_elements_stay_in_their_order() -> None:
    values, indices = top_k([[5, 1, 9, 7]], 3, sorted=False)
    assert values.tolist() == [[5, 9, 7]]
    assert indices.tolist() == [[0, 2, 3]]


def test_no_number_is_above_all_as_in_pytorch() -> None:
    rows = [[1.0, NAN, 3.0, NAN, float("inf")]]
    values, indices = top_k(rows, 3)
    np.testing.assert_array_equal(values, torch.tensor(rows).topk(3).values.numpy())
    assert indices.tolist() == [[1, 3, 4]]


@pytest.mark.parametrize("k", [0, 6, -1])
def test_more_than_there_are_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match=f'top_k.*"k" is {k} .*5 elements'):
        top_k([[1, 2, 3, 4, 5]], k)
