"""What PyTorch says where one call of it does not say it all. Attributes have FlexFlow's names."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

Tensor = torch.Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": F.gelu,
}


def _pads(x, kernel, stride, padding, pads, dilation=(1, 1)):
    """(left, right, top, bottom), as F.pad takes them."""
    if padding == "explicit":
        top, left, bottom, right = pads
        return left, right, top, bottom
    if padding == "valid":
        return 0, 0, 0, 0
    sides = []
    for extent, k, s, d in zip(x.shape[2:], kernel, stride, dilation):
        total = max(0, (-(-extent // s) - 1) * s + (k - 1) * d + 1 - extent)
        sides.append((total // 2, total - total // 2))
    return *sides[1], *sides[0]


def conv2d(
    x,
    weight,
    bias=None,
    out_channels=0,
    kernel=(),
    stride=(1, 1),
    padding="explicit",
    pads=(0, 0, 0, 0),
    dilation=(1, 1),
    groups=1,
    use_bias=True,
    activation="none",
):
    padded = F.pad(x, _pads(x, kernel, stride, padding, pads, dilation))
    y = F.conv2d(padded, weight, bias, tuple(stride), 0, tuple(dilation), groups)
    return ACTIVATIONS[activation](y)


def pool2d(
    x,
    kernel,
    stride=None,
    padding="explicit",
    pads=(0, 0, 0, 0),
    pool_type="max",
    ceil_mode=False,
    count_include_pad=False,
):
    kernel = tuple(kernel)
    stride = kernel if stride is None else tuple(stride)
    left, right, top, bottom = _pads(x, kernel, stride, padding, pads)
    if ceil_mode:
        assert (left, top) == (right, bottom), "PyTorch knows ceil_mode with equal pads only"
        if pool_type == "max":
            return F.max_pool2d(x, kernel, stride, (top, left), ceil_mode=True)
        return F.avg_pool2d(x, kernel, stride, (top, left), True, count_include_pad)
    if pool_type == "max":
        return F.max_pool2d(F.pad(x, (left, right, top, bottom), value=-torch.inf), kernel, stride)
    sums = F.avg_pool2d(F.pad(x, (left, right, top, bottom)), kernel, stride)
    if count_include_pad:
        return sums
    ones = F.pad(torch.ones_like(x), (left, right, top, bottom))
    return sums / F.avg_pool2d(ones, kernel, stride)


def batch_norm(x, gamma, beta, mean, var, eps=1e-5, groups=1, **of_running_statistics):
    parts = torch.tensor_split(x, groups)
    return torch.cat(
        [F.batch_norm(part, None, None, gamma, beta, training=True, eps=eps) for part in parts]
    )


def attention(
    query, key, value, *weights, embed_dim, num_heads, kdim=0, vdim=0, bias=True, causal=False
):
    """Of PyTorch itself, where it has heads of that size."""
    w, b = weights[:4], weights[4:]
    mask = torch.ones(query.shape[1], key.shape[1]).triu(1).bool() if causal else None
    if kdim or vdim:
        q, k, v = (torch.einsum("bsi,hdi->bhsd", x, m) for x, m in zip((query, key, value), w))
        y = F.scaled_dot_product_attention(q, k, v, mask)
        return torch.einsum("bhse,ohe->bso", y, w[3])
    x = [x.transpose(0, 1) for x in (query, key, value)]
    q, k, v = (m.flatten(0, 1) for m in w[:3])
    fitting = [F.linear(x, m) for x, m in zip(x, (q, k, v))]
    eye = torch.eye(embed_dim, dtype=query.dtype)
    y, _ = F.multi_head_attention_forward(
        *fitting,
        embed_dim,
        num_heads,
        None,
        torch.cat([m.flatten() for m in b[:3]]) if bias else None,
        None,
        None,
        False,
        0.0,
        w[3].flatten(1),
        b[3] if bias else None,
        use_separate_proj_weight=True,
        q_proj_weight=eye,
        k_proj_weight=eye,
        v_proj_weight=eye,
        attn_mask=mask,
    )
    return y.transpose(0, 1)


def lstm(x, *inputs, hidden_size, use_bias=True, initial_state=False):
    """What lstm_scan and lstm_scan_grad make of it."""
    inputs = list(inputs)
    zeros = x.new_zeros(len(x), hidden_size)
    state = [inputs.pop(0), inputs.pop(0)] if initial_state else [zeros, zeros]
    if not len(x):  # PyTorch's gradient wants samples
        weights = sum(w.sum() for w in inputs) + x.sum()
        return weights + x.new_zeros(0, x.shape[1], hidden_size), weights + zeros, weights + zeros
    y, h, c = torch.lstm(
        x, [s[None] for s in state], inputs, use_bias, 1, 0.0, True, False, batch_first=True
    )
    return y, h[0], c[0]


def embedding(ids, kernel, num_entries, out_dim, aggr="none"):
    rows = kernel[ids.long()]
    return rows if aggr == "none" else rows.sum(-2) if aggr == "sum" else rows.mean(-2)


def reduced(function):
    def reference(x, axes=(), keepdims=False):
        return function(x, dim=tuple(axes) or tuple(range(x.ndim)), keepdim=keepdims)

    return reference


def categorical_crossentropy(p, y, from_logits=False, label_smoothing=0.0):
    y = y * (1 - label_smoothing) + label_smoothing / y.shape[-1]
    return -(y * (p.log_softmax(-1) if from_logits else p.log())).sum(-1).mean()


def sparse_categorical_crossentropy(p, y, from_logits=False):
    rows = p.reshape(-1, p.shape[-1])
    return F.nll_loss(rows.log_softmax(-1) if from_logits else rows.log(), y.long().flatten())


def binary_crossentropy(p, y, from_logits=False):
    function = F.binary_cross_entropy_with_logits if from_logits else F.binary_cross_entropy
    return function(p, y)


def _places(assign, experts, places):
    """(sample, choice, expert, place) of the choices that find a place, in the samples' order."""
    taken = [0] * experts
    for sample, chosen in enumerate(assign.tolist()):
        for choice, expert in enumerate(chosen):
            if taken[expert] < places:
                yield sample, choice, expert, taken[expert]
            taken[expert] += 1


