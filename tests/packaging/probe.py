"""Train a small step and print, as JSON, which files the process then has (for test_builds.py)."""

import ctypes
import json

import numpy as np

import flexflow.core as ff
from flexflow.core._lib import library

model = ff.FFModel(ff.FFConfig(batch_size=4))
x = model.create_tensor([4, 3], ff.DataType.DT_FLOAT)
model.softmax(model.dense(x, 2))
model.compile(
    optimizer=ff.SGDOptimizer(model, 0.1),
    loss_type=ff.LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
    metrics=[ff.MetricsType.METRICS_ACCURACY],
)
loaders = [
    model.create_data_loader(x, np.ones((8, 3), np.float32)),
    model.create_data_loader(model.label_tensor, np.zeros((8, 1), np.int32)),
]
model.fit(x=loaders[0], y=loaders[1], epochs=1)

with open("/proc/self/maps") as maps:
    mapped = {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}
version = ctypes.c_char_p()
library().ff_describe(b"version", ctypes.byref(version))
found = {"package": ff.__file__, "version": version.value.decode()}
for name in ("libflexflow.so", "libdnnl.so.3"):
    found[name] = sorted(file for file in mapped if f"/{name}" in file)
print(f"\n{json.dumps(found)}")
