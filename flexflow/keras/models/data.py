"""Data on its way into a model: which array is for which input, and whether they go together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from flexflow.core.checks import real
from flexflow.keras.graph import KerasTensor
from flexflow.keras.losses import CategoricalCrossentropy, Loss

_ACCEPTED = (
    "an array of real numbers (samples, ...), or equally long lists of numbers; generators and "
    "data sets of other libraries are not supported yet: join their batches with np.concatenate()"
)


class Arrays(NamedTuple):
    """Arrays with equally many rows: one for each input of a model, and the labels."""

    inputs: list[np.ndarray]
    labels: np.ndarray | None = None

    @property
    def rows(self) -> int:
        """How many samples there are."""
        return len(self.inputs[0])

    def batches(self, batch_size: int) -> int:
        """How many batches they make; the last may be smaller."""
        return math.ceil(self.rows / batch_size)

    def part(self, begin: int, end: int | None) -> Arrays:
        """Some of the rows, in the same memory."""
        labels = None if self.labels is None else self.labels[begin:end]
        return Arrays([array[begin:end] for array in self.inputs], labels)

    def split(self, share: float, who: str) -> tuple[Arrays, Arrays]:
        """The first rows and the last ones, which are about ``share`` of all.

        Raises:
            ValueError: share out of range, or too few rows for two parts.
        """
        if not 0 < real(share, f"{who}: validation_split") < 1:
            raise ValueError(
                f"{who}: validation_split={share!r}, expected a number between 0 and 1"
            )
        at = math.floor(self.rows * (1 - share))
        if at == 0 or at == self.rows:
            raise ValueError(
                f"{who}: validation_split={share} of {self.rows} samples leaves "
                f"{at} for training and {self.rows - at} for validation, expected some for each"
            )
        return self.part(0, at), self.part(at, None)


def collect(
    who: str,
    inputs: Sequence[KerasTensor],
    x: Any,
    y: Any = None,
    output: Any = None,
    loss: Loss | None = None,
) -> Arrays:
    """The arrays for a model's inputs and, with a loss, its labels.

    Args:
        who: the caller, for messages.
        inputs: of the model.
        x: an array; for several inputs a list of arrays in their order, or a dict of arrays by
            their names.
        y: an array, or a list of one.
        output: the shape of the model's output.
        loss: None: y is left out.

    Raises:
        ValueError: arrays missing or too many, shapes that do not fit, no rows or unequally many,
            NaN or infinity.
        TypeError: something that is not an array of numbers.
    """
    arrays = [as_array(f"{who}: {name}", value) for name, value in _by_input(who, inputs, x)]
    for tensor, array in zip(inputs, arrays):
        _check_sample(f"{who}: x for input {tensor.name!r}", array, tensor.shape[1:])
    labels = None
    if loss is not None and loss.needs_labels:
        labels = _labels(who, y, output, loss)
    found = Arrays(arrays, labels)
    for name, array in [
        *zip((t.name for t in inputs), arrays),
        *([("y", labels)] if labels is not None else []),
    ]:
        if len(array) != found.rows:
            raise ValueError(
                f"{who}: {inputs[0].name} has {found.rows} samples and {name} {len(array)}, "
                "expected equally many"
            )
    if found.rows == 0:
        raise ValueError(f"{who}: x has no samples")
    return found


def _by_input(who: str, inputs: Sequence[KerasTensor], x: Any) -> list[tuple[str, Any]]:
    names = [tensor.name for tensor in inputs]
    if isinstance(x, Mapping):
        if set(x) != set(names):
            raise ValueError(
                f"{who}: x has arrays for {sorted(x)}, expected {sorted(names)}, "
                "the names of the inputs"
            )
        return [(f"x[{name!r}]", x[name]) for name in names]
    listed = isinstance(x, (list, tuple))
    if len(inputs) == 1:
        packed = listed and len(x) == 1 and np.ndim(x[0]) >= len(inputs[0].shape)
        return [("x[0]", x[0]) if packed else ("x", x)]
    if not listed or len(x) != len(inputs):
        came = f"{type(x).__name__} of {len(x)}" if listed else type(x).__name__
        raise ValueError(
            f"{who}: x is {came}, expected a list of {len(inputs)} arrays, for the inputs {names}"
        )
    return [(f"x[{i}]", value) for i, value in enumerate(x)]


def as_array(who: str, value: Any) -> np.ndarray:
    """An array of real numbers from what a user gave.

    Raises:
        ValueError: nested lists that make no array.
        TypeError: something else than numbers.
    """
    if value is None or isinstance(value, (str, bytes)) or hasattr(value, "__next__"):
        raise TypeError(f"{who} is {type(value).__name__}, expected {_ACCEPTED}")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{who} makes no array: {error} Expected {_ACCEPTED}") from error
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{who} is {type(value).__name__} with values of type {array.dtype}, "
            f"expected {_ACCEPTED}"
        )
    _check_finite(who, array)
    return array


def _check_finite(who: str, array: np.ndarray) -> None:
    # A sum needs no memory of the array's size, and a finite one proves that all values are.
    with np.errstate(over="ignore", invalid="ignore"):
        finite = array.dtype.kind != "f" or np.isfinite(array.sum(dtype=np.float64))
    if not finite:
        rows = [i for i, row in enumerate(array) if not np.isfinite(row).all()]
        if rows:
            raise ValueError(
                f"{who} has NaN or infinity in {len(rows)} of {len(array)} samples, "
                f"the first is {rows[0]}; clean the data"
            )


def _check_sample(who: str, array: np.ndarray, sample: tuple[Any, ...]) -> None:
    fits = array.shape[1:] == sample or (sample[-1:] == (1,) and array.shape[1:] == sample[:-1])
    if array.ndim == 0 or not fits:
        raise ValueError(
            f"{who}: got shape {array.shape}, expected (samples, {', '.join(map(str, sample))})"
        )


def _labels(who: str, y: Any, output: tuple[Any, ...], loss: Loss) -> np.ndarray:
    if y is None:
        raise ValueError(f"{who}: y is missing; loss {loss.name!r} needs labels")
    if isinstance(y, (list, tuple)) and len(y) == 1 and hasattr(y[0], "shape"):
        y = y[0]
    labels = as_array(f"{who}: y", y)
    wanted = loss.label_shape(output)[1:]
    fits = (
        [wanted, (*wanted, 1)]
        if loss.class_ids
        else [wanted, *([wanted[:-1]] if wanted[-1:] == (1,) else [])]
    )
    if labels.ndim == 0 or labels.shape[1:] not in fits:
        hint = ""
        if loss.class_ids and labels.shape[1:] == output[1:]:
            hint = "; for one-hot labels use loss 'categorical_crossentropy'"
        elif labels.shape[1:] in (output[1:-1], (*output[1:-1], 1)):
            hint = (
                "; for class ids use 'sparse_categorical_crossentropy', or to_categorical()"
                if isinstance(loss, CategoricalCrossentropy)
                else "; for one label a sample let the model end with one value, as Dense(1)"
            )
        shape = ", ".join(map(str, ("samples", *wanted)))
        raise ValueError(
            f"{who}: y has the shape {labels.shape}, and loss {loss.name!r} expects ({shape}){hint}"
        )
    if loss.class_ids and labels.dtype.kind == "f":
        if not np.array_equal(labels, np.floor(labels)):
            raise ValueError(f"{who}: y has fractions, and loss {loss.name!r} expects class ids")
        if labels.size and np.abs(labels).max() >= 2**31:
            raise ValueError(
                f"{who}: y holds {labels.flat[np.abs(labels).argmax()]:g}, and loss {loss.name!r} "
                "expects class ids"
            )
        labels = labels.astype(np.int64)
    if loss.probabilities and labels.size and not 0 <= labels.min() <= labels.max() <= 1:
        raise ValueError(
            f"{who}: y holds values from {labels.min():g} to {labels.max():g}, and loss "
            f"{loss.name!r} expects probabilities, from 0 to 1"
        )
    return labels
