"""A Chromium for the tests of the page, where there is one; the dashboard over a recorded journal."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perseid.cli.roots import existing_root
from perseid.dashboard.server import Dashboard
from perseid.dashboard.watched import WatchedRoot

RECORDED = Path(__file__).parents[1] / "recorded"
sys.path.insert(0, str(RECORDED))  # for ``written``
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--disable-dev-shm-usage", "--force-dark-mode",
)  # fmt: skip


def browser(folder: Path) -> Any:
    """A new browser, with its profile in this folder."""
    pytest.importorskip("selenium", reason="no selenium: pip install -e '.[dev]'")
    program, driver = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no Chromium here: apt-get install chromium chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={folder}", "--window-size=1280,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    made.set_page_load_timeout(120)
    return made


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser that many tests share; each begins with a page of its own."""
    made = browser(tmp_path_factory.mktemp("chromium"))
    yield made
    made.quit()


@pytest.fixture
def new_chromium(tmp_path: Path) -> Iterator[Any]:
    """A browser of the test's own: no page was shown in it before."""
    made = browser(tmp_path / "chromium")
    yield made
    made.quit()


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Dashboard]]:
    """Dashboards over recorded journals, by their names, or over records; ``lines``: only so many of the first."""
    made: list[Dashboard] = []

    def start(*journals: str | list[dict[str, Any]], lines: int | None = None, **settings: Any) -> Dashboard:
        roots = []
        for journal in journals:
            folder = tmp_path_factory.mktemp("root") / "journal"
            folder.mkdir()
            if isinstance(journal, str):
                data = gzip.decompress((RECORDED / f"{journal}.jsonl.gz").read_bytes()).splitlines(keepends=True)
            else:
                data = [json.dumps({"seq": n, **record}).encode() + b"\n" for n, record in enumerate(journal, 1)]
            (folder / "00000001-000001-1.jsonl").write_bytes(b"".join(data[:lines]))
            roots.append(WatchedRoot(existing_root(str(folder.parent))))
            roots[-1].look()
        made.append(Dashboard(roots, port=0, **settings))
        made[-1].start()
        return made[-1]

    yield start
    for dashboard in made:
        dashboard.close()
