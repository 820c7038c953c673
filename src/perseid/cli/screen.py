"""What a command that plays a story shows: what happens above, the live view below; lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from perseid.cli.live import View, line
from perseid.engine.progress import Progress


class Screen:
    """The story above, the live view below; on something that is no terminal, lines."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self._view = View()
        self._live: Live | None = None
        self._started_s = time.monotonic()
        self._shown_s = float("-inf")

    @contextmanager
    def open(self) -> Iterator[None]:
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, refresh_per_second=8) as self._live:
            yield

    def say(self, text: str, style: str = "") -> None:
        seconds = time.monotonic() - self._started_s
        self.console.print(Text.assemble((f"{seconds:6.1f} s  ", "cyan"), (text, style)), soft_wrap=True)

    def show(self, picture: Progress | None) -> None:
        if picture is None:
            return  # it has not said anything yet
        now_s = time.monotonic()
        if self._live is not None:
            self._live.update(self._view.render(picture, now_s))
        elif now_s - self._shown_s >= 3:
            self._shown_s = now_s
            self.console.print(f"          {line(picture)}", soft_wrap=True)
