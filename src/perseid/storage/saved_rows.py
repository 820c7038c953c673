"""Rows saved as a folder of files: a sealed list beside them says which files belong to it, and how large they are.

Spark reads whatever a folder holds: a file that is missing would be rows that are missing, and nobody would know.

Invariant: a folder is taken for saved rows only if every file of its list is there, whole, and no other. The list is named by the
fence of the driver that wrote it: where a folder cannot be moved at once, a late driver removes its own list and no other. Spec: L4.
"""

from __future__ import annotations

from typing import Any

from perseid.errors import CorruptData, Fenced
from perseid.storage.own_folder import folder_name
from perseid.storage.sealed import seal, unseal
from perseid.storage.store import Store

_LIST = "_perseid_rows"
_SUFFIX = ".parquet"


def publish(store: Store, staged: str, folder: str, digest: str) -> None:
    """All files are staged: list them, and give the folder its name. ``digest`` says of which epoch they are.

    What is there under that name already stays if it is the same epoch; else it is replaced. Raises ``Fenced``.
    """
    name = f"{_LIST}-{folder_name(store.fence)}"
    store.write(f"{staged}/{name}", [seal({"digest": digest, "files": _sizes(store, staged)})])
    store.sync(staged)
    if store.publish(staged, folder, last=name):
        return
    if digest and digest_of(store, folder) == digest:
        store.delete(staged)
    elif not store.publish(staged, folder, last=name, replace=True):
        raise Fenced(f"{store.uri(folder)}: another driver writes there as well; see that there is one only")


def digest_of(store: Store, folder: str) -> str | None:
    """Of the epoch saved there; None if there is none, or not all of it."""
    try:
        return str(_listed(store, folder)["digest"])
    except CorruptData:
        return None


def files(store: Store, folder: str) -> dict[str, int]:
    """The files by name, and their sizes. Raises ``CorruptData`` that says what is missing."""
    found: dict[str, int] = _listed(store, folder)["files"]
    return found


def _listed(store: Store, folder: str) -> dict[str, Any]:
    """The list, if it is true."""
    where = store.uri(folder)
    name = max((name for name in store.list(folder) if name.startswith(_LIST)), default=None)
    try:
        if name is None:
            raise FileNotFoundError
        body = unseal(store.read(f"{folder}/{name}"), f"{where}/{name}")
        listed, found = body["files"], _sizes(store, folder)
    except FileNotFoundError:
        raise CorruptData(f"saved rows {where} are missing") from None
    for name in sorted(listed.keys() | found.keys()):
        if listed.get(name) != found.get(name):
            told, got = (f"{n} bytes" if n is not None else "no file" for n in (listed.get(name), found.get(name)))
            raise CorruptData(f"saved rows {where}: {name}: expected {told}, got {got}")
    return body


def _sizes(store: Store, folder: str) -> dict[str, int]:
    names = sorted(name for name in store.list(folder) if name.endswith(_SUFFIX))
    return {name: store.size(f"{folder}/{name}") for name in names}
