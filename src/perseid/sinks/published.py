"""Epochs on a medium that several drivers may write to: each there wholly, in one version, the newest driver's.

    <path>/epoch=<n>/part-…                 the rows; Spark reads ``<path>`` as one table with a column ``epoch``
    <path>/epoch=<n>/_perseid-<fence>.json  whose version it is: digest, names and sizes of the parts; Spark ignores the name
    <path>/_staging/<fence>/                the folder of the driver that writes now: who has none can change nothing
    <path>/_staging/new-<fence>-…/          what is being written, or was when the driver died

Invariant: what `put` has put stays until a driver with a higher fence replaces it, and then by its whole version. On a local
filesystem ``epoch=<n>`` appears at once; elsewhere file by file, the marker last. A version that is not whole (a part is
missing or has another size) counts as none. When a version replaces another, a crash in between leaves the epoch out; it is
not committed then, and is written again after the restart (X2). Design: *Fencing*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perseid.errors import CorruptData, Fenced
from perseid.sinks.part_files import Part
from perseid.storage.own_folder import folder_name
from perseid.storage.sealed import seal, unseal
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, Fence

STAGING = "_staging"
_MARKER, _SUFFIX = "_perseid", ".json"


@dataclass(frozen=True, slots=True)
class Version:
    """What a marker says of an epoch."""

    digest: str
    fence: Fence
    parts: Mapping[str, int]  # sizes by name


class PublishedEpochs:
    """The epochs of one folder, for one driver."""

    def __init__(self, place: Store) -> None:
        self.place = place

    def holds(self, epoch: Epoch, digest: str) -> bool:
        """Is exactly this epoch there, with every part that its marker names, and no other?"""
        version = self.version(epoch)
        return version is not None and version.digest == digest

    def put(self, epoch: Epoch, digest: str, staged: str, parts: Sequence[Part]) -> None:
        """Give staged files their name, all at once where the medium can do that; durable on return.

        Raises ``Fenced``, with nothing changed, if a newer driver is there.
        """
        place, target, marker = self.place, f"epoch={epoch}", f"{_MARKER}-{folder_name(self.place.fence)}{_SUFFIX}"
        body = {"epoch": epoch, "digest": digest, "fence": place.fence, "parts": {p.name: p.bytes for p in parts}}
        place.write(f"{staged}/{marker}", [seal(body)])
        if place.publish(staged, target, last=marker):
            return
        there = self.version(epoch)
        if there is not None and there.digest == digest:  # put there by an attempt that was given up
            place.delete(staged)
            return
        if there is not None and there.fence >= place.fence:
            raise Fenced(
                f"{place.uri(target)} was written by {'a newer' if there.fence > place.fence else 'this'} driver (fence "
                f"{there.fence}), with other rows: no epoch is replaced by one that is not newer (this one has {place.fence})"
            )
        if not place.publish(staged, target, last=marker, replace=True):
            raise Fenced(f"{place.uri(target)}: another driver writes there as well; see that there is one only")

    def version(self, epoch: Epoch) -> Version | None:
        """The version that is there, if it is whole."""
        folder = f"epoch={epoch}"
        names = self.place.list(folder)
        markers = [name for name in names if name.startswith(_MARKER) and name.endswith(_SUFFIX)]
        if not markers:
            return None
        path = f"{folder}/{max(markers, key=_fence_in)}"
        try:
            marker = unseal(self.place.read(path), path)
            there = {name: self.place.size(f"{folder}/{name}") for name in names if not name.startswith(("_", "."))}
        except (FileNotFoundError, CorruptData):
            return None
        if not isinstance(marker["parts"], dict):  # of a time when markers named no sizes
            return None
        version = Version(marker["digest"], Fence(marker["fence"]), marker["parts"])
        return version if there == version.parts else None


def _fence_in(marker: str) -> int:
    number = marker.removeprefix(f"{_MARKER}-").removesuffix(_SUFFIX)
    return int(number) if number.isdigit() else 0
