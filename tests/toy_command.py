"""The command `capscore` on the toy backbone, as a program for a process of its own; three photos for it."""

from tools.tiny.colours import BLUE, GREEN, RED

from .photos import encode
from .processes import ROOT

WAIT_S = 300
COLOURS = {"red": RED, "green": GREEN, "blue": BLUE}
_PROGRAM = """
import ctypes, os, signal, sys, time
sys.path.insert(0, {root!r})
from tools.tiny.colours import ColourBackbone
import capscore.backbones, capscore.files.row_source, capscore.scoring.files
capscore.files.row_source.CHUNK_ROWS = capscore.scoring.files.CHUNK_ROWS = 4
class Toy(ColourBackbone):
    turns = 0
    def encode_tokens(self, ids):
        Toy.turns += 1
        {during}
        return super().encode_tokens(ids)
capscore.backbones.load_backbone = lambda name, **options: Toy()
{before}
from capscore.cli import main
sys.argv = ["capscore", *sys.argv[1:]]
main()
"""


def program(*, during="pass", before=""):
    """The program in chunks of 4 rows: `before` runs first, `during` at the `Toy.turns`th batch of texts."""
    return _PROGRAM.format(root=str(ROOT), during=during, before=before)


def end(process):
    """Exit code and standard error; no process may hang or leave a traceback."""
    try:
        _, errors = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
    assert "Traceback" not in errors, errors
    return process.returncode, errors


def write_photos(folder):
    for name, pixels in COLOURS.items():
        (folder / f"{name}.png").write_bytes(encode(pixels))
    return [f"{name}.png" for name in COLOURS]
