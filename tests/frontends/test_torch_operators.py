"""Every row of the PyTorch tables, in each of its forms and with each argument, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as fn  # noqa: E402
from torch import nn  # noqa: E402
from torch_peer import Peers  # noqa: E402

from flexflow.torch.model import PyTorchModel  # noqa: E402


def r(*shape: int) -> np.ndarray:
    """Numbers around 0, none of them equal or very near to it."""
    values = np.random.default_rng(len(shape) + sum(shape)).normal(size=shape)
    return values + 0.05 * np.sign(values)


def p(*shape: int) -> np.ndarray:
    """Positive numbers."""
    return np.abs(r(*shape)) + 0.3


def i(high: int, *shape: int) -> np.ndarray:
    """Integers from 0 to less than ``high``."""
    return np.random.default_rng(high).integers(0, high, shape)


class Applied(nn.Module):
    """A function of its inputs, which have the batch as first extent, and of parameters. A result
    without the batch is mixed with rows that have it, as labels come in rows."""

    def __init__(self, function: Any, values: list[np.ndarray]) -> None:
        super().__init__()
        self.function = function
        self.batched = [len(one) == len(values[0]) for one in values]
        self.inputs = [one for one, batched in zip(values, self.batched) if batched]
        for at, (one, batched) in enumerate(zip(values, self.batched)):
            if not batched:
                self.register_parameter(f"p{at}", nn.Parameter(torch.tensor(one)))
        result = function(*map(torch.tensor, values))
        self.mix = isinstance(result, torch.Tensor) and len(result) != len(values[0])

    def forward(self, a: Any, b: Any = None, c: Any = None) -> Any:
        inputs = iter((a, b, c))
        result = self.function(
            *(
                next(inputs) if batched else getattr(self, f"p{at}")
                for at, batched in enumerate(self.batched)
            )
        )
        return a.flatten(1)[:, :1] * result.reshape(1, -1) if self.mix else result


def build(module: Any) -> Any:
    def into(ffmodel: Any, inputs: Any) -> Any:
        importer = PyTorchModel(module)
        return importer.torch_to_ff(ffmodel, inputs), importer.weights

    return into


class Attention(nn.Module):
    """Attention whose keys are the values; its weights are not asked for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(*args, **kwargs)

    def forward(self, query: Any, key: Any) -> Any:
        return self.layer(query, key, key, need_weights=False)[0]


A, B, ROW, COLUMN = r(3, 5), r(3, 5) + 0.4, r(5), r(3, 1)

