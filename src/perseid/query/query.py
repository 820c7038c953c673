"""A running query: what ``writeStream.start()`` gives, with the methods and properties of Spark's ``StreamingQuery``."""

from __future__ import annotations

import json
import shutil
import uuid
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.listener import StreamingQueryProgress

from perseid.driver.running import Running
from perseid.engine.progress import EpochStatus
from perseid.errors import ApplicationFailed, CheckpointFailed
from perseid.processor.operator import SparkProcessor
from perseid.query.micro_batches import MicroBatches


class ProcessorQuery:
    """Made by ``ProcessedStreamWriter.start``.

    query = counts.writeStream.format("parquet").start("out/")
    query.processAllAvailable()
    query.stop()
    """

    def __init__(
        self,
        running: Running,
        rows: MicroBatches,
        operator: SparkProcessor,
        name: str | None,
        identity: uuid.UUID,
        folder: str | None,
    ) -> None:
        self._running, self._rows, self._operator = running, rows, operator
        self._name, self._id, self._run_id = name, identity, uuid.uuid4()
        self._folder = folder  # its own, which goes when it stops

    @property
    def id(self) -> str:
        """The same in every run on one checkpoint root."""
        return str(self._id)

    @property
    def runId(self) -> str:
        """Another one for every start."""
        return str(self._run_id)

    @property
    def name(self) -> str | None:
        """What ``queryName`` was given."""
        return self._name

    @property
    def running(self) -> Running:
        """The application that it is: scales, checkpoints, shows its hosts."""
        return self._running

    @property
    def isActive(self) -> bool:
        """Does it run?"""
        return not self._running.ended

    @property
    def status(self) -> dict[str, Any]:
        """What it does right now."""
        seen = self._running.progress()
        busy = self.isActive and seen.phase != "stopped"
        return {
            "message": seen.trouble or seen.last_event or seen.phase,
            "isDataAvailable": busy,
            "isTriggerActive": busy,
        }

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        """The newest epoch that was committed; None before the first."""
        recent = self._running.recent_epochs()
        return self._progress(recent[-1]) if recent else None

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        """The last epochs that were committed, the newest last."""
        return [self._progress(epoch) for epoch in self._running.recent_epochs()]

    def processAllAvailable(self) -> None:
        """Wait until all rows that are there now have been processed and written. Raises ``StreamingQueryException`` if it fails."""
        try:
            if self.isActive:
                self._running.wait_until_read("rows", self._rows.store_all())
        except ApplicationFailed as error:
            raise self._failed(str(error)) from error
        failed = self.exception()
        if failed is not None:
            raise failed

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait for the end, or so many seconds; with ``timeout`` whether it has ended. Raises ``StreamingQueryException`` if it failed."""
        try:
            ended = self._running.wait(timeout)
        except (ApplicationFailed, CheckpointFailed) as error:
            raise self._failed(str(error)) from error
        return ended if timeout is not None else None

    def stop(self) -> None:
        """Finish what has begun, take a checkpoint, end."""
        try:
            if self.isActive:
                self._running.stop()
        except (ApplicationFailed, CheckpointFailed):
            if self.exception() is None:
                raise
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def exception(self) -> StreamingQueryException | None:
        """Why it failed; None if it did not."""
        error = self._running.error
        return None if error is None else self._failed(error)

    def explain(self, extended: bool = False) -> None:
        """Print what it is made of."""
        print(self)

    def __repr__(self) -> str:
        seen = self._running.progress()
        return f"ProcessorQuery({self._name or self.id}: {seen.phase}, epoch {seen.epoch}, {seen.rows_in:,} rows in, {self._running.root})"

    def _repr_html_(self) -> str:
        return self._running._repr_html_()

    def _failed(self, why: str) -> StreamingQueryException:
        said = f"[STREAM_FAILED] Query [id = {self.id}, runId = {self.runId}] terminated with exception: {why}"
        return StreamingQueryException(said)

    def _progress(self, epoch: EpochStatus) -> StreamingQueryProgress:
        ms = epoch.duration_ms or 0.0
        per_second = 1_000 * epoch.rows_in / ms if ms else 0.0
        began = datetime.fromtimestamp(epoch.time_ms / 1_000, UTC)
        shards = sum(len(host.shards) for host in self._running.progress().hosts)
        return StreamingQueryProgress.fromJson({
            "id": self.id,
            "runId": self.runId,
            "name": self._name,
            "timestamp": began.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "batchId": epoch.epoch - 1,
            "batchDuration": round(ms),
            "durationMs": {"triggerExecution": round(ms)},
            "eventTime": {},
            "stateOperators": [{
                "operatorName": "perseid",
                "numRowsTotal": 0,
                "numRowsUpdated": 0,
                "numRowsRemoved": 0,
                "allUpdatesTimeMs": 0,
                "allRemovalsTimeMs": 0,
                "commitTimeMs": 0,
                "memoryUsedBytes": epoch.state_bytes,
                "numRowsDroppedByWatermark": epoch.late_rows,
                "numShufflePartitions": shards,
                "numStateStoreInstances": shards,
                "customMetrics": {name: count * max(1, shards) for name, count in self._operator.declared.items()},
            }],
            "sources": [{
                "description": "MicroBatches",
                "startOffset": json.dumps(epoch.epoch - 1),
                "endOffset": json.dumps(epoch.epoch),
                "latestOffset": json.dumps(int(self._rows.answered)),
                "numInputRows": epoch.rows_in,
                "inputRowsPerSecond": per_second,
                "processedRowsPerSecond": per_second,
            }],
            "sink": {"description": "perseid", "numOutputRows": epoch.rows_out},
            "numInputRows": epoch.rows_in,
            "inputRowsPerSecond": per_second,
            "processedRowsPerSecond": per_second,
        })  # fmt: skip
