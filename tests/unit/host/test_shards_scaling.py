"""New shards in a host: made of snapshots of the old ones, then brought further by the input these keep."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from host_pieces import TestHost, apply_epoch, shard_to_restore, spec_of

from perseid import Operator, state
from perseid.channel.rows import ORDER
from perseid.engine import messages as msg
from perseid.engine.shard import Refusal
from perseid.scaling.routing import even_slots
from perseid.state.codec import encode
from perseid.state.operator_state import capture
from perseid.state.slots import slot_of
from perseid.storage.dead_letters import left_out
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.snapshots import write_snapshot
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, OperatorName, ShardId, SlotRange, Version

O = OperatorName("fold")  # noqa: E741
OLD, NEW = even_slots(2), even_slots(3)
SCHEMA = pa.schema([("k", pa.string()), ("f", pa.int64())])


class Fold(Operator):
    """Depends on the order of a key's rows."""

    folds: dict[str, int] = state(default_factory=dict)
    bad: ClassVar[int | None] = None  # this one it cannot take

    def process(self, rows: pa.Table) -> pa.Table:
        for key, seq in zip(rows["k"].to_pylist(), rows["seq"].to_pylist(), strict=True):
            if seq == self.bad:
                raise ValueError(f"{seq} is bad")
            self.folds[key] = (self.folds.get(key, 0) * 31 + seq) % (1 << 40)
        keys = sorted(set(rows["k"].to_pylist()))
        return pa.table({"k": pa.array(keys, pa.string()), "f": pa.array([self.folds[k] for k in keys], pa.int64())})


def host(path: Path, name: str, *, retained: bool = False) -> TestHost:
    spec = spec_of(O, Fold(), "k", "string", SCHEMA, retained=retained)
    return TestHost(path / name, [spec], path / "root")


def rows(epoch: int, slots: SlotRange) -> pa.Table:
    """The rows of an epoch that fall to these slots, in no order, as a shuffle brings them."""
    draw = random.Random(epoch)
    found = [(f"w{draw.randrange(60)}", 1_000 * epoch + n) for n in range(200)]
    mine = [pair for pair in found if slots[0] <= slot_of(pair[0]) < slots[1]]
    draw.shuffle(mine)
    keys, places = [k for k, _ in mine], [n for _, n in mine]
    columns = {
        "k": pa.array(keys, pa.string()),
        "seq": pa.array(places, pa.int64()),
        ORDER: pa.array(places, pa.int64()),
    }
    return pa.table(columns)


def request(index: int, epoch: int, **more: Any) -> msg.ApplyEpoch:
    return apply_epoch(ShardId(O, index), epoch, **more)


def entry(index: int, slots: SlotRange, epoch: int, saved: list[ShardSnapshot], **more: Any) -> msg.ShardToRestore:
    parts = tuple(
        msg.PartToRead(one, (max(slots[0], one.slots[0]), min(slots[1], one.slots[1])))
        for one in saved
        if one.slots[0] < slots[1] and slots[0] < one.slots[1]
    )
    return shard_to_restore(ShardId(O, index), slots, epoch, parts, **more)


@pytest.fixture
def old(tmp_path: Path) -> tuple[TestHost, list[ShardSnapshot]]:
    """Two shards that have applied six epochs, and their snapshots after the second."""
    held = host(tmp_path, "old")
    held.restore(*(entry(i, slots, 0, []) for i, slots in enumerate(OLD)))
    parts = []
    for epoch in range(1, 7):
        for index, slots in enumerate(OLD):
            assert not isinstance(held.ask(request(index, epoch), rows(epoch, slots)), Refusal)
        if epoch == 2:
            for index, slots in enumerate(OLD):
                header = {"operator": O, "index": index, "epoch": 2, "slots": list(slots)}
                state = encode(capture(held.operator(ShardId(O, index))))
                file = write_snapshot(Store.at(str(tmp_path / "root")), f"{index}", header, state, local=None)
                parts.append(ShardSnapshot(O, index, slots, Epoch(2), file, 0))
    return held, parts


def prepared(tmp_path: Path, parts: list[ShardSnapshot]) -> TestHost:
    held = host(tmp_path, "new")
    held.restore(*(entry(2 + i, slots, 2, parts) for i, slots in enumerate(NEW)), version=5, retain_from=3)
    return held


def those_before(folder: Path | None) -> tuple[msg.ShardBefore, ...]:
    return tuple(msg.ShardBefore(ShardId(O, i), slots, str(folder) if folder else None) for i, slots in enumerate(OLD))


def catch_up(held: TestHost, folder: Path | None, upto: int) -> list[int]:
    shards = tuple(msg.ShardToCatchUp(ShardId(O, 2 + i), slots) for i, slots in enumerate(NEW))
    held.machine.handle(msg.CatchUp(Version(5), Epoch(upto), shards, those_before(folder)))
    return list(held.next(msg.CaughtUp, msg.Warned).reached.values())


def folds(held: TestHost, indices: range) -> dict[str, int]:
    found: dict[str, int] = {}
    for index in indices:
        found |= held.operator(ShardId(O, index)).folds
    return found


