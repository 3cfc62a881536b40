"""SPICE (Anderson et al. 2016), computed by the authors' Java program.

In: English captions, each with a list of references. Out: one score per row in [0, 1], and their mean. The
program is in the PyPI package pycocoevalcap.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CapscoreError, MissingExtraError
from ..files.scratch import process_folder
from .with_references import Compared, ReferenceScorer, Texts

_SPICE_MODELS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
_DOWNLOAD = "from pycocoevalcap.spice.get_stanford_models import get_stanford_models as g; g()"


def spice(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """SPICE (Anderson et al. 2016), English: F1 of the scene graphs of a candidate and its references.

    Parsing the captions takes up to 8 GB of memory. The program needs Java 8 to 14, because it writes its
    results with the JavaScript that Java 15 removed. The parser's models are not part of pycocoevalcap, which
    can download them; nothing is downloaded here.

    Args:
        candidates: n captions.
        references: n lists of at least one reference.

    Returns:
        float64 (n,), 0 to 1.

    Raises:
        MissingExtraError: pycocoevalcap, which contains the program, is not installed.
        CapscoreError: there is no Java, or an unsuitable one, or models are missing, or the program failed.

    >>> spice(["a red kite"], [["a red kite flies", "one kite"]]).tolist()    # doctest: +SKIP
    """
    folder, java = program_folder("spice", "spice-1.0.jar", "java", "SPICE"), _java()
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
    with tempfile.TemporaryDirectory(dir=process_folder()) as scratch, tempfile.TemporaryFile() as errors:
        given, made = Path(scratch) / "rows.json", Path(scratch) / "scores.json"
        given.write_text(json.dumps(items))
        # no cache, because its native library does not exist for every machine
        command = [java, "-Xmx8G", "-jar", str(folder / "spice-1.0.jar"), str(given), "-out", str(made)]
        done = subprocess.run(
            [*command, "-silent"], cwd=scratch, stdout=subprocess.DEVNULL, stderr=errors, check=False
        )
        if done.returncode or not made.is_file():
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            said = f"its last output: {' / '.join(lines[-3:]) or 'nothing'}"
            raise CapscoreError(f"SPICE's Java program ended with status {done.returncode}; {said}")
        scores = {item["image_id"]: item["scores"]["All"]["f"] for item in json.loads(made.read_text())}
    if sorted(scores) != list(range(len(items))) or None in scores.values():
        raise CapscoreError(f"SPICE gave scores for {len(scores)} of {len(items)} rows, or none for some")
    return np.array([scores[row] for row in range(len(items))], dtype=np.float64)


def _one_line(text: str) -> str:
    return " ".join(text.replace("|||", " ").split())


def program_folder(part: str, jar: str, extra: str, metric: str) -> Path:
    """The folder `part` of pycocoevalcap, which holds a program; MissingExtraError if it is not installed."""
    try:
        # it has no __init__.py, so any folder of that name counts as a part of it
        homes = importlib.import_module("pycocoevalcap").__path__
    except ImportError:
        homes = []
    for home in homes:
        if (Path(home) / part / jar).is_file():
            return Path(home) / part
    raise MissingExtraError("pycocoevalcap", extra, metric)


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        raise CapscoreError(
            "SPICE needs Java, and there is no program 'java' on PATH; a Java runtime comes with, for "
            "example, 'apt-get install default-jre-headless' or 'conda install openjdk'"
        )
    return java


class SPICE(ReferenceScorer):
    """SPICE 1.0: objects, attributes and relations that candidate and references have in common.

    As in coco-caption, the Java program gets the words that the other metrics count: in lower case, without
    punctuation. It reads English only. Making the scorer checks that the program is available.

    Raises:
        MissingExtraError: the package that contains the program is not installed.
        CapscoreError: there is no Java, or only an unsuitable one, or models are missing.
    """

    metric = "spice"
    title = "SPICE"
    citation = ("anderson-etal-2016-spice",)
    score_range = (0, 1)
    program = staticmethod(spice)

    def __init__(self, **common: Any) -> None:
        super().__init__(**common)
        type(self).program([], [])

    @classmethod
    def what_is_missing(cls) -> str:
        try:
            cls.program([], [])
        except CapscoreError as error:
            return str(error)
        return ""

    def language_problem(self, code: str) -> str:
        if code not in ("", "en"):
            return f"{self.metric} scores English captions only, but the given language is {code!r}"
        return super().language_problem(code)

    def compare(self, texts: Texts) -> Compared:
        settings: dict[str, object] = {"program": "1.0", "segmenter": texts.segmenters}
        if not texts.candidates:
            return Compared(np.zeros(0), settings)
        captions, references, of_row = texts.distinct_rows()
        return Compared(type(self).program(captions, references)[of_row], settings)
