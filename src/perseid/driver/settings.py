"""The settings of one run, checked before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perseid.byte_size import byte_size
from perseid.checkpoint.schemes import Scheme, adaptive
from perseid.duration import Duration, every
from perseid.errors import SettingsError
from perseid.scaling.bottleneck import AutoScaling
from perseid.storage.journal_segments import Limits


@dataclass(frozen=True, slots=True)
class Settings:
    """What ``App.run`` and ``App.start`` take by keyword, with the same defaults; ``docs/settings.md`` says what each means."""

    checkpoint: Scheme = field(default_factory=adaptive)
    hosts: int | None = None  # None: as many as the shards and the task slots allow
    spares: int | None = None  # None: one, if there is a slot for it
    trigger: Duration | None = None  # None: the next epoch begins when the last has ended
    max_rows_per_epoch: int | None = 1_000_000
    available_now: bool = False
    close_windows_at_end: bool | None = None  # None: where all sources are finished for good
    align: Duration | None = None  # so far one source may be ahead of another in event time; None: as far as it comes
    heartbeat: Duration = field(default_factory=lambda: every(milliseconds=100))
    queue: int = 2
    keep: int = 3
    operator_retries: int = 2
    dead_letters: bool = False
    keep_input: bool = True  # hosts keep the rows they applied on their machine's disk: a killed one is back sooner
    scaling: AutoScaling | None = None  # None: only when asked
    parallel_recovery: int = 1  # so many shards take over from one that is lost
    allow_removed: Sequence[str] = ()  # operators, sinks and sources that may be gone or new
    start_timeout: Duration = field(default_factory=lambda: every(seconds=60))
    lease_timeout: Duration = field(default_factory=lambda: every(seconds=10))
    journal_size: str | int = "64 MB"  # of the journal, the oldest goes beyond this size
    journal_age: Duration = field(default_factory=lambda: every(hours=7 * 24))  # or when it is older
    dashboard: bool = False  # a page in the browser, by a process of its own
    on_progress: Callable[[dict[str, Any]], None] | None = None  # called after every epoch
    clock: Callable[[], int] | None = None  # the time of epochs, in ms; None: the machine's

    def checked(self) -> Settings:
        """The settings, after every one was checked. Raises ``SettingsError`` with all that is wrong."""
        wrong = []
        for name, least in (
            ("hosts", 1),
            ("spares", 0),
            ("max_rows_per_epoch", 1),
            ("queue", 1),
            ("keep", 1),
            ("operator_retries", 0),
            ("parallel_recovery", 1),
        ):
            value = getattr(self, name)
            optional = name in ("hosts", "spares", "max_rows_per_epoch")
            if value is None and optional:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                wrong.append(f"{name}: expected a whole number of at least {least}, got {value!r}")
        for name in ("trigger", "align", "heartbeat", "start_timeout", "lease_timeout", "journal_age"):
            value = getattr(self, name)
            if not (isinstance(value, Duration) or (value is None and name in ("trigger", "align"))):
                wrong.append(f"{name}: expected a length of time such as every(seconds=1), got {value!r}")
        try:
            byte_size(self.journal_size)
        except SettingsError as error:
            wrong.append(f"journal_size: {error}")
        keep_input: object = self.keep_input
        if not isinstance(keep_input, bool):
            wrong.append(f"keep_input: expected True or False, got {keep_input!r}")
        names: object = self.allow_removed
        if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
            wrong.append(f"allow_removed: expected the names of operators, sinks or sources, got {names!r}")
        close: object = self.close_windows_at_end
        if close is not None and not isinstance(close, bool):
            wrong.append(f"close_windows_at_end: expected True, False or None, got {close!r}")
        dashboard: object = self.dashboard
        if not isinstance(dashboard, bool):
            wrong.append(f"dashboard: expected True or False, got {dashboard!r}")
        on_progress: object = self.on_progress
        if on_progress is not None and not callable(on_progress):
            wrong.append(f"on_progress: expected a function of one dict, got {on_progress!r}")
        clock: object = self.clock
        if clock is not None and not callable(clock):
            wrong.append(f"clock: expected a function that gives milliseconds, got {clock!r}")
        scaling: object = self.scaling
        if scaling is not None and not isinstance(scaling, AutoScaling):
            wrong.append(f"scaling: expected a policy such as perseid.scaling.auto(), got {scaling!r}")
        scheme: object = self.checkpoint
        if not isinstance(scheme, Scheme):
            wrong.append(
                f"checkpoint: expected a scheme such as perseid.checkpoints.adaptive(every(seconds=10)), got {scheme!r}"
            )
        elif isinstance(self.trigger, Duration) and scheme.period < self.trigger:
            wrong.append(
                f"checkpoint: a period of {scheme.period} is shorter than an epoch, which takes {self.trigger} (trigger);"
                " there is at most one checkpoint in an epoch: use a longer period or a shorter trigger"
            )
        if wrong:
            raise SettingsError("; ".join(wrong))
        return self

    @property
    def journal_limits(self) -> Limits:
        """How much of the journal is kept."""
        keep = byte_size(self.journal_size)
        return Limits(keep, self.journal_age.ms, min(Limits().segment_bytes, max(1, keep // 16)))
