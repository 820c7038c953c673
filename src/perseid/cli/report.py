"""How the command line reports errors: the message alone, or one JSON object; a traceback only with ``--debug``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text

from perseid.errors import CheckpointFailed, PerseidError

errors = Console(stderr=True, highlight=False, soft_wrap=True)


FAILED = 1
NOT_SAVED = 3  # all output is there, but the last checkpoint failed
READER_GONE = 141  # what the shell says of others that a closed pipe ends


@contextmanager
def reporting(*, debug: bool = False, as_json: bool = False) -> Iterator[None]:
    """Turn a ``PerseidError`` into its message and an exit code; end quietly when nobody reads any more (``| head``)."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        raise typer.Exit(READER_GONE) from None
    except SystemExit:  # what rich makes of it
        raise typer.Exit(READER_GONE) from None
    except PerseidError as error:
        if debug:
            raise
        if as_json:
            print(json.dumps({"error": type(error).__name__, "message": _message(error)}), flush=True)
        else:
            errors.print(Text.assemble(("error: ", "bold red"), _message(error)))
        raise typer.Exit(NOT_SAVED if isinstance(error, CheckpointFailed) else FAILED) from None


def _message(error: PerseidError) -> str:
    """The message, and the message of the chained cause where that says more."""
    message = str(error) or type(error).__name__
    cause = error.__cause__
    if isinstance(cause, PerseidError) and str(cause) and str(cause) not in message:
        message += f"\n  because: {cause}"
    return message
