"""Metrics: what is measured beside the loss, as means over the samples of an epoch.

The core measures a fixed set; a metric here names what it needs and makes its value of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Union

from flexflow.core import MetricsType
from flexflow.keras import backend, surface
from flexflow.keras.graph import Shape
from flexflow.keras.losses import Loss

MetricLike = Union[str, "Metric", type["Metric"]]


class Metric(surface.Explained):
    """Base of all metrics.

    Attributes:
        measured: what the core measures for it.
        labels: the labels it is for: "ids", "values", or "any".

    Args:
        name: under which it is reported; by default the class's.
    """

    measured: ClassVar[MetricsType]
    labels: ClassVar[str] = "values"

    def __init__(self, name: str | None = None, dtype: str | None = None) -> None:
        backend.refuse(type(self).__name__, neutral=(None, "float32"), dtype=dtype)
        self.name = name or backend.snake_case(type(self).__name__)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}>"

    def value(self, mean: float) -> float:
        """The metric, from the mean over samples of what the core measures."""
        return mean

    def check(self, who: str, loss: Loss, output: Shape) -> None:
        """Raise a ValueError unless it can be measured beside a loss, with its labels, on an output
        of a shape.
        """
        came = "ids" if loss.class_ids else "values"
        if not loss.needs_labels:
            raise ValueError(
                f"{who}: metric {self.name!r} needs labels, and loss {loss.name!r} has none"
            )
        if self.labels not in ("any", came):
            texts = {"ids": "class ids", "values": "values of the output's shape (one-hot)"}
            raise ValueError(
                f"{who}: metric {self.name!r} is for labels that are {texts[self.labels]}, "
                f"and loss {loss.name!r} "
                f"takes {texts[came]}"
            )


class Accuracy(Metric):
    """The share of samples that are classified rightly, for whatever labels the loss has: class
    ids, one-hot, or 0 and 1 for an output of one value, which is cut at 0.5. The same as the string
    "accuracy" (and so FlexFlow's; Keras's class of this name compares raw numbers, which suits no
    classifier).

    >>> Accuracy().name
    'accuracy'
    """

    measured = MetricsType.METRICS_ACCURACY
    labels = "any"


class SparseCategoricalAccuracy(Accuracy):
    """Accuracy for labels that are class ids.

    >>> SparseCategoricalAccuracy().name
    'sparse_categorical_accuracy'
    """

    labels = "ids"


class CategoricalAccuracy(Accuracy):
    """Accuracy for one-hot labels.

    >>> CategoricalAccuracy().name
    'categorical_accuracy'
    """

    labels = "values"

    def check(self, who: str, loss: Loss, output: Shape) -> None:
        super().check(who, loss, output)
        if output[-1] == 1:
            raise ValueError(
                f"{who}: metric {self.name!r} needs a value for each class, "
                f"but the output has the shape {output}; "
                "for one value use 'binary_accuracy'"
            )


class BinaryAccuracy(Accuracy):
    """Accuracy for labels 0 and 1 and an output of one value, cut at 0.5.

    >>> BinaryAccuracy().name
    'binary_accuracy'
    """

    labels = "values"

    def __init__(
        self, name: str | None = None, dtype: str | None = None, threshold: float = 0.5
    ) -> None:
        super().__init__(name, dtype)
        backend.refuse("BinaryAccuracy", neutral=(0.5,), threshold=threshold)

    def check(self, who: str, loss: Loss, output: Shape) -> None:
        super().check(who, loss, output)
        if output[-1] != 1:
            raise NotImplementedError(
                f"{who}: metric {self.name!r} for an output of shape {output} is not supported "
                "yet, only for one value"
            )


class CategoricalCrossentropy(Metric):
    """The cross-entropy of probabilities, for one-hot labels.

    >>> CategoricalCrossentropy().name
    'categorical_crossentropy'
    """

    measured = MetricsType.METRICS_CATEGORICAL_CROSSENTROPY

    def __init__(
        self,
        name: str | None = None,
        dtype: str | None = None,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
    ) -> None:
        super().__init__(name, dtype)
        kind = type(self).__name__
        backend.refuse(kind, neutral=(False,), from_logits=from_logits)
        backend.refuse(kind, neutral=(0, 0.0), label_smoothing=label_smoothing)
        backend.refuse(kind, neutral=(-1,), axis=axis)


class SparseCategoricalCrossentropy(CategoricalCrossentropy):
    """The cross-entropy of probabilities, for labels that are class ids.

    >>> SparseCategoricalCrossentropy().name
    'sparse_categorical_crossentropy'
    """

    measured = MetricsType.METRICS_SPARSE_CATEGORICAL_CROSSENTROPY
    labels = "ids"

    def __init__(
        self,
        name: str | None = None,
        dtype: str | None = None,
        from_logits: bool = False,
        axis: int = -1,
    ) -> None:
        super().__init__(name, dtype, from_logits, axis=axis)


class MeanSquaredError(Metric):
    """The mean of (output - label)**2.

    >>> MeanSquaredError().name
    'mean_squared_error'
    """

    measured = MetricsType.METRICS_MEAN_SQUARED_ERROR


class RootMeanSquaredError(MeanSquaredError):
    """The root of the mean, over all samples, of (output - label)**2. (FlexFlow's core has a mean
    of roots instead.)

    >>> RootMeanSquaredError().value(4.0)
    2.0
    """

    def value(self, mean: float) -> float:
        return math.sqrt(mean)


class MeanAbsoluteError(Metric):
    """The mean of abs(output - label).

    >>> MeanAbsoluteError().name
    'mean_absolute_error'
    """

    measured = MetricsType.METRICS_MEAN_ABSOLUTE_ERROR


_CLASSES = (
    Accuracy,
    BinaryAccuracy,
    CategoricalAccuracy,
    SparseCategoricalAccuracy,
    CategoricalCrossentropy,
    SparseCategoricalCrossentropy,
    MeanSquaredError,
    RootMeanSquaredError,
    MeanAbsoluteError,
)
_BY_NAME: dict[str, type[Metric]] = {
    **{backend.snake_case(kind.__name__): kind for kind in _CLASSES},
    **{kind.__name__: kind for kind in _CLASSES},
    "acc": Accuracy,
    "mse": MeanSquaredError,
    "mae": MeanAbsoluteError,
    "MSE": MeanSquaredError,
    "MAE": MeanAbsoluteError,
}


def get(identifier: MetricLike, who: str = "metrics") -> Metric:
    """A metric from itself, its class or its name; one from a name is reported under that very
    name.

    Raises:
        ValueError: there is no metric of this name.
        NotImplementedError: a function of one's own.

    >>> get("acc").name
    'acc'
    """
    if isinstance(identifier, Metric):
        return identifier
    if isinstance(identifier, str):
        if identifier not in _BY_NAME:
            raise ValueError(
                f"{who}: metric {identifier!r} is unknown; known are {', '.join(sorted(_BY_NAME))}"
            )
        return _BY_NAME[identifier](name=identifier)
    if isinstance(identifier, type) and issubclass(identifier, Metric):
        return identifier()
    raise NotImplementedError(
        f"{who}: {identifier!r} is not supported yet; "
        "give names or objects of flexflow.keras.metrics"
    )


def get_all(identifiers: Any, who: str) -> list[Metric]:
    """The metrics of compile's ``metrics``: None or a list.

    Raises:
        TypeError: it is neither. ValueError: two of one name.
    """
    if identifiers is None:
        return []
    if not isinstance(identifiers, Sequence) or isinstance(identifiers, str):
        raise TypeError(f"{who}: metrics={identifiers!r}, expected a list such as ['accuracy']")
    found = [get(identifier, who) for identifier in identifiers]
    names = ["loss", *(metric.name for metric in found)]
    if len(set(names)) < len(names):
        raise ValueError(
            f"{who}: metrics={identifiers!r} have the names {names[1:]}, "
            "expected distinct ones, not 'loss'"
        )
    return found


__all__ = [
    "Accuracy",
    "BinaryAccuracy",
    "CategoricalAccuracy",
    "CategoricalCrossentropy",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "Metric",
    "RootMeanSquaredError",
    "SparseCategoricalAccuracy",
    "SparseCategoricalCrossentropy",
    "get",
]
__getattr__, __dir__ = surface.of_module(__name__, __all__)
