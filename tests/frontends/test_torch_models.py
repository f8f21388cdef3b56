"""Whole networks from PyTorch: training step by step, modes, shared weights, messages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as fn  # noqa: E402
from torch import nn  # noqa: E402
from torch_peer import Peers  # noqa: E402

from flexflow.core import (  # noqa: E402
    CompMode,
    DataType,
    FFConfig,
    FFModel,
    LossType,
    SGDOptimizer,
)
from flexflow.torch.model import PyTorchModel  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def rand(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def ids(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(high).integers(0, high, shape)


def build(module: Any) -> Any:
    def into(ffmodel: Any, inputs: Any) -> Any:
        importer = PyTorchModel(module)
        return importer.torch_to_ff(ffmodel, inputs), importer.weights

    return into


class Block(nn.Module):
    """A residual block, with a projection where the shape changes."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.down = None
        if stride > 1 or channels != out:
            self.down = nn.Sequential(nn.Conv2d(channels, out, 1, stride), nn.BatchNorm2d(out))

    def forward(self, x: Any) -> Any:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.down is None else self.down(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.layer1 = Block(4, 4, 1)
        self.layer2 = Block(4, 6, 2)
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(6, 5)

    def forward(self, x: Any) -> Any:
        x = self.layer2(self.layer1(self.stem(x)))
        return self.fc(torch.flatten(self.pool(x), 1))


class Classifier(nn.Module):
    """Words to classes, with a padding id and a mean over the words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6, padding_idx=0)
        self.norm = nn.LayerNorm(6)
        self.fc = nn.Linear(6, 4)

    def forward(self, words: Any) -> Any:
        x = self.norm(self.embedding(words))
        return fn.log_softmax(self.fc(fn.gelu(x).mean(dim=1)), dim=-1)


class Tied(nn.Module):
    """A language model whose last layer has the embedding's table, and a layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.shared = nn.Linear(6, 6)
        self.head = nn.Linear(6, 11)
        self.head.weight = self.embedding.weight
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("position", torch.linspace(-1, 1, 30).reshape(5, 6))

    def forward(self, words: Any) -> Any:
        x = self.embedding(words) + self.position[: words.shape[1]]
        x = torch.tanh(self.shared(torch.tanh(self.shared(x)))) * self.scale
        return self.head(x)


class Raw(nn.Module):
    """Parameters used directly."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 6))
        self.gain = nn.Parameter(torch.randn(4, 1))
        self.parts = nn.ParameterList([nn.Parameter(torch.randn(6)) for _ in range(2)])

    def forward(self, x: Any) -> Any:
        weight = self.w / self.w.pow(2).sum(1, keepdim=True).sqrt() * self.gain
        return fn.linear(x + self.parts[0], weight) @ self.w + self.parts[1].view(1, -1)


class Frozen(nn.Module):
    """A part that is not trained, and normalisation in both modes, once without a module."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 6).requires_grad_(False)
        self.still = nn.BatchNorm1d(6).eval()
        self.still.running_mean += 0.3
        self.moving = nn.BatchNorm1d(6, momentum=0.25)
        self.last = nn.Linear(6, 2)

    def forward(self, x: Any) -> Any:
        x = self.moving(self.still(self.first(x)))
        still = self.still
        x = fn.batch_norm(x, still.running_mean, still.running_var, still.weight, still.bias)
        return self.last(fn.dropout(x, 0.5, self.still.training))


NETWORKS = {
    "mlp": (
        nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 5), nn.Sigmoid(), nn.Linear(5, 3)),
        rand(6, 7),
    ),
    "cnn": (
        nn.Sequential(
            *(nn.Conv2d(1, 4, 3), nn.ELU(), nn.MaxPool2d(2, ceil_mode=True)),
            *(nn.Conv2d(4, 6, (1, 3), padding="same"), nn.SiLU(), nn.AvgPool2d(2, padding=1)),
            *(nn.Flatten(), nn.Linear(6 * 3 * 4, 5), nn.LogSoftmax(dim=1)),
        ),
        rand(3, 1, 9, 13),
    ),
    "resnet": (ResNet(), rand(4, 3, 9, 7)),
    "classifier": (Classifier(), ids(20, 5, 7)),
    "tied": (Tied(), ids(11, 3, 5)),
    "raw": (Raw(), rand(3, 6)),
    "frozen": (Frozen(), rand(6, 5)),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", NETWORKS)
