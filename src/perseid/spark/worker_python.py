"""What to say when Spark's Python workers cannot run a host: they lack a module, or are another Python. No retry helps then."""

from __future__ import annotations

import re
import sys

_MISSING = re.compile(r"No module named '?([\w.]+)'?")
_OURS = ("perseid", "pyspark", "pyarrow", "numpy")


def cannot_run(text: str, python: str) -> str | None:
    """Why no host will ever start, with what to do, found in the text of Spark's exception; None if another try may help."""
    set_it = f"set PYSPARK_PYTHON={sys.executable} in the environment before the Spark session is created"
    if "PYTHON_VERSION_MISMATCH" in text:
        mine = ".".join(map(str, sys.version_info[:2]))
        return f"Spark's Python workers run {python!r}, another version than this process ({mine}): {set_it}"
    missing = _MISSING.search(text)
    if missing is None:
        return None
    name = missing[1]
    if name.split(".")[0] in _OURS:
        return f"Spark's Python workers run {python!r}, which has no module {name!r}: {set_it}, or install it there"
    return (
        f"Spark's Python workers ({python!r}) have no module {name!r}: put it beside the file of the application, add it with"
        " spark.addArtifacts(…, pyfile=True), or install it on every machine"
    )
