"""A shard is backed up, lost, and comes back as two: the primitives of state management one after the other, without Spark."""

import tempfile

import pyarrow as pa

from perseid import Context, KeyedOperator, state
from perseid.primitives import (
    SLOTS,
    Backups,
    RoutingTable,
    ShardId,
    ShardState,
    Store,
    backup_state,
    by_key,
    checkpoint_state,
    divided,
    merge_state,
    numbered,
    partition_buffer_state,
    partition_processing_state,
    partition_routing_state,
    persist,
    persisted,
    replay_buffer_state,
    restore_state,
    run_epoch,
)


class Count(KeyedOperator):
    """How often each word came."""

    n: int = state(default=0)

    def process_key(self, word: str, rows: pa.Table) -> None:
        self.n += rows.num_rows


def apply(shard: Count, epoch: int, rows: pa.Table) -> None:
    """What a host does with an epoch's rows."""
    run_epoch(shard, {"rows": rows}, Context(epoch, time_ms=1_000 * epoch, key=("word",)))


def words(states: list[ShardState]) -> dict[str, int]:
    """What is in the state of some shards."""
    return {word: values[0] for one in states for word, values in one.processing["keyed"]["values"].items()}


OLD = ShardId("count", 0)
LINES = ["to be or not to be", "that is the question", "to die to sleep", "no more"]


def main() -> None:
    routing = RoutingTable.initial({"count": numbered([(0, SLOTS)])})
    buffer = {epoch: pa.table({"word": line.split()}) for epoch, line in enumerate(LINES, start=1)}

    # Two epochs, then a checkpoint, kept by one of the hosts 1, 2, 3 upstream
    shard = restore_state(Count(), None)
    for epoch, rows in replay_buffer_state(buffer, after=0, upto=2):
        apply(shard, epoch, rows)
    backups, _ = backup_state(Backups(), OLD, checkpoint_state(shard, 2), upstream=[1, 2, 3])
    for epoch, rows in replay_buffer_state(buffer, after=2):
        apply(shard, epoch, rows)
    expected = words([checkpoint_state(shard, 4)])
    del shard  # its host dies

    # Its checkpoint is cut in two, and so are its place in the routing and what upstream keeps for it
    halves = divided((0, SLOTS), 2)
    routing = partition_routing_state(routing, [OLD], numbered(halves, first=1))
    after = {route.shard.index: route.slots for route in routing.of("count")}
    parts = partition_processing_state(backups.retrieve(OLD), Count(), halves, key_types=["string"])
    kept = partition_buffer_state({0: buffer}, {0: (0, SLOTS)}, after, by_key("word"))

    # Two new shards begin with a part each, and apply what it does not reflect yet
    grown = []
    for index, part in zip(after, parts, strict=True):
        shard = restore_state(Count(), part)
        for epoch, rows in replay_buffer_state(kept[index], after=part.epoch):
            apply(shard, epoch, rows)
        grown.append(checkpoint_state(shard, 4, slots=part.slots))
    assert words(grown) == expected

    # And as one again, durable
    whole = merge_state(grown, Count())
    store = Store.at(tempfile.mkdtemp(prefix="perseid-state-"))
    file = persist(whole, ShardId("count", 3), store, "count.snapshot")
    _, found = persisted(store, file)
    print(f"{words([found])['to']} times 'to', {file.bytes} bytes")


if __name__ == "__main__":
    main()
