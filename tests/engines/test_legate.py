"""FlexFlow beside Legate and cuPyNumeric, in one process and on Legate's Legion runtime.

Each test is a program for an interpreter that has cuPyNumeric: this one, or the one that
FLEXFLOW_LEGATE_PYTHON names, whose packages are those of tools/requirements/cupynumeric.txt.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flexflow.core import describe

ROOT = Path(__file__).resolve().parents[2]
HERE = importlib.util.find_spec("cupynumeric") is not None
PYTHON = os.environ.get("FLEXFLOW_LEGATE_PYTHON") or (sys.executable if HERE else "")
LAUNCHERS = {
    "python": [PYTHON],
    "legate": [str(Path(PYTHON).parent / "legate"), "--cpus", "1", "--gpus", "0"],
}

pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="no cuPyNumeric here, nor in FLEXFLOW_LEGATE_PYTHON"),
    pytest.mark.skipif(
        "legion" not in describe("engines").split(", "), reason="this build has no engine legion"
    ),
]

START = """
import os, sys
import flexflow.legate
import cupynumeric as cn
"""
MODEL = """
import numpy as np
from engine_models import SHAPES, cnn, compiled, mlp, samples, weights
from flexflow.core import *
"""


def run_program(
    code: str, folder: Path, launcher: str = "python", status: int = 0, **environment: str
) -> str:
    """What a program says; it must end in time, and with this status."""
    script = folder / "script.py"
    script.write_text(code)
    inherited = {name: value for name, value in os.environ.items() if name != "FLEXFLOW_ENGINE"}
    try:
        done = subprocess.run(
            [*LAUNCHERS[launcher], str(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            cwd=folder,
            env={
                **inherited,
                "PATH": os.pathsep.join([str(Path(PYTHON).parent), os.environ["PATH"]]),
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)]),
                **environment,
            },
        )
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"hangs: {error.stdout}") from None
    assert done.returncode == status, f"exit status {done.returncode}\n{done.stdout}"
    assert not re.search("Segmentation|Assertion .* failed", done.stdout)
    return done.stdout


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("build", ["mlp", "cnn"])
def test_joins_and_computes_what_the_local_engine_does(
    build: str, launcher: str, tmp_path: Path
) -> None:
    said = run_program(
        START
        + MODEL
        + f"""
assert describe("runtime") == "found" and describe("engine") == "legion"
x, y = samples({build}, 61)
def numbers(model, x, y):
    losses = [metrics.loss for metrics in model.fit(x, y, epochs=3, verbose=0)]
    losses.append(model.eval(x, y, verbose=0).loss)
    return losses, np.asarray(model.predict(x)), weights(model)
joined = numbers(compiled({build}, optimizer="adam"), cn.array(x), cn.array(y))
local = numbers(compiled({build}, optimizer="adam", engine="local"), x, y)
np.testing.assert_allclose(joined[0], local[0], rtol=1e-5)
np.testing.assert_allclose(joined[1], local[1], rtol=1e-4, atol=1e-6)
for name in local[2]:
    np.testing.assert_allclose(joined[2][name], local[2][name], rtol=1e-4, atol=1e-6)
print(describe("machine:legion"))
""",
        tmp_path,
        launcher,
    )
    assert re.search("runtime: .*, joined", said)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_example(launcher: str, tmp_path: Path) -> None:
    code = (ROOT / "examples/python/native/with_cupynumeric.py").read_text()
    assert "engine legion, Legion's runtime was found" in run_program(code, tmp_path, launcher)


def test_the_page_of_docs(tmp_path: Path) -> None:
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "docs/legate.md").read_text(), re.S)
    for snippet in snippets:
        run_program(snippet, tmp_path)


def test_arrays_come_and_go(tmp_path: Path) -> None:
    """Results are of the kind of the data; other values may be of either kind."""
    run_program(
        START
        + MODEL
        + """
x, y = samples(mlp, 40)
cx, cy = cn.array(x), cn.array(y)
model = compiled(mlp)
model.fit(cx, y, verbose=0), model.fit([cx], cy, verbose=0)
for given in (cx, [cx], cx[::2], cx.T.copy().T):
    result = model.predict(given)
    assert type(result) is cn.ndarray, type(result)
    rows = np.asarray(given[0] if isinstance(given, list) else given)
    np.testing.assert_array_equal(np.asarray(result), model.predict(rows))
assert type(model.predict(x)) is np.ndarray
kernel = model.get_layer_by_id(0).get_weight_tensor()
kernel.set_weights(model, cn.full(kernel.dims, 0.25, dtype=cn.float32))
assert type(kernel.get_weights(model)) is np.ndarray and (kernel.get_weights(model) == 0.25).all()
tensor = model.get_layer_by_id(0).get_input_by_id(0)
tensor.set_tensor(model, cx[:8] * 2)
np.testing.assert_array_equal(tensor.get_tensor(), x[:8] * 2)
batch = cx[:8].copy()
tensor.attach_numpy_array(model, None, batch)
for factor in (1, 3):
    batch[:] = cx[:8] * factor
    model.forward()
    np.testing.assert_array_equal(tensor.get_tensor(), x[:8] * np.float32(factor))
tensor.detach_numpy_array()
for wrong in (cx[:, :5], cx.astype(cn.complex64)):
    try:
        model.predict(wrong)
    except (TypeError, ValueError) as error:
        assert "data for x" in str(error)
    else:
        raise AssertionError("takes anything")
loader = model.create_data_loader(tensor, cx)
assert loader.num_samples == 40

half = FFModel(FFConfig())
half.dense(half.create_tensor([8, 12], DataType.DT_BFLOAT16), 3)
half.compile(comp_mode=CompMode.INFERENCE)
assert type(half.predict(cx)) is cn.ndarray
np.testing.assert_array_equal(np.asarray(half.predict(cx)), half.predict(x))

