"""One span for each epoch and recovery, with its parts inside, at the times the journal has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="no OpenTelemetry: pip install 'perseid[otel]'")

sys.path.insert(0, str(Path(__file__).parents[1] / "dashboard"))

from perseid.metrics.spans import Spans  # noqa: E402


def test_epochs_and_recoveries_are_spans_with_parts() -> None:
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from recorded import records

    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans, journal = Spans(provider.get_tracer("test")), records("units")
    for record in journal:
        spans.take_in(record)
    made = exporter.get_finished_spans()
    whole = [span for span in made if span.parent is None]
    kinds = [record["kind"] for record in journal]
    assert len([s for s in whole if s.name == "perseid epoch"]) == kinds.count("epoch_committed")
    recoveries = [s for s in whole if s.name == "perseid recovery"]
    assert len(recoveries) == kinds.count("recovery_finished") and spans.made == len(whole)
    ended = [record["at_ms"] for record in journal if record["kind"] == "recovery_finished"]
    assert [ends(span) // 1_000_000 for span in recoveries] == ended
    by_id = {context.span_id: span for span in whole if (context := span.get_span_context()) is not None}
    for part in made:
        if part.parent is not None:
            above = by_id[part.parent.span_id]
            assert begins(above) <= begins(part) <= ends(part) <= ends(above)


def begins(span: Any) -> int:
    return int(span.start_time)


def ends(span: Any) -> int:
    return int(span.end_time)
