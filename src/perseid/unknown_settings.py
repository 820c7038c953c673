"""A setting that does not exist is refused with the name of the nearest one that does, before anything starts.

Type checkers and editors find such a mistake in the signature. This is for programs that nobody checked, and for settings in a dict.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar, cast

from perseid.errors import SettingsError

Method = TypeVar("Method", bound=Callable[..., Any])


def refuses_unknown_settings(method: Method) -> Method:
    """The method, which raises ``SettingsError`` for keywords that its signature does not have."""
    parameters = inspect.signature(method).parameters.values()
    settings = sorted(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    known = {p.name for p in parameters}

    @functools.wraps(method)
    def checked(*args: Any, **given: Any) -> Any:
        unknown = sorted(given.keys() - known)
        if unknown:
            raise SettingsError("; ".join(_mistake(name, settings) for name in unknown))
        return method(*args, **given)

    return cast(Method, checked)


def _mistake(name: str, settings: list[str]) -> str:
    near = get_close_matches(name, settings, n=1)
    advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(settings)}"
    return f"{name}: no such setting; {advice}"
