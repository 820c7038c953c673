"""What a journal says of a window of a run: throughput, latency, checkpoints and their parts, recovery. Nothing here runs anything.

A checkpoint is timed from the decision to take it until its manifest is durable. Under ``baseline`` every unit has its own: a round
of them, one of each unit, is what a checkpoint is under the other schemes, and numbers per checkpoint are per round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from perseid.bench.measuring.timings import from_journal, rows_per_s_within

Entry = Mapping[str, Any]
Interval = tuple[float, float]
NOBODYS = ("final", "unrecorded")
PARTS = ("tokens", "other", "disk", "commit")
RECOVERY_PARTS = ("detect", "reload", "read", "deserialise", "reconnect")
"""The paper's four phases, and how long it took to see that the hosts were dead. Catching up comes after them."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One committed checkpoint."""

    reason: str
    decided_ms: float
    committed_ms: float
    bytes: int  # of snapshots and of epochs on their way
    still: tuple[Interval, ...]  # for every unit: from the order to save it until it may go on
    writing: Interval  # from the first order until everything is durable
    parts_ms: Mapping[str, float]

    @property
    def ms(self) -> float:
        return self.committed_ms - self.decided_ms


@dataclass(frozen=True, slots=True)
class Window:
    """What happened in a window of a run."""

    rows_per_s: float
    latency_ms: float  # of a row, on average: from the admission of its epoch to its commit
    p99_ms: float  # what 99 % of rows stay below
    checkpoints: tuple[Checkpoint, ...]
    per_round: float  # how many of them are one of the whole application
    during_ms: Mapping[int, float]  # latency by epoch, of those that met a checkpoint
    calm_ms: Mapping[int, float]  # of those that met none, also shortly before the window
    still_share: float  # of the window: at least one unit stood still to be saved
    writing_share: float  # snapshots were being written
    sizing_share: float  # of the time hosts worked: to know how large the state is

    @property
    def rounds(self) -> float:
        return len(self.checkpoints) / self.per_round

    def each(self, total: float) -> float:
        """Of one checkpoint of the application."""
        return total / self.rounds if self.checkpoints else 0.0

    @property
    def bytes(self) -> float:
        return self.each(sum(c.bytes for c in self.checkpoints))

    @property
    def checkpoint_ms(self) -> float:
        return self.each(sum(c.ms for c in self.checkpoints))

    def part_ms(self, part: str) -> float:
        return self.each(sum(c.parts_ms[part] for c in self.checkpoints))

    @property
    def still_ms(self) -> float:
        """How long units stood still for it, added up."""
        return self.each(sum(end - begin for c in self.checkpoints for begin, end in c.still))

    @property
    def writing_ms(self) -> float:
        """From the first order until everything is durable."""
        return self.each(sum(c.writing[1] - c.writing[0] for c in self.checkpoints))


def window(entries: Sequence[Entry], from_ms: float, length_ms: float, rate: float | None = None) -> Window:
    """Read a window. A checkpoint belongs to it if it was decided in it, by the scheme.

    Latency is that of epochs, from their admission; where rows came at a rate of their own, it is theirs, from the time each came.

    The last one of a run, taken because it ends, is no scheme's; nor is the oracle's one where it had no recording any more.
    """
    until_ms = from_ms + length_ms
    found = [c for c in checkpoints(entries) if from_ms <= c.decided_ms < until_ms and c.reason not in NOBODYS]
    committed = [e for e in entries if e["kind"] == "epoch_committed" and from_ms <= e["at_ms"] < until_ms]
    assert committed, "no epoch was committed in the window"
    rows = sum(e["rows_in"] for e in committed)
    waited = {} if rate is None else _waited_ms(entries, rate)
    latencies = [(e["ms"] + waited.get(e["epoch"], 0.0), e["rows_in"]) for e in committed]
    spans = [(c.decided_ms, c.committed_ms) for c in found]
    anyones = [(c.decided_ms, c.committed_ms) for c in checkpoints(entries)]
    near = [
        e
        for e in entries
        if e["kind"] == "epoch_committed" and from_ms - length_ms / 3 <= e["at_ms"] < until_ms and e["rows_in"]
    ]
    started = next(e for e in entries if e["kind"] == "app_started")
    alone = any(c.reason == "own_period" for c in found)
    worked = committed[-1]["worked_ms"] - committed[0]["worked_ms"]
    return Window(
        rows_per_s_within(from_journal(entries), from_ms, length_ms),
        sum(ms * of for ms, of in latencies) / rows if rows else 0.0,
        _most_stay_below(latencies, 0.99 * rows),
        tuple(found),
        len(started["units"]) if alone else 1,
        {int(e["epoch"]): float(e["ms"]) for e in committed if any(_meets(e, span) for span in spans)},
        {int(e["epoch"]): float(e["ms"]) for e in near if not any(_meets(e, span) for span in anyones)},
        _covered((i for c in found for i in c.still), from_ms, until_ms) / length_ms,
        _covered((c.writing for c in found), from_ms, until_ms) / length_ms,
        (committed[-1]["sizing_ms"] - committed[0]["sizing_ms"]) / worked if worked > 0 else 0.0,
    )


