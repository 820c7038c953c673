"""The picture as the page wants it: plain JSON data, small whatever the length of the journal. Pure."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from perseid.dashboard import curves, standby_view
from perseid.dashboard.picture import Checkpoint, Host, Incident, Picture

Life = Literal["held", "released", "dead", "unknown"]
"""What the lease says of the driver."""

RECENT_MS = 10_000
STILL_MS = 15_000
POINTS = 600
LISTED = 200
SKEWED = 2.0
BUSY = 0.5
EPOCHS_IN_FLIGHT = 2
"""More than so many, and they wait for each other."""
PRESSED_S = 5.0
"""Of a source: more rows wait than come in so long."""


def overview(picture: Picture, life: Life) -> dict[str, Any]:
    """The head of the page, the graph and the hosts: what changes all the time."""
    return {
        "app": picture.app,
        "phase": phase(picture, life),
        "stopped": picture.stopped,
        "generation": picture.generation,
        "scheme": picture.scheme,
        "period_ms": picture.period_ms,
        "began_ms": picture.began_ms,
        "started_ms": picture.started_ms,
        "at_ms": picture.at_ms,
        "epoch": picture.epoch,
        "admitted": picture.admitted,
        "backlog": max(0, picture.admitted - picture.epoch),
        "rows_wait": _last(picture.epochs, "rows_wait"),
        "still_ms": _still_ms(picture),
        **_recent(picture),
        "graph": _graph(picture),
        "hosts": [_host(picture, host) for host in sorted(picture.hosts.values(), key=lambda h: h.id)],
        "gone": [_gone(host) for host in reversed(picture.gone_hosts)],
        "shards": _shards(picture),
        "standby": standby_view.standby(picture),
        "hot_keys": [
            {"operator": operator, "key": key, "share": share} for (operator, key), share in picture.hot_keys.items()
        ],
        "last_checkpoint": next(
            (_brief(c) for c in reversed(picture.checkpoints.values()) if c.committed_ms is not None), None
        ),
        "incidents": [incident_head(i) for i in reversed(picture.incidents.values()) if i.kind != "start"][:5],
        "warnings": [{"at_ms": told.at_ms, "text": told.text} for told in reversed(picture.warnings)][:10],
        "totals": {name: getattr(picture.totals, name) for name in picture.totals.__slots__},
    }


def phase(picture: Picture, life: Life) -> str:
    """A driver that is dead has not told so itself."""
    lives = picture.phase in ("starting", "running", "recovering")
    return "crashed" if lives and life in ("dead", "released") else picture.phase


def _still_ms(picture: Picture) -> float | None:
    """So long no epoch was committed though one is under way; None where that is as usual."""
    committed_ms = picture.epochs.last("at_ms")
    if committed_ms is None or picture.admitted <= picture.epoch or picture.phase != "running":
        return None
    usual = [row[2] for row in picture.epochs.tail(30)]
    still_ms = picture.at_ms - committed_ms
    return still_ms if still_ms > max(STILL_MS, 5 * max(usual)) else None


def _recent(picture: Picture) -> dict[str, Any]:
    """Rates over the last seconds of what was told; the whole of it while there is less."""
    rows = picture.epochs.between(picture.at_ms - RECENT_MS, None)
    if not len(rows["at_ms"]):
        return {"rows_in_s": 0.0, "rows_out_s": 0.0, "p50": None, "p99": None, "state": picture.epochs.last("state")}
    seconds = _seconds(picture)
    found = curves.summary(rows)
    return {
        "rows_in_s": round(rows["rows_in"].sum() / seconds, 1),
        "rows_out_s": round(rows["rows_out"].sum() / seconds, 1),
        "p50": found["p50"],
        "p99": found["p99"],
        "state": picture.epochs.last("state"),
    }


def _seconds(picture: Picture) -> float:
    return max(0.5, min(RECENT_MS, picture.at_ms - picture.started_ms) / 1000)


def _graph(picture: Picture) -> dict[str, Any]:
    seconds, found, out = _seconds(picture), [], {}
    rows = picture.epochs.between(picture.at_ms - RECENT_MS, None)
    sources = [node.name for node in picture.nodes if node.kind == "source"]
    if len(sources) == 1:
        out[sources[0]] = round(rows["rows_in"].sum() / seconds, 1)
    for name, counted in picture.sources.items():
        known = counted.between(picture.at_ms - RECENT_MS, None)["rows"]
        if len(known) and not np.isnan(known).any():
            out[name] = round(known.sum() / seconds, 1)
    placed, modes = picture.shards.values(), standby_view.modes(picture)
    into: dict[str, float] = {}
    for node in picture.nodes:
        shown: dict[str, Any] = {
            "name": node.name, "kind": node.kind, "unit": node.unit, "what": node.what, "key": list(node.key),
            "preserved": node.preserved, "guarantee": node.guarantee,
            "standby": modes.get(node.name, ""),
        }  # fmt: skip
        if node.kind == "source":
            shown["rows_wait"] = _last(picture.sources.get(node.name), "rows_wait")
            shown["pressed"] = bool((shown["rows_wait"] or 0) > PRESSED_S * max(out.get(node.name, 0), 1))
        if node.kind == "operator":
            mine = picture.operator_rows(node.name).between(picture.at_ms - RECENT_MS, None)
            out[node.name] = round(mine["rows_out"].sum() / seconds, 1)
            into[node.name] = round(mine["rows_in"].sum() / seconds, 1)
            shards = sorted((s for s in placed if s.operator == node.name), key=lambda s: _number(s.name))
            shown |= {
                "busy": round(min(1.0, mine["busy_ms"].sum() / (seconds * 1000)), 4),
                "state": picture.operator_rows(node.name).last("state"),
                "shards": [
                    {"name": s.name, "host": s.host, "busy": s.busy, **standby_view.of_shard(picture, s)}
                    for s in shards
                ],
            }
        found.append(shown)
    inputs, pressed = {node.name: node.inputs for node in picture.nodes}, _pressed(picture, found)
    edges = [
        {
            "from": above, "to": node.name, "preserved": _preserved(picture, above, node.unit), "pressed": node.name == pressed,
            "rows_s": out.get(above, into.get(node.name) if len(inputs[node.name]) == 1 else None),
        }
        for node in picture.nodes
        for above in node.inputs
    ]  # fmt: skip
    return {"nodes": found, "edges": edges}


def _pressed(picture: Picture, nodes: list[dict[str, Any]]) -> str | None:
    """The operator before which rows gather: the busiest, if it works more than half of the time and something waits."""
    waits = picture.admitted - picture.epoch > EPOCHS_IN_FLIGHT or any(node.get("pressed") for node in nodes)
    busiest = max((n for n in nodes if n["kind"] == "operator"), key=lambda n: float(n["busy"]), default=None)
    return busiest["name"] if waits and busiest is not None and busiest["busy"] > BUSY else None


def _last(rows: curves.Rows | None, column: str) -> float | None:
    """The newest number, if it is known."""
    number = None if rows is None else rows.last(column)
    return None if number is None or math.isnan(number) else number


def _preserved(picture: Picture, stream: str, unit: str) -> str:
    """How the stream is kept, where it crosses into another unit."""
    return next((n.preserved for n in picture.nodes if n.name == stream and n.unit != unit), "")


def _shards(picture: Picture) -> list[dict[str, Any]]:
    """Every shard with its share of its operator's rows, against a fair one."""
    rows: dict[str, list[int]] = {}
    for shard in picture.shards.values():
        rows.setdefault(shard.operator, []).append(shard.rows or 0)
    found = []
    for shard in sorted(picture.shards.values(), key=lambda s: (s.operator, _number(s.name))):
        total, count = sum(rows[shard.operator]), len(rows[shard.operator])
        share = (shard.rows or 0) / total if total else None
        found.append(
            {
                "name": shard.name, "operator": shard.operator, "host": shard.host, "busy": shard.busy,
                "rows": shard.rows, "share": share, "bytes": shard.bytes, **standby_view.of_shard(picture, shard),
                "skewed": share is not None and count > 1 and share * count >= SKEWED,
            }
        )  # fmt: skip
    return found


