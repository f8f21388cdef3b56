"""The walk over a traced graph: a value for every node, and a list of all that is not supported."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Callable

import torch
from torch import fx, nn

from flexflow.core import FFModel, FlexFlowError, Tensor
from flexflow.torch import elementwise, inplace, layers, products, recurrent, reductions, shapes
from flexflow.torch.builder import Builder, Missing, dtype, is_tensor
from flexflow.torch.rows import FUNCTIONS, METHODS, MODULES, Row, UnsupportedError, module_arguments
from flexflow.torch.tracing import Draws, unseen

# Importing a family of rows fills the tables.
FAMILIES = (elementwise, layers, products, recurrent, reductions, shapes)


class Importer:
    """One import of one traced module into one model."""

    def __init__(self, model: nn.Module, root: fx.GraphModule, ffmodel: FFModel) -> None:
        """
        Args:
            model: the module as it was given; its names are those of the weights.
            root: the module as it was traced.
        """
        self._root = root
        self._modules = dict(model.named_modules())
        named = [*model.named_buffers(), *model.named_parameters()]
        self._state = dict(named)
        self._names = {id(tensor): name for name, tensor in named}
        self._builder = Builder(ffmodel, self._names)
        self._values: dict[fx.Node, Any] = {}
        self._problems = [f"{place}: {what}" for place, what in unseen(model, root)]

    def run(self, inputs: list[Tensor], verbose: bool) -> tuple[list[Tensor], dict[str, Tensor]]:
        """See PyTorchModel: the outputs, and the weights by name."""
        self._take(inputs)
        outputs: list[Tensor] = []
        for node in self._root.graph.nodes:
            if verbose:
                print(node.format_node())
            if node.op == "output":
                outputs = self._outputs(node)
            elif node.op != "placeholder":
                self._values[node] = self._value(node)
        if self._problems:
            raise NotImplementedError(
                f"PyTorchModel: not supported, {len(self._problems)} in all:\n  "
                + "\n  ".join(self._problems)
            )
        return outputs, self._builder.weights(self._state)

    # ---- the ends ----
    def _take(self, inputs: list[Tensor]) -> None:
        """Give the arguments of forward their tensors, or their defaults."""
        nodes = [node for node in self._root.graph.nodes if node.op == "placeholder"]
        for node, tensor in zip(nodes, inputs):
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"torch_to_ff: input '{node.name}' is {type(tensor).__name__}, expected a "
                    "Tensor, which ffmodel.create_tensor() returns"
                )
            self._values[node] = tensor
        rest = nodes[len(inputs) :]
        if len(inputs) > len(nodes) or any(not node.args for node in rest):
            raise ValueError(
                f"torch_to_ff: got {len(inputs)} input tensors, expected {len(nodes)}: "
                + ", ".join(node.name for node in nodes)
            )
        self._values.update((node, node.args[0]) for node in rest)

    def _outputs(self, node: fx.Node) -> list[Tensor]:
        outputs = []
        for value in map(_scalar, _leaves(self._operands(node.args))):
            if isinstance(value, Missing):
                if value.reason:
                    self._report("the module's result", value.reason)
            elif isinstance(value, (Tensor, torch.Tensor)):
                outputs.append(self._builder.tensor(value))
            elif value is not None:
                self._report("the module's result", f"{value!r}, but only tensors are supported")
        return outputs

    # ---- a node ----
    def _value(self, node: fx.Node) -> Any:
        """The value of a node, or Missing when it has none; then the list of problems says why."""
        if node.op == "get_attr":
            return _attribute(self._root, str(node.target))
        self._builder.name = str(node.target) if node.op == "call_module" else node.name
        self._builder.training = self._modules.get(_owner(node), self._modules[""]).training
        try:
            return self._fold(node) if self._is_constant(node) else self._lower(node)
        except UnsupportedError as error:
            self._report(_place(node, self._root), str(error))
            return Missing()
        except (ValueError, TypeError, IndexError, FlexFlowError) as error:
            raise type(error)(f"{_place(node, self._root)}: {error}") from error

    def _lower(self, node: fx.Node) -> Any:
        """Lower an operator by its row."""
        row = self._row(node)
        given = {}
        if node.op == "call_module":
            given = module_arguments(row, self._root.get_submodule(str(node.target)))
        args, kwargs = self._operands(node.args, _scalar), self._operands(node.kwargs, _scalar)
        bound = row.bind(args, {**given, **kwargs})
        refusals = list(row.refusals(bound))
        missing = self._missing(node)
        refusals += [one.reason for one in missing if one.reason]
        if refusals:
            raise UnsupportedError("; ".join(refusals))
        if missing:
            return Missing(constant=shapes.is_question(row, bound.arguments))
        target = bound.args[0]
        if not (inplace.is_inplace(node) and is_tensor(target)):
            return row.lower(self._builder, *bound.args, **bound.kwargs)
        same = inplace.changed(node, target)
        value = row.lower(self._builder, *bound.args, **bound.kwargs)
        value = self._builder.cast(value, dtype(target))
        self._values.update(dict.fromkeys(same, value))
        return value

    def _row(self, node: fx.Node) -> Row:
        tables: dict[str, dict[Any, Row]] = {
            "call_function": FUNCTIONS,
            "call_method": METHODS,
            "call_module": MODULES,
        }
        key = node.target
        if node.op == "call_module":
            key = type(self._root.get_submodule(str(node.target)))
        if key not in tables[node.op]:
            raise UnsupportedError("there is no such operator here")
        return tables[node.op][key]

    # ---- constants ----
    def _is_constant(self, node: fx.Node) -> bool:
        """Whether a call depends on no input and on nothing that is learnt."""
        values = _leaves([self._values[one] for one in node.all_input_nodes])
        return node.op != "call_module" and not any(
            isinstance(one, (Tensor, nn.Parameter))
            or (isinstance(one, Missing) and not one.constant)
            for one in values
        )

    def _fold(self, node: fx.Node) -> Any:
        """The value of a constant, as Python and PyTorch compute it."""
        args, kwargs = self._operands(node.args), self._operands(node.kwargs)
        if self._missing(node):
            return Missing(constant=True)
        same: list[fx.Node] = []
        if inplace.is_inplace(node) and is_tensor(args[0]):
            same = inplace.changed(node, args[0])
            args = (args[0].clone(), *args[1:])
        with Draws() as draws:
            if node.op == "call_method":
                value = getattr(args[0], str(node.target))(*args[1:], **kwargs)
            else:
                value = node.target(*args, **kwargs)  # type: ignore[operator]
        if draws.names:
            raise UnsupportedError("it draws random numbers, which would be the same in every step")
        if isinstance(value, torch.Tensor):
            self._names[id(value)] = node.name
        self._values.update(dict.fromkeys(same, value))
        return value

    # ---- common ----
    def _operands(self, arguments: Any, form: Callable[[Any], Any] = lambda one: one) -> Any:
        """Arguments of a call, each node's value in the place of the node, in a form."""

        def value(one: Any) -> Any:
            return form(self._values[one]) if isinstance(one, fx.Node) else one

        return fx.node.map_aggregate(arguments, value)

    def _missing(self, node: fx.Node) -> list[Missing]:
        values = [self._values[one] for one in node.all_input_nodes]
        return [value for value in values if isinstance(value, Missing)]

    def _report(self, place: str, reason: str) -> None:
        self._problems.append(f"{place}: {reason}")


