"""A small residual network of PyTorch, with batch normalisation, is trained by FlexFlow.

    python -m examples.python.torch.resnet_digits [-e EPOCHS] [-b BATCH_SIZE]

Trains on UCI's handwritten digits, 8 x 8, which come with scikit-learn.
"""

import sys

import numpy as np
import torch
from torch import nn

from flexflow.core import *
from flexflow.keras.datasets import digits
from flexflow.torch.model import PyTorchModel


class Block(nn.Module):
    """Two convolutions beside a shortcut, which is a convolution too where the shape changes."""

    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity()
        if stride > 1 or channels != out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Images (N, 1, 8, 8) to logits of ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.layer1 = Block(16, 16)
        self.layer2 = Block(16, 32, stride=2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.layer2(self.layer1(self.stem(x))))
        return self.fc(torch.flatten(x, 1))


def main() -> None:
    config = FFConfig()
    epochs = config.epochs if config.given("epochs") else 8
    (x_train, y_train), (x_test, y_test) = digits.load_data()
    x_train, x_test = (x[:, None].astype(np.float32) / 16 for x in (x_train, x_test))

    torch.manual_seed(0)
    ffmodel = FFModel(config)
    x = ffmodel.create_tensor([config.batch_size, 1, 8, 8], DataType.DT_FLOAT)
    (logits,) = PyTorchModel(ResNet()).torch_to_ff(ffmodel, [x])
    ffmodel.compile(
        AdamOptimizer(ffmodel, alpha=0.005),
        LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
        [MetricsType.METRICS_ACCURACY],
        output=logits,
        loss_attributes={"from_logits": True},
    )
    ffmodel.fit(x_train, y_train, epochs=epochs, shuffle=True)

    right = np.mean(ffmodel.predict(x_test).argmax(1) == y_test)
    print(f"{100 * right:.2f} % of {len(y_test)} held-out digits are right")
    if len(sys.argv) == 1:  # by default; flags may ask for less
        assert right >= 0.96, f"{right} of the held-out digits are right, expected 0.96"


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
