"""From a module to a graph of its calls, and what such a graph does not show: hooks, a forward that
was replaced, random numbers that were drawn on the way."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.nn.modules import module as nn_module
from torch.utils._python_dispatch import TorchDispatchMode

from flexflow.torch.inplace import AUGMENTED
from flexflow.torch.rows import MODULES


class _InPlace:
    """What torch.fx's stand-ins for tensors lack: ``x += y`` as a call that changes x. Without it
    Python computes ``x = x + y``, and who else holds x does not see the change."""

    tracer: fx.Tracer


def _record(target: Any) -> Any:
    def augmented(self: _InPlace, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", target, (self, other), {})

    return augmented


for _target in AUGMENTED:
    setattr(_InPlace, f"__{_target.__name__}__", _record(_target))


class _Attribute(_InPlace, fx.proxy.Attribute):
    pass


class _Proxy(_InPlace, fx.Proxy):
    def __getattr__(self, name: str) -> _Attribute:
        return _Attribute(self, name)


class _Tracer(fx.Tracer):
    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)


class _BufferTracer(_Tracer):
    """Records what is done to buffers. Without it, code that changes one does so while it is being
    traced, and a buffer cannot be cut to a traced size."""

    proxy_buffer_attributes = True


class Draws(TorchDispatchMode):
    """Notes what draws random numbers, of PyTorch, of NumPy or of Python.

    Attributes:
        names: of what did.
    """

    def __enter__(self) -> Draws:
        self.names: list[str] = []
        self._before = _states()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        after = _states()
        self.names += [name for name in after if after[name] != self._before[name]]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.names.append(f"torch.{func.overloadpacket.__name__}")
        return func(*args, **(kwargs or {}))


def _states() -> dict[str, Any]:
    _, keys, position, *_ = np.random.get_state()
    return {"random": random.getstate(), "numpy.random": (bytes(keys), position)}


def trace(model: nn.Module) -> fx.GraphModule:
    """The module as a graph of calls; ``meta["draws"]`` names what drew random numbers meanwhile.

    Raises:
        ValueError: torch.fx cannot trace it.
    """
    if isinstance(model, fx.GraphModule):
        return model
    # torch.fx looks into the outermost module, even into a layer; in another module it is a call.
    within = nn.Sequential(OrderedDict([(type(model).__name__, model)]))
    try:
        return _trace(within if type(model) in MODULES else model, _BufferTracer())
    except Exception:  # whatever the module's code raises on a stand-in for a tensor
        pass
    try:  # code that decides by a buffer's values or shape
        return _trace(model, _Tracer())
    except Exception as error:
        if fx.Tracer().is_leaf_module(model, ""):  # PyTorch's own: there is no such operator here
            return _trace(within, _Tracer())
        raise ValueError(
            f"{type(model).__name__}: torch.fx cannot trace it: {error}. A module whose Python "
            "code depends on values or sizes of tensors must be traced by hand: pass a GraphModule"
        ) from error


def _trace(model: nn.Module, tracer: fx.Tracer) -> fx.GraphModule:
    with Draws() as draws:
        graph = tracer.trace(model)
    traced = fx.GraphModule(tracer.root, graph, type(model).__name__)
    traced.meta["draws"] = draws.names
    return traced


def unseen(model: nn.Module, root: fx.GraphModule) -> Iterator[tuple[str, str]]:
    """What a module does that its graph does not show: where, and what.

    Hooks of modules between the outermost one and the layers are in the graph: they were called
    while it was traced.

    Args:
        model: the module as it was given.
        root: the module as it was traced.
    """
    for kind in ("forward_pre", "forward", "backward_pre", "backward"):
        for hook in getattr(nn_module, f"_global_{kind}_hooks").values():
            yield "all modules", _hook(kind, hook)
    calls = [str(node.target) for node in root.graph.nodes if node.op == "call_module"]
    called = {id(root.get_submodule(name)): name for name in calls}
    for name, module in model.named_modules():
        place = f"{type(module).__name__} '{called.get(id(module), name)}'"
        kinds = ["backward_pre", "backward"]
        if module is model or id(module) in called:
            kinds += ["forward_pre", "forward"]
            if "forward" in vars(module):
                yield place, "its forward was replaced by another; derive a class from nn.Module"
        for kind in kinds:
            for hook in getattr(module, f"_{kind}_hooks").values():
                yield place, _hook(kind, hook)
    for name, parameter in model.named_parameters():
        for kind in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            for hook in (getattr(parameter, kind, None) or {}).values():
                yield f"parameter '{name}'", _hook("gradient", hook)
    for name in dict.fromkeys(root.meta.get("draws", ())):
        reason = "forward draws random numbers with it, which would be the same in every step"
        yield name, f"{reason}; use nn.Dropout, or make them an input"


def _hook(kind: str, hook: Any) -> str:
    name = getattr(hook, "__qualname__", type(hook).__name__)
    return (
        f"the {kind.replace('_', ' ')} hook {name} would not run; remove it (remove_weight_norm(), "
        "remove_spectral_norm() and prune.remove() of torch.nn.utils keep what theirs compute)"
    )