FUNCTIONS = {
    # arithmetic: tensors, numbers on either side, broadcasting, arguments
    "add": (lambda x, y: x + y, A, B),
    "add number": (lambda x: x + 2, A),
    "add to number": (lambda x: 1.5 + x, A),
    "add broadcast": (lambda x, y: torch.add(x, y, alpha=3), A, ROW),
    "add alpha number": (lambda x: x.add(2, alpha=0.5), A),
    "add keywords": (lambda x, y: torch.add(input=x, other=y), COLUMN, ROW),
    "sub": (lambda x, y: x - y, A, COLUMN),
    "sub number": (lambda x: x - 3, A),
    "sub from number": (lambda x: 3 - x, A),
    "sub alpha": (lambda x, y: x.sub(y, alpha=2), A, B),
    "rsub": (lambda x, y: torch.rsub(x, y), A, B),
    "mul": (lambda x, y: x * y, A, ROW),
    "mul number": (lambda x: 0.5 * x * 3, A),
    "div": (lambda x, y: x / y, A, p(3, 5)),
    "div broadcast up": (lambda x, y: torch.div(y, x), p(3, 5), r(5)),
    "div number": (lambda x: x / 3, A),
    "number div": (lambda x: 2 / x, p(3, 5)),
    "reciprocal": (lambda x: x.reciprocal(), p(3, 5)),
    "pow": (lambda x: x**2 + x.pow(3) + torch.pow(x, exponent=2.0), A),
    "pow fraction": (lambda x: x**0.5 + x**-1, p(3, 5)),
    "maximum": (lambda x, y: torch.maximum(x, y) + x.minimum(y), A, ROW),
    "max of two": (lambda x, y: torch.max(x, y) + torch.min(x, other=y), A, B),
    "clamp": (lambda x: x.clamp(-0.5, 0.7) + torch.clamp(x, min=0.2) + torch.clip(x, max=0.1), A),
    # functions
    "exp sin cos": (lambda x: x.exp() + torch.sin(x) * x.cos(), A),
    "log sqrt rsqrt": (lambda x: x.log() + torch.sqrt(x) - torch.rsqrt(x), p(3, 5)),
    "neg abs square": (lambda x: -x + x.abs() * 2 + abs(x) + torch.square(x), A),
    "sigmoid tanh": (lambda x: torch.sigmoid(x) + fn.tanh(x) + fn.sigmoid(x) + x.tanh(), A),
    "relu": (lambda x: fn.relu(x) + torch.relu(-x) * 2 + x.relu(), A),
    "elu": (lambda x: fn.elu(x) + fn.elu(x, 0.5) + fn.elu(x, alpha=2.0), A),
    "leaky relu": (lambda x: fn.leaky_relu(x) + fn.leaky_relu(x, 0.3), A),
    "gelu": (lambda x: fn.gelu(x) + fn.gelu(x, approximate="tanh") * 2, A),
    "silu relu6 hardtanh": (lambda x: fn.silu(x) + fn.relu6(x * 4) + fn.hardtanh(x, -0.3, 0.4), A),
    "softmax": (lambda x: fn.softmax(x, dim=1) + x.softmax(0) + torch.softmax(x, -1), A),
    "log softmax": (lambda x: fn.log_softmax(x, 1) + x.log_softmax(dim=0), A),
    "softmax rank 4": (lambda x: fn.softmax(x, 1), r(2, 3, 2, 5)),
    # types
    "cast": (lambda x, n: x * n.to(x.dtype) + n.type_as(x), A, i(5, 3, 5)),
    "int meets float": (lambda x, n: (n * 2 + 1) * x, A, i(5, 3, 5)),
    "int functions": (lambda x, n: x + n.double().exp().to(dtype=x.dtype), A, i(2, 3, 5)),
    "same": (lambda x: x.contiguous().clone().cpu() + x.to("cpu").to(x.device), A),
    # shapes
    "flatten": (lambda x: x.flatten(1), r(2, 3, 2, 5)),
    "flatten some": (lambda x: torch.flatten(x, 1, 2), r(2, 3, 2, 5)),
    "flatten all": (lambda x: torch.flatten(x), r(2, 3, 5)),
    "flatten end": (lambda x: torch.flatten(x, end_dim=-2), r(2, 3, 5)),
    "reshape": (lambda x: x.reshape(3, -1) + torch.reshape(x, (3, 4)), r(2, 6)),
    "view": (lambda x: x.view(x.size(0), -1), r(2, 3, 2)),
    "view shape": (lambda x: x.view(x.shape[0], 2, x.shape[1] // 2), r(3, 6)),
    "view unpacked": (lambda x: x.view(size=(2, x.size()[1] * x.size(-1))), r(2, 3, 5)),
    "view as": (lambda x, y: x.view_as(y) + y, r(2, 6), r(3, 4)),
    "unflatten": (lambda x: x.unflatten(1, (2, -1)), r(3, 6)),
    "permute": (lambda x: x.permute(0, 3, 1, 2), r(2, 3, 4, 5)),
    "permute tuple": (lambda x: torch.permute(x, dims=(2, 0, -2)), r(2, 3, 5)),
    "transpose": (lambda x: x.transpose(1, -1), r(2, 3, 4, 5)),
    "transpose keywords": (lambda x: torch.swapaxes(x, axis0=0, axis1=1), r(2, 3, 5)),
    "T": (lambda x: x.t() + x.T + x.mT, r(2, 3)),
    "squeeze": (lambda x: x.squeeze() * torch.squeeze(x, (1, -1)), r(3, 1, 5, 1)),
    "squeeze nothing": (lambda x: x.squeeze(2) * x.squeeze(dim=1), r(3, 1, 5)),
    "unsqueeze": (lambda x: x.unsqueeze(1) + x.unsqueeze(-1), r(3, 3)),
    "cat": (lambda x, y: torch.cat([x, y], 1), r(3, 2), r(3, 5)),
    "cat keywords": (lambda x, y: torch.cat(tensors=(x, y, x), dim=-2), r(2, 5), r(3, 5)),
    "stack": (lambda x, y: torch.stack([x, y], dim=1), A, B),
    "split": (lambda x: x.split(2, dim=1)[2] + torch.split(x, [1, 4], 1)[0], r(3, 5)),
    "split unpacked": (lambda x: torch.split(x, split_size_or_sections=3, dim=-1)[::-1], r(3, 6)),
    "chunk": (lambda x: x.chunk(3, dim=1), r(3, 7)),
    "unbind": (lambda x: torch.unbind(x, 1)[1] + x.unbind(dim=1)[0], r(3, 2, 5)),
    "expand": (lambda x: x.expand(4, -1, 5), r(3, 1)),
    "expand as": (lambda x, y: y.expand_as(x) * torch.broadcast_to(y, (3, 5)) * x, A, ROW),
    "narrow": (lambda x: x.narrow(1, 1, 3) + torch.narrow(x, dim=1, start=-3, length=3), A),
    "select": (lambda x: x.select(1, -1) + x[:, 0], A),
    "getitem": (lambda x: x[:, 1:3] + x[..., -2:], A),
    "getitem new": (lambda x: x[None, 1, :, None] * x[0:1, :4, 1:2], r(3, 4, 2)),
    # reductions
    "mean": (lambda x: x.mean(1), r(3, 4, 5)),
    "mean keywords": (lambda x: torch.mean(x, dim=(-1, 1), keepdim=True), r(3, 4, 5)),
    "mean all": (lambda x: x - x.mean(), A),
    "mean axis": (lambda x: torch.mean(x, axis=0, keepdims=True), A),
    "sum": (lambda x: x.sum(dim=[0, 2]), r(3, 4, 5)),
    "sum all": (lambda x: x / x.exp().sum(), A),
    "amax amin": (lambda x: x.amax(1) + torch.amin(x, dim=1), A),
    "amax all": (lambda x: x - x.amax() + torch.amin(x), A),
    "max": (lambda x: x.max(1)[0] + torch.max(x, dim=1).values, A),
    "min": (lambda x: x.min(dim=0, keepdim=True)[0] + x.min(), A),
    # layers
    "linear": (lambda x, w: fn.linear(x, w), r(3, 4), r(5, 4)),
    "linear bias": (lambda x, w, b: fn.linear(x, weight=w, bias=b), r(3, 2, 4), r(5, 4), r(5)),
    "matmul": (lambda x, y: x @ y, r(3, 2, 4), r(4, 5)),
    "mm": (lambda x, y: torch.mm(x, mat2=y) + x.matmul(y), r(3, 4), r(4, 5)),
    "matmul batched": (lambda x, y: x @ y, r(3, 2, 4), r(3, 4, 5)),
    "matmul broadcast": (lambda x, y: torch.matmul(x, y), r(3, 1, 2, 4), r(3, 2, 4, 5)),
    "matmul broadcast left": (lambda x, y: y @ x.mT, r(3, 2, 4), r(5, 4)),
    "matmul vectors": (lambda x, y: x @ y + y @ x.mT, r(3, 2, 4), r(4)),
    "bmm": (lambda x, y: torch.bmm(x, y) + x.bmm(mat2=y), r(3, 2, 4), r(3, 4, 5)),
    "einsum": (lambda x, y: torch.einsum("bnk,bkm->bnm", x, y), r(3, 2, 4), r(3, 4, 5)),
    "einsum implicit": (lambda x, y: torch.einsum("ba, bc", [x, y]), r(3, 4), r(3, 5)),
    "einsum dots": (
        lambda x, y: (
            torch.einsum("...ij,jk->...ik", x, y) + torch.einsum("b...i, io -> b...o", x, y)
        ),
        *(r(3, 2, 4), r(4, 2)),
    ),
    "attention": (lambda x, y: fn.scaled_dot_product_attention(x, y, y), r(3, 2, 4), r(3, 5, 4)),
    "attention causal": (
        lambda x: fn.scaled_dot_product_attention(x, x * 2, x, is_causal=True, scale=0.3),
        r(3, 2, 5, 4),
    ),
    "attention mask": (
        lambda x: fn.scaled_dot_product_attention(x, x, x, torch.ones(5, 5).tril(1).bool()),
        r(3, 5, 4),
    ),
    "attention bias": (
        lambda x: fn.scaled_dot_product_attention(x, x, x, attn_mask=torch.eye(5).to(x.dtype)),
        r(3, 5, 4),
    ),
    "gather": (lambda x, n: torch.gather(x, 1, n) + x.gather(index=n, dim=-1), A, i(5, 3, 5)),
    "gather rows": (lambda x, n: x.gather(0, n), A, i(3, 3, 4)),
    "topk": (lambda x: (x.topk(3).values, x.topk(3).indices.to(x.dtype)), A),
    "topk dim": (lambda x: torch.topk(x, k=2, dim=1).values, r(3, 4, 2)),
    "topk smallest": (lambda x: torch.topk(x, 2, largest=False)[0], A),
    "topk indices": (lambda x: x.gather(1, x.topk(2, 1, False).indices), r(3, 4, 2)),
    "addmm": (lambda x, y, b: torch.addmm(b, x, y), r(3, 4), r(4, 5), r(5)),
    "conv": (lambda x, w: fn.conv2d(x, w), r(2, 3, 5, 7), r(4, 3, 2, 3)),
    "conv all": (
        lambda x, w, b: fn.conv2d(
            x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2
        ),
        *(r(2, 4, 7, 9), r(6, 2, 3, 2), r(6)),
    ),
    "conv same": (lambda x, w: fn.conv2d(x, w, padding="same"), r(2, 3, 5, 7), r(4, 3, 2, 4)),
    "conv valid": (lambda x, w: fn.conv2d(x, w, padding="valid"), r(2, 3, 5, 7), r(4, 3, 2, 4)),
    "max pool": (lambda x: fn.max_pool2d(x, 2), r(2, 3, 5, 7)),
    "max pool all": (
        lambda x: fn.max_pool2d(x, (3, 2), stride=(2, 1), padding=(1, 0), ceil_mode=True),
        r(2, 3, 6, 7),
    ),
    "torch max pool": (lambda x: torch.max_pool2d(x, 3, 2, 1), r(2, 3, 5, 7)),
    "avg pool": (lambda x: fn.avg_pool2d(x, 2), r(2, 3, 5, 7)),
    "avg pool pad": (lambda x: fn.avg_pool2d(x, 3, 2, 1), r(2, 3, 6, 7)),
    "avg pool ceil": (
        lambda x: fn.avg_pool2d(x, 3, 2, padding=1, ceil_mode=True, count_include_pad=False),
        r(2, 3, 6, 8),
    ),
    "avg pool ceil pad": (lambda x: fn.avg_pool2d(x, (3, 2), 2, 1, ceil_mode=True), r(2, 3, 6, 7)),
    "adaptive": (lambda x: fn.adaptive_avg_pool2d(x, (2, None)), r(2, 3, 6, 5)),
    "adaptive 1": (lambda x: fn.adaptive_avg_pool2d(x, 1), r(2, 3, 6, 5)),
    "adaptive max": (lambda x: fn.adaptive_max_pool2d(x, (3, 1)), r(2, 3, 6, 5)),
    "layer norm": (lambda x: fn.layer_norm(x, (5,)), r(2, 3, 5)),
    "layer norm bias": (
        lambda x, b: fn.layer_norm(x, (3, 5), bias=b, eps=1e-3),
        *(r(2, 3, 5), r(3, 5)),
    ),
    "embedding": (lambda n, w: fn.embedding(n, w), i(7, 4, 2), r(7, 3)),
    "dropout off": (lambda x: fn.dropout(x, 0.5, training=False) * fn.dropout(x, p=0.0), A),
    # constants of the traced shapes
    "constants": (lambda x: x * torch.ones_like(x) + x.new_zeros(x.size(1)), A),
    "arange": (lambda x: x + torch.arange(x.size(1), dtype=x.dtype), A),
    "questions": (lambda x: x * x.dim() + x.numel() + x.ndim + x.shape[-1], A),
    "several": (lambda x, y: (x + y, [x * y, {"more": x - y}["more"]]), A, B),
}
MODULES_CASES = {
    "Linear": (nn.Linear(4, 5), r(3, 4)),
    "Linear no bias": (nn.Linear(4, 5, bias=False), r(3, 2, 4)),
    "Conv2d": (nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 2), (1, 2), groups=2), r(2, 4, 7, 9)),
    "Conv2d same": (nn.Conv2d(3, 4, (2, 4), padding="same", bias=False), r(2, 3, 5, 7)),
    "Conv2d depthwise": (nn.Conv2d(3, 6, 3, groups=3, padding=1), r(2, 3, 5, 4)),
    "MaxPool2d": (nn.MaxPool2d(3, 2, 1, ceil_mode=True), r(2, 3, 6, 7)),
    "AvgPool2d": (nn.AvgPool2d((2, 3), 2, (1, 0), True, False), r(2, 3, 6, 8)),
    "AdaptiveAvgPool2d": (nn.AdaptiveAvgPool2d((3, 1)), r(2, 3, 6, 5)),
    "AdaptiveAvgPool2d 1": (nn.AdaptiveAvgPool2d((1, 1)), r(2, 3, 6, 5)),
    "AdaptiveMaxPool2d": (nn.AdaptiveMaxPool2d(2), r(2, 3, 6, 4)),
    "BatchNorm1d": (nn.BatchNorm1d(5, eps=1e-3, momentum=0.3), r(6, 5)),
    "BatchNorm1d rank 3": (nn.BatchNorm1d(3), r(4, 3, 5)),
    "BatchNorm2d": (nn.BatchNorm2d(3), r(4, 3, 5, 2)),
    "BatchNorm2d plain": (nn.BatchNorm2d(3, affine=False), r(4, 3, 5, 2)),
    "BatchNorm2d frozen": (nn.BatchNorm2d(3).eval(), r(4, 3, 5, 2)),
    "LayerNorm": (nn.LayerNorm(5), r(3, 2, 5)),
    "LayerNorm two": (nn.LayerNorm((2, 5), eps=1e-3), r(3, 2, 5)),
    "LayerNorm no bias": (nn.LayerNorm(5, bias=False), r(3, 2, 5)),
    "LayerNorm plain": (nn.LayerNorm(5, elementwise_affine=False), r(3, 2, 5)),
    "Dropout eval": (nn.Dropout(0.5).eval(), A),
    "LSTM": (nn.LSTM(4, 3, batch_first=True), r(2, 5, 4)),
    "LSTM time first": (nn.LSTM(4, 3), r(5, 2, 4)),
    "LSTM layers": (nn.LSTM(4, 3, 2, bias=False, batch_first=True), r(2, 5, 4)),
    "LSTM dropout eval": (nn.LSTM(4, 3, 2, batch_first=True, dropout=0.5).eval(), r(2, 3, 4)),
    "MultiheadAttention": (Attention(6, 3, batch_first=True), r(2, 5, 6), r(2, 4, 6)),
    "MultiheadAttention time first": (Attention(6, 2), r(5, 2, 6), r(4, 2, 6)),
    "MultiheadAttention no bias": (Attention(6, 2, bias=False), r(5, 2, 6), r(4, 2, 6)),
    "MultiheadAttention sizes": (
        Attention(6, 2, kdim=3, vdim=3, batch_first=True),
        *(r(2, 5, 6), r(2, 4, 3)),
    ),
    "MultiheadAttention dropout eval": (Attention(6, 2, 0.5).eval(), r(5, 2, 6), r(4, 2, 6)),
    "Flatten": (nn.Flatten(), r(2, 3, 2, 5)),
    "Flatten some": (nn.Flatten(2, -1), r(2, 3, 2, 5)),
    "Unflatten": (nn.Unflatten(1, (2, 3)), r(2, 6)),
    "activations": (
        nn.Sequential(nn.ELU(0.7), nn.LeakyReLU(0.2), nn.SiLU(), nn.Tanh(), nn.Identity()),
        A,
    ),
    "GELU": (nn.Sequential(nn.GELU(), nn.GELU("tanh"), nn.Sigmoid()), A),
    "ReLU": (nn.Sequential(nn.ReLU(), nn.Hardtanh(-1, 2), nn.ReLU6()), A),
    "Softmax": (nn.Sequential(nn.LogSoftmax(0), nn.Softmax(dim=1)), A),
    "Softmax without dim": (nn.Softmax(), r(2, 3, 4)),
    "Embedding": (nn.Sequential(nn.Embedding(7, 3)), i(7, 4, 2)),
    "Embedding padding": (nn.Embedding(7, 3, padding_idx=-2), i(7, 4, 6)),
    "EmbeddingBag": (nn.EmbeddingBag(7, 3, mode="sum"), i(7, 4, 6)),
    "EmbeddingBag mean": (nn.EmbeddingBag(7, 3, sparse=True), i(7, 4, 6)),
}


