"""How weights begin. An initializer is a value: a name that the library knows, and its numbers.

``seed`` is an integer >= 0 (0 is a seed like any other) or None for the model's own. The same seed
draws the same numbers on any number of devices and in any type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from flexflow.core.checks import integer, real


class Initializer:
    """What all initializers have in common.

    >>> GlorotUniformInitializer(42).attributes()
    {'initializer': 'glorot_uniform', 'seed': 42}
    """

    name: ClassVar[str]

    def attributes(self) -> dict[str, Any]:
        """The attributes of a weight that begins so."""
        return {"initializer": self.name, **vars(self)}


@dataclass(frozen=True)
class _Drawn(Initializer):
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None:
            integer(self.seed, f"{type(self).__name__}: seed", 0)


class GlorotUniformInitializer(_Drawn):
    """Uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010)."""

    name = "glorot_uniform"


class GlorotNormalInitializer(_Drawn):
    """Truncated normal of standard deviation sqrt(2 / (fan_in + fan_out))
    (Glorot and Bengio, 2010)."""

    name = "glorot_normal"


class HeUniformInitializer(_Drawn):
    """Uniform in +-sqrt(6 / fan_in) (He et al., 2015)."""

    name = "he_uniform"


class HeNormalInitializer(_Drawn):
    """Truncated normal of standard deviation sqrt(2 / fan_in) (He et al., 2015)."""

    name = "he_normal"


class LecunUniformInitializer(_Drawn):
    """Uniform in +-sqrt(3 / fan_in) (LeCun et al., 1998)."""

    name = "lecun_uniform"


class LecunNormalInitializer(_Drawn):
    """Truncated normal of standard deviation sqrt(1 / fan_in) (LeCun et al., 1998)."""

    name = "lecun_normal"


@dataclass(frozen=True)
class UniformInitializer(_Drawn):
    """Uniform in [minv, maxv).

    >>> UniformInitializer(12, -1, 1)
    UniformInitializer(seed=12, minv=-1, maxv=1)
    """

    name = "uniform"
    minv: float = -0.05
    maxv: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        who = "UniformInitializer: "
        if real(self.minv, f"{who}minv") > real(self.maxv, f"{who}maxv"):
            raise ValueError(f"{self!r}: minv must not be above maxv")

    def attributes(self) -> dict[str, Any]:
        """The attributes of a weight that begins so."""
        numbers = {"seed": self.seed, "low": self.minv, "high": self.maxv}
        return {"initializer": self.name, **numbers}


@dataclass(frozen=True)
class NormInitializer(_Drawn):
    """Normal with a mean and a standard deviation >= 0."""

    name = "normal"
    mean: float = 0.0
    stddev: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        real(self.mean, f"{type(self).__name__}: mean")
        real(self.stddev, f"{type(self).__name__}: stddev", 0)


class TruncatedNormalInitializer(NormInitializer):
    """Normal, drawn again where it is more than two standard deviations from the mean."""

    name = "truncated_normal"


@dataclass(frozen=True)
class ConstantInitializer(Initializer):
    """One value everywhere."""

    name = "constant"
    value: float = 0.0

    def __post_init__(self) -> None:
        real(self.value, "ConstantInitializer: value")


class ZeroInitializer(Initializer):
    """Zeros."""

    name = "zeros"


class OneInitializer(Initializer):
    """Ones."""

    name = "ones"
