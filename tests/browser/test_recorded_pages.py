"""Every panel, from a recorded journal: its numbers are the journal's, the console is empty, keys and a narrow screen do.

With ``PERSEID_SCREENSHOTS=docs/dashboard`` the pictures of the documentation are taken from here.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import written
from page import PANELS, Page

from perseid.dashboard.server import Dashboard

RECORDED = Path(__file__).parents[1] / "recorded"
RECORDS = [json.loads(line) for line in gzip.decompress((RECORDED / "rides.jsonl.gz").read_bytes()).splitlines()]
Serve = Callable[..., Dashboard]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [record for record in RECORDS if record["kind"] == kind]


def count(number: float) -> str:
    return f"{number:,.0f}"


@pytest.fixture(scope="module")
def opened(chromium: Any, serve: Serve) -> Page:
    found = Page(chromium, serve("rides").url)
    found.dark()
    return found


@pytest.fixture
def page(opened: Page) -> Iterator[Page]:
    """The same page for all tests that only look at it. Nothing may stand in the console after any of them."""
    if not opened.browser.current_url.startswith(opened.url):
        opened.browser.get(opened.url)
    yield opened
    assert opened.complaints() == []


def picture(page: Page, name: str, **size: int) -> None:
    if folder := os.environ.get("PERSEID_SCREENSHOTS"):
        page.picture(Path(folder) / f"{name}.png", **size)


def test_the_head_and_the_graph_are_the_journals(page: Page) -> None:
    page.open("graph")
    committed, graph = of_kind("epoch_committed"), of_kind("app_started")[0]["graph"]
    assert page.text("#epoch") == count(committed[-1]["epoch"]) and page.text("#phase") == "stopped"
    assert page.text("h1").startswith("rides")
    names = [element.text for element in page.all(".node .name")]
    assert sorted(names) == sorted(node["name"] for node in graph)
    assert len(page.all(".edge")) == sum(len(node["inputs"]) for node in graph)
    scaled = of_kind("scaled")[-1]
    fares = next(node for node in page.all(".node") if node.get_attribute("aria-label").startswith("operator fares"))
    assert fares.get_attribute("aria-label").endswith(f"{scaled['shards']} shards")
    assert "connector" in page.text(".edge.durable")
    picture(page, "graph")


def test_the_state_has_its_checkpoints_and_their_reasons(page: Page) -> None:
    page.open("state")
    assert {figure.text.partition("\n")[0] for figure in page.all("figure")} == {
        "State of all operators", "cities", "fares", "pool",
    }  # fmt: skip
    decided = of_kind("checkpoint_decided")[-1]
    first = page.text(".reasons li:first-child")
    assert str(decided["checkpoint"]) in first and "the application ends" in first
    assert "and grows by" in page.text(".reasons")
    picture(page, "state")


def test_a_checkpoint_has_a_bar_for_each_shard(page: Page) -> None:
    page.open("checkpoints")
    newest = of_kind("checkpoint_committed")[-1]
    written = [r for r in of_kind("snapshot_written") if r["checkpoint"] == newest["checkpoint"]]
    page.wait(lambda: page.all(".gantt [role=row]"), "the shards of the checkpoint")
    assert sorted(element.text for element in page.all(".gantt .who")) == sorted(r["shard"] for r in written)
    assert f"Checkpoint {newest['checkpoint']}" in page.text("h3")
    started = {r["checkpoint"] for r in RECORDS if r["kind"] in ("checkpoint_decided", "checkpoint_failed")}
    assert len(page.all("tbody tr")) == 40 < len(started)
    next(button for button in page.all("button") if button.text == "older ones").click()
    page.wait(lambda: len(page.all("tbody tr")) == len(started), "all checkpoints")
    other = of_kind("checkpoint_committed")[3]["checkpoint"]
    page.open(f"checkpoints/1-{other}")
    page.wait(lambda: f"Checkpoint {other}" in page.text("h3").splitlines(), "the chosen checkpoint")
    page.browser.execute_script("document.querySelector('.tall').scrollTop = 0")
    picture(page, "checkpoints", height=900)


def test_time_is_split_into_its_parts(page: Page) -> None:
    page.open("time")
    committed = of_kind("epoch_committed")
    assert page.text("#epochs") == count(len(committed))
    assert page.text("#rows-in") == count(sum(r["rows_in"] for r in committed))
    assert page.text("#rows-out") == count(sum(r["rows_out"] for r in committed))
    late = sum(said.get("late", 0) for r in committed for said in r["operators"].values())
    assert page.text("#late") == count(late)
    titles = [figure.text.partition("\n")[0] for figure in page.all("figure")]
    assert titles == [
        "Latency of an epoch",
        "Where the time goes",
        "Rows a second",
        "Rows that wait",
        "Epochs that wait",
        "Watermark lag",
        "Late rows",
    ]
    picture(page, "time", height=960)
    page.all(".ranges button")[-1].click()
    page.wait(lambda: page.text("#epochs") != count(len(committed)), "the last minute alone")


def test_hosts_show_their_shards_and_hot_keys_without_their_values(page: Page) -> None:
    page.open("hosts")
    gone = {r["host"] for r in RECORDS if r["kind"] in ("host_lost", "host_released")}
    ready = {r["host"] for r in of_kind("host_ready")}
    assert len(page.all("article.host")) == len(ready - gone)
    shards = sum(len(element.find_elements("css selector", ".tag")) for element in page.all("article.host"))
    assert shards == of_kind("scaled")[-1]["shards"] + 3
    hot = page.text(".reasons")
    assert "fares" in hot and "airport" not in page.text("body")
    picture(page, "hosts")


def test_incidents_are_stories_with_a_link_that_can_be_kept(page: Page) -> None:
    page.open("incidents")
    assert page.text("#faults") == str(len(of_kind("host_lost")))
    recoveries = [r for r in of_kind("recovery_finished") if not r["start"]]
    assert page.text("#recoveries") == str(len(recoveries)) and page.text("#scales") == str(len(of_kind("scaled")))
    page.wait(lambda: page.all(".story .events li"), "the newest story")
    assert "Lost host" in page.text(".story h3")
    recovered = recoveries[-1]["ms"]
    assert page.text("#recovered") == (f"{recovered / 1000:.1f} s" if recovered >= 1000 else f"{recovered} ms")
    picture(page, "incidents")
    scale = next(button for button in page.all(".list button") if "Scale fares" in button.text)
    scale.click()
    page.wait(lambda: "Scale fares" in page.text(".story h3"), "the story of the scale")
    kept = page.browser.current_url
    page.browser.get("about:blank")
    page.browser.get(kept)
    page.wait(lambda: "Scale fares" in page.text(".story h3"), "the same story by its link")


def at_panel(page: Page, panel: str) -> bool:
    return bool(page.browser.current_url.endswith(f"/{panel}"))


def test_everything_is_reached_by_keyboard(page: Page) -> None:
    for number, panel in enumerate(PANELS, 1):
        page.press(str(number))
        page.wait(functools.partial(at_panel, page, panel), f"key {number}")
    page.wait(lambda: page.all(".story"), "a story")
    before = page.text(".story h3")
    page.all(".list button.chosen")[0].send_keys("j")
    page.wait(lambda: page.text(".story h3") != before, "the next incident")
    page.press("?")
    assert page.all(".keys")
    page.press("\ue00c")  # Escape
    page.wait(lambda: not page.all(".keys"), "the end of the help")
    page.press("1")
    page.wait(lambda: page.all(".node"), "the graph")
    node = next(n for n in page.all(".node") if "cities" in n.get_attribute("aria-label"))
    node.send_keys("\n")
    page.wait(lambda: "cities" in page.text("main h3"), "the chosen operator")


def test_a_pair_shows_both_hosts_how_far_the_copy_is_behind_and_what_happened(chromium: Any, serve: Serve) -> None:
    records = written.records(written.Run.standby_run)
    dashboard = serve(records)
    page = Page(chromium, dashboard.url)
    page.dark()
    page.open("standby")
    for name, kind in (("switches", "switched"), ("roll-backs", "rolled_back"), ("promotions", "given_up")):
        assert page.text(f"#{name}") == str(sum(record["kind"] == kind for record in records))
    assert [side.text.splitlines()[1] for side in page.all(".pairing .side")] == [
        "host 2",
        "host 5",
        "host 3",
        "host 6",
    ]
    behind = dashboard.roots[0].shown(
        lambda picture: [picture.epoch - (pair.epoch or 0) for pair in picture.pairs.values()]
    )
    assert sorted(int(told.text.split()[0]) for told in page.all(".behind-by")) == sorted(behind)
    assert "a heartbeat was missed" in page.text(".events") and "count:\nhybrid" in page.text(".modes")
    picture(page, "standby")
    page.open("graph")
    assert "1 on host 3, its copy on host 6" in page.text("main .card .tag")
    page.open("incidents")
    page.wait(lambda: page.all(".story .events li"), "the newest story")
    assert page.text(".story h3").startswith("Host 3 replaced host 1 for good")
    assert page.text("#copies-took-over") == "2" and page.complaints() == []


def test_an_application_without_standby_has_no_panel_for_it(page: Page) -> None:
    page.open("graph")
    assert "Standby" not in page.text(".tabs")
    page.press("7")
    page.wait(lambda: "No operator has a standby" in page.text("main"), "the empty panel")


def test_lines_that_cannot_be_read_are_counted_on_the_page(chromium: Any, serve: Serve) -> None:
    dashboard = serve("units")
    root = dashboard.roots[0].store.local
    assert root is not None
    with next((root / "journal").iterdir()).open("ab") as file:
        file.write(b'{"seq":99999,"at_ms":1,"ki\n\x00\xff\n')
    dashboard.roots[0].look()
    page = Page(chromium, dashboard.url)
    page.wait(lambda: page.text("#torn").startswith("2 lines of the journal are torn"), "the count of torn lines")
    assert page.complaints() == []


def test_records_of_a_newer_version_are_counted_on_the_page(chromium: Any, serve: Serve) -> None:
    newer: list[dict[str, Any]] = [
        {"at_ms": RECORDS[-1]["at_ms"], "kind": "epoch_committed", "generation": 1, "number": 9},
        {"at_ms": RECORDS[-1]["at_ms"], "kind": "moon_rose", "generation": 1},
    ]
    page = Page(chromium, serve([*RECORDS, *newer]).url)
    page.wait(lambda: "2 records of the journal were written by another version" in page.text("body"), "the count")
    assert page.text("#epoch") == count(of_kind("epoch_committed")[-1]["epoch"]) and page.complaints() == []


def test_the_graph_shows_where_rows_gather(chromium: Any, serve: Serve) -> None:
    def run(run: written.Run) -> None:
        run.start()
        run.epochs(30)

    records = written.records(run)
    for record in records:
        if record["kind"] == "epoch_committed":
            record["operators"]["bill"]["busy_ms"] = 380
        if record["kind"] == "epoch_admitted":
            record["sources"]["calls"] = (1_000, 50_000)
    page = Page(chromium, serve(records).url)
    page.wait(lambda: page.all(".node.hot"), "the busy operator")
    assert "pressure" in page.text(".edge.pressed") and len(page.all(".edge.pressed")) == 1
    assert page.all(".node.source.warm") and "50,000 rows wait in sources" in page.text("#pressure")
    assert "the busiest operator is bill" in page.text("#pressure") and page.complaints() == []
    picture(page, "pressure")


def test_nothing_is_wider_than_a_phone(page: Page) -> None:
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        for panel in PANELS:
            page.open(panel)
            page.wait(lambda: page.browser.execute_script("return document.documentElement.scrollWidth") <= 390, panel)
            if os.environ.get("PERSEID_SCREENSHOTS") and panel in ("graph", "incidents"):
                page.browser.save_screenshot(str(Path(os.environ["PERSEID_SCREENSHOTS"]) / f"phone-{panel}.png"))
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_run_that_crashed_says_so_and_more_of_its_journal_shows_by_itself(chromium: Any, serve: Serve) -> None:
    half = len(RECORDS) // 2
    dashboard = serve("rides", lines=half)
    dashboard.roots[0].life = "dead"
    page = Page(chromium, dashboard.url)
    before = [r for r in RECORDS[:half] if r["kind"] == "epoch_committed"][-1]["epoch"]
    assert page.text("#epoch") == count(before)
    root = dashboard.roots[0].store.local
    assert root is not None
    with next((root / "journal").iterdir()).open("ab") as file:
        file.writelines(
            json.dumps({"seq": n, **record}).encode() + b"\n" for n, record in enumerate(RECORDS[half:], half + 1)
        )
    newest = of_kind("epoch_committed")[-1]["epoch"]
    page.wait(lambda: page.text("#epoch") == count(newest), "the rest of the journal")
    page.wait(lambda: page.text("#phase") == "stopped", "the end")
    assert page.complaints() == []


def test_several_roots_are_told_apart(chromium: Any, serve: Serve) -> None:
    page = Page(chromium, serve("rides", "units").url)
    page.wait(lambda: len(page.all("nav select option")) == 2, "both roots")
    page.browser.execute_script("location.hash = '#/1/graph'")
    page.wait(lambda: page.text("h1").startswith("units"), "the other application")
    assert page.complaints() == []


def test_a_token_lets_in_once_and_leaves_the_address(chromium: Any, serve: Serve) -> None:
    dashboard = serve("units", token="a-good-token")
    page = Page(chromium, dashboard.url)
    assert "token" not in page.browser.current_url and page.text("h1").startswith("units")


def test_nothing_is_changed_before_it_is_confirmed(chromium: Any, serve: Serve) -> None:
    from perseid.storage import requests

    assert not Page(chromium, serve("units").url).all(".control")
    dashboard = serve("units", may_control=True)
    store = dashboard.roots[0].store
    page = Page(chromium, dashboard.url)
    page.wait(lambda: page.all(".control button"), "the buttons")
    page.all(".control > button")[0].click()
    page.wait(lambda: page.all("[role=alertdialog]"), "the question")
    assert requests.pending(store) == []
    page.all("#confirm")[0].click()
    page.wait(lambda: requests.pending(store), "the request")
    requests.answer(store, requests.pending(store)[0][0], {"checkpoint": {"id": 99, "bytes": 1, "epochs": {}}})
    page.wait(lambda: page.text(".control output") == "Checkpoint 99 is taken (1 B).", "the answer")
    assert page.complaints() == []


@pytest.mark.parametrize(
    ("form", "choices", "question", "asked"),
    [
        (0, ["rollup"], "Divide rollup among 2 shards?", {"scale": "rollup", "shards": 2}),
        (1, ["count", "hybrid"], "Give count the standby “hybrid”?", {"standby": "count", "mode": "hybrid"}),
    ],
)
def test_a_form_asks_for_what_was_chosen_and_only_after_yes(
    chromium: Any, serve: Serve, form: int, choices: list[str], question: str, asked: dict[str, Any]
) -> None:
    from selenium.webdriver.support.ui import Select

    from perseid.storage import requests

    dashboard = serve("units", may_control=True)
    store = dashboard.roots[0].store
    page = Page(chromium, dashboard.url)
    page.wait(lambda: page.all(".control form"), "the forms")
    shown = page.all(".control form")[form]
    for select, choice in zip(shown.find_elements("css selector", "select"), choices, strict=True):
        Select(select).select_by_visible_text(choice)
    for answer in ("no", "yes"):
        shown.find_element("css selector", "button").click()
        page.wait(lambda: page.all("[role=alertdialog]"), "the question")
        assert page.text("[role=alertdialog] p") == question and requests.pending(store) == []
        next(b for b in page.all("[role=alertdialog] button") if b.text.startswith(answer)).click()
        if answer == "no":
            page.wait(lambda: not page.all("[role=alertdialog]"), "the end of the question")
    page.wait(lambda: requests.pending(store), "the request")
    ((name, request),) = requests.pending(store)
    assert request == asked
    requests.answer(store, name, {"error": "there is no host for it"})
    page.wait(lambda: "there is no host for it" in page.text(".control output"), "the answer")
