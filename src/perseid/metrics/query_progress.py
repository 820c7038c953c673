"""Progress of an epoch with the names of Spark's ``StreamingQueryProgress``, and a ``perseid`` part beside them.

Pure. Made from the records of the journal: an epoch is admitted, then committed. One source entry stands for all sources, since an
epoch counts its rows once.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

KEPT = 1_000
"""Admitted epochs that are waited for."""


class QueryProgress:
    """Follows the records of one run."""

    def __init__(self, app: str, root: str, generation: int) -> None:
        self.id = str(uuid.uuid5(uuid.NAMESPACE_URL, root))
        self.run_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{root}#{generation}"))
        self.name = app
        self._generation = generation
        self._admitted: dict[int, Mapping[str, Any]] = {}
        self._shards: dict[str, int] = {}
        self._last_ms: int | None = None
        self._counts = {"checkpoints": 0, "faults": 0, "recoveries": 0}
        self._checkpoint: int | None = None

    def take_in(self, kind: str, record: Mapping[str, Any]) -> dict[str, Any] | None:
        """The progress, when the record ends an epoch."""
        match kind:
            case "app_started":
                self._shards = {str(name): int(count) for name, count in record["operators"].items()}
            case "scaled":
                self._shards[str(record["operator"])] = int(record["shards"])
            case "checkpoint_committed":
                self._counts["checkpoints"] += 1
                self._checkpoint = int(record["checkpoint"])
            case "host_lost":
                self._counts["faults"] += 1
            case "recovery_finished" if not record["start"]:
                self._counts["recoveries"] += 1
            case "epoch_admitted":
                self._admitted[int(record["epoch"])] = record
                while len(self._admitted) > KEPT:
                    del self._admitted[next(iter(self._admitted))]
            case "epoch_committed":
                return self._progress(record)
        return None

    def _progress(self, record: Mapping[str, Any]) -> dict[str, Any]:
        epoch, at_ms = int(record["epoch"]), int(record["time_ms"])
        admitted = self._admitted.pop(epoch, {})
        admission, ms = float(admitted.get("ms", 0.0)), float(record["ms"] or 0.0)
        parts, rows = dict(record["parts_ms"]), int(record["rows_in"])
        since_s = (at_ms - self._last_ms) / 1000 if self._last_ms is not None and at_ms > self._last_ms else None
        self._last_ms = at_ms
        slices, sources = admitted.get("slices", {}), admitted.get("sources", {})
        operators = record["operators"]
        newest = [said["event_time_ms"] for said in operators.values() if "event_time_ms" in said]
        return {
            "id": self.id,
            "runId": self.run_id,
            "name": self.name,
            "timestamp": _iso(at_ms),
            "batchId": epoch,
            "batchDuration": round(admission + ms),
            "durationMs": {
                "latestOffset": round(admission), "triggerExecution": round(admission + ms),
                "queryPlanning": round(parts.get("waiting", 0.0)), "addBatch": round(parts.get("spark", 0.0) + parts.get("hosts", 0.0)),
                "commitOffsets": round(parts.get("sink", 0.0)),
            },
            "eventTime": {"max": _iso(max(newest)), "min": _iso(min(newest))} if newest else {},
            "stateOperators": [self._operator(str(name), said) for name, said in operators.items()],
            "sources": [
                {
                    "description": ", ".join(slices) or self.name,
                    "startOffset": json.dumps({name: bounds[0] for name, bounds in slices.items()}),
                    "endOffset": json.dumps({name: bounds[1] for name, bounds in slices.items()}),
                    "latestOffset": None,
                    "numInputRows": rows,
                    "inputRowsPerSecond": rows / since_s if since_s else 0.0,
                    "processedRowsPerSecond": rows / ((admission + ms) / 1000) if admission + ms > 0 else 0.0,
                    "metrics": {},
                }
            ],
            "sink": {"description": "perseid", "numOutputRows": int(record["rows_out"]), "metrics": {}},
            "observedMetrics": {},
            "perseid": {
                "generation": self._generation, "partsMs": {"admission": admission, **parts},
                "rowsWaiting": {name: waiting for name, (_, waiting) in sources.items() if waiting is not None},
                "stateBytes": record["state_bytes"], "operators": operators, "newestCheckpoint": self._checkpoint,
                **self._counts,
            },
        }  # fmt: skip

    def _operator(self, name: str, said: Mapping[str, Any]) -> dict[str, Any]:
        shards = self._shards.get(name, 0)
        return {
            "operatorName": name, "numRowsTotal": 0, "numRowsUpdated": said["in"], "allUpdatesTimeMs": round(said["busy_ms"]),
            "numRowsRemoved": 0, "allRemovalsTimeMs": 0, "commitTimeMs": 0, "memoryUsedBytes": said["state"],
            "numRowsDroppedByWatermark": said.get("late", 0), "numShufflePartitions": shards,
            "numStateStoreInstances": shards, "customMetrics": {},
        }  # fmt: skip


def as_spark_json(progress: Mapping[str, Any]) -> str:
    """The same for Spark's own class, which knows no ``perseid``: that part is in the metrics of the sink, as text."""
    told = {name: value if isinstance(value, str) else json.dumps(value) for name, value in progress["perseid"].items()}
    sink = {**progress["sink"], "metrics": {f"perseid.{name}": text for name, text in told.items()}}
    return json.dumps({**{name: value for name, value in progress.items() if name != "perseid"}, "sink": sink})


def _iso(ms: int) -> str:
    at = datetime.fromtimestamp(ms / 1000, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"
