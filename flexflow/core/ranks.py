"""The processes that run one script together: ranks."""

from __future__ import annotations

from flexflow.core._lib import describe


def rank() -> int:
    """The number of this process among those that run the script together, from 0 on: what only
    one of them should do, such as printing or writing a file of the script's own, rank 0 does.

    >>> rank()
    0
    """
    return int(describe("ranks").split()[0])


def ranks() -> int:
    """How many processes run the script together, as ``python -m flexflow launch`` or ``mpirun``
    started them. Each must make the same calls of FlexFlow in the same order.

    >>> ranks()
    1
    """
    return int(describe("ranks").split()[1])
