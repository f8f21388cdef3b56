"""A process that forks after use: the child computes, the parent goes on, neither hangs.

Each test is a program of its own, so that a hang is seen as one.
"""

from __future__ import annotations

import pytest
from program import run_program

from flexflow.core import describe

# Children must not run the parent's cleanup; what they have to say is their exit status.
COMMON = """
import os, sys, threading, time, traceback
import numpy as np
from engine_models import cnn, compiled, mlp, samples, weights

def in_child(work):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child

def wait(child, seconds=40):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0, f"the child ended with {status}"
            return
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")

def same(a, b):
    for (name, one), other in zip(a.items(), b.values()):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=name)
"""


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("build", ["mlp", "cnn"])
def test_a_child_trains_as_its_parent_would(build: str, threads: int) -> None:
    run_program(
        COMMON
        + f"""
x, y = samples({build}, 40)
model = compiled({build}, threads={threads})
for round in range(3):
    model.fit(x, y, verbose=0)
    before = weights(model)
    def work():
        same(weights(model), before)
        model.fit(x, y, verbose=0)          # plans of the parent
        model.predict(x, batch_size=3)      # a plan of its own
        fresh = compiled({build}, threads={threads})
        fresh.fit(x, y, epochs=2, verbose=0)
        np.savez(f"/tmp/ff_fork_{{os.getpid()}}.npz", **weights(model))
    child = in_child(work)
    model.fit(x, y, verbose=0)              # at the same time
    wait(child)
    path = f"/tmp/ff_fork_{{child}}.npz"
    theirs = dict(np.load(path))
    os.remove(path)
    same(weights(model), theirs)
"""
    )


def test_a_child_of_a_child() -> None:
    run_program(
        COMMON
        + """
x, y = samples(mlp, 40)
model = compiled(mlp, threads=2)
model.fit(x, y, verbose=0)
expected = model.predict(x)
def check():
    np.testing.assert_allclose(model.predict(x), expected, rtol=1e-5)
def work():
    check()
    wait(in_child(check))
    check()
wait(in_child(work))
check()
"""
    )


@pytest.mark.parametrize("uses", [True, False])
def test_a_child_may_end_like_any_program(uses: bool) -> None:
    """With its objects, the parent's and its own, closed by Python on the way out."""
    run_program(
        COMMON
        + f"""
x, y = samples(mlp, 40)
model = compiled(mlp, threads=2)
model.fit(x, y, verbose=0)
child = os.fork()
if child == 0:
    if {uses}:
        model.predict(x)
        own = compiled(mlp, threads=2)
        own.fit(x, y, verbose=0)
        if os.fork() == 0:       # closes what its own parent had, unused
            sys.exit(0)
        assert os.wait()[1] == 0
    sys.exit(0)
wait(child)
model.fit(x, y, verbose=0)
"""
    )


def test_fork_before_first_use() -> None:
    run_program(
        COMMON
        + """
x, y = samples(mlp, 40)
model = compiled(mlp, threads=2)
def work():
    model.fit(x, y, verbose=0)
children = [in_child(work) for _ in range(3)]
work()
for child in children:
    wait(child)
"""
    )


def test_fork_while_another_thread_trains() -> None:
    """The fork waits until no thread is inside the library, and finds its locks free."""
    run_program(
        COMMON
        + """
x, y = samples(mlp, 64)
busy, idle = compiled(mlp, threads=2), compiled(mlp, threads=2)
idle.fit(x, y, verbose=0)
expected = idle.predict(x)
stop = threading.Event()
def train():
    while not stop.is_set():
        busy.fit(x, y, epochs=5, verbose=0)
threads = [threading.Thread(target=train) for _ in range(2)]
for thread in threads:
    thread.start()
def work():
    np.testing.assert_allclose(idle.predict(x), expected, rtol=1e-5)
    idle.fit(x, y, verbose=0)
    busy.fit(x, y, verbose=0)   # the model of a thread that does not exist here
try:
    for round in range(10):
        time.sleep(0.02)
        wait(in_child(work))
finally:
    stop.set()
for thread in threads:
    thread.join(30)
    assert not thread.is_alive()
np.testing.assert_allclose(idle.predict(x), expected, rtol=1e-5)
""",
        timeout=200,
    )


