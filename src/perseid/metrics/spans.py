"""Epochs and recoveries as OpenTelemetry spans: one for each, with its parts inside. Needs ``perseid[otel]``.

Made from the records of a journal with the times that these have, so they can be made beside the application or long after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perseid.errors import SettingsError

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

NS = 1_000_000
PHASES = ("detect", "reload", "read", "deserialise", "reconnect", "catch_up", "retry")
PARTS = ("waiting", "spark", "hosts", "sink")


def tracer() -> Tracer:
    """The tracer of the program's own OpenTelemetry setup."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError as error:
        raise SettingsError("spans need OpenTelemetry: pip install 'perseid[otel]'") from error
    return trace.get_tracer("perseid")


class Spans:
    """Turns records into spans."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._app = ""
        self.made = 0

    def take_in(self, record: Mapping[str, Any]) -> None:
        match record:
            case {"kind": "app_started", "app": app}:
                self._app = str(app)
            case {"kind": "epoch_committed", "ms": ms} if ms is not None:
                facts = {name: record[name] for name in ("epoch", "rows_in", "rows_out", "state_bytes")}
                self._made("epoch", record, float(ms), facts, record.get("parts_ms", {}), PARTS)
            case {"kind": "recovery_finished", "ms": ms}:
                facts = {
                    "mode": record["mode"],
                    "start": bool(record.get("start")),
                    "replayed_epochs": record["replayed_epochs"],
                }
                self._made("recovery", record, float(ms), facts, record["phases"], PHASES)

    def _made(
        self, name: str, record: Mapping[str, Any], ms: float, facts: Mapping[str, Any], parts: Mapping[str, float],
        order: tuple[str, ...],
    ) -> None:  # fmt: skip
        from opentelemetry import trace

        end_ns = int(record["at_ms"]) * NS
        begin_ns = end_ns - int(ms * NS)
        said = {f"perseid.{key}": value for key, value in facts.items()} | {"perseid.app": self._app}
        span = self._tracer.start_span(f"perseid {name}", start_time=begin_ns, attributes=said)
        inside, at_ns = trace.set_span_in_context(span), begin_ns
        for part in [p for p in order if parts.get(p)]:
            until_ns = min(at_ns + int(parts[part] * NS), end_ns)
            self._tracer.start_span(part, context=inside, start_time=at_ns).end(until_ns)
            at_ns = until_ns
        span.end(end_ns)
        self.made += 1
