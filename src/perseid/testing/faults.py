"""The faults a test can ask for, as data: what is hit, how, for how long. Frozen, comparable, printable.

Invariant: a fault that exists is well formed; whether its target exists is found out when it strikes. Nothing is done here
(``injection``), and nothing says when (``plan``).

A host is named by its place among the hosts that hold shards (0, 1, …, by their ids), by a shard (``"count/0"``), or by
one of the words of ``HOSTS``; an executor by its place among them (oldest first), ``"any"``, ``"all"``, or a shard in it. A party
of a partition is a host, ``"driver"`` or ``"tasks"``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from perseid.errors import FaultError

Target: TypeAlias = int | str

HOSTS = ("any", "all", "spare")
"""Besides places and shards: any host that holds shards, all hosts at once, a spare."""
PARTIES = ("driver", "tasks", "any")


class NotNow(FaultError):
    """What a fault names is not there at this moment; it may be later."""


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL to a host, or to an executor with all hosts and tasks in it."""

    host: Target | None = None
    executor: Target | None = None

    def __post_init__(self) -> None:
        _require_host_or_executor("kill", self.host, self.executor)

    def __str__(self) -> str:
        return f"kill {_host_or_executor(self)}"


@dataclass(frozen=True, slots=True)
class Pause:
    """SIGSTOP to a host, or to an executor with all in it; SIGCONT after a while: it wakes up and believes nothing happened."""

    host: Target | None = None
    seconds: float = 3.0
    executor: Target | None = None

    def __post_init__(self) -> None:
        if self.host is None and self.executor is None:
            object.__setattr__(self, "host", "any")
        _require_host_or_executor("pause", self.host, self.executor)
        _require_seconds("pause", self.seconds)

    def __str__(self) -> str:
        return f"pause {_host_or_executor(self)} for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Slow:
    """A host that is stopped for ``percent`` of every tenth of a second: alive, but late with everything."""

    host: Target = "any"
    seconds: float = 5.0
    percent: int = 80

    def __post_init__(self) -> None:
        _require_host("slow", self.host)
        _require_seconds("slow", self.seconds)
        if isinstance(self.percent, bool) or not isinstance(self.percent, int) or not 1 <= self.percent <= 99:
            raise FaultError(f"slow(percent={self.percent!r}): expected a whole number from 1 to 99")

    def __str__(self) -> str:
        return f"slow host {self.host} by {self.percent} % for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Overload:
    """Processes that burn all cores of the machine, before others where the system lets them."""

    seconds: float = 5.0
    processes: int | None = None

    def __post_init__(self) -> None:
        _require_seconds("overload", self.seconds)
        count = self.processes
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 256):
            raise FaultError(f"overload(processes={count!r}): expected a number from 1 to 256")

    def __str__(self) -> str:
        return f"overload the machine for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Partition:
    """Connections between two parties are dropped, and new ones refused, for a while."""

    one: Target = "any"
    other: Target = "driver"
    seconds: float = 3.0

    def __post_init__(self) -> None:
        for party in (self.one, self.other):
            if not (_is_place(party) or party in PARTIES or _is_shard(party)):
                raise FaultError(f"partition: party {party!r}: expected a host ({_places()}), 'driver' or 'tasks'")
        ends = {self.one, self.other} & {"driver", "tasks"}
        if len(ends) == 2 or self.one == self.other:
            raise FaultError(f"partition({self.one!r}, {self.other!r}): expected a host and somebody else")
        _require_seconds("partition", self.seconds)

    def __str__(self) -> str:
        return f"partition {_party(self.one)} and {_party(self.other)} for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Corrupt:
    """One snapshot of a checkpoint loses a byte in its middle (``flip``) or its second half (``cut``)."""

    how: Literal["flip", "cut"] = "flip"
    checkpoint: int | Literal["newest", "all"] = "newest"
    shard: str | None = None

    def __post_init__(self) -> None:
        if self.how not in ("flip", "cut"):
            raise FaultError(f"corrupt(how={self.how!r}): expected 'flip' or 'cut'")
        if not (_is_place(self.checkpoint) or self.checkpoint in ("newest", "all")):
            raise FaultError(f"corrupt(checkpoint={self.checkpoint!r}): expected its number, 'newest' or 'all'")
        if self.shard is not None and not _is_shard(self.shard):
            raise FaultError(f"corrupt(shard={self.shard!r}): expected a shard such as 'count/0'")

    def __str__(self) -> str:
        return f"corrupt ({self.how}) {self.shard or 'a snapshot'} of checkpoint {self.checkpoint}"


