import pytest
from typer.testing import CliRunner

import perseid.bench
from perseid.cli.bench import available
from perseid.cli.main import app

ENGINE = '''"""Counts to three.

More words.
"""
def run(quick, json_path, plot_path):
    print("ran", quick, json_path, plot_path)
'''


@pytest.fixture
def benchmarks(tmp_path, monkeypatch):
    (tmp_path / "counting.py").write_text(ENGINE)
    (tmp_path / "shared_parts.py").write_text('"""No benchmark: it has no run."""\n')
    (tmp_path / "needy.py").write_text(
        '"""Needs what is not there."""\nimport not_installed_anywhere\ndef run(q, j, p): ...\n'
    )
    monkeypatch.setattr(perseid.bench, "__path__", [str(tmp_path)])
    return tmp_path


def invoke(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


def test_benchmarks_are_listed_with_what_they_measure(benchmarks):
    assert available() == {"counting": "Counts to three.", "needy": "Needs what is not there."}
    assert "counting" in (listed := invoke().output) and "Counts to three." in listed


def test_an_unknown_name_says_which_there_are(benchmarks):
    result = invoke("coutning")
    assert result.exit_code == 1
    assert "no benchmark 'coutning'; there are: counting, needy" in result.output


def test_a_benchmark_is_given_its_options(benchmarks):
    path = benchmarks / "out.json"
    assert invoke("counting", "--quick", "--json", path).output.strip() == f"ran True {path} None"


def test_a_folder_that_is_not_there_is_told_before_the_run(benchmarks):
    result = invoke("counting", "--plot", benchmarks / "no" / "such.png")
    assert result.exit_code == 1 and "does not exist" in result.output and "ran" not in result.output


def test_a_missing_package_says_what_to_install(benchmarks):
    result = invoke("needy")
    assert result.exit_code == 1 and "perseid[bench]" in result.output


def test_an_application_is_for_benchmarks_that_have_some(benchmarks):
    result = invoke("counting", "--app", "tmi")
    assert result.exit_code == 1 and "--app tmi: benchmark 'counting' has no app to choose" in result.output
    (benchmarks / "choosing.py").write_text("def run(quick, json_path, plot_path, app=None):\n    print('ran', app)\n")
    assert invoke("choosing", "--app", "tmi").output.strip() == "ran tmi"


def test_an_application_that_is_not_there_is_named_with_those_that_are():
    result = invoke("meteor", "--app", "taxi")
    assert result.exit_code == 1
    assert "no application 'taxi'; there are: tmi, bcp, signalguru" in " ".join(result.output.split())


def test_a_part_is_for_benchmarks_that_have_some(benchmarks):
    result = invoke("counting", "--part", "recovery")
    assert result.exit_code == 1 and "--part recovery: benchmark 'counting' has no part to choose" in result.output


def test_a_part_that_is_not_there_says_which_are():
    result = invoke("scale", "--part", "recover")
    assert result.exit_code == 1 and "no part 'recover'; there are: live, recovery, parallel" in result.output
