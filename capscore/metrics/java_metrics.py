"""METEOR (Denkowski and Lavie 2014) and SPICE (Anderson et al. 2016), computed by the authors' Java programs.

In: English captions, each with a list of references. Out: one score per row in [0, 1], and their mean. The
programs are in the PyPI package pycocoevalcap.
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
from typing import IO, Any, ClassVar

import numpy as np

from ..errors import CapscoreError, MissingExtraError
from .reference_scorer import Compared, ReferenceScorer, Texts

_SPICE_MODELS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
_DOWNLOAD = "from pycocoevalcap.spice.get_stanford_models import get_stanford_models as g; g()"


def meteor(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """METEOR 1.5 (Denkowski and Lavie 2014), English, of each row separately.

    Words match exactly, by stem, by WordNet synonym or by paraphrase; the score of a row is that of its best
    reference. METEOR tokenises and lower-cases its input. For the numbers of coco-caption, pass tokens of the
    Penn Treebank tokeniser joined by spaces, without punctuation. "|||" and every run of white space become
    one space. The program takes some ten seconds to start.

    Args:
        candidates: n captions.
        references: n lists of at least one reference.

    Returns:
        float64 (n,), 0 to 1. A caption without words scores 0. The METEOR of a corpus, which captioning
        tables print, is not their mean: see `meteor_of_rows`.

    Raises:
        MissingExtraError: pycocoevalcap, which contains the program, is not installed.
        CapscoreError: there is no Java, or the program failed; quotes its output.

    >>> meteor(["a red kite"], [["a red kite flies", "one kite"]]).round(4).tolist()    # doctest: +SKIP
    [0.3799]
    """
    return meteor_of_rows(candidates, references, range(len(candidates)))[0]


def meteor_of_rows(
    candidates: Sequence[str], references: Sequence[Sequence[str]], of_row: Sequence[int]
) -> tuple[np.ndarray, list[float]]:
    """`meteor` of each candidate, and [METEOR of a corpus] whose rows have the candidates `of_row`."""
    folder, java = _program("METEOR", "meteor", "meteor-1.5.jar"), _java("METEOR")
    if not len(candidates):
        return np.zeros(0), [math.nan]
    options = ("-", "-", "-stdio", "-l", "en", "-norm")  # coco-caption's
    with (
        tempfile.TemporaryFile() as errors,  # a pipe that nobody reads would fill up and block the process
        subprocess.Popen(
            [java, "-Dfile.encoding=UTF-8", "-Xmx2G", "-jar", str(folder / "meteor-1.5.jar"), *options],
            cwd=folder,  # METEOR looks for its paraphrases there
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
            errors="replace",
        ) as process,
    ):
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None and stdout is not None  # they are pipes

        def ask(line: str = "") -> str:
            """Send a line, if there is one, and return the next line of the answer."""
            if line:
                print(line, file=stdin, flush=True)
            answer = stdout.readline()
            if not answer:
                raise BrokenPipeError
            return answer.strip()

        def number(answer: str, of: str) -> float:
            if not re.fullmatch(r"\d+(\.\d+)?(E-?\d+)?", answer):
                raise CapscoreError(f"METEOR answered {answer!r}, for {of}")
            return float(answer)

        scores, counts = [], []
        try:
            for candidate, texts in zip(candidates, references, strict=True):
                counts.append(ask(" ||| ".join(["SCORE", *map(_one_line, texts), _one_line(candidate)])))
                scores.append(number(ask(f"EVAL ||| {counts[-1]}"), repr(candidate)))
                ask()  # the score over all counts of the line, of which there is one
            ask(" ||| ".join(["EVAL", *(counts[index] for index in of_row)]))
            for _ in of_row:
                answer = ask()
            corpus = number(answer, "all rows")
        except BrokenPipeError:
            raise _failed("METEOR", process.wait(), errors) from None
        finally:
            process.kill()
            with suppress(OSError):  # text that was not sent
                stdin.close()
    return np.array(scores), [corpus]


def spice(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """SPICE (Anderson et al. 2016), English: F1 of the scene graphs of a candidate and its references.

    Parsing the captions takes up to 8 GB of memory. The program needs Java 8 to 14, because it writes its
    results with the JavaScript that Java 15 removed. The parser's models are not part of pycocoevalcap, which
    can download them; nothing is downloaded here. Arguments, results and errors are those of `meteor`.

    >>> spice(["a red kite"], [["a red kite flies", "one kite"]]).tolist()    # doctest: +SKIP
    """
    folder, java = _program("SPICE", "spice", "spice-1.0.jar"), _java("SPICE")
    missing = [name for name in _SPICE_MODELS if not (folder / "lib" / name).is_file()]
    if missing:
        raise CapscoreError(
            f"SPICE needs Stanford CoreNLP 3.6.0 in {folder / 'lib'}; not there: {', '.join(missing)}. "
            f'pycocoevalcap downloads both (some 400 MB): python -c "{_DOWNLOAD}"'
        )
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)  # "1.8.0_402" is Java 8
    if version is None or int(version[1]) > 14:
        is_there = f"Java {version[1]}" if version else said.strip()
        raise CapscoreError(
            f"SPICE needs Java 8 to 14, and {java} is {is_there}: SPICE writes its results with the "
            "JavaScript that Java 15 removed. Put an older java first on PATH"
        )
    if not len(candidates):
        return np.zeros(0)
    rows = enumerate(zip(candidates, references, strict=True))
    items = [
        {"image_id": row, "test": _one_line(candidate), "refs": [*map(_one_line, texts)]}
        for row, (candidate, texts) in rows
    ]
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as errors:
        given, made = Path(scratch) / "rows.json", Path(scratch) / "scores.json"
        given.write_text(json.dumps(items))
        # no cache, because its native library does not exist for every machine
        command = [java, "-Xmx8G", "-jar", str(folder / "spice-1.0.jar"), str(given), "-out", str(made)]
        done = subprocess.run(
            [*command, "-silent"], cwd=scratch, stdout=subprocess.DEVNULL, stderr=errors, check=False
        )
        if done.returncode or not made.is_file():
            raise _failed("SPICE", done.returncode, errors)
        scores = {item["image_id"]: item["scores"]["All"]["f"] for item in json.loads(made.read_text())}
    if sorted(scores) != list(range(len(items))) or None in scores.values():
        raise CapscoreError(f"SPICE gave scores for {len(scores)} of {len(items)} rows, or none for some")
    return np.array([scores[row] for row in range(len(items))], dtype=np.float64)


def _one_line(text: str) -> str:
    return " ".join(text.replace("|||", " ").split())


def _program(metric: str, part: str, jar: str) -> Path:
    """The folder of pycocoevalcap that contains a program."""
    try:
        # it has no __init__.py, so any folder of that name counts as a part of it
        homes = importlib.import_module("pycocoevalcap").__path__
    except ImportError:
        homes = []
    for home in homes:
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


def _failed(metric: str, status: int, errors: IO[bytes]) -> CapscoreError:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    said = " / ".join(lines[-3:]) or "nothing"
    return CapscoreError(f"{metric}'s Java program ended with status {status}; its last output: {said}")


class JavaScorer(ReferenceScorer):
    """Scores English captions with a Java program; making the scorer checks that the program is available.

    As in coco-caption, the program gets the words that the other metrics count: in lower case, without
    punctuation.

    Raises:
        MissingExtraError: the package that contains the program is not installed.
        CapscoreError: there is no Java, or only an unsuitable one, or models are missing.
    """

    program: ClassVar[Any]  # candidates, references, `of_row` → scores, `corpus_names`
    program_version: ClassVar[str]

    def __init__(self, **common: Any) -> None:
        super().__init__(**common)
        type(self).program([], [], [])

    @classmethod
    def what_is_missing(cls) -> str:
        try:
            cls.program([], [], [])
        except CapscoreError as error:
            return str(error)
        return ""

    def language_problem(self, code: str) -> str:
        if code not in ("", "en"):
            return f"{self.metric} scores English captions only, but the given language is {code!r}"
        return super().language_problem(code)

    def compare(self, texts: Texts) -> Compared:
        settings: dict[str, object] = {"program": self.program_version, "segmenter": texts.segmenters}
        if not texts.candidates:
            return Compared(np.zeros(0), settings, corpus=dict.fromkeys(self.corpus_names, math.nan))
        rows, pairs = texts.tokens, texts.tokens.pairs
        words = [" ".join(tokens) for tokens in rows.tokens]
        lists = np.split(pairs.references, np.cumsum(pairs.sizes)[:-1])
        references = [[words[text] for text in listed] for listed in lists]
        captions = [words[text] for text in pairs.candidates]
        scores, corpus = type(self).program(captions, references, pairs.of_row)
        return Compared(
            scores[pairs.of_row], settings, corpus=dict(zip(self.corpus_names, corpus, strict=True))
        )


class METEOR(JavaScorer):
    """METEOR 1.5: words match exactly, by stem, by synonym or by paraphrase.

    The METEOR of a corpus, which captioning tables print, is not the mean over its rows. `Scores.corpus` and
    the summary hold it as "corpus_meteor".
    """

    metric = "meteor"
    title = "METEOR"
    citation = ("denkowski-lavie-2014-meteor",)
    score_range = (0, 1)
    corpus_names = ("corpus_meteor",)
    program = staticmethod(meteor_of_rows)
    program_version = "1.5"


class SPICE(JavaScorer):
    """SPICE 1.0: objects, attributes and relations that candidate and references have in common."""

    metric = "spice"
    title = "SPICE"
    citation = ("anderson-etal-2016-spice",)
    score_range = (0, 1)
    program = staticmethod(lambda candidates, references, of_row: (spice(candidates, references), []))
    program_version = "1.0"
