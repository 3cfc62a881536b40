"""The process of the command: how it begins, and how it ends whatever comes in between.

Signals end it within two seconds with 130 or 143. A reader of its output who left early ends it quietly.
An output that cannot be written, as on a full disk, is one line and 1.
"""

from __future__ import annotations

import os
import sys

from ..files.interrupts import PromptEnd, Signals

_FAILED = 1


def main() -> None:
    """Run the command, and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks τ shows another sign instead
            stream.reconfigure(errors="replace")
    with PromptEnd() as end:
        try:
            code = _run()
        except BaseException:
            if PromptEnd.heard is None:
                raise
            code = _FAILED  # of a library that does not expect to be interrupted
        code = _flushed(code)
        if PromptEnd.heard is not None and code:
            code = 128 + PromptEnd.heard
            end.say("interrupted")
        end.code = code
        raise SystemExit(code)


def _run() -> int:
    try:
        with Signals():
            from .app import app

            app()
    except SystemExit as exit:
        if exit.code is None or isinstance(exit.code, int):
            return exit.code or 0
        print(exit.code, file=sys.stderr)
        return _FAILED
    except OSError as error:
        if error.filename is not None:
            raise
        return _output_lost(error)
    return 0


def _flushed(code: int) -> int:
    """The exit code, once all output has been written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError as error:
        _output_lost(error)
    except (OSError, ValueError) as error:  # ValueError: somebody closed it
        return _output_lost(error) if isinstance(error, OSError) else code
    return code


def _output_lost(error: OSError) -> int:
    """Say why standard output cannot be written, and drop what it still holds; returns the exit code."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # not a file
        pass
    from .terminal import READER_LEFT, say

    if isinstance(error, BrokenPipeError):
        return READER_LEFT
    say(f"error: standard output could not be written: {error.strerror or error}")
    return _FAILED
