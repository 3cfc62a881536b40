"""Rows of many languages in one file: nothing is lost, and each row scores as it does alone."""

import csv
import json
from functools import cache

import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.backbones import load_backbone
from tools.tiny.colours import JudgingColours

from ..cli.conftest import rows_of, run, write_jsonl

# left to right and right to left, with and without spaces, unknown to the backbone, not stated
ROWS = [
    ("a red dog runs on the beach", "en", ["a dog runs on a beach", "a red dog"]),
    ("ein Hund rennt über die Wiese", "de-AT", ["ein brauner Hund läuft über die Wiese"]),
    ("pes běží po pláži", "cs", ["hnědý pes běží po písku"]),
    ("公園で二人の子供が遊んでいる", "ja", ["子供たちが公園で遊んでいます"]),
    ("一只狗在草地上奔跑", "zh", ["一只棕色的狗在草地上跑"]),
    ("สุนัขวิ่งบนชายหาด", "th", ["สุนัขสีน้ำตาลวิ่งบนหาด"]),
    ("كلب يركض على الشاطئ", "ar", ["كلب بني يركض على الرمال"]),
    ("כלב רץ על החוף", "he", ["כלב חום רץ בחול"]),
    ("mbwa anakimbia ufukweni", "sw", ["mbwa wa kahawia anakimbia"]),
    ("a blue bus in the street", None, ["a bus in the street"]),
    ("собака бежит по пляжу", "", ["коричневая собака бежит по песку"]),
    ("two people sit on a bench", "en", ["a man and a woman sit on a bench"]),
]
CODES = ["en", "de", "cs", "ja", "zh", "th", "ar", "he", "sw", "", "", "en"]
METRICS = ["mcs", "pr_mcs", "bleu", "rouge_l"]


@cache
def towers():
    return load_backbone("embedded-free", device="cpu")


def score(metric, rows):
    made = {"mcs": towers, "text_score": towers, "pr_mcs": JudgingColours}.get(metric)
    scorer = capscore.load(metric, **({"backbone": made(), "cache": False} if made else {}))
    candidates, languages, references = zip(*rows, strict=True)
    photos = [Image.new("RGB", (24, 24), (250, 20 * (len(text) % 9), 0)) for text in candidates]
    more = photos if scorer.needs_images else None, references if scorer.needs_references else None
    return scorer.score(candidates, *more, languages)


@pytest.mark.filterwarnings("ignore::capscore.errors.CapscoreWarning")
@pytest.mark.parametrize("metric", METRICS)
def test_rows_of_many_languages_score_as_alone(metric):
    found = score(metric, ROWS)
    alone = [score(metric, [row]) for row in ROWS]
    np.testing.assert_allclose(found.scores, [one.scores[0] for one in alone], atol=1e-6)
    for name, values in found.components.items():
        np.testing.assert_allclose(values, [one.components[name][0] for one in alone], atol=1e-6)
    assert (found.languages, found.n_scored) == (CODES, len(ROWS))
    assert "|lang:ar+cs+de+en+he+ja+sw+th+zh+unstated|" in found.signature


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_the_command_keeps_every_row(tmp_path, monkeypatch, name):
    monkeypatch.setattr("capscore.backbones.load_backbone", lambda name, **options: towers())
    path, output = tmp_path / name, tmp_path / f"scored-{name}"
    cells = [{"caption": caption, "references": some, "language": code} for caption, code, some in ROWS]
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(file, ["caption", "references", "language"])
            writer.writeheader()
            writer.writerows(row | {"references": json.dumps(row["references"])} for row in cells)
    else:
        for row in cells:
            if row["language"] is None:
                del row["language"]
        write_jsonl(path, cells)
    words = ["-m", "text_score,rouge_l", "--backbone", "embedded-free", "--no-cache", "-o", str(output)]
    done = run("score", path, *words)
    assert done.exit_code == 0, done.output
    assert " ".join(done.stderr.split()).count("was not trained on cs, he, sw ") == 1
    rows = rows_of(output)
    assert [row["caption"] for row in rows] == [caption for caption, *_ in ROWS]
    for metric in ("text_score", "rouge_l"):
        expected = score(metric, ROWS).scores
        np.testing.assert_allclose([float(row[metric]) for row in rows], expected, atol=2e-6)
