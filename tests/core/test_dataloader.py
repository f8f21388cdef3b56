"""Loaders: batches in order, their sizes, where they begin and end."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core_models import compiled, samples, weights

from flexflow.core import (
    CompMode,
    DataSet,
    DataType,
    FFConfig,
    FFModel,
    FlexFlowError,
    SingleDataLoader,
    Tensor,
)


def passing(batch: int = 4, width: int = 2, kind: str = "float64") -> tuple[FFModel, Tensor]:
    """A model that passes its input on."""
    ffmodel = FFModel(FFConfig())
    x = ffmodel.create_tensor([batch, width], kind, name="x")
    ffmodel.identity(x)
    ffmodel.compile(comp_mode=CompMode.INFERENCE)
    return ffmodel, x


def batches(ffmodel: FFModel, loader: SingleDataLoader) -> list[np.ndarray]:
    out = []
    for _ in range(len(loader)):
        rows = loader.next_batch(ffmodel)
        out.append(loader.input.get_tensor(ffmodel))
        assert len(out[-1]) == rows
    return out


@pytest.mark.parametrize(("count", "sizes"), [(4, [4]), (8, [4, 4]), (9, [4, 4, 1]), (3, [3])])
def test_batches(count: int, sizes: list[int]) -> None:
    ffmodel, x = passing()
    data = np.random.default_rng(0).normal(size=(count, 2))
    loader = SingleDataLoader(ffmodel, x, data, count, DataType.DT_DOUBLE)
    assert (loader.num_samples, len(loader)) == (count, len(sizes))
    for _ in range(2):
        parts = batches(ffmodel, loader)
        assert [len(part) for part in parts] == sizes
        assert np.array_equal(np.concatenate(parts), data)
        with pytest.raises(FlexFlowError, match=r"call reset\(\)"):
            loader.next_batch(ffmodel)
        loader.reset()


def test_drop_last() -> None:
    ffmodel, x = passing()
    loader = SingleDataLoader(ffmodel, x, np.zeros((9, 2)), drop_last=True)
    assert [len(part) for part in batches(ffmodel, loader)] == [4, 4]
    with pytest.raises(FlexFlowError, match="all 9 samples"):
        loader.next_batch(ffmodel)


def test_fewer_samples_than_rows() -> None:
    ffmodel, x = passing()
    data = np.arange(20.0).reshape(10, 2)
    loader = ffmodel.create_data_loader(x, data)
    loader.num_samples = 5
    assert np.array_equal(np.concatenate(batches(ffmodel, loader)), data[:5])
    loader.num_samples = 10
    assert np.array_equal(np.concatenate(batches(ffmodel, loader)), data)


def test_shuffled_orders_follow_seed_and_epoch() -> None:
    def orders(seed: int) -> list[list[float]]:
        ffmodel = FFModel(FFConfig(seed=seed))
        x = ffmodel.create_tensor([4, 1], "float64")
        ffmodel.identity(x)
        ffmodel.compile(comp_mode=CompMode.INFERENCE)
        loader = ffmodel.create_data_loader(x, np.arange(50.0), shuffle=True)
        out = []
        for _ in range(2):
            loader.reset()
            out.append(np.concatenate(batches(ffmodel, loader)).ravel().tolist())
        return out

    first, second, other = orders(1), orders(1), orders(2)
    assert first == second
    assert first[0] != first[1]
    assert first != other
    assert sorted(first[0]) == list(range(50))


def test_a_tensor_with_an_array_is_a_data_set() -> None:
    ffmodel, x = passing()
    data = np.random.default_rng(0).normal(size=(10, 2))
    full = ffmodel.create_tensor([10, 2], DataType.DT_DOUBLE)
    full.attach_numpy_array(ffmodel, ffmodel.ffconfig, data)
    loader = SingleDataLoader(ffmodel, x, full, 10, DataType.DT_DOUBLE)
    assert np.array_equal(np.concatenate(batches(ffmodel, loader)), data)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "int32", "int64", "bool"])
def test_every_type(kind: str) -> None:
    ffmodel, x = passing(kind=kind)
    data = np.arange(10).reshape(5, 2) % 2
    loader = SingleDataLoader(ffmodel, x, data.astype(bool) if kind == "bool" else data)
    assert np.array_equal(np.concatenate(batches(ffmodel, loader)), data)


def test_arrays_live_as_long_as_their_loader() -> None:
    ffmodel, x = passing()
    data = np.full((100, 2), 7.0)
    alive = weakref.ref(data)
    loader = SingleDataLoader(ffmodel, x, data)
    del data
    gc.collect()
    assert alive() is not None
    assert all((part == 7).all() for part in batches(ffmodel, loader))
    del loader
    assert alive() is None


def test_arrays_are_read_where_they_are() -> None:
    ffmodel, x = passing()
    data = np.zeros((4, 2))
    loader = SingleDataLoader(ffmodel, x, data)
    data[:] = 3
    assert (batches(ffmodel, loader)[0] == 3).all()


@pytest.mark.parametrize("shuffle", [False, True])
def test_memory_mapped_files(tmp_path: Path, shuffle: bool) -> None:
    data = np.random.default_rng(0).normal(size=(3000, 2))
    np.save(tmp_path / "data.npy", data)
    mapped = np.load(tmp_path / "data.npy", mmap_mode="r")
    ffmodel, x = passing(batch=128)
    loader = SingleDataLoader(ffmodel, x, mapped[1:], shuffle=shuffle, prefetch=3)
    assert np.shares_memory(loader.array, mapped)
    parts = np.concatenate(batches(ffmodel, loader))
    if shuffle:
        assert np.array_equal(np.sort(parts, 0), np.sort(data[1:], 0))
    else:
        assert np.array_equal(parts, data[1:])
    assert np.array_equal(ffmodel.predict(mapped), data)


def test_slices_of_an_epoch() -> None:
    ffmodel = compiled()
    x, y = samples(29)
    data = ffmodel.data_set(x, y)
    data.begin(8)
    steps = samples_seen = 0
    for progress in ffmodel.run("train", data, max_steps=3):
        assert 1 <= progress.steps <= 3
        steps += progress.steps
        samples_seen += progress.samples
        assert progress.position == samples_seen == min(8 * steps, 29)
    assert (steps, samples_seen) == (4, 29)
    assert list(ffmodel.run("train", data)) == []
    other = compiled()
    other.fit(x, y, verbose=0)
    assert all(np.allclose(a, b) for a, b in zip(weights(ffmodel), weights(other)))


def test_data_sets_belong_to_a_model() -> None:
    ffmodel, other = compiled(), compiled()
    data = ffmodel.data_set(*samples(29))
    with pytest.raises(FlexFlowError, match="ff_dataset_begin"):
        list(ffmodel.run("train", data))
    data.begin(8)
    with pytest.raises(ValueError, match="x: belongs to another FFModel"):
        list(other.run("train", data))


def test_a_data_set_keeps_nothing_else_alive() -> None:
    ffmodel, x = passing()
    loader: Any = SingleDataLoader(ffmodel, x, np.zeros((4, 2)))
    gone = weakref.ref(ffmodel)
    del ffmodel
    assert gone() is None
    with pytest.raises(FlexFlowError, match="x: its FFModel was deleted"):
        loader.next_batch()
    with pytest.raises(FlexFlowError, match="its FFModel was deleted"):
        DataSet([(x, np.zeros((4, 2)))])
