"""What the library takes of the process: threads, memory, time."""

from __future__ import annotations

import pytest
from program import run_program

from flexflow.core import describe

# A sanitizer holds freed memory back and makes everything slow.
unless_sanitized = pytest.mark.skipif(
    "fsanitize" in describe("options"), reason="measures what a sanitizer changes"
)


def test_loading_starts_no_thread_and_prints_nothing() -> None:
    out = run_program(
        """
import os
import numpy
before = len(os.listdir("/proc/self/task"))
import flexflow.core
assert len(os.listdir("/proc/self/task")) == before
flexflow.core.describe("version")
flexflow.core.FFModel(flexflow.core.FFConfig())
assert len(os.listdir("/proc/self/task")) == before
"""
    )
    assert out == ""


@unless_sanitized
@pytest.mark.parametrize("build", ["mlp", "cnn"])
def test_memory_of_100_cycles(build: str) -> None:
    """Resident memory after cycle 100 is within 5 % of that after cycle 10."""
    run_program(
        f"""
import gc
from pathlib import Path
from engine_models import {build}, compiled, samples

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1])

x, y = samples({build}, 29)
sizes = []
for cycle in range(1, 101):
    model = compiled({build}, optimizer="adam")
    model.fit(x, y, verbose=0)
    model.predict(x)
    model.eval(x, y, verbose=0)
    del model
    if cycle in (10, 100):
        sizes.append(resident())
assert sizes[1] <= 1.05 * sizes[0], sizes
"""
    )


@unless_sanitized
def test_memory_of_one_model_does_not_grow() -> None:
    """Batch sizes come and go; plans are kept in a small cache."""
    run_program(
        """
from pathlib import Path
from engine_models import cnn, compiled, samples
x, y = samples(cnn, 64)
model = compiled(cnn)
sizes = []
for cycle in range(4):
    for batch in range(1, 31):
        model.predict(x, batch_size=batch)
        model.eval(x, y, batch_size=batch, verbose=0)
    sizes.append(int(Path("/proc/self/statm").read_text().split()[1]))
assert sizes[-1] <= 1.05 * sizes[1], sizes
"""
    )


@unless_sanitized
def test_compiling_the_mlp_is_quick() -> None:
    """Under 50 ms of processor time, the plan of a training step included."""
    run_program(
        """
import time
from engine_models import compiled, mlp
from flexflow.core import *
compiled(mlp).plan("train")
times = []
for _ in range(5):
    model = FFModel(FFConfig())
    x = model.create_tensor([64, 784], "float32")
    for width in (512, 512):
        x = model.dense(x, width, ActiMode.AC_MODE_RELU)
    model.softmax(model.dense(x, 10))
    start = time.process_time()
    model.compile(SGDOptimizer(model), LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY)
    times.append(time.process_time() - start)
assert min(times) < 0.05, times
"""
    )
