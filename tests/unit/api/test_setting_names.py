"""One set of settings: the signatures of ``App.run`` and ``App.start``, the dataclass, the docstring and the page agree."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

import perseid
from perseid import App, SettingsError, every
from perseid.driver.settings import Settings

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
ROW = re.compile(r"^\| `(\w+)`[^|]* \| ([^|]+) \|", re.MULTILINE)


def keywords(method: Any) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(method).parameters.values()
    return {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "root"}


def test_run_and_start_take_the_same() -> None:
    run, start = inspect.signature(App.run), inspect.signature(App.start)
    assert run.parameters == start.parameters


def test_the_signature_has_the_names_types_and_defaults_of_the_dataclass() -> None:
    given = {name: (p.annotation, p.default) for name, p in keywords(App.start).items()}
    declared = {}
    for field in fields(Settings):
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        declared[field.name] = (field.type, default)
    assert given == declared


def test_the_docstring_explains_every_setting_in_the_order_of_the_signature() -> None:
    explained = re.findall(r"^        ``(\w+)``  ", App.start.__doc__ or "", re.MULTILINE)
    assert explained == list(inspect.signature(App.start).parameters)[1:]


def test_the_page_has_every_setting_with_its_default() -> None:
    table = PAGE.read_text().partition("## Of one operator")[0]
    shown = dict(ROW.findall(table))
    assert list(shown) == list(inspect.signature(App.start).parameters)[1:], "in the order of the signature"
    for name, parameter in keywords(App.start).items():
        code = re.match(r"`([^`]+)`|([\d,]+)$", shown[name])
        if code is None:
            assert parameter.default is None, f"{name}: in words, as where Perseid chooses"
        else:
            text = code[1] or code[2].replace(",", "")
            assert eval(text, {"perseid": perseid, "every": every}) == parameter.default, name


@pytest.mark.parametrize("method", [App.run, App.start])
def test_an_unknown_setting_is_told_with_the_nearest_one(method: Any) -> None:
    with pytest.raises(SettingsError, match=r"hots: no such setting; did you mean hosts\?"):
        method(App("words"), hots=3)
    with pytest.raises(
        SettingsError, match=r"colour: no such setting; there are align, allow_removed, available_now, .*trigger"
    ):
        method(App("words"), colour="red")


def test_settings_that_cannot_work_are_told_all_at_once() -> None:
    with pytest.raises(SettingsError, match=r"hosts: expected .*got 0; trigger: expected a length of time .*got 5"):
        Settings(hosts=0, trigger=5).checked()  # type: ignore[arg-type]
