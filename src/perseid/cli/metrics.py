"""``perseid metrics``: an application's numbers for Prometheus and its epochs for OpenTelemetry, from the journal."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import typer
from rich.console import Console

from perseid.cli.figures import counted
from perseid.cli.report import reporting
from perseid.cli.roots import existing_root
from perseid.dashboard.exposition import exposition
from perseid.dashboard.watched import WatchedRoot
from perseid.errors import PerseidError, SettingsError
from perseid.storage.journal import JournalReader

PUSH_S = 15.0


def metrics(
    root: Annotated[str, typer.Argument(metavar="ROOT", help="Checkpoint root: a folder or URI.")],
    push: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Push to this Prometheus Pushgateway, for runs that end before they are asked."
        ),
    ] = None,
    spans: Annotated[
        bool,
        typer.Option(
            "--spans",
            help="Send a span for each epoch and recovery to OpenTelemetry (perseid\\[otel], OTEL_… variables).",
        ),
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more happens, until Ctrl-C.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Print an application's metrics in Prometheus' format, push them, or send spans to OpenTelemetry.

    To be scraped, start [bold]perseid dashboard ROOT[/bold]: it has /metrics.

    Example: [bold]perseid metrics words-root --push http://gateway:9091[/bold]
    """
    with reporting(debug=debug):
        store = existing_root(root)
        try:
            if spans:
                _send_spans(JournalReader(store), follow)
                return
            watched = WatchedRoot(store)
            while True:
                watched.look()
                text = exposition([watched], 0)
                if push is None:
                    print(text, end="", flush=True)
                else:
                    pushed(push, watched.shown(lambda picture: picture.app) or "perseid", text)
                if not follow:
                    return
                time.sleep(PUSH_S)
        except KeyboardInterrupt:
            return


def pushed(url: str, app: str, text: str) -> None:
    """Put the metrics in place of those that were pushed before. Raises ``PerseidError`` if the gateway does not take them."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise SettingsError(f"--push {url}: expected an address such as http://gateway:9091")
    address = f"{url.rstrip('/')}/metrics/job/perseid/app/{quote(app, safe='')}"
    request = urllib.request.Request(
        address, text.encode(), {"Content-Type": "text/plain; version=0.0.4"}, method="PUT"
    )
    try:
        urllib.request.urlopen(request, timeout=PUSH_S).close()
    except (urllib.error.URLError, OSError) as error:
        raise PerseidError(f"the metrics could not be pushed to {address}: {error}") from error


def _send_spans(reader: JournalReader, follow: bool) -> None:
    from perseid.metrics.spans import Spans, tracer

    provider = _configured()
    made = Spans(tracer())
    while True:
        for record in reader.new():
            made.take_in(record)
        if not follow:
            break
        time.sleep(1.0)
    provider.force_flush()
    Console(highlight=False).print(f"{counted(made.made, 'span')} sent")


def _configured() -> Any:
    """An exporter by the OTEL_… variables, as ``opentelemetry-instrument`` would set one up."""
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise SettingsError("spans need OpenTelemetry: pip install 'perseid[otel]'") from error
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider
