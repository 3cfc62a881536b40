"""What a terminal shows of long work, and a file does not."""

import io
from unittest import mock

import pytest

from capscore.files import console


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("shown", "after"), [(None, console.BAR_AFTER_S), (True, 0)])
def test_a_bar_is_shown_after_a_while_or_at_once(monkeypatch, shown, after):
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with mock.patch("threading.Timer") as timer, console.progress_bar("Scoring", 3, shown=shown):
        ((seconds, show), _) = timer.call_args
        assert seconds == after and not terminal.getvalue()
        show()
    assert "Scoring" in terminal.getvalue() and timer.return_value.cancel.called


@pytest.mark.parametrize(("stream", "found"), [(Terminal, True), (io.StringIO, False)])
def test_a_line_says_what_is_loaded_in_a_terminal(monkeypatch, stream, found):
    monkeypatch.setattr("sys.stderr", stream())
    monkeypatch.setenv("TERM", "xterm")
    with console.status("loading embedded …"), console.progress_bar("Scoring", 3):
        pass
    assert ("loading embedded" in console.sys.stderr.getvalue()) == found
