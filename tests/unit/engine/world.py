"""A world for the controller: carries its commands out in virtual time with seeded faults, and remembers everything.

State of a shard is the list of what it applied; the answer to an epoch is a digest of that state. So a lost, doubled or reordered epoch
changes every answer after it, and the sinks' content is compared with a run in which nothing failed.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from dataclasses import dataclass, field
from typing import Any

from perseid.checkpoint.schemes import Scheme, parallel
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.controller import Controller, EngineSettings, Past
from perseid.engine.shard import Refusal, ShardLog
from perseid.graph.topology import StreamShape, Topology, UnitShape
from perseid.vocabulary import CheckpointId, Epoch, HostId, OperatorName, ShardId, StreamName, UnitName


def digest(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def chain(units: int, shards: int = 2, preservation: str = "transient") -> Topology:
    """Units one behind the other, each with one stateful operator."""
    names = [UnitName(f"u{i}") for i in range(units)]
    shapes = tuple(
        UnitShape(n, ("in",) if i == 0 else (), {OperatorName(f"o{i}"): shards}, {OperatorName(f"o{i}"): frozenset()})
        for i, n in enumerate(names)
    )
    streams = tuple(
        StreamShape(StreamName(f"s{i}"), names[i], names[i + 1], preservation)  # type: ignore[arg-type]
        for i in range(units - 1)
    )
    return Topology(shapes, streams)


def diamond() -> Topology:
    """a → b, a → c, b → d, c → d."""

    def unit(name: str, source: bool = False) -> UnitShape:
        operator = OperatorName(f"o{name}")
        return UnitShape(UnitName(name), ("in",) if source else (), {operator: 1}, {operator: frozenset()})

    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    streams = tuple(StreamShape(StreamName(f"{p}{c}"), UnitName(p), UnitName(c), "transient") for p, c in edges)
    return Topology((unit("a", True), unit("b"), unit("c"), unit("d")), streams)


@dataclass
class Saved:
    operator: OperatorName
    index: int
    epoch: Epoch
    state: tuple[str, ...]


@dataclass
class SimHost:
    shards: dict[ShardId, tuple[ShardLog[str], list[str]]] = field(default_factory=dict)
    alive: bool = True
    silent: bool = False
    version: int = 0


class World:
    def __init__(
        self,
        topology: Topology,
        *,
        seed: int = 0,
        epochs: int = 30,
        hosts: int = 2,
        spares: int = 1,
        scheme: Scheme | None = None,
        faults: float = 0.0,
        queue: int = 2,
        corrupt: float = 0.0,
    ) -> None:
        self.random = random.Random(seed)
        self.topology, self.epochs, self.faults, self.corrupt = topology, epochs, faults, corrupt
        self.settings = EngineSettings(scheme or parallel(0.5), hosts=hosts, spares=spares, queue=queue)
        self.now = 0
        self.heap: list[tuple[int, int, Any]] = []
        self.count = 0
        self.hosts: dict[HostId, SimHost] = {}
        self.next_host = 1
        self.sinks: dict[tuple[UnitName, Epoch], tuple[str, ...]] = {}
        self.streams: dict[tuple[StreamName, Epoch], tuple[str, ...]] = {}
        self.files: dict[tuple[CheckpointId, ShardId], Saved] = {}
        self.inflight: dict[str, tuple[str, ...]] = {}
        self.manifests: dict[CheckpointId, Any] = {}
        self.bad: set[tuple[CheckpointId, ShardId]] = set()
        self.cancelled: set[int] = set()
        self.log: list[tuple[int, object]] = []
        self.stopped: do.StopApplication | None = None
        self.controller = Controller(topology, self.settings, Past(), 0)
        self.kills = 0

    # -- the clock ------------------------------------------------------------------------------------------------

    def later(self, ms: int, action: Any) -> None:
        self.count += 1
        heapq.heappush(self.heap, (self.now + ms, self.count, action))

    def tell(self, event: on.Event, ms: int = 0) -> None:
        self.later(ms, event)

    def run(self, limit_ms: int = 2_000_000) -> World:
        self.tell(on.Ticked())
        self.later(20, self._tick)
        if self.faults:
            self.later(self.random.randint(100, 1500), self._fault)
        while self.heap and self.stopped is None and self.now < limit_ms:
            self.now, _, action = heapq.heappop(self.heap)
            if callable(action):
                action()
            else:
                self._handle(action)
        assert self.stopped is not None, (
            f"no end after {self.now} ms: {self.controller.phase} {self.controller.recovering}"
        )
        return self

    def _handle(self, event: on.Event) -> None:
        self.log.append((self.now, event))
        commands = self.controller.handle(event, self.now)
        self.controller.check()
        for command in commands:
            self.log.append((self.now, command))
            self._do(command)

    def _tick(self) -> None:
        for host_id, host in self.hosts.items():
            if host.alive and not host.silent:
                self.tell(on.HeartbeatArrived(host_id))
        self.tell(on.Ticked())
        if self.stopped is None:
            self.later(50, self._tick)

    def _fault(self) -> None:
        alive = [h for h, host in self.hosts.items() if host.alive]
        burst = self.random.random() < 0.2
        for host in alive if burst else self.random.sample(alive, min(1, len(alive))):
            self.kill(host, silent=self.random.random() < 0.3)
        if self.now < self.faults * 1000 and self.stopped is None:
            gap = self.random.choice([30, 400, 2500])
            self.later(self.random.randint(10, gap), self._fault)

    def kill(self, host_id: HostId, *, silent: bool = False) -> None:
        """Dead at once, or only silent: still alive, but nobody hears it."""
        self.kills += 1
        host = self.hosts[host_id]
        if silent:
            host.silent = True
        else:
            host.alive = False
            self.tell(on.HostDisconnected(host_id, "killed"), self.random.randint(1, 30))

    # -- commands -------------------------------------------------------------------------------------------------

    def _do(self, command: do.Command) -> None:
        match command:
            case do.StartHost():
                host = HostId(self.next_host)
                self.next_host += 1
                self.later(self.random.randint(50, 900), lambda: self._register(host))
            case do.DropHost(host):
                self.hosts[host].alive = False
            case do.AdmitEpoch(epoch):
                if epoch > self.epochs:
                    self.tell(on.NothingToAdmit(finished=True), 1)
                else:
                    self.tell(on.EpochAdmitted(epoch), self.random.randint(1, 20))
            case do.RunEpoch():
                self._start(command)
            case do.ReplayShards():
                self.later(self.random.randint(5, 100), lambda: self._replay(command))
            case do.CancelUnit(_, attempt):
                self.cancelled.add(attempt)
            case do.RestoreShards():
                self.later(self.random.randint(5, 200), lambda: self._restore(command))
            case do.ResetStreams(inflight):
                durable = {s.name for s in self.topology.streams if s.durable}
                kept = {key: rows for key, rows in self.streams.items() if key[0] in durable}
                self.streams = {**kept, **{key: self.inflight[path] for key, path in inflight.items()}}
            case do.Trim(_, oldest):
                for stream in self.topology.streams:
                    if stream.durable:
                        self._release(stream.name, oldest.cuts[stream.consumer])
            case do.TakeSnapshots():
                self.later(self.random.randint(1, 10), lambda: self._snapshot(command))
            case do.SaveInflight(checkpoint, stream, epoch):
                self._save_inflight(checkpoint, stream, epoch)
            case do.CommitCheckpoint(pending):
                self.manifests[pending.id] = pending
                self.tell(on.CheckpointCommitted(pending.id), self.random.randint(1, 10))
            case do.ReleaseStream(stream, epoch):
                self._release(stream, epoch)
            case do.StopApplication():
                self.stopped = command
            case _:
                pass

    def _release(self, stream: StreamName, epoch: Epoch) -> None:
        for key in [k for k in self.streams if k[0] == stream and k[1] <= epoch]:
            del self.streams[key]

    def _register(self, host: HostId) -> None:
        self.hosts[host] = SimHost()
        self.tell(on.HostRegistered(host))

    def _restore(self, command: do.RestoreShards) -> None:
        host = self.hosts[command.host]
        if not host.alive or command.version < host.version:
            return
        host.version = command.version  # a host takes commands in the order they were given
        for route, saved, epoch in command.shards:
            if isinstance(saved, Saved):
                key = next(k for k, f in self.files.items() if f is saved)
                if key in self.bad:
                    self.tell(on.RestoreFailed(command.host, command.version, "corrupt", True))
                    return
                assert saved.epoch == epoch
            state = list(saved.state) if isinstance(saved, Saved) else []
            log: ShardLog[str] = ShardLog(route.shard, command.version, epoch, retain_from=command.retain_from)
            host.shards[route.shard] = (log, state)
        self.tell(on.ShardsRestored(command.host, command.version))

    def _snapshot(self, command: do.TakeSnapshots) -> None:
        host = self.hosts[command.host]
        if not host.alive or host.silent:
            return
        if any(host.shards[route.shard][0].applied != command.epoch for route in command.shards):
            self.tell(
                on.CheckpointFailed(command.checkpoint, "a shard is not there")
            )  # as a host answers a stale command
            return
        self.tell(on.SnapshotsForked(command.host, command.checkpoint, command.unit))
        for route in command.shards:
            log, state = host.shards[route.shard]
            saved = Saved(route.shard.operator, route.shard.index, log.applied, tuple(state))
            self.later(
                self.random.randint(5, 300), lambda saved=saved, shard=route.shard: self._written(command, shard, saved)
            )

    def _written(self, command: do.TakeSnapshots, shard: ShardId, saved: Saved) -> None:
        if self.hosts[command.host].alive:
            self.files[(command.checkpoint, shard)] = saved
            recently = any(checkpoint >= command.checkpoint - 5 for checkpoint, _ in self.bad)
            if (
                self.random.random() < self.corrupt and not recently
            ):  # one good checkpoint stays: else state is lost for good
                self.bad.add((command.checkpoint, shard))
            self.tell(on.SnapshotWritten(command.checkpoint, shard, saved))

    def _save_inflight(self, checkpoint: CheckpointId, stream: StreamName, epoch: Epoch) -> None:
        def save() -> None:
            if (stream, epoch) not in self.streams:
                pending = self.controller.checkpoints.pending
                if pending is not None and pending.id == checkpoint:
                    self.later(20, save)  # its producer has not finished it yet
                return
            path = f"{checkpoint}/{stream}/{epoch}"
            self.inflight[path] = self.streams[(stream, epoch)]
            self.tell(on.InflightSaved(checkpoint, stream, epoch, path))

        self.later(self.random.randint(1, 50), save)

    # -- epochs ---------------------------------------------------------------------------------------------------

    def _input(self, unit: UnitName, epoch: Epoch) -> str:
        shape = self.topology.unit(unit)
        parts: list[object] = [f"source-{epoch}"] if shape.sources else []
        for stream in self.topology.streams:
            if stream.consumer == unit:
                assert (stream.name, epoch) in self.streams, f"{stream.name} epoch {epoch} is gone, {unit} needs it"
                parts.append(self.streams[(stream.name, epoch)])
        return digest(*parts)

    def _start(self, command: do.RunEpoch) -> None:
        rows = self._input(command.unit, command.epoch)
        shards = list(self.topology.unit(command.unit).shards)
        self.random.shuffle(shards)
        answers: dict[ShardId, str] = {}
        self._ask_next(command, rows, shards, answers)

    def _ask_next(self, command: do.RunEpoch, rows: str, shards: list[ShardId], answers: dict[ShardId, str]) -> None:
        def step() -> None:
            if command.attempt in self.cancelled:
                self._failed(command, "other", ())
            elif not shards:
                self._finished(command, answers)
            else:
                self._ask(command, rows, shards, answers)

        self.later(self.random.randint(1, 40), step)

    def _ask(self, command: do.RunEpoch, rows: str, shards: list[ShardId], answers: dict[ShardId, str]) -> None:
        shard = shards[0]
        host_id = command.routing.host_of(shard)
        assert host_id is not None
        host = self.hosts[host_id]
        if host.silent and host.alive:
            self.later(40, lambda: self._ask_next(command, rows, shards, answers))  # it waits
            return
        if not host.alive:
            self._failed(command, "host", (host_id,))
            return
        log, state = host.shards[shard]
        decision = log.ask(command.epoch, command.routing.version)
        if isinstance(decision, Refusal):
            self._failed(command, "poisoned" if decision.kind == "gap" else "released" if decision.kind == "released" else "other",
                         (), (shard,))  # fmt: skip
            return
        if decision == "apply":
            log.release(command.release)
            state.append(digest(command.epoch, shard, rows))
            log.applied_epoch(command.epoch, digest(state))
        log.check()
        answers[shard] = log.answers[command.epoch]
        self._ask_next(command, rows, shards[1:], answers)

    def _failed(
        self, command: do.RunEpoch, kind: Any, hosts: tuple[HostId, ...], shards: tuple[ShardId, ...] = ()
    ) -> None:
        shards = shards if kind == "poisoned" else ()
        self.tell(on.UnitFailed(command.unit, command.epoch, command.attempt, kind, kind, hosts, shards), 5)

    def _finished(self, command: do.RunEpoch, answers: dict[ShardId, str]) -> None:
        content = tuple(answers[s] for s in sorted(answers))
        old = self.sinks.setdefault((command.unit, command.epoch), content)
        assert old == content, f"{command.unit} epoch {command.epoch} gave another result when run again"
        for stream in self.topology.streams:
            if stream.producer == command.unit:
                self.streams[(stream.name, command.epoch)] = content
        self.tell(on.UnitFinished(command.unit, command.epoch, command.attempt))

    def _replay(self, command: do.ReplayShards) -> None:
        def fail(kind: Any, hosts: tuple[HostId, ...] = ()) -> None:
            self.tell(on.UnitFailed(command.unit, command.last, command.attempt, kind, kind, hosts), 3)

        if command.attempt in self.cancelled:
            return fail("other")
        for number in range(command.first, command.last + 1):
            epoch = Epoch(number)
            rows = self._input(command.unit, epoch)
            for shard in command.shards:
                host_id = command.routing.host_of(shard)
                assert host_id is not None
                host = self.hosts[host_id]
                if not host.alive or host.silent:
                    return fail("host", (host_id,))
                log, state = host.shards[shard]
                decision = log.ask(epoch, command.routing.version)
                assert decision == "apply", decision
                log.release(command.release)
                state.append(digest(epoch, shard, rows))
                log.applied_epoch(epoch, digest(state))
        self.tell(on.ReplayFinished(command.unit, command.attempt), 5)
        return None