def pace(entries: Sequence[Entry], from_ms: float, length_ms: float) -> tuple[float, float]:
    """Rows of the source a second, of epochs that were committed in a window; and how many seconds there are from one epoch to the next."""
    came = {e["epoch"]: e["rows"] for e in entries if e["kind"] == "epoch_admitted"}
    done = [e for e in entries if e["kind"] == "epoch_committed" and from_ms <= e["at_ms"] < from_ms + length_ms]
    rows = float(sum(came.get(e["epoch"], 0) for e in done))
    return rows * 1000 / length_ms, length_ms / 1000 / max(1, len(done))


def _waited_ms(entries: Iterable[Entry], rate: float) -> dict[int, float]:
    """By epoch, how long its rows had waited on average when it was admitted: row n came n / rate after the first."""
    admitted = [e for e in entries if e["kind"] == "epoch_admitted" and e["rows"]]
    if not admitted:
        return {}

    def came_ms(row: float) -> float:
        return row * 1000 / rate

    def bounds(entry: Entry) -> tuple[int, int]:
        ((start, end),) = entry["slices"].values()
        return start, end

    began_ms = admitted[0]["time_ms"] - came_ms(bounds(admitted[0])[1])
    return {e["epoch"]: max(0.0, e["time_ms"] - began_ms - came_ms(sum(bounds(e)) / 2)) for e in admitted}


def _most_stay_below(latencies: Iterable[tuple[float, int]], rows: float) -> float:
    """The latency of the row before which there are so many faster ones."""
    passed = 0
    for ms, more in sorted(latencies):
        passed += more
        if passed >= rows:
            return ms
    return 0.0


def _meets(epoch: Entry, span: Interval) -> bool:
    """Was the epoch under way in that time?"""
    return bool(epoch["at_ms"] > span[0] and epoch["at_ms"] - epoch["ms"] < span[1])


def _covered(intervals: Iterable[Interval], from_ms: float, until_ms: float) -> float:
    """How much of a window lies in at least one of the intervals."""
    covered, reached = 0.0, from_ms
    for begin, end in sorted(intervals):
        begin, end = max(begin, reached), min(end, until_ms)
        if end > begin:
            covered += end - begin
            reached = end
    return covered


def checkpoints(entries: Iterable[Entry]) -> list[Checkpoint]:
    """All that were committed, in the order of their decisions."""
    of: dict[int, list[Entry]] = {}
    awaited: dict[int, Entry] = {}  # the longest that an epoch waited for a snapshot's child
    for entry in entries:
        if "checkpoint" in entry and entry["kind"] in _LIFE:
            of.setdefault(entry["checkpoint"], []).append(entry)
        elif entry["kind"] == "snapshot_awaited":
            awaited[entry["checkpoint"]] = max(entry, awaited.get(entry["checkpoint"], entry), key=lambda e: e["ms"])
    found = []
    for id, life in of.items():
        kinds = [entry["kind"] for entry in life]
        if kinds[0] == "checkpoint_decided" and kinds[-1] == "checkpoint_committed":
            found.append(_checkpoint(life, awaited.get(id)))
    return found


_LIFE = frozenset(
    {"checkpoint_decided", "snapshots_ordered", "snapshots_forked", "snapshot_written", "inflight_saved", "checkpoint_committed"}
)  # fmt: skip


