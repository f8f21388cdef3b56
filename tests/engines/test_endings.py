"""How programs end: with the right status, in time, and with no process left behind.

Each is a program of its own, on an engine, under a launcher. A further engine or launcher is a line
in RUNS, a further ending one in ENDINGS.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from flexflow.core import describe
from flexflow.core._find import library_path

ROOT = Path(__file__).resolve().parents[2]
HOST = library_path().with_name("legion_host")
LAUNCHERS = {
    "python": [sys.executable],
    # Legion's first task; `make native-tests` builds it.
    "legion_host": [str(HOST), "-ll:py", "1"],
}
RUNS = [
    ("local", "python"),
    ("local", "legion_host"),
    ("legion", "python"),
    ("legion", "legion_host"),
]

MODEL = """
import os, signal, sys, threading, time
import numpy as np
from flexflow.core import *

def made(devices=2):
    model = FFModel(FFConfig(batch_size=16, threads=1))
    x = model.create_tensor([16, 8])
    model.softmax(model.dense(model.dense(x, 16), 4))
    model.compile(
        SGDOptimizer(model, lr=0.1),
        LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
        strategy=Strategy.data_parallel(devices),
    )
    return model

data = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
labels = data[:, :4].argmax(1)

def trained(model, epochs=1):
    return model.fit(data, labels, epochs=epochs, verbose=0)[-1].loss
"""
TRAIN = "model = made(); trained(model)\n"


class Ending(NamedTuple):
    """A program, and how it ends; under Legion's launcher, which aborts when its first task raises,
    some end otherwise."""

    program: str
    status: int = 0
    says: str = ""
    interrupted: bool = False  # after it has printed "now"
    under_legion: int | None = None


ENDINGS = {
    "normal": Ending(MODEL + TRAIN + "print('done')", says="done"),
    "without use": Ending(
        """
import os, numpy
before = os.listdir("/proc/self/task")
import flexflow.core
assert os.listdir("/proc/self/task") == before
"""
    ),
    "closed": Ending(MODEL + TRAIN + "model.close()"),
    "kept to the very end": Ending(MODEL + TRAIN + "sys.model = [model]; sys.model += [sys.model]"),
    "exit": Ending(MODEL + TRAIN + "sys.exit()"),
    "exit with a number": Ending(MODEL + TRAIN + "sys.exit(3)", 3),
    "exit with a text": Ending(MODEL + TRAIN + "sys.exit('no luck')", 1, "no luck"),
    "exit before use": Ending(MODEL + "sys.exit(3)", 3),
    "at once": Ending(MODEL + TRAIN + "os._exit(5)", 5),
    "exception": Ending(
        MODEL + TRAIN + "raise KeyError('lost')",
        1,
        "KeyError: 'lost'",
        under_legion=-signal.SIGABRT,
    ),
    "exception of ours": Ending(
        MODEL + TRAIN + "model.dense(3, 4)", 1, "TypeError: ", under_legion=-signal.SIGABRT
    ),
    "exception in a thread": Ending(
        MODEL
        + TRAIN
        + "thread = threading.Thread(target=trained, args=(None,)); thread.start(); thread.join()",
        says="AttributeError",
    ),
    "interrupted": Ending(
        MODEL + TRAIN + "print('now', flush=True); trained(model, 10**7)",
        -signal.SIGINT,
        "KeyboardInterrupt",
        interrupted=True,
        under_legion=-signal.SIGABRT,
    ),
    "interrupted and caught": Ending(
        MODEL
        + TRAIN
        + """
try:
    print("now", flush=True)
    trained(model, 10**7)
except KeyboardInterrupt:
    print("again", trained(model) < 10)
""",
        says="again True",
        interrupted=True,
    ),
    "a forked child": Ending(
        MODEL
        + TRAIN
        + """
child = os.fork()
if child == 0:
    os._exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
assert trained(model) < 10
"""
    ),
    "calls from other threads": Ending(
        MODEL
        + """
losses = []
def work():
    losses.append(trained(made()))
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
model = made()
threads = [threading.Thread(target=lambda: losses.append(model.predict(data).sum()))]
threads[0].start(); threads[0].join()
assert len(set(losses[:3])) == 1 and abs(losses[3] - 64) < 1e-3, losses
"""
    ),
    "a thread that still trains": Ending(
        MODEL
        + TRAIN
        + """
threading.Thread(target=trained, args=(model, 10**7), daemon=True).start()
time.sleep(0.2)
sys.exit(4)
""",
        4,
    ),
    "signals are as they were": Ending(
        """
import re, signal
def caught():
    handlers = int(re.search(r"SigCgt:\\t(\\w+)", open("/proc/self/status").read())[1], 16)
    return {n + 1 for n in range(64) if handlers >> n & 1} - INTERNAL
INTERNAL = {32, 33, signal.SIGUSR1}  # of the C library's threads, and of Realm
before = caught()
"""
        + MODEL
        + TRAIN
        + "assert caught() == before, (before, caught())"
    ),
}


def run(ending: Ending, engine: str, launcher: str, script: Path) -> None:
    """Start the program, and hold it to its ending."""
    script.write_text(ending.program)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with subprocess.Popen(
        [*LAUNCHERS[launcher], str(script), "-ll:cpu", "2"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": path, "FLEXFLOW_ENGINE": engine},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # Who runs the tests in the background may have Ctrl-C ignored, which is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            told = ""
            if ending.interrupted:
                for line in process.stdout:
                    told += line
                    if line == "now\n":
                        time.sleep(0.3)
                        process.send_signal(signal.SIGINT)
                        break
            told += process.communicate(timeout=60)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(f"hangs: {process.communicate()[0]}") from None
    under_legion = launcher == "legion_host" and ending.under_legion is not None
    expected = ending.under_legion if under_legion else ending.status
    assert process.returncode == expected, told
    assert ending.says in told
    if ending.status == 0:
        assert not re.search(r"Traceback|Segmentation", told) or ending.says == "AttributeError"
    with pytest.raises(ProcessLookupError):  # nobody is left of its group
        os.killpg(process.pid, 0)


def need(engine: str, launcher: str) -> None:
    """Skip what this build does not have."""
    if engine not in describe("engines").split(", "):
        pytest.skip(f"this build has no engine {engine}")
    if launcher == "legion_host" and not HOST.is_file():
        pytest.skip(f"there is no {HOST}; where Legion is found, `make native-tests` builds it")


@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize(("engine", "launcher"), RUNS)
def test_ending(engine: str, launcher: str, name: str, tmp_path: Path) -> None:
    need(engine, launcher)
    run(ENDINGS[name], engine, launcher, tmp_path / "script.py")


def test_flags_that_legion_refuses(tmp_path: Path) -> None:
    need("legion", "python")
    program = MODEL + "sys.argv += ['-ll:util', '99']; made()"
    ending = Ending(program, 1, "ValueError: flag -ll:util got 99")
    run(ending, "legion", "python", tmp_path / "script.py")


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize(("engine", "launcher"), RUNS)
def test_fifty_endings_in_a_row(engine: str, launcher: str, name: str, tmp_path: Path) -> None:
    need(engine, launcher)
    for _ in range(50):
        run(ENDINGS[name], engine, launcher, tmp_path / "script.py")
