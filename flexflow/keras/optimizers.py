"""Optimizers: how a gradient changes the weights.

An optimizer here is a value: what it is made with, and ``learning_rate``, which may be set at any
time, also by a callback in the middle of training. What it remembers of past gradients belongs to
the model and starts anew at compile().
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from flexflow.core import AdamOptimizer, FFModel, SGDOptimizer
from flexflow.core.checks import boolean
from flexflow.keras import backend, surface

OptimizerLike = Union[str, "Optimizer", type["Optimizer"]]
_UNSUPPORTED = (
    "amsgrad",
    "clipnorm",
    "clipvalue",
    "decay",
    "ema_momentum",
    "ema_overwrite_frequency",
    "global_clipnorm",
    "gradient_accumulation_steps",
    "loss_scale_factor",
    "use_ema",
)


class Optimizer(surface.Explained):
    """Base of all optimizers.

    Args:
        learning_rate: a number >= 0; also under its older name ``lr``.
        weight_decay: None or 0, unless the optimizer says otherwise.
        name: for messages.
    """

    def __init__(
        self,
        learning_rate: float = 0.01,
        weight_decay: float | None = None,
        name: str | None = None,
        lr: float | None = None,
        **unsupported: Any,
    ) -> None:
        kind = type(self).__name__
        for argument, value in unsupported.items():
            if argument not in _UNSUPPORTED:
                raise TypeError(f"{kind}: unknown argument {argument!r}")
            backend.refuse(kind, neutral=(None, False, 0, 0.0), **{argument: value})
        self.name = name or kind
        self.learning_rate = learning_rate if lr is None else lr
        self.weight_decay = _number(f"{kind}: weight_decay", weight_decay or 0.0)

    @property
    def learning_rate(self) -> float:
        """The step size; set it to change it from the next batch on."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        if callable(value) or isinstance(value, str):
            raise NotImplementedError(
                f"{type(self).__name__}: learning_rate={value!r} is not supported yet; "
                "give a number, "
                "and callbacks.LearningRateScheduler to change it"
            )
        self._learning_rate = _number(f"{type(self).__name__}: learning_rate", value)

    lr = learning_rate

    def set_learning_rate(self, learning_rate: float) -> None:
        """The same as setting ``learning_rate``; FlexFlow's name."""
        self.learning_rate = learning_rate

    def create(self, ffmodel: FFModel) -> Any:
        """The core's optimizer for a model."""
        raise NotImplementedError(
            f"{type(self).__name__}: optimizers of one's own are not supported yet; use SGD or Adam"
        )


def _number(who: str, value: Any) -> float:
    if (
        not isinstance(value, (int, float, np.number))
        or isinstance(value, bool)
        or not 0 <= value < float("inf")
    ):
        raise ValueError(f"{who}={value!r}, expected a number >= 0")
    return float(value)


class SGD(Optimizer):
    """w -= learning_rate * g; with momentum, v = momentum * v + g and w -= learning_rate * v, or
    with nesterov w -= learning_rate * (g + momentum * v).

    These are Keras's numbers while the learning rate stays the same; when it changes, it applies to
    all of v at once, as in PyTorch.

    Args:
        learning_rate: a number >= 0.
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
        learning_rate: float = 0.01,
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
            ffmodel, self.learning_rate, self.momentum, self.nesterov, self.weight_decay
        )


class Adam(Optimizer):
    """Adam, by Kingma and Ba (2015): moving means of the gradient (beta_1) and of its square
    (beta_2), and w -= learning_rate * sqrt(1 - beta_2**t) / (1 - beta_1**t) * mean / (sqrt(mean of
    squares) + epsilon).

    Args:
        learning_rate: a number >= 0.
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
        learning_rate: float = 0.001,
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
            ffmodel, self.learning_rate, self.beta_1, self.beta_2, 0.0, self.epsilon
        )


_BY_NAME: dict[str, type[Optimizer]] = {"sgd": SGD, "adam": Adam}


def get(identifier: OptimizerLike) -> Optimizer:
    """An optimizer from itself, its class or its name in any case.

    Raises:
        ValueError: there is no optimizer of this name.
        TypeError: it is none of these.

    >>> get("adam").learning_rate
    0.001
    """
    if isinstance(identifier, Optimizer):
        return identifier
    if isinstance(identifier, str):
        if identifier.lower() not in _BY_NAME:
            raise ValueError(
                f"optimizer {identifier!r} is unknown or not supported yet; "
                "known are 'sgd' and 'adam'"
            )
        return _BY_NAME[identifier.lower()]()
    if isinstance(identifier, type) and issubclass(identifier, Optimizer):
        return identifier()
    raise TypeError(
        f"optimizer={identifier!r}, expected 'sgd', 'adam', "
        "or an object of flexflow.keras.optimizers"
    )


__all__ = ["SGD", "Adam", "Optimizer", "get"]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
