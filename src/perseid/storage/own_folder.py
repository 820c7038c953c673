"""A driver's own folder on a medium that several drivers may write to: the fence between them.

All that a driver puts into its place, and all that it takes away, goes by a rename through its own folder. A newer driver first makes
its own folder, then takes away those of all older ones. So a driver that was paused, wakes, and goes on in the middle of a write finds
that the folder is gone: the rename fails, whatever it had looked at before. Nothing but `claim` makes such a folder.

Invariant: once `claim` has returned, no folder of a lower fence exists, and none will be used: who makes one later sees the higher one,
since it looks after it has made it. Operating system calls only. Design: *Fencing*.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from perseid.errors import Fenced, StorageFailed
from perseid.storage.durable import make_folder, sync_folder
from perseid.storage.store import token
from perseid.vocabulary import Fence

_DIGITS = 20
_NEW = "new"  # what others write before it goes through a driver's folder: new-<fence>-<token>
_GONE = "gone"
_ATTEMPTS = 100


def claim(place: Path, fence: Fence) -> Path:
    """The folder of the driver with this fence, made anew and empty. Raises ``Fenced`` if there is a newer driver."""
    make_folder(place)
    own = place / folder_name(fence)
    for _ in range(_ATTEMPTS):
        try:
            own.mkdir()
            break
        except FileExistsError:
            _take_away(own)  # of this very driver, which opens the medium a second time
    else:
        raise StorageFailed(f"cannot make {own} anew: somebody else makes it again and again; see who does")
    names = [entry.name for entry in place.iterdir()]
    if newest_fence(names) > fence:
        own.rmdir()
        raise Fenced(taken_over(str(place.parent), newest_fence(names), fence))
    sync_folder(place)
    for name in names:
        if is_before(name, fence):
            _take_away(place / name)
    for name in names:
        if is_left_by_others(name, fence):  # late tasks may still write there: nobody will ever read it
            shutil.rmtree(place / name, ignore_errors=True)
    sync_folder(place)
    return own


def _take_away(folder: Path) -> None:
    """Gone under its name at once; and then for good, also for who has it open."""
    doomed = folder.with_name(f"{_GONE}-{token()}")
    try:
        folder.rename(doomed)
    except FileNotFoundError:
        return
    for _ in range(_ATTEMPTS):
        shutil.rmtree(doomed, ignore_errors=True)
        if not doomed.exists():
            return
    raise StorageFailed(f"cannot remove {doomed}: something goes on writing there; see which process does")


def folder_name(fence: Fence) -> str:
    return f"{fence:0{_DIGITS}d}"


def new_name(fence: Fence) -> str:
    """A name for what others write."""
    return f"{_NEW}-{folder_name(fence)}-{token()}"


def newest_fence(names: Iterable[str]) -> Fence:
    """The highest fence that has a folder; 0 if none has."""
    return max((found for name in names if (found := _fence_of(name)) is not None), default=Fence(0))


def is_before(name: str, fence: Fence) -> bool:
    """Is this the folder of an older driver?"""
    found = _fence_of(name)
    return found is not None and found < fence


def is_left_by_others(name: str, fence: Fence) -> bool:
    """Is this what was written for an older driver, or left of its folder?"""
    kind, _, rest = name.partition("-")
    if kind == _GONE:
        return True
    found = _fence_of(rest.partition("-")[0]) if kind == _NEW else None
    return found is not None and found <= fence


def taken_over(where: str, newest: Fence, fence: Fence) -> str:
    return (
        f"{where}: a newer driver (fence {newest}) has taken over from this one (fence {fence}), which changes nothing there any "
        f"more. Stop this one; or, if no other driver is meant to write there, use another folder"
    )


def _fence_of(name: str) -> Fence | None:
    return Fence(int(name)) if len(name) == _DIGITS and name.isascii() and name.isdigit() else None
