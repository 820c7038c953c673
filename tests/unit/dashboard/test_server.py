"""The server gives data to who may have it, refuses others and counts them, and changes nothing unless it may."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perseid.cli.roots import existing_root
from perseid.dashboard.server import Dashboard
from perseid.dashboard.watched import WatchedRoot
from perseid.errors import SettingsError
from perseid.storage import requests
from recorded import lines, records, root_with

Serve = Callable[..., Dashboard]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    made: list[Dashboard] = []

    def start(journal: list[bytes] | None = None, **settings: Any) -> Dashboard:
        folder = tmp_path / f"root-{len(made)}"
        root = WatchedRoot(existing_root(root_with(folder, lines("units") if journal is None else journal)))
        root.look()
        made.append(Dashboard([root], **{"port": 0, **settings}))
        made[-1].start()
        return made[-1]

    yield start
    for dashboard in made:
        dashboard.close()


def ask(dashboard: Dashboard, path: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=60)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, None if body is None else json.dumps(body), sent)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, json.loads(data) if "json" in (answer.getheader("Content-Type") or "") else data


def test_numbers_are_the_journals(serve: Serve) -> None:
    dashboard, journal = serve(), records("units")
    assert ask(dashboard, "/api/roots")[1]["roots"][0]["app"] == "units"
    now = ask(dashboard, "/api/0/now")[1]
    committed = [record for record in journal if record["kind"] == "epoch_committed"]
    assert now["epoch"] == committed[-1]["epoch"] and now["totals"]["rows_in"] == sum(r["rows_in"] for r in committed)
    assert len(ask(dashboard, "/api/0/time")[1]["curves"]["t"]) == len(committed)
    checkpoints = ask(dashboard, "/api/0/checkpoints")[1]["checkpoints"]
    one = ask(dashboard, f"/api/0/checkpoints/{checkpoints[1]['key']}")[1]
    assert one["why"] == checkpoints[1]["why"] and one["rows"]
    story = ask(dashboard, "/api/0/incidents")[1]["incidents"][0]
    assert ask(dashboard, f"/api/0/incidents/{story['id']}")[1]["title"] == story["title"]
    assert set(ask(dashboard, "/api/0/state")[1]["operators"]) == {"count", "rollup"}


def test_metrics_are_prometheus_text(serve: Serve) -> None:
    status, text = ask(serve(), "/metrics")
    said = dict(line.rsplit(" ", 1) for line in text.decode().splitlines() if not line.startswith("#"))
    faults = sum(record["kind"] == "host_lost" for record in records("units"))
    assert status == 200 and said['perseid_faults_total{app="units"}'] == str(faults)
    assert said['perseid_up{app="units"}'] == "0" and 'perseid_state_bytes{app="units",operator="count"}' in said


@pytest.mark.parametrize(
    "path", ["/api/7/now", "/api/x/now", "/api/0/nothing", "/api/0/checkpoints/1-99", "/api/0/incidents/x", "/a/b/c",
             "/..%2f..%2fserver.py", "/../server.py", "/vendor/%2e%2e/%2e%2e", "/none.js", "/vendor"],
)  # fmt: skip
def test_what_is_not_there_is_404(serve: Serve, path: str) -> None:
    assert ask(serve(), path)[0] == 404


def test_a_wrong_token_is_refused_and_counted(serve: Serve) -> None:
    dashboard = serve(token="right-token")
    for path in ("/", "/api/roots", "/metrics", "/?token=wrong", "/api/0/now?token="):
        assert ask(dashboard, path)[0] == 401
    assert ask(dashboard, "/api/roots", Cookie="perseid-dashboard=wrong")[0] == 401
    assert dashboard.refused == 6
    assert ask(dashboard, "/api/roots?token=right-token")[0] == 200
    assert ask(dashboard, "/api/roots", Authorization="Bearer right-token")[0] == 200
    assert ask(dashboard, "/api/roots", Cookie="perseid-dashboard=right-token")[0] == 200
    assert b"perseid_dashboard_refused_total 6" in ask(dashboard, "/metrics?token=right-token")[1]
    assert ask(dashboard, "/?token=right-token")[0] == 303  # without the token in the address


def test_beyond_loopback_there_is_always_a_token(serve: Serve) -> None:
    dashboard = serve(host="0.0.0.0")
    assert dashboard.token and f"token={dashboard.token}" in dashboard.url
    assert ask(dashboard, "/api/roots")[0] == 401
    assert serve().token is None and "token" not in serve().url


def test_another_site_cannot_use_the_browser_to_read(serve: Serve) -> None:
    assert ask(serve(), "/api/roots", Host="evil.example:80")[0] == 403
    assert ask(serve(), "/api/roots", Host="localhost:80")[0] == 200


def test_a_port_in_use_is_told_and_the_next_one_taken(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        busy = other.getsockname()[1]
        dashboard = serve(port=busy)
    assert dashboard.busy_ports[0] == busy and busy < dashboard.port <= busy + 20


def test_an_address_of_another_machine_is_refused(serve: Serve) -> None:
    with pytest.raises(SettingsError, match=r"cannot listen on 192\.0\.2\.1"):
        serve(host="192.0.2.1", port=1)


CHECKPOINT = {"action": "checkpoint", "confirmed": True}


def test_it_changes_nothing_unless_started_to_control(serve: Serve) -> None:
    dashboard = serve()
    assert ask(dashboard, "/api/0/control", "POST", CHECKPOINT, X_Perseid="control")[0] == 403
    assert requests.pending(dashboard.roots[0].store) == []


@pytest.mark.parametrize(
    ("wanted", "headers", "status"),
    [
        (CHECKPOINT, {}, 403),  # from the form of another site
        ({"action": "checkpoint"}, {"X_Perseid": "control"}, 422),
        ({"action": "fly", "confirmed": True}, {"X_Perseid": "control"}, 422),
        ({"action": "scale", "operator": "count", "shards": "4", "confirmed": True}, {"X_Perseid": "control"}, 422),
        ({"action": "standby", "operator": "count", "mode": "hybrid"}, {"X_Perseid": "control"}, 422),
        ({"action": "standby", "operator": "count", "mode": "later", "confirmed": True}, {"X_Perseid": "control"}, 422),
        (["checkpoint"], {"X_Perseid": "control"}, 400),
    ],
)
def test_what_is_not_a_confirmed_request_of_the_page_asks_for_nothing(
    serve: Serve, wanted: Any, headers: dict[str, str], status: int
) -> None:
    dashboard = serve(may_control=True)
    assert ask(dashboard, "/api/0/control", "POST", wanted, **headers)[0] == status
    assert requests.pending(dashboard.roots[0].store) == []


@pytest.mark.parametrize(
    ("action", "asked"),
    [
        ({"action": "scale", "operator": "count", "shards": 4}, {"scale": "count", "shards": 4}),
        ({"action": "standby", "operator": "count", "mode": "hybrid"}, {"standby": "count", "mode": "hybrid"}),
    ],
)
def test_a_confirmed_request_reaches_the_application_and_its_answer_the_page(
    serve: Serve, action: dict[str, Any], asked: dict[str, Any]
) -> None:
    dashboard = serve(may_control=True)
    store, said = dashboard.roots[0].store, list[Any]()
    wanted = {**action, "confirmed": True}
    asking = threading.Thread(
        target=lambda: said.append(ask(dashboard, "/api/0/control", "POST", wanted, X_Perseid="control"))
    )
    asking.start()
    while not (found := requests.pending(store)):
        assert asking.is_alive()
    assert found[0][1] == asked
    requests.answer(store, found[0][0], {"error": "no"})
    asking.join(60)
    assert said == [(422, {"error": "no"})]


def test_changes_are_told_as_events_and_a_browser_that_goes_away_is_forgotten(serve: Serve) -> None:
    journal = lines("units")
    dashboard = serve(journal[:400])
    with socket.create_connection(("127.0.0.1", dashboard.port), 60) as browser:
        browser.sendall(b"GET /api/0/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        stream = browser.makefile("rb")
        events = (json.loads(line[6:]) for line in stream if line.startswith(b"data: "))
        first = next(events)
        root = dashboard.roots[0].store.local
        assert root is not None
        with next((root / "journal").iterdir()).open("ab") as file:
            file.writelines(journal[400:])
        newest = next(event for event in events if event["phase"] == "stopped")
        assert newest["epoch"] > first["epoch"]
        stream.close()
    with next((root / "journal").iterdir()).open("ab") as file:  # it is told to nobody
        file.write(b'{"seq":99999,"at_ms":1,"kind":"warning","generation":1,"message":"x"}\n')
    assert ask(dashboard, "/api/roots")[0] == 200


def test_a_torn_journal_shows_what_can_be_read(serve: Serve) -> None:
    journal = lines("units")
    torn = [*journal[:300], journal[300][:40], b"\n", b"\x00\xff\xfe\n", b"[1]\n", *journal[301:]]
    whole, damaged = (ask(serve(said), "/api/0/now")[1] for said in (journal, torn))
    assert damaged["phase"] == whole["phase"] and damaged["epoch"] == whole["epoch"]
