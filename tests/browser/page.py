"""What a test does with the page: open a panel, read numbers, press keys; at the end nothing may stand in the console."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

WAIT_S = 30.0
PANELS = ("graph", "state", "checkpoints", "time", "hosts", "incidents")  # and "standby" where there is any


class Page:
    """The dashboard in a browser."""

    def __init__(self, browser: Any, url: str) -> None:
        self.browser, self.url = browser, url
        browser.get("about:blank")
        browser.get_log("browser")
        browser.set_window_size(1280, 900)
        browser.get(url)
        self.wait(lambda: self.all("#phase"), "the page")

    def open(self, panel: str) -> None:
        self.browser.execute_script(f"location.hash = '#/0/{panel}'")
        name = panel.partition("/")[0]
        self.wait(lambda: self.all(f"a[aria-selected=true][href='#/0/{name}']"), panel)
        self.wait(lambda: self.all("main section") and not self.all("main .empty"), f"the data of {panel}")

    def wait(self, true: Callable[[], Any], what: str) -> Any:
        from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        try:
            waiting = WebDriverWait(self.browser, WAIT_S, 0.1, (StaleElementReferenceException,))
            return waiting.until(lambda _: true())
        except TimeoutException:
            raise AssertionError(f"waited {WAIT_S:g} s for {what}; the page says: {self.text('body')[:800]}") from None

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.browser.find_elements("css selector", selector)
        return found

    def text(self, selector: str) -> str:
        return "\n".join(str(element.text) for element in self.all(selector))

    def press(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    def complaints(self) -> list[str]:
        """What the console says."""
        return [entry["message"] for entry in self.browser.get_log("browser")]

    def dark(self) -> None:
        self.browser.execute_script("localStorage.setItem('perseid-theme', 'dark')")
        self.browser.refresh()
        self.wait(lambda: self.all("#phase"), "the page")

    def picture(self, path: Path, *, width: int = 1280, height: int | None = None) -> None:
        """A screenshot of all of it, or of its upper part."""
        self.browser.set_window_size(width, height or 900)
        full = self.browser.execute_script("return document.documentElement.scrollHeight")
        self.browser.set_window_size(width, height or min(max(full + 140, 500), 1800))
        self.browser.execute_async_script("const done = arguments[0]; setTimeout(done, 400)")
        path.parent.mkdir(parents=True, exist_ok=True)
        self.browser.save_screenshot(str(path))
