"""The checkers: what must be true of every run, whatever fails. They watch from outside and share no code with the engine.

sinks      every sink holds what the oracle says, every epoch, no matter how often it was run
commits    the ledger's epochs only rise, a committed epoch is in its sinks, what a checkpoint covers is committed, with its event times
restores   whatever is restored comes from one committed checkpoint, whole, and is what the oracle says it was
scaling    shards that take over from others have their state, to the epoch
trimming   nothing goes that a checkpoint on the root, or a unit that lags, could still need
hosts      a host is given up once, and for good
progress   after the last fault something more is committed within a bound, again and again, until all is done (``World.run``)

Each raises ``PropertyBroken`` at the moment it is broken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, NoReturn

from perseid.checkpoint.lifecycle import SnapshotPart
from perseid.engine import commands as do
from perseid.engine.notices import Outcome
from perseid.errors import PropertyBroken
from perseid.graph.topology import Topology
from perseid.scaling.routing import Route
from perseid.simulation.oracle import Oracle
from perseid.simulation.root import Manifest, Root, Snapshot, checkpoint_of, slices
from perseid.simulation.values import Rows, State
from perseid.storage.records import Admitted, Committed, Record
from perseid.vocabulary import (
    SLOTS,
    Epoch,
    HostId,
    Offset,
    OperatorName,
    ShardId,
    SlotRange,
    SourceName,
    StreamName,
    UnitName,
    Version,
)

if TYPE_CHECKING:
    from perseid.simulation.driver import SimulatedDriver


class Witness:
    """Sees everything, believes nothing."""

    def __init__(self, topology: Topology, root: Root, keep: int, *, individual: bool = False) -> None:
        self.topology, self.root, self._keep = topology, root, keep
        self._individual = individual  # units are saved alone (M2): what is committed is each unit's own
        self._own: dict[UnitName, int] = {}  # the newest epoch at which a unit is saved by itself
        self._sources = {u.name: u.sources for u in topology.units}
        self._unit_of = {o: u.name for u in topology.units for o in u.operators}
        self._admitted: dict[int, Admitted] = {}
        self._committed: dict[UnitName, int] = dict.fromkeys(self._sources, 0)
        self._restored: dict[tuple[int, Version], int | None] = {}  # checkpoint by generation and version
        self._dropped: set[tuple[int, HostId]] = set()
        self.oracle = Oracle(topology, self._rows)
        self.commits = 0  # epochs, of all units
        self.rows_checked = 0
        self.restores = 0

    def _rows(self, unit: UnitName, epoch: Epoch) -> list[Rows]:
        return slices(self._admitted[epoch], self._sources[unit]) if self._sources[unit] else []

    # -- sinks and commits ----------------------------------------------------------------------------------------

    def appended(self, records: Sequence[Record]) -> None:
        """The ledger has these now."""
        for record in records:
            if isinstance(record, Admitted):
                known = self._admitted.setdefault(record.epoch, record)
                if known.slices != record.slices:
                    broken("commits", f"epoch {record.epoch} was admitted twice, with other rows the second time")
            elif isinstance(record, Committed):
                self._commit(record)

    def _commit(self, record: Committed) -> None:
        last = self._committed[record.unit]
        for epoch in range(last + 1, record.epoch + 1):  # a commit counts for all epochs before
            if (record.unit, Epoch(epoch)) not in self.root.sinks:
                broken("commits", f"unit {record.unit}: epoch {epoch} is committed, its sink does not have it")
        self._committed[record.unit] = max(last, record.epoch)
        self.commits += max(0, record.epoch - last)
        if self.root.ledger.committed.get(record.unit, 0) < self._committed[record.unit]:
            broken("commits", f"unit {record.unit}: the ledger went back behind epoch {last}")

    def sink_written(self, unit: UnitName, epoch: Epoch, rows: Rows) -> None:
        expected = self.oracle.output(unit, epoch)
        if rows != expected:
            broken(
                "sinks", f"unit {unit}, epoch {epoch}: the sink was given other rows than a run without faults gives"
            )
        self.rows_checked += rows.size

    def ended(self, epochs: int) -> None:
        """The application says that it is done."""
        for unit in self._sources:
            for number in range(1, epochs + 1):
                held = self.root.sinks.get((unit, Epoch(number)))
                if held is None:
                    broken("sinks", f"unit {unit}, epoch {number} never reached its sink")
                elif held[1] != self.oracle.output(unit, Epoch(number)):
                    broken("sinks", f"unit {unit}, epoch {number}: the sink holds other rows than it should")

    # -- restores -------------------------------------------------------------------------------------------------

    def commanded(self, generation: int, command: Outcome) -> None:
        """The controller wants this."""
        match command:
            case do.RestoreShards(_, version, shards) if generation == self.root.generation:
                for route, parts, epoch in shards:
                    self._restore_wanted(generation, version, route, parts, epoch)
            case do.DropHost(host):
                if (generation, host) in self._dropped:
                    broken("hosts", f"host {host} was given up twice: after the first time its word must not count")
                self._dropped.add((generation, host))

    def _restore_wanted(
        self, generation: int, version: Version, route: Route, parts: tuple[SnapshotPart, ...], epoch: Epoch
    ) -> None:
        shard, unit = route.shard, self._unit_of[route.shard.operator]
        if not parts:
            if epoch:
                broken("restores", f"shard {shard} starts fresh at epoch {epoch}: the rows before are lost")
            self._one_checkpoint(generation, version, None)
        at = route.slots[0]
        for part in parts:
            snapshot = part.snapshot
            assert isinstance(snapshot, Snapshot)
            inside = snapshot.slots[0] <= part.slots[0] < part.slots[1] <= snapshot.slots[1]
            if snapshot.operator != shard.operator or part.slots[0] != at or not inside:
                broken(
                    "restores", f"shard {shard} for slots {route.slots} is made of {parts}: a gap, or what is not there"
                )
            at = part.slots[1]
            if self._individual:
                if snapshot.epoch != epoch or epoch > self._own.get(unit, 0):
                    broken("restores", f"shard {shard} at epoch {epoch}: {snapshot} is no snapshot its unit committed")
                continue
            checkpoint = checkpoint_of(snapshot.path)
            manifest = self.root.manifests.get(checkpoint)
            if manifest is None:
                broken("restores", f"shard {shard} is restored from checkpoint {checkpoint}, which is not committed")
            elif (
                manifest.shards.get(ShardId(shard.operator, snapshot.index)) != snapshot or manifest.cuts[unit] != epoch
            ):
                broken("restores", f"shard {shard} at epoch {epoch}: checkpoint {checkpoint} has it otherwise")
            self._one_checkpoint(generation, version, int(checkpoint))
        if parts and at != route.slots[1]:
            broken("restores", f"shard {shard} for slots {route.slots} is made of {parts}: the end is missing")

    def _one_checkpoint(self, generation: int, version: Version, checkpoint: int | None) -> None:
        known = self._restored.setdefault((generation, version), checkpoint)
        if known != checkpoint:
            broken("restores", f"version {version} is restored from checkpoints {known} and {checkpoint}: mixed")

    def divided(self, driver: SimulatedDriver, command: do.WritePartition) -> None:
        """An operator's slots are about to go to other shards: these must stand where the unit does, with all of its state."""
        if driver.fenced or command.shards == driver.controller.routing.shards(command.operator):
            return  # or it was given up, and those that hold them go on
        epoch = driver.finished[self._unit_of[command.operator]]
        for index, slots in command.shards:
            shard = ShardId(command.operator, index)
            states = [h.logic.shards[shard] for h in driver.hosts.all.values() if shard in h.logic.shards]
            expected = self.oracle.state(command.operator, slots, epoch)
            if not any(held.log.applied == epoch and held.live.state == expected for held in states):
                broken(
                    "scaling", f"{command.operator}/{index} takes over at epoch {epoch} without the state it must have"
                )

    def loaded(self, shard: ShardId, slots: SlotRange, epoch: Epoch, state: State) -> None:
        """A host holds this state now, restored."""
        self.restores += 1
        if state != self.oracle.state(shard.operator, slots, epoch):
            broken("restores", f"shard {shard} was restored at epoch {epoch} with another state than it had there")

    def checkpoint_committed(
        self, manifest: Manifest, event_times_ms: Mapping[OperatorName, int], alone: Mapping[UnitName, Epoch]
    ) -> None:
        """A manifest is durable: from now on everything may depend on it. ``alone``: where units saved by themselves stand."""
        name = f"checkpoint {manifest.id}"
        for unit, epoch in manifest.cuts.items():
            if self.root.ledger.committed.get(unit, 0) < epoch:
                broken(
                    "commits", f"{name} covers epoch {epoch} of unit {unit}, which the ledger does not call committed"
                )
        line = Epoch(min(manifest.cuts.values()))
        if event_times_ms != self.oracle.event_times_ms(line):
            broken("commits", f"{name}: its event times up to epoch {line} are not those of its rows")
        if self._individual:
            self._saved_alone(manifest, alone)
        files, found = self.root.files, dict[OperatorName, list[Snapshot]]()
        for saved in manifest.shards.values():
            found.setdefault(saved.operator, []).append(saved)
        for operator, unit in self._unit_of.items():
            snapshots = sorted(found.get(operator, ()), key=attrgetter("slots"))
            if not snapshots and self._individual and not manifest.cuts[unit]:
                continue  # its unit's turn has not come yet
            if [0, *(s.slots[1] for s in snapshots)] != [*(s.slots[0] for s in snapshots), SLOTS]:
                broken("restores", f"{name} is committed without all slots of {operator}: a mix of divisions?")
            cut, number = manifest.cuts[unit], self._number(operator, manifest.cuts[unit])
            for _, index, (first, end), epoch, file, digest, _ in snapshots:
                if file not in files:
                    broken("restores", f"{name} is committed without a durable snapshot of shard {operator}/{index}")
                elif epoch != cut:
                    broken("restores", f"{name}: shard {operator}/{index} is at epoch {epoch}, its unit at another")
                elif digest != ((first, end, number),):
                    broken(
                        "restores", f"{name}: shard {operator}/{index} was saved with another state than it must have"
                    )
        for stream in self.topology.streams:
            if stream.preservation == "durable":
                continue
            above, below = manifest.cuts[stream.producer], manifest.cuts[stream.consumer]
            for number in range(below + 1, above + 1):
                path = manifest.inflight.get((stream.name, Epoch(number)))
                if path is None or self.root.saved.get(path) != self.oracle.output(stream.producer, Epoch(number)):
                    broken(
                        "restores", f"{name}: epoch {number} of stream {stream.name} lies between its cuts and is lost"
                    )

    def _number(self, operator: OperatorName, epoch: Epoch) -> int:
        """What every slot of an operator must hold after an epoch."""
        ((_, _, number),) = self.oracle.state(operator, (0, SLOTS), epoch)
        return number

    def _saved_alone(self, manifest: Manifest, alone: Mapping[UnitName, Epoch]) -> None:
        stand = {**manifest.cuts, **alone}
        wanted = {o: self._number(o, stand[unit]) for o, unit in self._unit_of.items() if stand[unit]}
        lacking = dict.fromkeys(wanted, (1 << SLOTS) - 1)  # a bit for every slot that no file has as it should be
        for file in reversed(self.root.files.values()):
            operator = file.operator
            if (bits := lacking.get(operator)) is None:
                continue
            for first, end, number in file.digest:
                if number == wanted[operator]:
                    bits &= ~((1 << end) - (1 << first))
            if bits:
                lacking[operator] = bits
                continue
            del lacking[operator]
            if not lacking:
                break
        for operator in lacking:
            unit = self._unit_of[operator]
            broken("restores", f"unit {unit} is saved at epoch {stand[unit]} without a file of some of {operator}")
        for unit, epoch in stand.items():
            self._own[unit] = max(epoch, self._own.get(unit, 0))

    # -- trimming -------------------------------------------------------------------------------------------------

    def trimmed(self, epoch: Epoch) -> None:
        """The ledger is gone up to here; so are deleted checkpoints."""
        whole = self._to_fall_back_to()
        if epoch and not whole:
            broken("trimming", f"everything up to epoch {epoch} is gone, and no whole checkpoint is left")
        for manifest in whole:
            if min(manifest.cuts.values()) < epoch:
                broken(
                    "trimming",
                    f"checkpoint {manifest.id} stands at {dict(manifest.cuts)}, the ledger begins at {epoch + 1}",
                )

    def stream_trimmed(self, name: StreamName, epoch: Epoch) -> None:
        """A durable stream is gone up to here."""
        consumers = [stream.consumer for stream in self.topology.streams if stream.name == name]
        for manifest in self._to_fall_back_to():
            if any(epoch > manifest.cuts[consumer] for consumer in consumers):
                broken("trimming", f"checkpoint {manifest.id} needs stream {name}, which begins at {epoch + 1}")

    def source_trimmed(self, name: SourceName, start: Offset) -> None:
        """A source may be asked for nothing that lies before this."""
        (unit,) = [unit for unit, sources in self._sources.items() if name in sources]
        for manifest in self._to_fall_back_to():
            following = self._admitted.get(manifest.cuts[unit] + 1)
            if following is not None and following.slices[name][0] < start:
                broken("trimming", f"checkpoint {manifest.id} needs source {name} from {following.slices[name][0]} on")

    def _to_fall_back_to(self) -> list[Manifest]:
        """Checkpoints that are kept and can be gone back to."""
        newest = sorted(self.root.manifests.values(), key=lambda m: -m.id)
        if self._individual:
            newest = self._own_line(newest)
        return list(islice(filter(self.root.whole, newest), self._keep))

    def _own_line(self, newest: list[Manifest]) -> list[Manifest]:
        """Under M2: those that every unit needs to have enough to fall back to; older ones are there for their files only."""
        for number in range(1, len(newest) + 1):
            if all(len({m.cuts[unit] for m in newest[:number]}) >= self._keep for unit in self._sources):
                return newest[:number]
        return newest

    def released(
        self, name: StreamName, epoch: Epoch, finished: Mapping[UnitName, Epoch], newest: Manifest | None
    ) -> None:
        """A stream in memory is gone up to here. ``finished`` is how far the units are, as their own jobs say."""
        for stream in self.topology.streams:
            if stream.name != name:
                continue
            needed = finished[stream.consumer]
            if stream.preservation == "buffered":
                needed = newest.cuts[stream.consumer] if newest is not None else Epoch(0)
                needed = Epoch(max(needed, self._own.get(stream.consumer, 0)))
            if epoch > needed:
                broken(
                    "trimming", f"stream {name} was let go up to epoch {epoch}; {stream.consumer} needs {needed + 1}"
                )

    def forget(self, epoch: Epoch) -> None:
        """Long runs: nobody asks for what lies before this epoch any more."""
        self.oracle.forget(epoch)
        for old in [e for e in self._admitted if e < epoch]:
            del self._admitted[old]
        for key in [k for k in self.root.sinks if k[1] < epoch - 20]:
            del self.root.sinks[key]


def broken(rule: str, what: str) -> NoReturn:
    raise PropertyBroken(f"{rule}: {what}")
