"""How far a result may be from PyTorch's, which is computed in float64 from the same numbers.

This is the one place that says so. Reasons: float64 sums in another order; float32 kernels, those
of oneDNN among them, sum in float32 and approximate exp, tanh and erf to a few units in the last
place; the half formats compute in float32 and round what they store, gradients between operators
included.
"""

from __future__ import annotations

import numpy as np

# dtype: relative to the value, relative to the largest value of the tensor
TOLERANCES = {
    "float64": (1e-10, 1e-12),
    "float32": (1e-5, 5e-6),
    "float16": (2e-3, 2e-3),
    "bfloat16": (1.6e-2, 1.6e-2),
}


def assert_close(
    ours: np.ndarray,
    theirs: np.ndarray,
    dtype: str,
    what: str,
    scale: float = 0.0,
    roundings: int = 1,
) -> None:
    """Compare arrays of one shape; exactly, where dtype is an integer or bool.

    Args:
        scale: of the terms that were summed, if it is more than what is left of them.
        roundings: to a half format, one after the other.
    """
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, expected {theirs.shape}"
    if dtype not in TOLERANCES:
        np.testing.assert_array_equal(ours, theirs, what)
        return
    relative, of_largest = TOLERANCES[dtype]
    if dtype in ("float16", "bfloat16"):
        relative, of_largest = relative * roundings, of_largest * roundings
    finite = np.abs(theirs[np.isfinite(theirs)])
    largest = max(scale, float(finite.max()) if finite.size else 0.0)
    np.testing.assert_allclose(
        ours, theirs, rtol=relative, atol=of_largest * max(largest, 1e-3), err_msg=what
    )