def _checkpoint(life: Sequence[Entry], awaited: Entry | None) -> Checkpoint:
    """The parts are those of the unit that was ordered to save last: the others had done so, or did beside it.

    Its tokens come in until it is ordered; then it forks (if it does not stand still until all is written) and serialises, which is
    ``other`` as in the paper; the rest until everything is durable is ``disk``; and the manifest is the ``commit``.
    """
    decided, committed = life[0]["at_ms"], life[-1]["at_ms"]
    ordered: dict[str, float] = {}
    forked: dict[str, float] = {}
    for entry in life:
        if entry["kind"] == "snapshots_ordered":
            ordered.setdefault(entry["unit"], entry["at_ms"])
        elif entry["kind"] == "snapshots_forked":
            forked[entry["unit"]] = entry["at_ms"]
    last = max(ordered.values())
    saved = [e for e in life if e["kind"] in ("snapshot_written", "inflight_saved")]
    durable = max([e["at_ms"] for e in saved] + [last])
    serialised = [e["serialise_ms"] for e in saved if e["kind"] == "snapshot_written" and e["at_ms"] >= last]
    forks = not any(e.get("synchronous") for e in life)
    forking = max([at_ms - last for at_ms in forked.values() if forks] + [0.0])
    other = min(forking + max(serialised, default=0), durable - last)
    still = [(ordered[unit], forked[unit]) for unit in ordered]
    if awaited is not None:
        still.append((awaited["at_ms"] - awaited["ms"], awaited["at_ms"]))
    return Checkpoint(
        life[0]["reason"],
        decided,
        committed,
        sum(e["bytes"] for e in saved),
        tuple(still),
        (min(ordered.values()), durable),
        {"tokens": last - decided, "other": other, "disk": durable - last - other, "commit": committed - durable},
    )


@dataclass(frozen=True, slots=True)
class Recovery:
    """What the loss of every host cost."""

    ms: float  # from the kill until the state is back where its checkpoint was: the paper's recovery time
    parts_ms: Mapping[str, float]
    catch_up_ms: (
        float  # then: doing again what came after the checkpoint, until an epoch is committed that was not before
    )
    bytes: int  # of the checkpoint it came back from


def recovery(entries: Sequence[Entry], kills_ms: Sequence[float]) -> Recovery:
    """Of several kills of all hosts, the mean, since each met a state of another size; and what it took to catch up after the last."""
    newest = max(
        (e["epoch"] for e in entries if e["kind"] == "epoch_committed" and e["at_ms"] <= kills_ms[-1]), default=0
    )
    after = (e for e in entries if e["kind"] == "epoch_committed" and e["at_ms"] > kills_ms[-1])
    new = next((e for e in after if e["epoch"] > newest), None)
    assert new is not None, "the application did not come back"
    found = [_recovery(entries, killed_ms) for killed_ms in kills_ms]
    catch_up_ms = new["at_ms"] - kills_ms[-1] - found[-1].ms
    parts = {part: fmean(r.parts_ms[part] for r in found) for part in RECOVERY_PARTS}
    return Recovery(fmean(r.ms for r in found), parts, catch_up_ms, round(fmean(r.bytes for r in found)))


def _recovery(entries: Sequence[Entry], killed_ms: float) -> Recovery:
    """What passes until the last of the hosts is missed, and was begun in vain till then, is detection."""
    ended = next((e for e in entries if e["kind"] == "recovery_finished" and e["at_ms"] > killed_ms), None)
    assert ended is not None, "the application did not come back"
    began = next(e for e in reversed(entries) if e["kind"] == "recovery_started" and e["at_ms"] <= ended["at_ms"])
    phases = ended["phases"]
    sizes = {e["checkpoint"]: e["bytes"] for e in entries if e["kind"] == "checkpoint_committed"}
    parts = {part: float(phases.get(part, 0)) for part in RECOVERY_PARTS}
    total = ended["at_ms"] - killed_ms - phases.get("catch_up", 0)
    parts["detect"] += max(0.0, total - sum(parts.values()))
    return Recovery(total, parts, 0.0, sizes.get(began["checkpoint"], 0))


def curve(entries: Iterable[Entry]) -> list[tuple[float, float]]:
    """The size of the state over time, in MB, after every epoch."""
    return [(e["at_ms"], e["state_bytes"] / 1e6) for e in entries if e["kind"] == "epoch_committed"]
