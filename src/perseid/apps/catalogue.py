"""The applications by name, with what the command line has to know of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perseid.application import App
from perseid.apps import bcp, signalguru, tmi
from perseid.apps.results import Report


@dataclass(frozen=True)
class Application:
    """One application: how to build it, how long a demonstration is, and how to tell its results."""

    about: str
    build: Callable[..., App]
    epoch_rows: Callable[..., int]
    report: Callable[..., Report]
    scale: float  # of a demonstration on a small machine
    minutes: float
    windows: float
    window: str  # what a window is in this application


CATALOGUE = {
    "tmi": Application(
        "transportation mode inference: k-means over pools of phone positions",
        tmi.build, tmi.epoch_rows, tmi.report, 0.02, 10.0, 3, "pool of N minutes",
    ),
    "bcp": Application(
        "bus capacity prediction: people counted in pictures, crowding predicted",
        bcp.build, bcp.epoch_rows, bcp.report, 0.016, 10.0, 4, "headway of the buses",
    ),
    "signalguru": Application(
        "traffic lights found in windshield pictures, the next change predicted by an SVM",
        signalguru.build, signalguru.epoch_rows, signalguru.report, 0.004, 1.0, 14, "cycle of the signals",
    ),
}  # fmt: skip
