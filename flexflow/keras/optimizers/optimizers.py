"""Optimizers: how a gradient changes the weights.

An optimizer here is a value: what it is made with, and ``learning_rate``, a schedule or a number,
which may be set at any time, also by a callback in the middle of training. What it remembers of
past gradients belongs to the model and starts anew at compile().
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from flexflow.core import AdamOptimizer, FFModel, SGDOptimizer
from flexflow.core.checks import boolean
from flexflow.core.schedules import Schedule
from flexflow.keras import backend, surface
from flexflow.keras.optimizers.schedules import LearningRateSchedule

RateLike = Union[float, LearningRateSchedule]
_UNSUPPORTED = (
    "amsgrad",
    "clipnorm",
    "clipvalue",
    "decay",
    "ema_momentum",
    "ema_overwrite_frequency",
    "gradient_accumulation_steps",
    "loss_scale_factor",
    "use_ema",
)


class Optimizer(surface.Explained):
    """Base of all optimizers.

    Args:
        learning_rate: a number >= 0, or a schedule of ``optimizers.schedules``; also under its
            older name ``lr``.
        weight_decay: None or 0, unless the optimizer says otherwise.
        name: for messages.
        global_clipnorm: the most that the norm of all gradients together may be, above 0: they are
            multiplied by min(1, global_clipnorm / norm). None: any.
    """

    def __init__(
        self,
        learning_rate: RateLike = 0.01,
        weight_decay: float | None = None,
        name: str | None = None,
        lr: RateLike | None = None,
        global_clipnorm: float | None = None,
        **unsupported: Any,
    ) -> None:
        kind = type(self).__name__
        for argument, value in unsupported.items():
            if argument not in _UNSUPPORTED:
                raise TypeError(f"{kind}: unknown argument {argument!r}")
            if argument == "clipnorm" and value:
                raise NotImplementedError(
                    f"{kind}: clipnorm={value!r}, for each weight alone, is not supported yet; use "
                    "global_clipnorm, for all together"
                )
            backend.refuse(kind, neutral=(None, False, 0, 0.0), **{argument: value})
        self.name = name or kind
        rate = learning_rate if lr is None else lr
        self._learning_rate = rate if isinstance(rate, LearningRateSchedule) else self._rate(rate)
        self.global_clipnorm = None
        if global_clipnorm is not None:
            self.global_clipnorm = _number(
                f"{kind}: global_clipnorm", global_clipnorm, positive=True
            )
        self.weight_decay = _number(f"{kind}: weight_decay", weight_decay or 0.0)

    @property
    def learning_rate(self) -> RateLike:
        """The step size; set it to change it from the next batch on. A schedule stays as it is."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        kind = type(self).__name__
        if isinstance(self._learning_rate, LearningRateSchedule):
            raise TypeError(
                f"{kind}: learning_rate follows {self._learning_rate} and cannot be set; compile "
                "with an optimizer that has a number"
            )
        if isinstance(value, LearningRateSchedule):
            raise TypeError(
                f"{kind}: learning_rate={value} cannot take the place of a number; compile with "
                f"{kind}({value})"
            )
        self._learning_rate = self._rate(value)

    def _rate(self, value: Any) -> float:
        if callable(value) or isinstance(value, str):
            raise NotImplementedError(
                f"{type(self).__name__}: learning_rate={value!r} is not supported yet; give a "
                "number or one of optimizers.schedules, "
                "and callbacks.LearningRateScheduler to change it"
            )
        return _number(f"{type(self).__name__}: learning_rate", value)

    lr = learning_rate

    def set_learning_rate(self, learning_rate: float) -> None:
        """The same as setting ``learning_rate``; FlexFlow's name."""
        self.learning_rate = learning_rate

    @property
    def core_rate(self) -> float | Schedule:
        """What the core's optimizers take for the learning rate."""
        rate = self._learning_rate
        return rate.core if isinstance(rate, LearningRateSchedule) else rate

    def create(self, ffmodel: FFModel) -> Any:
        """The core's optimizer for a model."""
        raise NotImplementedError(
            f"{type(self).__name__}: optimizers of one's own are not supported yet; use SGD or Adam"
        )


