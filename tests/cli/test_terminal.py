"""What commands print of texts from outside: nothing in them controls the terminal, or counts as markup."""

import io

import pytest

from capscore.cli.terminal import print_failures, print_line, say
from capscore.files.console import make_console
from capscore.images import fetch
from capscore.tables import Table

from .conftest import read_jsonl, run, write_jsonl

ESCAPES = "\x1b]0;owned\x07\x9b31m\u202eevil\r"
CONTROLS = set("\x00\x07\x08\x0b\x1b\x9b\r\u2028\u202e\u2066")


def test_a_console_takes_texts_literally():
    printer = make_console()
    out = printer.file = io.StringIO()
    Table(("caption", "what"), [(f"[bold]a[/] :smile: {ESCAPES}", "two\nlines")], wide=0).print(printer)
    printer.print(f"[red]b[/red] {ESCAPES}")
    print_line(printer, f"c\nd {ESCAPES}")
    shown = out.getvalue()
    assert not set(shown) & CONTROLS and shown.count(r"\x1b]0;owned\x07\x9b31m\u202eevil\r") == 3
    assert all(text in shown for text in ("[bold]a[/] :smile:", "[red]b[/red]", r"c\nd"))


def test_lines_on_standard_error_are_single_lines(capsys):
    say(f"one\ntwo {ESCAPES}")
    failures = {3: (None, f"bad\nname {ESCAPES}")}
    print_failures(failures, "of 4 rows could not be scored", lambda row, line: f"row {row}")
    err = capsys.readouterr().err
    assert not set(err) & CONTROLS
    lines = [line.split(" \\x1b")[0] for line in err.splitlines()]
    assert lines == ["capscore: one two", "capscore: 1 of 4 rows could not be scored:", "  row 3: bad name"]


@pytest.mark.parametrize("name", ["\x1b[31mred.png", "a\nb\x07.png", "\u202egnp.exe", "[bold]b.png"])
def test_names_of_images_cannot_control_the_terminal(tmp_path, monkeypatch, toys, name):
    monkeypatch.delenv("CAPSCORE_DEBUG", raising=False)
    (tmp_path / name).write_bytes(b"no image")
    source = write_jsonl(tmp_path / "rows.jsonl", [{"image": name, "caption": f"[red] {ESCAPES}"}])
    for options in ([], ["--debug"]):
        done = run("score", source, "--no-cache", "--backbone", "toy", *options)
        assert done.exit_code == 1 and not set(done.output) & CONTROLS
        assert "is not an image that can be read" in done.stderr
        assert options or len(done.stderr.splitlines()) == 1


def test_names_of_systems_and_columns_cannot_control_the_terminal(tmp_path):
    rows = [{"image": f"{n}.jpg", "caption": "x", "m\x1b[2J": n / 10} for n in range(2)]
    a, b = (write_jsonl(tmp_path / f"{name}.jsonl", rows) for name in "ab")
    done = run("compare", f"x\x1b]0;y={a}", b, "--metric", "m\x1b[2J")
    assert done.exit_code == 0 and "\x1b" not in done.output
    (tmp_path / "a.summary.json").write_text('{"metrics": {"m\\u001b[2J": {"signature": "no\\u001b[2J|x"}}}')
    done = run("compare", a, b, "--metric", "m\x1b[2J")
    assert done.exit_code == 1 and "\x1b" not in done.output


def test_passwords_are_shown_nowhere(tmp_path, monkeypatch, toys):
    def look_up(host, port):
        raise OSError(f"no route to https://me:SECRET@{host}/?key=SECRET")

    monkeypatch.setattr(fetch, "look_up", look_up)
    urls = ["https://me:SECRET@x.example/a.jpg?token=SECRET#SECRET", "http://SECRET@[::1/a"]
    urls.append("ftp://me:SECRET@h/?SECRET")
    source = write_jsonl(tmp_path / "rows.jsonl", [{"image": url, "caption": "red"} for url in urls])
    output = tmp_path / "scores.jsonl"
    skip = "--on-error skip"
    for options in ("", "--debug", "--allow-urls", f"--allow-urls {skip} --json", f"{skip} -o {output}"):
        done = run("score", source, "--no-cache", "--backbone", "toy", *options.split())
        assert done.exit_code in (1, 3) and "…@" in done.output and "SECRET" not in done.output
    assert "SECRET" not in (tmp_path / "scores.summary.json").read_text()
    rows = read_jsonl(output)
    assert [row["image"] for row in rows] == urls  # the rows themselves are the reader's own
    assert not any("SECRET" in row["capscore_error"] for row in rows)
