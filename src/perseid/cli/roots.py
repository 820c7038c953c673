"""Opens a checkpoint root to look at it: nothing is written, so that a typing error makes no folder."""

from __future__ import annotations

from pathlib import Path

from perseid.errors import RootError
from perseid.storage.local import LocalStore
from perseid.storage.remote import RemoteStore
from perseid.storage.store import Store, local_folder


def existing_root(root: str) -> Store:
    """The store at ``root``. Raises ``RootError`` when no application has ever run there."""
    folder = local_folder(root)
    if folder is not None and not folder.is_dir():
        raise RootError(f"{root}: {'is a file' if folder.exists() else 'no such folder'}; expected a checkpoint root")
    store: Store = LocalStore(folder) if folder is not None else RemoteStore.from_uri(root)
    if not any(store.exists(name) for name in ("app.json", "lease", "journal")):
        raise RootError(f"{root}: is not a checkpoint root: it has no app.json, lease or journal{_nearby(folder)}")
    return store


def _nearby(folder: Path | None) -> str:
    """A checkpoint root one level below, if there is just one: the likely meaning."""
    below = [sub for sub in folder.iterdir() if (sub / "app.json").is_file()] if folder is not None else []
    return f"; did you mean {below[0]}?" if len(below) == 1 else ""
