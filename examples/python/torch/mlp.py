"""A network of PyTorch is trained by FlexFlow, and what it learnt goes back to PyTorch.

    python -m examples.python.torch.mlp [-e EPOCHS] [-b BATCH_SIZE]

Trains on UCI's handwritten digits, 8 x 8, which come with scikit-learn.
"""

import sys

import numpy as np
import torch
from torch import nn

from flexflow.core import *
from flexflow.keras.datasets import digits
from flexflow.torch.model import PyTorchModel


def main() -> None:
    config = FFConfig()
    epochs = config.epochs if config.given("epochs") else 30
    (x_train, y_train), (x_test, y_test) = digits.load_data()
    x_train, x_test = (x.reshape(len(x), 64).astype(np.float32) / 16 for x in (x_train, x_test))

    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))

    ffmodel = FFModel(config)
    x = ffmodel.create_tensor([config.batch_size, 64], DataType.DT_FLOAT)
    importer = PyTorchModel(module)
    (logits,) = importer.torch_to_ff(ffmodel, [x])
    ffmodel.compile(
        AdamOptimizer(ffmodel, alpha=0.003),
        LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
        [MetricsType.METRICS_ACCURACY],
        output=logits,
        loss_attributes={"from_logits": True},
    )
    ffmodel.fit(x_train, y_train, epochs=epochs, shuffle=True)

    module.load_state_dict({n: torch.tensor(w.get_tensor()) for n, w in importer.weights.items()})
    with torch.no_grad():
        theirs = module.eval()(torch.tensor(x_test)).numpy()
    difference = np.abs(theirs - ffmodel.predict(x_test)).max()
    right = np.mean(theirs.argmax(1) == y_test)
    print(f"{100 * right:.2f} % of {len(y_test)} held-out digits are right in PyTorch")
    assert difference < 1e-3, f"PyTorch's results differ by {difference}"
    if len(sys.argv) == 1:  # by default; flags may ask for less
        assert right >= 0.95, f"{right} of the held-out digits are right, expected 0.95"


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
