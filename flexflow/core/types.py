"""Enumerations with FlexFlow's names and values, and what each value is called elsewhere.

>>> DataType.DT_FLOAT.value, ActiMode.AC_MODE_RELU.value
(44, 11)
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar, Union

import numpy as np

E = TypeVar("E", bound=Enum)


class ActiMode(Enum):
    """The activation that a layer applies to its result."""

    AC_MODE_NONE = 10
    AC_MODE_RELU = 11
    AC_MODE_SIGMOID = 12
    AC_MODE_TANH = 13
    AC_MODE_GELU = 14


class RegularizerMode(Enum):
    """The kind of a weight's penalty."""

    REG_MODE_NONE = 17
    REG_MODE_L1 = 18
    REG_MODE_L2 = 19


class AggrMode(Enum):
    """How an embedding combines the vectors of the last dimension of its ids."""

    AGGR_MODE_NONE = 20
    AGGR_MODE_SUM = 21
    AGGR_MODE_AVG = 22


class PoolType(Enum):
    """What a pooling window gives."""

    POOL_MAX = 30
    POOL_AVG = 31


class DataType(Enum):
    """The type of a tensor's elements. DT_BFLOAT16 is not in FlexFlow."""

    DT_BOOLEAN = 40
    DT_INT32 = 41
    DT_INT64 = 42
    DT_HALF = 43
    DT_FLOAT = 44
    DT_DOUBLE = 45
    DT_BFLOAT16 = 46
    DT_NONE = 49


class LossType(Enum):
    """The loss of a model; the last two are not in FlexFlow."""

    LOSS_CATEGORICAL_CROSSENTROPY = 50
    LOSS_SPARSE_CATEGORICAL_CROSSENTROPY = 51
    LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE = 52
    LOSS_MEAN_SQUARED_ERROR_SUM_REDUCE = 53
    LOSS_IDENTITY = 54
    LOSS_MEAN_ABSOLUTE_ERROR = 55
    LOSS_BINARY_CROSSENTROPY = 56


class CompMode(Enum):
    """What a model is compiled for."""

    TRAINING = 70
    INFERENCE = 71


class ParameterSyncType(Enum):
    """How FlexFlow exchanges gradients; kept for its scripts, since here the plan decides."""

    NONE = 80
    PS = 81
    NCCL = 82


class MetricsType(Enum):
    """What is measured beside the loss."""

    METRICS_ACCURACY = 1001
    METRICS_CATEGORICAL_CROSSENTROPY = 1002
    METRICS_SPARSE_CATEGORICAL_CROSSENTROPY = 1004
    METRICS_MEAN_SQUARED_ERROR = 1008
    METRICS_ROOT_MEAN_SQUARED_ERROR = 1016
    METRICS_MEAN_ABSOLUTE_ERROR = 1032


# What the library calls a value, and the attributes that come with the name.
DTYPE_NAMES = {
    DataType.DT_BOOLEAN: "bool",
    DataType.DT_INT32: "int32",
    DataType.DT_INT64: "int64",
    DataType.DT_HALF: "float16",
    DataType.DT_FLOAT: "float32",
    DataType.DT_DOUBLE: "float64",
    DataType.DT_BFLOAT16: "bfloat16",
}
LOSSES: dict[LossType, tuple[str, dict[str, Any]]] = {
    LossType.LOSS_CATEGORICAL_CROSSENTROPY: ("categorical_crossentropy", {}),
    LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY: ("sparse_categorical_crossentropy", {}),
    LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE: ("mean_squared_error", {"reduction": "mean"}),
    LossType.LOSS_MEAN_SQUARED_ERROR_SUM_REDUCE: ("mean_squared_error", {"reduction": "sum"}),
    LossType.LOSS_IDENTITY: ("identity_loss", {}),
    LossType.LOSS_MEAN_ABSOLUTE_ERROR: ("mean_absolute_error", {}),
    LossType.LOSS_BINARY_CROSSENTROPY: ("binary_crossentropy", {}),
}

# The lower of two operands is cast to the higher; see promote().
_ORDER = (
    DataType.DT_BOOLEAN,
    DataType.DT_INT32,
    DataType.DT_INT64,
    DataType.DT_HALF,
    DataType.DT_BFLOAT16,
    DataType.DT_FLOAT,
    DataType.DT_DOUBLE,
)
DataTypeLike = Union[DataType, str, type, "np.dtype"]


