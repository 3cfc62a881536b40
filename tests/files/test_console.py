"""What a terminal shows of long work, and a file does not."""

import io
import time

import pytest

from capscore.files import console


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("shown", "seconds", "found"), [(None, 30, False), (None, 0.05, True), (True, 30, True)]
)
def test_a_bar_is_shown_after_a_while_or_at_once(monkeypatch, shown, seconds, found):
    monkeypatch.setattr(console, "BAR_AFTER_S", seconds)
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with console.progress_bar("Scoring", 3, shown=shown):
        time.sleep(0.5)  # nothing is done yet
    assert ("Scoring" in console.sys.stderr.getvalue()) == found


@pytest.mark.parametrize(("stream", "found"), [(Terminal, True), (io.StringIO, False)])
def test_a_line_says_what_is_loaded_in_a_terminal(monkeypatch, stream, found):
    monkeypatch.setattr("sys.stderr", stream())
    monkeypatch.setenv("TERM", "xterm")
    with console.status("loading embedded …"), console.progress_bar("Scoring", 3):
        time.sleep(0.2)
    assert ("loading embedded" in console.sys.stderr.getvalue()) == found
