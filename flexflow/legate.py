"""Imported before Legate or cuPyNumeric, this lets them start on a machine without a CUDA driver::

    import flexflow.legate
    import cupynumeric

It loads what stands for the driver, and, unless they are set, chooses Legate's configuration,
``LEGATE_CONFIG``, and less talk of Realm's, ``REALM_DEFAULT_ARGS``. Where there is a driver it does
nothing. It starts nothing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from flexflow.core._find import library_path
from flexflow.core._lib import loads

_STUB = "libflexflow_nocuda.so"
_RUNTIME = "libcudart.so.12"
_CONFIG = "--cpus 1 --gpus 0"


def _prepare() -> None:
    if loads("libcuda.so.1"):
        return
    folder = library_path().parent
    if not any(loads(str(place / _STUB)) for place in (folder, folder / "flexflow")):
        raise ImportError(
            f"flexflow.legate: Legate wants a CUDA driver, there is none, and no {_STUB} to stand "
            "for it: this flexflow was built without Legion. Build it with FF_LEGION=ON"
        )
    packages = (Path(folder) / "nvidia/cuda_runtime/lib" / _RUNTIME for folder in sys.path)
    if not loads(_RUNTIME) and not any(loads(str(path)) for path in packages):
        raise ImportError(
            f"flexflow.legate: Legate wants {_RUNTIME}, and there is none; "
            "pip install nvidia-cuda-runtime-cu12"
        )
    os.environ.setdefault("REALM_DEFAULT_ARGS", "-level gpu=6")
    config = os.environ.setdefault("LEGATE_CONFIG", _CONFIG)
    if "--gpus" not in config:
        raise ImportError(
            f"flexflow.legate: LEGATE_CONFIG is {config!r}, and Legate cannot count GPUs without a "
            f"CUDA driver; say that there are none, as in {_CONFIG!r}, or legate {_CONFIG} SCRIPT"
        )


_prepare()
