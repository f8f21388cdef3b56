"""FlexFlow's own interface: build a graph of layers, compile it, train it.

Importing this loads no library, reads no command line and prints nothing.
"""

from flexflow.core._lib import FlexFlowError, describe
from flexflow.core.config import FFConfig
from flexflow.core.dataloader import DataSet, SingleDataLoader
from flexflow.core.initializers import (
    ConstantInitializer,
    GlorotNormalInitializer,
    GlorotUniformInitializer,
    HeNormalInitializer,
    HeUniformInitializer,
    Initializer,
    LecunNormalInitializer,
    LecunUniformInitializer,
    NormInitializer,
    OneInitializer,
    TruncatedNormalInitializer,
    UniformInitializer,
    ZeroInitializer,
)
from flexflow.core.layer import Op
from flexflow.core.machine_model import MachineModel
from flexflow.core.metrics import PerfMetrics
from flexflow.core.model import FFModel
from flexflow.core.optimizers import AdamOptimizer, Optimizer, SGDOptimizer
from flexflow.core.placement import Placement
from flexflow.core.ranks import rank, ranks
from flexflow.core.regularizers import L1Regularizer, L2Regularizer, Regularizer
from flexflow.core.schedules import (
    CosineDecay,
    ExponentialDecay,
    PiecewiseConstant,
    PolynomialDecay,
    Schedule,
)
from flexflow.core.search import Estimate, Found, search
from flexflow.core.strategy import Strategy
from flexflow.core.tensor import Parameter, Tensor
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
    get_datatype_size,
    int_to_enum,
    str_to_enum,
)

__all__ = [
    "ActiMode",
    "AdamOptimizer",
    "AggrMode",
    "CompMode",
    "ConstantInitializer",
    "CosineDecay",
    "DataSet",
    "DataType",
    "Estimate",
    "ExponentialDecay",
    "FFConfig",
    "FFModel",
    "FlexFlowError",
    "Found",
    "GlorotNormalInitializer",
    "GlorotUniformInitializer",
    "HeNormalInitializer",
    "HeUniformInitializer",
    "Initializer",
    "L1Regularizer",
    "L2Regularizer",
    "LecunNormalInitializer",
    "LecunUniformInitializer",
    "LossType",
    "MachineModel",
    "MetricsType",
    "NormInitializer",
    "OneInitializer",
    "Op",
    "Optimizer",
    "Parameter",
    "ParameterSyncType",
    "PerfMetrics",
    "PiecewiseConstant",
    "Placement",
    "PolynomialDecay",
    "PoolType",
    "Regularizer",
    "RegularizerMode",
    "SGDOptimizer",
    "Schedule",
    "SingleDataLoader",
    "Strategy",
    "Tensor",
    "TruncatedNormalInitializer",
    "UniformInitializer",
    "ZeroInitializer",
    "describe",
    "enum_to_int",
    "enum_to_str",
    "get_datatype_size",
    "int_to_enum",
    "rank",
    "ranks",
    "search",
    "str_to_enum",
]
