"""Loss and metrics, as running means over samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class PerfMetrics:
    """Loss and metrics since the last ``reset_metrics``, each the mean over the samples that were
    seen: a smaller batch counts by its size.

    Attributes:
        samples: how many samples were seen; of a sequence, each position is one.
        loss: the mean loss; NaN when no sample was seen.

    >>> totals = {"samples": 200.0, "loss": 50.0, "correct": 150.0, "mean_squared_error": 20.0}
    >>> metrics = PerfMetrics(totals, ["accuracy", "mean_squared_error"])
    >>> metrics
    <PerfMetrics of 200 samples: loss 0.2500, accuracy 75.00%, mean_squared_error 0.1000>
    >>> metrics.get_accuracy(), metrics["mean_squared_error"]
    (75.0, 0.1)
    """

    def __init__(self, totals: Mapping[str, float], requested: Sequence[str]) -> None:
        self._totals = dict(totals)
        self.requested = tuple(requested)
        self.samples = int(totals["samples"])
        self.loss = self._mean("loss")

    def get_accuracy(self) -> float:
        """Correct predictions in percent; NaN when no sample was seen.

        Raises:
            ValueError: METRICS_ACCURACY was not asked for in ``compile``.
        """
        return self["accuracy"] * 100.0

    def __getitem__(self, name: str) -> float:
        """The mean of a metric by its name; accuracy as a fraction."""
        if name not in self.requested:
            measured = ", ".join(self.requested) or "nothing"
            raise ValueError(f"{name} was not measured; compile was asked for {measured}")
        return self._mean("correct" if name == "accuracy" else name)

    def _mean(self, total: str) -> float:
        return self._totals[total] / self.samples if self.samples else float("nan")

    def as_dict(self) -> dict[str, float]:
        """Loss and metrics by name; accuracy as a fraction."""
        return {"loss": self.loss, **{name: self[name] for name in self.requested}}

    def __str__(self) -> str:
        """Loss and metrics for people; accuracy in percent."""
        return ", ".join(
            f"{name} {100 * value:.2f}%" if name == "accuracy" else f"{name} {value:.4f}"
            for name, value in self.as_dict().items()
        )

    def __repr__(self) -> str:
        return f"<PerfMetrics of {self.samples} samples: {self}>"
