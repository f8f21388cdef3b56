"""Data sets: arrays that feed input tensors, batch by batch."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from flexflow.core import _abi
from flexflow.core._lib import FlexFlowError, Handle, call, tensor_list
from flexflow.core.arrays import column, expect_finite, to_storage, view
from flexflow.core.checks import boolean, integer
from flexflow.core.guard import Guarded
from flexflow.core.tensor import Tensor
from flexflow.core.types import DataTypeLike, as_data_type

if TYPE_CHECKING:
    from flexflow.core.model import FFModel

_READ_AHEAD = 2  # batches


class DataSet(Guarded):
    """Arrays of equally many rows, each for an input. Those that are C-contiguous and of their
    tensor's type are not copied, and kept alive; others are converted as ``SingleDataLoader`` does,
    which also looks for NaN.

    Args:
        columns: pairs of an input and its rows.

    Raises:
        ValueError: no columns, an input that comes twice, wrong extents, or as many rows as not
            all have.
        TypeError: columns that are no such pairs, or data that do not convert.

    >>> data = DataSet([(x, np.zeros((100, 16), np.float32))])
    >>> data.num_samples
    100
    """

    _instead_of_a_copy: ClassVar[str] = "make another one over the same arrays"
    inputs: Final[list[Tensor]]
    num_samples: Final[int]

    def __init__(self, columns: Sequence[tuple[Tensor, Any]]) -> None:
        pairs = [_pair(column) for column in columns]
        if not pairs:
            raise ValueError("DataSet: got no columns, expected pairs of an input and its rows")
        self.inputs = [tensor for tensor, _ in pairs]
        ids = [tensor.id for tensor in self.inputs]
        model = self.inputs[0].owner()
        for tensor in self.inputs:
            tensor.owner(model)
            if ids.count(tensor.id) > 1:
                raise ValueError(f"DataSet: {tensor.name} is fed twice; give one array for it")
        arrays = [column(rows, tensor, f"data for {tensor.name}") for tensor, rows in pairs]
        self._arrays = [to_storage(a, t.data_type) for a, t in zip(arrays, self.inputs)]
        views = (_abi.ff_array * len(pairs))()
        for i, (tensor, array) in enumerate(zip(self.inputs, self._arrays)):
            views[i] = view(array, tensor.data_type)
        self.num_samples = len(arrays[0])
        self._batch_size = 0  # until an epoch is begun
        self._handle = Handle(
            "ff_dataset_create", model.graph_handle, tensor_list(ids), views, len(ids)
        )

    @property
    def batch_size(self) -> int:
        """The batch size of the epoch that was begun last; 0 before."""
        return self._batch_size

    @property
    def handle(self) -> int:
        """The library's number for it."""
        return self._handle.value

    def begin(
        self,
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        epoch: int = 0,
        drop_last: bool = False,
        position: int = 0,
    ) -> None:
        """Start an epoch, or go on with one after ``position`` samples. The order of a shuffled one
        depends on ``seed`` and ``epoch`` alone.

        Raises:
            ValueError: ``drop_last`` leaves nothing, or a number is out of range.
            TypeError: an argument of a wrong type.
        """
        batch_size = integer(batch_size, "batch_size", 1)
        seed, epoch = integer(seed, "seed", 0), integer(epoch, "epoch", 0)
        position = integer(position, "position", 0, self.num_samples)
        shuffle, drop_last = boolean(shuffle, "shuffle"), boolean(drop_last, "drop_last")
        if drop_last and self.num_samples < batch_size:
            raise ValueError(
                f"drop_last: leaves nothing, since {self.num_samples} samples make no batch of "
                f"{batch_size}; leave it out, or take a smaller batch_size"
            )
        order = (shuffle, seed, epoch, drop_last)
        call("ff_dataset_begin", self.handle, batch_size, *order, position)
        self._batch_size = batch_size

    def rows_before(self, position: int) -> int:
        """The rows of the batch that ends at a position."""
        return position % self._batch_size or min(self._batch_size, position)

    def read_ahead(self, position: int, rows: int) -> None:
        """Ask the system to fetch rows of memory-mapped arrays from their files."""
        for array in self._arrays:
            mapped = getattr(array, "_mmap", None)
            if mapped is None:
                continue
            base = np.frombuffer(mapped, np.uint8).ctypes.data
            start = array.ctypes.data - base + position * array.strides[0]
            start -= start % mmap.PAGESIZE
            length = min(rows * array.strides[0], len(mapped) - start)
            if length > 0:
                mapped.madvise(mmap.MADV_WILLNEED, start, length)


def _pair(given: Any) -> tuple[Tensor, Any]:
    if isinstance(given, (list, tuple)) and len(given) == 2 and isinstance(given[0], Tensor):
        return given[0], given[1]
    raise TypeError(
        f"DataSet: a column is of type {type(given).__name__}, expected a pair of an input and rows"
    )


