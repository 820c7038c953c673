"""What is hidden where rows must not be shown: values of keys, lines of files, and what user code says of the rows it raised on.

Invariant: of an error of user code, no more than the names of exceptions is left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "(hidden: start the dashboard with --rows)"
_EXCEPTION = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Failed|Mistake|Warning)\b")


class Curtain:
    """Hides what comes from rows. Keys get numbers, so that they can be told apart."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str], str] = {}

    def hide(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """The record without values of rows."""
        match record.get("kind"):
            case "hot_key":
                known = (str(record.get("operator")), str(record.get("key")))
                return {**record, "key": self._keys.setdefault(known, f"#{len(self._keys) + 1}")}
            case "malformed_lines":
                return {**record, "first": HIDDEN, "files": []}
            case "operator_failed" | "epoch_failed" | "dead_letters":
                return {**record, "error": without_rows(str(record.get("error", "")))}
            case "app_stopped" if record.get("reason") != "finished":
                return {**record, "reason": without_rows(str(record.get("reason", "")))}
            case "recovery_started" | "scale_given_up" if "\n" in str(record.get("reason", "")):
                return {**record, "reason": without_rows(str(record.get("reason", "")))}
            case "warning" if "key " in (message := str(record.get("message", ""))):
                return {**record, "message": without_rows(message)}
        return record


def without_rows(text: str) -> str:
    """The names of exceptions in a message, and the note that there is more."""
    names = list(dict.fromkeys(_EXCEPTION.findall(text)))
    return f"{', '.join(names) or 'an error'} {HIDDEN}"
