"""What ``import perseid`` offers is small and on purpose."""

from __future__ import annotations

import subprocess
import sys

import perseid


def test_the_public_names() -> None:
    assert sorted(perseid.__all__) == [
        "App", "Context", "Duration", "EpochInfo", "EventTime", "KeyedOperator", "Operator", "PerseidError", "Stream",
        "Timer", "adaptive", "auto", "baseline", "event_time", "every", "oracle", "parallel", "recording", "sinks", "source",
        "source_replay", "sources", "spark_processor", "state", "upstream_backup",
    ]  # fmt: skip


def test_every_public_name_is_there() -> None:
    for name in perseid.__all__:
        assert getattr(perseid, name) is not None


def test_importing_perseid_does_not_import_pyspark() -> None:
    code = "import sys, perseid, perseid.state.operator_state; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
