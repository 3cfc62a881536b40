"""METEOR and SPICE: the authors' Java programs as the PyPI package pycocoevalcap carries them, run from here.

In: English captions and lists of references. Out: one score a row, 0 to 1.
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
from .ngrams import check_texts

_METEOR_OPTIONS = ("-", "-", "-stdio", "-l", "en", "-norm")  # coco-caption's
_SPICE_MODELS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
_DOWNLOAD = "from pycocoevalcap.spice.get_stanford_models import get_stanford_models as g; g()"
_LAST_WITH_JAVASCRIPT = 14  # Java's own; JDK Enhancement Proposal 372 removed it


def meteor(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """METEOR 1.5 (Denkowski and Lavie 2014), English, of each row by itself.

    Words match as they are, by stem, by WordNet synonym or by paraphrase; a row's score is its best
    reference's. METEOR tokenises and lower-cases by itself. coco-caption gives it tokens of the Penn Treebank
    tokeniser joined by blanks, without punctuation; for its numbers hand over the same. Each distinct row is
    scored once; the program takes some ten seconds to start.

    METEOR reads a line a row and splits it at "|||": that, and every run of white space, becomes one blank.

    Args:
        candidates: n captions.
        references: n lists of at least one reference.

    Returns:
        float64 (n,), 0 to 1. A caption without words scores 0. The METEOR of a whole corpus, as captioning
        tables print it, is not their mean.

    Raises:
        InputError: a row lacks references, or something in it is not a text.
        MissingExtraError: pycocoevalcap, which carries the program, is not installed.
        CapscoreError: there is no Java, or the program failed; says what it wrote.

    >>> meteor(["a red kite"], [["a red kite flies", "one kite"]]).round(4).tolist()    # doctest: +SKIP
    [0.3799]
    """
    check_texts(candidates, references)
    folder, java = _program("METEOR", "meteor", "meteor-1.5.jar"), _java("METEOR")
    rows, row_of = _distinct(candidates, references)
    scores = np.zeros(len(rows))
    if rows:
        with _Meteor(java, folder) as program:
            for number, (candidate, texts) in enumerate(rows):
                scores[number] = program.score(candidate, texts)
    return scores[row_of]


def spice(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """SPICE (Anderson et al. 2016), English: F1 of what a candidate and its references say in scene graphs.

    Every caption is parsed, with up to 8 GB of memory. Each distinct row is scored once. Every run of white
    space becomes one blank, and so does "|||".

    The program needs Java 8 to 14: it writes its results with the JavaScript that Java 15 dropped. Its
    parser's models are not part of pycocoevalcap, which downloads them where asked to; nothing is downloaded
    here.

    Args:
        candidates: n captions.
        references: n lists of at least one reference.

    Returns:
        float64 (n,), 0 to 1. A row with nothing to compare scores 0.

    Raises:
        InputError: a row lacks references, or something in it is not a text.
        MissingExtraError: pycocoevalcap, which carries the program, is not installed.
        CapscoreError: there is no Java or too new a one, the models are missing, or the program failed.

    >>> spice(["a red kite"], [["a red kite flies", "one kite"]]).tolist()    # doctest: +SKIP
    """
    check_texts(candidates, references)
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
            "results with the JavaScript that Java 15 dropped. Put an older java first on PATH"
        )
    rows, row_of = _distinct(candidates, references)
    return (_spice(java, folder, rows) if rows else np.zeros(0))[row_of]


def _distinct(
    candidates: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[list[tuple[str, tuple[str, ...]]], np.ndarray]:
    """Rows as lines can hold them, each once; and which of them each row is."""
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


# -------------------------------------------------------------------------- what they run on


def _program(metric: str, part: str, jar: str) -> Path:
    """The folder of pycocoevalcap that a program lies in."""
    try:
        package = importlib.import_module("pycocoevalcap")
    except ImportError:
        raise MissingExtraError("pycocoevalcap", "java", metric) from None
    # it has no __init__.py: any folder of that name counts as a part of it
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
        raise CapscoreError(f"{java} does not say its version, but {said.strip()!r}")
    return int(found[1])


def _last_lines(errors: IO[bytes]) -> str:
    """The end of what a program complained of."""
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return " / ".join(lines[-3:]) or "nothing"


class _Meteor:
    """METEOR as a process that answers a line with a line; ended with the block, whatever happens in it."""

    def __init__(self, java: str, folder: Path):
        self._errors = tempfile.TemporaryFile()  # a pipe that nobody empties would stop it
        self._process = subprocess.Popen(
            [
                java,
                "-Dfile.encoding=UTF-8",
                "-Xmx2G",
                "-jar",
                str(folder / "meteor-1.5.jar"),
                *_METEOR_OPTIONS,
            ],
            cwd=folder,  # it looks for its paraphrases beside itself
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            errors="replace",
        )

    def __enter__(self) -> _Meteor:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            with suppress(OSError):  # what was not yet sent when it died
                pipe.close()

    def score(self, candidate: str, references: Sequence[str]) -> float:
        """One row's score: METEOR first counts, then weighs the counts."""
        counts = self._ask(" ||| ".join(["SCORE", *references, candidate]))
        score = self._ask(f"EVAL ||| {counts}")
        self._answer()  # the same over all counts of the line, of which there is one
        with suppress(ValueError):
            if math.isfinite(value := float(score)):
                return value
        raise CapscoreError(f"METEOR answered {score!r} for {candidate!r}; expected a number")

    def _ask(self, line: str) -> str:
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except OSError:
            raise self._died() from None
        return self._answer()

    def _answer(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            raise self._died()
        if line.startswith("Error"):
            raise CapscoreError(f"METEOR answered {line.strip()!r}")
        return line.strip()

    def _died(self) -> CapscoreError:
        status, said = self._process.wait(), _last_lines(self._errors)
        return CapscoreError(f"METEOR's Java program ended with status {status}; the last it wrote: {said}")


def _spice(java: str, folder: Path, rows: Sequence[tuple[str, tuple[str, ...]]]) -> np.ndarray:
    """Rows → SPICE, all in one run of the program."""
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
        # No cache: its native library does not exist for every machine.
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
                f"SPICE's Java program ended with status {status}; the last it wrote: {_last_lines(errors)}"
            )
        scores = {item["image_id"]: item["scores"]["All"]["f"] for item in json.loads(made.read_text())}
    if sorted(scores) != list(range(len(rows))) or None in scores.values():
        raise CapscoreError(f"SPICE gave scores for {len(scores)} of {len(rows)} rows, or none for some")
    return np.array([scores[number] for number in range(len(rows))], dtype=np.float64)