def as_data_type(value: DataTypeLike, who: str = "data_type") -> DataType:
    """A DataType from itself, or from what NumPy takes for a dtype (``"float32"``, ``np.int64``).

    Raises:
        TypeError: there is no such type; the message starts with ``who``.

    >>> as_data_type("bfloat16"), as_data_type(np.int64)
    (<DataType.DT_BFLOAT16: 46>, <DataType.DT_INT64: 42>)
    """
    if isinstance(value, DataType) and value in DTYPE_NAMES:
        return value
    # No dtype is compared with a text: NumPy's comparison may swallow a KeyboardInterrupt.
    plain = value is None or (isinstance(value, str) and value == "bfloat16")
    try:
        name = value if plain else np.dtype(value).name  # type: ignore[arg-type]
    except TypeError:
        name = None
    for data_type, known in DTYPE_NAMES.items():
        if known == name:
            return data_type
    raise TypeError(
        f"{who}: got {value!r}, expected a DataType or one of {', '.join(DTYPE_NAMES.values())}"
    )


def numpy_dtype(data_type: DataType) -> np.dtype:
    """The dtype of the arrays that carry a tensor's values; bfloat16 travels as float32.

    >>> numpy_dtype(DataType.DT_BFLOAT16)
    dtype('float32')
    """
    name = DTYPE_NAMES[data_type]
    return np.dtype("float32" if name == "bfloat16" else name)


def is_floating(data_type: DataType) -> bool:
    """Whether values of this type have fractions.

    >>> is_floating(DataType.DT_HALF), is_floating(DataType.DT_INT64)
    (True, False)
    """
    return _ORDER.index(data_type) >= _ORDER.index(DataType.DT_HALF)


def promote(a: DataType, b: DataType) -> DataType:
    """The type in which operands of two types meet: the higher one; float16 and bfloat16 meet in
    float32, since neither holds the other.

    >>> promote(DataType.DT_INT64, DataType.DT_HALF)
    <DataType.DT_HALF: 43>
    >>> promote(DataType.DT_HALF, DataType.DT_BFLOAT16)
    <DataType.DT_FLOAT: 44>
    """
    if {a, b} == {DataType.DT_HALF, DataType.DT_BFLOAT16}:
        return DataType.DT_FLOAT
    return max(a, b, key=_ORDER.index)


def get_datatype_size(data_type: DataTypeLike) -> int:
    """Bytes of one element.

    >>> get_datatype_size(DataType.DT_DOUBLE)
    8
    """
    data_type = as_data_type(data_type)
    return 2 if data_type is DataType.DT_BFLOAT16 else numpy_dtype(data_type).itemsize


def check_enum(enum: type[E], value: Any, who: str) -> E:
    """The value itself, if it belongs to the enumeration.

    Raises:
        TypeError: it does not; the message starts with ``who`` and lists the members.
    """
    if isinstance(value, enum):
        return value
    members = ", ".join(f"{enum.__name__}.{name}" for name in enum.__members__)
    raise TypeError(f"{who}: got {value!r}, expected one of {members}")


def enum_to_int(enum: type[E], item: E) -> int:
    """The number of a member.

    >>> enum_to_int(PoolType, PoolType.POOL_AVG)
    31
    """
    return int(check_enum(enum, item, "enum_to_int").value)


def int_to_enum(enum: type[E], value: int) -> E:
    """The member with a number; ValueError if there is none.

    >>> int_to_enum(PoolType, 31)
    <PoolType.POOL_AVG: 31>
    """
    return enum(value)


def enum_to_str(enum: type[E], item: E) -> str:
    """The name of a member.

    >>> enum_to_str(PoolType, PoolType.POOL_AVG)
    'POOL_AVG'
    """
    return check_enum(enum, item, "enum_to_str").name


def str_to_enum(enum: type[E], name: str) -> E:
    """The member of a name; ValueError if there is none.

    >>> str_to_enum(PoolType, "POOL_AVG")
    <PoolType.POOL_AVG: 31>
    """
    if name in enum.__members__:
        return enum[name]
    raise ValueError(f"{enum.__name__} has no {name!r}; it has {', '.join(enum.__members__)}")


def metric_name(metric: MetricsType) -> str:
    """What the library calls a metric.

    >>> metric_name(MetricsType.METRICS_MEAN_SQUARED_ERROR)
    'mean_squared_error'
    """
    return check_enum(MetricsType, metric, "metrics").name[len("METRICS_") :].lower()


def activation_name(activation: ActiMode) -> str:
    """What the library calls an activation.

    >>> activation_name(ActiMode.AC_MODE_RELU)
    'relu'
    """
    return check_enum(ActiMode, activation, "activation").name[len("AC_MODE_") :].lower()
