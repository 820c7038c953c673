"""The process the demo kills: ``perseid run … --json`` in a session of its own, so that all of it can be found."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from perseid.testing.driver import Driver


class Application(Driver):
    """One run of the demo's application, from its start to its death."""

    def __init__(self, folder: Path, log: Path) -> None:
        environment = {"PERSEID_DEMO": str(folder)}
        super().__init__(command(folder), root=str(folder / "root"), log=log, environment=environment)


def command(folder: Path) -> Sequence[str]:
    """The command that starts the application, and starts it again."""
    return (
        sys.executable, "-m", "perseid.cli.main", "run", demo_app_file(), "--root", str(folder / "root"),
        "--hosts", "2", "--checkpoint-seconds", "4", "--json", "--every", "0.25",
    )  # fmt: skip


def demo_app_file() -> str:
    return str(Path(__file__).with_name("demo_app.py"))
