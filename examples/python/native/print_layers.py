"""Looks at a model: its layers, their weights, its plan and its memory.

python -m examples.python.native.print_layers [-b BATCH_SIZE]
"""

import sys

from flexflow.core import *


def main() -> None:
    ffconfig = FFConfig()
    ffmodel = FFModel(ffconfig)
    x = ffmodel.create_tensor([ffconfig.batch_size, 3, 32, 32], DataType.DT_FLOAT, name="images")
    t = ffmodel.conv2d(x, 32, 3, 3, 1, 1, 1, 1, ActiMode.AC_MODE_RELU, name="conv")
    t = ffmodel.pool2d(t, 2, 2, 2, 2, 0, 0, name="pool")
    t = ffmodel.dense(ffmodel.flat(t), 10, name="dense")
    ffmodel.softmax(t)
    ffmodel.print_layers()

    conv = ffmodel.get_layer_by_id(0)
    bias = conv.get_bias_tensor()
    print(f"{conv.name}: input {conv.get_input_tensor()}, output {conv.get_output_tensor()}")
    bias.inline_map(ffmodel, ffconfig)
    bias.get_array(ffmodel, ffconfig)[:] = 22.222
    bias.inline_unmap(ffmodel, ffconfig)
    assert (abs(bias.get_weights(ffmodel) - 22.222) < 1e-4).all()
    print("last layer:", ffmodel.get_last_layer().name)

    ffmodel.compile(SGDOptimizer(ffmodel), LossType.LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, [])
    print("\nwhat one training step does:", ffmodel.plan("train"), sep="\n")
    print("\nwhat it needs of memory:", ffmodel.memory_report("train"), sep="\n")


if __name__ == "__main__":
    if {"-h", "--help"} & {*sys.argv}:
        print(__doc__)
    else:
        main()
