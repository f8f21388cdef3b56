"""What test_ranks.py runs of random graphs under random strategies, in several ranks and alone.

usage: ranks_strategies.py FOLDER DEVICES FIRST END

Writes FOLDER/RANK.npz: what each case from FIRST up to END came to. One process takes no strategy.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from drawn_graphs import STEPS
from legal_strategies import random_pipeline, random_strategy
from test_strategies import OPTIMIZERS, WIDE, Case, Results, Trial

from flexflow.core import Strategy, rank, ranks
from flexflow.core.types import LOSSES

REFUSED = r"\w+ needs the whole batch|reads no tensor"


@dataclass
class Drawn:
    """A case, the strategy for it, and one to change to; the same in every process."""

    case: Case
    strategies: list[Strategy]


def drawn(number: int, devices: int) -> Drawn:
    """Every third is a pipeline."""
    random = Random(number)
    batch = random.randint(1, 7)
    case = Case(
        steps=[_step(random) for _ in range(random.randint(0, 6))],
        batch=batch,
        width=random.choice([*range(1, 10), WIDE]),
        last=random.randint(1, batch),
        loss=random.choice(list(LOSSES)),
        optimizer=random.choice(sorted(OPTIMIZERS)),
        read=random.random() < 0.3,
        shared_memory=random.random() < 0.5,
    )
    draw = random_pipeline if number % 3 == 0 else random_strategy
    model = Trial(case).model
    return Drawn(case, [draw(random, model, devices) for _ in range(2)])


def _step(random: Random) -> tuple[str, int, int]:
    return random.choice(sorted(STEPS)), random.randint(0, 3), random.randint(0, 3)


def computed(drawn: Drawn) -> Results:
    """Steps by hand, epochs, and epochs after a change of the strategy; nothing of what cannot go
    forward with a part of the batch."""
    first, second = drawn.strategies if ranks() > 1 else (None, None)
    try:
        results = {
            f"by hand: {k}": v for k, v in Trial(drawn.case).compiled(first).by_hand().items()
        }
        trial = Trial(drawn.case).compiled(first)
        results |= {f"epochs: {k}": v for k, v in trial.in_epochs().items()}
        trial.model.change_strategy(second)
        return results | {f"changed: {k}": v for k, v in trial.in_epochs().items()}
    except ValueError as error:
        if not re.search(REFUSED, str(error)):
            raise
        return {}


def main() -> None:
    """Run all, and write the numbers."""
    folder, (devices, first, end) = Path(sys.argv[1]), map(int, sys.argv[2:5])
    values: dict[str, np.ndarray] = {}
    for number in range(first, end):
        one = drawn(number, devices)
        try:
            results = computed(one)
        except Exception as error:
            raise RuntimeError(f"{number}: {one}") from error
        values |= {f"{number}: {name}": np.asarray(value) for name, value in results.items()}
    np.savez(folder / f"{rank()}.npz", **values)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))
    main()
