"""The command `capscore` on the toy backbone, as a program for a process of its own; three photos for it."""

from __future__ import annotations

from pathlib import Path

from .photos import encode
from .processes import ROOT, Process
from .toy import BLUE, GREEN, RED

WAIT_S = 120
COLOURS = {"red": RED, "green": GREEN, "blue": BLUE}
_PROGRAM = """
import ctypes, os, signal, sys, time
sys.path.insert(0, {root!r})
from tests.toy import ColourBackbone
import capscore.backbones.loading, capscore.metrics.score_file
capscore.metrics.score_file.CHUNK_ROWS = {chunk_rows}
class Toy(ColourBackbone):
    def encode_tokens(self, ids):
        time.sleep({seconds})
        return super().encode_tokens(ids)
capscore.backbones.loading.load_backbone = lambda name, **options: Toy()
{before}
from capscore.cli import main
sys.argv = ["capscore", *sys.argv[1:]]
main()
"""


def program(*, chunk_rows: int, seconds: float = 0, before: str = "") -> str:
    """The program: chunks of so many rows, seconds of sleep per batch of texts, and code that runs before."""
    return _PROGRAM.format(root=str(ROOT), chunk_rows=chunk_rows, seconds=seconds, before=before)


def end(process: Process) -> tuple[int, str]:
    """Exit code and standard error; no process may hang or leave a traceback."""
    try:
        _, errors = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
    assert "Traceback" not in errors, errors
    return process.returncode, errors


def write_photos(folder: Path) -> list[str]:
    """A photo of each colour; their names."""
    for name, pixels in COLOURS.items():
        (folder / f"{name}.png").write_bytes(encode(pixels))
    return [f"{name}.png" for name in COLOURS]
