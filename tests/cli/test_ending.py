"""How commands end in real processes: signals at any time, readers who leave, full disks, pipes."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..photos import encode, noise
from ..processes import ROOT
from ..toy_command import program
from .conftest import json_lines, write_jsonl

LIMIT = 300  # seconds that a test waits, against hanging alone: what it waits for takes two


def begin(*arguments, during="pass", before="", **options) -> subprocess.Popen:
    command = [sys.executable, "-c", program(during=during, before=before), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def captions(folder: Path, count: int = 40) -> Path:
    (folder / "cat.png").write_bytes(encode(noise(8, 8)))
    row = {"image": "cat.png", "references": ["red word"], "language": "en"}
    rows = [{**row, "caption": f"red {'word' * number}", "id": number} for number in range(count)]
    return write_jsonl(folder / "rows.jsonl", rows)


def test_ctrl_c_in_the_middle_says_so_and_leaves_nothing(tmp_path):
    """Not a partial result either, whose CIDEr would be that of another corpus."""
    during = "if Toy.turns == 4: os.kill(os.getpid(), signal.SIGINT)"
    files = ("-o", tmp_path / "o.jsonl", "--keep", tmp_path / "k.jsonl", "--min-score", "0")
    process = begin("score", captions(tmp_path), *files, "-m", "mcs,cider", "--no-cache", during=during)
    out, err = process.communicate(LIMIT)
    assert (out, process.returncode) == ("", 130) and err.endswith("\ncapscore: interrupted\n")
    assert re.match(r"capscore: note: written: none; not written, .*o\.jsonl, \S*k\.jsonl\n", err)
    assert {path.name for path in tmp_path.iterdir()} == {"cat.png", "rows.jsonl"}


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_anything_is_scored_leaves_nothing(tmp_path, number, code):
    flag = tmp_path / "flag"
    before = (
        f"def slow(*_, **__):\n    open({str(flag)!r}, 'w').close(); time.sleep(600)\n"
        "capscore.backbones.load_backbone = slow"
    )
    process = begin("score", captions(tmp_path), "-o", tmp_path / "o.parquet", before=before)
    until = time.monotonic() + LIMIT
    while not flag.exists():
        assert process.poll() is None and time.monotonic() < until, process.communicate(0)
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(LIMIT)
    assert process.returncode == code and "Traceback" not in err and not list(tmp_path.glob("o*"))


@pytest.mark.slow
@pytest.mark.parametrize("output", ["o.parquet", "o.csv"])
def test_a_disk_that_fills_leaves_no_half_result(tmp_path, output):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))"
    process = begin("score", captions(tmp_path, 200), "-o", tmp_path / output, "--no-cache", before=limit)
    _, err = process.communicate(LIMIT)
    assert process.returncode == 1 and "Traceback" not in err
    assert f"error: {tmp_path / output} could not be written: File too large" in err
    assert {path.name for path in tmp_path.iterdir()} == {"cat.png", "rows.jsonl"}


FULL = "capscore: error: standard output could not be written: No space left on device"
JSONL = '{"caption": "a dog", "references": ["a dog"]}\n{"caption": "a cat", "references": ["a dog"]}\n'


def shell(line: str, folder: Path) -> subprocess.CompletedProcess:
    command = f"{sys.executable} -m capscore"
    return subprocess.run(
        ["bash", "-c", line.replace("capscore", command, 1) + '; echo "codes ${PIPESTATUS[*]}" >&2'],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ROWS": JSONL},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_full_output_is_one_error(tmp_path):
    assert shell("capscore --help > /dev/full", tmp_path).stderr.splitlines() == [FULL, "codes 1"]


def test_a_closed_pipe_is_not_an_error(tmp_path):
    captions(tmp_path, 4000)
    done = shell("capscore perturb rows.jsonl -k jumble | head -1", tmp_path)
    # 0 where all was written before the reader left
    assert len(done.stdout.splitlines()) <= 1 and done.stderr in ("codes 141 0\n", "codes 0 0\n")


SLOW_LINES = (
    'capscore perturb <(printf "%s" "$ROWS") -k jumble',
    'mkfifo rows.jsonl; printf "%s" "$ROWS" > rows.jsonl & capscore perturb rows.jsonl -k jumble',
    "printf '%s' \"[${ROWS/$'\\n'/,}]\" | capscore perturb - -k jumble",
)


LINES = ["printf '%s' \"$ROWS\" | capscore perturb - -k jumble"]
LINES += [pytest.param(line, marks=pytest.mark.slow) for line in SLOW_LINES]


@pytest.mark.parametrize("line", LINES)
def test_rows_may_come_from_a_pipe(tmp_path, line):
    assert [row["original"] for row in json_lines(shell(line, tmp_path).stdout)] == ["a dog", "a cat"]


PIPELESS = [("capscore perturb - -k jumble <&-", "is standard input, and nothing is piped into it")]
PIPELESS += [("printf 'a,b' | capscore perturb - -k jumble", "- has an unknown format")]


@pytest.mark.slow
@pytest.mark.parametrize(("line", "message"), PIPELESS)
def test_standard_input_that_holds_no_rows_is_one_error(tmp_path, line, message):
    error, codes = shell(line, tmp_path).stderr.splitlines()
    assert error.startswith("capscore: error: ") and message in error and codes.split()[-1] in "12"
