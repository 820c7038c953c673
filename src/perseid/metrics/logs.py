"""What happens in a run, to ``logging``: one logger for each package, the record as ``extra``.

    logging.getLogger("perseid.recovery").setLevel(logging.INFO)

A handler that writes JSON finds kind and fields in ``record.perseid``. Epochs and parts of checkpoints are told at DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

_LOGGERS = {
    "app": "driver", "warning": "driver", "epoch": "driver", "trimmed": "driver", "journal": "storage", "storage": "storage",
    "host": "host", "shards": "host", "restore": "recovery", "recovery": "recovery", "scale": "scaling", "scaled": "scaling",
    "hot": "scaling", "checkpoint": "checkpoint", "snapshot": "checkpoint", "snapshots": "checkpoint", "inflight": "checkpoint",
    "backed": "checkpoint", "profiled": "checkpoint", "alert": "checkpoint", "moment": "checkpoint", "period": "checkpoint",
    "operator": "operators", "dead": "operators", "malformed": "sources",
    "copy": "standby", "switched": "standby", "swapped": "standby", "rolled": "standby", "given": "standby", "standby": "standby",
}  # fmt: skip
_ERRORS = frozenset({"operator_failed", "checkpoint_failed", "epoch_failed", "storage_failed"})
_WARNINGS = frozenset(
    {"host_lost", "warning", "dead_letters", "malformed_lines", "restore_failed", "scale_given_up", "period_too_short", "hot_key",
     "journal_dropped", "recovery_started", "copy_wanted", "copy_lost", "switched", "given_up"}
)  # fmt: skip
_ROUTINE = ("epoch_admitted", "epoch_committed", "snapshot", "inflight", "trimmed", "backed_up", "host_load", "shards_", "alert",
            "moment", "checkpoint_started", "checkpoint_decided", "copy_refreshed", "journal_continues")  # fmt: skip

logging.getLogger("perseid").addHandler(logging.NullHandler())  # silent where nobody set logging up
_KNOWN: dict[str, tuple[logging.Logger, int]] = {}


def log(kind: str, record: Mapping[str, Any]) -> None:
    """Tell it to whoever listens. Costs next to nothing where nobody does."""
    known = _KNOWN.get(kind)
    if known is None:
        known = _KNOWN[kind] = (
            logging.getLogger(f"perseid.{_LOGGERS.get(kind.partition('_')[0], 'driver')}"),
            level(kind),
        )
    logger, severity = known
    if logger.isEnabledFor(severity):
        said = " ".join(f"{name}={value}" for name, value in record.items() if name not in ("graph", "slots"))
        logger.log(severity, "%s: %s", kind.replace("_", " "), said, extra={"perseid": {"kind": kind, **record}})


def level(kind: str) -> int:
    """How loudly a kind of record is told."""
    if kind in _ERRORS:
        return logging.ERROR
    if kind in _WARNINGS:
        return logging.WARNING
    return logging.DEBUG if kind.startswith(_ROUTINE) else logging.INFO