def _number(who: str, value: Any, positive: bool = False) -> float:
    if (
        not isinstance(value, (int, float, np.number))
        or isinstance(value, bool)
        or not 0 <= value < float("inf")
        or (positive and value == 0)
    ):
        raise ValueError(f"{who}={value!r}, expected a number {'above' if positive else '>='} 0")
    return float(value)


class SGD(Optimizer):
    """w -= learning_rate * g; with momentum, v = momentum * v + g and w -= learning_rate * v, or
    with nesterov w -= learning_rate * (g + momentum * v).

    These are Keras's numbers while the learning rate stays the same; when it changes, it applies to
    all of v at once, as in PyTorch.

    Args:
        learning_rate: a number >= 0, or a schedule.
        momentum: in [0, 1).
        nesterov: whether to look ahead; needs a momentum.
        weight_decay: None, or w -= learning_rate * weight_decay * w besides; without momentum only.

    Raises:
        ValueError: a number out of range.
        NotImplementedError: weight_decay together with momentum, or an argument that is not
            supported.

    >>> SGD(0.1, momentum=0.9).learning_rate
    0.1
    """

    def __init__(
        self,
        learning_rate: RateLike = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float | None = None,
        name: str | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(learning_rate, weight_decay, name, **arguments)
        if not isinstance(momentum, (int, float)) or not 0 <= momentum < 1:
            raise ValueError(f"SGD: momentum={momentum!r}, expected a number in [0, 1)")
        self.momentum, self.nesterov = float(momentum), boolean(nesterov, "SGD: nesterov")
        if self.nesterov and not self.momentum:
            raise ValueError("SGD: nesterov=True needs a momentum above 0")
        if self.momentum and self.weight_decay:
            raise NotImplementedError(
                f"SGD: weight_decay={weight_decay} together with momentum={momentum} is not "
                "supported yet; "
                "use kernel_regularizer=L2(weight_decay / 2) in the layers"
            )

    def create(self, ffmodel: FFModel) -> SGDOptimizer:
        return SGDOptimizer(
            ffmodel,
            self.core_rate,
            self.momentum,
            self.nesterov,
            self.weight_decay,
            clipnorm=self.global_clipnorm,
        )


class Adam(Optimizer):
    """Adam, by Kingma and Ba (2015): moving means of the gradient (beta_1) and of its square
    (beta_2), and w -= learning_rate * sqrt(1 - beta_2**t) / (1 - beta_1**t) * mean / (sqrt(mean of
    squares) + epsilon).

    Args:
        learning_rate: a number >= 0, or a schedule.
        beta_1, beta_2: in [0, 1).
        epsilon: above 0.
        amsgrad, weight_decay: must be False and None.

    Raises:
        ValueError: a number out of range.
        NotImplementedError: an argument that is not supported.

    >>> Adam().epsilon
    1e-07
    """

    def __init__(
        self,
        learning_rate: RateLike = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        weight_decay: float | None = None,
        name: str | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(learning_rate, None, name, amsgrad=amsgrad, **arguments)
        # Keras takes the decay off the weight; the core's Adam adds it to the gradient.
        backend.refuse("Adam", neutral=(None, 0, 0.0), weight_decay=weight_decay)
        for key, beta in (("beta_1", beta_1), ("beta_2", beta_2)):
            if not isinstance(beta, (int, float)) or not 0 <= beta < 1:
                raise ValueError(f"Adam: {key}={beta!r}, expected a number in [0, 1)")
        if not isinstance(epsilon, (int, float)) or not epsilon > 0:
            raise ValueError(f"Adam: epsilon={epsilon!r}, expected a number above 0")
        self.beta_1, self.beta_2, self.epsilon = float(beta_1), float(beta_2), float(epsilon)

    def create(self, ffmodel: FFModel) -> AdamOptimizer:
        return AdamOptimizer(
            ffmodel,
            self.core_rate,
            self.beta_1,
            self.beta_2,
            0.0,
            self.epsilon,
            clipnorm=self.global_clipnorm,
        )
