"""Checkpoints: a resumed run is the uninterrupted one, and a file is whole or refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flexflow.core import (
    AdamOptimizer,
    CompMode,
    FFConfig,
    FFModel,
    FlexFlowError,
    LossType,
    MetricsType,
    Optimizer,
    SGDOptimizer,
    SingleDataLoader,
    Strategy,
)
from flexflow.core._lib import call
from flexflow.core.arrays import view
from flexflow.core.checkpoint import _states

SPARSE = LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
BATCH, ROWS = 8, 45  # five batches and a smaller one
DATA = np.random.default_rng(0).normal(size=(ROWS, 6)).astype(np.float32)
LABELS = DATA[:, :3].argmax(1).astype(np.int32)
STRATEGIES = [None, Strategy.data_parallel(2), Strategy.hybrid(dp=2, tp=2)]

Choice = Callable[[FFModel], Optimizer]
OPTIMIZERS: dict[str, Choice] = {
    "sgd": lambda model: SGDOptimizer(model, lr=0.1),
    "momentum": lambda model: SGDOptimizer(model, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda model: AdamOptimizer(model, alpha=0.01),
}


def network(choice: str | None = "adam", width: int = 10, **arguments: Any) -> FFModel:
    """What has every kind of state: statistics that run, masks that are drawn."""
    model = FFModel(FFConfig(threads=1, seed=3))
    x = model.create_tensor([BATCH, 6], "float32", name="x")
    t = model.batch_norm(model.dense(x, width, name="hidden"), name="norm")
    t = model.dropout(t, 0.4, name="drop")
    model.softmax(model.dense(t, 3, name="top"))
    optimizer = None if choice is None else OPTIMIZERS[choice](model)
    model.compile(optimizer, SPARSE, [MetricsType.METRICS_ACCURACY], **arguments)
    return model


def shuffled(model: FFModel) -> tuple[SingleDataLoader, SingleDataLoader]:
    inputs = (model.get_layer_by_name("hidden").get_input_tensor(), model.label_tensor)
    x, y = (
        model.create_data_loader(tensor, array, shuffle=True)
        for tensor, array in zip(inputs, (DATA, LABELS))
    )
    return x, y


def steps(model: FFModel, loaders: tuple[SingleDataLoader, ...], count: int) -> None:
    for _ in range(count):
        if loaders[0].position == ROWS:
            for loader in loaders:
                loader.reset()
            model.reset_metrics()
        for loader in loaders:
            loader.next_batch(model)
        model.forward()
        model.zero_gradients()
        model.backward()
        model.update()


def contents(path: Path) -> dict[str, bytes]:
    """All that a checkpoint holds."""
    with np.load(path) as saved:
        return {name: saved[name].tobytes() for name in saved}


def values(model: FFModel, folder: Path) -> dict[str, bytes]:
    model.save_checkpoint(folder / "values.npz")
    return contents(folder / "values.npz")


@pytest.mark.parametrize("choice", OPTIMIZERS)
@pytest.mark.parametrize("done", [3, 6, 14])
def test_manual_loop_resumes_to_the_bit(choice: str, done: int, tmp_path: Path) -> None:
    model = network(choice)
    loaders = shuffled(model)
    steps(model, loaders, done)
    model.save_checkpoint(tmp_path / "run.npz", loaders)
    steps(model, loaders, 9)
    model.save_checkpoint(tmp_path / "uninterrupted.npz", loaders)

    resumed = network(choice)
    again = shuffled(resumed)
    resumed.load_checkpoint(tmp_path / "run.npz", again)
    assert again[0].epoch == (done - 1) // 6
    steps(resumed, again, 9)
    resumed.save_checkpoint(tmp_path / "resumed.npz", again)
    assert contents(tmp_path / "resumed.npz") == contents(tmp_path / "uninterrupted.npz")
    assert resumed.get_perf_metrics().loss == model.get_perf_metrics().loss


@pytest.mark.parametrize("choice", OPTIMIZERS)
def test_fit_resumes_between_epochs(choice: str, tmp_path: Path) -> None:
    model = network(choice)
    model.fit(DATA, LABELS, epochs=2, shuffle=True, verbose=0)
    model.save_checkpoint(tmp_path / "run.npz")
    history = model.fit(DATA, LABELS, epochs=2, shuffle=True, verbose=0)

    resumed = network(choice)
    resumed.load_checkpoint(tmp_path / "run.npz")
    assert values(resumed, tmp_path) == contents(tmp_path / "run.npz")
    again = resumed.fit(DATA, LABELS, epochs=2, shuffle=True, verbose=0)
    assert [metrics.loss for metrics in again] == [metrics.loss for metrics in history]
    assert values(resumed, tmp_path) == values(model, tmp_path)


def test_a_model_goes_back_to_its_own_checkpoint(tmp_path: Path) -> None:
    """Its plans are loaded already; packed copies of weights must not outlive them."""
    model = network()
    model.fit(DATA, LABELS, verbose=0)
    model.save_checkpoint(tmp_path / "run.npz")
    before = model.predict(DATA)
    first = model.fit(DATA, LABELS, epochs=3, verbose=0)
    model.optimizer.learning_rate = 0.5
    model.load_checkpoint(tmp_path / "run.npz")
    assert model.optimizer.learning_rate == 0.01
    np.testing.assert_array_equal(model.predict(DATA), before)
    second = model.fit(DATA, LABELS, epochs=3, verbose=0)
    assert [metrics.loss for metrics in second] == [metrics.loss for metrics in first]


@pytest.mark.parametrize("after", STRATEGIES)
@pytest.mark.parametrize("before", STRATEGIES)
def test_another_strategy(before: Strategy | None, after: Strategy | None, tmp_path: Path) -> None:
    # Not Adam: the bias before the norm has no gradient but rounding, which it turns into steps.
    model = network("momentum", strategy=before)
    model.fit(DATA, LABELS, epochs=2, shuffle=True, verbose=0)
    model.save_checkpoint(tmp_path / "run.npz")
    resumed = network("momentum", strategy=after)
    resumed.load_checkpoint(tmp_path / "run.npz")
    assert values(resumed, tmp_path) == contents(tmp_path / "run.npz")
    expected = model.fit(DATA, LABELS, epochs=2, shuffle=True, verbose=0)
    got = resumed.fit(DATA, LABELS, epochs=2, shuffle=True, verbose=0)
    for ours, theirs in zip(got, expected):
        np.testing.assert_allclose(ours.loss, theirs.loss, rtol=1e-5)
    np.testing.assert_allclose(resumed.predict(DATA), model.predict(DATA), rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_types(dtype: str, tmp_path: Path) -> None:
    def made() -> FFModel:
        model = FFModel(FFConfig(threads=1))
        x = model.create_tensor([4, 2], dtype, name="x")
        model.dense(x, 3, name="dense")
        loss = LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE
        model.compile(AdamOptimizer(model), loss)
        return model

    x, y = np.ones((4, 2), np.float32), np.ones((4, 3), np.float32)
    model, resumed = made(), made()
    model.fit(x, y, verbose=0)
    model.save_checkpoint(tmp_path / "run.npz")
    resumed.load_checkpoint(tmp_path / "run.npz")
    model.fit(x, y, epochs=2, verbose=0)
    resumed.fit(x, y, epochs=2, verbose=0)
    assert values(model, tmp_path) == values(resumed, tmp_path)


def test_inference_takes_what_it_has_a_use_for(tmp_path: Path) -> None:
    model = network()
    model.fit(DATA, LABELS, verbose=0)
    model.save_checkpoint(tmp_path / "run.npz")
    for arguments in ({"choice": None}, {"comp_mode": CompMode.INFERENCE}):
        other = network(**arguments)
        other.load_checkpoint(tmp_path / "run.npz")
        np.testing.assert_array_equal(other.predict(DATA), model.predict(DATA))


# ---- files ----
SAVER = """
import sys
from core.test_checkpoints import network
model = network(width=400)
weight = model.get_layer_by_name("hidden").get_bias_tensor()
for number in range(1, 10**9):
    weight.set_weights(model, [number] * 400)
    model.set_scalar("step", number)
    model.save_checkpoint(sys.argv[1])
    print(number, flush=True)
