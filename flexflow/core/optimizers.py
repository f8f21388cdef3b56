"""Optimizers: what ``update`` does with the gradients."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Final

from flexflow.core._lib import FlexFlowError
from flexflow.core.checks import boolean, real
from flexflow.core.config import FFConfig
from flexflow.core.guard import Guarded
from flexflow.core.schedules import Schedule

if TYPE_CHECKING:
    from flexflow.core.model import FFModel


class Optimizer(Guarded):
    """What all optimizers have in common: a learning rate, which can change while training runs or
    follow a schedule, and a limit for gradients. The other numbers are fixed; for others, compile
    the model with another optimizer."""

    _instead_of_a_copy: ClassVar[str] = "make another one with the same arguments"
    kind: ClassVar[str]
    clipnorm: Final[float | None]

    def __init__(self, learning_rate: float | Schedule, clipnorm: float | None = None) -> None:
        self._models: weakref.WeakSet[FFModel] = weakref.WeakSet()
        if isinstance(learning_rate, Schedule):
            self._learning_rate: float | Schedule = learning_rate
        else:
            self._learning_rate = real(learning_rate, "lr", 0)
        self.clipnorm = None if clipnorm is None else real(clipnorm, "clipnorm", 0)
        if self.clipnorm == 0:
            raise ValueError("clipnorm: got 0, expected a number above 0, or None for no limit")

    @property
    def learning_rate(self) -> float | Schedule:
        """The learning rate of the next step, or the schedule that it follows; setting it is
        ``set_learning_rate``."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, lr: float) -> None:
        self.set_learning_rate(lr)

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate; compiled models take it from their next step on.

        Raises:
            ValueError: negative or not finite. TypeError: not a number.
            FlexFlowError: it follows a schedule.

        >>> optimizer = SGDOptimizer(ffmodel)
        >>> optimizer.set_learning_rate(0.5)
        >>> optimizer.learning_rate
        0.5
        """
        if isinstance(self._learning_rate, Schedule):
            raise FlexFlowError(
                f"set_learning_rate: the rate follows {self._learning_rate}; compile the model "
                "with another optimizer, which has a number or another schedule"
            )
        rate = self._learning_rate = real(lr, "lr", 0)
        for model in self._models:
            model.set_scalar("learning_rate", rate)

    def attributes(self) -> dict[str, Any]:
        """The attributes of the operator that updates a weight."""
        raise NotImplementedError

    def __repr__(self) -> str:
        settings = {"learning_rate": self.learning_rate, **self.attributes()}
        if self.clipnorm is not None:
            settings["clipnorm"] = self.clipnorm
        given = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        return f"<{type(self).__name__}: {given}>"

    def attach(self, model: FFModel) -> None:
        """Serve a model from now on; called by its ``compile``."""
        self._models.add(model)

    def detach(self, model: FFModel) -> None:
        """Serve a model no more."""
        self._models.discard(model)


class SGDOptimizer(Optimizer):
    """Stochastic gradient descent: g = dW + weight_decay * W; with momentum
    v = momentum * v + g and g = v, or g + momentum * v by Nesterov; W -= lr * g.

    Args:
        ffmodel: the model, whose configuration says what is not given here.
        lr: a number or a schedule; None: FFConfig's learning_rate, 0.01 unless it was set.
        momentum: in [0, 1).
        nesterov: needs a momentum.
        weight_decay: None: FFConfig's if it was set, else 0.
        clipnorm: the most that the norm of the gradients of all weights together may be: they are
            multiplied by min(1, clipnorm / norm), as by PyTorch's clip_grad_norm_ and Keras's
            global_clipnorm (Pascanu et al., 2013). None: any.

    Raises:
        ValueError: a number out of its range. TypeError: an argument of a wrong type.

    >>> SGDOptimizer(ffmodel, lr=0.1, momentum=0.9).attributes()
    {'momentum': 0.9, 'nesterov': False, 'weight_decay': 0.0}
    """

    kind = "sgd"
    momentum: Final[float]
    nesterov: Final[bool]
    weight_decay: Final[float]

    def __init__(
        self,
        ffmodel: FFModel,
        lr: float | Schedule | None = None,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float | None = None,
        *,
        clipnorm: float | None = None,
    ) -> None:
        config = _config_of(ffmodel, "SGDOptimizer")
        super().__init__(config.learning_rate if lr is None else lr, clipnorm)
        self.momentum = real(momentum, "momentum", 0, 1)
        self.nesterov = boolean(nesterov, "nesterov")
        self.weight_decay = _weight_decay(config, weight_decay)
        if self.nesterov and self.momentum == 0:
            raise ValueError("SGDOptimizer: nesterov=True needs a momentum above 0")

    def attributes(self) -> dict[str, Any]:
        """The attributes of the operator that updates a weight."""
        return {
            "momentum": self.momentum,
            "nesterov": self.nesterov,
            "weight_decay": self.weight_decay,
        }


class AdamOptimizer(Optimizer):
    """Adam (Kingma and Ba, 2015): g = dW + weight_decay * W; m and v are running means of g and
    g * g; W -= alpha * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon) in step t.

    Args:
        ffmodel: the model, whose configuration says what is not given here.
        alpha: the learning rate, a number or a schedule; None: FFConfig's if it was set, else
            0.001.
        beta1, beta2: in [0, 1).
        weight_decay: None: FFConfig's if it was set, else 0.
        epsilon: above 0.
        clipnorm: see SGDOptimizer.

    Raises:
        ValueError: a number out of its range. TypeError: an argument of a wrong type.

    >>> AdamOptimizer(ffmodel).learning_rate
    0.001
    """

    kind = "adam"
    beta1: Final[float]
    beta2: Final[float]
    epsilon: Final[float]
    weight_decay: Final[float]

    def __init__(
        self,
        ffmodel: FFModel,
        alpha: float | Schedule | None = None,
        beta1: float = 0.9,
        beta2: float = 0.999,
        weight_decay: float | None = None,
        epsilon: float = 1e-8,
        *,
        clipnorm: float | None = None,
    ) -> None:
        config = _config_of(ffmodel, "AdamOptimizer")
        if alpha is None:
            alpha = config.learning_rate if config.given("learning_rate") else 0.001
        super().__init__(alpha, clipnorm)
        self.beta1 = real(beta1, "beta1", 0, 1)
        self.beta2 = real(beta2, "beta2", 0, 1)
        self.epsilon = real(epsilon, "epsilon", 0)
        self.weight_decay = _weight_decay(config, weight_decay)
        if self.epsilon == 0:
            raise ValueError("AdamOptimizer: epsilon is 0, expected a number above 0")

    def attributes(self) -> dict[str, Any]:
        """The attributes of the operator that updates a weight."""
        return {
            "beta1": self.beta1,
            "beta2": self.beta2,
            "epsilon": self.epsilon,
            "weight_decay": self.weight_decay,
        }


def _config_of(model: FFModel, who: str) -> FFConfig:
    config = getattr(model, "ffconfig", None)
    if isinstance(config, FFConfig):
        return config
    raise TypeError(f"{who}: ffmodel is {model!r}, expected an FFModel")


def _weight_decay(config: FFConfig, given: float | None) -> float:
    """FlexFlow's optimizers begin with no decay, its configuration with a small one: the latter
    counts only if somebody asked for it."""
    if given is not None:
        return real(given, "weight_decay", 0)
    return config.weight_decay if config.given("weight_decay") else 0.0
