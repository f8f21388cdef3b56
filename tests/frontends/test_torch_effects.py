"""What PyTorch does beside computing a value: changes in place, hooks, random numbers, modes. An
import has them, or refuses them; it never leaves them out."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as fn  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import prune  # noqa: E402
from torch_peer import Peers  # noqa: E402

from flexflow.core import FFConfig, FFModel  # noqa: E402
from flexflow.torch.model import PyTorchModel  # noqa: E402


class Applied(nn.Module):
    """A function of the input and of a layer's result, with a buffer and a number of rank 0."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.fc = nn.Linear(6, 6)
        self.register_buffer("table", torch.linspace(-1, 1, 6))
        self.register_buffer("rate", torch.tensor(0.5))

    def forward(self, x: Any) -> Any:
        return self.function(self, x, self.fc(x))


def build(module: Any) -> Any:
    def into(ffmodel: Any, inputs: Any) -> Any:
        importer = PyTorchModel(module)
        return importer.torch_to_ff(ffmodel, inputs), importer.weights

    return into


def import_(module: nn.Module) -> Any:
    ffmodel = FFModel(FFConfig())
    return PyTorchModel(module).torch_to_ff(ffmodel, [ffmodel.create_tensor([4, 6])])


# ---- in place ----
def alias(change: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A function that looks at a tensor under another name after it has been changed."""

    def function(module: Any, x: Any, h: Any) -> Any:
        other = h
        h = change(h, x)
        return torch.sin(h) + other

    return function


def iadd(h: Any, x: Any) -> Any:
    h += x
    return h


def isub(h: Any, x: Any) -> Any:
    h -= x
    return h


def imul(h: Any, x: Any) -> Any:
    h *= 2
    return h


def several(h: Any, x: Any) -> Any:
    h -= 1
    h /= 2
    h **= 2
    h.add_(x).mul_(3)
    return h


def widths(module: Any, x: Any, h: Any) -> Any:
    n = x.size(1)
    m = n
    n += 1
    n //= 2
    return h * n + m


def input_itself(module: Any, x: Any, h: Any) -> Any:
    y = x
    y += 1
    return x * y * h


def zeros(module: Any, x: Any, h: Any) -> Any:
    total = torch.zeros_like(x)
    total += 1
    total += h
    total *= x
    return total


def parts(module: Any, x: Any, h: Any) -> Any:
    q, k, v = h.chunk(3, dim=1)
    q *= 0.5
    k += v
    return torch.cat([q, k, v], 1)


def by_position(module: Any, x: Any, h: Any) -> Any:
    fn.relu(h, True)
    return h


def chained_module(module: Any, x: Any, h: Any) -> Any:
    h.relu_().add_(1)
    return h


def copied(module: Any, x: Any, h: Any) -> Any:
    other = h.clone()
    h += 1
    return torch.sin(h) + other


def transposed(module: Any, x: Any, h: Any) -> Any:
    v = h.T
    v += 1
    return torch.sin(v).T


def rank_zero(module: Any, x: Any, h: Any) -> Any:
    rate = module.rate.exp() * 2
    return h * rate


def preactivation(module: Any, x: Any, h: Any) -> Any:
    y = x * 2
    z = y.mul_(3)
    x = x + 1
    shortcut = x
    fn.relu(x, inplace=True)
    return y + z * shortcut + h


@pytest.mark.parametrize(
    "function",
    [
        *map(alias, (iadd, isub, imul, several)),
        *(widths, input_itself, zeros, parts, by_position, chained_module, copied, transposed),
        *(rank_zero, preactivation),
    ],
)
def test_in_place_is_seen_by_later_uses(function: Callable[..., Any]) -> None:
    x = np.random.default_rng(0).normal(size=(4, 6))
    module = Applied(function).double()
    with torch.no_grad():
        expected = module(torch.tensor(x)).numpy()
    peers = Peers(module, [x], build)
    peers.compile(peers.outputs[0])
    peers.feed(np.zeros(expected.shape))
    peers.ffmodel.forward()
    np.testing.assert_allclose(peers.outputs[0].get_tensor(), expected, 1e-9, 1e-12)


def test_in_place_is_trained() -> None:
    Peers(Applied(alias(iadd)), [np.random.default_rng(0).normal(size=(4, 6))], build).check(2)


def view_first(module: Any, x: Any, h: Any) -> Any:
    row = h.view(-1)
    h.add_(1)
    return h.view(-1) + row


def through_a_view(module: Any, x: Any, h: Any) -> Any:
    v = h.view(-1, 3, 2)
    v += 1
    return h


def through_an_attribute(module: Any, x: Any, h: Any) -> Any:
    v = h.T
    v += 1
    return h


def whole_of_parts(module: Any, x: Any, h: Any) -> Any:
    q, _ = h.chunk(2, dim=1)
    q *= 0.5
    return h


def a_buffer(module: Any, x: Any, h: Any) -> Any:
    table = module.table
    table += 1
    return h + table


def view_of_a_buffer(module: Any, x: Any, h: Any) -> Any:
    row = module.table.view(1, 6)
    row.add_(1)
    return h + row


def number_of_a_buffer(module: Any, x: Any, h: Any) -> Any:
    rate = module.rate
    rate *= 2
    return h * module.rate


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (view_first, r"Tensor.add_\(\) 'add_': it works in place on 'fc', .*'view'.*new tensor"),
        (through_a_view, "iadd.*in place on 'view', of which the view 'fc' is used later"),
        (through_an_attribute, "of which the view 'fc' is used later"),
        (whole_of_parts, "of which the view 'fc' is used later"),
        (a_buffer, "changes a parameter, a buffer or a constant"),
        (view_of_a_buffer, "changes a parameter, a buffer or a constant"),
        (number_of_a_buffer, "changes a parameter, a buffer or a constant"),
        (lambda module, x, h: module.table.add_(1) + h, "changes a parameter, a buffer"),
    ],
)
def test_in_place_that_is_refused(function: Callable[..., Any], message: str) -> None:
    module = Applied(function)
    with pytest.raises(NotImplementedError, match=message):
        import_(module)
    assert module.table[0] == -1 and module.rate == 0.5


# ---- hooks ----
def forward_hook(net: nn.Sequential) -> None:
    net[0].register_forward_hook(lambda module, inputs, output: output * 2)


def pre_hook(net: nn.Sequential) -> None:
    net[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))


def hook_of_the_outermost(net: nn.Sequential) -> None:
    net.register_forward_hook(lambda module, inputs, output: output * 2)


def backward_hook(net: nn.Sequential) -> None:
    net.register_full_backward_hook(lambda module, inputs, outputs: None)


def gradient_hook(net: nn.Sequential) -> None:
    net[0].weight.register_hook(lambda gradient: gradient * 2)


def replaced(net: nn.Sequential) -> None:
    net[1].forward = lambda x: x * 2


def replaced_outermost(net: nn.Sequential) -> None:
    net.forward = lambda x: x * 2


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (forward_hook, "Linear '0': the forward hook forward_hook.* would not run; remove it"),
        (pre_hook, "Linear '0': the forward pre hook"),
        (hook_of_the_outermost, "Sequential '': the forward hook"),
        (backward_hook, "Sequential '': the backward hook"),
        (gradient_hook, "parameter '0.weight': the gradient hook"),
        (replaced, "ReLU '1': its forward was replaced"),
        (replaced_outermost, "Sequential '': its forward was replaced"),
        (lambda net: prune.l1_unstructured(net[0], "weight", 0.5), "hook L1Unstructured.*prune"),
        (lambda net: nn.utils.weight_norm(net[0]), "hook WeightNorm.*remove_weight_norm"),
        (lambda net: nn.utils.spectral_norm(net[0]), "hook SpectralNorm"),
        (lambda net: nn.utils.parametrizations.weight_norm(net[0]), "ParametrizedLinear '0'"),
    ],
)
def test_a_hook_is_refused(change: Callable[[nn.Sequential], Any], message: str) -> None:
    net = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
    change(net)
    with pytest.raises(NotImplementedError, match=message):
        import_(net)


def test_a_hook_of_a_layer_alone_and_of_all_modules() -> None:
    layer = nn.Linear(6, 6)
    layer.register_forward_hook(lambda module, inputs, output: output * 2)
    with pytest.raises(NotImplementedError, match="1 in all:\n  Linear 'Linear': the forward hook"):
        import_(layer)
    handle = nn.modules.module.register_module_forward_hook(lambda module, inputs, output: output)
    try:
        with pytest.raises(NotImplementedError, match="all modules: the forward hook"):
            import_(nn.Linear(6, 6))
    finally:
        handle.remove()


def test_a_hook_between_the_outermost_module_and_a_layer_is_traced() -> None:
    inner = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
    inner.register_forward_hook(lambda module, inputs, output: output * 2)
    net = nn.Sequential(inner, nn.Linear(6, 3))
    Peers(net, [np.random.default_rng(0).normal(size=(4, 6))], build).check(1)


def test_what_pruning_computed_is_kept_once_it_is_permanent() -> None:
    net = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
    prune.l1_unstructured(net[0], "weight", 0.5)
    prune.remove(net[0], "weight")
    Peers(net, [np.random.default_rng(0).normal(size=(4, 6))], build).check(1)


# ---- random numbers, and what eval() does not change ----
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda module, x, h: h + torch.rand(6), "torch.rand: forward draws random numbers"),
        (lambda module, x, h: h + torch.randn(6).abs(), "torch.randn: forward draws"),
        (
            lambda module, x, h: h + torch.rand(6, generator=torch.Generator()),
            "torch.rand: forward draws",
        ),
        (lambda module, x, h: h * np.random.rand(), "numpy.random: forward draws"),
        (lambda module, x, h: h * random.random(), "random: forward draws"),
        (lambda module, x, h: h + torch.rand(x.shape[1:]), "it draws random numbers"),
        (lambda module, x, h: fn.dropout(h, 0.5), r"dropout\(\) 'dropout': .*self.training"),
    ],
)
def test_random_numbers_are_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(NotImplementedError, match=message):
        import_(Applied(function).eval())


def test_dropout_that_ignores_the_mode_is_refused() -> None:
    always = Applied(lambda module, x, h: fn.dropout(h, 0.5, True))
    with pytest.raises(NotImplementedError, match=r"in eval\(\) mode, too.*training=self.training"):
        import_(always.eval())
    import_(always.train())
    import_(Applied(lambda module, x, h: fn.dropout(h, 0.5, module.training)).eval())
