"""How commands end in real processes: signals at any time, readers who leave, outputs that are full."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..photos import encode, noise
from ..processes import Process
from ..processes import run as run_process

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60  # seconds that a test waits; what it waits for takes two
COMMAND = """
import os, sys, time
sys.path.insert(0, {root!r})
from tests.toy import ColourBackbone
import capscore.backbones.loading, capscore.files.row_source, capscore.metrics.score_file
capscore.files.row_source.CHUNK_ROWS = capscore.metrics.score_file.CHUNK_ROWS = 4
class Toy(ColourBackbone):
    turns = 0
    def encode_tokens(self, ids):
        Toy.turns += 1
        {during}
        return super().encode_tokens(ids)
capscore.backbones.loading.load_backbone = lambda name, **options: Toy()
{before}
from capscore.cli import main
sys.argv = ["capscore", *sys.argv[1:]]
main()
"""


def begin(*arguments, during="pass", before="", **options) -> Process:
    program = COMMAND.format(root=str(ROOT), during=during, before=before)
    return Process(["-c", program, *arguments], **options)


def wait_for(path: Path, process: Process) -> None:
    begun = time.monotonic()
    while not path.exists():
        assert process.poll() is None and time.monotonic() < begun + LIMIT, process.communicate(0)
        time.sleep(0.02)


def captions(folder: Path, count: int = 40, **more) -> Path:
    (folder / "cat.png").write_bytes(encode(noise(8, 8)))
    rows = [{"image": "cat.png", "caption": f"red {'word' * n}", "id": n, **more} for n in range(count)]
    place = folder / "rows.jsonl"
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("output", ["o.jsonl", "o.parquet"])
def test_a_signal_in_the_middle_leaves_nothing(tmp_path, number, code, output):
    flag = tmp_path / "flag"
    during = f"if Toy.turns > 3: open({str(flag)!r}, 'w').close(); time.sleep(40)"
    process = begin("score", captions(tmp_path), "-o", tmp_path / output, "--no-cache", during=during)
    wait_for(flag, process)
    process.send_signal(number)
    out, err = process.communicate(20)
    assert (process.returncode, out) == (code, "") and "Traceback" not in err, err
    assert {path.name for path in tmp_path.iterdir()} == {"cat.png", "flag", "rows.jsonl"}


RUNS = {
    "score": ["score", "rows.jsonl", "-o", "o.jsonl", "--backbone", "x"],
    "explain": ["explain", "cat.png", "a red cat", "--backbone", "x"],
    "robustness": ["robustness", "--captions", "rows.jsonl", "--metric", "mcs@x"],
}


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("run", RUNS)
def test_a_signal_before_anything_is_scored_leaves_nothing(tmp_path, run, number, code):
    flag = tmp_path / "flag"
    captions(tmp_path, language="en")
    before = (
        f"def slow(*_, **__):\n    open({str(flag)!r}, 'w').close(); time.sleep(40)\n"
        "capscore.backbones.loading.load_backbone = slow"
    )
    process = begin(*RUNS[run], before=before, cwd=tmp_path)
    wait_for(flag, process)
    process.send_signal(number)
    out, err = process.communicate(20)
    assert process.returncode == code and "Traceback" not in err, out
    assert not list(tmp_path.glob("o*"))


# ---- readers who leave, outputs that are full

FULL = "capscore: error: standard output could not be written: No space left on device"


def shell(line: str, folder: Path) -> subprocess.CompletedProcess:
    command = f"{sys.executable} -m capscore"
    return subprocess.run(
        ["bash", "-c", line.replace("capscore", command, 1) + '; echo "codes ${PIPESTATUS[*]}" >&2'],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(
    "line",
    [
        "capscore perturb rows.jsonl -k jumble",
        "capscore data list",
        "capscore --help",
    ],
)
def test_a_full_output_is_one_error(tmp_path, line):
    captions(tmp_path)
    done = shell(f"{line} > /dev/full", tmp_path)
    assert done.stderr.splitlines() == [FULL, "codes 1"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_output_of_a_command_of_large_libraries_is_one_error():
    with open("/dev/full", "w") as full:
        done = run_process(["-m", "capscore", "backbones", "--json"], stdout=full.fileno())
    assert (done.returncode, done.stderr) == (1, FULL + "\n")


@pytest.mark.parametrize(
    "line",
    [
        "capscore perturb rows.jsonl -k jumble -k repetition | head -1",
        "capscore perturb rows.jsonl -k jumble | true",
        "capscore data list --json | true",
        "capscore data list | head -1",
    ],
)
def test_a_reader_may_leave(tmp_path, line):
    captions(tmp_path, 4000)
    done = shell(line, tmp_path)
    assert len(done.stdout.splitlines()) <= 1
    # 0 where all was written before the reader left
    assert done.stderr in ("codes 141 0\n", "codes 0 0\n")


# ---- pipes, standard input, devices

JSONL = '{"caption": "a dog", "references": ["a dog"]}\n{"caption": "a cat", "references": ["a dog"]}\n'
PIPED = {
    "JSON lines": "printf '%s' \"$ROWS\" | capscore score - -m bleu --json",
    "a process": "capscore score <(printf '%s' \"$ROWS\") -m bleu --json",
    "/dev/stdin": "printf '%s' \"$ROWS\" | capscore score /dev/stdin -m bleu --json",
    "a file as input": "printf '%s' \"$ROWS\" > rows; capscore score - -m bleu --json < rows",
    "a pipe with a name": "mkfifo rows.jsonl; printf '%s' \"$ROWS\" > rows.jsonl & "
    "capscore score rows.jsonl -m bleu --json",
    "a list": "printf '%s' \"[${ROWS/$'\\n'/,}]\" | capscore score - -m bleu --json",
    "to a pipe": "printf '%s' \"$ROWS\" | capscore perturb - -k jumble",
}


@pytest.mark.parametrize("what", PIPED)
def test_rows_may_come_from_a_pipe(tmp_path, monkeypatch, what):
    monkeypatch.setenv("ROWS", JSONL)
    done = shell(PIPED[what], tmp_path)
    assert done.stderr.splitlines()[-1].split()[-1] == "0", done.stderr
    if "perturb" in PIPED[what]:
        assert [json.loads(line)["original"] for line in done.stdout.splitlines()] == ["a dog", "a cat"]
    else:
        assert json.loads(done.stdout)["rows"] == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("capscore perturb /dev/zero -k jumble", "/dev/zero: expected a file, a pipe, or -"),
        ("capscore perturb . -k jumble", "is a folder"),
        ("capscore perturb here -k jumble", "here: expected a file, a pipe, or -"),
        ("capscore perturb - -k jumble < /dev/null", "- is empty (0 bytes)"),
        ("capscore perturb - -k jumble <&-", "is standard input, and nothing is piped into it"),
        ("printf 'a,b' | capscore perturb - -k jumble", "- is a file of an unknown kind"),
        ("capscore perturb rows.jsonl -k jumble -o /dev/full", "exists and is not"),
        (
            "capscore perturb rows.jsonl -k jumble -o here.jsonl --force",
            "is not a result of this kind",
        ),
    ],
)
def test_what_is_no_file_is_one_error(tmp_path, monkeypatch, line, message):
    captions(tmp_path, 4)
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as here:
        here.bind("here")
        os.mkfifo("here.jsonl")
        done = shell(line, tmp_path)
    error, codes = done.stderr.splitlines()
    assert error.startswith("capscore: error: ") and message in error
    assert codes.split()[-1] in "12"
