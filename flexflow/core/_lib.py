"""The library: loaded once, when first needed; its statuses become exceptions, its handles objects.

Nothing outside ``flexflow.core`` uses ctypes, and in it little but this file and ``arrays.py``.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from flexflow.core import _abi
from flexflow.core._find import library_path
from flexflow.core.checks import encoded, integer, shown
from flexflow.core.guard import Guarded


class FlexFlowError(RuntimeError):
    """A call came at the wrong time, or on something that was closed or deleted.

    >>> FFModel(FFConfig()).forward()
    Traceback (most recent call last):
    ...
    flexflow.core._lib.FlexFlowError: forward: the model is not compiled; call compile() first
    """


_EXCEPTIONS: dict[int, type[Exception]] = {
    _abi.FF_ERROR_VALUE: ValueError,
    _abi.FF_ERROR_TYPE: TypeError,
    _abi.FF_ERROR_STATE: FlexFlowError,
    _abi.FF_ERROR_MEMORY: MemoryError,
}

_library: ctypes.CDLL | None = None
_lock = threading.Lock()


def library() -> ctypes.CDLL:
    """The library, loaded by the first call.

    Raises:
        ImportError: it is missing, cannot be loaded, or is of another build than this package.
    """
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _load(str(library_path()))
    return _library


# How often a thread of the pool looks for work before it sleeps. libgomp's own choice, some
# milliseconds of spinning, makes steps many times slower as soon as another process wants a core
# (docs/performance.md).
_SPINS = "10000"


def _load(path: str) -> ctypes.CDLL:
    # libgomp reads its settings once, while it is loaded; those of the user win.
    tune = not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}
    if tune:
        os.environ["GOMP_SPINCOUNT"] = _SPINS
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"cannot load {path}: {error}; build it again with `make`") from error
    finally:
        if tune:
            del os.environ["GOMP_SPINCOUNT"]
    if _interface_of(loaded) != _abi.DIGEST:
        raise ImportError(
            f"{path} has another interface than the package in {__file__}: they are of two "
            "versions; build again, or let FLEXFLOW_LIBRARY name the library that belongs to it"
        )
    sys.meta_path.insert(0, _LegateFirst())
    # Before the owner of a runtime waits for us: Python, or Legion where the program is its task.
    atexit.register(loaded.ff_close_runtimes)
    if "legion_top" in sys.modules:
        sys.modules["legion_top"].add_cleanup_item(loaded.ff_close_runtimes)
    return loaded


class _LegateFirst:
    """Python asks this for every module. Legate takes no runtime that is not its own."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "legate.core" and describe("runtime") == "started":
            raise ImportError(
                "FlexFlow has started Legion in this process, and Legate wants to do so itself: "
                "import legate or cupynumeric before the first use of FlexFlow, which then joins "
                "Legate's runtime",
                name=name,
            )


def loads(path: str) -> bool:
    """Whether a shared library can be loaded; it stays, and others that need it find it."""
    try:
        ctypes.CDLL(path)
    except OSError:
        return False
    return True


def _interface_of(loaded: ctypes.CDLL) -> str:
    """The digest of the C interface that a library was built with; "" if it cannot tell."""
    digest = ctypes.c_char_p()
    try:
        _abi.declare(loaded)
        loaded.ff_describe(b"abi", ctypes.byref(digest))
    except AttributeError:  # a function is missing
        return ""
    return (digest.value or b"").decode()


def check(status: int) -> None:
    """Raise what a status of the library stands for, with its message."""
    if status == _abi.FF_OK:
        return
    message = library().ff_last_error().decode()
    if status in _EXCEPTIONS:
        raise _EXCEPTIONS[status](message)
    raise RuntimeError(f"{message} (this is a fault of FlexFlow; please report it)")


def call(function: str, *arguments: Any) -> None:
    """Call a function of the C interface and check its status."""
    status = getattr(library(), function)(*arguments)
    if status:
        check(status)


def text(function: str, *arguments: Any) -> str:
    """Call a function whose last argument takes a text."""
    out = ctypes.c_char_p()
    call(function, *arguments, ctypes.byref(out))
    return (out.value or b"").decode()


def describe(what: str) -> str:
    """What the library tells about itself.

    Args:
        what: "version", "build", "abi", "options", "engines", "engine" (the default one),
            "runtime" (of Legion: "none", "started" by FlexFlow, "found" running), "ranks" (the
            number of this process and how many there are), "devices", "cpu", "ops", "op:NAME" or
            "machine:ENGINE", which starts the runtime under that engine.

    Raises:
        ValueError: there is no such topic.

    >>> "linear" in describe("ops").split()
    True
    """
    return text("ff_describe", encoded(what, "describe: what"))


class Handle(Guarded):
    """An object of the library, closed with this one or by ``close()``, whichever comes first."""

    _instead_of_a_copy: ClassVar[str] = "it stands for one object of the library"
    value: Final[int]

    def __init__(self, function: str, *arguments: Any) -> None:
        handle = ctypes.c_uint64()
        call(function, *arguments, ctypes.byref(handle))
        self.value = handle.value
        self._finalizer = weakref.finalize(self, library().ff_close, handle.value)

    def close(self) -> None:
        """Free the object now; what uses the handle afterwards gets a FlexFlowError."""
        self._finalizer()


def attributes(values: Mapping[str, Any]) -> Any:
    """Attributes as an array of ``ff_attr``; None values are left out."""
    given = {name: value for name, value in values.items() if value is not None}
    array = (_abi.ff_attr * len(given))()
    for slot, (name, value) in zip(array, given.items()):
        slot.name = name.encode()
        _set_value(slot, name, value)
    return array


def _set_value(slot: Any, name: str, value: Any) -> None:
    if isinstance(value, (bool, np.bool_)):
        slot.type, slot.i = _abi.FF_ATTR_BOOL, value
    elif isinstance(value, (int, np.integer)):
        slot.type, slot.i = _abi.FF_ATTR_INT, integer(value, name)
    elif isinstance(value, (float, np.floating)):
        slot.type, slot.f = _abi.FF_ATTR_FLOAT, value
    elif isinstance(value, str):
        slot.type, slot.s = _abi.FF_ATTR_STRING, encoded(value, name)
    elif isinstance(value, np.ndarray) and value.dtype == np.float64:
        slot.type, slot.n = _abi.FF_ATTR_FLOATS, len(value)
        slot.floats = (ctypes.c_double * len(value))(*value)
    elif isinstance(value, (Sequence, np.ndarray)):
        numbers = [integer(item, name) for item in value]
        slot.type, slot.n = _abi.FF_ATTR_INTS, len(numbers)
        slot.ints = (ctypes.c_int64 * len(numbers))(*numbers)
    else:
        raise TypeError(
            f"{name}: got {shown(value)}, expected a number, a string or a list of integers"
        )


def tensor_list(tensors: Sequence[int]) -> Any:
    """Numbers of tensors as a C array."""
    return (ctypes.c_int64 * len(tensors))(*tensors)
