"""Rows saved as a folder of files: a sealed list beside them says which files belong to it, and how large they are.

Spark reads whatever a folder holds: a file that is missing would be rows that are missing, and nobody would know.

Invariant: a folder is taken for saved rows only if every file of its list is there, whole, and no other. Spec: L4.
"""

from __future__ import annotations

from perseid.errors import CorruptData
from perseid.storage.sealed import seal, unseal
from perseid.storage.store import Store

_LIST = "_perseid_rows"
_SUFFIX = ".parquet"


def complete(store: Store, folder: str, digest: str) -> None:
    """All files of the folder are written: list them. ``digest`` says of which epoch they are."""
    store.write(f"{folder}/{_LIST}", [seal({"digest": digest, "files": _sizes(store, folder)})])


def digest_of(store: Store, folder: str) -> str | None:
    """Of the epoch saved there; None if there is none, or not all of it."""
    try:
        files(store, folder)
        return str(unseal(store.read(f"{folder}/{_LIST}"), folder)["digest"])
    except CorruptData:
        return None


def files(store: Store, folder: str) -> dict[str, int]:
    """The files by name, and their sizes. Raises ``CorruptData`` that says what is missing."""
    where = store.uri(folder)
    try:
        listed = unseal(store.read(f"{folder}/{_LIST}"), f"{where}/{_LIST}")["files"]
    except FileNotFoundError:
        raise CorruptData(f"saved rows {where} are missing") from None
    found = _sizes(store, folder)
    for name in sorted(listed.keys() | found.keys()):
        if listed.get(name) != found.get(name):
            told, got = (f"{n} bytes" if n is not None else "no file" for n in (listed.get(name), found.get(name)))
            raise CorruptData(f"saved rows {where}: {name}: expected {told}, got {got}")
    return found


def _sizes(store: Store, folder: str) -> dict[str, int]:
    names = sorted(name for name in store.list(folder) if name.endswith(_SUFFIX))
    return {name: store.size(f"{folder}/{name}") for name in names}
