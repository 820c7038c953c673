"""What the page takes of a browser's memory, over a journal as large as one becomes in a week.

Measured is the proportional set size of the page's process: all that is its own, and its part of what Chromium's processes share. (Of
what is resident, 120 MB are Chromium's own program, also for an empty page.) The browser is new: pages that one process has shown before
leave memory behind that is no part of this one. Elements that a test asked for are kept alive by the driver of
the browser; so none is asked for here.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest
import written
from page import PANELS, Page

from perseid.cli.roots import existing_root
from perseid.dashboard.server import Dashboard
from perseid.dashboard.watched import WatchedRoot

MOST_MB = 200
ROUNDS = 4
SHOWN = """const section = document.querySelector('main section'), name = arguments[0].toLowerCase();
return section != null && section.ariaLabel.toLowerCase().startsWith(name) && !document.querySelector('main .empty')"""


def processes_below(pid: int) -> list[int]:
    below: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue  # it has just ended
            below.setdefault(int(parent), []).append(int(folder.name))
    found, left = [], [pid]
    while left:
        one = left.pop()
        found.append(one)
        left += below.get(one, [])
    return found


def page_mb(browser: Any) -> float:
    """Of the largest of the browser's processes that show pages."""
    sizes = []
    for pid in processes_below(browser.service.process.pid):
        try:
            command, rollup = (Path(f"/proc/{pid}/{name}").read_text() for name in ("cmdline", "smaps_rollup"))
        except OSError:
            continue
        if "--type=renderer" in command and (found := re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)):
            sizes.append(int(found[1]) / 1024)
    return max(sizes)


def metrics(browser: Any) -> dict[str, float]:
    """Once all garbage was collected."""
    browser.execute_cdp_cmd("Performance.enable", {})
    browser.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    found = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return {entry["name"]: entry["value"] for entry in found}


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="no /proc/…/smaps_rollup on this system")
def test_the_page_over_a_week_stays_small_however_often_its_panels_are_changed(
    new_chromium: Any, tmp_path: Path
) -> None:
    chromium = new_chromium
    written.week(str(tmp_path / "root"), epochs=20_000)
    root = WatchedRoot(existing_root(str(tmp_path / "root")))
    root.look()
    dashboard = Dashboard([root], port=0)
    dashboard.start()
    try:
        page = Page(chromium, dashboard.url)
        largest, nodes = 0.0, []
        for _ in range(ROUNDS):
            for panel in (*PANELS, "graph"):
                chromium.execute_script(f"location.hash = '#/0/{panel}'")
                page.wait(functools.partial(chromium.execute_script, SHOWN, panel), panel)
                largest = max(largest, page_mb(chromium))
            seen = metrics(chromium)
            nodes.append((seen["Nodes"], seen["JSEventListeners"]))
        print(f"largest {largest:.0f} MB, elements and listeners {nodes[-1]}")
        assert largest < MOST_MB, f"{largest:.0f} MB"
        assert nodes[-1] == nodes[0] or nodes[-1] == nodes[1], f"elements and listeners of closed panels stay: {nodes}"
        assert seen["JSHeapUsedSize"] < 20e6 and page.complaints() == []
    finally:
        dashboard.close()
