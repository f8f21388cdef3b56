"""Where the system, or 64 bits, give less than a model asks for: an error, and nothing worse."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from program import run_program

from flexflow.core import CompMode, FFConfig, FFModel, LossType, SGDOptimizer

TRAIN_A_CONVOLUTION = """
import numpy as np
from flexflow.core import *
model = FFModel(FFConfig(threads=5))
x = model.create_tensor([7, 3, 12, 12])
model.dense(model.flat(model.conv2d(x, 8, 3, 3)), 4)
model.compile(SGDOptimizer(model), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
data = np.random.default_rng(0).normal(size=(21, 3, 12, 12)).astype("f")
print(model.fit(data, np.ones((21, 4)), verbose=0, epochs=3)[-1].loss)
"""
FEW_THREADS = """
import resource
import numpy as np
from flexflow.core import *
model = FFModel(FFConfig(threads=64))
model.dense(model.create_tensor([64, 64]), 512)
model.compile(comp_mode=CompMode.INFERENCE)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (150 << 20),) * 2)
try:
    model.predict(np.ones((640, 64), "f"))
except MemoryError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "setting",
    [{"OMP_DYNAMIC": "true"}, {"OMP_THREAD_LIMIT": "2"}, {"OMP_MAX_ACTIVE_LEVELS": "0"}],
    ids=str,
)
def test_teams_smaller_than_asked_for(setting: dict[str, str]) -> None:
    """oneDNN's barriers wait for the threads that they count on."""
    usual = run_program(TRAIN_A_CONVOLUTION)
    assert run_program(TRAIN_A_CONVOLUTION, timeout=60, **setting) == usual


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a sanitizer takes address space of its own")
def test_a_system_without_threads() -> None:
    assert "the system gives this process" in run_program(FEW_THREADS)


def test_too_many_threads() -> None:
    for threads in (100_000, 2**32 + 1, 2**40):
        with pytest.raises(ValueError, match=r"threads"):
            model = FFModel(FFConfig(threads=threads))
            model.dense(model.create_tensor([4, 4]), 4)
            model.compile(comp_mode=CompMode.INFERENCE)


def test_a_model_larger_than_the_memory() -> None:
    """It can be looked at; running it is an error before anything is allocated."""
    model = FFModel(FFConfig(batch_size=4))
    wide = model.dense(model.create_tensor([4, 2**20]), 2**20, name="wide")
    model.dense(wide, 4)
    model.compile(SGDOptimizer(model), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
    assert "wide/kernel" in model.memory_report()
    with pytest.raises(MemoryError, match=r"(?s)a step needs .* MiB on device 0.*wide/kernel"):
        model.fit(np.zeros((4, 2**20), np.float32), np.zeros((4, 4), np.float32), verbose=0)


@pytest.mark.parametrize(
    "shape", [[2**32, 2**32], [2, 2**32, 2**32], [2**62], [2**31, 2**31, 0, 2**31, 2]], ids=str
)
def test_sizes_beyond_64_bits(shape: list[int]) -> None:
    model = FFModel(FFConfig())
    with pytest.raises(ValueError, match=r"more elements than can be counted"):
        model.create_tensor(shape)
    with pytest.raises(ValueError, match=r"more elements than can be counted"):
        model.broadcast_to(model.create_tensor([1]), shape)
    with pytest.raises(ValueError, match=r"its weight .*more elements than can be counted"):
        model.dense(model.create_tensor([1, 2**40]), 2**40)


def test_predictions_are_rows_of_the_batch() -> None:
    model = FFModel(FFConfig())
    x = model.create_tensor([4, 3])
    model.reduce_sum(x, [0])
    model.compile(comp_mode=CompMode.INFERENCE)
    with pytest.raises(ValueError, match=r"its rows are not those of the batch"):
        model.predict(np.ones((8, 3), np.float32))


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="measures what a sanitizer changes")
def test_deep_models_are_planned_in_time() -> None:
    model = FFModel(FFConfig(batch_size=2))
    t = model.create_tensor([2, 4])
    for _ in range(1000):
        t = model.dense(t, 4)
    model.compile(SGDOptimizer(model), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
    start = time.perf_counter()
    model.fit(np.ones((2, 4), np.float32), np.ones((2, 4), np.float32), verbose=0)
    assert time.perf_counter() - start < 10  # cubic, it took a minute and more
