"""What a controller knows at a moment, as people are shown it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perseid.cli.figures import counted, duration, listed
from perseid.engine.controller import Controller


def knowledge(controller: Controller, now_ms: int) -> dict[str, Any]:
    """As JSON data."""
    pending, newest, recovering, scaling = (
        [steps.pending for steps in controller.checkpoints.pending.values()],
        controller.checkpoints.newest,
        controller.recovering,
        controller.scaling,
    )
    return {
        "phase": controller.phase,
        "hosts": {
            int(host): {
                "silent_ms": max(0, now_ms - controller.detector.seen_ms.get(host, now_ms)),
                "suspected": host in controller.detector.suspects,
                "shards": [str(shard) for shard in controller.routing.shards_on(host)],
            }
            for host in sorted(controller.hosts)
        },
        "routing": {
            "version": controller.routing.version,
            "without_host": [str(shard) for shard, route in controller.routing.routes.items() if route.host is None],
        },
        "admitted": controller.pipeline.admitted,
        "units": {
            str(name): {
                "finished": unit.finished,
                "running": unit.running,
                "attempt": unit.attempt,
                "replaying": unit.replaying,
            }
            for name, unit in controller.pipeline.units.items()
        },
        "checkpoint": {
            "newest": newest.id if newest is not None else None,
            "newest_epochs": {str(unit): epoch for unit, epoch in newest.cuts.items()} if newest is not None else {},
            "pending": [{"id": p.id, "saved": len(p.saved), "of": len(p.shards)} for p in pending],
        },
        "recovery": None
        if recovering is None
        else {
            "reason": recovering.reason,
            "since_ms": now_ms - recovering.since_ms,
            "plan": recovering.plan.name if recovering.plan is not None else None,
            "from_checkpoint": recovering.plan.checkpoint if recovering.plan is not None else None,
            "lost": sorted(str(shard) for shard in recovering.lost),
            "restoring": sorted(recovering.restoring),
        },
        "scale": None
        if scaling is None
        else {"operator": scaling.request.operator, "shards": len(scaling.request.slots), "phase": scaling.phase},
        "trouble": controller.trouble,
    }


def lines(known: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A name and a sentence for each part."""
    yield "phase", str(known["phase"])
    for host, seen in known["hosts"].items():
        suspected = ", suspected" if seen["suspected"] else ""
        holds = f"holds {listed(seen['shards'])}" if seen["shards"] else "holds nothing"
        yield f"host {host}", f"{holds}, heard {duration(seen['silent_ms'])} ago{suspected}"
    lost = known["routing"]["without_host"]
    yield "routing", f"version {known['routing']['version']}" + (f", without a host: {listed(lost)}" if lost else "")
    yield "admitted", f"up to epoch {known['admitted']}"
    for name, unit in known["units"].items():
        does = "rests"
        if unit["running"] is not None:
            does = (
                f"{'replays up to' if unit['replaying'] else 'runs'} epoch {unit['running']}, attempt {unit['attempt']}"
            )
        yield f"unit {name}", f"finished epoch {unit['finished']}, {does}"
    checkpoint = known["checkpoint"]
    newest = "none yet" if checkpoint["newest"] is None else f"newest is {checkpoint['newest']}"
    on_their_way = [
        f", {p['id']} is on its way: {p['saved']} of {counted(p['of'], 'snapshot')}" for p in checkpoint["pending"]
    ]
    yield "checkpoint", newest + "".join(on_their_way)
    if (recovery := known["recovery"]) is not None:
        from_point = recovery["from_checkpoint"]
        plan = f", {recovery['plan']} from {f'checkpoint {from_point}' if from_point is not None else 'the beginning'}"
        waits = f", waits for host {listed(recovery['restoring'])}" if recovery["restoring"] else ""
        yield (
            "recovery",
            f"for {duration(recovery['since_ms'])} ({recovery['reason']}){plan if recovery['plan'] else ', no plan yet'}{waits};"
            f" not back: {listed(recovery['lost'])}",
        )
    if (scale := known["scale"]) is not None:
        yield "scale", f"{scale['operator']} to {counted(scale['shards'], 'shard')}, {scale['phase']}"
    if known["trouble"]:
        yield "trouble", known["trouble"]
    for number, told in enumerate(known.get("last_events", ())):
        yield "" if number else "last events", told
