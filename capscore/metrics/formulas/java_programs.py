"""METEOR and SPICE, computed by the authors' Java programs from the PyPI package pycocoevalcap.

In: English captions and lists of references. Out: one score per row, 0 to 1.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np

from ...errors import CapscoreError, MissingExtraError

_METEOR_OPTIONS = ("-", "-", "-stdio", "-l", "en", "-norm")  # coco-caption's
_SPICE_MODELS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
_DOWNLOAD = "from pycocoevalcap.spice.get_stanford_models import get_stanford_models as g; g()"
_LAST_WITH_JAVASCRIPT = 14  # Java's own; JDK Enhancement Proposal 372 removed it


def meteor(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """METEOR 1.5 (Denkowski and Lavie 2014), English, of each row separately.

    Words match exactly, by stem, by WordNet synonym or by paraphrase; the score of a row is that of its best
    reference. METEOR tokenises and lower-cases its input. For the numbers of coco-caption, pass tokens of the
    Penn Treebank tokeniser joined by spaces, without punctuation. Each distinct row is scored once. The
    program takes some ten seconds to start.

    METEOR reads one line per row and splits it at "|||"; that and every run of white space become one space.

    Args:
        candidates: n captions.
        references: n lists of at least one reference.

    Returns:
        float64 (n,), 0 to 1. A caption without words scores 0. The METEOR of a corpus, which captioning
        tables print, is not their mean.

    Raises:
        MissingExtraError: pycocoevalcap, which contains the program, is not installed.
        CapscoreError: there is no Java, or the program failed; quotes its output.

    >>> meteor(["a red kite"], [["a red kite flies", "one kite"]]).round(4).tolist()    # doctest: +SKIP
    [0.3799]
    """
    folder, java = _program("METEOR", "meteor", "meteor-1.5.jar"), _java("METEOR")
    rows, row_of = _distinct(candidates, references)
    scores = np.zeros(len(rows))
    if rows:
        with _Meteor(java, folder) as program:
            for number, (candidate, texts) in enumerate(rows):
                scores[number] = program.score(candidate, texts)
    return scores[row_of]


def spice(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """SPICE (Anderson et al. 2016), English: F1 of the scene graphs of a candidate and its references.

    Parsing the captions takes up to 8 GB of memory. Each distinct row is scored once. Every run of white
    space becomes one space, and so does "|||".

    The program needs Java 8 to 14, because it writes its results with the JavaScript that Java 15 removed.
    The parser's models are not part of pycocoevalcap, which can download them; nothing is downloaded here.

    Args:
        candidates: n captions.
        references: n lists of at least one reference.

    Returns:
        float64 (n,), 0 to 1. A row without anything to compare scores 0.

    Raises:
        MissingExtraError: pycocoevalcap, which contains the program, is not installed.
        CapscoreError: there is no Java, Java is too new, the models are missing, or the program failed.

    >>> spice(["a red kite"], [["a red kite flies", "one kite"]]).tolist()    # doctest: +SKIP
    """
    folder = _program("SPICE", "spice", "spice-1.0.jar")
    java = _java("SPICE")
    missing = [name for name in _SPICE_MODELS if not (folder / "lib" / name).is_file()]
    if missing:
        raise CapscoreError(
            f"SPICE needs Stanford CoreNLP 3.6.0 in {folder / 'lib'}, and {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not there. pycocoevalcap downloads both (some 400 MB): "
            f'python -c "{_DOWNLOAD}"'
        )
    version = _java_version(java)
    if version > _LAST_WITH_JAVASCRIPT:
        raise CapscoreError(
            f"SPICE needs Java 8 to {_LAST_WITH_JAVASCRIPT}, and {java} is Java {version}: SPICE writes its "
            "results with the JavaScript that Java 15 removed. Put an older java first on PATH"
        )
    rows, row_of = _distinct(candidates, references)
    return (_spice(java, folder, rows) if rows else np.zeros(0))[row_of]


def _distinct(
    candidates: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[list[tuple[str, tuple[str, ...]]], np.ndarray]:
    """Distinct rows, as texts without line breaks, and the place of each row among them."""
    lines: dict[str, str] = {}
    for text in (*candidates, *(text for texts in references for text in texts)):
        if text not in lines:
            lines[text] = " ".join(text.replace("|||", " ").split())
    index: dict[tuple[str, tuple[str, ...]], int] = {}
    row_of = [
        index.setdefault((lines[candidate], tuple(lines[text] for text in texts)), len(index))
        for candidate, texts in zip(candidates, references, strict=True)
    ]
    return list(index), np.array(row_of, dtype=np.int64)


# -------------------------------------------------------------------------- programs and Java


def _program(metric: str, part: str, jar: str) -> Path:
    """The folder of pycocoevalcap that contains a program."""
    try:
        package = importlib.import_module("pycocoevalcap")
    except ImportError:
        raise MissingExtraError("pycocoevalcap", "java", metric) from None
    # it has no __init__.py, so any folder of that name counts as a part of it
    for home in package.__path__:
        if (Path(home) / part / jar).is_file():
            return Path(home) / part
    raise MissingExtraError("pycocoevalcap", "java", metric)


def _java(metric: str) -> str:
    java = shutil.which("java")
    if java is None:
        raise CapscoreError(
            f"{metric} needs Java, and there is no program 'java' on PATH; a Java runtime comes with, for "
            "example, 'apt-get install default-jre-headless' or 'conda install openjdk'"
        )
    return java


def _java_version(java: str) -> int:
    """Java's major version: 8 for "1.8.0_402", 17 for "17.0.15"."""
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None:
        raise CapscoreError(f"{java} does not say its version; it says {said.strip()!r}")
    return int(found[1])