class SingleDataLoader(Guarded):
    """The data of one input or of the label.

    Args:
        ffmodel: the model.
        input: the tensor that it feeds.
        full_input: an array of (samples, ...) with the tensor's further extents (a last extent 1
            may be missing), or a tensor with an attached array. An array of the tensor's type is
            not copied; others are converted, and floats are never made integers.
        num_samples: how many of its rows count; None: all.
        data_type: must be the tensor's; None is that.
        shuffle: draw a new order in each epoch, the same for all loaders of a model.
        drop_last: leave out a last, smaller batch.
        prefetch: batches to read ahead from the file of a memory-mapped array (np.memmap); arrays
            in memory need none.
        allow_nan: take NaN and infinity as data.

    Raises:
        ValueError: wrong extents, no samples, NaN or infinity, or a number out of range.
        TypeError: data that do not convert, or another type than the tensor's.

    >>> loader = SingleDataLoader(ffmodel, x, np.zeros((100, 16), np.float32), 100)
    >>> loader.num_samples, len(loader)
    (100, 2)
    """

    _instead_of_a_copy: ClassVar[str] = "make another one over the same array"
    input: Final[Tensor]
    shuffle: bool
    drop_last: bool
    prefetch: int

    def __init__(
        self,
        ffmodel: FFModel,
        input: Tensor,
        full_input: np.ndarray | Tensor | Sequence[Any],
        num_samples: int | None = None,
        data_type: DataTypeLike | None = None,
        *,
        shuffle: bool = False,
        drop_last: bool = False,
        prefetch: int = _READ_AHEAD,
        allow_nan: bool = False,
    ) -> None:
        if not isinstance(input, Tensor):
            raise TypeError(f"SingleDataLoader: input is {input!r}, expected a Tensor")
        self._seed = input.owner(ffmodel).seed
        if data_type is not None and as_data_type(data_type) is not input.data_type:
            raise TypeError(
                f"SingleDataLoader: data_type is {data_type}, but {input.name} is of "
                f"{input.data_type}; create the tensor with the type that you want"
            )
        if isinstance(full_input, Tensor):
            full_input = full_input.owner(ffmodel).attached(full_input)
        self.input = input
        self.shuffle = boolean(shuffle, "shuffle")
        self.drop_last = boolean(drop_last, "drop_last")
        self.prefetch = integer(prefetch, "prefetch", 0)
        self._full = column(full_input, input, f"data for {input.name}")
        if not boolean(allow_nan, "allow_nan"):
            expect_finite(self._full, f"data for {input.name}")
        self._epoch = 0
        self.num_samples = len(self._full) if num_samples is None else num_samples

    @property
    def array(self) -> np.ndarray:
        """The rows that it walks through."""
        return self._array

    @property
    def epoch(self) -> int:
        """How many epochs were done; each has its own shuffled order."""
        return self._epoch

    @property
    def position(self) -> int:
        """How many samples of this epoch were given out."""
        return self._position

    @property
    def num_samples(self) -> int:
        """How many samples it walks through; setting it starts the epoch again."""
        return len(self.array)

    @num_samples.setter
    def num_samples(self, count: int) -> None:
        if not 1 <= integer(count, "num_samples") <= len(self._full):
            raise ValueError(
                f"num_samples: got {count}, expected 1 to {len(self._full)}, the rows of the data "
                f"for {self.input.name}"
            )
        self._array = self._full[:count]
        self._data = DataSet([(self.input, self._array)])
        self._begin(self._epoch)

    def __len__(self) -> int:
        """How many batches an epoch has."""
        whole, rest = divmod(self.num_samples, self.input.dims[0])
        return whole + (rest > 0 and not self.drop_last)

    def next_batch(self, ffmodel: FFModel | None = None) -> int:
        """Copy the next batch into the input, and move on.

        Returns:
            The rows of the batch; the last one may be smaller.

        Raises:
            FlexFlowError: the epoch is over, or the model is not compiled.
        """
        model = self.input.owner(ffmodel)
        rows = ctypes.c_int64()
        call("ff_next_batch", model.compiled_handle, self._data.handle, ctypes.byref(rows))
        if rows.value == 0:
            raise FlexFlowError(
                f"next_batch: all {self.num_samples} samples for {self.input.name} were given out; "
                "call reset() to start the next epoch"
            )
        self._position += rows.value
        self._data.read_ahead(self._position, self.prefetch * rows.value)
        model.note_batch(self.input, rows.value, self._epoch if self.shuffle else None)
        return rows.value

    def reset(self) -> None:
        """Start the next epoch from the first batch."""
        self._begin(self._epoch + (self._position > 0))

    def seek(self, epoch: int, position: int = 0) -> None:
        """Go on within an epoch, after so many of its samples: where ``epoch`` and ``position``
        said that it was.

        Raises:
            ValueError: a negative number, or more than ``num_samples``.

        >>> loader = ffmodel.create_data_loader(x, np.zeros((100, 16), np.float32), shuffle=True)
        >>> loader.seek(3, 64)
        >>> loader.epoch, loader.position
        (3, 64)
        """
        self._begin(epoch, position)

    def _begin(self, epoch: int, position: int = 0) -> None:
        self._data.begin(
            self.input.dims[0],
            shuffle=self.shuffle,
            seed=self._seed,
            epoch=epoch,
            drop_last=self.drop_last,
            position=position,
        )
        self._epoch, self._position = epoch, position
