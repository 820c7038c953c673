"""New shards in a host: made of snapshots of the old ones, then brought further by the input these keep."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from perseid import Operator, state
from perseid.channel.rows import ORDER
from perseid.engine.shard import Refusal
from perseid.host.shards import OperatorSpec, Shards
from perseid.scaling.routing import even_slots
from perseid.state.codec import encode
from perseid.state.operator_state import capture
from perseid.state.slots import slot_of
from perseid.storage.dead_letters import left_out
from perseid.storage.snapshots import write_snapshot
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, OperatorName, ShardId, SlotRange

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


def host(path: Path, name: str, *, retained: bool = False) -> Shards:
    schema = SCHEMA.serialize().to_pybytes()
    spec = OperatorSpec(O, Fold(), {"rows": ("k",)}, ("string",), ("rows",), None, schema, retained=retained)
    (path / name).mkdir()
    return Shards(Store.at(str(path / "root")), None, path / name, [spec])


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


def request(index: int, epoch: int, **more: Any) -> dict[str, Any]:
    given = {"operator": O, "shard": index, "epoch": epoch, "version": 1, "recall": False, "wanted": True, "release": 0}
    return {**given, "time_ms": epoch, "watermark_ms": None, "aside": None, "report": True, **more}


def entry(index: int, slots: SlotRange, epoch: int, parts: list[dict[str, Any]]) -> dict[str, Any]:
    mine = [
        {**part, "slots": [max(slots[0], part["of"][0]), min(slots[1], part["of"][1])]}
        for part in parts
        if part["of"][0] < slots[1] and slots[0] < part["of"][1]
    ]
    return {
        "operator": O,
        "index": index,
        "slots": list(slots),
        "parts": mine,
        "epoch": epoch,
        "upto": epoch,
        "homes": [],
    }


@pytest.fixture
def old(tmp_path: Path) -> tuple[Shards, list[dict[str, Any]]]:
    """Two shards that have applied six epochs, and their snapshots after the second."""
    held = host(tmp_path, "old")
    shards = [entry(i, slots, 0, []) for i, slots in enumerate(OLD)]
    held.adopt(held.restored({"version": 1, "retain_from": 1, "shards": shards, "before": []})[0])
    parts = []
    for epoch in range(1, 7):
        for index, slots in enumerate(OLD):
            assert not isinstance(held.answer(request(index, epoch), rows(epoch, slots)), Refusal)
        if epoch == 2:
            for index, slots in enumerate(OLD):
                header = {"operator": O, "index": index, "epoch": 2, "slots": list(slots)}
                state = encode(capture(held[ShardId(O, index)].operator))
                file = write_snapshot(Store.at(str(tmp_path / "root")), f"{index}", header, state, local=None)
                named = {"path": file.path, "bytes": file.bytes, "digest": file.digest}
                parts.append({"file": named, "index": index, "of": list(slots)})
    return held, parts


def prepared(tmp_path: Path, parts: list[dict[str, Any]]) -> Shards:
    held = host(tmp_path, "new")
    shards = [entry(2 + i, slots, 2, parts) for i, slots in enumerate(NEW)]
    held.adopt(held.restored({"version": 5, "retain_from": 3, "shards": shards, "before": []})[0])
    return held


def those_before(folder: Path | None) -> list[dict[str, Any]]:
    kept = folder and str(folder)
    return [{"operator": O, "index": i, "slots": list(slots), "folder": kept} for i, slots in enumerate(OLD)]


def catch_up(held: Shards, folder: Path | None, upto: int) -> list[int]:
    before = those_before(folder)
    shards = [{"operator": O, "index": 2 + i, "slots": list(slots)} for i, slots in enumerate(NEW)]
    helds = held.caught_up({"version": 5, "upto": upto, "shards": shards, "before": before})
    return [h.log.applied for h in helds]


def folds(held: Shards, indices: range) -> dict[str, int]:
    found: dict[str, int] = {}
    for index in indices:
        found |= held[ShardId(O, index)].operator.folds  # type: ignore[attr-defined]
    return found


def test_new_shards_come_to_the_state_of_the_old_ones(tmp_path: Path, old: Any) -> None:
    held, parts = old
    new = prepared(tmp_path, parts)
    assert catch_up(new, tmp_path / "old", 4) == [4, 4, 4], "no further than they were told"
    assert catch_up(new, tmp_path / "old", 6) == [6, 6, 6]
    assert folds(new, range(2, 5)) == folds(held, range(2))
    for index, slots in enumerate(NEW):
        mine = new[ShardId(O, 2 + index)]
        assert all(slots[0] <= slot_of(key) < slots[1] for key in mine.operator.folds)  # type: ignore[attr-defined]
        assert sorted(mine.log.answers) == [3, 4, 5, 6], "answers are kept for whoever asks again"
        assert mine.log.rows[Epoch(6)] == rows(6, slots).num_rows, "a task that is run again brings as many rows"


def test_new_shards_keep_the_input_themselves(tmp_path: Path, old: Any) -> None:
    """Lost right after they took over, they come back as fast as the old ones would have."""
    _, parts = old
    new = prepared(tmp_path, parts)
    catch_up(new, tmp_path / "old", 6)
    other = host(tmp_path, "other")
    shards = [
        {**entry(2 + i, slots, 2, parts), "upto": 6, "homes": [str(tmp_path / "new")]} for i, slots in enumerate(NEW)
    ]
    helds, _ = other.restored({"version": 6, "retain_from": 3, "shards": shards, "before": []})
    assert [h.log.applied for h in helds] == [6, 6, 6]


def test_shards_that_come_back_for_others_share_the_input_these_kept(tmp_path: Path, old: Any) -> None:
    """Parallel recovery: no more of it than the controller knows to be done, and they keep it themselves."""
    held, parts = old
    for upto in (4, 6):
        new = host(tmp_path, f"back-{upto}")
        shards = [{**entry(2 + i, slots, 2, parts), "upto": upto} for i, slots in enumerate(NEW)]
        command = {"version": 6, "retain_from": 3, "shards": shards, "before": those_before(tmp_path / "old")}
        helds, _ = new.restored(command)
        assert [h.log.applied for h in helds] == [upto] * 3
        new.adopt(helds)
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
        assert isinstance(refused := held.answer(request(0, 7), rows(7, OLD[0])), Refusal) and refused.kind == "raised"
        back = held.restored(
            {
                "version": 2,
                "retain_from": 1,
                "before": [],
                "shards": [{**entry(0, OLD[0], 2, parts), "upto": 6, "homes": [str(tmp_path / "old")]}],
            }
        )[0]
        held.adopt(back)
        for index in range(2):
            assert not isinstance(held.answer(request(index, 7, aside="find", version=2), rows(7, OLD[index])), Refusal)
    finally:
        Fold.bad = None  # from here on it could take the row: but sinks hold what came of the epoch without it
    assert held[ShardId(O, 0)].last["dead_letters"] == 1
    assert held[ShardId(O, 0)].last["dead_letter_error"] == f"ValueError: {bad} is bad"
    assert held[ShardId(O, 1)].last["dead_letters"] == 0
    new = prepared(tmp_path, parts)
    assert catch_up(new, tmp_path / "old", 7) == [7, 7, 7], "also from kept input"
    assert folds(new, range(2, 5)) == folds(held, range(2))
    other = host(tmp_path, "other")
    shards = [entry(i, slots, 2, parts) for i, slots in enumerate(OLD)]
    other.adopt(other.restored({"version": 9, "retain_from": 3, "shards": shards, "before": []})[0])
    for epoch in range(3, 8):  # from the sources
        for index, slots in enumerate(OLD):
            given = request(index, epoch, version=9, aside="read" if epoch == 7 else None)
            assert not isinstance(other.answer(given, rows(epoch, slots)), Refusal)
    assert folds(other, range(2)) == folds(held, range(2))
    letters = left_out(Store.at(str(tmp_path / "root")), O, Epoch(7)).letters
    assert [(found.shard, found.rows) for found in letters] == [(0, 1)]


def test_a_shard_that_raised_before_rows_might_be_put_aside_is_restored_before_it_looks_for_them(old: Any) -> None:
    """Spark tells of one failed task only: the other shard must not be taken for one whose search was in vain."""
    held, _ = old
    Fold.bad = int(rows(7, OLD[1])["seq"][3].as_py())
    try:
        refused = held.answer(request(1, 7), rows(7, OLD[1]))
        assert isinstance(refused, Refusal) and refused.kind == "raised"
        refused = held.answer(request(1, 7, aside="find"), rows(7, OLD[1]))
        assert isinstance(refused, Refusal) and refused.kind == "poisoned"
    finally:
        Fold.bad = None


def test_dropped_shards_are_gone_with_all_they_kept(tmp_path: Path, old: Any) -> None:
    held, _ = old
    held.drop([ShardId(O, 0)])
    assert isinstance(held.answer(request(0, 7), rows(7, OLD[0])), Refusal)
    assert not (tmp_path / "old" / "input" / "fold-0").exists()
    assert not isinstance(held.answer(request(1, 7), rows(7, OLD[1])), Refusal)
