"""Saved rows are all there, or they are named as damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from perseid.errors import CorruptData
from perseid.storage import saved_rows
from perseid.storage.store import Store

FOLDER = "checkpoints/00000001/inflight/s/epoch=3"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = Store.at(str(tmp_path))
    staged = store.staging()
    for number in range(3):
        store.write(f"{staged}/part-{number}.parquet", [b"rows" * (number + 1)])
    store.write(f"{staged}/_SUCCESS", [b""])
    saved_rows.publish(store, staged, FOLDER, "abc")
    return tmp_path


def test_saved_rows_are_the_files_that_were_listed(folder: Path) -> None:
    store = Store.at(str(folder))
    assert saved_rows.files(store, FOLDER) == {"part-0.parquet": 4, "part-1.parquet": 8, "part-2.parquet": 12}
    assert saved_rows.digest_of(store, FOLDER) == "abc"


def damage_missing(folder: Path) -> None:
    (folder / FOLDER / "part-1.parquet").unlink()


def damage_cut(folder: Path) -> None:
    (folder / FOLDER / "part-1.parquet").write_bytes(b"row")


def damage_added(folder: Path) -> None:
    (folder / FOLDER / "part-1b.parquet").write_bytes(b"rows")


def damage_list(folder: Path) -> None:
    path = folder / FOLDER / f"_perseid_rows-{0:020d}"
    path.write_bytes(path.read_bytes().replace(b"abc", b"abd"))


def damage_unlisted(folder: Path) -> None:
    (folder / FOLDER / f"_perseid_rows-{0:020d}").unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (damage_missing, "part-1.parquet: expected 8 bytes, got no file"),
        (damage_cut, "part-1.parquet: expected 8 bytes, got 3 bytes"),
        (damage_added, "part-1b.parquet: expected no file, got 4 bytes"),
        (damage_list, "fails its hash"),
        (damage_unlisted, "are missing"),
    ],
)
def test_damage_is_named(folder: Path, damage: object, said: str) -> None:
    store = Store.at(str(folder))
    damage(folder)  # type: ignore[operator]
    with pytest.raises(CorruptData, match=said):
        saved_rows.files(store, FOLDER)
    assert saved_rows.digest_of(store, FOLDER) is None, "an epoch that is not all there is saved again"
