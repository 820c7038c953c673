"""``perseid top`` and ``perseid metrics`` tell the journal's numbers, without Spark."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perseid.cli.main import app

sys.path.insert(0, str(Path(__file__).parents[1] / "dashboard"))

from recorded import lines, records, root_with

RUN = CliRunner()


@pytest.fixture
def root(tmp_path: Path) -> str:
    return root_with(tmp_path / "root", lines("units"))


def test_top_shows_operators_hosts_and_incidents_once_where_there_is_no_terminal(root: str) -> None:
    said = RUN.invoke(app, ["top", root]).output
    for word in ("units stopped", "count", "rollup", "Lost host 4", "Scale count to 4 shards", "spare"):
        assert word in said


def test_top_as_json_has_the_numbers_of_the_journal(root: str) -> None:
    seen = json.loads(RUN.invoke(app, ["top", root, "--json"]).output)
    committed = [record for record in records("units") if record["kind"] == "epoch_committed"]
    assert seen["epoch"] == committed[-1]["epoch"] and seen["totals"]["rows_in"] == sum(r["rows_in"] for r in committed)


@pytest.mark.parametrize("command", ["top", "metrics", "dashboard"])
def test_a_root_that_is_none_is_told(tmp_path: Path, command: str) -> None:
    said = RUN.invoke(app, [command, str(tmp_path)])
    assert said.exit_code == 1 and "is not a checkpoint root" in said.output


def test_a_token_that_can_be_guessed_is_refused(root: str) -> None:
    said = RUN.invoke(app, ["dashboard", root, "--token", "abc"])
    assert said.exit_code == 1 and "at least 8 characters" in said.output


def test_metrics_are_printed(root: str) -> None:
    assert 'perseid_scales_total{app="units"} 1' in RUN.invoke(app, ["metrics", root]).output


class Gateway(http.server.BaseHTTPRequestHandler):
    taken: list[tuple[str, str]] = []

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.taken.append((self.path, body))
        self.send_response(200 if "perseid_epoch" in body else 400)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def gateway() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Gateway)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_metrics_are_pushed_under_the_name_of_the_application(root: str, gateway: str) -> None:
    assert RUN.invoke(app, ["metrics", root, "--push", gateway]).exit_code == 0
    assert Gateway.taken[-1][0] == "/metrics/job/perseid/app/units"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "ftp://gateway"])
def test_a_gateway_that_does_not_take_them_is_told(root: str, url: str) -> None:
    said = RUN.invoke(app, ["metrics", root, "--push", url])
    assert said.exit_code == 1 and ("could not be pushed" in said.output or "expected an address" in said.output)
