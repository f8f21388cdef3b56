"""FlexFlow trains a neural network on many devices and finds by itself how to split the work.

``flexflow.core`` is its own interface; ``flexflow.keras``, ``flexflow.torch`` and ``flexflow.onnx``
bring models from elsewhere. ``python -m flexflow info`` says what is installed.

>>> import flexflow
>>> flexflow.__version__.count(".")
2
"""

from __future__ import annotations

__version__: str


def __getattr__(name: str) -> str:
    # Of the library, which a plain import does not load.
    if name == "__version__":
        from flexflow.core import describe

        return describe("version")
    raise AttributeError(f"module 'flexflow' has no attribute {name!r}")
