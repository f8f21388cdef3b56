"""Checkpoints: all that a training run needs to go on, in one file of NumPy's."""

from __future__ import annotations

import ctypes
import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flexflow.core import _abi
from flexflow.core._lib import call
from flexflow.core.arrays import numpy_storage, view
from flexflow.core.checks import integer, need_file, shown, some
from flexflow.core.dataloader import SingleDataLoader
from flexflow.core.files import replacing
from flexflow.core.types import DataType

if TYPE_CHECKING:
    from flexflow.core.model import FFModel

FORMAT, VERSION = "flexflow checkpoint", 1
_HEAD, _STATE = "checkpoint", "state/"  # names in the file; the prefix keeps them apart
# Where a loader is, and of what: among other samples, its position means something else.
_PLACE = ("epoch", "position", "num_samples", "shuffle")
_Kind = tuple[DataType, tuple[int, ...]]


def save(
    model: FFModel, path: str | os.PathLike[str], loaders: Sequence[SingleDataLoader], epochs: int
) -> None:
    """See ``FFModel.save_checkpoint``."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "optimizer": _optimizer(model),
        "epochs": epochs,
        "loaders": {loader.input.name: _place(loader) for loader in _checked(loaders)},
    }
    arrays: dict[str, Any] = {_HEAD: np.frombuffer(json.dumps(head).encode(), np.uint8)}
    for name, (data_type, dims) in _states(model).items():
        array = np.empty(dims, numpy_storage(data_type))
        call("ff_state_read", model.graph_handle, name.encode(), view(array, data_type))
        arrays[_STATE + name] = array
    failure = None
    if model.ffconfig.rank == 0:
        try:
            _write(Path(os.path.realpath(path)), arrays)
        except OSError as error:
            failure = error
    # The other ranks go on when the file is there.
    if model.agree(failure is not None):
        raise failure or OSError(
            errno.EIO, "rank 0 could not write the checkpoint", os.fspath(path)
        )


def load(model: FFModel, path: str | os.PathLike[str], loaders: Sequence[SingleDataLoader]) -> int:
    """See ``FFModel.load_checkpoint``; the number of epochs that ``fit`` had run."""
    need_file(path, "load_checkpoint")
    head, arrays = _read(path)
    states = _states(model)
    trains = "optimizer/step" in states
    if trains and head["optimizer"] != _optimizer(model):
        raise ValueError(
            f"{path}: was saved with the optimizer {head['optimizer']}, the model is compiled with "
            f"{model.optimizer!r}; compile it with the former, or without one"
        )
    # Without an optimizer, what belongs to training has no use.
    given = {name: array for name, array in arrays.items() if trains or name in states}
    _expect_same(given, states, f"{path}: was saved by another model:")
    places = [_place_in(head, loader, path) for loader in _checked(loaders)]

    # All is known to fit: from here on nothing is refused, so that nothing is loaded by half.
    for name, (data_type, _) in states.items():
        call("ff_state_write", model.graph_handle, name.encode(), view(given[name], data_type))
    for loader, place in zip(loaders, places):
        loader.seek(place["epoch"], place["position"])
    epochs: int = head["epochs"]
    return epochs


# ---- the model ----
def _states(model: FFModel) -> dict[str, _Kind]:
    """All states of a model by their names, with types and extents."""
    states: dict[str, _Kind] = {}
    info, count = _abi.ff_tensor_info(), ctypes.c_size_t(1)
    for index in range(2**62):
        call("ff_state_info", model.graph_handle, index, ctypes.byref(info), ctypes.byref(count))
        if index >= count.value:
            break
        states[info.name.decode()] = (DataType(info.dtype), tuple(info.shape[: info.rank]))
    return states


def _optimizer(model: FFModel) -> str | None:
    return None if model.optimizer is None else model.optimizer.kind


def _expect_same(given: dict[str, np.ndarray], states: dict[str, _Kind], who: str) -> None:
    if given.keys() != states.keys():
        raise ValueError(
            f"{who} it has {some(given.keys() - states.keys())} that the model lacks, and lacks "
            f"{some(states.keys() - given.keys())} that the model has"
        )
    for name, (data_type, dims) in states.items():
        array, dtype = given[name], numpy_storage(data_type)
        if array.shape != dims or array.dtype != dtype:
            raise ValueError(
                f"{who} {name} is {array.dtype} {list(array.shape)}, in the model it is {dtype} "
                f"{list(dims)}"
            )


# ---- loaders ----
def _checked(loaders: Sequence[SingleDataLoader]) -> Sequence[SingleDataLoader]:
    for loader in loaders:
        if not isinstance(loader, SingleDataLoader):
            raise TypeError(f"loaders: got {shown(loader)}, expected SingleDataLoaders")
    names = [loader.input.name for loader in loaders]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"loaders: two of them feed {name}; give those that train the model")
    return loaders


def _place(loader: SingleDataLoader) -> dict[str, int]:
    return {what: int(getattr(loader, what)) for what in _PLACE}


def _place_in(head: Any, loader: SingleDataLoader, path: str | os.PathLike[str]) -> dict[str, int]:
    name, known = loader.input.name, head["loaders"]
    if name not in known:
        raise ValueError(
            f"{path}: has no position of a loader for {name}; it has {some(known)}; leave the "
            "loader out, and reset it"
        )
    place: dict[str, int] = known[name]
    for what in ("num_samples", "shuffle"):
        if place[what] != _place(loader)[what]:
            raise ValueError(
                f"{path}: the loader for {name} had {what}={place[what]}, now it has "
                f"{what}={_place(loader)[what]}; make it as it was, or leave it out"
            )
    return place


def _complete_place(place: Any) -> dict[str, int]:
    complete = {what: integer(place[what], what, 0) for what in _PLACE}
    integer(complete["position"], "position", 0, complete["num_samples"])
    return complete


def _complete(head: Any) -> dict[str, Any]:
    """What a checkpoint says about itself, if all is there and numbers are numbers."""
    return {
        "optimizer": head["optimizer"],
        "epochs": integer(head["epochs"], "epochs", 0),
        "loaders": {name: _complete_place(place) for name, place in head["loaders"].items()},
    }


# ---- the file ----
def _write(target: Path, arrays: dict[str, Any]) -> None:
    if target.exists() and not (target.is_file() or target.is_dir()):
        # Replaced like a file, /dev/null would be gone for all programs.
        raise OSError(errno.EINVAL, "is a device or the like; expected a file's name", str(target))
    with replacing(target) as file:
        np.savez(file, **arrays)


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a checkpoint says about itself, and the states in it."""
    with open(os.fspath(path), "rb") as file:  # a number would be somebody else's open file
        try:
            with np.load(file, allow_pickle=False) as saved:
                arrays = {name: np.asarray(saved[name], order="C") for name in saved.files}
            head = json.loads(arrays.pop(_HEAD).tobytes())
            states = {_state_in(name): array for name, array in arrays.items()}
            known = head["format"], head["version"]
            if known == (FORMAT, VERSION):
                head = _complete(head)
        except Exception as error:  # a foreign or damaged file makes NumPy raise almost anything
            raise ValueError(
                f"{path}: is no checkpoint, or a damaged one ({type(error).__name__}: {error}); "
                "expected a file that save_checkpoint() wrote"
            ) from None
    if known != (FORMAT, VERSION):
        raise ValueError(
            f"{path}: is of format {known[0]!r}, version {known[1]!r}; this version of FlexFlow "
            f"reads {FORMAT!r}, version {VERSION}"
        )
    return head, states


def _state_in(name: str) -> str:
    if not name.startswith(_STATE):
        raise ValueError(f"it holds {name!r}")
    return name[len(_STATE) :]
