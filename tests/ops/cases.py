"""One row per operator, and everything that is compared with PyTorch follows from it.

A new operator takes one row here: what PyTorch says, and calls with shapes that are not square, odd
sizes, broadcast forms, edges of size 1 and 0, and its attributes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from draws import (
    away,
    distinct,
    distribution,
    fixed,
    given,
    ids,
    integers,
    normal,
    positive,
    probability,
)
from references import (
    ACTIVATIONS,
    aggregate,
    attention,
    batch_norm,
    binary_crossentropy,
    categorical_crossentropy,
    conv2d,
    embedding,
    group_by,
    lstm,
    pool2d,
    reduced,
    sparse_categorical_crossentropy,
)
from table import Case, Reference, Row, case

ROWS: list[Row] = []


def row(op: str, reference: Reference, *cases: Case, **options: object) -> None:
    ROWS.append(Row(op, reference, cases, **options))  # type: ignore[arg-type]


# ---- dense mathematics ----


def _linear(x, kernel, bias=None, out_channels=0, use_bias=True, activation="none"):
    return ACTIVATIONS[activation](F.linear(x, kernel, bias))


row(
    "linear",
    _linear,
    case(normal(3, 5), out_channels=7),
    case(normal(1, 1), out_channels=1),
    case(normal(6), out_channels=4),
    case(normal(2, 3, 5), out_channels=4, use_bias=False),
    case(normal(2, 1, 3, 17), out_channels=5),
    case(normal(0, 5), out_channels=7),
    case(normal(3, 0), out_channels=2),
    case(normal(33, 65), out_channels=31),
    *(case(normal(5, 3), out_channels=6, activation=a) for a in ACTIVATIONS if a != "none"),
    case(normal(4, 9), out_channels=3, use_bias=False, activation="gelu"),
)

row(
    "batch_matmul",
    lambda a, b, a_seq_length_dim=-1, b_seq_length_dim=-1: a @ b,
    case(normal(3, 5, 7), normal(3, 7, 4)),
    case(normal(1, 1, 1), normal(1, 1, 1)),
    case(normal(5, 3), normal(3, 2)),
    case(normal(2, 3, 4, 5), normal(2, 3, 5, 6), a_seq_length_dim=1, b_seq_length_dim=0),
    case(normal(2, 1, 3, 2, 17), normal(2, 1, 3, 17, 9)),
    case(normal(2, 1, 5), normal(2, 5, 1)),
    case(normal(0, 2, 3), normal(0, 3, 4)),
    case(normal(2, 2, 0), normal(2, 0, 3)),
    case(normal(5, 33, 65), normal(5, 65, 31)),
)
row(
    "einsum",
    lambda a, b, equation: torch.einsum(equation.replace(" ", ""), a, b),
    case(normal(3, 5, 4), normal(2, 6, 4), equation="b s i, h d i -> b s h d"),
    case(normal(2, 5, 3, 4), normal(2, 7, 3, 4), equation="b s h d, b t h d -> b h s t"),
    case(normal(2, 3, 5, 7), normal(2, 7, 3, 4), equation="b h s t, b t h e -> b s h e"),
    case(normal(2, 5, 3, 4), normal(6, 3, 4), equation="b s h e, o h e -> b s o"),
    case(normal(3, 2), normal(5, 3, 4, 2), equation="h d, b h s d -> b s h"),
    case(normal(3), normal(5), equation="i, j -> j i"),
    case(normal(7), normal(7), equation="i, i -> "),
    case(normal(3, 4), normal(3, 4), equation="i j, i j -> i j"),
    case(normal(1, 5), normal(5, 1), equation="a i, i c -> c a"),
    case(normal(2, 0), normal(0, 3), equation="a i, i c -> c a"),
)

row(
    "multihead_attention",
    attention,
    case(normal(2, 3, 6), normal(2, 5, 4), normal(2, 5, 7), embed_dim=6, num_heads=3),
    case(normal(1, 1, 1), normal(1, 1, 1), normal(1, 1, 1), embed_dim=1, num_heads=1),
    case(*[normal(3, 4, 8)] * 3, embed_dim=8, num_heads=2, causal=True),
    case(*[normal(2, 3, 5)] * 3, embed_dim=7, num_heads=2, kdim=3, vdim=4, bias=False),
    case(normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 4), embed_dim=4, num_heads=2, causal=True),
    cancelling=("k_bias",),  # it moves all scores of a query alike
    roundings=2,
)

row(
    "lstm",
    lstm,
    case(normal(3, 4, 5), hidden_size=6),
    case(normal(1, 1, 1), hidden_size=1),
    case(normal(2, 7, 3), normal(2, 5), normal(2, 5), hidden_size=5, initial_state=True),
    case(normal(5, 2, 4), hidden_size=3, use_bias=False),
    case(
        normal(2, 3, 4),
        normal(2, 3),
        normal(2, 3),
        hidden_size=3,
        initial_state=True,
        use_bias=False,
    ),
    case(normal(4, 5, 17), hidden_size=19),
    case(normal(0, 3, 4), hidden_size=2),
    outputs=3,
    roundings=2,
)

IMAGE = (2, 4, 9, 7)
PADS = [1, 1, 1, 1]
row(
    "conv2d",
    conv2d,
    case(normal(*IMAGE), out_channels=6, kernel=[3, 3]),
    case(normal(2, 3, 5, 8), out_channels=5, kernel=[1, 1]),
    case(normal(1, 1, 1, 1), out_channels=1, kernel=[1, 1]),
    case(normal(*IMAGE), out_channels=3, kernel=[2, 5], stride=[2, 3], pads=[1, 2, 1, 2]),
    case(normal(*IMAGE), out_channels=3, kernel=[3, 2], pads=[0, 1, 2, 0], use_bias=False),
    case(normal(*IMAGE), out_channels=8, kernel=[3, 3], groups=2, pads=PADS),
    case(normal(*IMAGE), out_channels=4, kernel=[3, 3], groups=4, stride=[2, 2]),
    case(normal(*IMAGE), out_channels=5, kernel=[3, 2], dilation=[2, 3], pads=[2, 0, 2, 0]),
    case(normal(*IMAGE), out_channels=3, kernel=[3, 4], padding="same", stride=[2, 2]),
    case(normal(*IMAGE), out_channels=3, kernel=[2, 4], padding="same", dilation=[2, 1]),
    case(normal(*IMAGE), out_channels=3, kernel=[5, 2], padding="valid", stride=[3, 1]),
    case(normal(2, 3, 4, 4), out_channels=2, kernel=[3, 3], stride=[5, 5]),
    case(normal(0, 3, 5, 5), out_channels=2, kernel=[3, 3]),
    case(normal(3, 17, 6, 5), out_channels=19, kernel=[3, 3], pads=PADS),
    # Columns of the kernel that see nothing but padding.
    case(normal(2, 31, 5, 1), out_channels=5, kernel=[2, 3], stride=[3, 2], pads=[0, 2, 0, 0]),
    case(normal(2, 16, 1, 1), out_channels=4, kernel=[5, 5], stride=[2, 2], pads=[2, 2, 2, 2]),
    *(
        case(normal(2, 3, 5, 4), out_channels=4, kernel=[3, 3], padding="same", activation=a)
        for a in ACTIVATIONS
        if a != "none"
    ),
)

row(
    "pool2d",
    pool2d,
    *(
        case(distinct(*shape), pool_type=kind, **attrs)
        for kind in ("max", "avg")
        for shape, attrs in (
            (IMAGE, {"kernel": [2, 2]}),
            ((1, 1, 1, 1), {"kernel": [1, 1]}),
            ((3, 17, 6, 5), {"kernel": [3, 2], "stride": [2, 1]}),
            (IMAGE, {"kernel": [3, 3], "stride": [2, 2], "pads": PADS}),
            (IMAGE, {"kernel": [3, 2], "stride": [2, 3], "pads": [0, 1, 2, 0]}),
            (IMAGE, {"kernel": [3, 3], "stride": [2, 2], "padding": "same"}),
            (IMAGE, {"kernel": [4, 2], "stride": [3, 1], "padding": "valid"}),
            (IMAGE, {"kernel": [2, 2], "stride": [2, 2], "ceil_mode": True}),
            (
                (2, 2, 6, 6),
                {"kernel": [3, 3], "stride": [4, 2], "pads": PADS, "ceil_mode": True},
            ),
            ((0, 2, 4, 4), {"kernel": [2, 2]}),
            ((2, 3, 8, 8), {"kernel": [8, 8]}),
        )
    ),
    *(
        case(normal(*IMAGE), pool_type="avg", count_include_pad=True, **attrs)
        for attrs in (
            {"kernel": [3, 3], "stride": [2, 2], "pads": PADS},
            {"kernel": [3, 3], "stride": [2, 2], "pads": PADS, "ceil_mode": True},
            {"kernel": [2, 3], "stride": [2, 2], "pads": [1, 2, 0, 1]},
        )
    ),
)

NORM_WEIGHTS = {"running_var": positive}
row(
    "batch_norm",
    batch_norm,
    case(normal(5, 3)),
    case(normal(4, 3, 7)),
    case(normal(3, 5, 4, 6)),
    case(normal(2, 17, 3, 5), eps=0.1),
    case(normal(2, 2, 3, 2, 5)),
    case(normal(7, 1), momentum=0.5),
    case(normal(3, 4), scale=False),
    case(normal(3, 4), center=False, unbiased=False),
    case(normal(7, 3), groups=2),
    case(normal(7, 3, 2), groups=3),
    case(normal(3, 3, 4), groups=3),
    case(normal(5, 16, 4, 3), groups=2, eps=0.1),
    case(normal(64, 5, 2), groups=3, scale=False),
    weights=NORM_WEIGHTS,
)
row(
    "batch_norm_inference",
    lambda x, gamma, beta, mean, var, eps=1e-5: F.batch_norm(x, mean, var, gamma, beta, eps=eps),
    case(normal(4, 3, 2, 5), normal(3), normal(3), fixed(normal(3)), fixed(positive(3))),
    case(normal(5, 7), normal(7), normal(7), fixed(normal(7)), fixed(positive(7)), eps=0.01),
    case(normal(0, 2), normal(2), normal(2), fixed(normal(2)), fixed(positive(2))),
)


def _layer_norm(x, gamma=None, beta=None, axes=(-1,), elementwise_affine=True, eps=1e-5):
    return F.layer_norm(x, x.shape[-len(axes) :], gamma, beta, eps)


row(
    "layer_norm",
    _layer_norm,
    case(normal(3, 5)),
    case(normal(7)),
    case(normal(2, 3, 17), eps=0.1),
    case(normal(2, 3, 5, 4), axes=[-2, -1]),
    case(normal(2, 3, 4), axes=[1, 2], elementwise_affine=False),
    case(normal(4, 6), elementwise_affine=False),
    case(normal(0, 4)),
)

for name, function in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
    row(
        name,
        lambda x, axis=-1, function=function: function(x, axis),
        case(normal(3, 5)),
        case(normal(1, 1)),
        case(normal(9)),
        case(normal(2, 5, 3), axis=1),
        case(normal(4, 2, 3), axis=0),
        case(normal(2, 3, 33), axis=-1),
        case(normal(0, 4)),
        case(given([[1000.0, 1001.0, 999.5], [-1000.0, -1001.0, -999.5]])),
    )

row(
    "dropout", lambda x, rate, seed=0: x, case(normal(3, 5), rate=0.0), case(normal(0, 2), rate=0.0)
)

row(
    "embedding",
    embedding,
    case(ids(3, 5, below=7), num_entries=7, out_dim=4),
    case(ids(6, below=9, dtype="int32"), num_entries=9, out_dim=1),
    case(ids(2, 3, 2, below=3), num_entries=3, out_dim=17),
    case(given([[2, 2], [2, 0]], "int64"), num_entries=3, out_dim=5, aggr="sum"),
    case(ids(4, 3, below=5), num_entries=5, out_dim=2, aggr="avg"),
    case(ids(7, below=5), num_entries=5, out_dim=3, aggr="sum"),
    case(ids(2, 1, 4, below=5), num_entries=5, out_dim=3, aggr="avg"),
    case(ids(0, 3, below=5), num_entries=5, out_dim=3),
    case(ids(3, 4, below=1), num_entries=1, out_dim=3, aggr="sum"),
    typed=True,
)

# ---- elementwise ----

SHAPES = ((3, 5), (1,), (2, 3, 5, 7), (), (0, 4), (37, 29))
for name, function, draw in (
    ("relu", torch.relu, away),
    ("sigmoid", torch.sigmoid, normal),
    ("tanh", torch.tanh, normal),
    ("silu", F.silu, normal),
    ("exp", torch.exp, normal),
    ("log", torch.log, positive),
    ("sqrt", torch.sqrt, positive),
    ("rsqrt", torch.rsqrt, positive),
    ("sin", torch.sin, normal),
    ("cos", torch.cos, normal),
    ("abs", torch.abs, away),
    ("negative", torch.neg, normal),
    ("square", torch.square, normal),
    ("identity", lambda x: x * 1, normal),
):
    ints = name in ("abs", "negative", "square", "identity")
    row(name, function, *(case(draw(*s)) for s in SHAPES), *[case(integers(3, 4))] * ints)

row(
    "gelu",
    lambda x, approximate=False: F.gelu(x, approximate="tanh" if approximate else "none"),
    *(case(normal(*s)) for s in SHAPES),
    *(case(normal(*s), approximate=True) for s in ((3, 5), (0, 2), (37, 29))),
)
for name, function in (("elu", F.elu), ("leaky_relu", F.leaky_relu)):
    row(
        name,
        lambda x, alpha=None, function=function: (
            function(x) if alpha is None else function(x, alpha)
        ),
        *(case(away(*s)) for s in SHAPES),
        case(away(4, 3), alpha=0.3),
        case(away(4, 3), alpha=0.0),
    )
row(
    "pow",
    lambda x, exponent: x**exponent,
    *(case(positive(*s), exponent=2.5) for s in SHAPES),
    *(case(away(3, 5), exponent=e) for e in (2.0, 3.0, 1.0, 0.0, -1.0, -2.0)),
    case(positive(3, 5), exponent=-0.5),
)
for name, function in (
    ("scalar_add", torch.add),
    ("scalar_sub", torch.sub),
    ("scalar_multiply", torch.mul),
    ("scalar_true_divide", torch.true_divide),
):
    ints = name != "scalar_true_divide"
    row(
        name,
        lambda x, scalar, function=function: function(x, scalar),
        *(case(normal(*s), scalar=-1.75) for s in SHAPES),
        *[case(integers(3, 4, dtype=dtype), scalar=3.0) for dtype in ("int32", "int64")] * ints,
    )

BROADCASTS = (
    ((3, 5), (3, 5)),
    ((3, 5), (5,)),
    ((5,), (3, 5)),
    ((3, 1), (1, 5)),
    ((2, 3, 1, 7), (3, 5, 1)),
    ((4, 1, 3), (4, 2, 1)),
    ((1,), (2, 3)),
    ((), (2, 3)),
    ((2, 3), ()),
    ((0, 4), (4,)),
    ((3, 1), (3, 0)),
    ((37, 29), (37, 1)),
)
for name, function, draw in (
    ("add", torch.add, normal),
    ("subtract", torch.sub, normal),
    ("multiply", torch.mul, normal),
    ("divide", torch.true_divide, away),
    ("maximum", torch.maximum, normal),
    ("minimum", torch.minimum, normal),
):
    row(
        name,
        function,
        *(case(draw(*a), draw(*b)) for a, b in BROADCASTS),
        *[case(integers(3, 4), integers(4))] * (name != "divide"),
        # Ties share the gradient.
        *[case(given([1.0, 2.0, 3.0]), given([1.0, 3.0, 2.0]))] * name.endswith("imum"),
    )

row(
    "cast",
    lambda x, dtype: x.to(getattr(torch, dtype)),
    case(normal(3, 5), dtype="float32"),
    case(normal(2, 3), dtype="float64"),
)

# ---- reductions ----

REDUCTIONS = (
    (normal(3, 5), {}),
    (normal(3, 5), {"axes": [1]}),
    (normal(3, 5), {"axes": [0], "keepdims": True}),
    (normal(2, 3, 4, 5), {"axes": [1, 3]}),
    (normal(2, 3, 4, 5), {"axes": [-1, 0], "keepdims": True}),
    (normal(2, 1, 5), {"axes": [1]}),
    (normal(4, 3), {"axes": [0, 1], "keepdims": True}),
    (normal(), {}),
    (normal(0, 3), {"axes": [1]}),
    (normal(3, 0, 2), {"axes": [0]}),
    (normal(7, 133), {"axes": [1]}),
    (normal(133, 7), {"axes": [0]}),
)
EMPTY = (normal(2, 0), {"axes": [1]})  # a sum of nothing; a maximum of nothing is no number
for name, function, draws in (
    ("reduce_sum", torch.sum, (*REDUCTIONS, EMPTY)),
    ("reduce_mean", torch.mean, REDUCTIONS),
    ("reduce_max", torch.amax, REDUCTIONS),
    ("reduce_min", torch.amin, REDUCTIONS),
):
    row(
        name,
        reduced(function),
        *(case(draw, **attrs) for draw, attrs in draws),
        *[case(integers(3, 4), axes=[1])] * (name != "reduce_mean"),
        *[case(given([[1.0, 4.0, 4.0], [0.0, 0.0, 0.0]]), axes=[1])]
        * (name[-3:] in ("max", "min")),
    )

# ---- shapes ----

row("flat", lambda x: x.flatten(1), *(case(normal(*s)) for s in ((2, 3, 4), (5, 1), (0, 2, 3))))
row(
    "reshape",
    lambda x, shape: x.reshape(shape),
    case(normal(3, 4), shape=[4, 3]),
    case(normal(2, 3, 4), shape=[2, -1]),
    case(normal(6), shape=[2, 3, 1]),
    case(normal(2, 3), shape=[6]),
    case(normal(1, 1), shape=[1]),
    case(normal(), shape=[1, 1]),
    case(normal(0, 4), shape=[0, 2, 2]),
    case(integers(2, 6), shape=[3, 4]),
)
row(
    "transpose",
    lambda x, perm: x.permute(perm),
    case(normal(3, 5), perm=[1, 0]),
    case(normal(2, 3, 4), perm=[0, 2, 1]),
    case(normal(2, 3, 4, 5), perm=[3, 1, 0, 2]),
    case(normal(2, 3, 4), perm=[0, 1, 2]),
    case(normal(2, 3, 4), perm=[-1, 0, 1]),
    case(normal(7), perm=[0]),
    case(normal(0, 3), perm=[1, 0]),
    case(normal(33, 17), perm=[1, 0]),
    case(integers(3, 2), perm=[1, 0]),
)
row(
    "concat",
    lambda *x, axis: torch.cat(x, axis),
    case(normal(3, 2), normal(3, 5), axis=1),
    case(normal(1, 4), normal(3, 4), normal(2, 4), axis=0),
    case(normal(2, 3, 4), normal(2, 1, 4), axis=-2),
    case(normal(5), axis=0),
    case(normal(3, 0), normal(3, 2), axis=1),
    case(normal(0, 2), normal(0, 3), axis=1),
    case(integers(2, 3), integers(2, 1), axis=1),
)
row(
    "split",
    lambda x, sizes, axis: torch.split(x, list(sizes), axis),
    case(normal(3, 7), sizes=[2, 5], axis=1),
    case(normal(6, 2), sizes=[1, 2, 3], axis=0),
    case(normal(2, 5, 3), sizes=[4, 1], axis=-2),
    case(normal(4), sizes=[4], axis=0),
    case(normal(2, 3), sizes=[0, 3], axis=1),
    case(normal(0, 4), sizes=[1, 3], axis=1),
    case(integers(2, 4), sizes=[1, 3], axis=1),
    outputs=lambda case: len(case.attrs["sizes"]),
)
row(
    "broadcast_to",
    lambda x, shape: x.broadcast_to(shape),
    case(normal(3, 1), shape=[3, 5]),
    case(normal(5), shape=[2, 3, 5]),
    case(normal(1, 4), shape=[3, 4]),
    case(normal(2, 3), shape=[2, 3]),
    case(normal(), shape=[2, 2]),
    case(normal(1), shape=[0]),
    case(integers(1, 3), shape=[2, 3]),
)

row(
    "gather",
    lambda x, index, dim: torch.gather(x, dim, index.long()),
    case(normal(3, 5), ids(3, 4, below=5), dim=1),
    case(normal(4, 3), ids(2, 3, below=4, dtype="int32"), dim=0),
    case(normal(2, 5, 3), ids(2, 7, 3, below=5), dim=-2),
    case(normal(5, 4, 3), ids(3, 2, 6, below=3), dim=2),
    case(normal(7), ids(9, below=7), dim=0),
    case(normal(1, 1), ids(1, 1, below=1), dim=1),
    case(normal(3, 5), given([[2, 2], [0, 2], [4, 4]], "int64"), dim=1),
    case(normal(0, 4), ids(0, 2, below=4), dim=1),
    case(normal(3, 4), ids(3, 0, below=4), dim=1),
    case(integers(3, 5), ids(3, 2, below=5), dim=1),
)


def _top_k(x, k, sorted=True):
    values, indices = torch.topk(x, k, -1)
    if not sorted:
        indices = indices.sort(-1).values
        values = x.gather(-1, indices)
    return values, indices.int()


row(
    "top_k",
    _top_k,
    case(distinct(3, 5), k=2),
    case(distinct(1, 1), k=1),
    case(distinct(9), k=9),
    case(distinct(2, 3, 7), k=3, sorted=False),
    case(distinct(4, 65), k=4),
    case(distinct(0, 4), k=2),
    outputs=2,
)

# ---- mixture of experts ----

row(
    "group_by",
    group_by,
    case(normal(5, 3), ids(5, 2, below=4, dtype="int32"), n=4, alpha=1.0),
    case(normal(1, 1), ids(1, 1, below=1), n=1, alpha=1.0),
    case(normal(6, 2, 3), ids(6, 1, below=3), n=3, alpha=0.5),
    case(normal(4, 5), given([[0, 1], [1, 0], [1, 2], [1, 0]], "int64"), n=3, alpha=2.0),
    case(normal(7), ids(7, 3, below=5), n=5, alpha=1.5),
    case(normal(0, 2), ids(0, 2, below=2), n=2, alpha=1.0),
    outputs=lambda case: case.attrs["n"],
)


def _aggregate(samples, choices, experts, places, *features, dtype="int32", **attrs):
    chosen = ids(samples, choices, below=experts, dtype=dtype)
    gates = (probability(samples, choices), chosen, attrs.pop("true", chosen))
    made = [normal(places, *features) for _ in range(experts)]
    return case(*gates, normal(samples, experts), *made, n=experts, **attrs)


row(
    "aggregate",
    aggregate,
    _aggregate(5, 2, 4, 3, 7),
    _aggregate(1, 1, 1, 1, 1),
    _aggregate(6, 1, 3, 4, 2, 3, dtype="int64", lambda_bal=0.5),
    _aggregate(6, 2, 3, 2, 5, true=ids(6, 2, below=3), lambda_bal=0.1),
    _aggregate(4, 3, 2, 8),
    _aggregate(0, 2, 2, 1, 3),
)

# ---- losses; labels get no gradient ----

LOGITS = {"from_logits": True}
row(
    "categorical_crossentropy",
    categorical_crossentropy,
    case(distribution(5, 3), fixed(distribution(5, 3))),
    case(distribution(2, 4, 3), fixed(distribution(2, 4, 3))),
    case(normal(5, 3), fixed(distribution(5, 3)), **LOGITS),
    case(normal(4, 7), fixed(distribution(4, 7)), label_smoothing=0.2, **LOGITS),
    case(distribution(4, 7), fixed(distribution(4, 7)), label_smoothing=0.1),
    case(normal(3, 2), fixed(positive(3, 2)), **LOGITS),
    case(normal(1, 1), fixed(distribution(1, 1)), **LOGITS),
)
row(
    "sparse_categorical_crossentropy",
    sparse_categorical_crossentropy,
    case(distribution(5, 3), ids(5, below=3)),
    case(distribution(5, 3), ids(5, 1, below=3, dtype="int32")),
    case(normal(6, 10), ids(6, 1, below=10), **LOGITS),
    case(normal(6, 10), ids(6, below=10, dtype="int32"), **LOGITS),
    case(normal(2, 3, 4), ids(2, 3, below=4), **LOGITS),
    case(distribution(2, 3, 4), ids(2, 3, 1, below=4)),
    case(normal(1, 1), ids(1, 1, below=1), **LOGITS),
    case(normal(300, 7), ids(300, below=7), **LOGITS),
)
row(
    "binary_crossentropy",
    binary_crossentropy,
    case(probability(5, 1), fixed(probability(5, 1))),
    case(probability(3, 4), fixed(probability(3, 4))),
    case(normal(3, 4), fixed(probability(3, 4)), **LOGITS),
    case(normal(7), fixed(probability(7)), **LOGITS),
    case(given([[40.0], [-40.0], [90.0]]), fixed(given([[0.0], [1.0], [1.0]])), **LOGITS),
)


def _squared_error(p, y, reduction="mean"):
    return ((p - y) ** 2).mean() if reduction == "mean" else ((p - y) ** 2).sum() / len(p)


row(
    "mean_squared_error",
    _squared_error,
    case(normal(5, 3), fixed(normal(5, 3))),
    case(normal(5, 3), fixed(normal(5, 3)), reduction="sum"),
    case(normal(2, 3, 4), fixed(normal(2, 3, 4)), reduction="sum"),
    case(normal(7), fixed(normal(7))),
    case(normal(1, 1), fixed(normal(1, 1))),
    case(normal(65, 47), fixed(normal(65, 47))),
)
row(
    "mean_absolute_error",
    lambda p, y: (p - y).abs().mean(),
    case(normal(5, 3), fixed(normal(5, 3))),
    case(normal(2, 3, 4), fixed(normal(2, 3, 4))),
    case(normal(7), fixed(normal(7))),
)
row(
    "identity_loss",
    lambda p, y=None: p.sum() / len(p),
    case(normal(5, 3)),
    case(normal(4)),
    case(normal(3, 2), fixed(normal(3, 2))),
)

# ---- what has no row: tested where it is used ----

ELSEWHERE = {
    "batch_norm_groups": "test_batch_norm.py",
    "running_statistics": "test_batch_norm.py",
    "lstm_scan": "references.py",
    "lstm_scan_grad": "references.py",
    "expert_balance": "references.py",
    "aggregate_grad_experts": "references.py",
    "aggregate_grad_gate": "references.py",
    "causal_mask": "test_attention.py",
    "causal_mask_grad": "test_attention.py",
    "input": "test_sources.py",
    "constant": "test_sources.py",
    "weight": "test_sources.py",
    "initialize": "test_initializers.py",
    "increment": "test_optimizers.py",
    "sgd": "test_optimizers.py",
    "adam": "test_optimizers.py",
    "regularize": "test_optimizers.py",
    "square_sum": "../core/test_clipping.py",
    "clip_factor": "../core/test_clipping.py",
    "scale": "../core/test_clipping.py",
    "exponential_decay": "../core/test_schedules.py",
    "cosine_decay": "../core/test_schedules.py",
    "polynomial_decay": "../core/test_schedules.py",
    "piecewise_constant": "../core/test_schedules.py",
    "metrics": "test_metrics.py",
    "move": "../native/test_moves.cc",
    "reorder": "../native/test_layouts.cc",
}
