"""Programs that start Legion themselves and then compute with FlexFlow, which joins.

They print what they joined; each ends in one second or two, or it hangs.
"""

import os
import subprocess

import pytest

from flexflow.core._find import library_path

BUILD = library_path().parent
JOINED = BUILD / "legion_joined"
ROUNDS = 5

pytestmark = pytest.mark.skipif(not JOINED.exists(), reason="built without Legion, or by CMake")


@pytest.mark.parametrize("way", ["implicit", "task"])
@pytest.mark.parametrize("processors", [1, 2])
@pytest.mark.parametrize("tracing", [(), ("-lg:no_auto_tracing",)], ids=["automatic", "explicit"])
def test_joins_and_ends(way: str, processors: int, tracing: tuple[str, ...]) -> None:
    flags = ["-ll:cpu", str(processors), "-ll:util", "1", "-ll:networks", "none", *tracing]
    environment = os.environ | {
        "LD_PRELOAD": str(BUILD / "libflexflow_nocuda.so"),
        "REALM_SYNTHETIC_CORE_MAP": "d=1,c=64,h=1,f=1",
    }
    for _ in range(ROUNDS):
        done = subprocess.run(
            [str(JOINED), way, *flags],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert "), joined" in done.stdout and f"{processors} cpu" in done.stdout
        assert done.stdout.endswith("joined ok\n")