def group_by(x, assign, n, alpha):
    places = math.ceil(alpha * assign.shape[1] * len(x) / n)
    rows = [[torch.zeros_like(x[:1])[0] if len(x) else None] * places for _ in range(n)]
    for sample, _, expert, place in _places(assign, n, places):
        rows[expert][place] = x[sample]
    empty = x.new_zeros(0, *x.shape[1:])
    return [torch.stack(r) if r else empty for r in rows]


class _Balanced(torch.autograd.Function):
    """y, and to the gates the gradient of expert_balance."""

    @staticmethod
    def forward(ctx, y, gates, gradient):
        ctx.save_for_backward(gradient)
        return y.clone()

    @staticmethod
    def backward(ctx, dy):
        return dy, ctx.saved_tensors[0], None


def aggregate(gate, assign, true, full, *made, n, lambda_bal=0.0):
    """Its gradients are those of aggregate_grad_gate and aggregate_grad_experts."""
    same = (assign == true).to(gate.dtype)
    gate = gate * same + gate.detach() * (1 - same)
    sums = [torch.zeros_like(made[0][0]) for _ in gate]
    for sample, choice, expert, place in _places(assign, n, len(made[0])):
        sums[sample] = sums[sample] + gate[sample, choice] * made[expert][place]
    y = torch.stack(sums) if sums else gate.sum() * made[0].new_zeros(0, *made[0].shape[1:])
    counts = torch.bincount(true.long().flatten(), minlength=n).to(gate.dtype)
    balance = lambda_bal * n / max(len(gate), 1) * (counts - counts.mean())
    return _Balanced.apply(y, full, balance.expand(full.shape)) if lambda_bal else y
