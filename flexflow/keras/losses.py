"""Losses: what training makes small. Each is the mean over all samples, also where the last batch
is smaller.
"""

from __future__ import annotations

from typing import Any, ClassVar, Union

from flexflow.core import LossType
from flexflow.core.checks import boolean, real
from flexflow.keras import backend, surface
from flexflow.keras.graph import Shape

LossLike = Union[None, str, "Loss"]


class Loss(surface.Explained):
    """Base of all losses.

    Attributes:
        loss_type: the core's loss.
        attributes: of the core's loss, such as from_logits.
        class_ids: whether labels are class ids, not values of the output's shape.
        probabilities: whether labels are probabilities, and so is the output unless from_logits.
        needs_labels: whether there are labels at all.

    Args:
        name: by default the class's.
        reduction: "sum_over_batch_size", the mean; the only one so far. FlexFlow's "auto" is the
            same.
    """

    loss_type: ClassVar[LossType]
    class_ids: ClassVar[bool] = False
    probabilities: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = True

    def __init__(
        self, name: str | None = None, reduction: str = "sum_over_batch_size", **attributes: Any
    ) -> None:
        self.name = name or backend.snake_case(type(self).__name__)
        backend.refuse(
            type(self).__name__,
            neutral=("sum_over_batch_size", "auto", "mean"),
            reduction=reduction,
        )
        self.attributes = attributes

    def label_shape(self, output: Shape) -> Shape:
        """The shape of the labels for an output of a shape."""
        return output[:-1] if self.class_ids else output

    def check_output(self, who: str, output: Shape) -> None:
        """Raise a ValueError unless a model with such an output can be trained with this loss."""
        if len(output) < 2:
            raise ValueError(
                f"{who}: loss {self.name!r} got an output of shape {output}, "
                "expected (batch, …, values)"
            )


class _OverClasses(Loss):
    """A loss over the classes, which are the last axis of the output."""

    def check_output(self, who: str, output: Shape) -> None:
        super().check_output(who, output)
        if output[-1] == 1:
            raise ValueError(
                f"{who}: loss {self.name!r} needs a value for each class, "
                f"but the output has the shape {output}; "
                "for one value use 'binary_crossentropy'"
            )


class CategoricalCrossentropy(_OverClasses):
    """-sum(label * log(output)) over the classes, which are the last axis; labels of the output's
    shape (one-hot).

    Args:
        from_logits: whether the output is not yet probabilities, so that a softmax belongs to the
            loss.
        label_smoothing: share in [0, 1] of each label that is spread evenly over the classes.
        axis: must be the last.

    >>> CategoricalCrossentropy(from_logits=True).attributes["from_logits"]
    True
    """

    loss_type = LossType.LOSS_CATEGORICAL_CROSSENTROPY
    probabilities = True

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str = "sum_over_batch_size",
        name: str | None = None,
    ) -> None:
        backend.refuse("CategoricalCrossentropy", neutral=(-1,), axis=axis)
        super().__init__(
            name,
            reduction,
            from_logits=boolean(from_logits, "CategoricalCrossentropy: from_logits"),
            label_smoothing=real(
                label_smoothing, "CategoricalCrossentropy: label_smoothing", 0, most=1
            ),
        )


class SparseCategoricalCrossentropy(_OverClasses):
    """-log(output[label]); labels are class ids, of the output's shape without its last axis, or
    with 1 there.

    Args:
        from_logits: whether the output is not yet probabilities, so that a softmax belongs to the
            loss.
        ignore_class: must be None.
        axis: must be the last.

    >>> SparseCategoricalCrossentropy().label_shape((None, 10))
    (None,)
    """

    loss_type = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
    class_ids = True

    def __init__(
        self,
        from_logits: bool = False,
        ignore_class: int | None = None,
        reduction: str = "sum_over_batch_size",
        axis: int = -1,
        name: str | None = None,
    ) -> None:
        backend.refuse("SparseCategoricalCrossentropy", ignore_class=ignore_class)
        backend.refuse("SparseCategoricalCrossentropy", neutral=(-1,), axis=axis)
        super().__init__(
            name,
            reduction,
            from_logits=boolean(from_logits, "SparseCategoricalCrossentropy: from_logits"),
        )


