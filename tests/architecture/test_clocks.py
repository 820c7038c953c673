"""Who may look at the wall clock: it may be put forward or back at any moment, so nothing that has to happen after a while asks it."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "perseid"
WALL = re.compile(r"\btime\.time\(|\btime_ns\(|\bdatetime\.now\(|\butcnow\(|\bwall_ms\b|from time import")
ALLOWED = {
    "cli/check.py": "takes a lease, which another process may have written",
    "query/batch.py": "processors see it, as in Spark",
    "clocks.py": "is where it is read",
    "driver/event_recorder.py": "says when it was, to people",
    "driver/shell.py": "gives it to lease, journal and manifests",
    "cli/inspect.py": "says how long ago something was written, to people",
    "cli/root_requests.py": "compares with the lease, which another process wrote",
    "storage/requests.py": "names files in the order they were asked for",
    "host/host_folder.py": "compares with the age of files",
    "host/copies_folder.py": "compares with the age of files",
    "channel/kept_rows.py": "compares with the age of files",
    "sources/listing.py": "compares with the age of folders",
    "testing/admissions.py": "takes a lease",
    "transfer/begin_root.py": "takes a lease, and says in the manifest when it was",
}


def test_the_wall_clock_is_read_only_where_people_files_or_rows_see_it() -> None:
    found = set()
    for path in SOURCES.rglob("*.py"):
        name = path.relative_to(SOURCES).as_posix()
        if not name.startswith("bench/") and WALL.search(path.read_text().replace("monotonic_ns(", "")):
            found.add(name)
    assert found <= ALLOWED.keys(), "use steady_ms or time.monotonic; or say here why it must be the wall clock"


def test_decisions_are_taken_by_the_steady_clock() -> None:
    shell = (SOURCES / "driver" / "shell.py").read_text()
    assert shell.count("controller.handle(") == 1, "the controller is given events in one place"
    assert re.findall(r"now_ms = (\w+)\(\)\n +\w+ = self\.controller\.handle\(event, now_ms\)", shell) == ["steady_ms"]
