"""What the documents say is so: their snippets run, and their lists are the code's."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flexflow.core import FFConfig, FFModel, LossType, Strategy
from flexflow.keras import activations, callbacks, layers, losses, metrics, optimizers

ROOT = Path(__file__).resolve().parents[2]


def snippets(path: str, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / path).read_text(), re.M | re.S)


def test_guide(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All snippets of the guide are one program, which writes files."""
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for snippet in snippets("docs/guide.md"):
        exec(snippet, names)
    accuracies = [float(line) for line in capsys.readouterr().out.splitlines() if line[0].isdigit()]
    assert len(accuracies) == 4  # after fit, after both epochs of the manual loop, of PyTorch
    assert min(accuracies) > 90
    assert names["probabilities"].shape == (1000, 3)
    np.testing.assert_allclose(names["probabilities"].sum(1), 1, rtol=1e-5)
    assert names["kernel"].shape == (64, 20)

    with np.load("model.npz") as saved:
        assert sorted(saved) == ["hidden/bias", "hidden/kernel", "linear/bias", "linear/kernel"]
        np.testing.assert_array_equal(saved["hidden/kernel"], names["kernel"] * 0.5)
    learnt = torch.load("module.pt")["weight"].numpy()
    weight = names["importer"].weights["weight"]
    np.testing.assert_array_equal(learnt, weight.get_weights(names["ffmodel"]))


def test_readme() -> None:
    """Each snippet of the README is a program about data that the reader has."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    digits = rng.normal(size=(96, 8, 8, 1)).astype(np.float32)
    classes = rng.integers(0, 10, 96)
    keras, pytorch, devices = snippets("README.md")
    names: dict[str, Any] = {"x_train": digits, "y_train": classes}
    names.update({"x_test": digits, "y_test": classes})
    exec(keras, names)
    model = names["model"]
    history = model.history.history
    assert len(history["val_accuracy"]) == 5
    assert history["loss"][-1] < history["loss"][0]

    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(3600, 10)
    )
    images = rng.normal(size=(128, 3, 32, 32)).astype(np.float32)
    names = {"module": module, "images": images, "labels": rng.integers(0, 10, 128)}
    exec(pytorch, names)
    ffmodel = names["ffmodel"]
    assert ffmodel.eval(images, names["labels"]).loss < 0.8 * np.log(10)

    loss = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
    exec(devices, {"model": model, "ffmodel": ffmodel, "loss": loss, "optimizer": None})
    assert "device 1:" in ffmodel.plan("train") and "#7" in ffmodel.plan("train")


def test_strategy_files(tmp_path: Path) -> None:
    """The example is what the snippet makes, fits a model, and the table has every key."""
    path = tmp_path / "strategy.json"
    (example,) = snippets("docs/strategies.md", "json")
    path.write_text(example)
    (snippet,) = snippets("docs/strategies.md")
    names: dict[str, Any] = {"Strategy": Strategy}
    exec(snippet, names)
    strategy = Strategy.load(path)
    assert strategy == names["strategy"]
    model = FFModel(FFConfig(batch_size=8))
    t = model.create_tensor([8, 4])
    for name in ("up", "down", "head"):
        t = model.dense(t, 4, name=name)
    assert "head: whole, on device 3, stage 1" in str(strategy.bind(model))

    keys = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/strategies.md").read_text(), re.M)
    values = strategy.to_json()
    assert set(keys) == set(values) | set(values["ops"][0])


def test_layout(capsys: pytest.CaptureFixture[str]) -> None:
    (snippet,) = snippets("docs/layout.md")
    exec(snippet, {})
    printed = capsys.readouterr().out
    for stage in ("(linear): [32, 64] -> [32, 10]", "linear_grad_weight", "arena 3904 B"):
        assert stage in printed


@pytest.mark.parametrize("document", ["layout", "adding_an_op", "guide", "strategies"])
def test_files_that_are_named_are_there(document: str) -> None:
    """By the end of their path, such as `lowering/fuse.cc`; but for those of the example."""
    folders = ("native", "flexflow", "examples", "tests", "docs", "tools")
    there = [f"/{path}" for folder in folders for path in (ROOT / folder).rglob("*.*")]
    text = (ROOT / f"docs/{document}.md").read_text()
    for name in re.findall(r"`([\w/]+\.(?:py|cc|h|c))`", text):
        assert "softsign" in name or any(path.endswith(f"/{name}") for path in there), name


@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler")
def test_adding_an_op(tmp_path: Path) -> None:
    """The files of the example are whole, and compile without a warning."""
    files = [code for code in snippets("docs/adding_an_op.md", "cpp") if "#include" in code]
    assert len(files) == 3
    for i, code in enumerate(files):
        (tmp_path / f"{i}.cc").write_text(code)
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/native/src"]
    done = subprocess.run(
        ["g++", *flags, *map(str, tmp_path.glob("*.cc"))], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


# ---- what is supported ----


def classes(module: Any, base: type) -> set[str]:
    """The classes that a module shows under their own names."""
    shown = {name: getattr(module, name) for name in module.__all__}
    return {
        name
        for name, one in shown.items()
        if isinstance(one, type) and issubclass(one, base) and name == one.__name__
    } - {base.__name__}


def listed() -> dict[str, set[str]]:
    """The rows of the guide's table."""
    section = (
        (ROOT / "docs/guide.md").read_text().split("## What is supported")[1].split("\n## ")[0]
    )
    return {
        what: set(names.split())
        for what, names in re.findall(r"^\| ([^|]+) \| `([^`|]+)` \|$", section, re.M)
    }


def test_lists_of_keras() -> None:
    here = {
        "Keras layers": classes(layers, layers.Layer),
        "Keras activations": set(activations.__all__) - {"Activation", "get"},
        "Keras losses": classes(losses, losses.Loss),
        "Keras metrics": classes(metrics, metrics.Metric),
        "Keras optimizers": classes(optimizers, optimizers.Optimizer),
        "Keras learning-rate schedules": classes(
            optimizers.schedules, optimizers.schedules.LearningRateSchedule
        ),
        "Keras callbacks": classes(callbacks, callbacks.Callback),
    }
    assert {what: names for what, names in listed().items() if what.startswith("Keras")} == here


def test_lists_of_pytorch() -> None:
    pytest.importorskip("torch")
    from flexflow.torch.importer import FUNCTIONS, METHODS, MODULES

    of_python = {f for f in FUNCTIONS if f.__module__ in ("_operator", "builtins")}
    functions = {f.__name__ for f in FUNCTIONS.keys() - of_python}
    table = listed()
    assert table["PyTorch modules"] == {module.__name__ for module in MODULES}
    # A function that works in place has a line below its name.
    names = {name.rstrip("_") for name in functions | METHODS.keys()}
    assert table["PyTorch functions and methods"] == names
    assert table["Python operators on PyTorch tensors"] == {f.__name__ for f in of_python}


def test_list_of_onnx() -> None:
    pytest.importorskip("onnx")
    from flexflow.onnx import importer, rows

    assert importer.FAMILIES
    assert listed()["ONNX operators"] == set(rows.ROWS)
