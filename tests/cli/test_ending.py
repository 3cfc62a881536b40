"""How commands end in real processes: signals at any time, readers who leave, outputs that are full."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
# a call of a library that lets other threads run, and that no signal interrupts: it takes a lock twice
LONG_CALL = "import ctypes; lock = ctypes.create_string_buffer(64); open({flag!r}, 'w').close()\n"
LONG_CALL += "{indent}for _ in range(2): ctypes.CDLL(None).pthread_mutex_lock(lock)\n"
AFTER_THREE = "if Toy.turns > 3:\n            " + LONG_CALL.replace("{indent}", " " * 12)


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


class Silent(BaseHTTPRequestHandler):
    """A server that sends a byte now and then, and never ends."""

    asked = threading.Event()

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.asked.set()
        try:
            while not self.server.closing.wait(0.1):
                self.wfile.write(b"0")
        except OSError:
            pass

    def log_message(self, *_):
        pass


@pytest.fixture
def silent():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    server.closing = threading.Event()
    Silent.asked.clear()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/a.jpg"
    server.closing.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_download_that_hangs_is_ended(tmp_path, silent, number, code):
    rows = captions(tmp_path, image=silent)
    process = begin("score", rows, "-o", tmp_path / "o.jsonl", "--allow-urls", "--allow-private-urls")
    assert Silent.asked.wait(LIMIT)
    process.send_signal(number)
    out, err = process.communicate(20)  # the download would go on for a minute
    assert (process.returncode, out) == (code, ""), err
    assert err.startswith("capscore: interrupted; no result was written") and err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cat.png", "rows.jsonl"]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("output", ["o.jsonl", "o.parquet"])
def test_a_long_call_of_a_library_is_ended_and_rows_are_kept(tmp_path, number, code, output):
    flag = tmp_path / "flag"
    during = AFTER_THREE.format(flag=str(flag))
    process = begin("score", captions(tmp_path), "-o", tmp_path / output, "--no-cache", during=during)
    wait_for(flag, process)
    process.send_signal(number)
    out, err = process.communicate(20)  # the call never ends
    assert (process.returncode, out) == (code, ""), err
    partial = tmp_path / f"o.partial{Path(output).suffix}"
    assert err == f"capscore: interrupted: 12 of 40 rows are scored, in {partial}\n"
    if output == "o.parquet":
        import pyarrow.parquet as pq

        rows = pq.read_table(partial).to_pylist()
    else:
        rows = [json.loads(line) for line in partial.read_text().splitlines()]
    assert [row["id"] for row in rows] == list(range(12))


def test_embeddings_of_a_run_that_is_ended_in_a_long_call_are_kept(tmp_path):
    flag = tmp_path / "flag"
    during = AFTER_THREE.format(flag=str(flag))
    arguments = ["score", captions(tmp_path), "--cache-dir", tmp_path / "cache", "--batch-size", 2]
    process = begin(*arguments, during=during)
    wait_for(flag, process)
    process.send_signal(signal.SIGTERM)
    process.communicate(20)
    counted = run_process(["-m", "capscore", "cache", "info", "--cache-dir", tmp_path / "cache", "--json"])
    assert json.loads(counted.stdout)["entries"] == 7, counted  # an image and 3 × 2 texts


def test_a_second_ctrl_c_ends_at_once(tmp_path):
    flag = tmp_path / "flag"
    program = (
        "import capscore.files.interrupts as i\n"
        "i.PATIENCE = 1000\n"
        "with i.PromptEnd(), i.Signals() as signals, signals.held():\n"
        f"    {LONG_CALL.format(flag=str(flag), indent='    ')}"
    )
    process = Process(["-c", program])
    wait_for(flag, process)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):  # it waits while rows are written
        process.wait(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("what", ["a library that is imported", "weights that are loaded"])
def test_a_run_is_ended_before_anything_is_scored(tmp_path, number, code, what):
    """Also where the library swallows what it does not expect."""
    flag = tmp_path / "flag"
    slow = (
        "def slow(*_, **__):\n"
        f"    open({str(flag)!r}, 'w').close()\n"
        "    begun = time.monotonic()\n"
        "    while time.monotonic() < begun + 40:\n"
        "        try: time.sleep(1)\n"
        "        except: pass\n"
    )
    if what == "weights that are loaded":
        before = f"{slow}capscore.backbones.loading.load_backbone = slow"
    else:
        (tmp_path / "slow").mkdir()
        (tmp_path / "slow" / "slow_library.py").write_text(f"import time\n{slow}slow()\n")
        place = str(tmp_path / "slow")
        before = (
            f"sys.path.insert(0, {place!r})\n"
            "class Finder:\n"
            "    def find_spec(self, name, *_):\n"
            "        if name == 'capscore.cli.app': sys.meta_path.remove(self); import slow_library\n"
            "sys.meta_path.insert(0, Finder()); sys.modules.pop('capscore.cli.app', None)"
        )
    process = begin("score", captions(tmp_path), "-o", tmp_path / "o.jsonl", before=before)
    wait_for(flag, process)
    process.send_signal(number)
    out, err = process.communicate(20)
    assert (process.returncode, out, err) == (code, "", "capscore: interrupted\n")
    assert not (tmp_path / "o.jsonl").exists()


RUNS = {
    "explain": ["explain", "cat.png", "a red cat", "--backbone", "x"],
    "robustness": ["robustness", "--captions", "rows.jsonl", "--metric", "mcs@x", "--languages", "en"],
}


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("run", RUNS)
def test_other_commands_are_ended_too(tmp_path, run, number, code):
    flag = tmp_path / "flag"
    captions(tmp_path)
    before = (
        f"def slow(*_, **__):\n    open({str(flag)!r}, 'w').close(); time.sleep(40)\n"
        "capscore.backbones.loading.load_backbone = capscore.backbones.loading.load_backbone = slow"
    )
    process = begin(*RUNS[run], before=before, cwd=tmp_path)
    wait_for(flag, process)
    process.send_signal(number)
    out, err = process.communicate(20)
    assert (process.returncode, err) == (code, "capscore: interrupted\n"), out


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
        ("capscore perturb /dev/zero -k jumble", "/dev/zero is a device; expected a file, a pipe, or -"),
        ("capscore perturb . -k jumble", "is a folder"),
        ("capscore perturb here -k jumble", "here is a socket; expected a file, a pipe, or -"),
        ("capscore perturb - -k jumble < /dev/null", "- is empty (0 bytes)"),
        ("capscore perturb - -k jumble <&-", "is standard input, and nothing is piped into it"),
        ("printf 'a,b' | capscore perturb - -k jumble", "- is a file of an unknown kind"),
        ("capscore perturb rows.jsonl -k jumble -o /dev/full", "exists and is not"),
        ("capscore perturb rows.jsonl -k jumble -o here.jsonl --force", "exists and is not a regular file"),
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
