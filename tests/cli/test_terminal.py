"""What commands print of texts from outside: nothing in them controls the terminal, or counts as markup."""

from __future__ import annotations

import io
import json

import pytest
from typer.testing import CliRunner

from capscore.cli import app
from capscore.cli.terminal import make_table, print_failures, print_json, print_line, say
from capscore.files.console import make_console

from ..photos import encode, noise

ESCAPES = "\x1b]0;owned\x07\x9b31m\u202eevil\r"
CONTROLS = set("\x00\x07\x08\x0b\x1b\x9b\r\u2028\u202e\u2066")


def console(capture: io.StringIO):
    made = make_console()
    made.file = capture
    return made


def test_a_console_takes_texts_literally():
    out = io.StringIO()
    table = make_table("caption", "what")
    table.add_row(f"[bold]a[/] :smile: {ESCAPES}", "two\nlines")
    printer = console(out)
    printer.print(table)
    printer.print(f"[red]b[/red] {ESCAPES}")
    print_line(printer, f"c\nd {ESCAPES}")
    shown = out.getvalue()
    assert not set(shown) & CONTROLS
    assert "[bold]a[/] :smile:" in shown and "[red]b[/red]" in shown and r"c\nd" in shown
    assert shown.count(r"\x1b]0;owned\x07\x9b31m\u202eevil\r") == 3


def test_lines_on_standard_error_are_single_lines(capsys):
    say(f"one\ntwo {ESCAPES}")
    print_failures(
        {3: (None, f"bad\nname {ESCAPES}")}, "of 4 rows could not be scored", lambda row, line: f"row {row}"
    )
    err = capsys.readouterr().err
    assert not set(err) & CONTROLS
    assert [line.split(" \\x1b")[0] for line in err.splitlines()] == [
        "capscore: one two",
        "capscore: 1 of 4 rows could not be scored:",
        "  row 3: bad name",
    ]


def test_json_is_exact_and_harmless(capsys):
    value = {"caption": f"[b]é {ESCAPES}\n", "path": "a\x7f\u2028"}
    print_json(value)
    out = capsys.readouterr().out
    assert json.loads(out) == value and not set(out) & CONTROLS


NAMES = ["\x1b[31mred.png", "bell\x07.png", "a\nb.png", "\x9b31m.png", "\u202egnp.exe", "[bold]b.png"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [[], ["--on-error", "skip", "--json"], ["--debug"]])
def test_names_of_images_cannot_control_the_terminal(tmp_path, monkeypatch, name, options):
    from capscore.backbones import loading

    from ..toy import ColourBackbone

    monkeypatch.setattr(loading, "load_backbone", lambda *_, **__: ColourBackbone())
    monkeypatch.delenv("CAPSCORE_DEBUG", raising=False)
    (tmp_path / "good.png").write_bytes(encode(noise(8, 8)))
    (tmp_path / name).write_bytes(b"no image")
    rows = [{"image": "good.png", "caption": "red"}, {"image": name, "caption": f"[red] {ESCAPES}"}]
    place = tmp_path / "rows.jsonl"
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = CliRunner().invoke(app, ["score", str(place), "--no-cache", *options])
    assert done.exit_code == (3 if "skip" in options else 1), done.output
    assert not set(done.stdout + done.stderr) & CONTROLS
    assert "is not an image that can be read" in done.stdout + done.stderr
    if not options:
        assert len(done.stderr.splitlines()) == 1


def test_passwords_are_shown_nowhere(tmp_path, monkeypatch):
    from capscore.backbones import loading
    from capscore.images import fetch

    from ..toy import ColourBackbone

    def look_up(host, port):
        raise OSError(f"no route to https://me:SECRET@{host}/?key=SECRET")

    monkeypatch.setattr(loading, "load_backbone", lambda *_, **__: ColourBackbone())
    monkeypatch.setattr(fetch, "look_up", look_up)
    urls = [
        "https://me:SECRET@x.example/a.jpg?token=SECRET#SECRET",
        "http://SECRET@[::1/a",
        "ftp://me:SECRET@h/?SECRET",
    ]
    place = tmp_path / "rows.jsonl"
    place.write_text("".join(json.dumps({"image": url, "caption": "red"}) + "\n" for url in urls))
    for options in ([], ["--allow-urls"], ["--allow-urls", "--on-error", "skip", "--json"], ["--debug"]):
        done = CliRunner().invoke(app, ["score", str(place), "--no-cache", *options])
        assert done.exit_code in (1, 3) and "…@" in done.output
        assert "SECRET" not in done.stdout + done.stderr
    output = tmp_path / "scores.jsonl"
    CliRunner().invoke(app, ["score", str(place), "--no-cache", "--on-error", "skip", "-o", str(output)])
    assert "SECRET" not in (tmp_path / "scores.summary.json").read_text()
    scored = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["image"] for row in scored] == urls  # the rows themselves are the reader's own
    assert not any("SECRET" in row["capscore_error"] for row in scored)
