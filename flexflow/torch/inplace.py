"""Operators that change a tensor in place. Values never change here: the changed tensor's node
takes a new one.

That is right as long as nobody looks at the same memory under another name, so a view of it that is
used later is refused.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx, nn

from flexflow.torch.rows import UnsupportedError

_OPERATORS = {operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow}

# What may return its input's memory: methods and functions by name, modules by class.
_VIEWS = {
    *("broadcast_to", "chunk", "contiguous", "cpu", "double", "dropout", "expand", "expand_as"),
    *("flatten", "float", "getattr", "getitem", "half", "narrow", "permute", "reshape"),
    *("reshape_as", "select", "split", "squeeze", "swapaxes", "swapdims", "t", "to", "transpose"),
    *("type_as", "unbind", "unflatten", "unsqueeze", "view", "view_as"),
    *("Dropout", "Flatten", "Identity", "Unflatten"),
}


def is_inplace(node: fx.Node) -> bool:
    """Whether a call changes its first argument."""
    if node.op == "call_module":
        return bool(getattr(_module(node), "inplace", False))
    name = _name(node)
    return (
        node.target in _OPERATORS
        or bool(node.kwargs.get("inplace", False))
        or (name.endswith("_") and not name.endswith("__"))
    )


def changed(node: fx.Node, value: Any) -> fx.Node:
    """The node whose tensor a call in place changes.

    Args:
        node: the call.
        value: what it changes.

    Raises:
        UnsupportedError: the change would be seen elsewhere: in the module's own tensors, or
            through a view.
    """
    if isinstance(value, torch.Tensor):
        raise UnsupportedError("it changes a parameter, a buffer or a constant in place")
    place = {other: at for at, other in enumerate(node.graph.nodes)}
    target = node.all_input_nodes[0]
    older = [other for other in _aliases(target, node) if place[other] < place[node]]
    for other in older:
        if any(place[user] > place[node] for user in other.users):
            raise UnsupportedError(
                f"it works in place on '{target.name}', of which the view '{other.name}' is used "
                "later"
            )
    return target


def _aliases(target: fx.Node, without: fx.Node) -> set[fx.Node]:
    """The nodes that may share a node's memory, itself and one more left out."""
    seen, waiting = {target, without}, [target]
    while waiting:
        node = waiting.pop()
        near = [user for user in node.users if _shares(user, node)]
        near += [source for source in node.all_input_nodes if _shares(node, source)]
        waiting += [one for one in near if one not in seen]
        seen.update(near)
    return seen - {target, without}


def _shares(node: fx.Node, source: fx.Node) -> bool:
    """Whether a call may return the memory of its first argument, which is ``source``."""
    if not node.all_input_nodes or node.all_input_nodes[0] is not source:
        return False
    return _name(node) in _VIEWS or is_inplace(node)


def _name(node: fx.Node) -> str:
    if node.op == "call_module":
        return type(_module(node)).__name__
    return str(getattr(node.target, "__name__", node.target))


def _module(node: fx.Node) -> nn.Module:
    owner = node.graph.owning_module
    assert owner is not None
    return owner.get_submodule(str(node.target))
