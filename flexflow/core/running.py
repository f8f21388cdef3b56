"""Running a compiled model: the steps of a training loop one by one, and whole epochs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Set
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from flexflow.core import _abi
from flexflow.core._lib import FlexFlowError, call
from flexflow.core.arrays import numpy_storage, view
from flexflow.core.checks import boolean, integer, shown
from flexflow.core.compiled import SECTIONS, CompiledModel, sections_of
from flexflow.core.config import FFConfig
from flexflow.core.dataloader import DataSet
from flexflow.core.metrics import PerfMetrics
from flexflow.core.tensor import Tensor

if TYPE_CHECKING:
    from flexflow.core.model import FFModel

SLICE_MS = 100.0  # the longest stay in the library: Ctrl-C and progress bars wait for it
ALL_STEPS = 2**62


class Progress(NamedTuple):
    """How far a run came: steps and samples of this slice, and samples of the epoch so far."""

    steps: int
    samples: int
    position: int


class RunningModel(CompiledModel):
    """What FFModel's whole epochs stand on."""

    def __init__(self, ffconfig: FFConfig) -> None:
        super().__init__(ffconfig)
        self._trigger: Callable[[FFModel], bool] | None = None
        self._alter: Callable[[FFModel], Any] | None = None
        self._altering = False
        self._recompilations = 0

    # ---- the manual loop ----
    def init_layers(self) -> None:
        """FlexFlow's step after ``compile``; weights are drawn when they are first needed, so this
        only checks that the model is compiled."""
        self._need_compiled("init_layers")

    def prefetch(self) -> None:
        """FlexFlow's hint before a step; data sets read ahead by themselves."""
        self._need_compiled("prefetch")

    def forward(self, seq_length: int | None = None) -> None:
        """Compute the output of what the inputs hold (``next_batch``, ``set_tensor`` or attached
        arrays), in training mode unless the model was compiled for inference.

        Raises:
            FlexFlowError: not compiled, or an input holds no data.
            NotImplementedError: a ``seq_length``: sequences are computed whole.
        """
        if seq_length is not None:
            raise NotImplementedError("forward: seq_length is not supported; leave it out")
        self._need_compiled("forward")
        self._write_attached(self._attached.keys())
        self._run_once(_abi.FF_FORWARD, "forward")
        self._loss_counted = False

    def zero_gradients(self) -> None:
        """Set the gradients of all weights to zero; ``backward`` adds to them."""
        call("ff_zero_gradients", self._need_compiled("zero_gradients"))

    def backward(self, seq_length: int | None = None) -> None:
        """Compute loss and metrics, unless ``compute_metrics`` did, and add to the gradients.

        Raises:
            FlexFlowError: before ``forward``, or compiled for inference.
        """
        if seq_length is not None:
            raise NotImplementedError("backward: seq_length is not supported; leave it out")
        if self._loss_counted:
            self._run_once(_abi.FF_BACKWARD, "backward")
        else:
            self._run_loss(_abi.FF_BACKWARD, "backward")

    def update(self) -> None:
        """Let the optimizer change the weights.

        Raises:
            FlexFlowError: before ``backward``, or compiled without an optimizer.
        """
        self._run_once(_abi.FF_UPDATE, "update")
        self._loss_counted = False
        self._alter_on_condition()

    def compute_metrics(self) -> None:
        """Add loss and metrics of the batch that went forward to the totals, once per batch.

        Raises:
            FlexFlowError: before ``forward``.
        """
        if not self._loss_counted:
            self._run_loss(0, "compute_metrics")

    def reset_metrics(self) -> None:
        """Start the totals afresh."""
        call("ff_metrics_reset", self._need_compiled("reset_metrics"))

    def get_perf_metrics(self) -> PerfMetrics:
        """Loss and metrics since ``reset_metrics``; FlexFlowError before ``compile``."""
        handle = self._need_compiled("get_perf_metrics")
        values = (ctypes.c_double * 16)()
        count = ctypes.c_size_t(len(values))
        names = ctypes.c_char_p()
        call("ff_metrics_read", handle, values, ctypes.byref(count), ctypes.byref(names))
        totals = dict(zip((names.value or b"").decode().split(","), values))
        return PerfMetrics(totals, self._metrics)

    def agree(self, value: int) -> int:
        """With several ranks, the value of rank 0 in all of them, when all have called this: what a
        clock or the world outside decides, such as when to stop, is then decided once.

        Args:
            value: an integer of 64 bits, or a truth value.

        Raises:
            FlexFlowError: not compiled.
        """
        agreed = ctypes.c_int64(integer(int(value), "agree: value"))
        call("ff_agree", self._need_compiled("agree"), ctypes.byref(agreed))
        return agreed.value

    # ---- changes on the way ----
    def recompile_on_condition(
        self, trigger: Callable[[FFModel], bool] | None, alter: Callable[[FFModel], Any] | None
    ) -> None:
        """From now on, between steps of training, ask ``trigger(model)``, and where it says True,
        call ``alter(model)``, which may change the strategy, the learning rate, which weights are
        trained, or anything else; a ``compile`` starts the optimizer afresh. It is asked after each
        ``update``, and after each slice of an epoch in ``fit`` and ``run``: a tenth of a second, or
        a step that takes longer.

        One call is enough. FlexFlow's own asks at once, and stands in the loop; that does no harm
        here, since the pair that was given last counts.

        Args:
            trigger, alter: functions of the model; both None: ask no more.

        Raises:
            TypeError: they are no functions, or, later, ``trigger`` gives no truth value.

        >>> ffmodel.recompile_on_condition(
        ...     lambda model: model.recompilations == 0 and model.get_scalar("step") >= 100,
        ...     lambda model: model.change_strategy(Strategy.data_parallel(2)),
        ... )
        >>> ffmodel.recompilations
        0
        """
        for name, function in (("trigger", trigger), ("alter", alter)):
            if not callable(function) and not (trigger is None and alter is None):
                raise TypeError(
                    f"recompile_on_condition: {name} is {shown(function)}, expected a function of "
                    "the model"
                )
        self._trigger, self._alter = trigger, alter

    @property
    def recompilations(self) -> int:
        """How often ``recompile_on_condition`` has altered the model."""
        return self._recompilations

    def _alter_on_condition(self) -> None:
        if self._trigger is None or self._alter is None or self._altering:
            return
        self._altering = True  # steps that these functions make ask nothing
        try:
            wanted = self._trigger(self._self)
            if boolean(wanted, "recompile_on_condition: the result of trigger"):
                self._alter(self._self)
                self._recompilations += 1
        finally:
            self._altering = False

    def _run_loss(self, further: int, who: str) -> None:
        self._need_compiled(who)
        self._need_one_order()
        self._write_attached(self._attached.keys() - self._needed)
        self._run_once(_abi.FF_LOSS | further, who)
        self._loss_counted = True

    def _write_attached(self, inputs: Set[int]) -> None:
        """Let inputs have the values that their arrays have now."""
        for number, array in self._attached.items():
            if number in inputs and (number in self._needed or number == self._label):
                self.write(Tensor(self._self, number), array)

    def _run_once(self, sections: int, who: str) -> None:
        handle = self._need_compiled(who)
        try:
            call("ff_run", handle, sections, 0, 1, 0.0, None, ctypes.byref(_abi.ff_progress()))
        except FlexFlowError as error:
            raise FlexFlowError(f"{who}: {error}") from None

    def note_batch(self, tensor: Tensor, rows: int, order: int | None) -> None:
        """Take note of what a loader put into an input; for other parts of the core."""
        self.note_rows(tensor, rows)
        self._orders[tensor.id] = order

    def _need_one_order(self) -> None:
        """Data and labels in different orders would train without complaint, on nonsense."""
        if len(set(self._orders.values())) > 1:
            orders = ", ".join(
                f"{self.tensor_info(number).name}: "
                + ("as it is" if order is None else f"shuffled, epoch {order}")
                for number, order in self._orders.items()
            )
            raise ValueError(
                f"the loaders of this batch are in different orders ({orders}); shuffle all or "
                "none, and reset them together"
            )

    # ---- whole epochs ----
    def run(
        self,
        step: str,
        data: DataSet,
        max_steps: int = ALL_STEPS,
        predictions: np.ndarray | None = None,
    ) -> Iterator[Progress]:
        """Run the rest of an epoch of a data set, in slices of at most 100 milliseconds.

        Args:
            step: "train", "evaluate" or "predict".
            data: a data set whose epoch was begun.
            max_steps: the most steps of one slice.
            predictions: a row of the output for each sample, written from the epoch's position on:
                a C-contiguous array of the output's type, or of uint16 for the bits of bfloat16.

        Yields:
            What a slice did; between slices, everything may be looked at and set.

        Raises:
            ValueError: no such step, an input without data or with data that it has no use for, or
                predictions of a wrong shape or layout.
            TypeError: an argument of a wrong type.
        """
        self._need_compiled("run")
        sections = sections_of(step, "run: step")
        if step == "manual":
            raise ValueError('run: step is "manual", which takes forward() and its like')
        max_steps = integer(max_steps, "run: max_steps", 1)
        self._check_fed(step, data)
        if predictions is not None:
            self._check_rows(predictions, data)
        return self._slices(sections, data, max_steps, predictions)

    def _slices(
        self, sections: int, data: DataSet, max_steps: int, rows: np.ndarray | None
    ) -> Iterator[Progress]:
        output = None if rows is None else view(rows, self.output_tensor.data_type)
        self._write_attached(self._attached.keys() - {tensor.id for tensor in data.inputs})
        progress = _abi.ff_progress()
        while not progress.finished:
            call(
                "ff_run",
                self._need_compiled("run"),
                sections,
                data.handle,
                max_steps,
                SLICE_MS,
                output,
                ctypes.byref(progress),
            )
            if not progress.steps:
                return
            for tensor in data.inputs:
                self.note_rows(tensor, data.rows_before(progress.position))
            data.read_ahead(progress.position, 2 * progress.samples)
            if sections == SECTIONS["train"]:
                self._alter_on_condition()
            yield Progress(progress.steps, progress.samples, progress.position)

    def _check_fed(self, step: str, data: DataSet) -> None:
        """Every input that a step needs has its data, and every column its use."""
        if not isinstance(data, DataSet):
            raise TypeError(f"{step}: data is {shown(data)}, expected a DataSet")
        label = set() if self._label is None else {self._label}
        for tensor in data.inputs:
            tensor.owner(self._self)
            if tensor.id not in self._needed | label:
                raise ValueError(
                    f"{step}: {tensor.name} is fed, but the model's output does not depend on it; "
                    "leave it out"
                )
        needed = self._needed if step == "predict" else self._needed | label
        for number in sorted(needed - self._attached.keys() - {t.id for t in data.inputs}):
            raise ValueError(
                f"{step}: {self.tensor_info(number).name} gets no data; give an array or a loader "
                "for it"
            )

    def _check_rows(self, array: Any, data: DataSet) -> None:
        """The library writes into this memory as it is."""
        output = self.output_tensor
        dtype = numpy_storage(output.data_type)
        shape = (data.num_samples, *output.dims[1:])
        if not isinstance(array, np.ndarray):
            raise TypeError(f"predictions: got {shown(array)}, expected an array of {dtype}")
        if array.dtype != dtype or not array.dtype.isnative:
            raise TypeError(f"predictions: got an array of {array.dtype}, expected one of {dtype}")
        if array.shape != shape:
            raise ValueError(f"predictions: got an array of shape {array.shape}, expected {shape}")
        if not array.flags.carray:
            raise ValueError(
                "predictions: the array is read-only or not C-contiguous; make it with np.empty()"
            )
