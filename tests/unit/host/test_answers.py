"""Answers a shard keeps for those below: bounded in memory and on disk, and what is kept is what was said."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from perseid.host.answers import Answer, Spill
from perseid.vocabulary import Epoch, OperatorName, ShardId

SHARD = ShardId(OperatorName("count"), 0)
SIZE = 8_000  # bytes of one answer


def table(epoch: int) -> pa.Table:
    return pa.table({"n": pa.array([epoch] * (SIZE // 8), pa.int64())})


def said(spill: Spill, epochs: int) -> tuple[dict[Epoch, Answer], list[Epoch | None]]:
    answers: dict[Epoch, Answer] = {}
    no_room = []
    for number in range(1, epochs + 1):
        answers[Epoch(number)] = spill.keep(table(number), SHARD, Epoch(number))
        no_room.append(spill.shrink(answers))
    return answers, no_room


def test_small_answers_stay_in_memory_and_write_no_file(tmp_path: Path) -> None:
    answers, no_room = said(Spill(tmp_path / "spill", memory_bytes=10 * SIZE), 12)
    assert all(answer.table is not None for answer in answers.values())
    assert set(no_room) == {None} and not (tmp_path / "spill").exists()


def test_beyond_the_memory_they_go_to_disk_and_come_back_as_they_were(tmp_path: Path) -> None:
    spill = Spill(tmp_path / "spill", memory_bytes=3 * SIZE)
    answers, no_room = said(spill, 20)
    assert [e for e, answer in answers.items() if answer.table is not None] == [16, 17, 18, 19, 20]
    assert len(list((tmp_path / "spill").iterdir())) == 15 and set(no_room) == {None}
    for epoch, answer in answers.items():
        again = spill.table(answer)
        assert again.equals(table(epoch))
        assert not [b for chunk in again["n"].chunks for b in chunk.buffers() if b is not None and b.address % 8]


def test_the_oldest_have_no_room_when_the_disk_has_its_share(tmp_path: Path) -> None:
    _, no_room = said(Spill(tmp_path / "spill", memory_bytes=0, disk_bytes=4 * SIZE), 8)
    assert no_room == [None] * 6 + [1, 2]  # two in memory, four on disk


def test_a_disk_without_room_leaves_the_two_newest(tmp_path: Path) -> None:
    (tmp_path / "spill").write_text("not a folder")
    answers, no_room = said(Spill(tmp_path / "spill", memory_bytes=0), 3)
    assert no_room == [None, None, 1] and len(answers) == 3
