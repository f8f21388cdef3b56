"""Learning rates that follow the step. An optimizer takes one in place of a number; the rate is
then computed with the step, on the device, from the counter of steps that checkpoints keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar

import numpy as np

from flexflow.core.checks import boolean, integer, integers, real, shown


def _rates(values: Any, who: str) -> tuple[float, ...]:
    if not isinstance(values, (Sequence, np.ndarray)) or isinstance(values, (str, bytes)):
        raise TypeError(f"{who}: got {shown(values)}, expected a list of numbers")
    return tuple(real(value, who, 0) for value in values)


_rate = partial(real, least=0)
# What each argument of a schedule must be.
_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "initial": _rate,
    "decay_steps": partial(integer, least=1),
    "decay_rate": _rate,
    "staircase": boolean,
    "alpha": _rate,
    "end": _rate,
    "power": partial(real, least=0),
    "cycle": boolean,
    "boundaries": lambda values, who: tuple(integers(values, who)),
    "values": _rates,
    "warmup_steps": partial(integer, least=0),
    "warmup_from": _rate,
}


class Schedule:
    """What all schedules have in common: a linear warm-up, as PyTorch's LinearLR or that of Keras's
    CosineDecay. In each of the first ``warmup_steps`` steps s = 0, 1, ... the rate is
    warmup_from + (first - warmup_from) * s / warmup_steps, ``first`` being the first rate of the
    schedule itself, which begins after them.

    ``model.get_scalar("learning_rate")`` is the rate of the last step.
    """

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            who = f"{type(self).__name__}: {field.name}"
            checked = _CHECKS[field.name](getattr(self, field.name), who)
            object.__setattr__(self, field.name, checked)

    def attributes(self) -> dict[str, Any]:
        """The attributes of the operator that computes the rate."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class ExponentialDecay(Schedule):
    """initial * decay_rate ^ (s / decay_steps) in step s = 0, 1, ...; with ``staircase`` the
    quotient is rounded down. Keras's ExponentialDecay; with ``decay_steps`` 1 PyTorch's
    ExponentialLR, with ``staircase`` its StepLR.

    Raises:
        ValueError: a number out of its range. TypeError: an argument of a wrong type.

    >>> optimizer = SGDOptimizer(ffmodel, lr=ExponentialDecay(0.1, 1000, 0.96, staircase=True))
    >>> optimizer.learning_rate.decay_rate
    0.96
    """

    kind = "exponential_decay"
    initial: float
    decay_steps: int
    decay_rate: float
    staircase: bool = False
    warmup_steps: int = 0
    warmup_from: float = 0.0


@dataclass(frozen=True)
class CosineDecay(Schedule):
    """initial * ((1 - alpha) * (1 + cos(pi * t)) / 2 + alpha) in step s = 0, 1, ...,
    t = min(s / decay_steps, 1), as Loshchilov and Hutter (2017, equation 5) have it. Keras's
    CosineDecay, which calls ``initial`` warmup_target and ``warmup_from`` initial_learning_rate if
    it warms up; PyTorch's CosineAnnealingLR with T_max = decay_steps, up to there, and
    eta_min = alpha * initial.

    Raises:
        ValueError: a number out of its range. TypeError: an argument of a wrong type.

    >>> schedule = CosineDecay(0.1, decay_steps=1000, warmup_steps=100)
    >>> AdamOptimizer(ffmodel, alpha=schedule).learning_rate == schedule
    True
    """

    kind = "cosine_decay"
    initial: float
    decay_steps: int
    alpha: float = 0.0
    warmup_steps: int = 0
    warmup_from: float = 0.0


@dataclass(frozen=True)
class PolynomialDecay(Schedule):
    """(initial - end) * (1 - t) ^ power + end in step s = 0, 1, ..., t = min(s / decay_steps, 1).
    With ``cycle``, decay_steps * max(1, ceil(s / decay_steps)) stands for ``decay_steps``. Keras's
    PolynomialDecay; with ``end`` 0 PyTorch's PolynomialLR.

    Raises:
        ValueError: a number out of its range. TypeError: an argument of a wrong type.

    >>> PolynomialDecay(0.1, decay_steps=1000, end=0.001).power
    1.0
    """

    kind = "polynomial_decay"
    initial: float
    decay_steps: int
    end: float = 0.0001
    power: float = 1.0
    cycle: bool = False
    warmup_steps: int = 0
    warmup_from: float = 0.0


@dataclass(frozen=True)
class PiecewiseConstant(Schedule):
    """values[0] up to step boundaries[0] (steps count from 0, and a boundary belongs to what is
    before it), values[1] up to boundaries[1], and so on. Keras's PiecewiseConstantDecay; PyTorch's
    MultiStepLR has milestones that are larger by 1.

    Raises:
        ValueError: boundaries that do not ascend, not one value more than boundaries, or a
            negative number. TypeError: an argument of a wrong type.

    >>> PiecewiseConstant([1000, 2000], [0.1, 0.01, 0.001]).values
    (0.1, 0.01, 0.001)
    """

    kind = "piecewise_constant"
    boundaries: Sequence[int]
    values: Sequence[float]
    warmup_steps: int = 0
    warmup_from: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        steps = list(self.boundaries)
        if any(after <= before for before, after in zip(steps, steps[1:])):
            raise ValueError(f"PiecewiseConstant: boundaries are {steps}, expected them to ascend")
        if len(self.values) != len(steps) + 1:
            raise ValueError(
                f"PiecewiseConstant: got {len(self.values)} values for {len(steps)} boundaries, "
                "expected one more than boundaries"
            )

    def attributes(self) -> dict[str, Any]:
        """The attributes of the operator that computes the rate."""
        return {**super().attributes(), "values": np.array(self.values, np.float64)}