from flexflow.keras import Sequential, layers
keras = Sequential([layers.Dense(5, activation="softmax", input_shape=(12,))])
keras.compile("sgd", "sparse_categorical_crossentropy")
keras.fit(cx, cy, verbose=0)
assert type(keras.predict(cx, verbose=0)) is cn.ndarray
np.testing.assert_array_equal(np.asarray(keras.predict(cx, verbose=0)), keras.predict(x, verbose=0))
""",
        tmp_path,
    )


def test_large_arrays_are_not_copied(tmp_path: Path) -> None:
    """One of 64 MiB, and a result as large: Python allocates less than a MiB."""
    run_program(
        START
        + MODEL
        + """
import tracemalloc
from flexflow.core.arrays import convert
rows = 1 << 18
data = cn.ones((rows, 64), dtype=cn.float32) * 2
assert np.shares_memory(convert(data, DataType.DT_FLOAT, "x"), np.asarray(data))
model = FFModel(FFConfig())
model.dense(model.create_tensor([1024, 64], DataType.DT_FLOAT), 64)
model.compile(comp_mode=CompMode.INFERENCE)
model.predict(data[:2048])
tracemalloc.start()
result = model.predict(data)
peak = tracemalloc.get_traced_memory()[1]
assert peak < 1 << 20, peak
assert float(cn.abs(result - result[0]).max()) < 1e-5
""",
        tmp_path,
    )


@pytest.mark.parametrize("processors", [1, 2])
@pytest.mark.parametrize("rows", [64, 1 << 14])
def test_each_sees_what_the_other_did(processors: int, rows: int, tmp_path: Path) -> None:
    """cuPyNumeric changes the data in place, FlexFlow trains and predicts, cuPyNumeric computes
    with that, and so on; NumPy and the engine "local" do the same."""
    run_program(
        START
        + MODEL
        + f"""
rng = np.random.default_rng(0)
x = rng.normal(size=({rows}, 32)).astype(np.float32)
y = x[:, :4].copy()
def rounds(np, x, y, **config):
    model = FFModel(FFConfig(batch_size={rows} // 4, **config))
    model.dense(model.create_tensor([{rows} // 4, 32], DataType.DT_FLOAT), 4)
    model.compile(SGDOptimizer(model, lr=0.05), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
    results = []
    for round in range(20):
        x *= 0.97
        y -= x[:, 4:8] * 0.1
        loss = model.fit(x, y, verbose=0)[-1].loss
        predicted = model.predict(x)
        predicted -= y
        y += predicted * 0.01
        results.append([loss, float((predicted * predicted).sum())])
    return results
ours = rounds(cn, cn.array(x), cn.array(y))
expected = rounds(np, x, y, engine="local")
np.testing.assert_allclose(ours, expected, rtol=1e-4)
""",
        tmp_path,
        LEGATE_CONFIG=f"--cpus {processors} --gpus 0 --utility 1 --omps 0 --sysmem 512",
    )


TRAIN = """
x, y = samples(mlp, 40)
model = compiled(mlp)
model.fit(cn.array(x), cn.array(y), verbose=0)
"""
ENDINGS = {
    "normal": ("print('done')", 0),
    "exit": ("sys.exit(3)", 3),
    "exception": ("raise KeyError('lost')", 1),
    "at once": ("os._exit(5)", 5),
    "closed": ("model.close(); cn.ones(3).sum()", 0),
    "library first": ("", 0),
}


@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_endings(launcher: str, name: str, tmp_path: Path) -> None:
    last, status = ENDINGS[name]
    first = (
        "import flexflow.core; flexflow.core.describe('version')" if name == "library first" else ""
    )
    said = run_program(first + START + MODEL + TRAIN + last, tmp_path, launcher, status)
    assert ("KeyError: 'lost'" in said) == (name == "exception")


def test_ten_in_a_row(tmp_path: Path) -> None:
    for _ in range(10):
        run_program(START + MODEL + TRAIN, tmp_path)


def test_a_forked_child_computes_by_itself(tmp_path: Path) -> None:
    run_program(
        START
        + MODEL
        + TRAIN
        + """
child = os.fork()
if child == 0:
    status = 1
    try:
        assert describe("engine") == "local" and describe("runtime") == "none"
        compiled(mlp).fit(x, y, verbose=0)
        try:
            compiled(mlp, engine="legion")
        except FlexFlowError as error:
            assert "forked" in str(error)
            status = 0
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
model.fit(x, y, verbose=0)
""",
        tmp_path,
    )


def test_legate_comes_first(tmp_path: Path) -> None:
    """Afterwards it is refused, in words that help, and FlexFlow goes on."""
    run_program(
        MODEL
        + """
import flexflow.legate
x, y = samples(mlp, 40)
model = compiled(mlp, engine="legion")
before = model.eval(x, y, verbose=0).loss
for _ in range(2):
    try:
        import cupynumeric
    except ImportError as error:
        assert "import legate or cupynumeric before the first use of FlexFlow" in str(error)
    else:
        raise AssertionError("not refused")
assert model.eval(x, y, verbose=0).loss == before
model.fit(x, y, verbose=0)
""",
        tmp_path,
    )


def test_a_configuration_that_cannot_work_is_named(tmp_path: Path) -> None:
    """Of a machine without GPUs, where Legate fails to count them."""
    code = """
import ctypes
try:
    ctypes.CDLL("libcuda.so.1")
except OSError:
    import flexflow.legate
else:
    raise ImportError("--gpus 0: here is a driver")
"""
    said = run_program(code, tmp_path, status=1, LEGATE_CONFIG="--cpus 1")
    assert "ImportError: " in said and "--gpus 0" in said