def _number(shard: str) -> int:
    tail = shard.rpartition("/")[2]
    return int(tail) if tail.isdigit() else 0


def _host(picture: Picture, host: Host) -> dict[str, Any]:
    return {
        "id": host.id, "pid": host.pid, "address": host.address, "ready_ms": host.ready_ms, "cpu": host.cpu,
        "memory": host.memory, "cpu_curve": [[at / 1000, cpu] for at, cpu in list(host.cpu_curve)[-120:]],
        "copies_of": [pair.primary for pair in picture.pairs.values() if pair.copy == host.id],
        "shards": sorted((s.name for s in picture.shards.values() if s.host == host.id), key=lambda n: (n.rpartition("/")[0], _number(n))),
    }  # fmt: skip


def _gone(host: Host) -> dict[str, Any]:
    return {"id": host.id, "generation": host.generation, "lost_ms": host.lost_ms, "reason": host.reason}


def time_curves(picture: Picture, from_ms: float | None, to_ms: float | None) -> dict[str, Any]:
    """Latency with its parts, rates, backlog, lag."""
    rows = picture.epochs.between(from_ms, to_ms)
    return {"curves": curves.epochs(rows, POINTS), "summary": curves.summary(rows), "bands": _bands(picture)}


def state_curves(picture: Picture, from_ms: float | None, to_ms: float | None) -> dict[str, Any]:
    """The state of every operator, with the checkpoints on it."""
    whole = picture.epochs.between(from_ms, to_ms)
    shown = {
        name: curves.state(picture.operators[name].between(from_ms, to_ms), POINTS)
        for name in sorted(picture.operators)
    }
    marks = [
        _brief(c)
        for c in picture.checkpoints.values()
        if (from_ms is None or c.decided_ms >= from_ms) and (to_ms is None or c.decided_ms <= to_ms)
    ]
    return {
        "total": curves.state(whole, POINTS), "operators": shown, "checkpoints": _thinned(marks, LISTED),
        "threshold": picture.threshold, "bands": _bands(picture),
    }  # fmt: skip


