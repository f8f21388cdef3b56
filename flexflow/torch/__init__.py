"""PyTorch's front end: ``PyTorchModel(module).torch_to_ff(ffmodel, inputs)`` builds a module into
an FFModel."""

from flexflow.torch.model import PyTorchModel

__all__ = ["PyTorchModel"]
