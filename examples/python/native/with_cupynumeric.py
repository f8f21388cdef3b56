"""cuPyNumeric prepares the data, FlexFlow learns, both on one runtime of Legion (docs/legate.md).

    python -m examples.python.native.with_cupynumeric [-e EPOCHS] [-b BATCH_SIZE]
    legate --cpus 1 --gpus 0 examples/python/native/with_cupynumeric.py

A network learns what is left of a sum of waves, round by round, as boosting does: cuPyNumeric
subtracts what it has learnt from what is to be learnt.
"""

from __future__ import annotations

import sys
from typing import Any

import flexflow.legate  # noqa: F401  Without a CUDA driver, Legate needs this before it starts.

# isort: split
import cupynumeric as np  # It starts Legion, and FlexFlow joins.

from flexflow.core import *

ROWS, WIDTH, ROUNDS = 1 << 14, 8, 3


def learn(config: FFConfig, points: Any, values: Any) -> Any:
    """What a small network makes of the points, once it has learnt the values."""
    model = FFModel(config)
    t = model.create_tensor([config.batch_size, WIDTH], DataType.DT_FLOAT, name="points")
    t = model.dense(t, 32, ActiMode.AC_MODE_RELU)
    model.dense(t, 1)
    model.compile(AdamOptimizer(model, alpha=0.01), LossType.LOSS_MEAN_SQUARED_ERROR_AVG_REDUCE)
    model.fit(points, values, epochs=config.epochs if config.given("epochs") else 2, verbose=0)
    return model.predict(points)


def main() -> None:
    config = FFConfig()
    print(f"engine {describe('engine')}, Legion's runtime was {describe('runtime')}")
    points = np.random.default_rng(0).uniform(-1, 1, size=(ROWS, WIDTH)).astype(np.float32)
    rest = np.sin(3 * points).sum(axis=1, keepdims=True)
    errors = [float((rest * rest).mean())]
    for _ in range(ROUNDS):
        rest -= learn(config, points, rest)
        errors.append(float((rest * rest).mean()))
    print("mean square of what is left:", ", ".join(f"{error:.4f}" for error in errors))
    assert config.given("epochs") or errors[-1] < errors[0] / 4


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
