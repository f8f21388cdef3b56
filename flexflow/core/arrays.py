"""NumPy arrays on their way to the library: what is converted, what is refused, and how they are
passed. ``np.asarray`` of cuPyNumeric's array is a view of its memory, so that it comes without a
copy; it holds until cuPyNumeric computes with the array again.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from flexflow.core import _abi
from flexflow.core.checks import shown
from flexflow.core.types import DataType, as_data_type, numpy_dtype

if TYPE_CHECKING:
    from flexflow.core.tensor import Tensor

# What rounds to infinity in bfloat16: halfway from its largest value to the next power of two.
_BEYOND_BFLOAT16 = np.uint32(0x7F7F8000).view(np.float32)
_BLOCK = 1 << 22  # elements looked at together; keeps temporary arrays small


def view(array: np.ndarray, data_type: DataType | None = None) -> Any:
    """An ``ff_array`` over the memory of a C-contiguous array, which must outlive its use."""
    if not array.flags.c_contiguous:
        raise ValueError(f"an array of shape {array.shape} and strides {array.strides} is no block")
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    code = (data_type or as_data_type(array.dtype)).value
    return _abi.ff_array(array.ctypes.data, code, array.ndim, shape)


def numpy_storage(data_type: DataType) -> np.dtype:
    """The dtype of arrays in the library's own form."""
    return np.dtype("uint16") if data_type is DataType.DT_BFLOAT16 else numpy_dtype(data_type)


def to_storage(array: np.ndarray, data_type: DataType) -> np.ndarray:
    """The array as the library stores it: of bfloat16, which NumPy lacks, the bits.

    >>> to_storage(np.float32([1.0, 1.001953125]), DataType.DT_BFLOAT16)
    array([16256, 16256], dtype=uint16)
    """
    if data_type is not DataType.DT_BFLOAT16:
        return array
    bits = array.view(np.uint32)
    half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))  # ties go to even
    rounded = ((bits + half) >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(array)
    if not nan.any():
        return rounded
    # Rounding would carry a NaN's payload into its sign, or cut it off, which leaves infinity.
    return np.where(nan, (bits >> np.uint32(16)).astype(np.uint16) | np.uint16(0x40), rounded)


def from_storage(array: np.ndarray, data_type: DataType) -> np.ndarray:
    """The reverse.

    >>> from_storage(np.uint16([16256]), DataType.DT_BFLOAT16)
    array([1.], dtype=float32)
    """
    if data_type is not DataType.DT_BFLOAT16:
        return array
    return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)


def convert(values: Any, data_type: DataType, who: str) -> np.ndarray:
    """Values as a C-contiguous array of a tensor's type; the array itself if it is one already.

    Integers become floats and floats change precision; a float never becomes an integer, and
    nothing becomes something that cannot hold it.

    Args:
        values: anything that ``np.asarray`` takes.
        data_type: the type of the tensor; bfloat16 travels as float32.
        who: what messages start with.

    Raises:
        TypeError: the values are no numbers, masked, or floats where integers are expected.
        ValueError: a value is out of the type's range, or the lists in it have different lengths.

    >>> convert([[1, 2], [3, 4]], DataType.DT_FLOAT, "x").dtype
    dtype('float32')
    >>> convert([0.5], DataType.DT_INT32, "label")
    Traceback (most recent call last):
    ...
    TypeError: label: got float64 values, expected int32; convert them with .astype(np.int32)
    """
    array = _as_array(values, who)
    wanted = numpy_dtype(data_type)
    if array.dtype == wanted and array.dtype.isnative:
        converted = np.require(array, requirements=["C", "A"])
    else:
        _check_kind(array, wanted, who)
        safe = np.can_cast(array.dtype, wanted)
        if wanted.kind == "i" and not safe:
            _check_range(array, wanted, who)
        with np.errstate(over="ignore"):
            converted = np.require(array, wanted, ["C", "A"])
        if wanted.kind == "f" and not safe:
            _check_overflow(array, np.isfinite(converted), wanted.name, who)
    if data_type is DataType.DT_BFLOAT16 and converted.size:
        _check_overflow(converted, np.abs(converted) < _BEYOND_BFLOAT16, "bfloat16", who)
    return converted


def array_types() -> tuple[type, ...]:
    """The classes of arrays: NumPy's, and cuPyNumeric's where the program has imported that."""
    cupynumeric = sys.modules.get("cupynumeric")
    return (np.ndarray,) if cupynumeric is None else (np.ndarray, cupynumeric.ndarray)