def test_fork_from_a_thread_beside_the_main_one() -> None:
    run_program(
        COMMON
        + """
x, y = samples(mlp, 64)
model = compiled(mlp, threads=2)
model.fit(x, y, verbose=0)
def work():
    model.predict(x)
    model.fit(x, y, verbose=0)
failures = []
def forker():
    try:
        for round in range(5):
            wait(in_child(work))
    except BaseException as error:
        failures.append(error)
thread = threading.Thread(target=forker)
thread.start()
while thread.is_alive():
    model.fit(x, y, verbose=0)
thread.join()
assert not failures, failures
""",
        timeout=200,
    )


def test_multiprocessing_pool() -> None:
    run_program(
        COMMON
        + """
import multiprocessing
x, y = samples(mlp, 64)
model = compiled(mlp, threads=2)
model.fit(x, y, verbose=0)
expected = model.predict(x)
def predict(rows):
    return model.predict(x[rows])
context = multiprocessing.get_context("fork")
for round in range(3):
    with context.Pool(3) as pool:
        parts = pool.map_async(predict, [slice(i, i + 16) for i in range(0, 64, 16)]).get(60)
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=1e-5)
    model.predict(x)
"""
    )


def test_workers_of_a_data_loader() -> None:
    """PyTorch's workers are forked while the parent trains; they may use the library, too."""
    run_program(
        COMMON
        + """
import torch
torch.set_num_threads(1)
from torch.utils.data import DataLoader, Dataset
x, y = samples(mlp, 64)
helper = compiled(mlp, threads=2)
helper.fit(x, y, verbose=0)
expected = helper.predict(x)

class Rows(Dataset):
    def __len__(self):
        return len(x)
    def __getitem__(self, i):
        seen = helper.predict(x[i : i + 1])
        np.testing.assert_allclose(seen[0], expected[i], rtol=1e-4)
        return x[i], y[i]

model = compiled(mlp, batch=16, threads=2)
for epoch in range(3):
    rows = 0
    loader = DataLoader(Rows(), batch_size=16, num_workers=2, multiprocessing_context="fork")
    for data, labels in loader:
        model.fit(data.numpy(), labels.numpy(), verbose=0)
        rows += len(data)
    assert rows == 64
plain = compiled(mlp, batch=16, threads=2)
plain.fit(x, y, epochs=3, verbose=0)
same(weights(model), weights(plain))
"""
    )


@pytest.mark.skipif("legion" not in describe("engines"), reason="this build has no engine legion")
def test_a_child_of_a_process_with_legion() -> None:
    """It has no runtime: the engine is local unless one is named, and Legion is refused."""
    run_program(
        COMMON
        + """
from flexflow.core import FlexFlowError, describe
x, y = samples(mlp, 40)
parents = compiled(mlp, engine="legion")
parents.fit(x, y, verbose=0)
def work():
    assert (describe("engine"), describe("runtime")) == ("local", "none")
    own = compiled(mlp)
    own.fit(x, y, verbose=0)
    same(weights(own), weights(parents))
    for refused in (lambda: compiled(mlp, engine="legion"), lambda: parents.fit(x, y, verbose=0)):
        try:
            refused()
        except FlexFlowError as error:
            assert "forked" in str(error), error
        else:
            raise AssertionError("computes without a runtime")
    wait(in_child(lambda: compiled(mlp).fit(x, y, verbose=0)))
wait(in_child(work))
parents.fit(x, y, verbose=0)
assert describe("runtime") == "started"
""",
        FLEXFLOW_ENGINE="",
    )
