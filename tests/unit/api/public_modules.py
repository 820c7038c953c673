"""The modules that users import from. Everything else is internal."""

from __future__ import annotations

PUBLIC_MODULES = (
    "perseid",
    "perseid.agg",
    "perseid.checkpoints",
    "perseid.checkpoints.comparison",
    "perseid.errors",
    "perseid.primitives",
    "perseid.ready",
    "perseid.scaling",
    "perseid.sinks",
    "perseid.sources",
    "perseid.standby",
    "perseid.testing",
)
