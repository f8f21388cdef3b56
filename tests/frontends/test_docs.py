"""The snippets of README and guide run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


def snippets(path: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / path).read_text(), re.M | re.S)


def test_guide(capsys: pytest.CaptureFixture[str]) -> None:
    """All snippets of the guide are one program."""
    names: dict[str, Any] = {}
    for snippet in snippets("docs/guide.md"):
        exec(snippet, names)
    accuracies = [float(line) for line in capsys.readouterr().out.splitlines() if line[0].isdigit()]
    assert len(accuracies) == 3  # after fit, and after both epochs of the manual loop
    assert min(accuracies) > 90
    assert names["probabilities"].shape == (1000, 3)
    np.testing.assert_allclose(names["probabilities"].sum(1), 1, rtol=1e-5)
    assert names["kernel"].shape == (64, 20)


def test_readme() -> None:
    """Each snippet of the README is a program about data that the reader has."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    digits = rng.normal(size=(96, 8, 8, 1)).astype(np.float32)
    classes = rng.integers(0, 10, 96)
    keras, pytorch = snippets("README.md")
    names: dict[str, Any] = {"x_train": digits, "y_train": classes}
    names.update({"x_test": digits, "y_test": classes})
    exec(keras, names)
    history = names["model"].history.history
    assert len(history["val_accuracy"]) == 5
    assert history["loss"][-1] < history["loss"][0]

    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(3600, 10)
    )
    images = rng.normal(size=(128, 3, 32, 32)).astype(np.float32)
    names = {"module": module, "images": images, "labels": rng.integers(0, 10, 128)}
    exec(pytorch, names)
    assert names["ffmodel"].eval(images, names["labels"]).loss < 0.8 * np.log(10)
