"""Finds the ``App`` in a Python file.

The file is executed as a module of its own name, not as ``__main__``, so that an ``if __name__ == "__main__"`` block
that runs the application stays out of the way. Its classes and functions are shipped to hosts and workers by value, as
those of ``__main__`` are, so that nothing has to be installed there. Modules beside it are sent as files (``perseid.spark.modules``).
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from perseid.errors import PerseidError, SettingsError

if TYPE_CHECKING:
    from perseid.application import App


def load_app(file: Path, name: str | None = None) -> App:
    """The single ``App`` in ``file``, or the one its variable ``name`` holds.

    Raises ``SettingsError`` when there is no such file, no application in it, or several.
    """
    from perseid.application import App

    if not file.is_file():
        raise SettingsError(f"{file}: {'is a folder' if file.is_dir() else 'no such file'}; expected a Python file")
    module = _execute(file)
    if name is not None:
        chosen = getattr(module, name, None)
        if isinstance(chosen, App):
            return chosen
        found = "there is no such variable" if chosen is None else f"it holds a {type(chosen).__name__}"
        raise SettingsError(f"{file}: --app {name}: expected a variable with an App, {found}{_hint(module)}")
    apps = _apps(module)
    if len({id(app) for app in apps.values()}) == 1:
        return next(iter(apps.values()))
    if not apps:
        raise SettingsError(f'{file}: expected one App, found none; write `app = App("name")` at the top level')
    raise SettingsError(f"{file}: expected one App, found {len(apps)}: {', '.join(apps)}; choose one with --app NAME")


def _apps(module: ModuleType) -> dict[str, App]:
    from perseid.application import App

    return {name: value for name, value in vars(module).items() if isinstance(value, App)}


def _hint(module: ModuleType) -> str:
    apps = _apps(module)
    return f"; found: {', '.join(apps)}" if apps else "; and there is no other App in the file"


def _execute(file: Path) -> ModuleType:
    """Run the file as a module, with its folder on the path as ``python FILE`` does."""
    from pyspark import cloudpickle

    from perseid.spark.modules import APP_MODULE

    # A name that no installed module has, so that a file may be called json.py and still not hide json.
    name = f"{APP_MODULE}{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    if spec is None or spec.loader is None:
        raise SettingsError(f"{file}: expected a Python file, its name does not end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        with _not_started_by_the_file(file):
            spec.loader.exec_module(module)
    except PerseidError:
        raise
    except SystemExit as error:
        raise SettingsError(f"{file}: it exits by itself (code {error.code}) before an App could be taken") from error
    except Exception as error:
        raise SettingsError(f"{file}{_place(file, error)}: {type(error).__name__}: {error}") from error
    return module


def _place(file: Path, error: Exception) -> str:
    """``, line 12``: the newest line of the file itself on the way to the error."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f", line {error.lineno}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file.resolve())]
    return f", line {own[-1].lineno}" if own else ""


@contextmanager
def _not_started_by_the_file(file: Path) -> Iterator[None]:
    """While the file is read, ``app.run()`` and ``app.start()`` in it are refused: the command starts it."""
    from perseid.application import App

    def refuse(self: App, *_: object, **__: object) -> None:
        raise SettingsError(
            f'{file}: it starts the application itself; put that under `if __name__ == "__main__":` for '
            f"`perseid run`, or run it with `python {file}`"
        )

    kept = {method: getattr(App, method) for method in ("run", "start")}
    try:
        for method in kept:
            setattr(App, method, refuse)
        yield
    finally:
        for method, original in kept.items():
            setattr(App, method, original)
