"""Task slots: who waits for one is told so within seconds, with what holds them and what to do.

Every host holds a slot for good, so a session in which another application runs, or hangs, may have none left. Spark itself says
nothing: a job without a slot waits for ever.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable

from pyspark.sql import SparkSession

from perseid.errors import ApplicationFailed
from perseid.spark.jobs import task_slots

TELL_AFTER_S = 5.0
LOOK_S = 0.5

logger = logging.getLogger(__name__)


def used_slots(spark: SparkSession) -> int | None:
    """How many tasks run right now, of whatever application of this session; None where Spark does not tell."""
    try:
        tracker = spark.sparkContext.statusTracker()
        found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # Spark Connect has no such thing
        return None
    return sum(stage.numActiveTasks for stage in found if stage is not None)


def shortage(spark: SparkSession, what: str, needed: int) -> str | None:
    """What to say of somebody who waits for so many slots; None while there is a free one."""
    slots, used = task_slots(spark), used_slots(spark)
    if slots is None or used is None or used < slots:
        return None
    return (
        f"{what}: {used} of the session's {slots} are in use. Stop what holds them (another application of this session holds one for"
        f" each of its hosts), or use a larger master, for instance local[{used + needed}]"
    )


def await_slot(spark: SparkSession, app: str, timeout_s: float) -> None:
    """Wait until a job can run at all; tell after some seconds, and give up after ``timeout_s``."""
    began, told = time.monotonic(), False
    what = f"application {app!r} waits for a task slot"
    while (text := shortage(spark, what, 1)) is not None:
        waited_s = time.monotonic() - began
        if waited_s > timeout_s:
            raise ApplicationFailed(f"{text}. Nothing was started; it waited for {timeout_s:g} s (start_timeout)")
        if waited_s > TELL_AFTER_S and not told:
            logger.warning("%s", text)
            told = True
        time.sleep(LOOK_S)


class SlotWatch:
    """Looks, in a thread of its own, whether hosts that were asked for wait for slots: Spark may take its time to say so."""

    def __init__(self, spark: SparkSession, app: str, waiting: Callable[[], int], tell: Callable[[str], None]) -> None:
        self._spark, self._app, self._waiting, self._tell = spark, app, waiting, tell
        self.text = ""  # empty while nobody waits
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="perseid-slots", daemon=True).start()

    def end(self) -> None:
        self._ended.set()

    def _watch(self) -> None:
        since: float | None = None
        while not self._ended.wait(LOOK_S):
            waiting = self._waiting()
            text = self._shortage(waiting) if waiting else ""
            since = None if not text else since or time.monotonic()
            if since is None or time.monotonic() - since < TELL_AFTER_S:  # hosts that come up take a moment, too
                self.text = ""
                continue
            before, self.text = self.text, text
            if not before:
                logger.warning("%s", text)
                self._tell(text)

    def _shortage(self, waiting: int) -> str:
        hosts = "a host" if waiting == 1 else f"{waiting} hosts"
        with contextlib.suppress(Exception):  # the session may have been stopped
            what = f"application {self._app!r} waits for task slots for {hosts}"
            return shortage(self._spark, what, waiting) or ""
        return ""
