"""COMET in another environment: the path of its Python and pairs of texts in, estimates of quality out."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import BackboneUnavailable, CapscoreError, InputError, Setting
from . import comet_worker

# they are of this Python, and would give the other one its packages
_OWN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


class CometProcess:
    """A COMET model that runs under another Python, until this object or this process ends.

    Args:
        python: Path of the Python of an environment with unbabel-comet.
        model: As of `comet_worker.load_model`.
        batch_size: Number of pairs per batch.
        gpus: Number of GPUs, 0 or 1.

    Attributes:
        references: Whether the model compares with references.

    Raises:
        InputError: There is no such Python, or it has no unbabel-comet.
        BackboneUnavailable: The model cannot be loaded; says why.
    """

    def __init__(self, python: str | Path, model: str, *, batch_size: int, gpus: int):
        self.python = os.path.abspath(os.path.expanduser(python))
        self._said = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                [self.python, comet_worker.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env={name: value for name, value in os.environ.items() if name not in _OWN},
                start_new_session=True,  # Ctrl-C ends this process, and that one with it
            )
        except OSError as error:
            raise InputError(
                Setting("quality_python", str(python)),
                f": expected the Python of an environment with unbabel-comet ({error.strerror or error})",
            ) from None
        self._finalizer = weakref.finalize(self, _end, self._process)
        given = Path(model).expanduser()
        found = self._ask(
            model=str(given.absolute()) if given.exists() else model, batch_size=batch_size, gpus=gpus
        )
        if found.get("kind") == "missing":
            raise InputError(
                Setting("quality_python", str(python)),
                f" has no package unbabel-comet ({found['error']}): install it with `{python} -m pip install "
                "unbabel-comet`",
            )
        if "error" in found:
            raise BackboneUnavailable(found["error"])
        self.references: bool = found["references"]

    def estimate(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Estimates for pairs of a source and its translation.

        Raises:
            CapscoreError: The model failed, or its process ended; says what it last said.
        """
        found = self._ask(pairs=pairs)
        if "error" in found:
            raise CapscoreError(f"COMET under {self.python} failed: {found['error']}")
        if len(found["scores"]) != len(pairs):
            raise CapscoreError(
                f"COMET under {self.python} gave {len(found['scores'])} estimates for {len(pairs)} pairs"
            )
        return found["scores"]

    def _ask(self, **content: Any) -> dict[str, Any]:
        """The answer to a line."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None and answers is not None
        try:
            asked.write(json.dumps(content).encode() + b"\n")
            asked.flush()
            line = answers.readline()
            return json.loads(line)
        except (BrokenPipeError, ValueError):
            code = self._process.wait()
            self._said.seek(0)
            last = self._said.read().decode(errors="replace").strip().splitlines()[-3:]
            raise CapscoreError(
                f"COMET under {self.python} ended with exit code {code}"
                f"{': ' + ' '.join(last)[-500:] if last else ', and said nothing'}"
            ) from None


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:
                pass  # it had ended, with a line unread
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
