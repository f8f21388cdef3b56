"""Learning rates that follow the step, under Keras's names. They are computed with the step, from
the model's counter of steps; steps s count from 0."""

from __future__ import annotations

from collections.abc import Sequence

from flexflow import core
from flexflow.core.checks import real
from flexflow.keras import surface


class LearningRateSchedule(surface.Explained):
    """Base of all schedules: one of the core's under Keras's names.

    Attributes:
        core: the core's schedule.
        name: for messages.
    """

    def __init__(self, schedule: core.Schedule, name: str | None) -> None:
        self.core, self.name = schedule, name or type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.name}: {self.core}>"


def _rate(kind: str, argument: str, value: float) -> float:
    return real(value, f"{kind}: {argument}", 0)


class ExponentialDecay(LearningRateSchedule):
    """initial_learning_rate * decay_rate ** (s / decay_steps); with ``staircase`` the quotient is
    rounded down.

    Raises:
        ValueError: a number out of its range. TypeError: an argument of a wrong type.

    >>> ExponentialDecay(0.1, decay_steps=1000, decay_rate=0.96).core.decay_rate
    0.96
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        decay_rate: float,
        staircase: bool = False,
        name: str | None = None,
    ) -> None:
        initial = _rate("ExponentialDecay", "initial_learning_rate", initial_learning_rate)
        super().__init__(core.ExponentialDecay(initial, decay_steps, decay_rate, staircase), name)


class PiecewiseConstantDecay(LearningRateSchedule):
    """values[0] up to step boundaries[0], which belongs to it, values[1] up to boundaries[1], and
    so on.

    Raises:
        ValueError: boundaries that do not ascend, not one value more than boundaries, or a number
            out of its range. TypeError: an argument of a wrong type.

    >>> PiecewiseConstantDecay([1000], [0.1, 0.01]).core.values
    (0.1, 0.01)
    """

    def __init__(
        self, boundaries: Sequence[int], values: Sequence[float], name: str | None = None
    ) -> None:
        super().__init__(core.PiecewiseConstant(boundaries, values), name)


class PolynomialDecay(LearningRateSchedule):
    """(initial_learning_rate - end_learning_rate) * (1 - t) ** power + end_learning_rate, with
    t = min(s / decay_steps, 1); with ``cycle``, decay_steps * max(1, ceil(s / decay_steps)) stands
    for ``decay_steps``.

    Raises:
        ValueError: a number out of its range. TypeError: an argument of a wrong type.

    >>> PolynomialDecay(0.1, decay_steps=1000).core.end
    0.0001
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        end_learning_rate: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        name: str | None = None,
    ) -> None:
        initial = _rate("PolynomialDecay", "initial_learning_rate", initial_learning_rate)
        end = _rate("PolynomialDecay", "end_learning_rate", end_learning_rate)
        super().__init__(core.PolynomialDecay(initial, decay_steps, end, power, cycle), name)


class CosineDecay(LearningRateSchedule):
    """first * ((1 - alpha) * (1 + cos(pi * t)) / 2 + alpha) with t = min(s / decay_steps, 1), by
    Loshchilov and Hutter (2017); ``first`` is initial_learning_rate. With ``warmup_target`` it is
    that, and the decay begins after ``warmup_steps`` steps in which the rate grows linearly from
    initial_learning_rate.

    Raises:
        ValueError: a number out of its range, or one of the arguments for a warm-up alone.
        TypeError: an argument of a wrong type.

    >>> CosineDecay(0.0, decay_steps=1000, warmup_target=0.1, warmup_steps=50).core.initial
    0.1
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        alpha: float = 0.0,
        name: str | None = None,
        warmup_target: float | None = None,
        warmup_steps: int = 0,
    ) -> None:
        initial = _rate("CosineDecay", "initial_learning_rate", initial_learning_rate)
        if (warmup_target is None) != (warmup_steps == 0):
            raise ValueError(
                f"CosineDecay: warmup_target={warmup_target!r} with warmup_steps={warmup_steps!r}; "
                "a warm-up needs both, and no warm-up neither"
            )
        if warmup_target is None:
            schedule = core.CosineDecay(initial, decay_steps, alpha)
        else:
            target = _rate("CosineDecay", "warmup_target", warmup_target)
            schedule = core.CosineDecay(target, decay_steps, alpha, warmup_steps, initial)
        super().__init__(schedule, name)


__all__ = [
    "CosineDecay",
    "ExponentialDecay",
    "LearningRateSchedule",
    "PiecewiseConstantDecay",
    "PolynomialDecay",
]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
