"""Small operators, a source and a sink to build graphs from."""

from __future__ import annotations

from typing import Any

from perseid import KeyedOperator, Operator, state


class Lines:
    kind = "lines"

    def open(self, *_: Any) -> None: ...
    def end(self, *_: Any) -> Any:
        return 0

    def read(self, *_: Any) -> Any: ...
    def rows(self, *_: Any) -> Any: ...
    def finished(self, *_: Any) -> bool:
        return False

    def trim(self, *_: Any) -> None: ...
    def close(self) -> None: ...


class Nowhere:
    kind = "nowhere"

    def open(self, *_: Any) -> None: ...
    def holds(self, *_: Any) -> bool:
        return False

    def write(self, *_: Any) -> None: ...
    def close(self) -> None: ...


class Count(Operator):
    counts: dict[str, int] = state(default_factory=dict)

    def process(self, rows: Any) -> None:
        return None


class Join(Operator):
    def process(self, left: Any, right: Any) -> None:
        return None


class PerKey(KeyedOperator):
    def process_key(self, key: Any, rows: Any) -> None:
        return None
