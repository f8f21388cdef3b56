"""Where data sets lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def dataset_file(names: list[str], source: str) -> Path:
    """The first of several files that is there.

    Args:
        names: absolute paths, or names in Keras's folder: datasets in KERAS_HOME, or in ~/.keras.
        source: where a user gets the file, for the message.

    Raises:
        FileNotFoundError: none is there; nothing is downloaded.
    """
    home = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    places = [home / "datasets" / name for name in names]
    for place in places:
        if place.exists():
            return place
    looked = " or ".join(map(str, places))
    raise FileNotFoundError(
        f"there is no {looked}; FlexFlow downloads no data: get the file from {source} and put it "
        "there, "
        "or use keras.datasets.digits, which comes with scikit-learn"
    )
