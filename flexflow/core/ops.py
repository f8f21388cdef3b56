"""Layers with weights and windows: one line each; see ``shapes.py`` and ``elementwise.py`` for the
rest.

Shapes are (batch, ...) and, of images, (N, C, H, W). In the examples, ``x`` is a float tensor of
shape (64, 16) and ``images`` one of shape (64, 3, 32, 32).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from flexflow.core.builder import weight_attributes
from flexflow.core.checks import boolean, integer, integers, real
from flexflow.core.experts import ExpertOps
from flexflow.core.initializers import Initializer
from flexflow.core.layer import Op
from flexflow.core.tensor import Tensor
from flexflow.core.types import (
    DTYPE_NAMES,
    ActiMode,
    AggrMode,
    DataType,
    DataTypeLike,
    PoolType,
    activation_name,
    as_data_type,
    check_enum,
    is_floating,
)

Shared = Union[Op, Tensor, None]
Padding = Union[int, tuple[int, int]]


class Ops(ExpertOps):
    """Methods of FFModel."""

    def dense(
        self,
        input: Tensor,
        out_dim: int,
        activation: ActiMode = ActiMode.AC_MODE_NONE,
        use_bias: bool = True,
        datatype: DataTypeLike | None = None,
        shared_op: Shared = None,
        kernel_initializer: Initializer | None = None,
        bias_initializer: Initializer | None = None,
        kernel_regularizer: Any = None,
        name: str | None = None,
    ) -> Tensor:
        """activation(x @ kernel.T + bias), on the last dimension: (..., in) -> (..., out_dim).

        Args:
            out_dim: at least 1.
            datatype: of the result; the input is cast to it. None: the input's, or DT_FLOAT for an
                input of integers.
            shared_op: a dense layer, or its output, whose weights are taken.
            kernel_initializer: of the kernel (out_dim, in); None: GlorotUniformInitializer.
            bias_initializer: of the bias (out_dim,); None: zeros.
            kernel_regularizer: L1Regularizer or L2Regularizer.

        Raises:
            ValueError: out_dim < 1, or a shared kernel of another shape.

        >>> ffmodel.dense(x, 10, ActiMode.AC_MODE_RELU).dims
        (64, 10)
        """
        return self._op(
            "linear",
            [self._in_type(input, datatype, name or "dense")],
            name,
            out_channels=integer(out_dim, f"{name or 'dense'}: out_dim"),
            use_bias=use_bias,
            activation=activation_name(activation),
            shared_op=shared_op,
            weights=_weights(kernel_initializer, kernel_regularizer, bias_initializer),
        )

    def conv2d(
        self,
        input: Tensor,
        out_channels: int,
        kernel_h: int,
        kernel_w: int,
        stride_h: int = 1,
        stride_w: int = 1,
        padding_h: Padding = 0,
        padding_w: Padding = 0,
        activation: ActiMode = ActiMode.AC_MODE_NONE,
        groups: int = 1,
        use_bias: bool = True,
        shared_op: Shared = None,
        kernel_initializer: Initializer | None = None,
        bias_initializer: Initializer | None = None,
        name: str | None = None,
        *,
        dilation: tuple[int, int] = (1, 1),
        padding: str = "explicit",
        kernel_regularizer: Any = None,
    ) -> Tensor:
        """A convolution: (N, C, H, W) -> (N, out_channels, H', W') with
        H' = (H + top + bottom - dilation * (kernel - 1) - 1) // stride + 1.

        Args:
            padding_h, padding_w: zeros before and after, one number for both or a pair.
            groups: parts of the channels that do not mix; divides C and out_channels.
            shared_op: a conv2d layer, or its output, whose weights are taken.
            kernel_initializer: of the kernel (out_channels, C / groups, kernel_h, kernel_w); None:
                GlorotUniformInitializer.
            dilation: distance between the kernel's elements, (height, width).
            padding: "explicit" takes the numbers above; "same" gives H' = ceil(H / stride), odd
                padding going to the end as in Keras; "valid" pads nothing.

        Raises:
            ValueError: the input is not of rank 4, a window larger than the padded input, groups
                that do not divide, or numbers beside "same" or "valid".

        >>> ffmodel.conv2d(images, 8, 3, 3, 2, 2, 1, 1, ActiMode.AC_MODE_RELU).dims
        (64, 8, 16, 16)
        >>> ffmodel.conv2d(images, 8, 3, 3, padding="same", dilation=(2, 2)).dims
        (64, 8, 32, 32)
        """
        who = name or "conv2d"
        return self._op(
            "conv2d",
            [input],
            name,
            out_channels=integer(out_channels, f"{who}: out_channels"),
            kernel=integers([kernel_h, kernel_w], f"{who}: kernel_h, kernel_w"),
            stride=integers([stride_h, stride_w], f"{who}: stride_h, stride_w"),
            **_padding(padding, padding_h, padding_w, who),
            dilation=integers(dilation, f"{who}: dilation"),
            # FlexFlow's scripts have True for one group.
            groups=integer(1 if groups is True else groups, f"{who}: groups"),
            use_bias=use_bias,
            activation=activation_name(activation),
            shared_op=shared_op,
            weights=_weights(kernel_initializer, kernel_regularizer, bias_initializer),
        )

    def pool2d(
        self,
        input: Tensor,
        kernel_h: int,
        kernel_w: int,
        stride_h: int | None = None,
        stride_w: int | None = None,
        padding_h: Padding = 0,
        padding_w: Padding = 0,
        pool_type: PoolType = PoolType.POOL_MAX,
        activation: ActiMode = ActiMode.AC_MODE_NONE,
        name: str | None = None,
        *,
        padding: str = "explicit",
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> Tensor:
        """The largest or the mean value of each window: (N, C, H, W) -> (N, C, H', W').

        Args:
            stride_h, stride_w: None: the window's size.
            padding_h, padding_w, padding: as in ``conv2d``.
            ceil_mode: keep a last window that is not full, if it begins inside of the input.
            count_include_pad: let a mean count the padding.

        >>> ffmodel.pool2d(images, 2, 2, 2, 2, 0, 0, PoolType.POOL_AVG).dims
        (64, 3, 16, 16)
        """
        who = name or "pool2d"
        pool_type = check_enum(PoolType, pool_type, f"{who}: pool_type")
        kind = activation_name(activation)
        window = integers([kernel_h, kernel_w], f"{who}: kernel_h, kernel_w")
        strides = [
            window[i] if stride is None else stride for i, stride in enumerate((stride_h, stride_w))
        ]
        pooled = self._op(
            "pool2d",
            [input],
            name,
            kernel=window,
            stride=integers(strides, f"{who}: stride_h, stride_w"),
            **_padding(padding, padding_h, padding_w, who),
            pool_type="max" if pool_type is PoolType.POOL_MAX else "avg",
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )
        return pooled if kind == "none" else self._then(pooled, kind)

    def batch_norm(
        self,
        input: Tensor,
        relu: bool = True,
        name: str | None = None,
        *,
        eps: float = 1e-5,
        momentum: float = 0.9,
        scale: bool = True,
        center: bool = True,
        unbiased: bool = True,
        groups: int = 1,
    ) -> Tensor:
        """Normalises each channel (axis 1) over all else, then applies a learnt scale and shift
        (Ioffe and Szegedy, 2015). ``eval`` and ``predict`` take the running statistics.

        With ``groups``, the rows of the batch are cut into as many consecutive groups, as even as
        can be (64 rows in 3 are 22, 21 and 21), and each is normalised with its own mean and
        variance; the running ones move as if the groups had come one after the other (ghost batch
        normalisation, "Train longer, generalize better", Hoffer et al. 2017, algorithm 1). It is
        part of the model: it computes the same however many devices share the samples, and where
        their shares consist of whole groups, they exchange nothing to normalise. A last batch
        with fewer rows than groups has a group for each row.

        Args:
            relu: apply relu to the result, as FlexFlow does by default.
            eps: >= 0, added to the variance.
            momentum: in [0, 1], the share of the old running statistics that is kept in each step.
            scale, center: whether scale and shift are learnt.
            unbiased: whether the variance that enters the running one is divided by n - 1.
            groups: from 1 to the number of rows.

        Raises:
            ValueError: a number is out of range.

        >>> norm = ffmodel.batch_norm(images).owner_op
        >>> [p.name.split("/")[-1] for p in norm.get_parameters()]
        ['gamma', 'beta', 'running_mean', 'running_var']
        """
        who = name or "batch_norm"
        relu = boolean(relu, f"{who}: relu")
        normal = self._op(
            "batch_norm",
            [input],
            name,
            eps=real(eps, f"{who}: eps", 0),
            momentum=real(momentum, f"{who}: momentum", 0, most=1),
            scale=scale,
            center=center,
            unbiased=unbiased,
            groups=integer(groups, f"{who}: groups", 1),
        )
        return self._then(normal, "relu") if relu else normal

    def layer_norm(
        self,
        input: Tensor,
        axes: Sequence[int],
        elementwise_affine: bool = True,
        eps: float = 1e-5,
        name: str | None = None,
    ) -> Tensor:
        """Normalises each sample over its last dimensions (Ba et al., 2016).

        Args:
            axes: exactly the last dimensions, in order.
            elementwise_affine: apply a learnt scale and shift of their shape.
            eps: >= 0, added to the variance.

        >>> ffmodel.layer_norm(x, [-1]).dims
        (64, 16)
        """
        who = name or "layer_norm"
        return self._op(
            "layer_norm",
            [input],
            name,
            axes=integers(axes, f"{who}: axes"),
            elementwise_affine=elementwise_affine,
            eps=real(eps, f"{who}: eps", 0),
        )

    def embedding(
        self,
        input: Tensor,
        num_embeddings: int,
        embedding_dim: int,
        aggr: AggrMode = AggrMode.AGGR_MODE_NONE,
        shared_op: Shared = None,
        kernel_initializer: Initializer | None = None,
        name: str | None = None,
        *,
        datatype: DataTypeLike = DataType.DT_FLOAT,
        kernel_regularizer: Any = None,
    ) -> Tensor:
        """A vector per id: (...) -> (..., embedding_dim); or the sum or mean of the vectors of the
        last dimension: (..., n) -> (..., embedding_dim).

        Args:
            input: ids of DT_INT32 or DT_INT64 in [0, num_embeddings); another id is a ValueError
                when it is met.
            kernel_initializer: of the table (num_embeddings, embedding_dim); None:
                GlorotUniformInitializer.

        >>> ids = ffmodel.create_tensor([64, 5], DataType.DT_INT64)
        >>> ffmodel.embedding(ids, 100, 8).dims
        (64, 5, 8)
        >>> ffmodel.embedding(ids, 100, 8, AggrMode.AGGR_MODE_SUM).dims
        (64, 8)
        """
        who = name or "embedding"
        return self._op(
            "embedding",
            [input],
            name,
            num_entries=integer(num_embeddings, f"{who}: num_embeddings"),
            out_dim=integer(embedding_dim, f"{who}: embedding_dim"),
            aggr=check_enum(AggrMode, aggr, f"{who}: aggr").name[len("AGGR_MODE_") :].lower(),
            dtype=DTYPE_NAMES[as_data_type(datatype, who)],
            shared_op=shared_op,
            weights=_weights(kernel_initializer, kernel_regularizer, None),
        )

    def softmax(self, input: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """exp(x) / sum(exp(x)) over an axis. Its gradient is its own, whatever follows.

        >>> ffmodel.softmax(x).dims
        (64, 16)
        """
        return self._op("softmax", [input], name, axis=integer(axis, f"{name or 'softmax'}: axis"))

    def log_softmax(self, input: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """The logarithm of ``softmax``."""
        axis = integer(axis, f"{name or 'log_softmax'}: axis")
        return self._op("log_softmax", [input], name, axis=axis)

    def dropout(
        self,
        input: Tensor,
        rate: float,
        seed: int | None = None,
        name: str | None = None,
    ) -> Tensor:
        """In training, zeroes each element with probability ``rate`` and scales the others by
        1 / (1 - rate); otherwise x itself.

        Args:
            rate: in [0, 1).
            seed: of the mask; 0 is a seed like any other. None: drawn from the model's seed.

        >>> ffmodel.dropout(x, 0.5).dims
        (64, 16)
        """
        who = name or "dropout"
        own = {} if seed is None else {"seed": integer(seed, f"{who}: seed", 0)}
        return self._op("dropout", [input], name, rate=real(rate, f"{who}: rate", 0, 1), **own)

    def _in_type(self, input: Tensor, datatype: DataTypeLike | None, who: str) -> Tensor:
        self._number(input, f"{who}: input 0")
        wanted = input.data_type if datatype is None else as_data_type(datatype, who)
        if datatype is None and not is_floating(wanted):
            wanted = DataType.DT_FLOAT
        return input if input.data_type is wanted else self.cast(input, wanted)


def _weights(kernel: Initializer | None, penalty: Any, bias: Initializer | None) -> Any:
    return {
        "kernel": weight_attributes(kernel, penalty),
        "bias": weight_attributes(bias, argument="bias_initializer"),
    }


def _padding(padding: str, height: Padding, width: Padding, who: str) -> dict[str, Any]:
    """The attributes for padding: its kind, and (top, left, bottom, right)."""
    (top, bottom), (left, right) = (
        _pair(height, f"{who}: padding_h"),
        _pair(width, f"{who}: padding_w"),
    )
    if padding != "explicit" and any((top, left, bottom, right)):
        raise ValueError(
            f"{who}: padding_h and padding_w are {height} and {width}, but padding={padding!r} "
            "leaves them unused; leave them out"
        )
    return {"padding": padding, "pads": [top, left, bottom, right]}


def _pair(padding: Padding, who: str) -> list[int]:
    if not isinstance(padding, (list, tuple, np.ndarray)):
        return [integer(padding, who)] * 2
    pair = integers(padding, who)
    if len(pair) != 2:
        raise ValueError(f"{who}: got {padding}, expected a number or a pair")
    return pair
