"""Operators that change a tensor in place. Values never change here: the nodes that stand for the
changed tensor take a new one.

That is right as long as nobody looks at the same memory under another name, so a view of it that is
used later is refused.
"""

from __future__ import annotations

import operator
from typing import Any, Callable

import torch
from torch import fx, nn

from flexflow.torch.rows import FUNCTIONS, UnsupportedError

# What Python calls for x += y and its like, as far as tensors have it.
AUGMENTED = {
    *(operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv),
    *(operator.imod, operator.ipow, operator.iand, operator.ior, operator.ixor),
    *(operator.ilshift, operator.irshift),
}
# What may return its input's memory: methods and functions by name, modules by class.
_VIEWS = {
    *("as_strided", "broadcast_to", "chunk", "contiguous", "cpu", "detach", "diagonal", "double"),
    *("dropout", "expand", "expand_as", "flatten", "float", "getattr", "getitem", "half"),
    *("movedim", "narrow", "permute", "reshape", "reshape_as", "select", "split", "squeeze"),
    *("swapaxes", "swapdims", "t", "to", "transpose", "type_as", "unbind", "unflatten", "unfold"),
    *("unsqueeze", "view", "view_as", "Dropout", "Flatten", "Identity", "Unflatten"),
}
# Those of them whose results share nothing with each other.
_PARTS = {"chunk", "split", "unbind"}
# Constants that belong to nobody else.
_FRESH = {
    *("zeros", "ones", "full", "zeros_like", "ones_like", "full_like"),
    *("new_zeros", "new_ones", "new_full", "new_tensor", "clone"),
}


def is_inplace(node: fx.Node) -> bool:
    """Whether a call changes its first argument, if that is a tensor."""
    if node.op == "call_module":
        return bool(getattr(_module(node), "inplace", False))
    name = _name(node)
    if getattr(node.target, "__module__", None) == operator.add.__module__:  # such as and_
        return node.target in AUGMENTED
    return _asks_for_it(node) or (name.endswith("_") and not name.endswith("__"))


def _asks_for_it(node: fx.Node) -> bool:
    """Whether a function is told to work in place, by keyword or by position."""
    row = FUNCTIONS.get(node.target) if callable(node.target) else None
    names = list(row.signature.parameters) if row else []
    by_position = dict(zip(names, node.args))
    return bool({**by_position, **node.kwargs}.get("inplace", False))


def changed(node: fx.Node, value: Any) -> list[fx.Node]:
    """The nodes that stand for the tensor that a call in place changes: the one that it is called
    on, and those that other calls in place made of it.

    Args:
        node: the call.
        value: what it changes.

    Raises:
        UnsupportedError: the change would be seen elsewhere: in the module's own tensors, or
            through a view.
    """
    place = {other: at for at, other in enumerate(node.graph.nodes)}
    target = node.all_input_nodes[0]
    same = [target, *_reach(target, node, is_inplace)]
    if isinstance(value, torch.Tensor) and not any(_name(one) in _FRESH for one in same):
        raise UnsupportedError("it changes a parameter, a buffer or a constant in place")
    for other in _reach(target, node, _shares):
        late = any(place[user] > place[node] for user in other.users)
        if late and place[other] < place[node] and other not in same:
            raise UnsupportedError(
                f"it works in place on '{target.name}', of which the view '{other.name}' is used "
                "later; let it return a new tensor, as x = x + y does"
            )
    return [one for one in same if place[one] < place[node]]


def _reach(target: fx.Node, without: fx.Node, links: Callable[[fx.Node], bool]) -> list[fx.Node]:
    """The other nodes that lead to a node, or that it leads to, by calls of which ``links`` says
    that they may return the memory of their first argument; one node is left out."""
    seen, waiting = [target, without], [target]
    while waiting:
        node = waiting.pop()
        near = [user for user in node.users if links(user) and user.all_input_nodes[0] is node]
        if _name(node) in _PARTS:
            # Reached from one of its parts: the others are other memory.
            near = [
                user for user in near if all(_is_part(user, one) for one in seen if one in near)
            ]
        near += node.all_input_nodes[:1] if links(node) else []
        near = [one for one in near if one not in seen]
        waiting += near
        seen += near
    return seen[2:]


def _is_part(one: fx.Node, other: fx.Node) -> bool:
    return one.args[1:] == other.args[1:]


def _shares(node: fx.Node) -> bool:
    """Whether a call may return the memory of its first argument."""
    return _name(node) in _VIEWS or is_inplace(node)


def _name(node: fx.Node) -> str:
    if node.op == "call_module":
        return type(_module(node)).__name__
    return str(getattr(node.target, "__name__", node.target))


def _module(node: fx.Node) -> nn.Module:
    owner = node.graph.owning_module
    assert owner is not None
    return owner.get_submodule(str(node.target))
