"""What random graphs are made of: a step for every operator there is.

A step takes the model, two tensors of floats of any shape (batch, ...), and ids, and appends what
its name says to them. Near-ties are kept out: where the sign or the order of numbers decides, a
shift or a ramp sees to it that numbers which are equal but for rounding do not decide it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from flexflow.core import ActiMode, AggrMode, FFModel, NormInitializer, PoolType, Tensor

IDS, ENTRIES = 3, 4  # ids of each sample, below ENTRIES
MOST_FEATURES = 24
Step = Callable[[FFModel, Tensor, Tensor, Tensor], Tensor]


# ---- bringing tensors into shape ----
def features(x: Tensor) -> int:
    return math.prod(x.dims[1:])


def rows(m: FFModel, x: Tensor) -> Tensor:
    """(b, n)"""
    return x if x.num_dims == 2 else m.flat(x)


def fitted(m: FFModel, x: Tensor, count: int) -> Tensor:
    """(b, count)"""
    return rows(m, x) if features(x) == count else m.dense(rows(m, x), count)


def shaped(m: FFModel, x: Tensor, *dims: int) -> Tensor:
    """(b, *dims)"""
    if x.dims[1:] == dims:
        return x
    return m.reshape(fitted(m, x, math.prod(dims)), [x.dims[0], *dims])


def sequence(m: FFModel, x: Tensor) -> Tensor:
    return x if x.num_dims == 3 else shaped(m, x, 3, 2)


def image(m: FFModel, x: Tensor) -> Tensor:
    return x if x.num_dims == 4 else shaped(m, x, 2, 5, 3)


def like(m: FFModel, y: Tensor, x: Tensor) -> Tensor:
    return shaped(m, y, *x.dims[1:])


# ---- away from near-ties ----
def shifted(m: FFModel, x: Tensor) -> Tensor:
    return m.scalar_add(x, 0.3711)


def ramp(m: FFModel, x: Tensor) -> Tensor:
    """Other numbers are added to all elements of a sample."""
    values = 0.37 * np.sin(1.7 * np.arange(features(x)) + 0.3)
    return m.add(
        x, m.create_constant([1, *x.dims[1:]], values.reshape(1, *x.dims[1:]), x.data_type)
    )


def positive(m: FFModel, x: Tensor) -> Tensor:
    return m.scalar_add(m.square(x), 0.5)


# ---- steps of several operators ----
def attention(m: FFModel, x: Tensor, y: Tensor, ids: Tensor, **options: object) -> Tensor:
    key = shaped(m, y, 5, 2)
    return m.multihead_attention(sequence(m, x), key, key, 6, 3, **options)


def experts(m: FFModel, x: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    gate = m.softmax(ramp(m, fitted(m, y, ENTRIES)))
    weights, chosen = m.top_k(gate, 2, sorted=False)
    made = [m.dense(row, 5) for row in m.group_by(rows(m, x), chosen, ENTRIES, 0.8)]
    return m.aggregate([weights, chosen, chosen, gate, *made], ENTRIES, 0.05)


def chosen_experts(m: FFModel, x: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    gate = m.softmax(fitted(m, y, ENTRIES))
    made = [m.tanh(row) for row in m.group_by(rows(m, x), ids, ENTRIES, 1.1)]
    return m.aggregate([m.softmax(fitted(m, y, IDS)), ids, ids, gate, *made], ENTRIES)


def largest(m: FFModel, x: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    values, indices = m.top_k(ramp(m, fitted(m, x, 5)), 3)
    return m.add(values, m.gather(fitted(m, y, 5), indices, 1))


def recurrent(m: FFModel, x: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    all_states, hidden, cell = m.lstm(sequence(m, x), 5)
    again, hidden, _ = m.lstm(all_states, 5, use_bias=False, initial_state=(hidden, cell))
    return m.add(hidden, m.reduce_sum(again, [1]))


def frozen_norm(m: FFModel, x: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    return m.op("batch_norm_inference", [x, *channel_vectors(m, x)], outputs=1)[0]


def channel_vectors(m: FFModel, x: Tensor) -> list[Tensor]:
    channels = x.dims[1]
    return [m.create_constant([channels], 0.5 + 0.1 * i, x.data_type) for i in range(4)]


def counted(m: FFModel, x: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    """Integers, as numbers like any others."""
    sums = m.add(m.scalar_multiply(ids, 2), m.reduce_max(ids, [1], keepdims=True))
    return m.add(fitted(m, x, IDS), m.cast(m.abs(m.negative(sums)), x.data_type))


def einsum(m: FFModel, x: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    return m.einsum(
        "b i j, b k j -> b k i", sequence(m, x), shaped(m, y, 4, sequence(m, x).dims[2])
    )


def matmul(m: FFModel, x: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    a = sequence(m, x)
    return m.batch_matmul(a, shaped(m, y, a.dims[2], 3))


def swapped(m: FFModel, x: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    """Cut in two and put together the other way round, along the last axis."""
    size = x.dims[-1]
    if size < 2:
        return m.concat([x, x], -1)
    return m.concat(m.split(x, [size // 2, size - size // 2], -1)[::-1], -1)


def turned(m: FFModel, x: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    perm = list(range(x.num_dims))[::-1]
    return m.transpose(m.sin(m.transpose(x, perm)), perm)


def twice(m: FFModel, x: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    """Weights that two layers share, and running statistics that both move on."""
    t = m.tanh(m.dense(fitted(m, x, 5), 5))
    t = m.dense(t, 5, shared_op=m.dense(fitted(m, y, 5), 5))
    norm = m.batch_norm(t, relu=False, eps=0.1)
    return m.op("batch_norm", [m.cos(norm)], outputs=1, shared_op=norm, eps=0.1)[0]


def by_parameters(m: FFModel, x: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    """Weights and constants that operators read like any other tensor."""
    shape = [1, *x.dims[1:]]
    factor = m.create_parameter(shape, x.data_type, NormInitializer(3, 0.5, 0.3))
    angle = m.sin(m.create_constant(shape, 0.7, x.data_type))
    return m.add(m.multiply(x, m.sigmoid(factor)), m.multiply(angle, factor))


def of_rank_1(m: FFModel, x: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    """A number of each sample, and one of all of them."""
    one = m.reduce_mean(x, list(range(1, x.num_dims)))
    total = m.reduce_sum(m.sin(like(m, y, x)), [])
    return m.reshape(m.add(m.tanh(one), m.tanh(total)), [x.dims[0], 1])


def conv(m: FFModel, x: Tensor, **options: object) -> Tensor:
    return m.conv2d(image(m, x), 2, 3, 2, 2, 1, 1, 1, **options)


def pooled(m: FFModel, x: Tensor, kind: PoolType) -> Tensor:
    t = image(m, x)
    return m.pool2d(ramp(m, t), min(3, t.dims[2] + 2), 2, 2, 1, 1, 1, kind)


STEPS: dict[str, Step] = {
    # one tensor, element by element
    "relu": lambda m, x, y, ids: m.relu(shifted(m, x)),
    "leaky_relu": lambda m, x, y, ids: m.leaky_relu(shifted(m, x), 0.2),
    "elu": lambda m, x, y, ids: m.elu(shifted(m, x)),
    "gelu": lambda m, x, y, ids: m.gelu(x),
    "silu": lambda m, x, y, ids: m.silu(x),
    "tanh": lambda m, x, y, ids: m.tanh(x),
    "sigmoid": lambda m, x, y, ids: m.sigmoid(x),
    "exp": lambda m, x, y, ids: m.exp(m.tanh(x)),
    "log": lambda m, x, y, ids: m.log(positive(m, x)),
    "sqrt": lambda m, x, y, ids: m.sqrt(positive(m, x)),
    "rsqrt": lambda m, x, y, ids: m.rsqrt(positive(m, x)),
    "pow": lambda m, x, y, ids: m.pow(positive(m, m.tanh(x)), 1.5),
    "cos": lambda m, x, y, ids: m.cos(x),
    "abs": lambda m, x, y, ids: m.abs(shifted(m, x)),
    "identity": lambda m, x, y, ids: m.identity(x),
    "negative": lambda m, x, y, ids: m.negative(x),
    "halved": lambda m, x, y, ids: m.scalar_true_divide(m.scalar_sub(x, 0.1), 2.0),
    "dropout": lambda m, x, y, ids: m.dropout(x, 0.25, 1),
    # two tensors
    "add": lambda m, x, y, ids: m.add(x, like(m, y, x)),
    "subtract": lambda m, x, y, ids: m.subtract(x, like(m, y, x)),
    "multiply": lambda m, x, y, ids: m.multiply(m.tanh(x), like(m, y, x)),
    "divide": lambda m, x, y, ids: m.divide(x, positive(m, like(m, y, x))),
    "gated": lambda m, x, y, ids: m.multiply(x, m.sigmoid(like(m, y, x))),
    "maximum": lambda m, x, y, ids: m.max(x, shifted(m, like(m, y, x))),
    "minimum": lambda m, x, y, ids: m.min(x, shifted(m, like(m, y, x))),
    "scaled": lambda m, x, y, ids: m.multiply(rows(m, x), m.sigmoid(fitted(m, y, 1))),
    # products
    "dense": lambda m, x, y, ids: m.dense(x, 5),
    "dense_tanh": lambda m, x, y, ids: m.dense(x, 7, ActiMode.AC_MODE_TANH, use_bias=False),
    "conv2d": lambda m, x, y, ids: conv(m, x),
    "conv2d_sigmoid": lambda m, x, y, ids: conv(m, x, activation=ActiMode.AC_MODE_SIGMOID),
    "conv2d_of_groups": lambda m, x, y, ids: m.conv2d(
        shaped(m, x, 4, 3, 2), 6, 2, 2, groups=2, dilation=(2, 1), padding="same"
    ),
    "batch_matmul": matmul,
    "einsum": einsum,
    "twice": twice,
    "by_parameters": by_parameters,
    "of_rank_1": of_rank_1,
    "attention": attention,
    "causal_attention": lambda m, x, y, ids: attention(m, x, y, ids, causal=True, vdim=2),
    "lstm": recurrent,
    "embedding": lambda m, x, y, ids: m.multiply(
        fitted(m, x, 5), m.embedding(ids, ENTRIES, 5, AggrMode.AGGR_MODE_SUM, datatype=x.data_type)
    ),
    "embedded_words": lambda m, x, y, ids: m.add(
        shaped(m, x, IDS, 2), m.embedding(ids, ENTRIES, 2, datatype=x.data_type)
    ),
    # normal forms
    "softmax": lambda m, x, y, ids: m.softmax(x),
    "softmax_of_axis_1": lambda m, x, y, ids: m.softmax(sequence(m, x), 1),
    "log_softmax": lambda m, x, y, ids: m.log_softmax(x),
    "layer_norm": lambda m, x, y, ids: m.layer_norm(x, [-1], eps=0.1),
    "layer_norm_of_all": lambda m, x, y, ids: m.layer_norm(sequence(m, x), [1, 2], eps=0.1),
    "batch_norm": lambda m, x, y, ids: m.batch_norm(x, relu=False, eps=0.1),
    "ghost_norm": lambda m, x, y, ids: m.batch_norm(
        x, relu=False, eps=0.1, groups=min(2, x.dims[0])
    ),
    "batch_norm_of_images": lambda m, x, y, ids: m.batch_norm(image(m, x), relu=False, eps=0.1),
    "batch_norm_inference": frozen_norm,
    # pools and reductions
    "max_pool": lambda m, x, y, ids: pooled(m, x, PoolType.POOL_MAX),
    "mean_pool": lambda m, x, y, ids: pooled(m, x, PoolType.POOL_AVG),
    "reduce_sum": lambda m, x, y, ids: m.reduce_sum(sequence(m, x), [1]),
    "reduce_mean": lambda m, x, y, ids: m.subtract(x, m.reduce_mean(x, [-1], keepdims=True)),
    "reduce_max": lambda m, x, y, ids: m.reduce_max(ramp(m, x), [-1], keepdims=True),
    "reduce_min": lambda m, x, y, ids: m.reduce_min(ramp(m, sequence(m, x)), [1]),
    "mean_of_batch": lambda m, x, y, ids: m.subtract(x, m.reduce_mean(x, [0], keepdims=True)),
    "largest": largest,
    # shapes
    "transpose": turned,
    "folded": lambda m, x, y, ids: m.cos(shaped(m, x, 2, 3)),
    "flat": lambda m, x, y, ids: m.flat(sequence(m, x)),
    "swapped": swapped,
    "concat": lambda m, x, y, ids: m.concat([rows(m, x), rows(m, y)], 1),
    "broadcast_to": lambda m, x, y, ids: m.broadcast_to(shaped(m, x, 1, 3), [x.dims[0], 2, 3]),
    "gather": lambda m, x, y, ids: m.gather(fitted(m, x, ENTRIES), ids, 1),
    "counted": counted,
    # experts
    "experts": experts,
    "chosen_experts": chosen_experts,
}
OF_THE_BATCH = {"mean_of_batch", "of_rank_1", "experts", "chosen_experts"}
# What to append, and the tensors it takes, counted back from the last one.
STEP = st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 3), st.integers(0, 3))
# Operators that are made otherwise than by a step.
MADE_OTHERWISE = {
    "input": "what the graph begins with",
    "weight": "what steps have of their own",
    "constant": "of ramps",
}


def append(model: FFModel, tensors: list[Tensor], ids: Tensor, step: tuple[str, int, int]) -> None:
    """Append a step to a graph."""
    name, first, second = step
    x, y = (tensors[-1 - back % len(tensors)] for back in (first, second))
    made = STEPS[name](model, x, y, ids)
    tensors.append(fitted(model, made, 7) if features(made) > MOST_FEATURES else made)
