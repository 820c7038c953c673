"""The bottleneck detector (S5): which operator needs more shards, which can do with fewer, from what hosts say they had to do.

Every host reports the share of its time it was at work, and the shares its shards had in it. An operator is a bottleneck where a host
was above the threshold δ in k reports in a row and the operator had most of it: each such shard becomes two (the paper's split). An
operator is idle when, over a longer time, fewer shards could do its work and stay below half of δ. That gap, the rest after every change,
and a patience that doubles whenever what was taken away had to be given back keep it from swinging to and fro.

Invariant: between two changes of an operator lie at least k reports of every host; a change is never more than a doubling.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from perseid.errors import SettingsError
from perseid.scaling.routing import RoutingTable
from perseid.vocabulary import SLOTS, HostId, OperatorName, ShardId


@dataclass(frozen=True, slots=True)
class AutoScaling:
    """When to scale by itself. Use ``perseid.scaling.auto`` to make one."""

    threshold: float = 0.7  # δ
    reports: int = 2  # k
    patience: int = 6  # reports in a row that an operator must be idle for
    least: int = 1  # shards
    most: int = 16

    @property
    def idle(self) -> float:
        """What shards may have to do after a scale in."""
        return self.threshold / 2


def auto(threshold: float = 0.7, *, reports: int = 2, patience: int = 6, least: int = 1, most: int = 16) -> AutoScaling:
    """Scale operators out where they are bottlenecks, and in where they are idle.

        app.run(spark, root="root/", scaling=perseid.scaling.auto(most=8))

    ``threshold``  the share of its time from which on a host counts as busy
    ``reports``    how many reports in a row, five seconds apart, it must be busy
    ``patience``   how many reports in a row an operator must be idle before it is scaled in
    ``least``      the fewest shards of an operator
    ``most``       the most; there are never more than hosts that the cluster has room for
    """
    wrong = []
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0.05 <= threshold <= 1.0:
        wrong.append(f"threshold={threshold!r}: expected a share of a host's time from 0.05 to 1.0")
    for name, value, low in (
        ("reports", reports, 1),
        ("patience", patience, 1),
        ("least", least, 1),
        ("most", most, 1),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value:
            wrong.append(f"{name}={value!r}: expected a whole number of at least {low}")
    if not wrong and not least <= most <= SLOTS:
        wrong.append(f"least={least}, most={most}: expected 1 <= least <= most <= {SLOTS}")
    if wrong:
        raise SettingsError("auto(): " + "; ".join(wrong))
    return AutoScaling(float(threshold), reports, patience, least, most)


@dataclass(frozen=True, slots=True)
class HostLoad:
    """What a host had to do since its last report, as shares of the time."""

    host: HostId
    cpu: float
    shards: Mapping[ShardId, float]


@dataclass(frozen=True, slots=True)
class ScaleProposal:
    """This operator should have so many shards."""

    operator: OperatorName
    shards: int
    reason: str


@dataclass(slots=True)
class Standing:
    """What is known of one operator since its last change."""

    shards: int
    patience: int
    reports: dict[HostId, int] = field(default_factory=dict)
    high: dict[HostId, int] = field(default_factory=dict)  # reports above the threshold in a row
    low: int = 0  # reports in a row after which fewer shards would have done
    needed: int = 0  # as many would have done after each of them
    load: dict[ShardId, float] = field(default_factory=dict)  # the newest
    shrunk: bool = False  # the last change was a scale in


@dataclass(slots=True)
class Bottlenecks:
    """Decides for all operators that may be scaled."""

    policy: AutoScaling
    operators: frozenset[OperatorName]
    known: dict[OperatorName, Standing] = field(default_factory=dict)

    def reported(self, load: HostLoad, routing: RoutingTable) -> ScaleProposal | None:
        """A host has told; what should change, if anything."""
        proposals = []
        for operator in sorted(self.operators & {shard.operator for shard in load.shards}):
            standing = self._standing(operator, len(routing.of(operator)))
            mine = {route.shard for route in routing.of(operator)}
            standing.load |= {shard: share for shard, share in load.shards.items() if shard in mine}
            standing.reports[load.host] = standing.reports.get(load.host, 0) + 1
            heaviest = max(load.shards, key=lambda shard: load.shards[shard]).operator == operator
            over = load.cpu >= self.policy.threshold and heaviest
            standing.high[load.host] = standing.high.get(load.host, 0) + 1 if over else 0
            hosts = {route.host for route in routing.of(operator) if route.host is not None}
            proposal = self._proposal(operator, standing, load.host, hosts, routing)
            if proposal is not None:
                proposals.append(proposal)
        return max(proposals, key=lambda proposal: proposal.shards, default=None)

    def _standing(self, operator: OperatorName, shards: int) -> Standing:
        """Known since the shards are as they are; what was known of others is forgotten, but not what it taught."""
        known = self.known.get(operator)
        if known is None:
            known = self.known[operator] = Standing(shards, self.policy.patience)
        elif known.shards != shards:
            patience = known.patience
            if shards > known.shards and known.shrunk:
                patience = min(2 * patience, 16 * self.policy.patience)  # what was taken away had to be given back
            known = self.known[operator] = Standing(shards, patience, shrunk=shards < known.shards)
        return known

    def _proposal(
        self, operator: OperatorName, standing: Standing, host: HostId, hosts: set[HostId], routing: RoutingTable
    ) -> ScaleProposal | None:
        policy = self.policy
        if any(standing.reports.get(h, 0) < policy.reports for h in hosts):
            return None  # everybody has had time to settle
        high = [h for h in hosts if standing.high.get(h, 0) >= policy.reports]
        if high:
            standing.low = standing.needed = 0
            more = sum(route.host in high for route in routing.of(operator))
            wanted = min(policy.most, standing.shards + more)
            if wanted > standing.shards:
                return self._changed(operator, standing, wanted, f"host {min(high)} is above {policy.threshold:.0%}")
            return None
        if host != max(hosts):
            return None  # once for every round of reports
        total = sum(standing.load.values())
        enough = max(policy.least, math.ceil(total / policy.idle), 1)
        idle = enough < standing.shards
        standing.low, standing.needed = (standing.low + 1, max(standing.needed, enough)) if idle else (0, 0)
        if standing.low >= standing.patience:
            wanted = max(standing.needed, standing.shards // 2)
            return self._changed(operator, standing, wanted, f"{wanted} can do what they had to do: {total:.0%}")
        return None

    def _changed(self, operator: OperatorName, standing: Standing, shards: int, reason: str) -> ScaleProposal:
        """Asked for; should it come to nothing, the counting begins anew."""
        self.known[operator] = Standing(standing.shards, standing.patience, shrunk=standing.shrunk)
        return ScaleProposal(operator, shards, reason)
