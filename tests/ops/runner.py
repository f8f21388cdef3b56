"""Run a case of the table in FlexFlow and in PyTorch, forward and backward.

Both compute sum(output * upstream) over all float outputs, with random upstream factors, so that
the gradient that flows into the operator is a random tensor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from draws import normal
from table import Case, Row

from flexflow.core import CompMode, FFConfig, FFModel, LossType, Strategy, Tensor
from flexflow.core.types import is_floating

torch.set_num_threads(1)  # the pools of two frameworks in one process slow each other


@dataclass
class Result:
    """Arrays by name: outputs "y0", ..., and gradients of "x0", ... and of weights."""

    outputs: dict[str, np.ndarray]
    gradients: dict[str, np.ndarray]


class Trial:
    """A case with its operator built into a model of a dtype on a kind of device."""

    def __init__(
        self, row: Row, case: Case, dtype: str, device: str, splits: Mapping[str, int] | None = None
    ) -> None:
        self.case, self.dtype = case, dtype
        self.seed = f"{row.op}[{case}]"
        self.model = FFModel(FFConfig(device=device))
        self.arrays = [d.of(dtype, f"{self.seed}/x{i}") for i, d in enumerate(case.inputs)]
        self.inputs = [self._source(i, array) for i, array in enumerate(self.arrays)]
        attrs = {**case.attrs, **({"dtype": dtype} if row.typed else {})}
        count = row.output_count(case)
        self.outputs = self.model.op(row.op, self.inputs, "op", outputs=count, **attrs)
        self.strategy = None
        if splits:
            self.strategy = Strategy(math.prod(splits.values())).split("op", **splits)
        # Scalars among the inputs are parameters, too.
        layer, given = self.outputs[0].owner_op, {x.id for x in self.inputs}
        self.weights = [w for w in layer.get_parameters() if w.id not in given]
        self.weight_arrays = []
        for weight in self.weights:
            name = weight.name.rpartition("/")[2]
            array = row.weight(name, weight.dims).of(dtype, f"{self.seed}/{name}")
            weight.set_weights(self.model, array)
            self.weight_arrays.append(array)
        self.upstream = {
            k: normal(*y.dims).of(dtype, f"{self.seed}/dy{k}")
            for k, y in enumerate(self.outputs)
            if is_floating(y.data_type)
        }

    def _source(self, number: int, array: np.ndarray) -> Tensor:
        """An input; a scalar has no batch, so it is a weight."""
        draw = self.case.inputs[number]
        dtype = self.dtype if draw.dtype == "float" else draw.dtype
        if array.ndim:
            return self.model.create_tensor(array.shape, dtype, name=f"x{number}")
        scalar = self.model.create_parameter([], dtype, name=f"x{number}")
        scalar.set_weights(self.model, array)
        return scalar

    def _write_inputs(self) -> None:
        # The first input last: its rows are the batch of the next run.
        for tensor, array in reversed(list(zip(self.inputs, self.arrays))):
            if tensor.is_input:
                tensor.set_tensor(self.model, array)

    def infer(self) -> list[np.ndarray]:
        """The outputs in inference mode."""
        self.model.compile(
            comp_mode=CompMode.INFERENCE, output=self.outputs[0], strategy=self.strategy
        )
        self._write_inputs()
        self.model.forward()
        return [y.get_tensor() for y in self.outputs]

    def train(self) -> Result:
        """Outputs in training mode and gradients."""
        model = self.model
        terms = [
            model.reduce_sum(model.multiply(self.outputs[k], self._constant(k)), [])
            for k in self.upstream
        ]
        total = terms[0]
        for term in terms[1:]:
            total = model.add(total, term)
        output = model.reshape(total, [1])
        model.compile(loss_type=LossType.LOSS_IDENTITY, output=output, strategy=self.strategy)
        model.label_tensor.set_tensor(model, np.zeros(1))
        self._write_inputs()
        model.forward()
        model.backward()
        gradients = {
            f"x{i}": tensor.get_gradients()
            for i, (tensor, draw) in enumerate(zip(self.inputs, self.case.inputs))
            if draw.differentiable
        }
        gradients |= {w.name: w.get_gradients() for w in self.weights if w.trainable}
        return Result({f"y{k}": y.get_tensor() for k, y in enumerate(self.outputs)}, gradients)

    def _constant(self, output: int) -> Tensor:
        y = self.outputs[output]
        return self.model.create_constant(y.dims, self.upstream[output], y.data_type)


def expected(row: Row, trial: Trial) -> Result:
    """What PyTorch gives, in float64."""
    case = trial.case
    inputs = [_tensor(a, d.differentiable) for a, d in zip(trial.arrays, case.inputs)]
    weights = [_tensor(a, w.trainable) for a, w in zip(trial.weight_arrays, trial.weights)]
    made = row.reference(*inputs, *weights, **case.attrs)
    outputs = list(made) if isinstance(made, (list, tuple)) else [made]
    loss = sum((outputs[k] * torch.from_numpy(r).double()).sum() for k, r in trial.upstream.items())
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        loss.backward()
    names = [f"x{i}" for i in range(len(inputs))] + [w.name for w in trial.weights]
    gradients = {
        name: _gradient(tensor)
        for name, tensor in zip(names, inputs + weights)
        if tensor.requires_grad
    }
    return Result({f"y{k}": y.detach().numpy() for k, y in enumerate(outputs)}, gradients)


def _tensor(array: np.ndarray, differentiable: bool) -> torch.Tensor:
    if array.dtype.kind != "f":
        return torch.from_numpy(array)
    return torch.tensor(array, dtype=torch.float64, requires_grad=differentiable)


def _gradient(tensor: Any) -> np.ndarray:
    return np.zeros(tensor.shape) if tensor.grad is None else tensor.grad.numpy()
