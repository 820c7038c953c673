from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from perseid.errors import CorruptData, Fenced, PerseidError
from perseid.storage import layout
from perseid.storage.lease import Lease
from perseid.storage.manifest import Checkpoints, InflightEpoch, Manifest, ShardSnapshot
from perseid.storage.snapshots import SnapshotFile
from perseid.storage.store import Store
from perseid.vocabulary import CheckpointId, Epoch, OperatorName, StreamName, UnitName

Starter = Callable[[Store], Lease]


def manifest(id: int) -> Manifest:
    file = SnapshotFile(layout.snapshot(CheckpointId(id), OperatorName("count"), 0), 1234, "ab" * 16)
    return Manifest(
        id=CheckpointId(id),
        graph="fingerprint",
        created_ms=17,
        units={UnitName("main"): Epoch(4), UnitName("second"): Epoch(3)},
        shards=(ShardSnapshot(OperatorName("count"), 0, (0, 256), Epoch(4), file, 999),),
        inflight=(
            InflightEpoch(
                StreamName("words"), Epoch(4), layout.inflight(CheckpointId(id), StreamName("words"), Epoch(4))
            ),
        ),
        event_times_ms={OperatorName("count"): 5},
        scheme="parallel",
    )


def test_a_committed_checkpoint_is_read_back(any_store: Store, start: Starter) -> None:
    checkpoints = Checkpoints(any_store, lease=start(any_store))
    for id in (1, 2, 10):
        checkpoints.commit(manifest(id))
    assert list(Checkpoints(any_store).newest_first()) == [manifest(10), manifest(2), manifest(1)]
    assert Checkpoints(any_store).read(CheckpointId(2)) == manifest(2)


def test_a_root_without_checkpoints_has_none(any_store: Store) -> None:
    assert list(Checkpoints(any_store).newest_first()) == []
    assert Checkpoints(any_store).next_id() == 1


def test_mappings_and_numbers_of_any_kind_can_be_committed(store: Store) -> None:
    given = replace(
        manifest(1),
        units=MappingProxyType({UnitName("main"): Epoch(4)}),
        event_times_ms={OperatorName("count"): np.int64(5)},  # type: ignore[dict-item]
    )
    Checkpoints(store).commit(given)
    assert Checkpoints(store).read(CheckpointId(1)) == replace(manifest(1), units={UnitName("main"): Epoch(4)})


def test_a_folder_without_a_manifest_is_no_checkpoint(any_store: Store) -> None:
    reported: list[CheckpointId] = []
    Checkpoints(any_store).commit(manifest(1))
    any_store.write(layout.snapshot(CheckpointId(2), OperatorName("count"), 0), [b"x"])
    any_store.write("checkpoints/notes.txt", [b"x"])
    assert list(Checkpoints(any_store, lambda id, _: reported.append(id)).newest_first()) == [manifest(1)]
    assert reported == []


def test_unreadable_manifests_are_passed_over_and_reported(any_store: Store) -> None:
    reported: dict[int, PerseidError] = {}
    checkpoints = Checkpoints(any_store, reported.__setitem__)
    for id in range(1, 6):
        checkpoints.commit(manifest(id))
    whole = any_store.read(layout.manifest(CheckpointId(5)))
    any_store.write(layout.manifest(CheckpointId(5)), [whole[:-10]])
    any_store.write(layout.manifest(CheckpointId(4)), [b""])
    any_store.write(layout.manifest(CheckpointId(3)), [whole])
    assert list(checkpoints.newest_first()) == [manifest(2), manifest(1)]
    assert sorted(reported) == [3, 4, 5]
    assert all(isinstance(error, CorruptData) for error in reported.values())
    assert "checkpoint 5" in str(reported[5]) and "is the manifest of checkpoint 5" in str(reported[3])
    assert list(Checkpoints(any_store).newest_first()) == [manifest(2), manifest(1)]


def test_deleting_removes_everything_and_may_be_repeated(any_store: Store) -> None:
    checkpoints = Checkpoints(any_store)
    any_store.write(layout.snapshot(CheckpointId(1), OperatorName("count"), 0), [b"x"])
    checkpoints.commit(manifest(1))
    for _ in range(2):
        checkpoints.delete(CheckpointId(1))
        assert any_store.list("checkpoints") == []


def test_committing_the_same_again_is_fine_but_not_another(any_store: Store) -> None:
    checkpoints = Checkpoints(any_store)
    checkpoints.commit(manifest(1))
    checkpoints.commit(manifest(1))
    with pytest.raises(Fenced, match="checkpoint 1 was committed by another driver"):
        checkpoints.commit(replace(manifest(1), created_ms=18))
    assert checkpoints.read(CheckpointId(1)) == manifest(1)


def test_a_fenced_driver_commits_and_deletes_nothing(any_store: Store, start: Starter, take_over: Starter) -> None:
    zombie = Checkpoints(any_store, lease=start(any_store))
    zombie.commit(manifest(1))
    take_over(any_store)
    for use in (lambda: zombie.commit(manifest(2)), lambda: zombie.delete(CheckpointId(1)), zombie.discard_unfinished):
        with pytest.raises(Fenced):
            use()
    assert list(Checkpoints(any_store).newest_first()) == [manifest(1)]


def test_ids_are_never_given_twice_not_even_to_a_driver_that_wakes_up(store: Store) -> None:
    zombie = Checkpoints(store)
    given = [zombie.next_id(), zombie.next_id()]
    store.write(layout.snapshot(given[-1], OperatorName("count"), 0), [b"x"])
    new = Checkpoints(store)
    assert len({*given, new.next_id(), zombie.next_id(), new.next_id(), zombie.next_id()}) == 6


def test_ids_differ_from_those_of_a_driver_that_had_begun_no_checkpoint_before_it_slept(
    store: Store, start: Starter, take_over: Starter
) -> None:
    zombie = Checkpoints(store, lease=start(store))
    given = [zombie.next_id(), zombie.next_id()]
    new = Checkpoints(store, lease=take_over(store))
    newer = Checkpoints(store, lease=take_over(store))
    assert given[0] == 1
    assert len({*given, new.next_id(), new.next_id(), newer.next_id(), newer.next_id()}) == 6


def test_what_was_never_completed_is_discarded_but_its_id_is_not_used_again(any_store: Store) -> None:
    checkpoints = Checkpoints(any_store)
    for id in (1, 2, 3, 4):
        any_store.write(layout.snapshot(CheckpointId(id), OperatorName("count"), 0), [b"x"])
    checkpoints.commit(manifest(2))
    assert checkpoints.discard_unfinished() == (1, 3)
    assert any_store.list("checkpoints") == ["00000002", "00000004"]
    assert checkpoints.next_id() > 4
