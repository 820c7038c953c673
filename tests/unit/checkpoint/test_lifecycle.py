"""A pending checkpoint: what it waits for, which epochs are in flight."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from perseid.checkpoint.lifecycle import CompletedCheckpoint, PendingCheckpoint
from perseid.checkpoint.schemes import parallel
from perseid.duration import every
from perseid.errors import SettingsError
from perseid.graph.topology import StreamShape
from perseid.vocabulary import CheckpointId, Epoch, OperatorName, ShardId, StreamName, UnitName


@dataclass(frozen=True)
class Saved:
    operator: str
    index: int
    epoch: int
    state_bytes: int = 0
    slots: tuple[int, int] = (0, 256)
    path: str = ""


def pending(kind: str = "transient") -> PendingCheckpoint:
    return PendingCheckpoint(
        CheckpointId(1),
        0,
        shards={ShardId(OperatorName("a"), 0): "up", ShardId(OperatorName("b"), 0): "down"},  # type: ignore[dict-item]
        streams=(StreamShape("s", "up", "down", kind),),  # type: ignore[arg-type]
        units=("up", "down"),  # type: ignore[arg-type]
    )


def test_epochs_between_two_cuts_are_in_flight() -> None:
    p = pending()
    assert p.cut_known(UnitName("up"), Epoch(9)) == ()
    assert p.cut_known(UnitName("down"), Epoch(7)) == (("s", 8), ("s", 9))
    p.check()


def test_a_durable_stream_has_nothing_in_flight() -> None:
    p = pending("durable")
    p.cut_known(UnitName("down"), Epoch(7))
    assert p.cut_known(UnitName("up"), Epoch(9)) == ()


def test_it_is_complete_only_with_every_snapshot_and_every_epoch_in_flight() -> None:
    p = pending()
    p.cut_known(UnitName("up"), Epoch(8))
    p.cut_known(UnitName("down"), Epoch(7))
    p.shard_saved(ShardId(OperatorName("a"), 0), Saved("a", 0, 8))
    p.shard_saved(ShardId(OperatorName("b"), 0), Saved("b", 0, 7))
    assert not p.complete
    p.inflight_saved(StreamName("s"), Epoch(8), "path")
    assert p.complete
    p.check()


def test_a_snapshot_of_another_epoch_is_not_taken() -> None:
    p = pending()
    p.cut_known(UnitName("up"), Epoch(8))
    with pytest.raises(AssertionError, match="wrong epoch"):
        p.shard_saved(ShardId(OperatorName("a"), 0), Saved("a", 0, 7))


def test_how_large_shards_were_is_known_also_of_shards_that_were_cut_otherwise() -> None:
    saved = [Saved("a", 0, 8, 300, (0, 128)), Saved("a", 1, 8, 500, (128, 256))]
    done = CompletedCheckpoint(1, {"up": 8}, {ShardId("a", s.index): s for s in saved}, {})  # type: ignore[dict-item,arg-type]
    assert done.own_size(UnitName("up"), {ShardId(OperatorName("a"), 0): (0, 128)}) == 300
    assert done.own_size(UnitName("up"), {ShardId(OperatorName("a"), 2): (0, 256)}) == 800, (
        "one that takes over from both"
    )
    assert (
        done.own_size(
            UnitName("up"), {ShardId(OperatorName("a"), 3): (0, 64), ShardId(OperatorName("a"), 4): (64, 128)}
        )
        == 300
    ), "a file is read once"
    assert done.own_size(UnitName("up"), {ShardId(OperatorName("a"), 0): (64, 192)}) == 800, (
        "the number alone says nothing"
    )
    assert done.own_size(UnitName("up"), {ShardId(OperatorName("b"), 0): (0, 256)}) is None


def test_a_period_of_zero_is_refused() -> None:
    with pytest.raises(SettingsError, match="above zero"):
        parallel(0)
    with pytest.raises(SettingsError, match="above zero"):
        every(seconds=0)
