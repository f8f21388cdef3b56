"""``python -m flexflow jupyter``, and notebooks: on its kernels, and on a plain one."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flexflow import jupyter
from flexflow.core import FFConfig

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FLEXFLOW_ENGINE", "FLEXFLOW_FLAGS"):
        monkeypatch.setenv(name, "")


def config_file(folder: Path, **fields: Any) -> str:
    path = folder / "config.json"
    entries = {field: {"cmd": None, "value": value} for field, value in fields.items()}
    path.write_text(json.dumps(entries))
    return str(path)


# ---- configuration files ----
def test_a_configuration_as_flexflow_has_it(tmp_path: Path) -> None:
    path = config_file(
        tmp_path,
        name="FlexFlow CPUs",
        kernel_name="flexflow_kernel_nocr",
        exe="flexflow_python",
        cpus=2,
        gpus=None,
        utility=1,
        sysmem=1024,
        other_options=["-ll:py 1", "-lg:prof 1"],
    )
    assert jupyter.read_config(path)["name"] == "flexflow_kernel_nocr"
    jupyter.set_jupyter_config(path)
    assert os.environ["FLEXFLOW_FLAGS"] == "-ll:cpu 2 -ll:util 1 -ll:csize 1024 -lg:prof 1"
    assert FFConfig().workers_per_node == 2


def test_the_example_of_the_guide(tmp_path: Path) -> None:
    (snippet,) = re.findall(r"```json\n(.*?)```", (ROOT / "docs/guide.md").read_text(), re.S)
    path = tmp_path / "config.json"
    path.write_text(snippet)
    said = jupyter.read_config(path)
    assert jupyter.environment_of(said)["FLEXFLOW_FLAGS"] == "-ll:cpu 2 --seed 1"
    assert (said["name"], said["display_name"]) == ("flexflow2", "FlexFlow, 2 devices")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "config.json: not JSON: Expecting"),
        ("[" * 10**5, "config.json: not JSON: maximum recursion depth"),
        ("[]", "config.json: got a list, expected an object of fields"),
        ('{"cpus": 2}', 'cpus is 2, expected {"value": ...}'),
        ('{"cpus": {"value": "2"}}', "cpus: got '2', expected a whole number or null"),
        ('{"cpus": {"value": -1}}', "cpus: got -1, expected a whole number"),
        ('{"name": {"value": 3}}', "name: got 3, expected a line of text"),
        ('{"name": {"value": "a\\nb"}}', "name: got 'a\\nb', expected a line of text"),
        ('{"other_options": {"value": ["\\""]}}', "got ['\"']: No closing quotation"),
        ('{"other_options": {"value": "-lg:prof"}}', "expected a list of texts"),
        ('{"cpu": {"value": 2}}', "cpu: there is no such field; expected name, kernel_name, eng"),
    ],
)
def test_bad_configurations(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ValueError) as caught:
        jupyter.read_config(path)
    assert message in str(caught.value)


def test_without_ipykernel_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jupyter.importlib.util, "find_spec", lambda name: None)
    assert jupyter.main(["list"]) == 1
    assert f"{sys.executable} -m pip install ipykernel" in capsys.readouterr().err


# ---- kernels ----
@pytest.fixture
def jupyter_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("ipykernel")
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    return pytest.importorskip("jupyter_client")


def test_install_list_uninstall(
    jupyter_client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = str(tmp_path / "prefix")
    install = ["install", "--prefix", prefix, "--name", "mine", "--engine", "local", "--cpus", "1"]
    path = config_file(tmp_path, name="My own", cpus=2, utility=None)
    assert jupyter.main([*install, "--utility", "3", "--json", path, "-lg:prof", "1"]) == 0
    assert jupyter.main(["install"]) == 0  # in the user's folder
    folder = Path(prefix, "share/jupyter/kernels/mine")
    spec = json.loads((folder / "kernel.json").read_text())
    assert spec["display_name"] == "My own"
    assert spec["env"]["FLEXFLOW_FLAGS"] == "-ll:cpu 2 -ll:util 3 -lg:prof 1"

    capsys.readouterr()
    assert jupyter.main(["list", "--prefix", prefix]) == 0
    mine = f"mine (My own) in {folder}  FLEXFLOW_ENGINE=local  FLEXFLOW_FLAGS=-ll:cpu 2"
    user = f"flexflow (FlexFlow) in {tmp_path}/jupyter_data_dir/kernels/flexflow\n"
    told = capsys.readouterr().out
    assert told.startswith(user) and mine in told

    assert jupyter.main(["uninstall", "python3"]) == 1
    assert "'python3' is no kernel of FlexFlow; there are: flexflow" in capsys.readouterr().err
    assert jupyter.main(["uninstall", "--prefix", prefix, "mine"]) == 0
    assert jupyter.main(["uninstall", "flexflow"]) == 0
    assert not folder.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--engine", "fast"], "engine 'fast' is not there; this build has"),
        (["--cpus", "-1"], "--cpus: got -1, expected a whole number"),
        (["--cpuz", "2"], "'--cpuz' is a flag of neither FlexFlow nor a runtime"),
        (["--json", "/nowhere.json"], "No such file or directory: '/nowhere.json'"),
        (["--name", "a b"], "Invalid kernel name"),
        (["--name", ""], "--name: got '', expected a line of text"),
        (["--display-name", ""], "--display-name: got '', expected a line of text"),
        (["--cpus", "0"], "FFConfig.devices: got 0, expected at least 1"),
        (["-ll:cpu"], "-ll:cpu: got no value"),
    ],
)
def test_bad_installations(
    jupyter_client: Any, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert jupyter.main(["install", *arguments]) == 1
    assert message in capsys.readouterr().err


class Notebook:
    """A kernel with its cells run one by one."""

    def __init__(self, jupyter_client: Any, kernel: str, devices: int) -> None:
        self.devices = devices
        self.manager = jupyter_client.KernelManager(kernel_name=kernel)
        self.manager.start_kernel(cwd=os.environ["JUPYTER_DATA_DIR"])
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, cell: str, timeout: float = 60) -> str:
        """What a cell prints; its last line is an exception if there was one."""
        texts: list[str] = []

        def collect(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream" and content["name"] == "stdout":
                texts.append(content["text"])
            elif message["msg_type"] == "error":
                texts.append(f"{content['ename']}: {content['evalue']}\n")

        self.client.execute_interactive(cell, timeout=timeout, output_hook=collect)
        return "".join(texts)

    def interrupt_when(self, said: str, cell: str) -> str:
        """Interrupt a cell soon after it has printed something."""
        timer = threading.Timer(1.5, self.manager.interrupt_kernel)
        texts: list[str] = []

        def collect(message: dict[str, Any]) -> None:
            content = message["content"]
            texts.append(content.get("text", content.get("ename", "")))
            if said in texts[-1] and not timer.ident:
                timer.start()

        self.client.execute_interactive(cell, timeout=60, output_hook=collect)
        return "".join(texts)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)
        assert not self.manager.is_alive()


@pytest.fixture(params=["ours", "plain"])
def notebook(
    request: pytest.FixtureRequest, jupyter_client: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Notebook]:
    """On a kernel with two devices that was installed here, and on what Jupyter has anyway."""
    os.makedirs(os.environ["JUPYTER_DATA_DIR"])
    if request.param == "ours":
        assert jupyter.main(["install", "--cpus", "2", "--engine", "local"]) == 0
        opened = Notebook(jupyter_client, "flexflow", devices=2)
    else:
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        opened = Notebook(jupyter_client, "python3", devices=1)
    yield opened
    opened.close()


MODEL = """
import numpy as np
from flexflow.core import *
config = FFConfig(batch_size=16, threads=1)
model = FFModel(config)
x = model.create_tensor([16, 8])
model.softmax(model.dense(x, 4))
model.compile(SGDOptimizer(model, lr=0.1), LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY)
data = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
labels = data[:, :4].argmax(1)
"""
FIT = "print(f'{model.fit(data, labels, epochs=1, verbose=0)[-1].loss:.6f}')"


def test_a_notebook(notebook: Notebook) -> None:
    """Cells train, run again, and are interrupted; the kernel restarts; the end is clean."""
    assert notebook.run(MODEL) == ""
    told = notebook.run("print(config.workers_per_node, model.plan().count('\\ndevice ') + 1)")
    assert told.split() == [str(notebook.devices)] * 2
    losses = [float(notebook.run(FIT)) for _ in range(3)]
    assert losses[2] < losses[1] < losses[0]
    assert notebook.run(MODEL + FIT) == f"{losses[0]:.6f}\n"

    long = "print('begins', flush=True); model.fit(data, labels, epochs=10**6, verbose=0)"
    assert "KeyboardInterrupt" in notebook.interrupt_when("begins", long)
    assert float(notebook.run(FIT)) < losses[0]  # the model goes on
    assert "ValueError: linear: attribute" in notebook.run("model.dense(x, -1)")

    notebook.manager.restart_kernel(now=False)
    notebook.client.wait_for_ready(timeout=60)
    assert "NameError" in notebook.run(FIT)
    assert notebook.run(MODEL + FIT) == f"{losses[0]:.6f}\n"