def test_training(name: str, dtype: str) -> None:
    torch.manual_seed(1)
    module, data = NETWORKS[name]
    for layer in module.modules():
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()
    peers = Peers(module, [data], build, dtype)
    if dtype == "float32":
        peers.tolerance = 2e-4  # grows with depth and steps
    peers.check(steps=5)


def test_loss_curve() -> None:
    """100 steps in float64."""
    torch.manual_seed(0)
    Peers(NETWORKS["mlp"][0], [rand(6, 7)], build).train(100)


def import_(module: nn.Module, *shapes: Any, dtype: Any = DataType.DT_FLOAT) -> Any:
    ffmodel = FFModel(FFConfig())
    inputs = [ffmodel.create_tensor(shape, dtype) for shape in shapes]
    importer = PyTorchModel(module)
    return ffmodel, importer.torch_to_ff(ffmodel, inputs), importer


def predict(ffmodel: FFModel, output: Any, data: np.ndarray) -> np.ndarray:
    ffmodel.compile(comp_mode=CompMode.INFERENCE, output=output)
    return ffmodel.predict(data.astype(np.float32))


# ---- modes ----
def test_training_mode_switches() -> None:
    """In training mode, a module drops out while it trains, and predicts as in eval()."""
    module = nn.Sequential(nn.BatchNorm1d(5), nn.Dropout(0.5))
    module[0].running_mean += 0.5
    ffmodel, (output,), _ = import_(module, [64, 5])
    data = rand(64, 5).astype(np.float32)
    expected = module.eval()(torch.tensor(data)).detach().numpy()
    assert np.abs(predict(ffmodel, output, data) - expected).max() < 1e-5
    ffmodel.compile(None, LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE, output=output)
    ffmodel.get_tensor_by_id(0).set_tensor(ffmodel, data)
    ffmodel.label_tensor.set_tensor(ffmodel, data)
    ffmodel.forward()
    assert 0.3 < (output.get_tensor() == 0).mean() < 0.7


def test_eval_mode_stays() -> None:
    """A module in eval() mode trains with frozen statistics and without dropout."""
    module = nn.Sequential(nn.BatchNorm1d(5), nn.Dropout(0.5)).eval()
    Peers(module, [rand(8, 5)], build).check()


def test_last_batch_may_be_smaller() -> None:
    """Shapes that name the traced batch follow another one."""
    module = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Unflatten(1, (4, -1)), nn.Flatten(1)
    )
    ffmodel, (output,), _ = import_(module, [8, 1, 6, 6])
    data = rand(13, 1, 6, 6)
    expected = module(torch.tensor(data, dtype=torch.float32)).detach().numpy()
    assert np.abs(predict(ffmodel, output, data) - expected).max() < 1e-5


# ---- names and weights ----
def test_names() -> None:
    ffmodel, outputs, importer = import_(ResNet(), [2, 3, 8, 8])
    names = [layer.name for layer in ffmodel.get_layers().values()]
    assert {"stem.0", "layer2.down.0", "layer1.relu", "fc", "flatten"} <= set(names)
    assert set(importer.weights) == {
        name for name in importer.model.state_dict() if "num_batches_tracked" not in name
    }
    assert outputs[0].name == "fc"


def test_weights_go_back() -> None:
    """What was trained here can be loaded into PyTorch."""
    module = nn.Sequential(nn.Linear(5, 3))
    ffmodel, (output,), importer = import_(module, [16, 5])
    ffmodel.compile(
        SGDOptimizer(ffmodel, lr=0.1), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE, output=output
    )
    data, goal = rand(16, 5).astype(np.float32), rand(16, 3).astype(np.float32)
    ffmodel.fit(data, goal, epochs=3, verbose=0)
    trained = {n: torch.tensor(w.get_tensor()) for n, w in importer.weights.items()}
    module.load_state_dict(trained)
    expected = ffmodel.predict(data)
    assert np.abs(module(torch.tensor(data)).detach().numpy() - expected).max() < 1e-5


