"""The enumerations of flexflow.core, where FlexFlow's scripts look for them."""

from flexflow.core.types import (
    ActiMode,
    AggrMode,
    CompMode,
    DataType,
    LossType,
    MetricsType,
    ParameterSyncType,
    PoolType,
    RegularizerMode,
    enum_to_int,
    enum_to_str,
    int_to_enum,
    str_to_enum,
)

__all__ = [
    "ActiMode",
    "AggrMode",
    "CompMode",
    "DataType",
    "LossType",
    "MetricsType",
    "ParameterSyncType",
    "PoolType",
    "RegularizerMode",
    "enum_to_int",
    "enum_to_str",
    "int_to_enum",
    "str_to_enum",
]
