"""ONNX's front end: each node of a file is lowered by a row of a table.

Nothing here needs the onnx package until an ONNXModel is made.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from flexflow.core import FFModel, Tensor
from flexflow.core.checks import boolean

if TYPE_CHECKING:
    from onnx import ModelProto


class ONNXModel:
    """An ONNX file that can be built into an FFModel.

    Floating-point initializers become weights under their own names, with their values, and are
    trained; one that several nodes use is one weight. Not trained are running statistics, literals
    (rank 0), what PyTorch's exporter marks as a buffer, and what ``frozen`` names.

    Args:
        filename: of the file, or a ``ModelProto``. Data beside the file are found from the file's
            folder.
        frozen: names of initializers that are not trained.
        training: whether every Dropout drops and every BatchNormalization normalises by the batch
            while FlexFlow trains. None: as each node says, so that a file exported for inference
            stays what it is. Files that cannot say it (before version 12) have their dropouts
            trained.

    Raises:
        ImportError: the onnx package is not installed.
        FileNotFoundError: there is no such file.
        ValueError: the file is empty, damaged or no ONNX file, or its graph cannot be computed: a
            name that nothing gives, or that is given twice, or a cycle.
        TypeError: ``filename`` is neither a path nor a ModelProto.
        NotImplementedError: the file's operator set is newer than this front end.

    Attributes:
        inputs: the names that ``apply`` expects, each with its extents; a string is an extent left
            open.
        outputs: the names of the results.
        weights: after ``apply``, the tensors here for the initializers, by name.

    >>> from onnx import TensorProto, helper, numpy_helper
    >>> import numpy as np
    >>> node = helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["y"], "fc", transB=1)
    >>> graph = helper.make_graph(
    ...     [node],
    ...     "net",
    ...     [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
    ...     [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
    ...     [
    ...         numpy_helper.from_array(np.ones((4, 8), np.float32), "fc.weight"),
    ...         numpy_helper.from_array(np.zeros(4, np.float32), "fc.bias"),
    ...     ],
    ... )
    >>> model = ONNXModel(helper.make_model(graph))
    >>> model.inputs
    {'x': ('batch', 8)}
    >>> from flexflow.core import DataType, FFConfig, FFModel
    >>> ffmodel = FFModel(FFConfig())
    >>> x = ffmodel.create_tensor([32, 8], DataType.DT_FLOAT)
    >>> model.apply(ffmodel, {"x": x}).dims
    (32, 4)
    """

    def __init__(
        self,
        filename: str | os.PathLike[str] | ModelProto,
        frozen: Collection[str] = (),
        training: bool | None = None,
    ) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ImportError(
                "flexflow.onnx needs the onnx package: pip install 'flexflow[onnx]'"
            ) from error
        from flexflow.onnx.file import File, read

        proto = filename if isinstance(filename, onnx.ModelProto) else read(filename)
        self._file = File(proto, frozen)
        self._training = None if training is None else boolean(training, "ONNXModel: training")
        self.inputs = self._file.inputs
        self.outputs = self._file.outputs
        self.weights: dict[str, Tensor] = {}

    def apply(self, ffmodel: FFModel, input_dict: Mapping[str, Tensor]) -> Tensor | list[Tensor]:
        """Add the file's operators to a model, and its weights with their values.

        Operators keep the names of the nodes (of their first results, where a node has none).
        Shapes that the file computes are those of the tensors given here.

        Args:
            ffmodel: the model to add to. After an error it holds a part of the file: start with a
                new one.
            input_dict: a tensor for each name in ``inputs``.

        Returns:
            The result, or a list if there are several.

        Raises:
            ValueError: a tensor is missing or not known, or its extents are not those of the file,
                as when a file was exported for one batch size and is used with another.
            TypeError: a tensor of another type than the file's.
            NotImplementedError: parts of the file that are not supported; the message lists every
                one.
        """
        from flexflow.onnx.importer import Importer

        if not isinstance(ffmodel, FFModel):
            raise TypeError(
                f"apply: ffmodel is {type(ffmodel).__name__}, expected an FFModel to add to"
            )
        importer = Importer(self._file, ffmodel, self._training)
        results, self.weights = importer.run(input_dict)
        return results[0] if len(results) == 1 else results
