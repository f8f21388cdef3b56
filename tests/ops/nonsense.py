"""usage: nonsense.py FIRST COUNT      cases of the table with one thing spoilt, one per seed

Each must work or raise a ValueError, a TypeError or a MemoryError; the first that does otherwise
ends the program. A program of its own, since a crash would end it as well.
"""

from __future__ import annotations

import faulthandler
import random
import resource
import sys
from typing import Any

import numpy as np
from cases import ROWS
from draws import Draw
from runner import Trial
from table import Case

INTEGERS = [-(2**62), -(2**31), -2, -1, 0, 1, 2, 3, 7, 2**31, 2**33, 2**62]
REALS = [float("nan"), float("inf"), -1.0, 0.0, 1.0, 1e300]
TEXTS = ["", "none", "same", "bogus", "float64", "bool"]
SHAPES: list[tuple[int, ...]] = [
    (),
    (0,),
    (1,),
    (5,),
    (2, 3),
    (3, 0),
    (0, 3),
    (2, 3, 4),
    (1, 1, 1, 1),
    (2, 3, 4, 5),
    (0, 3, 4, 5),
    (2, 3, 0, 5),
    (1,) * 7,
    (2, 2, 2, 2, 2),
]
DTYPES = ["bool", "int32", "int64", "float16", "float64", "float32"]
MEMORY = 6 << 30  # an absurd size is then a MemoryError, and not the end of the machine


def spoilt_list(pick: random.Random, values: list[int]) -> list[int]:
    values = list(values)
    how = pick.randrange(4)
    if how == 0 and values:
        values[pick.randrange(len(values))] = pick.choice(INTEGERS)
    elif how == 1:
        values.append(pick.choice(INTEGERS))
    elif how == 2 and values:
        values.pop()
    else:
        values = [pick.choice(INTEGERS) for _ in range(pick.randrange(5))]
    return values


def spoilt_value(pick: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return pick.choice([0, 1, "x", not value])
    if isinstance(value, int):
        return pick.choice(INTEGERS)
    if isinstance(value, float):
        return pick.choice(REALS)
    return spoilt_list(pick, value) if isinstance(value, list) else pick.choice(TEXTS)


def few(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return generator.integers(0, 3, size=shape)


def spoilt(pick: random.Random, case: Case) -> Case:
    attrs, inputs = dict(case.attrs), list(case.inputs)
    what = pick.random()
    if attrs and what < 0.5:
        name = pick.choice(sorted(attrs))
        attrs[name] = spoilt_value(pick, attrs[name])
    elif inputs and what < 0.95:
        index = pick.randrange(len(inputs))
        old = inputs[index]
        if what < 0.85:
            inputs[index] = Draw(few, pick.choice(SHAPES), old.dtype, old.differentiable)
        else:
            inputs[index] = Draw(few, old.shape, pick.choice(DTYPES), False)
    elif inputs and pick.random() < 0.5:
        inputs.pop()
    elif inputs:
        inputs.append(inputs[0])
    return Case(tuple(inputs), attrs)


def main() -> None:
    first, count = map(int, sys.argv[1:])
    sys.argv = sys.argv[:1]  # FFConfig reads the rest
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for seed in range(first, first + count):
        pick = random.Random(seed)
        row = pick.choice(ROWS)
        case = spoilt(pick, pick.choice(row.cases))
        kinds = [("float64", "reference"), ("float32", "cpu"), ("float16", "cpu")]
        dtype, device = pick.choice(kinds)
        print(f"seed {seed}: {row.op} {case} {dtype} {device}", flush=True)
        try:
            trial = Trial(row, case, dtype, device)
            if trial.upstream and pick.random() < 0.5:
                trial.train()
            else:
                trial.infer()
        except (ValueError, TypeError, MemoryError):
            continue


if __name__ == "__main__":
    main()
