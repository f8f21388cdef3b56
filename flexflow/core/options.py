"""What ``compile`` tells the library: the options for the loss, the optimizer and the engine."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from flexflow.core.config import FFConfig
from flexflow.core.optimizers import Optimizer
from flexflow.core.ranks import ranks
from flexflow.core.schedules import Schedule
from flexflow.core.types import LOSSES, LossType, MetricsType, check_enum, metric_name


def loss_options(loss_type: LossType | None, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of a loss.

    >>> loss_options(LossType.LOSS_BINARY_CROSSENTROPY, {"from_logits": True})
    {'loss': 'binary_crossentropy', 'loss_from_logits': True}
    """
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"compile: loss_attributes is {given!r}, expected a dict")
    if loss_type is None:
        if given:
            raise ValueError("compile: loss_attributes without a loss_type")
        return {}
    name, fixed = LOSSES[check_enum(LossType, loss_type, "compile: loss_type")]
    attrs = {**fixed, **(given or {})}
    return {"loss": name, **{f"loss_{key}": value for key, value in attrs.items()}}


def takes_probabilities(options: Mapping[str, Any]) -> bool:
    """Whether the loss of such options takes them.

    >>> takes_probabilities(loss_options(LossType.LOSS_BINARY_CROSSENTROPY, None))
    True
    """
    return options.get("loss", "").endswith("crossentropy") and not options.get("loss_from_logits")


def metric_names(metrics: Sequence[MetricsType] | MetricsType | None) -> tuple[str, ...]:
    """What the library calls metrics; a single one may come without a list.

    >>> metric_names(MetricsType.METRICS_ACCURACY)
    ('accuracy',)
    """
    if metrics is None:
        return ()
    several: Any = metrics if isinstance(metrics, (list, tuple)) else [metrics]
    return tuple(metric_name(metric) for metric in several)


def optimizer_options(optimizer: Optimizer | None) -> dict[str, Any]:
    """The options of an optimizer."""
    if optimizer is None:
        return {}
    rate = optimizer.learning_rate
    if isinstance(rate, Schedule):
        # Where the state of the rate is 0, no step was made yet.
        follows = {f"schedule_{key}": value for key, value in rate.attributes().items()}
        rates = {"learning_rate": 0.0, "schedule": rate.kind, **follows}
    else:
        rates = {"learning_rate": rate}
    return {
        "optimizer": optimizer.kind,
        "clip_norm": optimizer.clipnorm,
        **rates,
        **{f"optimizer_{key}": value for key, value in optimizer.attributes().items()},
    }


def engine_options(config: FFConfig) -> dict[str, Any]:
    """The options of the machine; a warning if it computes nothing, or less than it seems to."""
    if config.engine == "null":
        warnings.warn(
            "compile: the engine 'null' checks plans and computes nothing: outputs are zeros, and "
            "weights stay as they are; leave out engine (--engine) to compute",
            stacklevel=3,
        )
    if config.ranks < ranks():
        warnings.warn(
            f"compile: {ranks()} ranks were started, and under the engine {config.engine!r} each "
            "trains a model of its own; leave out engine (--engine, FLEXFLOW_ENGINE), or name "
            "legion",
            stacklevel=3,
        )
    return {
        **machine_options(config),
        "device": config.device,
        "devices": config.devices,
        "fuse": config.perform_fusion,
    }


def machine_options(config: FFConfig) -> dict[str, Any]:
    """The engine, and what it is told of the machine.

    >>> machine_options(FFConfig(engine="legion", devices=2))["runtime_flags"]
    '-ll:cpu\\n2'
    """
    return {
        "engine": config.engine or None,
        "threads": config.threads,
        "shared_memory": config.shared_memory,
        "runtime_flags": "\n".join(config.all_runtime_flags()) or None,
    }