def test_new_shards_come_to_the_state_of_the_old_ones(tmp_path: Path, old: Any) -> None:
    held, parts = old
    new = prepared(tmp_path, parts)
    assert catch_up(new, tmp_path / "old", 4) == [4, 4, 4], "no further than they were told"
    assert catch_up(new, tmp_path / "old", 6) == [6, 6, 6]
    assert folds(new, range(2, 5)) == folds(held, range(2))
    for index, slots in enumerate(NEW):
        mine = new.held(ShardId(O, 2 + index))
        assert all(slots[0] <= slot_of(key) < slots[1] for key in new.operator(ShardId(O, 2 + index)).folds)
        assert sorted(mine.log.answers) == [3, 4, 5, 6], "answers are kept for whoever asks again"
        assert mine.log.rows[Epoch(6)] == rows(6, slots).num_rows, "a task that is run again brings as many rows"


def test_new_shards_keep_the_input_themselves(tmp_path: Path, old: Any) -> None:
    """Lost right after they took over, they come back as fast as the old ones would have."""
    _, parts = old
    new = prepared(tmp_path, parts)
    catch_up(new, tmp_path / "old", 6)
    other = host(tmp_path, "other")
    home = (str(tmp_path / "new"),)
    shards = [entry(2 + i, slots, 2, parts, upto=6, homes=home) for i, slots in enumerate(NEW)]
    assert list(other.restore(*shards, version=6, retain_from=3).reached.values()) == [6, 6, 6]


def test_shards_that_come_back_for_others_share_the_input_these_kept(tmp_path: Path, old: Any) -> None:
    """Parallel recovery: no more of it than the controller knows to be done, and they keep it themselves."""
    held, parts = old
    for upto in (4, 6):
        new = host(tmp_path, f"back-{upto}")
        shards = [entry(2 + i, slots, 2, parts, upto=upto) for i, slots in enumerate(NEW)]
        restored = new.restore(*shards, version=6, retain_from=3, before=those_before(tmp_path / "old"))
        assert list(restored.reached.values()) == [upto] * 3
    assert folds(new, range(2, 5)) == folds(held, range(2))
    assert sorted(path.name for path in (tmp_path / "back-6" / "input" / "fold-2").iterdir()) == ["3", "4", "5", "6"]


def test_what_is_missing_ends_the_short_cut_and_nothing_else(tmp_path: Path, old: Any) -> None:
    _, parts = old
    new = prepared(tmp_path, parts)
    assert catch_up(new, None, 6) == [2, 2, 2], "on another machine"
    (tmp_path / "old" / "input" / "fold-1" / "5").unlink()
    assert catch_up(new, tmp_path / "old", 6) == [6, 4, 4], "only those that need it"


def test_rows_put_aside_stay_aside_in_the_shards_that_take_over(tmp_path: Path, old: Any) -> None:
    """Whoever applies the epoch again leaves out the same row, and nobody writes it down twice."""
    held, parts = old
    bad = int(rows(7, OLD[0])["seq"][40].as_py())
    Fold.bad = bad
    try:
        assert isinstance(refused := held.ask(request(0, 7), rows(7, OLD[0])), Refusal) and refused.kind == "raised"
        held.restore(entry(0, OLD[0], 2, parts, upto=6, homes=(str(tmp_path / "old"),)), version=2)
        for index in range(2):
            assert not isinstance(held.ask(request(index, 7, aside="find", version=2), rows(7, OLD[index])), Refusal)
    finally:
        Fold.bad = None  # from here on it could take the row: but sinks hold what came of the epoch without it
    one, other = (held.held(ShardId(O, index)).report for index in range(2))
    assert one is not None and (one.dead_letters, one.dead_letter_error) == (1, f"ValueError: {bad} is bad")
    assert other is not None and other.dead_letters == 0
    new = prepared(tmp_path, parts)
    assert catch_up(new, tmp_path / "old", 7) == [7, 7, 7], "also from kept input"
    assert folds(new, range(2, 5)) == folds(held, range(2))
    again = host(tmp_path, "other")
    again.restore(*(entry(i, slots, 2, parts) for i, slots in enumerate(OLD)), version=9, retain_from=3)
    for epoch in range(3, 8):  # from the sources
        for index, slots in enumerate(OLD):
            given = request(index, epoch, version=9, aside="read" if epoch == 7 else None)
            assert not isinstance(again.ask(given, rows(epoch, slots)), Refusal)
    assert folds(again, range(2)) == folds(held, range(2))
    letters = left_out(Store.at(str(tmp_path / "root")), O, Epoch(7)).letters
    assert [(found.shard, found.rows) for found in letters] == [(0, 1)]


def test_a_shard_that_raised_before_rows_might_be_put_aside_is_restored_before_it_looks_for_them(old: Any) -> None:
    """Spark tells of one failed task only: the other shard must not be taken for one whose search was in vain."""
    held, _ = old
    Fold.bad = int(rows(7, OLD[1])["seq"][3].as_py())
    try:
        refused = held.ask(request(1, 7), rows(7, OLD[1]))
        assert isinstance(refused, Refusal) and refused.kind == "raised"
        refused = held.ask(request(1, 7, aside="find"), rows(7, OLD[1]))
        assert isinstance(refused, Refusal) and refused.kind == "poisoned"
    finally:
        Fold.bad = None


def test_dropped_shards_are_gone_with_all_they_kept(tmp_path: Path, old: Any) -> None:
    held, _ = old
    held.machine.handle(msg.Drop((ShardId(O, 0),)))
    assert isinstance(held.ask(request(0, 7), rows(7, OLD[0])), Refusal)
    assert not (tmp_path / "old" / "input" / "fold-0").exists()
    assert not isinstance(held.ask(request(1, 7), rows(7, OLD[1])), Refusal)
