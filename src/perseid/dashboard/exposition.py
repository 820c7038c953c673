"""The pictures of all roots as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Sequence

from perseid.dashboard import views
from perseid.dashboard.picture import Picture
from perseid.dashboard.watched import WatchedRoot
from perseid.metrics.prometheus import Family, text

PAIRS = ("unguarded", "deploying", "guarded", "switched")
PHASES = ("starting", "running", "recovering", "stopped", "failed", "crashed")


def exposition(roots: Sequence[WatchedRoot], refused: int) -> str:
    """What ``/metrics`` answers."""
    families = {family.name: family for family in _families()}
    for root in roots:
        life, torn = root.life, root.torn
        root.shown(lambda picture, life=life, torn=torn: _fill(families, picture, life, torn))  # type: ignore[misc]
    families["perseid_dashboard_refused_total"].add(refused, {})
    return text(families.values())


def _families() -> list[Family]:
    return [
        Family("perseid_up", "gauge", "1 while the application runs or recovers"),
        Family("perseid_phase", "gauge", "1 for the phase that the application is in"),
        Family("perseid_epoch", "gauge", "Newest committed epoch"),
        Family("perseid_epochs_total", "counter", "Committed epochs"),
        Family("perseid_epoch_seconds_total", "counter", "Time of committed epochs, from admission to commit"),
        Family("perseid_epoch_seconds", "gauge", "Time of the epochs of the last 10 seconds, by quantile"),
        Family("perseid_epochs_in_flight", "gauge", "Epochs that are admitted and not committed"),
        Family("perseid_rows_in_total", "counter", "Rows read from sources"),
        Family("perseid_rows_out_total", "counter", "Rows that operators gave out"),
        Family(
            "perseid_rows_waiting", "gauge", "Rows that wait in a source behind the admitted epoch, where it knows them"
        ),
        Family("perseid_late_rows_total", "counter", "Rows that came after the watermark"),
        Family("perseid_dead_letters_total", "counter", "Rows and lines put aside"),
        Family("perseid_watermark_lag_seconds", "gauge", "How far the watermark lies behind the time of the epoch"),
        Family("perseid_state_bytes", "gauge", "State of an operator"),
        Family("perseid_operator_busy", "gauge", "Share of the time that the busiest shard of an operator worked"),
        Family("perseid_operator_rows_per_second", "gauge", "Rows of an operator a second, over 10 seconds"),
        Family("perseid_checkpoints_total", "counter", "Committed checkpoints"),
        Family("perseid_failed_checkpoints_total", "counter", "Failed checkpoints"),
        Family("perseid_checkpoint_timestamp_seconds", "gauge", "When the newest checkpoint was committed"),
        Family("perseid_checkpoint_bytes", "gauge", "Size of the newest checkpoint"),
        Family("perseid_checkpoint_seconds", "gauge", "How long the newest checkpoint took"),
        Family("perseid_faults_total", "counter", "Hosts lost"),
        Family("perseid_recoveries_total", "counter", "Recoveries"),
        Family("perseid_recovery_seconds_total", "counter", "Time of recoveries"),
        Family("perseid_scales_total", "counter", "Operators scaled"),
        Family(
            "perseid_standby_pairs",
            "gauge",
            "Hosts that should have a copy, by phase: unguarded, deploying, guarded, switched",
        ),
        Family("perseid_standby_behind_epochs", "gauge", "Committed epochs that the copy of a host does not have"),
        Family("perseid_switches_total", "counter", "Times that a copy began to answer instead of its primary"),
        Family("perseid_roll_backs_total", "counter", "Times that a primary answered again"),
        Family("perseid_promotions_total", "counter", "Hosts replaced by their copies for good"),
        Family("perseid_refresh_bytes_total", "counter", "Bytes that copies were refreshed with"),
        Family("perseid_longest_outage_seconds", "gauge", "Longest time without a committed epoch in an incident"),
        Family("perseid_hosts", "gauge", "Hosts that are alive"),
        Family("perseid_host_cpu", "gauge", "Cores that a host uses"),
        Family("perseid_host_memory_bytes", "gauge", "Memory of a host"),
        Family("perseid_journal_unknown_records_total", "counter", "Records of another version in the journal"),
        Family("perseid_journal_torn_lines", "gauge", "Lines of the journal that cannot be read"),
        Family("perseid_dashboard_refused_total", "counter", "Requests without the right token"),
    ]


def _fill(families: dict[str, Family], picture: Picture, life: views.Life, torn: int) -> None:
    seen, totals, app = views.overview(picture, life), picture.totals, {"app": picture.app}

    def say(name: str, value: float | None, **labels: object) -> None:
        families[f"perseid_{name}"].add(value, {**app, **labels})

    say("up", seen["phase"] in ("running", "recovering"))
    for phase in PHASES:
        say("phase", seen["phase"] == phase, phase=phase)
    say("epoch", picture.epoch)
    say("epochs_total", totals.epochs)
    say("epoch_seconds_total", round(totals.epoch_seconds, 3))
    for quantile, name in (("0.5", "p50"), ("0.99", "p99")):
        say("epoch_seconds", _seconds(seen[name]), quantile=quantile)
    say("epochs_in_flight", seen["backlog"])
    say("rows_in_total", totals.rows_in)
    say("rows_out_total", totals.rows_out)
    say("late_rows_total", totals.late_rows)
    say("dead_letters_total", totals.dead_letters + totals.malformed_lines)
    say("watermark_lag_seconds", _seconds(picture.epochs.last("lag_ms")))
    rates = {edge["from"]: edge["rows_s"] for edge in seen["graph"]["edges"]}
    for node in seen["graph"]["nodes"]:
        if node["kind"] == "source":
            say("rows_waiting", node["rows_wait"], source=node["name"])
        if node["kind"] == "operator":
            say("state_bytes", node["state"], operator=node["name"])
            say("operator_busy", node["busy"], operator=node["name"])
            say("operator_rows_per_second", rates.get(node["name"]), operator=node["name"], direction="out")
    say("checkpoints_total", totals.checkpoints)
    say("failed_checkpoints_total", totals.failed_checkpoints)
    newest = next((c for c in reversed(picture.checkpoints.values()) if c.committed_ms is not None), None)
    if newest is not None:
        say("checkpoint_timestamp_seconds", _seconds(newest.committed_ms))
        say("checkpoint_bytes", newest.bytes)
        say("checkpoint_seconds", _seconds(newest.ms))
    say("faults_total", totals.faults)
    say("recoveries_total", totals.recoveries)
    say("recovery_seconds_total", round(totals.recovery_seconds, 3))
    say("scales_total", totals.scales)
    say("longest_outage_seconds", totals.longest_outage_ms / 1000)
    say("hosts", len(picture.hosts))
    for host in picture.hosts.values():
        say("host_cpu", host.cpu, host=host.id)
        say("host_memory_bytes", host.memory, host=host.id)
    standby = seen["standby"]["pairs"]
    for phase in PAIRS if standby else ():
        say("standby_pairs", sum(pair["phase"] == phase for pair in standby), phase=phase)
    for pair in standby:
        say("standby_behind_epochs", pair["behind"], host=pair["primary"])
    say("switches_total", totals.switches)
    say("roll_backs_total", totals.roll_backs)
    say("promotions_total", totals.promotions)
    say("refresh_bytes_total", totals.refresh_bytes)
    say("journal_unknown_records_total", totals.strange)
    say("journal_torn_lines", torn)


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000
