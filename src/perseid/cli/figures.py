"""Numbers as people read them: bytes, lengths of time, counts, and a line of bars."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"


def size(count: float) -> str:
    """``1536`` → ``1.5 KB``."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"


def duration(ms: float) -> str:
    """``1250`` → ``1.2 s``; ``90_000`` → ``1 min 30 s``."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} days"


def count(number: float) -> str:
    """``1234567`` → ``1,234,567``."""
    return f"{number:,.0f}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """``(1, "row")`` → ``1 row``; ``(2000, "row")`` → ``2,000 rows``."""
    return f"{count(number)} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Sequence[object]) -> str:
    """``["a", "b", "c"]`` → ``a, b and c``."""
    words = [str(name) for name in names]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def bars(values: Sequence[float], width: int) -> str:
    """The last ``width`` values as bars, the highest of them at full height."""
    shown = values[-width:]
    top = max(shown, default=0.0)
    if top <= 0:
        return _BARS[0] * len(shown)
    return "".join(_BARS[min(len(_BARS) - 1, round(value / top * (len(_BARS) - 1)))] for value in shown)
