"""From a graph to a model that can run: compile, and what is known of the model then."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Mapping, Sequence, Set
from typing import Any

from flexflow.core import _abi
from flexflow.core._lib import FlexFlowError, Handle, attributes, call, text
from flexflow.core.checks import boolean, encoded, real
from flexflow.core.config import FFConfig
from flexflow.core.machine_model import MachineModel
from flexflow.core.ops import Ops
from flexflow.core.optimizers import Optimizer
from flexflow.core.options import (
    engine_options,
    loss_options,
    machine_options,
    metric_names,
    optimizer_options,
    takes_probabilities,
)
from flexflow.core.simulation import Simulation, simulate
from flexflow.core.strategy import Strategy, strategy_options
from flexflow.core.tensor import Tensor
from flexflow.core.types import CompMode, LossType, MetricsType, check_enum

# What a run does with each batch. "manual" is forward, backward and update one by one.
SECTIONS = {
    "train": _abi.FF_TRAIN_STEP,
    "evaluate": _abi.FF_EVALUATE,
    "predict": _abi.FF_PREDICT,
    "manual": _abi.FF_FORWARD | _abi.FF_LOSS | _abi.FF_BACKWARD | _abi.FF_UPDATE,
}
_MOST_STEPS = 2**53  # that a double counts
_UNBOUNDED = (None, "none", "relu", "gelu")  # activations beyond which values leave [0, 1]


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
        self._probabilities = False  # that is what the loss takes
        self._loss_counted = False  # of the batch that went forward last
        self._epochs = 0  # that fit has run

    # ---- compile ----
    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer. It can be set before the first ``compile``; later ones are given another.

        Raises:
            FlexFlowError: the model is compiled. TypeError: it is no optimizer.
        """
        return self._optimizer

    @optimizer.setter
    def optimizer(self, optimizer: Optimizer | None) -> None:
        if self._compiled is not None and optimizer is not self._optimizer:
            raise FlexFlowError(
                f"optimizer: the model is compiled with {self._optimizer!r}; give another one to "
                "compile(), which starts it afresh"
            )
        self._optimizer = _checked_optimizer(optimizer)

    def compile(
        self,
        optimizer: Optimizer | None = None,
        loss_type: LossType | None = None,
        metrics: Sequence[MetricsType] | MetricsType | None = None,
        comp_mode: CompMode | None = None,
        *,
        output: Tensor | None = None,
        loss_attributes: Mapping[str, Any] | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        """Make the model ready to run. Weights keep the values that were set or trained; a second
        call starts the optimizer afresh. One that fails leaves the model as it was.

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
            strategy: how operators are split, and on which devices; None: all on the first.

        Raises:
            ValueError: no layer, no loss for training, unknown attributes, a loss that does not fit
                the output, a strategy that does not fit the model.
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
        optimizer = _checked_optimizer(optimizer) or self._optimizer
        names = metric_names(metrics)
        number = self._output_number(output)
        loss = loss_options(loss_type, loss_attributes)
        if takes_probabilities(loss):
            self._warn_of_logits(number, loss["loss"])
        options: dict[str, Any] = {
            "output": number,
            "mode": mode.name.lower(),
            "metrics": ",".join(names),
            **loss,
            **optimizer_options(optimizer),
            **engine_options(self._ffconfig),
            **strategy_options(strategy, self._self),
        }
        given = attributes(options)
        self._compiled = Handle("ff_compile", self.graph_handle, given, len(given))
        self._serve(optimizer)
        self._output, self._metrics = number, names
        self._probabilities = takes_probabilities(loss)
        self._needed = frozenset(self._inputs_of(number))
        self._label = None if loss_type is None else self.label_tensor.id
        self._loss_counted = False
        self._orders.clear()
        if self._ffconfig.profiling:
            self.profile(True)

    def change_strategy(self, strategy: Strategy | None) -> None:
        """Split and place the operators of a compiled model otherwise, between two steps of its
        training. Weights, the optimizer's state, counters and metrics stay, so that training goes
        on as it would have, up to rounding.

        Args:
            strategy: the new one, for as many devices as it wants; None: what ``compile`` takes
                then.

        Raises:
            FlexFlowError: not compiled.
            ValueError: it does not fit the model, which then stays as it was.
            TypeError: it is no strategy.

        >>> _ = ffmodel.dense(x, 4)
        >>> ffmodel.compile(SGDOptimizer(ffmodel), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
        >>> ffmodel.change_strategy(Strategy.data_parallel(2))
        """
        handle = self._need_compiled("change_strategy")
        options: dict[str, Any] = {
            **machine_options(self._ffconfig),
            **strategy_options(strategy, self._self, "change_strategy"),
        }
        given = attributes(options)
        call("ff_model_place", handle, given, len(given))
        self._loss_counted = False

    def _serve(self, optimizer: Optimizer | None) -> None:
        if self._optimizer is not None:
            self._optimizer.detach(self._self)
        self._optimizer = optimizer
        if optimizer is not None:
            optimizer.attach(self._self)

    def _output_number(self, output: Tensor | None) -> int:
        if output is not None:
            return self._number(output, "compile: output")
        if not self._layers:
            raise ValueError("compile: the model has no layers; add one, such as dense()")
        return self._layers[len(self._layers) - 1].get_output_tensor().id

    def _warn_of_logits(self, number: int, loss: str) -> None:
        """A linear layer in front of a loss on probabilities is most likely a softmax forgotten."""
        layer = self._layer_by_tensor.get(number)
        while layer is not None and layer.kind in ("identity", "reshape", "flat", "dropout"):
            layer = self._layer_by_tensor.get(layer.get_input_by_id(0).id)
        if layer is None or layer.kind not in ("linear", "conv2d"):
            return
        if layer.activation in _UNBOUNDED:
            warnings.warn(
                f"compile: {loss} takes probabilities, but {layer.name} gives any numbers; "
                "end the model with softmax() or a sigmoid, or pass "
                "loss_attributes={'from_logits': True}",
                stacklevel=3,
            )

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
        """Set ``"learning_rate"`` or ``"step"`` (which Adam counts from 0).

        Raises:
            ValueError: another name, a rate that is negative or not finite, or a step that is no
                whole number of at least 0.
            TypeError: no number.
        """
        handle = self._need_compiled("set_scalar")
        who = encoded(name, "set_scalar: name")
        number = real(value, f"set_scalar: {name}", 0)
        if name == "step" and (number != int(number) or number > _MOST_STEPS):
            raise ValueError(f"set_scalar: step: got {value}, expected a whole number up to 2**53")
        call("ff_scalar_set", handle, who, number)

    def get_scalar(self, name: str) -> float:
        """What ``set_scalar`` sets, as it is now."""
        value = ctypes.c_double()
        handle = self._need_compiled("get_scalar")
        call("ff_scalar_get", handle, encoded(name, "get_scalar: name"), ctypes.byref(value))
        return value.value

    # ---- what the model is doing ----
    def plan(self, step: str = "train") -> str:
        """The plan of a step ("train", "evaluate", "predict" or "manual") as text."""
        return text(
            "ff_model_text", self._need_compiled("plan"), b"plan", sections_of(step, "plan")
        )

    def memory_report(self, step: str = "train") -> str:
        """The memory of a step's plan as text: bytes by kind, and the largest buffers."""
        handle = self._need_compiled("memory_report")
        return text("ff_model_text", handle, b"memory", sections_of(step, "memory_report"))

    def simulate(self, step: str = "train", machine: MachineModel | None = None) -> Simulation:
        """What a step ("train", "evaluate", "predict" or "manual") would take: seconds, what every
        device does when, bytes moved, and memory. Nothing is trained.

        Args:
            step: what is simulated.
            machine: where; what calls cost is estimated from its rates. None: the machine that the
                model was compiled for; calls are measured, once (``docs/simulator.md``).

        Raises:
            FlexFlowError: not compiled, or for devices of several processes.
            ValueError: there is no such step, or the strategy does not fit the machine.
            TypeError: ``machine`` is none.

        >>> y = ffmodel.softmax(ffmodel.dense(x, 4))
        >>> ffmodel.compile(SGDOptimizer(ffmodel), LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY)
        >>> simulation = ffmodel.simulate()
        >>> 0 < simulation.busy[0] <= simulation.seconds < 1
        True
        """
        handle = self._need_compiled("simulate")
        return simulate(handle, sections_of(step, "simulate"), machine)

    def profile(self, on: bool = True) -> None:
        """Time each operator from now on, or no more."""
        call("ff_profile", self._need_compiled("profile"), boolean(on, "profile: on"))

    def profile_report(self) -> str:
        """The times since ``profile()``: mean microseconds, runs, operator, name; longest first."""
        handle = self._need_compiled("profile_report")
        return text("ff_model_text", handle, b"profile", SECTIONS["train"])


def _checked_optimizer(optimizer: Optimizer | None) -> Optimizer | None:
    if optimizer is None or isinstance(optimizer, Optimizer):
        return optimizer
    raise TypeError(f"optimizer: got {optimizer!r}, expected an SGDOptimizer or AdamOptimizer")


def sections_of(step: str, who: str) -> int:
    """What a step does, by its name; ValueError if there is no such step."""
    if isinstance(step, str) and step in SECTIONS:
        return SECTIONS[step]
    raise ValueError(f"{who}: got {step!r}, expected one of {', '.join(SECTIONS)}")