class BinaryCrossentropy(Loss):
    """-(label * log(output) + (1 - label) * log(1 - output)), meaned over all values; labels of the
    output's shape.

    Args:
        from_logits: whether the output is not yet probabilities, so that a sigmoid belongs to the
            loss.
        label_smoothing: must be 0.
        axis: must be the last.

    >>> BinaryCrossentropy().name
    'binary_crossentropy'
    """

    loss_type = LossType.LOSS_BINARY_CROSSENTROPY
    probabilities = True

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str = "sum_over_batch_size",
        name: str | None = None,
    ) -> None:
        backend.refuse("BinaryCrossentropy", neutral=(0, 0.0), label_smoothing=label_smoothing)
        backend.refuse("BinaryCrossentropy", neutral=(-1,), axis=axis)
        super().__init__(
            name, reduction, from_logits=boolean(from_logits, "BinaryCrossentropy: from_logits")
        )


class MeanSquaredError(Loss):
    """(output - label)**2, meaned over all values; labels of the output's shape.

    >>> MeanSquaredError().name
    'mean_squared_error'
    """

    loss_type = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE

    def __init__(self, reduction: str = "sum_over_batch_size", name: str | None = None) -> None:
        super().__init__(name, reduction)


class MeanAbsoluteError(MeanSquaredError):
    """abs(output - label), meaned over all values; labels of the output's shape.

    >>> MeanAbsoluteError().name
    'mean_absolute_error'
    """

    loss_type = LossType.LOSS_MEAN_ABSOLUTE_ERROR


class Identity(Loss):
    """FlexFlow's: the output itself, summed over a sample and meaned over samples. Labels may be
    given; they do not count.

    >>> Identity().needs_labels
    False
    """

    loss_type = LossType.LOSS_IDENTITY
    needs_labels = False

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)


_BY_NAME: dict[str, type[Loss]] = {
    "categorical_crossentropy": CategoricalCrossentropy,
    "sparse_categorical_crossentropy": SparseCategoricalCrossentropy,
    "binary_crossentropy": BinaryCrossentropy,
    "mean_squared_error": MeanSquaredError,
    "mean_absolute_error": MeanAbsoluteError,
    "identity": Identity,
    "bce": BinaryCrossentropy,
    "mse": MeanSquaredError,
    "mae": MeanAbsoluteError,
    "MSE": MeanSquaredError,
    "MAE": MeanAbsoluteError,
}


def get(identifier: LossLike, who: str = "loss") -> Loss | None:
    """A loss from itself, its class or its name; None stays None.

    Raises:
        ValueError: there is no loss of this name.
        NotImplementedError: a function of one's own, or a loss for each of several outputs.

    >>> get("mse").name
    'mean_squared_error'
    """
    if identifier is None or isinstance(identifier, Loss):
        return identifier
    if isinstance(identifier, str):
        names = {**_BY_NAME, **{kind.__name__: kind for kind in _BY_NAME.values()}}
        if identifier not in names:
            raise ValueError(
                f"{who}: loss {identifier!r} is unknown; known are {', '.join(sorted(names))}"
            )
        return names[identifier]()
    if isinstance(identifier, type) and issubclass(identifier, Loss):
        return identifier()
    raise NotImplementedError(
        f"{who}: loss={identifier!r} is not supported yet; "
        "give one name or object of flexflow.keras.losses"
    )


__all__ = [
    "BinaryCrossentropy",
    "CategoricalCrossentropy",
    "Identity",
    "Loss",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "SparseCategoricalCrossentropy",
    "get",
]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
