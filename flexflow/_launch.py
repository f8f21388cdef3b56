"""The script ``flexflow_python`` of a pip installation: the python that FlexFlow is installed for.

A build and an installed prefix have launchers of their own under the same name, made from
tools/package/flexflow_python.in.
"""

import os
import sys


def main() -> None:
    """Become ``python`` with the arguments as given; its exit status is ours."""
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