@dataclass(frozen=True, slots=True)
class FailStorage:
    """The checkpoint root is full, slow or unreachable for a while."""

    how: Literal["full", "slow", "unreachable"] = "unreachable"
    seconds: float = 3.0

    def __post_init__(self) -> None:
        if self.how not in ("full", "slow", "unreachable"):
            raise FaultError(f"fail_storage(how={self.how!r}): expected 'full', 'slow' or 'unreachable'")
        _require_seconds("fail_storage", self.seconds)

    def __str__(self) -> str:
        return f"storage {self.how} for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class CrashDriver:
    """SIGKILL to everything: driver, JVMs, tasks, hosts. It is started again at once with the same command."""

    def __str__(self) -> str:
        return "crash the driver and all it has started"


Fault: TypeAlias = Kill | Pause | Slow | Overload | Partition | Corrupt | FailStorage | CrashDriver

KINDS: dict[str, type[Any]] = {
    "kill": Kill,
    "pause": Pause,
    "slow": Slow,
    "overload": Overload,
    "partition": Partition,
    "corrupt": Corrupt,
    "fail_storage": FailStorage,
    "crash_driver": CrashDriver,
}


def kind_of(fault: Fault) -> str:
    """The name a test uses for it."""
    return next(name for name, cls in KINDS.items() if cls is type(fault))


def fault(kind: str, *args: Any, **options: Any) -> Fault:
    """A fault by its name. Raises ``FaultError`` for one that does not exist, or an option it does not have."""
    cls = KINDS.get(kind)
    if cls is None:
        raise FaultError(f"{kind!r}: no such fault; there are {', '.join(KINDS)}")
    names = [field.name for field in fields(cls)]
    strange = [name for name in options if name not in names]
    if strange or len(args) > len(names):
        came = ", ".join(strange) or f"{len(args)} values"
        raise FaultError(f"{kind}: it has no {came}; expected {', '.join(names) or 'nothing'}")
    made: Fault = cls(*args, **options)
    return made


def _host_or_executor(fault: Kill | Pause) -> str:
    return f"executor {fault.executor}" if fault.host is None else f"host {fault.host}"


def _require_host_or_executor(kind: str, host: object, executor: object) -> None:
    if (host is None) == (executor is None):
        came = "neither" if host is None else "both"
        raise FaultError(f"{kind}: expected either host= or executor=, got {came}")
    if host is not None:
        _require_host(kind, host)
    elif not (_is_place(executor) or executor in ("any", "all") or _is_shard(executor)):
        raise FaultError(f"{kind}(executor={executor!r}): expected {_places()}, 'any' or 'all'")


def _require_host(kind: str, host: object) -> None:
    if not (_is_place(host) or host in HOSTS or _is_shard(host)):
        raise FaultError(f"{kind}(host={host!r}): expected {_places()}, or one of {', '.join(map(repr, HOSTS))}")


def _require_seconds(kind: str, seconds: object) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= 3600:
        raise FaultError(f"{kind}(seconds={seconds!r}): expected more than 0 and at most 3600")


def _places() -> str:
    return "a place from 0 on, or a shard such as 'count/0'"


def _party(party: Target) -> str:
    return f"the {party}" if party in ("driver", "tasks") else f"host {party}"


def _is_place(target: object) -> bool:
    return isinstance(target, int) and not isinstance(target, bool) and target >= 0


def _is_shard(target: object) -> bool:
    return isinstance(target, str) and target.rpartition("/")[2].isdigit() and bool(target.rpartition("/")[0])
