"""Where checkpoint roots lie in the benchmark: this machine's own disk, or a storage that is to its application what the paper's was.

A disk of today takes a gigabyte a second, and then no scheme has anything to save. So the kernel is asked to let no more through than it is
told (``Case.storage_bytes_per_s``): the root gets a filesystem of its own (a loop device), and Spark and the hosts a control group that
reads and writes it that fast, all together. The controller, which writes the ledger, is not in it; the paper's ran on the storage
node. Bytes are written and synced as ever.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perseid.errors import SettingsError

KINDS = ("paper", "disk")
IMAGE_BYTES = 24 << 30
"""How large the filesystem may become; its file takes no more room than what is in it."""
_GROUPS = Path("/sys/fs/cgroup/blkio")
_MEMBERS = "cgroup.procs"
_TRIES = 30
_LIMITS = ("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device")


@dataclass(frozen=True, slots=True)
class Storage:
    """A folder for roots, and the control group whose members have the paper's share of it (None: the disk as it is)."""

    folder: Path
    group: Path | None = None
    device: str = ""  # its numbers, as the kernel names it

    @property
    def about(self) -> str:
        return "storage as slow as the paper's" if self.group is not None else "disk as it is"

    def limit(self, bytes_per_s: float) -> bool:
        """From now on its group reads and writes no faster, if there is one."""
        if self.group is None:
            return False
        for limit in _LIMITS:
            (self.group / limit).write_text(f"{self.device} {round(bytes_per_s)}")
        return True

    def join(self) -> None:
        """This process, and all that it will start."""
        if self.group is not None:
            (self.group / _MEMBERS).write_text(str(os.getpid()))

    def leave(self) -> None:
        """This process alone: what it has started stays."""
        if self.group is not None:
            (_GROUPS / _MEMBERS).write_text(str(os.getpid()))


@contextlib.contextmanager
def storage(kind: str, folder: Path) -> Iterator[Storage]:
    """A place for roots, as long as it is needed."""
    if kind not in KINDS:
        raise SettingsError(f"--storage {kind}: expected one of {', '.join(KINDS)}")
    if kind == "disk":
        yield Storage(folder)
        return
    with contextlib.ExitStack() as made:
        before = signal.signal(signal.SIGTERM, _end)  # whoever ends the benchmark early does not mean the mount to stay
        made.callback(signal.signal, signal.SIGTERM, before)
        try:
            found = _limited(folder, made)
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or error
            raise SettingsError(
                f"--storage paper: a filesystem of a speed of its own cannot be made here ({said}); it takes Linux, root and"
                " control groups with blkio. --storage disk takes the disk as it is"
            ) from error
        yield found


def _limited(folder: Path, made: contextlib.ExitStack) -> Storage:
    image, mounted = folder / "storage.img", folder / "storage"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    device = _run("losetup", "--find", "--show", str(image)).strip()
    made.callback(_undo, "losetup", "--detach", device)
    image.unlink()  # it is gone with the device
    _run("mkfs.ext4", "-q", "-F", device)
    mounted.mkdir()
    _run(
        "mount", "-o", "data=writeback", device, str(mounted)
    )  # else the journal's thread, which is nobody's, writes data
    made.callback(_undo, "umount", "--lazy", str(mounted))
    group = _GROUPS / f"perseid-bench-{os.getpid()}"
    group.mkdir()
    made.callback(_leave, group)
    number = Path(device).stat().st_rdev
    return Storage(mounted, group, f"{os.major(number)}:{os.minor(number)}")


def _end(*_: object) -> None:
    raise SystemExit(143)


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def _undo(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=False)


def _leave(group: Path) -> None:
    """A group goes when nobody is in it any more; whoever still is, and ends, goes back to everybody's."""
    for _ in range(_TRIES):
        with contextlib.suppress(OSError):
            for pid in (group / _MEMBERS).read_text().split():
                (_GROUPS / _MEMBERS).write_text(pid)
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)
