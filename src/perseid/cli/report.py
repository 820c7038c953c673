"""How the command line reports errors: the message alone, or one JSON object; a traceback only with ``--debug``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text

from perseid.errors import PerseidError

errors = Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def reporting(*, debug: bool = False, as_json: bool = False) -> Iterator[None]:
    """Turn a ``PerseidError`` into its message and exit code 1."""
    try:
        yield
    except PerseidError as error:
        if debug:
            raise
        if as_json:
            print(json.dumps({"error": type(error).__name__, "message": _message(error)}), flush=True)
        else:
            errors.print(Text.assemble(("error: ", "bold red"), _message(error)))
        raise typer.Exit(1) from None


def _message(error: PerseidError) -> str:
    """The message, and the message of the chained cause where that says more."""
    message = str(error) or type(error).__name__
    cause = error.__cause__
    if isinstance(cause, PerseidError) and str(cause) and str(cause) not in message:
        message += f"\n  because: {cause}"
    return message
