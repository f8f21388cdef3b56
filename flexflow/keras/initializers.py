"""Initial values of weights, drawn when a layer is built.

An initializer is called with a shape in Keras's layout and returns a float32 array; any callable
that does so can be given in its place. Formulas and names are Keras's; "normal" of the scaled ones
means a normal distribution cut off at two standard deviations, widened so that the variance is the
one asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Union

import numpy as np

from flexflow.keras import backend, surface

# The standard deviation of a standard normal distribution that is cut off at -2 and 2.
_CUT_STDDEV = 0.87962566103423978

InitializerLike = Union[str, "Initializer", Callable[..., Any]]


class Initializer:
    """Base of all initializers: a subclass draws in ``sample``.

    Args:
        seed: None for another draw at every call, or an int for the same one.
    """

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer))):
            raise TypeError(f"{type(self).__name__}: seed={seed!r}, expected an int or None")
        self.seed = seed

    def __call__(self, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
        seed = backend.next_seed() if self.seed is None else self.seed
        return np.asarray(self.sample(np.random.default_rng(seed), tuple(shape)), dtype=dtype)

    def sample(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} does not define sample(random, shape)")


class Constant(Initializer):
    """One value everywhere.

    >>> Constant(2.0)((3,))
    array([2., 2., 2.], dtype=float32)
    """

    def __init__(self, value: float = 0.0) -> None:
        super().__init__()
        self.value = value

    def sample(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return np.full(shape, self.value)


class Zeros(Constant):
    """Zeros.

    >>> Zeros()((2,))
    array([0., 0.], dtype=float32)
    """

    def __init__(self) -> None:
        super().__init__(0.0)


class Ones(Constant):
    """Ones.

    >>> Ones()((2,))
    array([1., 1.], dtype=float32)
    """

    def __init__(self) -> None:
        super().__init__(1.0)


class RandomUniform(Initializer):
    """Uniform in [minval, maxval).

    >>> bool(abs(RandomUniform(-0.1, 0.1, seed=0)((100,))).max() < 0.1)
    True
    """

    def __init__(
        self, minval: float = -0.05, maxval: float = 0.05, seed: int | None = None
    ) -> None:
        super().__init__(seed)
        if not minval <= maxval:
            raise ValueError(f"RandomUniform: minval={minval} is above maxval={maxval}")
        self.minval, self.maxval = minval, maxval

    def sample(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return random.uniform(self.minval, self.maxval, shape)


class RandomNormal(Initializer):
    """Normal with a mean and a standard deviation.

    >>> RandomNormal(stddev=0.01, seed=0)((4, 5)).shape
    (4, 5)
    """

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None) -> None:
        super().__init__(seed)
        if stddev < 0:
            raise ValueError(f"{type(self).__name__}: stddev={stddev}, expected a number >= 0")
        self.mean, self.stddev = mean, stddev

    def sample(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return random.normal(self.mean, self.stddev, shape)


class TruncatedNormal(RandomNormal):
    """Normal, where values more than two standard deviations from the mean are drawn again.

    >>> bool(abs(TruncatedNormal(stddev=0.5, seed=0)((1000,))).max() <= 1)
    True
    """

    def sample(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        draws = random.standard_normal(shape)
        while (outside := np.abs(draws) > 2).any():
            draws[outside] = random.standard_normal(int(outside.sum()))
        return self.mean + self.stddev * draws


class VarianceScaling(Initializer):
    """A variance of scale / n, with n the fan in, the fan out or their mean.

    Args:
        scale: above 0.
        mode: ``"fan_in"``, ``"fan_out"`` or ``"fan_avg"``.
        distribution: ``"truncated_normal"``, ``"untruncated_normal"`` or ``"uniform"``.
        seed: None for another draw at every call.

    >>> VarianceScaling(2.0, "fan_in", "uniform", seed=0)((3, 3, 8, 16)).shape
    (3, 3, 8, 16)
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
    ) -> None:
        super().__init__(seed)
        if scale <= 0:
            raise ValueError(f"VarianceScaling: scale={scale}, expected a number above 0")
        modes = ("fan_in", "fan_out", "fan_avg")
        if mode not in modes:
            raise ValueError(f"VarianceScaling: mode={mode!r}, expected one of {modes}")
        kinds = ("truncated_normal", "untruncated_normal", "uniform")
        if distribution not in kinds:
            raise ValueError(
                f"VarianceScaling: distribution={distribution!r}, expected one of {kinds}"
            )
        self.scale, self.mode, self.distribution = scale, mode, distribution

    def sample(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        fan_in, fan_out = compute_fans(shape)
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        stddev = math.sqrt(self.scale / max(fan, 1.0))
        if self.distribution == "uniform":
            limit = math.sqrt(3) * stddev
            return random.uniform(-limit, limit, shape)
        if self.distribution == "untruncated_normal":
            return random.normal(0.0, stddev, shape)
        return TruncatedNormal(0.0, stddev / _CUT_STDDEV).sample(random, shape)


def compute_fans(shape: tuple[int, ...]) -> tuple[float, float]:
    """How many values enter and leave one unit of a weight in Keras's layout: (…window, in, out).

    >>> compute_fans((3, 3, 8, 16))
    (72, 144)
    """
    if len(shape) < 2:
        size = shape[0] if shape else 1
        return size, size
    window = math.prod(shape[:-2])
    return window * shape[-2], window * shape[-1]


def _scaled(name: str, scale: float, mode: str, distribution: str) -> type[VarianceScaling]:
    """A class that is VarianceScaling with everything but the seed decided."""

    def __init__(self: VarianceScaling, seed: int | None = None) -> None:  # noqa: N807
        VarianceScaling.__init__(self, scale, mode, distribution, seed)

    doc = f"""VarianceScaling({scale}, {mode!r}, {distribution!r}).

    >>> {name}(seed=0)((4, 5)).shape
    (4, 5)
    """
    return type(
        name, (VarianceScaling,), {"__init__": __init__, "__doc__": doc, "__module__": __name__}
    )


GlorotUniform = _scaled("GlorotUniform", 1.0, "fan_avg", "uniform")
GlorotNormal = _scaled("GlorotNormal", 1.0, "fan_avg", "truncated_normal")
HeUniform = _scaled("HeUniform", 2.0, "fan_in", "uniform")
HeNormal = _scaled("HeNormal", 2.0, "fan_in", "truncated_normal")
LecunUniform = _scaled("LecunUniform", 1.0, "fan_in", "uniform")
LecunNormal = _scaled("LecunNormal", 1.0, "fan_in", "truncated_normal")


class Orthogonal(Initializer):
    """A matrix of orthonormal columns or, if it is wider than high, rows, drawn evenly from all
    there are, by the QR decomposition of a random matrix (Saxe et al., 2014); of a higher rank, the
    axes before the last are one.

    Args:
        gain: multiplies it.
        seed: as of Initializer.

    Raises:
        ValueError: a shape of rank below 2.

    >>> matrix = Orthogonal(seed=0)((5, 3))
    >>> np.allclose(matrix.T @ matrix, np.eye(3), atol=1e-6)
    True
    """

    def __init__(self, gain: float = 1.0, seed: int | None = None) -> None:
        super().__init__(seed)
        self.gain = gain

    def sample(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        if len(shape) < 2:
            raise ValueError(f"Orthogonal: got the shape {shape}, expected a matrix")
        rows, columns = math.prod(shape[:-1]), shape[-1]
        q, r = np.linalg.qr(random.normal(size=(max(rows, columns), min(rows, columns))))
        q = q * np.sign(np.diag(r))  # QR itself prefers some signs
        return self.gain * (q if rows >= columns else q.T).reshape(shape)


_BY_NAME: dict[str, type[Initializer]] = {
    "zeros": Zeros,
    "ones": Ones,
    "constant": Constant,
    "uniform": RandomUniform,
    "normal": RandomNormal,
    "random_uniform": RandomUniform,
    "random_normal": RandomNormal,
    "truncated_normal": TruncatedNormal,
    "variance_scaling": VarianceScaling,
    "glorot_uniform": GlorotUniform,
    "glorot_normal": GlorotNormal,
    "he_uniform": HeUniform,
    "he_normal": HeNormal,
    "lecun_uniform": LecunUniform,
    "lecun_normal": LecunNormal,
    "orthogonal": Orthogonal,
}


def get(identifier: InitializerLike, who: str = "initializer") -> Callable[..., Any]:
    """An initializer from itself, its class or its name.

    Args:
        identifier: such as ``"he_normal"``, ``"HeNormal"``, ``HeNormal(seed=1)``, or a callable of
            (shape, dtype).
        who: the argument that is being read, for messages.

    Raises:
        ValueError: there is no initializer of this name.
        TypeError: it is neither a name nor callable.

    >>> type(get("he_normal")).__name__
    'HeNormal'
    """
    if isinstance(identifier, str):
        name = identifier if identifier in _BY_NAME else backend.snake_case(identifier)
        if name not in _BY_NAME:
            raise ValueError(
                f"{who}={identifier!r} is unknown; known are {', '.join(sorted(_BY_NAME))}"
            )
        return _BY_NAME[name]()
    if isinstance(identifier, type) and issubclass(identifier, Initializer):
        return identifier()
    if callable(identifier):
        return identifier
    raise TypeError(
        f"{who}={identifier!r}: expected a name, an Initializer or a callable of (shape, dtype)"
    )


__all__ = [
    "Constant",
    "GlorotNormal",
    "GlorotUniform",
    "HeNormal",
    "HeUniform",
    "Initializer",
    "LecunNormal",
    "LecunUniform",
    "Ones",
    "Orthogonal",
    "RandomNormal",
    "RandomUniform",
    "TruncatedNormal",
    "VarianceScaling",
    "Zeros",
    "get",
]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
