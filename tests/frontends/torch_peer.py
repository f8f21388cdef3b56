"""PyTorch as the judge of what a front end built: outputs, gradients, and training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from flexflow.core import FFConfig, FFModel, LossType, SGDOptimizer, Tensor

# The largest difference from PyTorch's, relative to the largest value of the array.
TOLERANCES = {"float64": 1e-9, "float32": 2e-5}
DEVICES = {"float64": "reference", "float32": "cpu"}
LR = 0.0625  # exact in float32 too

# Adds a network to a model: the tensors for its results, and its weights by PyTorch's names.
Build = Callable[[FFModel, Sequence[Tensor]], tuple[list[Tensor], Mapping[str, Tensor]]]


def assert_close(got: np.ndarray, expected: np.ndarray, tolerance: float, what: str) -> None:
    """Equal shapes, and values equal up to a tolerance relative to the largest."""
    assert got.shape == expected.shape, f"{what}: {got.shape} is not {expected.shape}"
    scale = max(1.0, np.abs(expected).max(initial=0))
    difference = np.abs(got - expected).max(initial=0) / scale
    assert difference <= tolerance, f"{what}: differs by {difference:.2e}"


class Peers:
    """One network in PyTorch and in FlexFlow, fed with the same inputs.

    Args:
        module: PyTorch's network; it is copied, as its weights are trained.
        inputs: arrays; those of floats are converted to ``dtype``.
        build: makes FlexFlow's network from the copy.
    """

    def __init__(
        self,
        module: nn.Module,
        inputs: Sequence[Any],
        build: Callable[[nn.Module], Build],
        dtype: str = "float64",
    ) -> None:
        self.tolerance = TOLERANCES[dtype]
        self.module = copy.deepcopy(module).to(getattr(torch, dtype))
        arrays = [np.asarray(one) for one in inputs]
        self.arrays = [one.astype(dtype) if one.dtype.kind == "f" else one for one in arrays]
        self.ffmodel = FFModel(FFConfig(device=DEVICES[dtype]))
        self.inputs = [
            self.ffmodel.create_tensor(one.shape, one.dtype, name=f"in{at}")
            for at, one in enumerate(self.arrays)
        ]
        self.outputs, self.weights = build(self.module)(self.ffmodel, self.inputs)

    def forward(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """PyTorch's inputs and results."""
        leaves = [torch.tensor(one, requires_grad=one.dtype.kind == "f") for one in self.arrays]
        results = self.module(*leaves)
        return leaves, torch.utils._pytree.tree_leaves(results)

    def check(self, steps: int = 3) -> None:
        """Compare all results; then loss, gradients and weights of some steps of training on the
        first one."""
        state = copy.deepcopy(self.module.state_dict())
        _, expected = self.forward()
        self.module.load_state_dict(state)
        assert len(self.outputs) == len(expected)
        before = {name: weight.get_tensor() for name, weight in self.weights.items()}
        for at, (ours, theirs) in list(enumerate(zip(self.outputs, expected)))[::-1]:
            self.compile(ours)
            self.feed(np.zeros(ours.dims, ours.dtype))
            self.ffmodel.forward()
            self.close(ours.get_tensor(), theirs, f"output {at}")
        for name, weight in self.weights.items():  # a forward in training mode moves statistics
            weight.set_tensor(self.ffmodel, before[name])
        if expected[0].is_floating_point():
            self.train(steps)

    def train(self, steps: int) -> None:
        """Steps on the squared difference from a fixed label."""
        label = np.random.default_rng(5).normal(size=self.outputs[0].dims)
        label = label.astype(self.outputs[0].dtype)
        parameters = [one for one in self.module.parameters() if one.requires_grad]
        optimizer = torch.optim.SGD(parameters, lr=LR) if parameters else None
        self.compile(self.outputs[0])
        for step in range(steps):
            self.module.zero_grad()
            leaves, results = self.forward()
            loss = nn.functional.mse_loss(results[0], torch.tensor(label))
            loss.backward()
            self.feed(label)
            self.ffmodel.reset_metrics()
            self.ffmodel.forward()
            self.ffmodel.zero_gradients()
            self.ffmodel.backward()
            self.close(np.array(self.ffmodel.get_perf_metrics().loss), loss, f"loss {step}")
            self.check_gradients(leaves, f"of step {step}")
            if optimizer:
                optimizer.step()
            self.ffmodel.update()
            self.check_weights(f"after step {step}")

    def compile(self, output: Tensor) -> None:
        """Training on an output, with a loss that takes any shape."""
        loss = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
        self.ffmodel.compile(SGDOptimizer(self.ffmodel, lr=LR), loss, output=output)

    def feed(self, label: np.ndarray) -> None:
        """Write the inputs and the label."""
        for tensor, array in zip(self.inputs, self.arrays):
            tensor.set_tensor(self.ffmodel, array)
        self.ffmodel.label_tensor.set_tensor(self.ffmodel, label)

    def check_gradients(self, leaves: Sequence[torch.Tensor], when: str) -> None:
        """Gradients of inputs and of weights."""
        for tensor, leaf in zip(self.inputs, leaves):
            if leaf.grad is not None:
                self.close(tensor.get_gradients(), leaf.grad, f"gradient of {tensor.name} {when}")
        for name, parameter in self.module.named_parameters():
            if parameter.grad is not None and name in self.weights:
                ours = self.weights[name].get_gradients()
                self.close(ours, parameter.grad, f"gradient of {name} {when}")

    def check_weights(self, when: str) -> None:
        """Weights and running statistics."""
        state = self.module.state_dict()
        for name, weight in self.weights.items():
            self.close(weight.get_tensor(), state[name], f"{name} {when}")

    def close(self, got: np.ndarray, expected: torch.Tensor, what: str) -> None:
        """See assert_close."""
        assert_close(got, expected.detach().to_dense().numpy(), self.tolerance, what)
