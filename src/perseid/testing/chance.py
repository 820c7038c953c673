"""Random plans: which faults strike an application when, decided by a seed alone.

Faults are drawn from a bag that is refilled when it is empty, so every kind comes before one comes twice. The first fault is
a killed host, and another strikes within the recovery from it. The application can recover from every plan: none corrupts a
checkpoint before several newer ones than the last corrupted are there.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from perseid.testing.plan import Moment, Plan, at

FIRST_S = 3.0
GAP_S = (3.0, 9.0)
"""Longer than storage is ever away: a driver that is crashed meanwhile would find no root to start on."""

Draw = Callable[[Moment, random.Random], Plan]

_EVERYWHERE: dict[str, Draw] = {
    "kill": lambda now, _: now.kill(host="any"),
    "kill all": lambda now, _: now.kill(host="all"),
    "kill spare": lambda now, _: now.kill(host="spare"),
    "pause": lambda now, chance: now.pause(seconds=round(chance.uniform(0.5, 5), 1)),
    "slow": lambda now, chance: now.slow(seconds=round(chance.uniform(1, 4), 1), percent=chance.choice((50, 80, 95))),
    "overload": lambda now, chance: now.overload(seconds=round(chance.uniform(1, 3), 1)),
    "partition driver": lambda now, chance: now.partition("any", "driver", seconds=round(chance.uniform(0.5, 4), 1)),
    "partition tasks": lambda now, chance: now.partition("any", "tasks", seconds=round(chance.uniform(0.5, 4), 1)),
    "storage slow": lambda now, chance: now.fail_storage("slow", seconds=round(chance.uniform(1, 3), 1)),
    "storage unreachable": lambda now, chance: now.fail_storage(
        "unreachable", seconds=round(chance.uniform(0.5, 4), 1)
    ),
    "pause and kill": lambda now, chance: now.pause(seconds=2) + now.kill(host="any"),
    "crash": lambda now, _: now.crash_driver(),
}
_ON_A_CLUSTER: dict[str, Draw] = {
    "kill executor": lambda now, _: now.kill(executor="any"),
    "pause executor": lambda now, chance: now.pause(executor="any", seconds=round(chance.uniform(0.5, 5), 1)),
    "kill all executors": lambda now, _: now.kill(executor="all"),
}
_SMALL_ROOT: dict[str, Draw] = {
    "storage full": lambda now, chance: now.fail_storage("full", seconds=round(chance.uniform(0.5, 2.5), 1)),
}


def random_plan(seed: int, seconds: float, *, cluster: bool, small_root: bool) -> Plan:
    """Faults for so many seconds; the same seed and place give the same plan."""
    chance = random.Random(seed)
    draws = {**_EVERYWHERE, **(_ON_A_CLUSTER if cluster else {}), **(_SMALL_ROOT if small_root else {})}
    plan = at(seconds=FIRST_S).kill(host="any") + at(recovery=1).kill(host="any")
    bag: list[str] = []
    now_s = FIRST_S + chance.uniform(*GAP_S)
    while now_s < seconds:
        if not bag:
            bag = sorted(draws)
            chance.shuffle(bag)
        plan += draws[bag.pop()](at(seconds=round(now_s, 1)), chance)
        now_s += chance.uniform(*GAP_S)
    for number in range(4, int(seconds / GAP_S[0]), 4):
        plan += at(recovery=number).kill(host="any")
    for number in range(3, int(seconds / 2), 6):
        how = chance.choice(("flip", "cut"))
        plan += at(checkpoint=number).corrupt(how) + at(checkpoint=number).kill(host="any")
    return plan