def cases(table: dict[str, Any]) -> list[Any]:
    return [pytest.param(first, rest, id=name) for name, (first, *rest) in table.items()]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("function", "inputs"), cases(FUNCTIONS))
def test_function(function: Any, inputs: list[np.ndarray], dtype: str) -> None:
    module = Applied(function, inputs)
    Peers(module, module.inputs, build, dtype).check(steps=1)


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("module", "inputs"), cases(MODULES_CASES))
def test_module(module: nn.Module, inputs: list[np.ndarray], dtype: str) -> None:
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    if "Embedding" in type(module).__name__ and module.padding_idx is not None:
        module.weight.data[module.padding_idx] = 0
    Peers(module, inputs, build, dtype).check()


# What a module says twice, or what only speaks of sizes that its weights have.
SAID_ELSEWHERE = {
    "in_features",
    "out_features",
    "in_channels",
    "out_channels",
    "num_features",
    "num_embeddings",
    "embedding_dim",
    "affine",
    "elementwise_affine",
    "track_running_stats",  # without it there are no statistics, which is refused
    "output_padding",  # of transposed convolutions
    "kernel_size",  # of a convolution; the weight's
    "input_size",
    "mode",  # of a recurrent layer: its class says it
}


def test_no_attribute_of_a_module_is_forgotten() -> None:
    from flexflow.torch import importer  # fills the tables
    from flexflow.torch.rows import MODULES

    assert importer.FAMILIES
    for kind, row in MODULES.items():
        unknown = set(getattr(kind, "__constants__", ())) - set(row.signature.parameters)
        assert unknown <= SAID_ELSEWHERE, f"{kind.__name__}: {unknown - SAID_ELSEWHERE}"


def test_every_row_is_tested_by_name() -> None:
    """A new module needs a line above."""
    from flexflow.torch.rows import MODULES

    named = {type(layer) for module, *_ in MODULES_CASES.values() for layer in module.modules()}
    assert set(MODULES) - named - {nn.Dropout, nn.BatchNorm3d} == set()
