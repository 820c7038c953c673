import subprocess
import sys

import pytest
from typer.testing import CliRunner

from perseid.cli.main import app


def test_the_bare_command_lists_the_commands():
    output = CliRunner().invoke(app, []).output
    for command in ("demo", "run", "scale", "inspect", "replay", "simulate", "bench", "chaos", "app"):
        assert command in output


@pytest.mark.parametrize("command", ["demo", "run", "scale", "inspect", "replay", "simulate", "bench", "chaos", "app"])
def test_every_command_has_an_example(command):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: perseid {command}" in result.output


@pytest.mark.parametrize("command", ["generate", "run", "check"])
def test_every_command_of_linear_road_has_an_example(command):
    result = CliRunner().invoke(app, ["linear-road", command, "--help"])
    assert result.exit_code == 0
    assert f"Example: perseid linear-road {command}" in result.output


def test_the_version_is_told():
    assert CliRunner().invoke(app, ["--version"]).output.startswith("perseid ")


def test_a_command_imports_its_own_module_alone():
    called = "import sys; from perseid.cli.main import app; app(['dashboard', '--help'], standalone_mode=False)"
    told = f"{called}; print(*sorted(name for name in sys.modules if name.startswith('perseid.')))"
    loaded = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout.split()
    assert "perseid.cli.dashboard" in loaded
    assert not {"perseid.cli.replay", "perseid.simulation", "perseid.engine.controller", "perseid.testing"} & {*loaded}


def test_a_command_that_there_is_not_is_told_with_one_that_may_be_meant():
    result = CliRunner().invoke(app, ["insect"])
    assert result.exit_code == 2 and "inspect" in result.output
