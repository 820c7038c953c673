"""A snapshot of spilled state by a real fork: it is the state of that moment, whatever the parent does while the child writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from host_pieces import TestHost, apply_epoch, shard_to_restore, snapshot, spec_of

from perseid import Operator, state
from perseid.engine.host import Answered
from perseid.engine.messages import NotSaved, PartToRead, Saved
from perseid.state import Spilled
from perseid.vocabulary import SLOTS, OperatorName, ShardId

O = OperatorName("hoard")  # noqa: E741
KEYS = 3_000


class Hoard(Operator):
    totals: Spilled[int, int] = state(spill="64 KB")
    texts: Spilled[int, list[str]] = state(spill="64 KB")

    def process(self, rows: pa.Table) -> None:
        keys = rows["k"].to_pylist()
        self.totals.put_many(keys, [n + 1 for n in self.totals.get_many(keys, 0)])
        for key in keys[::10]:
            self.texts.setdefault(key, []).append("x" * 50)


SHARD = ShardId(O, 0)


def host(path: Path, *, epoch: int = 0, parts: tuple[PartToRead, ...] = ()) -> TestHost:
    spec = spec_of(O, Hoard(), "k", "int64", pa.schema([("k", pa.int64())]))
    made = TestHost(path, [spec], path.parent / "root")
    made.restore(shard_to_restore(SHARD, epoch=epoch, parts=parts))
    return made


def apply(host: TestHost, epoch: int) -> None:
    keys = [n * 7_919 % KEYS for n in range(epoch * 700, (epoch + 1) * 700)]
    assert isinstance(host.ask(apply_epoch(SHARD, epoch), pa.table({"k": pa.array(keys, pa.int64())})), Answered)


def contents(host: TestHost) -> dict[str, dict[int, Any]]:
    return {name: {k: list(v) if isinstance(v, list) else v for k, v in getattr(host.operator(SHARD), name).items()}
            for name in ("totals", "texts")}  # fmt: skip


def test_a_child_writes_the_state_of_its_fork_while_the_parent_goes_on(tmp_path: Path) -> None:
    one = host(tmp_path / "one")
    epoch = 0
    for checkpoint in range(1, 6):
        for _ in range(3):
            epoch += 1
            apply(one, epoch)
        expected = contents(one)
        one.machine.handle(snapshot(SHARD, checkpoint, epoch))
        for _ in range(3):
            epoch += 1
            apply(one, epoch)
        saved = one.next(Saved, NotSaved)
        assert isinstance(saved, Saved), saved
        parts = (PartToRead(saved.snapshot, (0, SLOTS)),)
        again = host(tmp_path / f"restored-{checkpoint}", epoch=epoch - 3, parts=parts)
        assert contents(again) == expected
        assert len(again.operator(SHARD).totals) == len(expected["totals"])
    assert sum(contents(one)["totals"].values()) == 700 * epoch