def results_beside(data: Any, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, np.ndarray]:
    """An array for results, of cuPyNumeric if one of the data is, and the memory of its values.

    >>> results, values = results_beside([np.zeros(3)], (2, 3), np.dtype("float32"))
    >>> values[:] = 1
    >>> float(results.sum())
    6.0
    """
    items = data.values() if isinstance(data, Mapping) else data
    several = isinstance(data, (Mapping, list, tuple))
    others = array_types()[1:]
    found = any(isinstance(item, others) for item in (items if several else [data]))
    made = (sys.modules["cupynumeric"] if found else np).empty(shape, dtype)
    return made, np.asarray(made)


def _as_array(values: Any, who: str) -> np.ndarray:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{who}: got a masked array, expected one without a mask; fill it with .filled(value)"
        )
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{who}: the values make no array ({error})") from None
    except (TypeError, RuntimeError) as error:  # tensors of other frameworks
        raise TypeError(
            f"{who}: NumPy cannot read a {type(values).__name__} ({error}); expected an array, "
            "which PyTorch makes by .detach().float().cpu().numpy(), after .to_dense() if sparse"
        ) from None
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _check_kind(array: np.ndarray, wanted: np.dtype, who: str) -> None:
    allowed = {"b": "b", "i": "bui"}.get(wanted.kind, "buif")
    if array.dtype.kind in allowed:
        return
    objects = array.flat if array.dtype.kind == "O" else ()
    huge = [item for item in objects if type(item) is int and item.bit_length() > 63]
    if huge:  # which NumPy keeps as objects
        raise ValueError(f"{who}: {shown(huge[0])} does not fit 64 bits; expected {wanted} values")
    message = f"{who}: got {array.dtype} values, expected {wanted}"
    if array.dtype.kind in "buif":
        raise TypeError(f"{message}; convert them with .astype(np.{wanted})")
    raise TypeError(f"{message} or another type of real numbers")


def _check_range(array: np.ndarray, wanted: np.dtype, who: str) -> None:
    """Integers that are to fit a smaller type."""
    if not array.size:
        return
    limits = np.iinfo(wanted)
    low, high = int(array.min()), int(array.max())
    if low < limits.min or high > limits.max:
        worst = low if low < limits.min else high
        raise ValueError(
            f"{who}: the value {worst} does not fit {wanted}, "
            f"which holds {limits.min} to {limits.max}"
        )


def _check_overflow(before: np.ndarray, held: np.ndarray, kind: str, who: str) -> None:
    """Finite values that would become infinite; ``held`` are those that do not."""
    if held.all():
        return
    lost = np.isfinite(before) & ~held
    if lost.any():
        raise ValueError(f"{who}: the value {before[lost].flat[0]} does not fit {kind}")


def expect_shape(array: np.ndarray, shape: tuple[int, ...], who: str) -> np.ndarray:
    """The array itself if it has a shape; a trailing 1 that is missing is added.

    Raises:
        ValueError: the shapes differ; the message names both.
    """
    if array.shape == shape:
        return array
    if array.shape == shape[:-1] and shape[-1] == 1:
        return array.reshape(shape)
    raise ValueError(
        f"{who}: got an array of shape {array.shape}, expected {shape}"
        + ("" if array.ndim == len(shape) else f" ({len(shape)} dimensions, not {array.ndim})")
    )


def is_finite(array: np.ndarray) -> bool:
    """Whether no value is NaN or infinite; needs no memory of the array's size.

    >>> is_finite(np.array([1.0, np.nan]))
    False
    """
    if array.dtype.kind != "f":
        return True
    flat = array.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        # A sum costs a third of isfinite(), and a finite one proves that all terms are.
        with np.errstate(over="ignore", invalid="ignore"):
            total = block.sum()
        if not np.isfinite(total) and not np.isfinite(block).all():
            return False
    return True


def expect_finite(array: np.ndarray, who: str) -> None:
    """Refuse NaN and infinity, naming the first row that has one.

    Raises:
        ValueError: there is one.
    """
    if is_finite(array):
        return
    row = next(i for i in range(len(array)) if not np.isfinite(array[i]).all())
    raise ValueError(
        f"{who}: row {row} contains NaN or infinity; clean the data, or pass allow_nan=True"
    )


def column(values: Any, tensor: Tensor, who: str) -> np.ndarray:
    """Rows for a tensor: converted, and of its further extents (a last 1 may be missing).

    Raises:
        ValueError: wrong extents, or no rows. TypeError: see ``convert``.
    """
    array = convert(values, tensor.data_type, who)
    if array.ndim == 0 or len(array) == 0:
        raise ValueError(f"{who}: got no samples; expected an array of (samples, ...)")
    expected = tensor.dims[1:]
    if expected[-1:] == (1,) and array.shape[1:] == expected[:-1]:
        return array.reshape(*array.shape, 1)
    if array.shape[1:] != expected:
        wanted = ", ".join(map(str, ("samples", *expected)))
        raise ValueError(f"{who}: got an array of shape {array.shape}, expected ({wanted})")
    return array
