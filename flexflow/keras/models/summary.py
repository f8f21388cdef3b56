"""The table that Model.summary() prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from flexflow.core.checks import boolean
from flexflow.core.progress import say
from flexflow.keras import backend

if TYPE_CHECKING:
    from flexflow.keras.models.functional import Model

Row = tuple[str, ...]


def summarize(
    model: Model,
    line_length: int | None,
    positions: None,
    print_fn: Callable[[str], Any] | None,
    expand_nested: bool,
    show_trainable: bool,
    layer_range: None,
) -> None:
    """Print a model; see Model.summary."""
    backend.refuse(f"{model.name}.summary", positions=positions, layer_range=layer_range)
    titles = ["Layer (type)", "Output Shape", "Param #"]
    if not _is_chain(model):
        titles.append("Connected to")
    if boolean(show_trainable, f"{model.name}.summary: show_trainable"):
        titles.append("Trainable")
    nested = boolean(expand_nested, f"{model.name}.summary: expand_nested")
    rows = list(_rows(model, nested, ""))
    rows = [tuple(row[_COLUMNS.index(title)] for title in titles) for row in rows]
    show = print_fn or say
    widths = _widths(titles, rows, line_length)
    total = sum(widths) + 2 * (len(widths) - 1)
    show(f'Model: "{model.name}"')
    show("_" * total)
    show(_line(titles, widths))
    show("=" * total)
    for row in rows:
        show(_line(row, widths))
    show("=" * total)
    trainable = sum(variable.size for variable in model.trainable_weights)
    show(f"Total params: {model.count_params():,}")
    show(f"Trainable params: {trainable:,}")
    show(f"Non-trainable params: {model.count_params() - trainable:,}")


_COLUMNS = ("Layer (type)", "Output Shape", "Param #", "Connected to", "Trainable")


def _rows(model: Any, expand_nested: bool, indent: str) -> Iterator[Row]:
    nodes = {id(node) for node in model.complete_graph().nodes}
    for layer in model.layers:
        mine = [node for node in layer.nodes if id(node) in nodes] or layer.nodes[:1]
        yield (
            f"{indent}{layer.name} ({type(layer).__name__})",
            ", ".join(str(shape) for shape, _ in mine[0].specs),
            f"{layer.count_params():,}",
            ", ".join(tensor.name for node in mine for tensor in node.inputs),
            "Y" if layer.trainable else "N",
        )
        if expand_nested and hasattr(layer, "complete_graph"):
            yield from _rows(layer, True, f"{indent}  ")


def _is_chain(model: Model) -> bool:
    """Whether each layer simply follows the one before, so that the table need not say what it is
    connected to.
    """
    nodes = model.complete_graph().nodes
    outputs = [*model.inputs, *(tensor for node in nodes for tensor in node.outputs)]
    return len(model.inputs) == 1 and all(
        len(node.inputs) == 1 and node.inputs[0] is outputs[i] for i, node in enumerate(nodes)
    )


def _widths(titles: list[str], rows: list[Row], line_length: int | None) -> list[int]:
    """As wide as the contents, or shares of line_length in the same proportions."""
    widths = [max(len(text) for text in column) for column in zip(titles, *rows)]
    if line_length is None:
        return [max(width, least) for width, least in zip(widths, (28, 22, 10, 12, 9))]
    room = max(line_length - 2 * (len(widths) - 1), 8 * len(widths))
    shares = [max(room * width // sum(widths), 4) for width in widths]
    shares[0] += room - sum(shares)
    return shares


def _line(texts: Any, widths: list[int]) -> str:
    return "  ".join(text[:width].ljust(width) for text, width in zip(texts, widths)).rstrip()
