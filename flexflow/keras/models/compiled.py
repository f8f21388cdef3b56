"""compile, and what a model is between compile and its first run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexflow.core import FFModel, FlexFlowError, Strategy
from flexflow.keras import backend, losses, optimizers
from flexflow.keras.graph import Graph
from flexflow.keras.metrics import MetricLike
from flexflow.keras.metrics import get_all as get_metrics
from flexflow.keras.models.program import Program, Settings
from flexflow.keras.variable import Variable


class Compiled:
    """What compile() has told, and the program that follows from it."""

    name: str
    built: bool

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._program: Program | None = None

    @property
    def trainable_weights(self) -> list[Variable]:
        """The weights that training changes."""
        raise NotImplementedError

    def complete_graph(self, x: Any = None) -> Graph:
        """The graph of the model; a Sequential without an input shape takes it from data."""
        raise NotImplementedError

    def compile(
        self,
        optimizer: optimizers.OptimizerLike | None = None,
        loss: losses.LossLike = None,
        metrics: Sequence[MetricLike] | None = None,
        loss_weights: None = None,
        weighted_metrics: None = None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        jit_compile: str | bool | None = "auto",
        auto_scale_loss: bool = True,
        *,
        strategy: Strategy | None = None,
    ) -> None:
        """Say how the model is trained. Weights keep their values; what an optimizer remembers
        starts anew.

        ``trainable`` of layers counts as it is when the model is run for the first time after this
        call.

        Args:
            optimizer: "sgd", "adam" or an object of flexflow.keras.optimizers; None only without a
                loss.
            loss: a name or object of flexflow.keras.losses; None for a model that only predicts.
            metrics: a list of names or objects of flexflow.keras.metrics; "accuracy" suits the
                labels that the loss has.
            strategy: FlexFlow's own, beside Keras's arguments: how layers are split over devices; a
                flexflow.core.Strategy, whose patterns are of names of layers. None: data
                parallelism over the devices that the command line names, or none. One that does not
                fit is an error of the first run.

        Raises:
            ValueError: an unknown name; a loss without an optimizer; a loss or metric that does not
                suit the output or the labels.
            TypeError: a strategy that is none.
            NotImplementedError: an argument that is not supported, or a model of several outputs.

        >>> from flexflow.keras import Sequential, layers
        >>> model = Sequential([layers.Dense(3, activation="softmax", input_shape=(4,))])
        >>> model.compile("sgd", "sparse_categorical_crossentropy", ["accuracy"])

        On two devices:

        >>> from flexflow.core import Strategy
        >>> two = Strategy.data_parallel(2)
        >>> model.compile("sgd", "sparse_categorical_crossentropy", strategy=two)
        """
        who = f"{self.name}.compile"
        backend.refuse(who, loss_weights=loss_weights, weighted_metrics=weighted_metrics)
        backend.refuse(who, neutral=(None, False), run_eagerly=run_eagerly)
        backend.refuse(who, neutral=(None, 1), steps_per_execution=steps_per_execution)
        backend.refuse(who, neutral=(None, False, "auto"), jit_compile=jit_compile)
        backend.refuse(who, neutral=(None, True, False), auto_scale_loss=auto_scale_loss)
        found = losses.get(loss, who)
        if optimizer is None and found is not None:
            raise ValueError(
                f"{who}: give an optimizer: the default of Keras, 'rmsprop', is not supported yet; "
                "known are 'sgd' and 'adam'"
            )
        chosen = None if optimizer is None else optimizers.get(optimizer)
        if strategy is not None and not isinstance(strategy, Strategy):
            raise TypeError(f"{who}: strategy is {strategy!r}, expected a flexflow.core.Strategy")
        self._settings = Settings(chosen, found, get_metrics(metrics, who), strategy)
        self._program = None
        if self.built:
            self._check_settings(who)

    def _check_settings(self, who: str) -> None:
        """Raise unless the model can be run as compile() was told."""
        outputs = self.complete_graph().outputs
        if len(outputs) != 1:
            raise NotImplementedError(
                f"{who}: a model of {len(outputs)} outputs can be part of another, "
                "but not run yet; "
                "make a Model for each output, which share their layers"
            )
        settings = self._settings or Settings()
        if settings.loss is None:
            if settings.metrics:
                raise ValueError(
                    f"{who}: metrics are given without a loss, which says what the labels are"
                )
            return
        settings.loss.check_output(who, outputs[0].shape)
        for metric in settings.metrics:
            metric.check(who, settings.loss, outputs[0].shape)

    @property
    def optimizer(self) -> Any:
        """The optimizer of compile(); its learning_rate may be set at any time. None before
        compile().
        """
        return self._settings.optimizer if self._settings else None

    @property
    def loss(self) -> Any:
        """The loss of compile(), or None."""
        return self._settings.loss if self._settings else None

    @property
    def metrics_names(self) -> list[str]:
        """ "loss" and the names of the metrics, in the order of what evaluate() returns."""
        return (
            ["loss", *(metric.name for metric in self._settings.metrics)]
            if self._settings
            else ["loss"]
        )

    @property
    def ffmodel(self) -> FFModel:
        """The FFModel that the model is lowered to, with all that it can tell and do: plans,
        memory, profiles, ``save_checkpoint``, ``change_strategy``, ``recompile_on_condition``. It
        is another one after ``compile``.
        """
        program = self._ready(32)
        program.catch_up()  # what is read from it or saved are then the weights of this model
        return program.ff

    def _ready(self, batch_size: int, needs_loss: str | None = None) -> Program:
        """The program, made when it is first needed."""
        settings = self._settings or Settings()
        if needs_loss and settings.loss is None:
            missing = (
                "compile(optimizer, loss) comes first"
                if self._settings is None
                else "compile() was given no loss"
            )
            raise FlexFlowError(f"{self.name}.{needs_loss}: {missing}")
        if self._program is None:
            self._check_settings(self.name)
            graph = self.complete_graph()
            self._program = Program(graph, self.trainable_weights, settings, batch_size)
        return self._program
