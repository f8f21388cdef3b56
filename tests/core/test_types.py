"""Names and values are FlexFlow's; defaults of layers are, too."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import flexflow.type
from flexflow.core import *  # noqa: F403
from flexflow.core import FFModel, types

VALUES = """
ActiMode AC_MODE_NONE 10 AC_MODE_RELU 11 AC_MODE_SIGMOID 12 AC_MODE_TANH 13 AC_MODE_GELU 14
RegularizerMode REG_MODE_NONE 17 REG_MODE_L1 18 REG_MODE_L2 19
AggrMode AGGR_MODE_NONE 20 AGGR_MODE_SUM 21 AGGR_MODE_AVG 22
PoolType POOL_MAX 30 POOL_AVG 31
DataType DT_BOOLEAN 40 DT_INT32 41 DT_INT64 42 DT_HALF 43 DT_FLOAT 44 DT_DOUBLE 45 DT_NONE 49
LossType LOSS_CATEGORICAL_CROSSENTROPY 50 LOSS_SPARSE_CATEGORICAL_CROSSENTROPY 51
LossType LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE 52 LOSS_MEAN_SQUARED_ERROR_SUM_REDUCE 53
LossType LOSS_IDENTITY 54
CompMode TRAINING 70 INFERENCE 71
ParameterSyncType NONE 80 PS 81 NCCL 82
MetricsType METRICS_ACCURACY 1001 METRICS_CATEGORICAL_CROSSENTROPY 1002
MetricsType METRICS_SPARSE_CATEGORICAL_CROSSENTROPY 1004 METRICS_MEAN_SQUARED_ERROR 1008
MetricsType METRICS_ROOT_MEAN_SQUARED_ERROR 1016 METRICS_MEAN_ABSOLUTE_ERROR 1032
"""
ROWS = [
    (enum, name, int(value))
    for enum, *rest in map(str.split, VALUES.strip().splitlines())
    for name, value in zip(rest[::2], rest[1::2])
]

# FlexFlow's signatures without self; an argument that is not here comes after, by keyword or as
# one more positional one. `datatype` of dense is the input's unless given, where FlexFlow casts.
SIGNATURES = """
create_tensor(dims, data_type, create_grad=True)
create_constant(dims, value, data_type)
exp(x, name=None)
sin(x, name=None)
cos(x, name=None)
add(x, y, inplace_a=False, name=None)
subtract(x, y, inplace_a=False, name=None)
multiply(x, y, inplace_a=False, name=None)
divide(x, y, inplace_a=False, name=None)
max(x, y, inplace_a=False, name=None)
min(x, y, inplace_a=False, name=None)
reduce_sum(input, axes, keepdims=False, name=None)
rsqrt(input, name=None)
pow(input, exponent, name=None)
mean(input, dims, keepdims=False, name=None)
conv2d(input, out_channels, kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w, \
activation=AC_MODE_NONE, groups=1, use_bias=True, shared_op=None, kernel_initializer=None, \
bias_initializer=None, name=None)
embedding(input, num_embeddings, embedding_dim, aggr, shared_op=None, kernel_initializer=None, \
name=None)
pool2d(input, kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w, pool_type=POOL_MAX, \
activation=AC_MODE_NONE, name=None)
batch_norm(input, relu=True, name=None)
layer_norm(input, axes, elementwise_affine=True, eps=1e-05, name=None)
dense(input, out_dim, activation=AC_MODE_NONE, use_bias=True, datatype, shared_op=None, \
kernel_initializer=None, bias_initializer=None, kernel_regularizer=None, name=None)
batch_matmul(A, B, a_seq_length_dim=None, b_seq_length_dim=None, name=None)
gather(input, index, dim, name=None)
multihead_attention(query, key, value, embed_dim, num_heads, kdim=0, vdim=0, dropout=0.0, \
bias=True, add_bias_kv=False, add_zero_attn=False, kernel_initializer=None, name=None)
concat(tensors, axis, name=None)
split(input, sizes, axis, name=None)
flat(input, name=None)
softmax(input, axis=-1, name=None)
reshape(input, shape, name=None)
transpose(input, perm, name=None)
scalar_multiply(input, scalar, inplace=True, name=None)
scalar_add(input, scalar, inplace=True, name=None)
scalar_sub(input, scalar, inplace=True, name=None)
scalar_true_divide(input, scalar, inplace=True, name=None)
gelu(input, inplace=True, name=None)
relu(input, inplace=True, name=None)
elu(input, inplace=True, name=None)
identity(input, name=None)
sigmoid(input, name=None)
tanh(input, name=None)
dropout(input, rate, seed, name=None)
compile(optimizer=None, loss_type=None, metrics=None, comp_mode=None)
fit(x=None, y=None, batch_size=None, epochs=1)
eval(x=None, y=None, batch_size=None)
create_data_loader(batch_tensor, full_array)
forward(seq_length=None)
backward(seq_length=None)
print_layers(id=-1)
"""


@pytest.mark.parametrize(("enum", "name", "value"), ROWS)
def test_enum_values(enum: str, name: str, value: int) -> None:
    assert getattr(types, enum)[name].value == value
    assert getattr(flexflow.type, enum) is getattr(types, enum)


@pytest.mark.parametrize("signature", SIGNATURES.strip().splitlines())
def test_signatures(signature: str) -> None:
    method, _, arguments = signature.rstrip(")").partition("(")
    ours = list(inspect.signature(getattr(FFModel, method)).parameters.values())[1:]
    for wanted, parameter in zip(arguments.split(", "), ours):
        name, _, default = wanted.partition("=")
        assert parameter.name == name
        if default:
            text = getattr(parameter.default, "name", repr(parameter.default))
            assert text == default, wanted
    assert len(ours) >= len(arguments.split(", "))


def test_what_later_versions_bring_is_absent() -> None:
    assert not hasattr(FFModel, "reverse")


def test_star_import_gives_what_scripts_use() -> None:
    for name in ("FFConfig", "FFModel", "SingleDataLoader", "UniformInitializer", "DataType"):
        assert name in globals()


def test_helpers() -> None:
    assert types.enum_to_int(types.PoolType, types.PoolType.POOL_MAX) == 30
    assert types.int_to_enum(types.PoolType, 31) is types.PoolType.POOL_AVG
    assert types.enum_to_str(types.PoolType, types.PoolType.POOL_AVG) == "POOL_AVG"
    assert types.str_to_enum(types.PoolType, "POOL_AVG") is types.PoolType.POOL_AVG
    sizes = [types.get_datatype_size(types.as_data_type(n)) for n in types.DTYPE_NAMES.values()]
    assert sizes == [1, 4, 8, 2, 4, 8, 2]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: types.enum_to_int(types.PoolType, types.ActiMode.AC_MODE_NONE), TypeError),
        (lambda: types.int_to_enum(types.PoolType, 99), ValueError),
        (lambda: types.str_to_enum(types.PoolType, "POOL_SUM"), ValueError),
        (lambda: types.as_data_type("float8"), TypeError),
        (lambda: types.as_data_type(None), TypeError),
        (lambda: types.as_data_type("complex64"), TypeError),
        (lambda: types.as_data_type(types.DataType.DT_NONE), TypeError),
    ],
)
def test_bad_helpers(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("name", types.DTYPE_NAMES.values())
def test_numpy_names(name: str) -> None:
    data_type = types.as_data_type(name)
    assert types.promote(data_type, data_type) is data_type
    if name != "bfloat16":
        assert types.as_data_type(np.dtype(name)) is data_type
        assert types.numpy_dtype(data_type) == name
