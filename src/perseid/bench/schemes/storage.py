"""Where checkpoint roots lie in the benchmark: this machine's own disk, or a storage as fast as the paper's (section IV).

In the paper the state of 55 nodes goes to one storage node behind 1 Gb/s, on which the controller runs. A disk of today takes a gigabyte
a second, and then no scheme has anything to save. So the kernel is asked to let no more through: the root gets a filesystem of its
own (a loop device), and Spark and the hosts a control group that reads and writes it at 125 MB/s, all together. The controller,
which writes the ledger, is not in it. Bytes are written and synced as ever.
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
BYTES_PER_S = 125_000_000
"""1 Gb/s."""
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

    @property
    def about(self) -> str:
        return f"storage of {BYTES_PER_S // 1_000_000} MB/s" if self.group is not None else "disk as it is"

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
                f"--storage paper: a filesystem of {BYTES_PER_S // 1_000_000} MB/s cannot be made here ({said}); it takes Linux, root and"
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
    for limit in _LIMITS:
        (group / limit).write_text(f"{os.major(number)}:{os.minor(number)} {BYTES_PER_S}")
    return Storage(mounted, group)


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
