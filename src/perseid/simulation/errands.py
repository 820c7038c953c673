"""Errands: what hosts do when they are told to, in virtual time: restore shards, bring them further, save them, say how large they are
(``host.process``)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.errors import CorruptData, StorageFailed
from perseid.scaling.routing import Route
from perseid.simulation.host import Host, Request
from perseid.simulation.root import Snapshot
from perseid.simulation.site import lasting
from perseid.simulation.values import State, share
from perseid.storage import layout
from perseid.vocabulary import Epoch, OperatorName, ShardId

if TYPE_CHECKING:
    from perseid.simulation.driver import SimulatedDriver


HOMES = 4  # of a shard that are remembered


class Errands:
    """Carried out on the hosts of one driver."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver, self._world, self._hosts = driver, driver.world, driver.hosts
        self._clock, self._root = driver.clock, driver.root
        self._homes: dict[ShardId, list[Host]] = {}

    def _lasting(self, host: Host, ms: float) -> int:
        """How long a host takes for what usually takes so long."""
        now, machine, root = self._clock.now_ms, host.machine, self._root
        if machine.slow_ms <= now and root.slow_ms <= now:  # as nearly always
            return int(ms)
        return lasting(ms, now, machine.slow, root.slow)

    # -- restores -------------------------------------------------------------------------------------------------

    def restore(self, host: Host, command: do.RestoreShards) -> None:
        now = self._clock.now_ms
        ms = self._lasting(host, self._world.some("restore"))
        host.inbound_ms = max(host.inbound_ms, now + ms)  # what comes after it waits for it
        host.deaf_ms = host.inbound_ms
        self._clock.at(host.inbound_ms, self._hosts.deliver, host, self._restored, (host, command))

    def _restored(self, host: Host, command: do.RestoreShards) -> None:
        try:
            for route, parts, epoch in command.shards:
                state = host.restore(
                    self._root, self._clock.now_ms, command.version, route, parts, epoch, command.retain_from
                )
                if not self._driver.fenced:
                    self._world.witness.loaded(route, epoch, state)
        except (CorruptData, StorageFailed) as error:
            corrupt, storage = isinstance(error, CorruptData), isinstance(error, StorageFailed)
            self._hosts.word(host, on.RestoreFailed(host.id, command.version, str(error), corrupt, storage))
        else:
            reached = {route.shard: self._caught_up(host, route, command) for route, _, _ in command.shards}
            self._hosts.word(host, on.ShardsRestored(host.id, command.version, reached=reached))

    def _caught_up(self, host: Host, route: Route, command: do.RestoreShards) -> Epoch:
        """By the input that its last home on this machine kept, as far as it is there and whole; then by that of shards it comes from."""
        shard = route.shard
        homes = self._homes.setdefault(shard, [])
        last = next((h for h in reversed(homes) if h.machine is host.machine and h is not host), None)
        self._homes[shard] = [*homes[1 - HOMES :], host]
        kept = last.shards[shard].kept if last is not None and shard in last.shards else {}

        def found(epoch: Epoch) -> Request | None:
            return kept.get(epoch) if self._world.random.random() < self._world.scenario.kept else None

        upto = command.upto.get(self._driver.topology.unit_of(shard.operator), Epoch(0))
        host.catch_up(shard, upto, found)
        return host.catch_up(shard, upto, functools.partial(self._kept, host, command.before, route))

    def catch_up(self, host: Host, command: do.CatchUpShards) -> None:
        """By the input that the shards before them keep on the same machine, as far as it is there and whole."""
        found = functools.partial(self._kept, host, command.before)
        reached = {r.shard: host.catch_up(r.shard, command.upto, functools.partial(found, r)) for r in command.shards}
        self._hosts.word(host, on.ShardsCaughtUp(host.id, command.version, reached))

    def _kept(self, host: Host, before: tuple[Route, ...], route: Route, epoch: Epoch) -> Request | None:
        """An epoch as the shards that have, or had, these slots applied it; None if any of it is not on this machine."""
        world, operator, slots = self._world, route.shard.operator, route.slots
        kept = []
        for source in before:
            if source.shard.operator != operator or source.slots[1] <= slots[0] or slots[1] <= source.slots[0]:
                continue
            home = self._hosts.all[source.host] if source.host is not None else None
            there = home is not None and home.machine is host.machine and source.shard in home.shards
            request = home.shards[source.shard].kept.get(epoch) if home is not None and there else None
            if request is None or world.random.random() >= world.scenario.kept:
                return None
            kept.append(request)
        if not kept:
            return None
        rows, missing = kept[0].rows, sum(request.missing for request in kept)
        came = share(rows, slots) - missing
        return kept[0]._replace(shard=route.shard, came=came, missing=missing)

    def drop(self, host: Host, command: do.DropShards) -> None:
        host.forget(command.shards)

    def covered(self, upto: Mapping[OperatorName, Epoch]) -> None:
        """A checkpoint is committed: hosts let go of the input it covers."""
        for host in self._hosts.living.values():
            for shard, held in host.shards.items():
                if not (kept := held.kept):
                    continue
                if held.log.applied <= upto[shard.operator]:  # as nearly always
                    kept.clear()
                    continue
                for epoch in [epoch for epoch in kept if epoch <= upto[shard.operator]]:
                    del kept[epoch]

    # -- sizes ----------------------------------------------------------------------------------------------------

    def ask_sizes(self, host: Host, ask: do.AskSizes) -> None:
        asked = ask.shards
        sizes = [h.watch.answer(ask) for shard, h in host.shards.items() if asked is None or shard in asked]
        if sizes:
            self._hosts.word(host, on.SizesReported(host.id, ask.query, tuple(sizes)))

    def quieten(self, host: Host, anew: bool) -> None:
        for held in host.shards.values():
            held.watch.quieten(anew)

    def sized(self, host: Host, request: Request) -> None:
        """A shard says how large it is, if it has to."""
        size = self._world.size_of(request.shard, request.epoch)
        for notice in host.shards[request.shard].watch.sized(self._clock.now_ms, size):
            self._hosts.word(host, notice)

    # -- snapshots ------------------------------------------------------------------------------------------------

    def snapshot(self, host: Host, command: do.TakeSnapshots) -> None:
        states = host.states_at(command.shards, command.epoch)
        if states is None:
            self._hosts.word(host, on.CheckpointFailed(command.checkpoint, "a shard is not there", host.id))
            return
        if not command.synchronous:
            self._forked(host, command)
        usual, last = 0.0, 0
        for saving in states:
            usual += self._world.some("snapshot")
            last = self._lasting(host, usual)
            if not command.synchronous:
                self._clock.after(last, self._write, host, command, [saving])
        if command.synchronous:
            self._clock.after(last, self._write, host, command, states)

    def _forked(self, host: Host, command: do.TakeSnapshots) -> None:
        event = on.SnapshotsForked(host.id, command.checkpoint, command.unit)
        self._world.snapshots_taken(event)
        self._hosts.word(host, event)

    def _write(self, host: Host, command: do.TakeSnapshots, states: list[tuple[Route, State]]) -> None:
        """A forked child goes on when its host is killed; it sleeps and falls with the machine."""
        now, machine = self._clock.now_ms, host.machine
        if now < machine.asleep_ms:
            self._clock.at(machine.asleep_ms, self._write, host, command, states)
            return
        if now < machine.down_ms or (command.synchronous and not host.alive):
            return
        results = []
        for route, state in states:
            results.append(self._write_one(host, command, route, state))
        if host.alive:
            if command.synchronous:
                self._forked(host, command)
            for result in results:
                self._hosts.word(host, result)

    def _write_one(
        self, host: Host, command: do.TakeSnapshots, route: Route, state: State
    ) -> on.SnapshotWritten | on.CheckpointFailed:
        shard = route.shard
        path, size = layout.snapshot(command.checkpoint, shard.operator, shard.index), self._world.scenario.state_bytes
        saved = Snapshot(shard.operator, shard.index, route.slots, command.epoch, path, state, size)
        try:
            self._root.write_snapshot(self._clock.now_ms, saved)
        except StorageFailed as error:
            return on.CheckpointFailed(command.checkpoint, str(error), host.id)
        return on.SnapshotWritten(command.checkpoint, shard, saved)
