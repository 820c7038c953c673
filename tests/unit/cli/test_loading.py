import pickle
import sys
import textwrap

import pytest
from pyspark import cloudpickle
from typer.testing import CliRunner

from perseid import App
from perseid.cli.loading import load_app
from perseid.cli.main import app as command
from perseid.errors import SettingsError


@pytest.fixture
def written(tmp_path):
    def write(text, name="application.py"):
        file = tmp_path / name
        file.write_text(textwrap.dedent(text))
        return file

    kept_path, kept_modules = list(sys.path), set(sys.modules)
    yield write
    sys.path[:] = kept_path
    for name in set(sys.modules) - kept_modules:
        if name.startswith("perseid_app_"):
            del sys.modules[name]


def refused(file, name=None):
    with pytest.raises(SettingsError) as caught:
        load_app(file, name)
    return str(caught.value)


def test_the_single_app_is_found(written):
    file = written("from perseid import App\nanything = App('words')\nsame = anything\n")
    assert load_app(file).name == "words"


def test_what_is_under_main_does_not_run(written):
    file = written(
        """
        from perseid import App
        app = App("words")
        if __name__ == "__main__":
            raise SystemExit("ran")
        """
    )
    assert load_app(file).name == "words"


def test_its_neighbours_can_be_imported(written):
    written("NAME = 'from the neighbour'\n", "neighbour_of_the_app.py")
    file = written("from perseid import App\nfrom neighbour_of_the_app import NAME\napp = App(NAME)\n")
    assert load_app(file).name == "from the neighbour"


def test_its_classes_travel_by_value(written):
    file = written("from perseid import App\nclass Mine:\n    answer = 42\napp = App('a')\napp.mine = Mine\n")
    data = cloudpickle.dumps(load_app(file).mine)  # type: ignore[attr-defined]
    del sys.modules["perseid_app_application"]
    assert pickle.loads(data).answer == 42


def test_a_missing_file_is_told(tmp_path):
    assert "no such file" in refused(tmp_path / "nowhere.py")
    assert "is a folder" in refused(tmp_path)


def test_no_app_says_what_to_write(written):
    assert 'expected one App, found none; write `app = App("name")`' in refused(written("x = 1\n"))


def test_several_apps_are_named(written):
    file = written("from perseid import App\na = App('x')\nb = App('y')\n")
    assert "found 2: a, b; choose one with --app NAME" in refused(file)
    assert load_app(file, "b").name == "y"
    assert "there is no such variable; found: a, b" in refused(file, "c")
    assert "it holds a type" in refused(file, "App")


def test_an_error_in_the_file_names_its_line(written):
    assert "application.py, line 3: ZeroDivisionError" in refused(written("x = 1\n\n1 / 0\n"))
    assert "application.py, line 2: SyntaxError" in refused(written("x = 1\nx = = 2\n"))


def test_a_file_that_is_no_python_is_refused(written):
    assert "does not end in .py" in refused(written("text", "notes.txt"))


def test_a_file_that_starts_the_app_itself_is_told_how_not_to(written):
    file = written("from perseid import App\napp = App('words')\napp.run()\n")
    assert "it starts the application itself" in refused(file)
    assert App.run.__name__ == "run"


def test_run_reports_the_message_alone_and_code_1(written):
    result = CliRunner().invoke(command, ["run", str(written("x = 1\n"))])
    assert result.exit_code == 1
    assert "error: " in result.output and "found none" in result.output and "Traceback" not in result.output


def test_run_reports_errors_as_json(written):
    result = CliRunner().invoke(command, ["run", "--json", str(written("x = 1\n"))])
    assert result.exit_code == 1
    assert '"error": "SettingsError"' in result.stdout


def test_run_with_debug_shows_the_traceback(written):
    result = CliRunner().invoke(command, ["run", "--debug", str(written("x = 1\n"))])
    assert isinstance(result.exception, SettingsError)


def test_run_refuses_a_period_of_zero_before_anything_starts(written):
    file = written("from perseid import App\napp = App('words')\n")
    result = CliRunner().invoke(command, ["run", str(file), "--checkpoint-seconds", "0"])
    assert result.exit_code == 1 and "--checkpoint-seconds: expected more than 0" in result.output


def test_run_names_the_mistakes_of_the_graph_before_spark_starts(written):
    file = written("from perseid import App\napp = App('words')\n")
    result = CliRunner().invoke(command, ["run", str(file)])
    assert result.exit_code == 1 and "the application cannot run" in result.output