def _leaves(value: Any) -> Iterator[Any]:
    """What a nest of tuples, lists, dicts and slices holds."""
    if isinstance(value, (tuple, list)):
        for one in value:
            yield from _leaves(one)
    elif isinstance(value, Mapping):
        yield from _leaves(list(value.values()))
    else:
        yield value


def _scalar(value: Any) -> Any:
    """A constant of rank 0 as a number, which it is to PyTorch's rules too."""
    if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter) and not value.shape:
        return value.item()
    return value


def _attribute(root: nn.Module, target: str) -> Any:
    return functools.reduce(getattr, target.split("."), root)


def _owner(node: fx.Node) -> str:
    """The name of the module in whose code a call stands; empty for the outermost one."""
    return next(reversed(node.meta.get("nn_module_stack", {"": None})), "")


def _place(node: fx.Node, root: nn.Module) -> str:
    """What a call is and where in the module it stands."""
    if node.op == "call_module":
        return f"{type(root.get_submodule(str(node.target))).__name__} '{node.target}'"
    where = f" in '{_owner(node)}'" if _owner(node) else ""
    if node.op == "call_method":
        return f"Tensor.{node.target}() '{node.name}'{where}"
    module = str(getattr(node.target, "__module__", None) or "torch").lstrip("_")
    return f"{module}.{getattr(node.target, '__name__', node.target)}() '{node.name}'{where}"