def test_frozen_parameters() -> None:
    _ffmodel, _, importer = import_(Frozen(), [6, 5])
    assert not importer.weights["first.weight"].trainable
    assert importer.weights["last.weight"].trainable


def test_several_inputs_and_defaults() -> None:
    class Two(nn.Module):
        def forward(self, x: Any, y: Any, factor: float = 2.0, *, flag: bool = True) -> Any:
            return x + y * factor

    Peers(Two(), [rand(3, 4), rand(3, 4) + 1], build).check(1)
    with pytest.raises(ValueError, match="got 1 input tensors, expected 4: x, y, factor, flag"):
        import_(Two(), [3, 4])


# ---- messages ----
class Bad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(2, dilation=2)
        self.inner = nn.Sequential(nn.Conv3d(1, 1, 1), nn.AvgPool2d(2, divisor_override=3))

    def forward(self, x: Any) -> Any:
        n = x.cumsum(0).size(1) // 2
        x = self.inner(self.pool(x))
        x = torch.fft.fft(x) + torch.rand(3) + n
        values, indices = x.max(dim=1)
        return torch.where(values > 0, values, 1.0) + indices + fn.relu(x, inplace=False)


def test_every_problem_is_listed() -> None:
    with pytest.raises(NotImplementedError) as caught:
        import_(Bad(), [2, 1, 8, 8])
    lines = str(caught.value).splitlines()
    assert lines[0] == f"PyTorchModel: not supported, {len(lines) - 1} in all:"
    for part in (
        "Tensor.cumsum() 'cumsum': there is no such operator here",
        "MaxPool2d 'pool': dilation=2, but only 1 or (1, 1) is supported",
        "Conv3d 'inner.0': there is no such operator here",
        "AvgPool2d 'inner.1': divisor_override=3, but only None is supported",
        "fft_fft() 'fft_fft': there is no such operator here",
        "operator.gt() 'gt': there is no such operator here",
        "where() 'where': there is no such operator here",
    ):
        assert any(part in line for line in lines), part
    # Nothing else is wrong: what stands after a problem is not reported for it.
    assert not any("relu" in line or "floordiv" in line or "size" in line for line in lines)


class Messages(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.max(1)[1], "the module's result: the indices of max"),
        (lambda x: x.max(1).indices + 1, r"add\(\) 'add': the indices of max"),
        (lambda x: x[::2], r"getitem\(\) 'getitem': a slice with step 2"),
        (lambda x: torch.einsum("ij,ij,ij->ij", x, x, x), r"einsum\(\) 'einsum': 3 operands"),
        (lambda x: fn.scaled_dot_product_attention(x, x, x, x @ x.T), "attn_mask: computed"),
        (lambda x: fn.scaled_dot_product_attention(x, x, x, None, 0.5), "dropout_p=0.5"),
        (lambda x: x.view(torch.int32), "a dtype as the shape"),
        (lambda x: x * torch.rand_like(x), r"torch.rand_like\(\) 'rand_like': there is no such"),
        (lambda x: x + torch.rand(x.shape[1:]), "draws random numbers"),
        (lambda x: 2**x, "exponent: a tensor"),
        (lambda x: x.detach(), r"Tensor.detach\(\) 'detach': there is no such operator"),
        (lambda x: fn.dropout(x, 1.0, True), "p=1"),
        (lambda x: torch.div(x, 2, rounding_mode="floor"), "rounding_mode='floor'"),
        (lambda x: fn.gelu(x, approximate="sigmoid"), "approximate='sigmoid'"),
        (lambda x: x.sum(0, out=x), "unexpected keyword argument 'out'"),
        (lambda x: fn.batch_norm(x, None, None, training=True), "no running statistics"),
        (lambda x: {"a": x, "b": 3}, "the module's result: 3"),
        (lambda x: fn.adaptive_avg_pool2d(x[None, None], 5), r"output_size=\(5, 5\).*\(4, 6\)"),
    ],
)
def test_message(function: Any, message: str) -> None:
    with pytest.raises(NotImplementedError, match=message):
        import_(Messages(function), [4, 6])


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), "padding_mode='reflect'"),
        (nn.BatchNorm2d(3, track_running_stats=False), "no running statistics"),
        (nn.BatchNorm2d(3, momentum=None), "momentum=None"),
        (nn.MaxPool2d(2, return_indices=True), "return_indices=True"),
        (nn.Dropout2d(), "Dropout2d.*no such operator"),
        (nn.ConvTranspose2d(3, 3, 2), "ConvTranspose2d"),
        (nn.AdaptiveAvgPool2d(4), r"output_size=\(4, 4\)"),
    ],
)
def test_module_message(module: nn.Module, message: str) -> None:
    with pytest.raises(NotImplementedError, match=message):
        import_(nn.Sequential(module), [2, 3, 6, 7])


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Embedding(5, 3, max_norm=1.0), "max_norm=1.0"),
        (nn.Embedding(5, 3, scale_grad_by_freq=True), "scale_grad_by_freq=True"),
        (nn.Embedding.from_pretrained(torch.ones(5, 3), padding_idx=1), "padding_idx=1"),
        (nn.EmbeddingBag(5, 3, mode="max"), "mode='max'"),
    ],
)
def test_embedding_message(module: nn.Module, message: str) -> None:
    with pytest.raises(NotImplementedError, match=message):
        import_(nn.Sequential(module), [2, 3], dtype=DataType.DT_INT64)