def _thinned(marks: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    step = -(-len(marks) // most) if marks else 1
    return marks[::-1][::step][::-1]


def _bands(picture: Picture) -> list[dict[str, Any]]:
    """When something was going on, to be shaded behind curves."""
    shown = ("fault", "failure", "scale", "takeover", "standby")
    found = [i for i in picture.incidents.values() if i.kind in shown][-LISTED:]
    return [
        {"id": i.id, "kind": i.kind, "from": i.began_ms / 1000, "to": (i.ended_ms or picture.at_ms) / 1000}
        for i in found
    ]


def checkpoints(picture: Picture, at_ms: float) -> dict[str, Any]:
    """The newest ones, newest first."""
    newest = list(picture.checkpoints.values())[: -LISTED - 1 : -1]
    return {
        "checkpoints": [{**_brief(c), "age_ms": at_ms - (c.committed_ms or c.decided_ms)} for c in newest],
        "of": picture.totals.checkpoints + picture.totals.failed_checkpoints,
    }


def _brief(checkpoint: Checkpoint) -> dict[str, Any]:
    c = checkpoint
    state = "failed" if c.error else "committed" if c.committed_ms is not None else "on its way"
    return {
        "key": c.key, "id": c.id, "generation": c.generation, "at_ms": c.decided_ms, "reason": c.reason, "why": c.why,
        "state": state, "bytes": c.bytes, "ms": c.ms, "error": c.error, "shards": len(c.parts), "inflight": c.inflight,
        "inflight_bytes": c.inflight_bytes,
    }  # fmt: skip


def checkpoint(c: Checkpoint) -> dict[str, Any]:
    """One with a row for each shard: ordered, forked, written, synced; times in ms since it was decided."""
    rows: list[dict[str, Any]] = []
    for name, part in sorted(c.parts.items(), key=lambda entry: (entry[0].rpartition("/")[0], _number(entry[0]))):
        holder = c.holders.get(name)
        ordered = c.ordered.get(holder, c.decided_ms) if holder else c.decided_ms
        forked = c.forked.get(holder, ordered) if holder else ordered
        forked = max(ordered, min(forked, part.written_ms))
        synced = part.written_ms - part.sync_ms
        rows.append(
            {
                "shard": name, "host": holder[0] if holder else None, "bytes": part.bytes,
                "serialise_ms": part.serialise_ms, "sync_ms": part.sync_ms, "ms": part.ms,
                "ordered": ordered - c.decided_ms, "forked": forked - c.decided_ms,
                "synced": max(forked, synced) - c.decided_ms, "written": part.written_ms - c.decided_ms,
            }
        )  # fmt: skip
    end = (c.committed_ms or max((p.written_ms for p in c.parts.values()), default=c.decided_ms)) - c.decided_ms
    slowest = max(rows, key=lambda row: float(row["written"]), default=None)
    return {
        **_brief(c), "rows": rows, "end": end, "awaited_ms": c.awaited_ms, "facts": c.facts,
        "slowest": _slowest(slowest, end) if slowest else "",
    }  # fmt: skip


def _slowest(row: dict[str, Any], end: float) -> str:
    parts = {
        "waiting for its epoch": row["ordered"],
        "forking": row["forked"] - row["ordered"],
        "writing": row["synced"] - row["forked"],
        "making the file durable": row["written"] - row["synced"],
        "committing": end - row["written"],
    }
    name, took = max(parts.items(), key=lambda entry: entry[1])
    return f"{row['shard']} was last; most of the time went into {name} ({took:.0f} ms of {end:.0f} ms)"


def incidents(picture: Picture) -> dict[str, Any]:
    """Newest first."""
    found = list(picture.incidents.values())
    return {
        "incidents": [incident_head(i) for i in reversed(found)][:LISTED],
        "longest_outage_ms": picture.totals.longest_outage_ms,
        "began_ms": picture.began_ms,
        "at_ms": picture.at_ms,
    }


def incident_head(i: Incident) -> dict[str, Any]:
    return {
        "id": i.id, "kind": i.kind, "title": i.title, "began_ms": i.began_ms, "ended_ms": i.ended_ms,
        "outage_ms": i.outage_ms, "recovery_ms": i.recovery_ms if i.recovery_ms != -1 else None,
    }  # fmt: skip


def incident(i: Incident) -> dict[str, Any]:
    """The whole story."""
    return {
        **incident_head(i),
        "phases": [{"name": name, "ms": ms} for name, ms in i.phases],
        "events": [{"at_ms": t.at_ms, "text": t.text, "tone": t.tone} for t in i.events],
        "left_out": i.left_out,
    }
