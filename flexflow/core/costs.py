"""Costs of calls that were measured on this machine, kept in a file for the next process."""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from pathlib import Path
from typing import Any

from flexflow.core._lib import call, describe, text
from flexflow.core.files import replacing

FORMAT, VERSION = "flexflow costs", 1
_read: set[Path] = set()  # files that this process has read


def cost_file() -> Path:
    """Where measured costs are kept: one file for each build of the library and each processor, in
    ``flexflow`` of ``$XDG_CACHE_HOME`` (if that is not set, of ``~/.cache``)."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    digest = hashlib.sha256("\n".join(_made_by().values()).encode()).hexdigest()[:16]
    return Path(base, "flexflow", f"costs-{digest}.json")


def recall_costs() -> None:
    """Let the library know what earlier processes have measured. A file that cannot be used is
    passed over with a warning."""
    path = cost_file()
    if path in _read:
        return
    _read.add(path)
    known = _known()
    for key, seconds in _costs_in(path).items():
        if key not in known:
            call("ff_costs_set", key.encode(), seconds)


def keep_costs() -> None:
    """Write what is known now, with what others have written meanwhile."""
    path = cost_file()
    seconds = {**_costs_in(path, warn=False), **_known()}
    values = {"format": FORMAT, "version": VERSION, **_made_by(), "seconds": seconds}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(json.dumps(values, indent=1).encode())
    except OSError as error:
        warnings.warn(f"measured costs are not kept in {path}: {error}", stacklevel=2)


def _made_by() -> dict[str, str]:
    # The last part tells how many threads are in use, which is of a call.
    return {"build": describe("build"), "cpu": describe("cpu").rpartition(";")[0]}


def _known() -> dict[str, float]:
    lines = (line.split("\t", 1) for line in text("ff_costs_text").splitlines())
    return {key: float(seconds) for seconds, key in lines}


def _costs_in(path: Path, warn: bool = True) -> dict[str, float]:
    try:
        return _checked(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        if warn:
            warnings.warn(
                f"measured costs in {path} are not used: {error}; the file will be written anew",
                stacklevel=2,
            )
        return {}


def _checked(values: Any) -> dict[str, float]:
    """The costs in the values of a file; ValueError where they are none."""
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ValueError(f'expected an object whose "format" is {FORMAT!r}')
    if values.get("version") != VERSION:
        raise ValueError(f'"version" is {values.get("version")!r}; this version reads {VERSION}')
    if any(values.get(name) != made for name, made in _made_by().items()):
        raise ValueError("they are of another build or processor")
    seconds = values.get("seconds")
    if not isinstance(seconds, dict) or not all(map(_is_cost, seconds.values())):
        raise ValueError('"seconds" is no object of numbers of at least 0')
    return seconds


def _is_cost(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0
