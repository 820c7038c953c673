"""Several checkpoints on their way at once, each of its own units (M2)."""

from __future__ import annotations

from perseid.checkpoint.policy import Decision, Reason
from perseid.checkpoint.schemes import UnitSchemes, baseline, parallel
from perseid.duration import every
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.checkpointing import Checkpointing
from perseid.engine.pipeline import Pipeline
from perseid.graph.topology import StreamShape, Topology, UnitShape
from perseid.scaling.routing import RoutingTable, even_slots, numbered
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.snapshots import SnapshotFile
from perseid.vocabulary import CheckpointId, Epoch, HostId, OperatorName, ShardId, SourceName, StreamName, UnitName

ABOVE, BELOW = UnitName("above"), UnitName("below")
FIRST, SECOND = CheckpointId(1), CheckpointId(2)
HOST = HostId(1)


class Application:
    """Two units, one below the other, both of which stand at epoch 3."""

    def __init__(self, *, individual: bool = True) -> None:
        units = (
            UnitShape(ABOVE, (SourceName("in"),), {OperatorName("a"): 1}, {OperatorName("a"): frozenset()}),
            UnitShape(BELOW, (), {OperatorName("b"): 1}, {OperatorName("b"): frozenset()}),
        )
        scheme = baseline(every(seconds=10)) if individual else parallel(every(seconds=10))
        self.topology = scheme.preserved(Topology(units, (StreamShape(StreamName("s"), ABOVE, BELOW, "retained"),)))
        even = {OperatorName(o): numbered(even_slots(1)) for o in ("a", "b")}
        routing = RoutingTable.initial(even)
        self.routing = routing.moved(dict.fromkeys(routing.routes, HOST))
        self.pipeline = Pipeline(self.topology, 2, Epoch(3))
        for unit in (ABOVE, BELOW):
            self.pipeline.put_back(unit, Epoch(3))
        schemes, shards = UnitSchemes(scheme), self.routing.routes
        self.checkpoints = Checkpointing(self.topology, schemes, 3, FIRST, [], 0, shards)

    def start(self, *units: UnitName) -> None:
        decision = Decision(Reason.OWN_PERIOD, frozenset(units) if units else None)
        self.checkpoints.start(0, self.pipeline, self.routing, decision)

    def take(self) -> list[do.TakeSnapshots]:
        due = self.checkpoints.snapshots_due(self.pipeline, self.routing)
        return [command for command in due if isinstance(command, do.TakeSnapshots)]

    def saved(self, checkpoint: CheckpointId, unit: UnitName) -> list[do.CommitCheckpoint]:
        """All of the unit's snapshots of this checkpoint are durable; the manifests that are asked for then."""
        operator = "a" if unit == ABOVE else "b"
        file = SnapshotFile(f"{checkpoint}/{operator}", 1, "")
        snapshot = ShardSnapshot(OperatorName(operator), 0, (0, 256), Epoch(3), file, 1)
        commands = (
            *self.checkpoints.forked(on.SnapshotsForked(HOST, checkpoint, unit)),
            *self.checkpoints.written(on.SnapshotWritten(checkpoint, ShardId(OperatorName(operator), 0), snapshot)),
        )
        self.checkpoints.check()
        return [command for command in commands if isinstance(command, do.CommitCheckpoint)]


def test_units_that_are_saved_alone_do_not_wait_for_one_another() -> None:
    app = Application()
    app.start(ABOVE)
    app.start(BELOW)
    assert [(c.checkpoint, c.unit) for c in app.take()] == [(FIRST, ABOVE), (SECOND, BELOW)]
    app.checkpoints.check()


def test_manifests_are_written_in_the_order_in_which_checkpoints_began() -> None:
    app = Application()
    app.start(ABOVE)
    app.start(BELOW)
    app.take()
    assert app.saved(SECOND, BELOW) == []
    (first,) = app.saved(FIRST, ABOVE)
    assert first.pending.id == FIRST
    _, following = app.checkpoints.committed(on.CheckpointCommitted(FIRST))
    (second,) = following
    assert isinstance(second, do.CommitCheckpoint) and second.pending.id == SECOND
    assert second.covered == {ABOVE: 3, BELOW: 3}, "the second knows of the first"


def test_one_that_fails_does_not_take_the_other_with_it() -> None:
    app = Application()
    app.start(ABOVE)
    app.start(BELOW)
    app.take()
    app.saved(SECOND, BELOW)
    outcomes = app.checkpoints.failed(on.CheckpointFailed(FIRST, "disk full", HOST))
    assert outcomes is not None
    aborted, committed = outcomes
    assert aborted == do.AbortCheckpoint(FIRST, "disk full")
    assert isinstance(committed, do.CommitCheckpoint) and committed.pending.id == SECOND


def test_a_loss_gives_up_all_that_are_not_being_committed() -> None:
    app = Application()
    app.start(ABOVE)
    app.start(BELOW)
    app.take()
    app.saved(FIRST, ABOVE)
    assert app.checkpoints.abort("a host died") == [do.AbortCheckpoint(SECOND, "a host died")]
    assert app.checkpoints.committing and list(app.checkpoints.pending) == [FIRST]


def test_a_checkpoint_of_all_units_is_the_only_one() -> None:
    app = Application(individual=False)
    app.start()
    began = app.checkpoints.start_if_due(60_000, app.pipeline, app.routing)
    assert began == () and list(app.checkpoints.pending) == [FIRST]


def test_a_unit_waits_only_for_the_checkpoint_that_has_it_in_its_scope() -> None:
    app = Application()
    app.start(ABOVE)
    assert app.checkpoints.holds_back(ABOVE, Epoch(4), 0)
    assert not app.checkpoints.holds_back(BELOW, Epoch(4), 0)
