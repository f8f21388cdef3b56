"""Calls from several threads: models side by side, one model for many, closing while in use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from engine_models import Build, cnn, compiled, mlp, samples, weights
from program import run_program

from flexflow.core import FlexFlowError


def together(*works: Callable[[], None]) -> None:
    """Run each in a thread; the first exception is raised here."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


@pytest.mark.parametrize(("first", "second"), [(mlp, cnn), (cnn, cnn), (mlp, mlp)])
def test_two_models_in_two_threads(first: Build, second: Build) -> None:
    """Each ends where it ends alone."""
    data = [samples(build, 40) for build in (first, second)]

    def trained(index: int, build: Build) -> Callable[[], None]:
        def work() -> None:
            models[index].fit(*data[index], epochs=5, verbose=0)

        return work

    models = [compiled(build, threads=1) for build in (first, second)]
    together(*(trained(i, build) for i, build in enumerate((first, second))))
    for model, build, (x, y) in zip(models, (first, second), data):
        alone = compiled(build, threads=1)
        alone.fit(x, y, epochs=5, verbose=0)
        for one, other in zip(weights(model).values(), weights(alone).values()):
            np.testing.assert_array_equal(one, other)


def test_one_model_is_trained_and_read_at_once() -> None:
    """A reader sees the weights as they are between two batches, never half of an update."""
    x, y = samples(mlp, 64)
    model = compiled(mlp, lr=0.0, threads=2)
    expected = model.predict(x)
    stop = threading.Event()

    def train() -> None:
        model.fit(x, y, epochs=60, verbose=0)
        stop.set()

    def read() -> None:
        while not stop.is_set():
            np.testing.assert_allclose(model.predict(x, batch_size=5), expected, rtol=1e-5)
            assert all(np.isfinite(w).all() for w in weights(model).values())

    together(train, read, read)


def test_closing_while_in_use() -> None:
    """Calls that are under way end; later ones are refused."""
    x, y = samples(mlp, 64)
    for delay in (0.0, 0.005, 0.05):
        model = compiled(mlp, threads=1)
        refused = []

        def use(model=model, refused=refused) -> None:
            with pytest.raises(FlexFlowError, match="closed"):
                while True:
                    model.fit(x, y, epochs=2, verbose=0)
                    model.predict(x)
            refused.append(True)

        def close(model=model, delay=delay) -> None:
            time.sleep(delay)
            model.close()

        together(use, use, close)
        assert len(refused) == 2


def test_building_compiling_and_deleting_in_many_threads() -> None:
    x, y = samples(mlp, 16)

    def work() -> None:
        for seed in range(8):
            model = compiled(mlp, threads=1, seed=seed)
            model.fit(x, y, verbose=0)
            del model

    together(*[work] * 6)


@pytest.mark.nightly
def test_anything_in_any_thread_for_a_minute() -> None:
    """Nothing but FlexFlow's own exceptions comes of it."""
    run_program(
        """
import random, threading, time
import numpy as np
from engine_models import cnn, compiled, mlp, samples, weights
from flexflow.core import FlexFlowError

data = {build: samples(build, 20) for build in (mlp, cnn)}
models = [(build, compiled(build, threads=threads)) for build in (mlp, cnn) for threads in (1, 2)]
end = time.monotonic() + 60
failures = []

def work(seed):
    pick = random.Random(seed)
    while time.monotonic() < end and not failures:
        index = pick.randrange(len(models))
        build, model = models[index]
        x, y = data[build]
        try:
            action = pick.randrange(8)
            if action == 0:
                model.close()
                models[index] = (build, compiled(build, threads=pick.choice([1, 2, 3])))
            elif action == 1:
                model.eval(x, y, batch_size=pick.randrange(1, 9), verbose=0)
            elif action == 2:
                model.predict(x, batch_size=pick.randrange(1, 30))
            elif action == 3:
                for weight in weights(model):
                    pass
            elif action == 4:
                model.plan(pick.choice(["train", "predict", "manual"]))
            else:
                model.fit(x, y, verbose=0)
        except (FlexFlowError, FloatingPointError):
            pass
        except BaseException as error:
            failures.append(error)

threads = [threading.Thread(target=work, args=(seed,)) for seed in range(5)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(120)
    assert not thread.is_alive()
assert not failures, failures
""",
        timeout=240,
    )
