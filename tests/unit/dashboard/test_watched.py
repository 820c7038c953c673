"""A long journal is shown from its newest part at once, and whole a moment later."""

from __future__ import annotations

from pathlib import Path

import pytest
import written

from perseid.cli.roots import existing_root
from perseid.dashboard import views, watched
from perseid.dashboard.picture import Picture
from perseid.dashboard.watched import WatchedRoot
from perseid.storage.journal_segments import Limits


def shape(picture: Picture) -> tuple[object, ...]:
    """What does not depend on how much of the journal was read."""
    seen = views.overview(picture, "released")
    hosts = [(host["id"], host["address"], host["shards"]) for host in seen["hosts"]]
    return seen["app"], seen["epoch"], seen["phase"], [node["name"] for node in seen["graph"]["nodes"]], hosts


def test_the_newest_part_shows_graph_hosts_and_shards_and_the_whole_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.week(str(tmp_path), epochs=2_500, limits=Limits(segment_bytes=100_000))
    whole, newest = (WatchedRoot(existing_root(str(tmp_path))) for _ in range(2))
    whole.look()
    monkeypatch.setattr(watched, "NEWEST", 100_000)
    newest.start()
    newest.wait(0, 60)
    first, older = newest.shown(shape), newest.older
    while newest.older or newest.shown(lambda picture: picture.totals.epochs) < 2_500:
        older = older or newest.older
        newest.wait(newest.revision, 0.01)
    newest.close()
    assert older, "the newest part was shown before the rest"
    assert first == newest.shown(shape) == whole.shown(shape)
    assert newest.shown(lambda picture: picture.totals) == whole.shown(lambda picture: picture.totals)


def test_a_journal_that_has_lost_its_beginning_still_shows_graph_hosts_and_shards(tmp_path: Path) -> None:
    written.week(str(tmp_path), epochs=1_000, limits=Limits(segment_bytes=50_000))
    kept, root = (WatchedRoot(existing_root(str(tmp_path))) for _ in range(2))
    kept.look()
    first = min((tmp_path / "journal").iterdir())
    assert b"app_started" in first.read_bytes()
    first.unlink()
    root.look()
    assert root.shown(shape) == kept.shown(shape)


def test_torn_lines_are_counted(tmp_path: Path) -> None:
    written.week(str(tmp_path), epochs=10)
    (path,) = (tmp_path / "journal").iterdir()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:9], lines[9][:30], b"\n", b"\x00\xff\n", *lines[10:]]))
    root = WatchedRoot(existing_root(str(tmp_path)))
    root.look()
    assert root.torn == 2 and root.shown(lambda picture: picture.phase) == "stopped"
