from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from perseid.duration import every
from perseid.storage.lease import Lease
from perseid.storage.remote import RemoteStore
from perseid.storage.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(str(tmp_path / "root"))


@pytest.fixture
def elsewhere(tmp_path: Path) -> RemoteStore:
    """A store that is not local, as far as the library can tell."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    store = RemoteStore(pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem()), "root", "test://root")
    store.probe()
    return store


class NoReplace:
    """A filesystem like HDFS, which moves no file to where another is."""

    def __init__(self, filesystem: pafs.FileSystem) -> None:
        self.filesystem = filesystem

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.filesystem, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return NoReplace, (self.filesystem,)

    def move(self, old: str, new: str) -> None:
        if self.filesystem.get_file_info(new).type != pafs.FileType.NotFound:
            raise OSError("HDFS rename failed")
        self.filesystem.move(old, new)


@pytest.fixture
def hdfs(elsewhere: RemoteStore) -> Store:
    return RemoteStore(NoReplace(elsewhere.filesystem), elsewhere.folder, elsewhere.root)


@pytest.fixture(params=["store", "elsewhere", "hdfs"])
def any_store(request: pytest.FixtureRequest) -> Store:
    found: Store = request.getfixturevalue(request.param)
    return found


@dataclass
class Clock:
    """Time as the test says."""

    ms: int = 1_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def start(clock: Clock) -> Callable[[Store], Lease]:
    """Start a driver, after whoever was there before has gone."""

    def acquire(store: Store) -> Lease:
        return Lease.acquire(store, owner="test", now_ms=clock, timeout=every(milliseconds=50))

    return acquire


@pytest.fixture
def take_over(clock: Clock, start: Callable[[Store], Lease]) -> Callable[[Store], Lease]:
    """Start a driver while the one before only sleeps: its lease runs out."""

    def acquire(store: Store) -> Lease:
        clock.ms += 10_000
        return start(store)

    return acquire
