"""The comparison for a terminal: the claims beside the paper's, then the figures they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perseid.bench.schemes.comparing import LOAD_LATENCIES, Comparison, Seen, Verdict, recovered
from perseid.bench.schemes.plan import JUDGED, LOADED, NO_CHECKPOINTS, SCHEMES
from perseid.bench.schemes.reading import PARTS, RECOVERY_PARTS, Recovery

ALL = (*SCHEMES, "oracle")
NOISE = 1.05
"""A run with checkpoints cannot be faster than one without: if it is by more than this, the machine was not quiet."""


def show(console: Console, comparison: Comparison, verdicts: Sequence[Verdict]) -> None:
    """Everything, the verdicts last."""
    counts = sorted({s.case.checkpoints for s in comparison.seen})
    console.print(_by_count("throughput, rows/s", comparison, counts, lambda s: s.window.rows_per_s))
    console.print()
    console.print(_by_count("latency of epochs, ms", comparison, counts, lambda s: s.window.latency_ms))
    if any(s.case.rate for s in comparison.seen):
        console.print()
        console.print(_under_load(comparison))
    console.print()
    console.print(_checkpoints(comparison))
    console.print()
    console.print(_recoveries(comparison))
    console.print()
    console.print(claims(verdicts, comparison.apps))


def brief(console: Console, comparison: Comparison) -> None:
    """One line for each scheme: what a quick run shows."""
    for app in comparison.apps:
        table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
        table.add_column(app, no_wrap=True)
        for column in (
            "rows/s",
            "of none, %",
            "checkpoints",
            "MB each",
            "of parallel, %",
            "ms each",
            "units stand still, ms",
            "recovery, ms",
        ):
            table.add_column(column, justify="right")
        plain = comparison.middle(app, NO_CHECKPOINTS, 0, lambda s: s.window.rows_per_s)
        whole = comparison.judged(app, "parallel", lambda s: s.window.bytes)
        for scheme in (NO_CHECKPOINTS, *reversed(SCHEMES), "oracle"):
            for run in comparison.of(app, scheme, 0 if scheme == NO_CHECKPOINTS else JUDGED):
                found = run.window
                cells = [_number(found.rows_per_s), _number(100 * found.rows_per_s / plain if plain else None)]
                if found.checkpoints:
                    cells += [_number(found.rounds), _number(found.bytes / 1e6, 1)]
                    cells += [_number(100 * found.bytes / whole if whole else None)]
                    cells += [_number(found.checkpoint_ms), _number(found.still_ms)]
                    cells += [_number(None if run.recovery is None else run.recovery.ms)]
                table.add_row(scheme, *cells)
        console.print(table)
        for line in _said(comparison, app):
            console.print(line)


def _said(comparison: Comparison, app: str) -> Iterator[str]:
    """What the table says, in sentences; also what it cannot say."""
    found = {scheme: comparison.judged(app, scheme, lambda s: s.window.bytes / 1e6) for scheme in ALL}
    if (less := found["adaptive"]) and (more := found["parallel"]):
        yield f"adaptive wrote {less:.1f} MB a checkpoint, parallel {more:.1f} MB: {100 * (1 - less / more):.0f} % less."
    else:
        yield "not shown: what adaptive saves: one of the two runs had no checkpoint."
    if (best := found["oracle"]) and less:
        if best > NOISE * less:
            yield f"not shown: how near adaptive comes to the oracle: the oracle wrote more ({best:.1f} MB), so it missed its moments."
        else:
            yield f"The oracle, which knows the state's whole curve, wrote {best:.1f} MB."
    pace = {
        scheme: comparison.judged(app, scheme, lambda s: s.window.rows_per_s) for scheme in ("adaptive", "parallel")
    }
    plain = comparison.middle(app, NO_CHECKPOINTS, 0, lambda s: s.window.rows_per_s)
    if plain and any(rows and rows > NOISE * plain for rows in pace.values()):
        yield (
            "not shown: what checkpoints cost in throughput: a run with them was faster than the one without, so this"
            " machine's pace changed meanwhile by more than they cost."
        )
    for scheme in ("adaptive", "parallel"):
        for run in comparison.of(app, scheme, JUDGED):
            if run.window.rounds < JUDGED - 1 or run.epochs < run.case.parts:
                few = f"{run.window.rounds:.0f} checkpoints in {run.epochs / run.case.parts:.1f} cycles of the state"
                yield f"not shown: {scheme} on average: its window had only {few}."


def _plain(title: str, *columns: str) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(title, no_wrap=True)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _number(value: float | None, digits: int = 0) -> str:
    return "·" if value is None else f"{value:,.{digits}f}"


def _by_count(title: str, comparison: Comparison, counts: Sequence[int], number: Callable[[Seen], float]) -> Table:
    table = _plain(title, *(f"{count} in a window" if count == counts[-1] else str(count) for count in counts))
    for app in comparison.apps:
        for place, scheme in enumerate(ALL):
            values = [comparison.middle(app, scheme, count, number) for count in counts]
            if any(value is not None for value in values):
                table.add_row("" if place else app, scheme, *map(_number, values))
    return table


def _under_load(comparison: Comparison) -> Table:
    """Rows come at a rate of their own; how many are done, and how long each takes from the time it came."""
    table = _plain("under load", "done, % of what came", "latency of a row, ms", "of 99 %, below ms")
    for app in comparison.apps:
        for place, scheme in enumerate(LOADED):
            runs = [s for s in comparison.seen if (s.case.app, s.case.scheme) == (app, scheme) and s.case.rate]
            for run in runs[-1:]:
                done = 100 * run.taken_per_s / (run.case.rate or 1.0)
                latencies = (_number(comparison.loaded(app, scheme, number)) for number in LOAD_LATENCIES.values())
                table.add_row("" if place else app, scheme, _number(done), *latencies)
    return table


def _checkpoints(comparison: Comparison) -> Table:
    """What one checkpoint is and costs, and where the time of a window goes."""
    columns = ("taken", "MB", "ms", *PARTS, "still", "during", "still", "writing", "busy")
    table = _plain(f"{JUDGED} checkpoints", *columns)
    table.add_row("", "", "", "", "", *("ms" for _ in PARTS), "ms", "+%", "%", "%", "%", style="dim")
    for app in comparison.apps:
        for place, scheme in enumerate(ALL):
            if not comparison.of(app, scheme, JUDGED):
                continue

            def of(number: Callable[[Seen], float], app: str = app, scheme: str = scheme) -> float | None:
                return comparison.judged(app, scheme, number)

            during = comparison.during(app, scheme)
            table.add_row(
                "" if place else app,
                scheme,
                _number(of(lambda s: s.window.rounds), 1),
                _number(of(lambda s: s.window.bytes / 1e6), 1),
                _number(of(lambda s: s.window.checkpoint_ms)),
                *(_number(of(lambda s, part=part: s.window.part_ms(part))) for part in PARTS),  # type: ignore[misc]
                _number(of(lambda s: s.window.still_ms)),
                _number(None if during is None else 100 * during),
                _number(of(lambda s: 100 * s.window.still_share), 1),
                _number(of(lambda s: 100 * s.window.writing_share), 1),
                _number(of(lambda s: 100 * s.busy_share)),
            )
    return table


def _recoveries(comparison: Comparison) -> Table:
    table = _plain("all hosts killed, ms", "MB", "recovery", *RECOVERY_PARTS, "then: catch up")
    for app in comparison.apps:
        for place, scheme in enumerate(ALL):
            if not any(s.recovery for s in comparison.of(app, scheme, JUDGED)):
                continue

            def of(number: Callable[[Recovery], float], app: str = app, scheme: str = scheme) -> float | None:
                return comparison.judged(app, scheme, recovered(number))

            table.add_row(
                "" if place else app,
                scheme,
                "by unit" if scheme == "baseline" else _number(of(lambda r: r.bytes / 1e6), 1),
                _number(of(lambda r: r.ms)),
                *(_number(of(lambda r, part=part: r.parts_ms[part])) for part in RECOVERY_PARTS),  # type: ignore[misc]
                _number(of(lambda r: r.catch_up_ms)),
            )
    return table


def claims(verdicts: Sequence[Verdict], apps: Sequence[str]) -> Table:
    """The verdicts."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("the paper's comparisons", no_wrap=True)
    for column in (*apps, "average", "paper", "wanted"):
        table.add_column(column, justify="right")
    table.add_column("reached")
    for verdict in verdicts:
        claim = verdict.claim

        def tell(value: float | None, unit: str = claim.unit) -> str:
            if value is None:
                return "·"
            return f"{value:.1f} x" if unit == "x" else f"{value:.2f} %" if abs(value) < 1 else f"{value:.0f} %"

        sign = "≥" if claim.relation == "at least" else "≤"
        table.add_row(
            claim.what,
            *(tell(value) for value in verdict.by_app.values()),
            Text(tell(verdict.average), "bold"),
            "" if claim.paper is None else tell(claim.paper),
            "" if claim.wanted is None else f"{sign} {tell(claim.wanted)}",
            _reached(verdict),
        )
    return table


def _reached(verdict: Verdict) -> Text:
    if verdict.reached is None:
        return Text("")
    if verdict.noise:
        return Text("no telling: noise", "yellow")
    return Text("yes", "green") if verdict.reached else Text("no", "bold red")
