"""How commands end in real processes: signals at any time, readers who leave, full disks, pipes, devices."""

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
from ..processes import ROOT
from ..toy_command import program

LIMIT = 60  # seconds that a test waits; what it waits for takes two


def begin(*arguments, during="pass", before="", **options) -> subprocess.Popen:
    command = [sys.executable, "-c", program(during=during, before=before), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def wait_for(path: Path, process: subprocess.Popen) -> None:
    begun = time.monotonic()
    while not path.exists():
        assert process.poll() is None and time.monotonic() < begun + LIMIT, process.communicate(0)
        time.sleep(0.02)


def captions(folder: Path, count: int = 40) -> Path:
    (folder / "cat.png").write_bytes(encode(noise(8, 8)))
    row = {"image": "cat.png", "references": ["red word"], "language": "en"}
    rows = [{**row, "caption": f"red {'word' * number}", "id": number} for number in range(count)]
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def quick_and_slow(quick, *slow):
    """Cases of a test, of which all but the first are slow."""
    cases = [case if isinstance(case, tuple) else (case,) for case in slow]
    return [quick, *(pytest.param(*case, marks=pytest.mark.slow) for case in cases)]


def test_ctrl_c_in_the_middle_says_so_and_leaves_nothing(tmp_path):
    """Not a partial result either, whose CIDEr would be that of another corpus."""
    during = "if Toy.turns == 4: os.kill(os.getpid(), signal.SIGINT)"
    given = ("score", captions(tmp_path), "-o", tmp_path / "o.jsonl", "-m", "mcs,cider", "--no-cache")
    process = begin(*given, during=during)
    assert process.communicate(LIMIT) == ("", "capscore: interrupted\n") and process.returncode == 130
    assert {path.name for path in tmp_path.iterdir()} == {"cat.png", "rows.jsonl"}


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.slow
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


RUNS = ["score rows.jsonl -o o.jsonl", "explain cat.png red", "robustness --captions rows.jsonl -m mcs@x"]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("run", RUNS)
def test_a_signal_before_anything_is_scored_leaves_nothing(tmp_path, run, number, code):
    flag = tmp_path / "flag"
    captions(tmp_path)
    before = (
        f"def slow(*_, **__):\n    open({str(flag)!r}, 'w').close(); time.sleep(40)\n"
        "capscore.backbones.loading.load_backbone = slow"
    )
    process = begin(*run.split(), before=before, cwd=tmp_path)
    wait_for(flag, process)
    process.send_signal(number)
    out, err = process.communicate(20)
    assert process.returncode == code and "Traceback" not in err, out
    assert not list(tmp_path.glob("o*"))


@pytest.mark.slow
@pytest.mark.parametrize("output", ["o.parquet", "o.json", "o.csv", "o"])
def test_a_disk_that_fills_leaves_no_half_result(tmp_path, output):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))"
    process = begin("score", captions(tmp_path, 200), "-o", tmp_path / output, "--no-cache", before=limit)
    _, err = process.communicate(LIMIT)
    assert (
        process.returncode == 1 and f"error: {tmp_path / output} could not be written: File too large" in err
    )
    assert "Nothing half-written has that name" in err and "Traceback" not in err
    assert {path.name for path in tmp_path.iterdir()} == {"cat.png", "rows.jsonl"}


# ---- a shell: readers who leave, outputs that are full, pipes, devices ----

FULL = "capscore: error: standard output could not be written: No space left on device"
JSONL = '{"caption": "a dog", "references": ["a dog"]}\n{"caption": "a cat", "references": ["a dog"]}\n'
PIPE = "printf '%s' \"$ROWS\" |"


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(
    "line",
    quick_and_slow("capscore --help", "capscore perturb rows.jsonl -k jumble", "capscore backbones --json"),
)
def test_a_full_output_is_one_error(tmp_path, line):
    captions(tmp_path)
    assert shell(f"{line} > /dev/full", tmp_path).stderr.splitlines() == [FULL, "codes 1"]


@pytest.mark.parametrize(
    "line",
    quick_and_slow(
        "capscore perturb rows.jsonl -k jumble | head -1",
        "capscore perturb rows.jsonl -k jumble | true",
        "capscore data list --json | true",
    ),
)
def test_a_reader_may_leave(tmp_path, line):
    captions(tmp_path, 4000)
    done = shell(line, tmp_path)
    assert len(done.stdout.splitlines()) <= 1
    # 0 where all was written before the reader left
    assert done.stderr in ("codes 141 0\n", "codes 0 0\n")


@pytest.mark.parametrize(
    "line",
    quick_and_slow(
        f"{PIPE} capscore perturb - -k jumble",
        'capscore perturb <(printf "%s" "$ROWS") -k jumble',
        f"{PIPE} capscore perturb /dev/stdin -k jumble",
        'printf "%s" "$ROWS" > rows; capscore perturb - -k jumble < rows',
        'mkfifo rows.jsonl; printf "%s" "$ROWS" > rows.jsonl & capscore perturb rows.jsonl -k jumble',
        "printf '%s' \"[${ROWS/$'\\n'/,}]\" | capscore perturb - -k jumble",
    ),
)
def test_rows_may_come_from_a_pipe(tmp_path, line):
    done = shell(line, tmp_path)
    assert [json.loads(row)["original"] for row in done.stdout.splitlines()] == ["a dog", "a cat"], (
        done.stderr
    )


@pytest.mark.parametrize(
    ("line", "message"),
    quick_and_slow(
        ("capscore perturb - -k jumble <&-", "is standard input, and nothing is piped into it"),
        ("capscore perturb /dev/zero -k jumble", "/dev/zero: expected a file, a pipe, or -"),
        ("capscore perturb here -k jumble", "here: expected a file, a pipe, or -"),
        ("capscore perturb - -k jumble < /dev/null", "- is empty (0 bytes)"),
        ("printf 'a,b' | capscore perturb - -k jumble", "- is a file of an unknown kind"),
        ("capscore perturb rows.jsonl -k jumble -o /dev/full", "exists and is not"),
        ("capscore perturb rows.jsonl -k jumble -o here.jsonl --force", "is not a result of this kind"),
    ),
)
def test_what_is_no_file_is_one_error(tmp_path, monkeypatch, line, message):
    captions(tmp_path, 4)
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as here:
        here.bind("here")
        os.mkfifo("here.jsonl")
        done = shell(line, tmp_path)
    error, codes = done.stderr.splitlines()
    assert error.startswith("capscore: error: ") and message in error and codes.split()[-1] in "12"