"""


def test_a_killed_save_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    rng = np.random.default_rng(0)
    model = network(width=400)
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", SAVER, str(path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "1\n"
            time.sleep(rng.uniform(0, 0.1))
            process.send_signal(signal.SIGKILL)
            last = [1, *map(int, process.stdout.read().split())][-1]
        model.load_checkpoint(path)
        step = model.get_scalar("step")
        assert step in (last, last + 1)
        (bias,) = set(model.get_layer_by_name("hidden").get_bias_tensor().get_weights(model))
        assert bias == step


def test_a_save_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network()
    model.save_checkpoint(tmp_path / "run.npz")
    before = (tmp_path / "run.npz").read_bytes()

    def full(*arguments: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        model.save_checkpoint(tmp_path / "run.npz")
    assert os.listdir(tmp_path) == ["run.npz"]
    assert (tmp_path / "run.npz").read_bytes() == before


def test_what_is_no_file_stays(saved: Path, tmp_path: Path) -> None:
    """Neither is a device replaced, nor an open file of the program's closed."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    model = network()
    with pytest.raises(OSError, match=r"is a device or the like; expected a file's name.*pipe"):
        model.save_checkpoint(pipe)
    assert pipe.is_fifo() and list(tmp_path.glob(".pipe*")) == []
    with open(saved, "rb") as file:
        with pytest.raises(TypeError, match="expected str, bytes or os.PathLike object, not int"):
            model.load_checkpoint(file.fileno())  # type: ignore[arg-type]
        assert os.fstat(file.fileno())


