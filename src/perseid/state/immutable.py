"""What can be changed in place, and what cannot: defaults that shards may share, values that need not be written again (S1)."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import uuid
from typing import Any

import numpy as np
import pyarrow as pa

_IMMUTABLE = (
    int, float, complex, str, bytes, bool, type(None), range,
    decimal.Decimal, fractions.Fraction, uuid.UUID,
    datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo,
    enum.Enum, pa.DataType, pa.Schema, pa.Array, pa.ChunkedArray, pa.Table, pa.RecordBatch, pa.Scalar, np.generic,
)  # fmt: skip


def mutable_part(value: Any) -> Any | None:
    """What in ``value`` could be changed in place; None if nothing could."""
    if isinstance(value, _IMMUTABLE):
        return None
    if isinstance(value, (tuple, frozenset)):
        return next((part for part in map(mutable_part, value) if part is not None), None)
    params = getattr(type(value), "__dataclass_params__", None)
    if params is not None and params.frozen:
        parts = (mutable_part(getattr(value, field.name)) for field in dataclasses.fields(value))
        return next((part for part in parts if part is not None), None)
    return value
