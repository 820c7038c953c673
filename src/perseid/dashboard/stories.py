"""Incidents as stories: every start, fault, failure and scale from its first sign to the first epoch after it.

Told what happened, in order. The outage of an incident is the longest time between two committed epochs that it had a part in, counted
from the last epoch before it: what somebody who watches the output saw.

Invariant: an incident that has ended does not change any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perseid.cli.figures import counted, listed
from perseid.dashboard.picture import KEPT_INCIDENTS, Incident, IncidentKind, Picture

QUIET_MS = 2_000
"""A lost host that nobody needs starts no recovery: so long after it the incident is over."""
TOGETHER_MS = 60_000
"""Dead letters that come so close upon each other are one incident."""


class Stories:
    """Writes the incidents of a picture."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._open: dict[str, Incident] = {}  # by ``Incident.key``
        self._committed_ms: int | None = None
        self._lost: list[str] = []
        self._replaced: dict[str, str] = {}  # a host that is given up → the one that was its copy
        self._copies: dict[str, str] = {}  # a host that was lost with a copy → whose

    def tell(self, at_ms: int, text: str, tone: str) -> bool:
        """Something that belongs to whatever is going on; False if nothing is."""
        for incident in self._open.values():
            incident.tell(at_ms, text, tone)
        return bool(self._open)

    # -- beginnings -----------------------------------------------------------------------------------------------

    def app_started(self, record: Mapping[str, Any], at_ms: int, crashed: bool, text: str) -> None:
        for incident in [*self._open.values()]:
            self._end(incident, at_ms)
        title = "The application started"
        if crashed:
            title = "The driver was lost, a new one took over"
        elif record.get("restored") is not None:
            title = f"The application started again from checkpoint {record['restored']}"
        if not crashed:
            self._committed_ms = None  # it was stopped on purpose: no outage
        self._begin("takeover" if crashed else "start", at_ms, title, text, "")

    def host_lost(self, record: Mapping[str, Any], at_ms: int, text: str) -> None:
        host = str(record["host"])
        if host in self._replaced and self.tell(at_ms, text, "red"):
            return  # its copy has taken over: that is the incident
        if "fault" not in self._open:
            self._lost = []
        self._lost.append(host)
        hosts = f"host{'s' if len(self._lost) > 1 else ''} {listed(self._lost)}"
        title = f"Lost {hosts}"
        if "fault" in self._open:
            incident = self._open["fault"]
            incident.title, incident.solved_ms = title, None
            self.tell(at_ms, text, "red")
        else:
            self._begin("fault", at_ms, title, text, "red")

    def failure(self, record: Mapping[str, Any], at_ms: int, text: str) -> None:
        if self._open.keys() & {"fault", "failure", "start", "takeover"}:
            self.tell(at_ms, text, "red")
            return
        where = f"Operator {record['operator']} failed" if "operator" in record else f"Epoch {record['epoch']} failed"
        self._begin("failure", at_ms, where, text, "red").solved_ms = at_ms

    def recovery_started(self, record: Mapping[str, Any], at_ms: int, text: str) -> None:
        if not self._open.keys() & {"fault", "start", "takeover"}:
            self._begin("fault", at_ms, f"Recovery: {str(record['reason']).partition(':')[0]}", text, "yellow")
        else:
            self.tell(at_ms, text, "yellow")
        if fault := self._open.get("fault"):
            fault.recovery_ms, fault.solved_ms = -1, None  # it has begun

    def scale_started(self, record: Mapping[str, Any], at_ms: int, text: str) -> None:
        title = f"Scale {record['operator']} to {counted(int(record['shards']), 'shard')}"
        if "scale" in self._open:
            self.tell(at_ms, text, "")
        else:
            self._begin("scale", at_ms, title, text, "")

    def switched(self, record: Mapping[str, Any], at_ms: int) -> None:
        """A copy answers instead of its primary. The primary may be switched again before the next epoch: that is one incident."""
        primary, copy, silent_ms = str(record["primary"]), record["copy"], int(record["silent_ms"])
        incident = self._open.get(f"standby {primary}")
        if incident is None:
            incident = self._begin("standby", at_ms, "", "", "", about=primary)
        incident.title, incident.solved_ms = f"Host {copy} answers instead of host {primary}", None
        incident.phases.append(("silent", silent_ms))
        incident.switched_ms = at_ms

    def rolled_back(self, record: Mapping[str, Any], at_ms: int) -> None:
        if incident := self._open.get(f"standby {record['primary']}"):
            answered_ms = max(0, at_ms - (incident.switched_ms or at_ms) - int(record["ms"]))
            incident.phases += [("the copy answered", answered_ms), ("roll-back", int(record["ms"]))]
            incident.title = f"Host {record['copy']} answered instead of host {record['primary']}, and gave back"
            incident.solved_ms = at_ms

    def copy_lost(self, record: Mapping[str, Any]) -> None:
        self._copies[str(record["copy"])] = str(record["primary"])

    def given_up(self, record: Mapping[str, Any], at_ms: int) -> None:
        """The copy is the primary now, whether it answered before or not."""
        host, promoted = str(record["host"]), record["promoted"]
        self._replaced[host] = str(promoted)
        incident = self._open.get(f"standby {host}")
        if incident is None and "fault" in self._open and host in self._lost:
            incident = self._open["fault"]
        if incident is None:
            incident = self._begin("standby", at_ms, "", "", "", about=host)
        if incident.switched_ms is not None:
            incident.phases.append(("the copy answered", max(0, at_ms - incident.switched_ms)))
        incident.title, incident.solved_ms = f"Host {promoted} replaced host {host} for good", at_ms

    def checkpoint_failed(self, key: str, id: int, at_ms: int, text: str) -> None:
        if not self.tell(at_ms, text, "red"):
            incident = self._begin("checkpoint", at_ms, f"Checkpoint {id} failed", text, "red")
            self._end(incident, at_ms)

    def dead_letters(self, where: str, count: int, noun: str, at_ms: int, text: str) -> None:
        incident = self._open.get("dead letters")
        if incident is not None and at_ms - (incident.solved_ms or 0) > TOGETHER_MS:
            self._end(incident, incident.solved_ms or at_ms)
            incident = None
        if incident is None:
            incident = self._begin("dead letters", at_ms, f"{where} put rows aside", text, "yellow")
        else:
            incident.tell(at_ms, text, "yellow")
        incident.solved_ms = at_ms

    # -- ends -----------------------------------------------------------------------------------------------------

    def recovery_finished(self, ms: int, phases: list[tuple[str, int]], at_ms: int, text: str) -> None:
        self.tell(at_ms, text, "green")
        for kind in ("fault", "start", "takeover"):
            if incident := self._open.get(kind):
                incident.recovery_ms, incident.solved_ms = ms, at_ms
                incident.phases = [(name, took) for name, took in phases if took > 0] or phases

    def scale_ended(self, operator: str, ms: int | None, phases: list[tuple[str, int]], at_ms: int, text: str) -> None:
        self.tell(at_ms, text, "green" if ms is not None else "yellow")
        if incident := self._open.get("scale"):
            incident.recovery_ms, incident.phases, incident.solved_ms = ms, phases, at_ms
            if ms is None:
                incident.title += ": given up"

    def committed(self, epoch: int, at_ms: int) -> None:
        before, self._committed_ms = self._committed_ms, at_ms
        for incident in [*self._open.values()]:
            if incident.kind == "dead letters":
                if at_ms - (incident.solved_ms or at_ms) > TOGETHER_MS:
                    self._end(incident, incident.solved_ms or at_ms)
                continue
            if before is not None:
                incident.outage_ms = max(incident.outage_ms or 0, at_ms - before)
            unneeded = (
                incident.kind == "fault" and incident.recovery_ms is None and at_ms > incident.began_ms + QUIET_MS
            )
            if incident.solved_ms is not None or unneeded:
                incident.tell(at_ms, f"epoch {epoch} is committed", "green")
                if unneeded:
                    copies = [self._copies[host] for host in self._lost if host in self._copies]
                    held = f"the copy of host {listed(copies)}" if copies else "nothing that was needed"
                    incident.title += f", which held {held}"
                self._end(incident, at_ms)

    def app_stopped(self, record: Mapping[str, Any], at_ms: int, text: str) -> None:
        failed = record["reason"] != "finished"
        if failed and not self.tell(at_ms, text, "red"):
            self._begin("failure", at_ms, "The application failed", text, "red")
        for incident in [*self._open.values()]:
            self._end(incident, at_ms)

    # -- both -----------------------------------------------------------------------------------------------------

    def _begin(self, kind: IncidentKind, at_ms: int, title: str, text: str, tone: str, *, about: str = "") -> Incident:
        incidents, id = self._picture.incidents, f"{at_ms}-{kind.replace(' ', '-')}"
        while id in incidents:
            id += "-"
        incident = incidents[id] = Incident(id, kind, at_ms, title, about=about)
        self._open[incident.key] = incident
        if text:
            incident.tell(at_ms, text, tone)
        while len(incidents) > KEPT_INCIDENTS:
            del incidents[next(iter(incidents))]
        return incident

    def _end(self, incident: Incident, at_ms: int) -> None:
        incident.ended_ms = at_ms
        if incident.recovery_ms == -1:
            incident.recovery_ms = None
        if incident.kind in ("fault", "failure", "takeover", "scale", "standby"):
            totals = self._picture.totals
            totals.longest_outage_ms = max(totals.longest_outage_ms, incident.outage_ms or 0)
        self._open.pop(incident.key, None)
