"""Activations by Keras's names, each as a call of an FFModel.

A layer's ``activation`` is a name or None. Activations that the core joins with dense and conv2d
are given to it there; the others follow as operators of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

from flexflow.core import FFModel, Tensor
from flexflow.keras import surface

ActivationLike = Union[None, str, "Activation"]

# SELU's constants, from the paper by Klambauer and others (2017).
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


class Activation:
    """An elementwise function, or one along an axis.

    Attributes:
        name: Keras's.
        add: adds it to an FFModel: (ffmodel, tensor, axis) -> tensor; only softmax and its kind
            look at the axis.
        fused: what the core's dense and conv2d call it, or None.
    """

    def __init__(
        self, name: str, add: Callable[[FFModel, Tensor, int], Tensor], fused: str | None = None
    ) -> None:
        self.name, self.add, self.fused = name, add, fused

    def __repr__(self) -> str:
        return f"<activation {self.name}>"


def _relu6(ff: FFModel, x: Tensor, axis: int) -> Tensor:
    return ff.min(ff.relu(x), ff.create_constant((1,) * x.num_dims, 6.0, x.data_type))


_TABLE = (
    Activation("linear", lambda ff, x, axis: x, "none"),
    Activation("relu", lambda ff, x, axis: ff.relu(x), "relu"),
    Activation("sigmoid", lambda ff, x, axis: ff.sigmoid(x), "sigmoid"),
    Activation("tanh", lambda ff, x, axis: ff.tanh(x), "tanh"),
    Activation("gelu", lambda ff, x, axis: ff.gelu(x), "gelu"),
    Activation("softmax", lambda ff, x, axis: ff.softmax(x, axis)),
    Activation("log_softmax", lambda ff, x, axis: ff.log_softmax(x, axis)),
    Activation("elu", lambda ff, x, axis: ff.elu(x)),
    Activation("selu", lambda ff, x, axis: _SELU_SCALE * ff.elu(x, alpha=_SELU_ALPHA)),
    Activation("silu", lambda ff, x, axis: ff.silu(x)),
    Activation("exponential", lambda ff, x, axis: ff.exp(x)),
    Activation("leaky_relu", lambda ff, x, axis: ff.leaky_relu(x, alpha=0.2)),
    Activation("relu6", _relu6),
)
_BY_NAME = {activation.name: activation for activation in _TABLE}
_BY_NAME["swish"] = _BY_NAME["silu"]


def get(identifier: ActivationLike, who: str = "activation") -> Activation:
    """An activation from its name; None is ``"linear"``.

    Raises:
        ValueError: there is no activation of this name.
        NotImplementedError: a function of one's own.

    >>> get("relu"), get(None)
    (<activation relu>, <activation linear>)
    """
    if identifier is None:
        return _BY_NAME["linear"]
    if isinstance(identifier, Activation):
        return identifier
    if isinstance(identifier, str):
        if identifier not in _BY_NAME:
            raise ValueError(
                f"{who}: activation {identifier!r} is unknown; "
                f"known are {', '.join(sorted(_BY_NAME))}"
            )
        return _BY_NAME[identifier]
    raise NotImplementedError(
        f"{who}: activation={identifier!r} is not supported yet; "
        f"give a name: {', '.join(sorted(_BY_NAME))}"
    )


__all__ = ["Activation", "get", *sorted(_BY_NAME)]
_missing, __dir__ = surface.of_module(__name__, __all__)


def __getattr__(name: str) -> Any:
    """``activations.relu`` is the activation of that name, to be given to a layer."""
    return _BY_NAME[name] if name in _BY_NAME else _missing(name)