def test_untraceable() -> None:
    with pytest.raises(ValueError, match="Messages: torch.fx cannot trace it.*GraphModule"):
        PyTorchModel(Messages(lambda x: x if x.sum() > 0 else -x))


def test_wrong_shapes_name_the_operator() -> None:
    module = nn.Sequential()
    module.add_module("fc", nn.Linear(4, 2))
    with pytest.raises(ValueError, match="Linear 'fc'"):
        import_(module, [2, 3])


def test_not_a_module() -> None:
    with pytest.raises(TypeError, match="expected a torch.nn.Module"):
        PyTorchModel("mlp.ff")  # type: ignore[arg-type]
    ffmodel = FFModel(FFConfig())
    model = PyTorchModel(nn.Sequential(nn.ReLU()))
    with pytest.raises(TypeError, match="input 'input_1' is int, expected a Tensor"):
        model.torch_to_ff(ffmodel, [3])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="input_tensors is ndarray, expected a list of what"):
        model.torch_to_ff(ffmodel, np.zeros((4, 3)))  # type: ignore[arg-type]


def test_one_tensor_needs_no_list() -> None:
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([5, 4], DataType.DT_FLOAT)
    (y,) = PyTorchModel(nn.Linear(4, 3)).torch_to_ff(ffmodel, x)
    assert y.dims == (5, 3)


@pytest.mark.parametrize(
    "module", [nn.RNN(4, 3), nn.GRU(4, 3), nn.ConvTranspose2d(4, 3, 3), nn.Transformer(4, 2, 1, 1)]
)
def test_a_layer_that_is_missing_is_named(module: nn.Module) -> None:
    """Also where it is the whole model, which torch.fx would look into."""
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([2, 4, 5, 5], DataType.DT_FLOAT)
    name = type(module).__name__
    with pytest.raises(NotImplementedError, match=f"{name} '{name}': there is no such operator"):
        PyTorchModel(module).torch_to_ff(ffmodel, [x])


def test_torch_is_imported_late() -> None:
    """The package can be imported, and says what is missing, without PyTorch."""
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from flexflow.torch.model import PyTorchModel\n"
        "try: PyTorchModel(None)\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "flexflow.torch needs PyTorch: pip install 'flexflow[torch]'\n"


def test_docstrings() -> None:
    import doctest

    import flexflow.torch.model

    result = doctest.testmod(flexflow.torch.model)
    assert result.attempted > 5 and result.failed == 0


@pytest.mark.parametrize("name", ["mlp", "resnet_digits"])
def test_example(name: str) -> None:
    pytest.importorskip("sklearn")
    command = [sys.executable, "-m", f"examples.python.torch.{name}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
