"""From a graph to a model that runs: compile, and the steps of a training loop one by one."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from flexflow.core import _abi
from flexflow.core._lib import FlexFlowError, Handle, attributes, call, text
from flexflow.core.arrays import view
from flexflow.core.config import FFConfig
from flexflow.core.dataloader import DataSet
from flexflow.core.metrics import PerfMetrics
from flexflow.core.ops import Ops
from flexflow.core.optimizers import Optimizer
from flexflow.core.strategy import Strategy
from flexflow.core.tensor import Tensor
from flexflow.core.types import LOSSES, CompMode, LossType, MetricsType, check_enum, metric_name

# What a run does with each batch. "manual" is forward, backward and update one by one.
SECTIONS = {
    "train": _abi.FF_TRAIN_STEP,
    "evaluate": _abi.FF_EVALUATE,
    "predict": _abi.FF_PREDICT,
    "manual": _abi.FF_FORWARD | _abi.FF_LOSS | _abi.FF_BACKWARD | _abi.FF_UPDATE,
}
SLICE_MS = 100.0  # the longest stay in the library: Ctrl-C and progress bars wait for it
ALL_STEPS = 2**62


class Progress(NamedTuple):
    """How far a run came: steps and samples of this slice, and samples of the epoch so far."""

    steps: int
    samples: int
    position: int


class CompiledModel(Ops):
    """What FFModel can do once ``compile`` was called."""

    def __init__(self, ffconfig: FFConfig) -> None:
        super().__init__(ffconfig)
        self._compiled: Handle | None = None
        self._optimizer: Optimizer | None = None
        self._output: int | None = None
        self._needed: Set[int] = frozenset()  # inputs that the output depends on
        self._label: int | None = None
        self._metrics: tuple[str, ...] = ()
        self._loss_counted = False  # of the batch that went forward last
        self._epochs = 0  # that fit has run

    # ---- compile ----
    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer; setting it, like giving it to ``compile``, comes before ``compile``."""
        return self._optimizer

    @optimizer.setter
    def optimizer(self, optimizer: Optimizer | None) -> None:
        if optimizer is None:
            return
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"optimizer: got {optimizer!r}, expected an SGDOptimizer or AdamOptimizer"
            )
        if self._optimizer is not None:
            self._optimizer.detach(self._self)
        self._optimizer = optimizer

    def compile(
        self,
        optimizer: Optimizer | None = None,
        loss_type: LossType | None = None,
        metrics: Sequence[MetricsType] | None = None,
        comp_mode: CompMode | None = None,
        *,
        output: Tensor | None = None,
        loss_attributes: Mapping[str, Any] | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        """Make the model ready to run. Weights keep the values that were set or trained; a second
        call starts the optimizer afresh.

        Args:
            optimizer: None: the one that was set, or none; the model can then be evaluated, and its
                gradients computed.
            loss_type: needed for training. Labels have the type and extents of the output, but
                for LOSS_SPARSE_CATEGORICAL_CROSSENTROPY: DT_INT32 class ids, extent 1 instead of
                the classes. Cross-entropies take probabilities unless ``from_logits`` is set.
            metrics: what to measure beside the loss.
            comp_mode: CompMode.INFERENCE if it is never to be trained.
            output: the tensor that is compared with the label; None: of the layer made last.
            loss_attributes: of the loss: ``from_logits``, ``label_smoothing``.
            strategy: how operators are split, and on which devices they run; None: all on the first.

        Raises:
            ValueError: a strategy that does not fit the model, no layer, no loss for training, unknown attributes, a loss that does not fit
                the output.
            TypeError: an argument of a wrong type.

        >>> y = ffmodel.softmax(ffmodel.dense(x, 4))
        >>> ffmodel.compile(SGDOptimizer(ffmodel), LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY)
        >>> ffmodel.label_tensor.dims
        (64, 1)
        """
        mode = CompMode.TRAINING
        if comp_mode is not None:
            mode = check_enum(CompMode, comp_mode, "compile: comp_mode")
        if loss_type is None and mode is CompMode.TRAINING:
            raise ValueError(
                "compile: loss_type is missing; give one, or comp_mode=CompMode.INFERENCE"
            )
        self.optimizer = optimizer
        names = tuple(metric_name(metric) for metric in metrics or ())
        number = self._output_number(output)
        options: dict[str, Any] = {
            "output": number,
            "mode": mode.name.lower(),
            "metrics": ",".join(names),
            **self._loss_options(loss_type, loss_attributes),
            **self._optimizer_options(),
            **self._engine_options(),
            **self._strategy_options(strategy),
        }
        given = attributes(options)
        self._compiled = Handle("ff_compile", self.graph_handle, given, len(given))
        self._output, self._metrics = number, names
        self._needed = frozenset(self._inputs_of(number))
        self._label = None if loss_type is None else self.label_tensor.id
        self._loss_counted = False
        self._orders.clear()
        if self._optimizer is not None:
            self._optimizer.attach(self._self)
        if self._ffconfig.profiling:
            self.profile(True)

    def _output_number(self, output: Tensor | None) -> int:
        if output is not None:
            return self._number(output, "compile: output")
        if not self._layers:
            raise ValueError("compile: the model has no layers; add one, such as dense()")
        return self._layers[len(self._layers) - 1].get_output_tensor().id

    def _loss_options(
        self, loss_type: LossType | None, given: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        if loss_type is None:
            if given:
                raise ValueError("compile: loss_attributes without a loss_type")
            return {}
        name, fixed = LOSSES[check_enum(LossType, loss_type, "compile: loss_type")]
        attrs = {**fixed, **(given or {})}
        return {"loss": name, **{f"loss_{key}": value for key, value in attrs.items()}}

    def _optimizer_options(self) -> dict[str, Any]:
        if self._optimizer is None:
            return {}
        attrs = self._optimizer.attributes()
        return {
            "optimizer": self._optimizer.kind,
            "learning_rate": self._optimizer.learning_rate,
            **{f"optimizer_{key}": value for key, value in attrs.items()},
        }

    def _engine_options(self) -> dict[str, Any]:
        config = self._ffconfig
        return {
            "engine": config.engine or None,
            "device": config.device,
            "devices": config.devices,
            "threads": config.threads,
            "fuse": config.perform_fusion,
        }

    def _strategy_options(self, strategy: Strategy | None) -> dict[str, Any]:
        if strategy is None:
            return {}
        if not isinstance(strategy, Strategy):
            raise TypeError(f"compile: strategy is {strategy!r}, expected a Strategy")
        options: dict[str, Any] = {"devices": max(strategy.devices, self._ffconfig.devices)}
        for name, placement in strategy.bind(self).rules:
            splits = zip(placement.splits.items(), placement.grid())
            words = [f"{index}:{degree}:{stride}" for (index, degree), stride in splits]
            options[f"place:{name}"] = " ".join([str(placement.start), *words])
        return options

    # ---- what a compiled model has ----
    def _need_compiled(self, who: str) -> int:
        if self._compiled is None:
            raise FlexFlowError(f"{who}: the model is not compiled; call compile() first")
        return self._compiled.value

    @property
    def compiled_handle(self) -> int:
        """The library's number for the model; for other parts of the core."""
        return self._need_compiled("next_batch")

    @property
    def label_tensor(self) -> Tensor:
        """The input that takes the labels; FlexFlowError before ``compile``."""
        number = ctypes.c_int64()
        call("ff_model_label", self._need_compiled("label_tensor"), ctypes.byref(number))
        return Tensor(self._self, number.value)

    @property
    def output_tensor(self) -> Tensor:
        """The output that ``compile`` took; FlexFlowError before."""
        self._need_compiled("output_tensor")
        assert self._output is not None
        return Tensor(self._self, self._output)

    def set_scalar(self, name: str, value: float) -> None:
        """Set ``"learning_rate"`` or ``"step"`` (which Adam counts from 0)."""
        call("ff_scalar_set", self._need_compiled("set_scalar"), name.encode(), value)

    def get_scalar(self, name: str) -> float:
        """What ``set_scalar`` sets, as it is now."""
        value = ctypes.c_double()
        handle = self._need_compiled("get_scalar")
        call("ff_scalar_get", handle, name.encode(), ctypes.byref(value))
        return value.value

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
            predictions: rows for the output, written from the epoch's position on.

        Yields:
            What a slice did; between slices, everything may be looked at and set.
        """
        handle = self._need_compiled(step)
        self._write_attached(self._attached.keys() - {tensor.id for tensor in data.inputs})
        progress = _abi.ff_progress()
        output = None
        if predictions is not None:
            output = view(predictions, self.output_tensor.data_type)
        while not progress.finished:
            call(
                "ff_run",
                handle,
                SECTIONS[step],
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
            yield Progress(progress.steps, progress.samples, progress.position)

    # ---- what the model is doing ----
    def plan(self, step: str = "train") -> str:
        """The plan of a step ("train", "evaluate", "predict" or "manual") as text."""
        return text("ff_model_text", self._need_compiled("plan"), b"plan", SECTIONS[step])

    def memory_report(self, step: str = "train") -> str:
        """The memory of a step's plan as text: bytes by kind, and the largest buffers."""
        handle = self._need_compiled("memory_report")
        return text("ff_model_text", handle, b"memory", SECTIONS[step])

    def profile(self, on: bool = True) -> None:
        """Time each operator from now on, or no more."""
        call("ff_profile", self._need_compiled("profile"), bool(on))

    def profile_report(self) -> str:
        """The times since ``profile()``: mean microseconds, runs, operator, name; longest first."""
        handle = self._need_compiled("profile_report")
        return text("ff_model_text", handle, b"profile", SECTIONS["train"])