def _last_lines(errors: IO[bytes]) -> str:
    """The last lines of a program's error output."""
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return " / ".join(lines[-3:]) or "nothing"


class _Meteor:
    """METEOR as a process that answers each line with a line; ends with the `with` block."""

    def __init__(self, java: str, folder: Path):
        self._errors = (
            tempfile.TemporaryFile()
        )  # an error pipe that nobody reads would fill up and block the process
        self._process = subprocess.Popen(
            [
                java,
                "-Dfile.encoding=UTF-8",
                "-Xmx2G",
                "-jar",
                str(folder / "meteor-1.5.jar"),
                *_METEOR_OPTIONS,
            ],
            cwd=folder,  # METEOR looks for its paraphrases there
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            errors="replace",
        )

        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None  # they are pipes
        self._stdin, self._stdout = stdin, stdout

    def __enter__(self) -> _Meteor:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._stdin, self._stdout, self._errors):
            with suppress(OSError):  # unsent text of a process that died
                pipe.close()

    def score(self, candidate: str, references: Sequence[str]) -> float:
        """The score of one row: METEOR first counts matches, then turns the counts into a score."""
        counts = self._ask(" ||| ".join(["SCORE", *references, candidate]))
        score = self._ask(f"EVAL ||| {counts}")
        self._answer()  # the score over all counts of the line, of which there is one
        with suppress(ValueError):
            if math.isfinite(value := float(score)):
                return value
        raise CapscoreError(f"METEOR answered {score!r} for {candidate!r}; expected a number")

    def _ask(self, line: str) -> str:
        try:
            self._stdin.write(f"{line}\n")
            self._stdin.flush()
        except OSError:
            raise self._died() from None
        return self._answer()

    def _answer(self) -> str:
        line = self._stdout.readline()
        if not line:
            raise self._died()
        if line.startswith("Error"):
            raise CapscoreError(f"METEOR answered {line.strip()!r}")
        return line.strip()

    def _died(self) -> CapscoreError:
        status, said = self._process.wait(), _last_lines(self._errors)
        return CapscoreError(f"METEOR's Java program ended with status {status}; its last output: {said}")


def _spice(java: str, folder: Path, rows: Sequence[tuple[str, tuple[str, ...]]]) -> np.ndarray:
    """SPICE of all rows, in one run of the program."""
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile() as errors:
        given, made = Path(place) / "rows.json", Path(place) / "scores.json"
        given.write_text(
            json.dumps(
                [
                    {"image_id": number, "test": candidate, "refs": texts}
                    for number, (candidate, texts) in enumerate(rows)
                ]
            )
        )
        # no cache, because its native library does not exist for every machine
        command = [
            java,
            "-Xmx8G",
            "-jar",
            str(folder / "spice-1.0.jar"),
            str(given),
            "-out",
            str(made),
            "-silent",
        ]
        status = subprocess.run(
            command, cwd=place, stdout=subprocess.DEVNULL, stderr=errors, check=False
        ).returncode
        if status or not made.is_file():
            raise CapscoreError(
                f"SPICE's Java program ended with status {status}; its last output: {_last_lines(errors)}"
            )
        scores = {item["image_id"]: item["scores"]["All"]["f"] for item in json.loads(made.read_text())}
    if sorted(scores) != list(range(len(rows))) or None in scores.values():
        raise CapscoreError(f"SPICE gave scores for {len(scores)} of {len(rows)} rows, or none for some")
    return np.array([scores[number] for number in range(len(rows))], dtype=np.float64)
