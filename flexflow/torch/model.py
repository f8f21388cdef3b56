"""PyTorch's front end: a module is traced by torch.fx, and each of its operators is lowered by a
row of a table.

Nothing here needs PyTorch until a PyTorchModel is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flexflow.core import FFModel, Tensor

if TYPE_CHECKING:
    from torch import nn


class PyTorchModel:
    """A PyTorch module that can be built into an FFModel.

    The module is taken as it stands: its weights, its running statistics, and the mode of each of
    its parts. What is in training mode drops out and normalises by the batch while FlexFlow trains,
    and does not while it evaluates or predicts; what is in ``eval()`` mode never does, so that a
    frozen BatchNorm stays frozen.

    Args:
        model: a ``torch.nn.Module`` that torch.fx can trace, or a ``torch.fx.GraphModule``. (In
            one from ``torch.fx.symbolic_trace()``, ``x += y`` has become ``x = x + y``.)

    Raises:
        ImportError: PyTorch is not installed.
        TypeError: ``model`` is no module.
        ValueError: torch.fx cannot trace it; the message says where it stopped.

    Attributes:
        model: the module.
        weights: after ``torch_to_ff``, the tensors here for the module's parameters and buffers, by
            their names in ``state_dict()``; of those that are one, the first name.

    >>> import torch
    >>> from flexflow.core import DataType, FFConfig, FFModel
    >>> net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    >>> ffmodel = FFModel(FFConfig())
    >>> x = ffmodel.create_tensor([32, 8], DataType.DT_FLOAT)
    >>> importer = PyTorchModel(net)
    >>> [y.dims for y in importer.torch_to_ff(ffmodel, [x])]
    [(32, 4)]
    >>> ffmodel.get_layer_by_name("2").kind
    'linear'
    >>> sorted(importer.weights)
    ['0.bias', '0.weight', '2.bias', '2.weight']
    """

    def __init__(self, model: nn.Module) -> None:
        try:
            import torch
        except ImportError as error:
            raise ImportError(
                "flexflow.torch needs PyTorch: pip install 'flexflow[torch]'"
            ) from error
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"PyTorchModel: got {model!r}, expected a torch.nn.Module")
        from flexflow.torch.tracing import trace

        self.model = model
        self._traced = trace(model)
        self.weights: dict[str, Tensor] = {}

    def torch_to_ff(
        self, ffmodel: FFModel, input_tensors: Tensor | Sequence[Tensor], verbose: bool = False
    ) -> list[Tensor]:
        """Add the module's operators to a model, and its weights with their values.

        Operators are named as the module's parts are (``layer1.0.conv``), those of functions as
        torch.fx names them (``add_1``); weights have the names of ``state_dict()``
        (``layer1.0.conv.weight``). A weight that is used twice is one weight. A parameter with
        ``requires_grad=False`` is not trained. Sizes that the module asks for are those of
        ``input_tensors``.

        Args:
            ffmodel: the model to add to. After an error it holds a part of the module: start with a
                new one.
            input_tensors: for the arguments of the module's ``forward``, in their order; one tensor
                need not be in a list.
            verbose: print each node of the traced graph.

        Returns:
            The tensors that ``forward`` returns; those in tuples, lists and dicts one after the
            other.

        Raises:
            TypeError: something else than tensors of the model.
            ValueError: too many or too few tensors, or shapes that an operator cannot take.
            NotImplementedError: parts of the module that are not supported; the message lists every
                one.
        """
        from flexflow.torch.importer import Importer

        if not isinstance(ffmodel, FFModel):
            raise TypeError(
                f"torch_to_ff: ffmodel is {type(ffmodel).__name__}, expected an FFModel to add to"
            )
        importer = Importer(self.model, self._traced, ffmodel)
        inputs = [input_tensors] if isinstance(input_tensors, Tensor) else input_tensors
        if not isinstance(inputs, (list, tuple)):
            raise TypeError(
                f"torch_to_ff: input_tensors is {type(inputs).__name__}, expected a list of what "
                "ffmodel.create_tensor() returned, one for each argument of forward"
            )
        outputs, self.weights = importer.run(list(inputs), verbose)
        return outputs
