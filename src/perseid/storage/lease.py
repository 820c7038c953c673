"""The lease: which driver runs the application. Every start on a root is a new generation, one more than the last.

Invariant: a generation is given to one driver only (its file is created atomically), and is over for good once a
higher one exists. ``check`` tells a driver so early; what it does in spite of it fails where it writes, by its ``fence``
(`own_folder`). No decision about safety rests on a clock: who starts watches the holder for a sign of life, by its own
monotonic clock; the time of day only says whether a short watch will do. Spec: M1; design 8, *Two writers*.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from perseid.duration import Duration, every
from perseid.errors import CorruptData, Fenced, LeaseHeld, RootError
from perseid.storage import layout
from perseid.storage.process import Process
from perseid.storage.sealed import seal, unseal
from perseid.storage.store import Store
from perseid.vocabulary import Fence, Generation

RENEWAL = every(seconds=1)
"""How often the shell renews."""
_LAST_LOOK = Duration(3 * RENEWAL.seconds)  # how long a holder that seems to be late is watched for a sign of life
_FENCES = 1_000_000  # more starts than a root ever sees
_KEPT = 16  # old lease files; the number is of no importance
_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease, and when it was last heard of."""

    generation: Generation
    owner: str
    process: Process
    renewed_ms: int
    beat: int = 0  # counts renewals, for watchers whose clocks disagree
    released: bool = False
    born_ms: int = 0  # when the root had its first driver: tells its drivers from those of a root that was there before

    def to_json(self) -> dict[str, Any]:
        return {
            "generation": self.generation,
            "owner": self.owner,
            "process": self.process.to_json(),
            "renewed_ms": self.renewed_ms,
            "beat": self.beat,
            "released": self.released,
            "born_ms": self.born_ms,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Holder:
        process = Process.from_json(data["process"])
        return cls(
            Generation(data["generation"]), data["owner"], process, data["renewed_ms"], data["beat"], data["released"],
            data.get("born_ms", 0),
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{self.owner!r} (process {self.process.pid} on {self.process.host}, generation {self.generation})"


class Lease:
    """A driver's right to run the application on a root, until a newer driver takes it."""

    def __init__(self, store: Store, holder: Holder, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._holder = holder
        self._now_ms = now_ms
        self._lock = threading.Lock()  # a renewal must not overtake the release

    @classmethod
    def acquire(cls, store: Store, *, owner: str, now_ms: Callable[[], int], timeout: Duration) -> Lease:
        """Become the driver of this root. Raises ``LeaseHeld`` as soon as another one shows that it is alive.

        One that is silent for ``timeout`` is taken over, and so is at once one on this machine whose process is dead. If
        it has been silent for so long by the time of day, a short watch will do: a clock that jumped takes the root from
        nobody who renews.
        """
        tried = 0
        for _ in range(_ATTEMPTS):
            newest = newest_generation(store)
            if newest and (reason := _why_held(store, newest, now_ms, timeout)):
                raise LeaseHeld(reason)
            # Beyond what was tried: elsewhere than on a local root, somebody may have died over creating that one.
            ledgers = _generations(store, layout.LEDGERS)  # the lease folder may have been lost
            generation = Generation(max(newest, tried, *ledgers) + 1)
            holder = Holder(generation, owner, Process.this(), now_ms(), born_ms=_born_ms(store) or now_ms())
            if store.create(layout.lease(generation), seal(holder.to_json())):
                for old in _generations(store, layout.LEASES):
                    if old <= generation - _KEPT:
                        store.delete(layout.lease(old))
                return cls(store, holder, now_ms)
            tried = generation
        raise LeaseHeld(f"{store.root}: {_ATTEMPTS} times another driver was faster to start; start one driver only")

    @property
    def generation(self) -> Generation:
        return self._holder.generation

    @property
    def fence(self) -> Fence:
        """This driver's number on whatever it writes to."""
        return Fence(self._holder.born_ms * _FENCES + self._holder.generation)

    def renew(self) -> None:
        """Say that this driver is alive. Raises ``Fenced`` if a newer one has taken over. Nothing after ``release``."""
        with self._lock:
            if self._holder.released:
                return
            self.check()
            self._say(replace(self._holder, renewed_ms=self._now_ms(), beat=self._holder.beat + 1))

    def check(self) -> None:
        """Raise ``Fenced`` if a newer generation exists. Cheap: called before and after every commit."""
        mine = self.generation
        # Both looks are needed: newer files may be old enough to be cleaned away, and a listing may miss the one
        # being renewed.
        names = self._store.list(layout.LEASES)
        newer = max((g for name in names if (g := layout.generation_of(name)) is not None), default=0)
        if newer > mine or self._store.exists(layout.lease(Generation(mine + 1))):
            raise Fenced(
                f"{self._store.root}: generation {max(newer, mine + 1)} of the driver has taken over from generation "
                f"{mine}; this driver stops, nothing it does from now on counts"
            )
        if newer < mine and not self._store.exists(layout.lease(mine)):
            raise RootError(
                f"{self._store.root}: the lease is gone: the root was deleted or replaced under this driver"
            )

    def release(self) -> None:
        """Give the root back, so that the next driver need not wait. Nothing if it was taken over already."""
        with self._lock:
            if self._holder.released:
                return
            try:
                self.check()
            except RootError:
                self._holder = replace(self._holder, released=True)
                return
            self._say(replace(self._holder, released=True))

    def _say(self, holder: Holder) -> None:
        self._store.write(layout.lease(holder.generation), [seal(holder.to_json())])
        self._holder = holder


def newest_generation(store: Store) -> Generation:
    """The newest generation that has a lease; 0 if none ever had."""
    return max(_generations(store, layout.LEASES), default=Generation(0))


def read_holder(store: Store, generation: Generation) -> Holder:
    """Who holds or held a generation. Raises ``CorruptData`` or ``FileNotFoundError``."""
    path = layout.lease(generation)
    try:
        return Holder.from_json(unseal(store.read(path), store.uri(path)))
    except (KeyError, TypeError) as error:
        raise CorruptData(f"{store.uri(path)} was written by another version of Perseid: {error!r}") from error


def _generations(store: Store, folder: str) -> list[Generation]:
    return [g for name in store.list(folder) if (g := layout.generation_of(name)) is not None]


def _why_held(store: Store, generation: Generation, now_ms: Callable[[], int], timeout: Duration) -> str | None:
    """Why the newest lease may not be taken over; None if it may."""
    try:
        holder = read_holder(store, generation)
    except FileNotFoundError:
        return None
    except CorruptData:
        return _sign_of_life(store, generation, timeout, None)
    late = now_ms() - holder.renewed_ms > timeout.ms
    return _sign_of_life(store, generation, min(timeout, _LAST_LOOK) if late else timeout, holder)


def _sign_of_life(store: Store, generation: Generation, wait: Duration, holder: Holder | None) -> str | None:
    """Watch the lease for so long; what to say to who must not take it over, None if nobody renews it."""
    path = layout.lease(generation)
    until = time.monotonic() + wait.seconds
    try:
        before = store.read(path)
        while True:
            if holder is not None and (holder.released or holder.process.is_dead()):
                return None
            if time.monotonic() >= until:
                return None
            time.sleep(min(0.05, wait.seconds / 4))
            if store.read(path) == before:
                continue
            with suppress(CorruptData):
                holder = read_holder(store, generation)
                if holder.released:
                    return None
            who = holder or "a driver"
            return f"{store.root} is in use by {who}: it has renewed its lease just now; stop that driver first"
    except FileNotFoundError:
        return None  # cleaned away: there are newer ones, and ``acquire`` will meet them


def _born_ms(store: Store) -> int | None:
    """When the root had its first driver; None if there was none, or nobody knows."""
    for generation in sorted(_generations(store, layout.LEASES), reverse=True):
        with suppress(CorruptData, FileNotFoundError):
            return read_holder(store, generation).born_ms
    return None