def test_the_name_is_taken_as_it_is(tmp_path: Path) -> None:
    """NumPy would put .npz behind it; and a link stays one."""
    model = network()
    (tmp_path / "latest").symlink_to("model.checkpoint")
    model.save_checkpoint(str(tmp_path / "latest"))
    assert sorted(os.listdir(tmp_path)) == ["latest", "model.checkpoint"]
    assert (tmp_path / "latest").is_symlink()
    model.load_checkpoint(str(tmp_path / "latest"))
    with pytest.raises(FileNotFoundError):
        model.load_checkpoint(tmp_path / "elsewhere")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint in the midst of a run."""
    path = tmp_path_factory.mktemp("saved") / "run.npz"
    model = network()
    loaders = shuffled(model)
    steps(model, loaders, 2)
    model.save_checkpoint(path, loaders)
    return path


def edited(path: Path, saved: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """The checkpoint with other contents; the head as a dict."""
    with np.load(saved) as file:
        arrays: dict[str, Any] = dict(file)
    arrays["checkpoint"] = json.loads(arrays["checkpoint"].tobytes())
    edit(arrays)
    if isinstance(arrays.get("checkpoint"), dict):
        arrays["checkpoint"] = np.frombuffer(json.dumps(arrays["checkpoint"]).encode(), np.uint8)
    np.savez(path, **arrays)


def refuses(model: FFModel, path: Path, message: str, loaders: Any = ()) -> None:
    """An error, and nothing of the file is loaded."""
    before = values(model, path.parent)
    with pytest.raises(ValueError, match=message):
        model.load_checkpoint(path, loaders)
    assert values(model, path.parent) == before


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_truncated_files(share: float, saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    (tmp_path / "bad").write_bytes(whole[: int(share * len(whole))])
    refuses(network(), tmp_path / "bad", "bad: is no checkpoint, or a damaged one")


def test_flipped_bits(saved: Path, tmp_path: Path) -> None:
    """Wherever a file is damaged, it is refused, or what it says is what was saved."""
    whole = saved.read_bytes()
    model = network()
    for place in range(5, len(whole), len(whole) // 60):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        (tmp_path / "bad").write_bytes(damaged)
        try:
            model.load_checkpoint(tmp_path / "bad")
        except ValueError:
            continue
        assert contents(tmp_path / "bad") == contents(saved)


def test_foreign_files(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    model = network()
    foreign = "bad.*: is no checkpoint, or a damaged one"
    path.write_text("{}")
    refuses(model, path, foreign)
    with open(path, "wb") as file:
        np.save(file, np.ones(3))
    refuses(model, path, foreign)
    with open(path, "wb") as file:
        np.savez(file, weights=np.ones(3))
    refuses(model, path, foreign)

    path = tmp_path / "bad.npz"
    edited(path, saved, lambda arrays: arrays.update(checkpoint=np.uint8([1, 2])))
    refuses(model, path, foreign)
    edited(path, saved, lambda arrays: arrays["checkpoint"].pop("loaders"))
    refuses(model, path, foreign)
    edited(path, saved, lambda arrays: arrays["checkpoint"]["loaders"]["x"].pop("epoch"))
    refuses(model, path, foreign)
    edited(path, saved, lambda arrays: arrays["checkpoint"].update(epochs="many"))
    refuses(model, path, foreign)
    edited(path, saved, lambda arrays: arrays["checkpoint"]["loaders"]["x"].update(position=46))
    refuses(model, path, foreign + ".*position: got 46, expected at most 45")
    edited(path, saved, lambda arrays: arrays.update(more=np.ones(3)))
    refuses(model, path, foreign + ".*'more'")
    edited(path, saved, lambda arrays: arrays["checkpoint"].update(version=2))
    refuses(model, path, "is of format 'flexflow checkpoint', version 2; this version .* reads")
    edited(path, saved, lambda arrays: arrays["checkpoint"].update(format="other"))
    refuses(model, path, "is of format 'other'")


def test_pickles_are_not_opened(saved: Path, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (os.mkdir, (str(tmp_path / "boom"),))

    bomb = np.array([Bomb()], object)
    edited(tmp_path / "bad.npz", saved, lambda arrays: arrays.update({"state/top/bias": bomb}))
    refuses(network(), tmp_path / "bad.npz", "allow_pickle=False")
    assert not (tmp_path / "boom").exists()


def test_other_models(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    edited(path, saved, lambda arrays: None)
    refuses(network(width=11), path, r"hidden/bias is float32 \[10\], in the model it is .* \[11\]")
    refuses(network("sgd"), path, "saved with the optimizer adam, the model is compiled with <SGD")
    path = tmp_path / "momentum.npz"
    network("momentum").save_checkpoint(path)
    refuses(network("sgd"), path, "has optimizer/hidden/bias/velocity.* that the model lacks")
    path = tmp_path / "none.npz"
    network(None).save_checkpoint(path)
    refuses(network(), path, "saved with the optimizer None")

    other = FFModel(FFConfig(threads=1))
    other.dense(other.create_tensor([BATCH, 6], "float32"), 3, name="top")
    other.compile(None, LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
    refuses(other, path, r"top/kernel is float32 \[3, 10\], in the model it is float32 \[3, 6\]")
    edited(tmp_path / "less.npz", saved, lambda arrays: arrays.pop("state/top/bias"))
    refuses(network(), tmp_path / "less.npz", "lacks top/bias that the model has")

    def halve(arrays: dict[str, Any]) -> None:
        arrays["state/top/bias"] = arrays["state/top/bias"].astype(np.float16)

    edited(tmp_path / "half.npz", saved, halve)
    refuses(network(), tmp_path / "half.npz", "top/bias is float16.*in the model it is float32")


def test_other_loaders(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    edited(path, saved, lambda arrays: None)
    model = network()
    x, y = shuffled(model)
    fewer = model.create_data_loader(x.input, DATA[:40], shuffle=True)
    refuses(model, path, "loader for x had num_samples=45, now it has num_samples=40", [fewer])
    ordered = model.create_data_loader(x.input, DATA)
    refuses(model, path, "loader for x had shuffle=1, now it has shuffle=0", [y, ordered])
    assert y.position == 0  # not half of the loaders either
    refuses(model, path, "two of them feed x", [x, x])
    edited(path, saved, lambda arrays: arrays["checkpoint"]["loaders"].pop("x"))
    refuses(model, path, "no position of a loader for x; it has label", [x, y])
    with pytest.raises(TypeError, match="loaders: got 3, expected SingleDataLoaders"):
        model.save_checkpoint(path, [3])
    with pytest.raises(ValueError, match="position: got 46, expected at most 45"):
        x.seek(0, 46)


def test_a_missing_file(tmp_path: Path) -> None:
    """The message says who wanted it."""
    model = network()
    with pytest.raises(FileNotFoundError, match=r"load_checkpoint: .*no\.npz"):
        model.load_checkpoint(tmp_path / "no.npz")


def test_needs_a_compiled_model(saved: Path) -> None:
    model = FFModel(FFConfig(threads=1))
    model.dense(model.create_tensor([2, 2]), 3)
    with pytest.raises(FlexFlowError, match="save_checkpoint: the model is not compiled"):
        model.save_checkpoint(saved)
    with pytest.raises(FlexFlowError, match="load_checkpoint: the model is not compiled"):
        model.load_checkpoint(saved)


def test_the_library_names_a_state_that_is_not_there() -> None:
    model = network()
    wrong = view(np.zeros((2, 3), np.float32))
    for verb in ("ff_state_read", "ff_state_write"):
        with pytest.raises(ValueError, match='there is no state "absent"; ff_state_info lists'):
            call(verb, model.graph_handle, b"absent", wrong)
        with pytest.raises(ValueError, match='there is no state "x"'):  # an input is none
            call(verb, model.graph_handle, b"x", wrong)
        model.get_layer_by_name("top").get_bias_tensor().get_weights(model)
        with pytest.raises(ValueError, match=r"top/bias: got an array of shape \[2, 3\]; expected"):
            call(verb, model.graph_handle, b"top/bias", wrong)


def test_states_do_not_depend_on_what_was_run() -> None:
    """So that a model that has run nothing yet knows what a checkpoint must hold."""
    fresh, used = network(), network()
    loaders = shuffled(used)
    steps(used, loaders, 2)
    used.fit(DATA, LABELS, verbose=0)
    used.predict(DATA)
    assert _states(fresh) == _states(used)
    assert {name for name in _states(fresh) if "bias" in name and "top" in name} == {
        "top/bias",
        "optimizer/top/bias/m",
        "optimizer/top/bias/v",
    }
