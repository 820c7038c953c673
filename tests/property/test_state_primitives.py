"""The primitives of state management, each alone and all together: nothing is lost, nothing is doubled (S2)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid import Context, KeyedOperator, Operator, primitives, state
from perseid.errors import ScaleFailed
from perseid.primitives import (
    Backups,
    ShardState,
    backup_state,
    by_key,
    checkpoint_state,
    divided,
    merge_state,
    partition_buffer_state,
    partition_processing_state,
    partition_routing_state,
    persist,
    persisted,
    replay_buffer_state,
    restore_state,
    slot_of,
    trim_buffer_state,
)
from perseid.scaling.routing import RoutingTable, even_slots, numbered
from perseid.state.backup import backup_host
from perseid.state.operator_state import run_epoch
from perseid.storage.store import Store
from perseid.vocabulary import SLOTS, Epoch, HostId, OperatorName, ShardId, SlotRange

COUNT = OperatorName("count")


class Count(KeyedOperator):
    n: int = state(default=0)

    def process_key(self, key: Any, rows: pa.Table) -> list[dict[str, Any]]:
        self.n += rows.num_rows
        return [{"key": key, "n": self.n}]


def table(keys: list[int]) -> pa.Table:
    return pa.table({"key": pa.array(keys, pa.int64()), "place": pa.array(range(len(keys)), pa.int64())})


def apply(operator: Operator, epoch: Epoch, rows: pa.Table, index: int = 0) -> pa.Table | None:
    context = Context(
        epoch=epoch,
        time_ms=1_000 * epoch,
        watermark_ms=None,
        shard=ShardId(COUNT, index),
        key={"rows": ("key",)},
        event_time=None,
    )
    return run_epoch(operator, {"rows": rows}, context)


def counts(states: list[ShardState]) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for one in states:
        mine = {key: values[0] for key, values in one.processing["keyed"]["values"].items()}
        assert not found.keys() & mine.keys()
        assert all(one.slots[0] <= slot_of(key) < one.slots[1] for key in mine)
        found |= mine
    return found


KEYS = st.lists(st.integers(-30, 30), max_size=30)
EPOCHS = st.lists(KEYS, min_size=1, max_size=6)
CUTS = st.sets(st.integers(1, SLOTS - 1), max_size=5)


def ranges_of(cuts: set[int]) -> list[SlotRange]:
    return list(itertools.pairwise([0, *sorted(cuts), SLOTS]))


# -- Algorithm 3 by hand ---------------------------------------------------------------------------------------------


@given(epochs=EPOCHS, saved=st.integers(0, 6), cuts=CUTS)
def test_a_shard_scaled_out_from_its_checkpoint_and_replayed_is_the_shard_that_never_was(
    epochs: list[list[int]], saved: int, cuts: set[int]
) -> None:
    saved = min(saved, len(epochs))
    old, kept = restore_state(Count(), None), {}
    checkpoint = checkpoint_state(old, Epoch(0))
    for number, keys in enumerate(epochs, start=1):
        kept[Epoch(number)] = table(keys)  # the buffer of whoever is upstream
        apply(old, Epoch(number), table(keys))
        if number == saved:
            checkpoint = checkpoint_state(old, Epoch(number))
    expected = counts([checkpoint_state(old, Epoch(len(epochs)))])

    ranges = ranges_of(cuts)
    parts = partition_processing_state(checkpoint, Count(), ranges, key_types=["int64"])
    buffers = partition_buffer_state({0: kept}, {0: (0, SLOTS)}, dict(enumerate(ranges, 1)), by_key("key"))
    grown = []
    for index, part in enumerate(parts, 1):
        shard, reached = restore_state(Count(), part), part.epoch
        for epoch, rows in replay_buffer_state(buffers[index], after=part.epoch):
            apply(shard, epoch, rows, index)
            reached = epoch
        grown.append(checkpoint_state(shard, reached, slots=part.slots))
    assert {part.epoch for part in grown} == {len(epochs)}
    assert counts(grown) == expected
    assert counts([merge_state(grown, Count())]) == expected


def test_a_checkpoint_is_not_changed_by_what_the_operator_does_next() -> None:
    shard = restore_state(Count(), None)
    apply(shard, Epoch(1), table([1, 1, 2]))
    before = checkpoint_state(shard, Epoch(1))
    apply(shard, Epoch(2), table([1]))
    assert counts([before]) == {1: 2, 2: 1}


# -- buffer state -----------------------------------------------------------------------------------------------------


@given(epochs=EPOCHS, before=CUTS, after=CUTS)
def test_buffers_divided_anew_hold_every_row_once_and_in_the_order_of_its_key(
    epochs: list[list[int]], before: set[int], after: set[int]
) -> None:
    old, new = dict(enumerate(ranges_of(before))), dict(enumerate(ranges_of(after), 100))
    whole = {0: {Epoch(n): table(keys) for n, keys in enumerate(epochs, 1)}}
    first = partition_buffer_state(whole, {0: (0, SLOTS)}, old, by_key("key"))
    second = partition_buffer_state(first, old, new, by_key("key"))
    for number, keys in enumerate(epochs, 1):
        found = [(index, row) for index in new for row in second[index][Epoch(number)].to_pylist()]
        assert sorted(row["place"] for _, row in found) == list(range(len(keys)))
        assert all(new[index][0] <= slot_of(row["key"]) < new[index][1] for index, row in found)
        for key in set(keys):
            places = [row["place"] for _, row in found if row["key"] == key]
            assert places == sorted(places)


def test_half_an_epoch_is_handed_to_nobody() -> None:
    buffer = {0: {Epoch(1): table([1]), Epoch(2): table([2])}, 1: {Epoch(1): table([3])}}
    slots = {0: (0, 100), 1: (100, SLOTS)}
    assert list(partition_buffer_state(buffer, slots, {2: (0, SLOTS)}, by_key("key"))[2]) == [1]


def test_a_replay_leaves_out_duplicates_and_ends_at_a_gap() -> None:
    kept = {Epoch(n): f"rows of {n}" for n in (2, 3, 4, 6)}
    assert [epoch for epoch, _ in replay_buffer_state(kept, after=Epoch(2))] == [3, 4]
    assert [epoch for epoch, _ in replay_buffer_state(kept, after=Epoch(2), upto=Epoch(3))] == [3]
    assert list(replay_buffer_state(kept, after=Epoch(4))) == []
    assert list(trim_buffer_state(kept, Epoch(3))) == [4, 6]


# -- routing state ----------------------------------------------------------------------------------------------------


@given(shards=st.integers(1, 9), data=st.data())
def test_routing_divided_anew_covers_every_slot_once(shards: int, data: st.DataObject) -> None:
    table = RoutingTable.initial({COUNT: numbered(even_slots(shards))})
    replaced = data.draw(st.sets(st.sampled_from(sorted(table.routes)), min_size=1))
    ranges = [r for shard in sorted(replaced) for r in divided(table.routes[shard].slots, data.draw(st.integers(1, 5)))]
    found = partition_routing_state(table, replaced, numbered(ranges, shards))
    found.check()
    assert found.version == table.version + 1
    assert not replaced & found.routes.keys()
    kept = table.routes.keys() - replaced
    assert {shard: found.routes[shard] for shard in kept} == {shard: table.routes[shard] for shard in kept}
    back = partition_routing_state(found, found.routes.keys(), numbered(even_slots(shards), 1_000))
    assert [slots for _, slots in back.shards(COUNT)] == [slots for _, slots in table.shards(COUNT)]


@pytest.mark.parametrize("slots", [[(0, 64)], [(0, 64), (63, 128)], [(0, 200)], []], ids=str)
def test_shards_that_do_not_cover_those_they_replace_are_refused(slots: list[SlotRange]) -> None:
    table = RoutingTable.initial({COUNT: numbered(even_slots(2))})
    with pytest.raises(ScaleFailed, match="count/0 hold the slots"):
        partition_routing_state(table, {ShardId(COUNT, 0)}, numbered(slots, 2))
    with pytest.raises(ScaleFailed, match="other numbers"):
        partition_routing_state(table, {ShardId(COUNT, 0)}, numbered([(0, 128)], 1))


# -- backups ----------------------------------------------------------------------------------------------------------

HOSTS = st.sets(st.integers(1, 12).map(HostId), max_size=8)


@given(upstreams=st.lists(HOSTS, min_size=1, max_size=8), shards=st.integers(1, 12))
def test_backups_move_when_upstream_changes_and_the_old_ones_are_released(
    upstreams: list[set[HostId]], shards: int
) -> None:
    backups: Backups[str] = Backups()
    for number, upstream in enumerate(upstreams):
        for index in range(shards):
            shard = ShardId(COUNT, index)
            before = backups.host_of(shard)
            backups, released = backup_state(backups, shard, f"{index}@{number}", upstream)
            backups.check()
            now = backups.host_of(shard)
            assert (now in upstream) if upstream else now is None
            assert released == (before if before != now else None)
            assert backups.retrieve(shard) == (f"{index}@{number}" if upstream else None)


def test_only_the_backups_of_a_host_that_left_move_and_the_load_is_shared() -> None:
    hosts = [HostId(n) for n in range(1, 9)]
    shards = [ShardId(COUNT, n) for n in range(400)]
    homes = {shard: backup_host(shard, hosts) for shard in shards}
    left = {shard: backup_host(shard, hosts[1:]) for shard in shards}
    assert {shard for shard in shards if homes[shard] != left[shard]} == {s for s in shards if homes[s] == hosts[0]}
    assert all(20 <= list(homes.values()).count(host) <= 90 for host in hosts)  # 50 each, more or less


def test_what_a_dead_host_kept_is_backed_up_anew() -> None:
    shard, upstream = ShardId(COUNT, 0), {HostId(1), HostId(2)}
    backups, _ = backup_state(Backups[str](), shard, "old", upstream)
    home = backups.host_of(shard)
    assert home is not None
    backups = backups.lost(home)
    assert backups.retrieve(shard) is None
    backups, released = backup_state(backups, shard, "new", upstream - {home})
    assert backups.retrieve(shard) == "new" and released is None


# -- persisted --------------------------------------------------------------------------------------------------------


def test_a_state_made_durable_comes_back_with_all_it_says_of_itself(tmp_path: Path) -> None:
    shard = restore_state(Count(), None)
    sent = apply(shard, Epoch(1), table([1, 1, 2]))
    saved = checkpoint_state(shard, Epoch(1), slots=(3, 90), buffer={Epoch(1): sent})
    store = Store.at(str(tmp_path))
    who, found = persisted(store, persist(saved, ShardId(COUNT, 4), store, "kept/count-4"))
    assert who == ShardId(COUNT, 4)
    assert found == saved and found.buffer[Epoch(1)].equals(sent)


def test_every_primitive_is_public() -> None:
    named = {"checkpoint_state", "backup_state", "restore_state", "replay_buffer_state", "merge_state", "persist"}
    assert named | {f"partition_{what}_state" for what in ("processing", "routing", "buffer")} <= set(
        primitives.__all__
    )
    assert all(getattr(primitives, name) is not None for name in primitives.__all__)
