"""Loading, closing, deleting, and calls from several threads."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core_models import compiled, samples, weights

from flexflow.core import FFConfig, FFModel, FlexFlowError, _lib

ROOT = Path(__file__).resolve().parents[2]
# A sanitizer holds freed memory back, aborts at absurd sizes and makes everything slow.
unless_sanitized = pytest.mark.skipif(
    "fsanitize" in _lib.describe("options"), reason="measures what a sanitizer changes"
)


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program of its own."""
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


def test_import_does_nothing() -> None:
    code = """
import sys
before = set(sys.modules)
sys.argv = ["x", "--epochs", "nonsense"]
import flexflow.core
maps = open("/proc/self/maps").read()
assert "libflexflow" not in maps
assert not {"torch", "tqdm", "sklearn"} & (set(sys.modules) - before)
import flexflow
"""
    done = python(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@unless_sanitized
def test_import_is_light() -> None:
    code = """
import time
import numpy
start = time.process_time()
import flexflow.core
print(time.process_time() - start)
"""
    # Processor time, since other programs may be busy; the first run compiles the byte code.
    times = [float(python(code, PYTHONDONTWRITEBYTECODE="").stdout) for _ in range(4)]
    assert min(times) < 0.2


@pytest.mark.parametrize(
    ("path", "message"),
    [("/nowhere/libflexflow.so", "there is no such file"), (__file__, "cannot load .*make")],
)
def test_a_bad_library_is_said_so(path: str, message: str) -> None:
    code = """
import re, sys
import flexflow.core as core
try:
    core.FFModel(core.FFConfig())
except ImportError as error:
    assert re.search(sys.argv[1], str(error), re.S), error
else:
    raise SystemExit("no error")
"""
    done = python(code.replace("sys.argv[1]", repr(message)), FLEXFLOW_LIBRARY=path)
    assert done.returncode == 0, done.stderr


def test_a_library_of_another_version_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes.util

    from flexflow.core import _abi

    name = ctypes.util.find_library("m")
    with pytest.raises(ImportError, match=r"has another interface than the package"):
        _lib._load(str(name))
    path = str(_lib.library_path())
    assert _lib._load(path) is not None
    monkeypatch.setattr(
        _abi, "DIGEST", "0" * 16
    )  # all functions are there, but not with these types
    with pytest.raises(ImportError, match=r"has another interface than the package"):
        _lib._load(path)


def test_statuses_become_exceptions() -> None:
    from flexflow.core import _abi

    for status, error in (
        (_abi.FF_ERROR_VALUE, ValueError),
        (_abi.FF_ERROR_TYPE, TypeError),
        (_abi.FF_ERROR_STATE, FlexFlowError),
        (_abi.FF_ERROR_MEMORY, MemoryError),
        (_abi.FF_ERROR_INTERNAL, RuntimeError),
    ):
        with pytest.raises(error):
            _lib.check(status)
    with pytest.raises(RuntimeError, match="a fault of FlexFlow; please report it"):
        _lib.check(_abi.FF_ERROR_INTERNAL)
    assert not issubclass(MemoryError, FlexFlowError)
    assert issubclass(FlexFlowError, RuntimeError)


@unless_sanitized
def test_too_much_memory_is_a_memory_error() -> None:
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([4, 4], "float32")
    huge = ffmodel.dense(x, 2**44).owner_op.get_weight_tensor()
    with pytest.raises(MemoryError):
        huge.get_weights(ffmodel)


def test_deleting_the_model_frees_it_at_once() -> None:
    ffmodel = compiled()
    ffmodel.fit(*samples(29), verbose=0)
    kept: Any = [ffmodel.label_tensor, ffmodel.get_layer_by_id(0), ffmodel.optimizer]
    gone = weakref.ref(ffmodel)
    handle = ffmodel.graph_handle
    gc.disable()
    try:
        del ffmodel
        assert gone() is None
        with pytest.raises(FlexFlowError, match="closed"):
            _lib.call("ff_close", handle)
    finally:
        gc.enable()
    label, layer, optimizer = kept
    for use in (
        lambda: label.get_tensor(),
        lambda: label + 1,
        lambda: layer.get_weight_tensor(),
        lambda: layer.trainable,
    ):
        with pytest.raises(FlexFlowError, match="its FFModel was deleted; keep a reference"):
            use()
    optimizer.set_learning_rate(0.5)


def test_closing_twice() -> None:
    ffmodel = compiled()
    ffmodel.close()
    ffmodel.close()
    with pytest.raises(FlexFlowError, match="this graph was closed"):
        ffmodel.predict(samples(8)[0])


def test_closed_while_it_trains() -> None:
    ffmodel = compiled(batch=1)
    x, y = samples(100_000)
    timer = threading.Timer(0.2, ffmodel.close)
    timer.start()
    with pytest.raises(FlexFlowError, match="was closed"):
        ffmodel.fit(x, y, epochs=10_000, verbose=0)
    timer.join()


def test_a_changed_learning_rate_while_it_trains() -> None:
    ffmodel = compiled(batch=1, lr=0.0)
    x, y = samples(20_000)
    before = weights(ffmodel)
    assert ffmodel.optimizer is not None
    timer = threading.Timer(0.1, ffmodel.optimizer.set_learning_rate, [0.01])
    timer.start()
    losses = [metrics.loss for metrics in ffmodel.fit(x, y, epochs=3, verbose=0)]
    timer.join()
    assert not np.array_equal(weights(ffmodel)[0], before[0])
    assert losses[2] < losses[0]


def in_threads(count: int, work: Any) -> list[Any]:
    results: list[Any] = [None] * count

    def one(i: int) -> None:
        try:
            results[i] = work(i)
        except Exception as error:
            results[i] = error

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return results


def test_models_train_in_threads_as_alone() -> None:
    x, y = samples(64)

    def train(seed: int) -> np.ndarray:
        ffmodel = compiled(seed=seed)
        ffmodel.fit(x, y, epochs=20, verbose=0)
        return weights(ffmodel)[0]

    alone = [train(seed) for seed in range(4)]
    for ours, theirs in zip(alone, in_threads(4, train)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_one_model_serves_many_threads() -> None:
    ffmodel = compiled()
    inputs = [samples(50, seed)[0] for seed in range(4)]
    expected = [ffmodel.predict(x) for x in inputs]
    results = in_threads(4, lambda i: [ffmodel.predict(inputs[i]) for _ in range(10)])
    for wanted, given in zip(expected, results):
        for one in given:
            np.testing.assert_allclose(one, wanted, rtol=1e-5)


def test_errors_stay_in_their_thread() -> None:
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([4, 4], "float32")

    def work(i: int) -> list[str]:
        messages = []
        for _ in range(50):
            with pytest.raises(ValueError, match="axis") as caught:
                ffmodel.softmax(x, axis=10 + i)
            messages.append(str(caught.value))
        return messages

    for i, messages in enumerate(in_threads(4, work)):
        assert all(f"axis {10 + i} " in message for message in messages)


def test_a_fork_after_use_works() -> None:
    code = """
import os, sys
sys.path.insert(0, "tests/core")
from core_models import compiled, samples
ffmodel = compiled()
x, y = samples(64)
ffmodel.fit(x, y, verbose=0)
expected = ffmodel.predict(x)
child = os.fork()
same = abs(ffmodel.predict(x) - expected).max() < 1e-6
if child == 0:
    ffmodel.fit(x, y, verbose=0)
    os._exit(0 if same else 1)
assert same
assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, timeout=120, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@unless_sanitized
def test_memory_of_models_comes_back() -> None:
    x, y = samples(64)

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1])

    sizes = []
    for cycle in range(60):
        ffmodel = compiled()
        ffmodel.fit(x, y, verbose=0)
        ffmodel.predict(x)
        del ffmodel
        if cycle in (9, 59):
            sizes.append(resident())
    assert sizes[1] < 1.05 * sizes[0]
