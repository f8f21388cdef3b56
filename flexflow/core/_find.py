"""Where this package's library is.

The package and the library belong together, so the package looks only where its own library can be,
and never searches the system: with two checkouts, two builds or two installations on one machine,
none finds another's.

1. ``FLEXFLOW_LIBRARY``, a path, decides if it is set: one of several build folders, say.
2. In a checkout, also one that ``pip install -e`` points at: its ``build/libflexflow.so``.
3. In a wheel: ``flexflow/lib/libflexflow.so``.
4. Installed by ``make install`` or ``cmake --install``: ``PREFIX/lib/libflexflow.so``, where the
   package is in ``PREFIX/lib/pythonX.Y/site-packages``.

What the library itself loads lies beside it or in ``PREFIX/lib/flexflow``; it finds that by itself.
"""

from __future__ import annotations

import os
from pathlib import Path

NAME = "libflexflow.so"


def library_path() -> Path:
    """The library that belongs to this package.

    Returns:
        An absolute path of an existing file.

    Raises:
        ImportError: there is none; the message says where it was looked for and what to run.

    >>> library_path().name
    'libflexflow.so'
    """
    chosen = os.environ.get("FLEXFLOW_LIBRARY")
    if chosen:
        path = Path(chosen).resolve()
        if not path.is_file():
            raise ImportError(
                f"FLEXFLOW_LIBRARY is {chosen!r}, but there is no such file. "
                f"Let it name a {NAME}, or unset it."
            )
        return path

    package = Path(__file__).resolve().parents[1]
    top = package.parent
    if (top / "Makefile").is_file() and (top / "native").is_dir():
        # No second place: a library from elsewhere could be of another version than these sources.
        places = [top / "build" / NAME]
        remedy = f"Build it: run `make` in {top}"
    else:
        places = [package / "lib" / NAME, top.parent.parent / NAME]
        remedy = "The installation is incomplete: install flexflow again"
    for place in places:
        if place.is_file():
            return place
    looked = "\n".join(f"  {place}" for place in places)
    raise ImportError(
        f"{NAME} was not found. Looked for:\n{looked}\n"
        f"{remedy}, or name a built library with FLEXFLOW_LIBRARY=PATH."
    )
