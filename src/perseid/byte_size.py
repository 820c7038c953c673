"""Amounts of memory as users write them: ``"256 MB"``, or a number of bytes."""

from __future__ import annotations

import re

from perseid.errors import SettingsError

_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def byte_size(amount: str | int) -> int:
    """The number of bytes. Raises ``SettingsError`` for anything else than an amount above zero.

    >>> byte_size("1.5 KB")
    1536
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?B?)\s*", str(amount), re.IGNORECASE)
    unit = found[2].upper() if found else ""
    scale = _UNITS.get(unit if unit.endswith("B") or not unit else f"{unit}B")
    if isinstance(amount, bool) or found is None or scale is None or int(float(found[1]) * scale) < 1:
        raise SettingsError(f'expected an amount of memory such as "256 MB", or a number of bytes, got {amount!r}')
    return int(float(found[1]) * scale)
