"""Legal strategies, drawn: every operator split along whatever it can be, anywhere."""

from __future__ import annotations

import math
from random import Random

from flexflow.core import FFModel, Strategy, describe
from flexflow.core.layer import Op
from flexflow.core.placement import Index, indices_of


def random_strategy(random: Random, model: FFModel, most: int = 8) -> Strategy:
    """A strategy that fits the model, for 1 to ``most`` devices."""
    devices = random.randint(1, most)
    strategy = Strategy(devices)
    if random.randint(0, 3) == 0:
        strategy = Strategy.hybrid(dp=devices)
    for op in model.get_layers().values():
        splits = _splits(random, model, op, devices)
        if random.randint(0, 1):
            strides = _strides(random, splits, devices)
            reach = sum((parts - 1) * stride for parts, stride in zip(splits.values(), strides))
            start = random.randint(0, devices - 1 - reach)
            strategy.split(op.name, start=start, strides=strides, **splits)
    if random.randint(0, 1):
        strategy.share_updates()
    if random.randint(0, 2) == 0:
        for op in model.get_layers().values():
            if random.randint(0, 1) and op.get_number_inputs():
                strategy.recompute(op.name)
    return strategy


def random_pipeline(random: Random, model: FFModel, most: int = 8) -> Strategy:
    """A pipeline on up to ``most`` devices, cut evenly or anywhere."""
    grids = [(1, 1), (2, 1), (1, 2), (2, 2)]
    dp, tp = random.choice([(dp, tp) for dp, tp in grids if dp * tp <= most])
    operators = [op.name for op in model.get_layers().values()]
    pp = random.randint(1, max(1, min(most // (dp * tp), len(operators))))
    strategy = Strategy.hybrid(dp, tp, pp, micro_batches=random.randint(1, 5))
    if random.randint(0, 1):
        cuts = sorted(random.sample(range(1, len(operators)), pp - 1))
        stages = [operators[a:b] for a, b in zip([0, *cuts], [*cuts, len(operators)])]
        strategy.pipeline(*stages, micro_batches=strategy.micro_batches)
    if random.randint(0, 1):
        strategy.recompute(random.choice(operators))
    return strategy.share_updates() if random.randint(0, 1) else strategy


def _splits(random: Random, model: FFModel, op: Op, devices: int) -> dict[str, int]:
    """Parts of the indices that can be split, in some order; together no more than devices."""
    free = [index for index in indices_of(model, op) if _is_free(op, index)]
    random.shuffle(free)
    splits: dict[str, int] = {}
    for index in free:
        left = devices // math.prod(splits.values())
        splits[index.name] = random.randint(1, max(1, min(4, left)))
    return splits


def _is_free(op: Op, index: Index) -> bool:
    """What a kernel needs whole can be split where simpler operators take its place, but not the
    steps and units of a recurrence."""
    if not index.kind.startswith("whole"):
        return True
    return op.kind != "lstm" and "expansion: yes" in describe(f"op:{op.kind}")


def _strides(random: Random, splits: dict[str, int], devices: int) -> list[int]:
    """Row-major, or whatever stays on the devices, so that some of them have several parts."""
    strides = [math.prod(list(splits.values())[i + 1 :]) for i in range(len(splits))]
    if random.randint(0, 2):
        return strides
    reach = devices - 1
    for i, parts in enumerate(splits.values()):
        strides[i] = random.randint(0, reach // max(1, parts - 1))
        reach -= (parts - 1) * strides[i]
    return strides
