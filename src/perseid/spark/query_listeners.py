"""Spark's own ``StreamingQueryListener``s hear of an application as of a streaming query.

By way of the JVM, where the session has one: a listener of the session gets ``onQueryStarted``, ``onQueryProgress`` and
``onQueryTerminated``. Over Spark Connect there is no such way; ``on_progress`` works everywhere.
"""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession

from perseid.metrics.query_progress import QueryProgress, as_spark_json

LOOK_S = 2.0
"""How often it is looked whether there are listeners."""


class QueryListeners:
    """The listeners of one session. Used by one thread."""

    def __init__(self, spark: SparkSession, query: QueryProgress) -> None:
        self._query = query
        self._jvm: Any = getattr(spark, "_jvm", None)
        session: Any = getattr(spark, "_jsparkSession", None)
        self._streams: Any = session.streams() if session is not None else None
        self._looked_s, self._there, self._started = float("-inf"), False, False

    def wanted(self) -> bool:
        """Is there a listener? Asked anew every now and then."""
        if self._streams is None:
            return False
        now_s = time.monotonic()
        if now_s - self._looked_s > LOOK_S:
            self._looked_s = now_s
            self._there = len(self._streams.listListeners()) > 0
        return self._there

    def tell(self, progress: dict[str, Any]) -> None:
        """An epoch is committed."""
        if not self.wanted():
            return
        events = self._jvm.org.apache.spark.sql.streaming
        if not self._started:
            self._started = True
            uuid = self._jvm.java.util.UUID.fromString
            self._post(
                "QueryStartedEvent",
                uuid(self._query.id),
                uuid(self._query.run_id),
                self._query.name,
                progress["timestamp"],
            )
        companion = getattr(getattr(events, "StreamingQueryProgress$"), "MODULE$")
        self._post("QueryProgressEvent", companion.fromJson(as_spark_json(progress)))

    def ended(self, error: str | None) -> None:
        """The application has ended; nothing if nobody heard of its start."""
        if self._started:
            uuid, option = self._jvm.java.util.UUID.fromString, self._jvm.scala.Option.apply
            none = self._jvm.scala.Option.empty()
            self._post(
                "QueryTerminatedEvent",
                uuid(self._query.id),
                uuid(self._query.run_id),
                option(error) if error else none,
                none,
            )

    def _post(self, event: str, *fields: Any) -> None:
        made = getattr(self._jvm.org.apache.spark.sql.streaming, f"StreamingQueryListener${event}")(*fields)
        self._streams.postListenerEvent(made)
