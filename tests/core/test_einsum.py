"""Equations of einsum in all their forms, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from flexflow.core import CompMode, FFConfig, FFModel
from flexflow.core.products import einsum_equation

EQUATIONS = [
    ("bnk,bkm->bnm", (3, 2, 4), (3, 4, 5)),
    (" b n k , b k m -> m b n ", (3, 2, 4), (3, 4, 5)),
    ("ba,bc", (3, 4), (3, 5)),
    ("bz,ba", (3, 4), (3, 5)),
    ("...k,km->...m", (3, 2, 4), (4, 5)),
    ("...k,km", (3, 2, 4), (4, 5)),
    ("b...,b...->...b", (3, 2, 4), (3, 2, 4)),
    ("...,...->...", (3, 4), (3, 4)),
    ("A...,A...C->A...C", (3, 4), (3, 4, 2)),
    ("...i,...ij", (3, 4), (2, 3, 4, 5)),
]


@pytest.mark.parametrize(("equation", "a", "b"), EQUATIONS)
def test_equations(equation: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    arrays = random.normal(size=a), random.normal(size=b)
    model = FFModel(FFConfig(device="reference"))
    x = model.create_tensor(a, "float64")
    y = model.create_constant(b, arrays[1], "float64")
    z = model.einsum(equation, x, y)
    model.compile(comp_mode=CompMode.INFERENCE)
    x.set_tensor(model, arrays[0])
    model.forward()
    np.testing.assert_allclose(z.get_tensor(), np.einsum(equation, *arrays), rtol=1e-12)


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij->ij", r"equation is 'ij->ij', expected the dimensions of 2 tensors"),
        ("ij,jk->ik->ik", r"expected the dimensions of 2 tensors and of the result"),
        ("...ijk,jk->i", r"more letters than the tensors have dimensions, .*rank 2 and 2"),
    ],
)
def test_what_is_no_equation(equation: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        einsum_equation(equation, [2, 2], "product")
    model = FFModel(FFConfig())
    x = model.create_tensor([3, 4])
    with pytest.raises(ValueError, match=f"einsum: .*{message}"):
        model.einsum(equation, x, x)
