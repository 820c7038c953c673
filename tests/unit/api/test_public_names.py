"""What users import is small and on purpose: these names, from these modules, and importing them is cheap."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
from public_modules import PUBLIC_MODULES

import perseid

ERRORS = [
    "ApplicationFailed", "ChannelError", "CheckpointFailed", "CorruptData", "Fenced", "GraphChanged", "GraphError", "LeaseHeld",
    "MalformedLine", "NoAnswer", "NotAuthentic", "OperatorFailed", "OperatorMistake", "PerseidError", "PerseidWarning",
    "RequestFailed", "RootError", "ScaleFailed", "SettingsError", "SourceChanged", "StorageFailed",
]  # fmt: skip
OF_TESTS = ["FaultBeyondRun", "FaultError", "OtherVersion", "PropertyBroken", "SimulationError", "UnknownFault"]
"""Errors of tests and simulations; an application that runs does not raise them."""


def test_the_names_of_perseid() -> None:
    assert sorted(set(perseid.__all__) - set(ERRORS)) == [
        "App", "CheckpointStatus", "Context", "Duration", "END_OF_TIME_MS", "EpochInfo", "EpochStatus", "EventTime", "HostStatus",
        "KeyedOperator", "Operator", "Progress", "Running", "Scaled", "Spilled", "StandbyStatus", "Stream", "TakenCheckpoint", "Timer",
        "agg", "checkpoints", "count_window", "errors", "event_time", "every", "migrate", "moved", "primitives", "scaling", "session",
        "sinks", "sliding", "sources", "spark_processor", "spark_session", "standby", "state", "testing", "transform_with_state",
        "transform_with_state_in_pandas", "tumbling",
    ]  # fmt: skip


def test_every_error_that_an_application_raises_is_exported() -> None:
    found = {name for name, thing in vars(perseid.errors).items() if isinstance(thing, type)}
    assert found == {*ERRORS, *OF_TESTS} == set(perseid.errors.__all__)
    assert set(ERRORS) <= set(perseid.__all__)


def test_the_names_of_the_policies() -> None:
    assert perseid.checkpoints.__all__ == ["Scheme", "adaptive", "comparison", "parallel", "source"]
    assert perseid.scaling.__all__ == ["AutoScaling", "auto"]


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_every_public_name_is_there(module: str) -> None:
    found = importlib.import_module(module)
    assert sorted(set(found.__all__)) == sorted(found.__all__)
    for name in found.__all__:
        assert getattr(found, name) is not None


def test_dir_shows_what_is_loaded_later() -> None:
    assert set(perseid.__all__) <= set(dir(perseid))


def test_importing_them_does_not_import_pyspark() -> None:
    modules = sorted({*PUBLIC_MODULES} - {"perseid.sinks", "perseid.sources"})
    code = f"import importlib, sys\nfor module in {[*modules, 'perseid.state.operator_state']}:\n"
    code += "    importlib.import_module(module)\n    assert 'pyspark' not in sys.modules, module\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
