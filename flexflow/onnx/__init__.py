"""ONNX's front end: ``ONNXModel(path).apply(ffmodel, {"x": tensor})`` builds a file into an
FFModel."""

from flexflow.onnx.model import ONNXModel

__all__ = ["ONNXModel"]
