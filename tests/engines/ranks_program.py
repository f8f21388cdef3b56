"""What test_ranks.py runs in several ranks, and in one process to compare with.

usage: ranks_program.py FOLDER      writes what each rank came to, as FOLDER/RANK.npz
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import engine_models
import numpy as np
from whole_models import Build, alexnet, mlp, train, transformer

from flexflow.core import FFModel, Strategy, rank

Choice = Callable[[FFModel], Strategy]
TWO: dict[str, Choice] = {
    "data parallel": lambda model: Strategy.data_parallel(2),
    "tensor parallel": lambda model: Strategy.tensor_parallel(2),
    "pipeline": lambda model: Strategy.hybrid(pp=2, micro_batches=4),
}
FOUR: dict[str, Choice] = {
    "data parallel": lambda model: Strategy.data_parallel(4),
    "data and tensor parallel": lambda model: Strategy.hybrid(dp=2, tp=2),
    "updates shared": lambda model: Strategy.data_parallel(4).share_updates(),
    "pipeline": lambda model: Strategy.hybrid(dp=2, pp=2, micro_batches=4),
}
BUILDS: tuple[Build, ...] = (mlp, alexnet, transformer)


def whole_models(devices: int) -> dict[str, np.ndarray]:
    """Losses and weights of 20 steps of each model under each strategy."""
    values = {}
    for build in BUILDS:
        for name, strategy in {2: TWO, 4: FOUR}[devices].items():
            for device, dtype in (("reference", "float64"), ("cpu", "float32")):
                run = train(build, strategy, dtype=dtype, device=device)
                who = f"{build.__name__}, {name}, {dtype}"
                values[f"{who}: losses"] = np.array(run.losses)
                for weight, array in run.weights.items():
                    values[f"{who}: {weight}"] = array
    return values


def training(folder: Path) -> dict[str, np.ndarray]:
    """fit, evaluate, predict, the manual loop and a checkpoint, with what Python sees of them."""
    build = engine_models.cnn
    data, labels = engine_models.samples(build, 40)
    config = {"device": "reference", "dtype": "float64", "optimizer": "adam"}

    def made() -> FFModel:
        return engine_models.compiled(build, **config)

    model = made()
    history = model.fit(data, labels, epochs=3, verbose=2)
    values = {"fit": np.array([epoch.loss for epoch in history])}
    values["evaluate"] = np.array(model.eval(data, labels, verbose=0).loss)
    values["predict"] = model.predict(data)
    path = folder / "run.npz"
    model.save_checkpoint(path)
    model.fit(data, labels, epochs=2, verbose=0)
    again = made()
    again.load_checkpoint(path)
    again.fit(data, labels, epochs=2, verbose=0)
    for name, array in engine_models.weights(again).items():
        np.testing.assert_array_equal(array, engine_models.weights(model)[name])
        values[name] = array
    values["after the checkpoint"] = again.predict(data)
    return values


def main() -> None:
    """Run all, and write the numbers."""
    folder, devices = Path(sys.argv[1]), int(sys.argv[2])
    values = {**whole_models(devices), **training(folder)}
    np.savez(folder / f"{rank()}.npz", **values)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))
    main()
