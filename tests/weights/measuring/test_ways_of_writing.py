"""No way of writing the same caption moves its score, on photos and captions that the package has."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import capscore
from docs.demo import CAPTIONS, photo_path
from weights.measuring import ways_of_writing
from weights.measuring.ways_of_writing import MOVED, WAYS

LANGUAGES = ("en", "de", "fr", "es", "zh")
# German nouns that lost their capitals get most of them back, but not all: mean change, share moved.
GERMAN = dict.fromkeys(("UPPER CASE", "lower case", "Title Case", "Headline Case"), (0.015, 0.4))


@pytest.fixture(scope="module")
def rows():
    listed = []
    for photo in json.loads(CAPTIONS.read_text(encoding="utf-8")).values():
        for language in LANGUAGES:
            texts = photo["captions"][language]
            for caption in (texts["right"], texts["half"], *texts["references"]):
                row = {"image": str(photo_path(photo["file"])), "caption": caption, "language": language}
                listed.append(row)
    return listed


def test_no_way_of_writing_a_caption_moves_its_score(rows, embedded):
    scorer = capscore.load("mcs", backbone=embedded, cache=False, progress=False)
    found = ways_of_writing.changes(scorer, rows, WAYS)
    assert found.keys() == WAYS.keys()
    moved = {}
    for way, parts in found.items():
        for language, change in parts.items():
            bounds = GERMAN.get(way, (0.003, 0.1)) if language == "de" else (0.003, 0.1)
            shares = abs(change.mean()), np.mean(np.abs(change) > MOVED)
            if (np.array(shares) > bounds).any():
                moved[way, language] = shares
    assert not moved


def test_words_of_a_caption_keep_their_places_however_it_is_written(rows, embedded):
    plain = [row["caption"] for row in rows[::3]]
    expected = embedded.tokenize(plain).ids
    for way, write in WAYS.items():
        written = list(map(write, plain))
        found = embedded.piece_spans(written)
        for caption, text, ids, pieces in zip(plain, written, expected, found, strict=True):
            if [token for token, _, _ in pieces] != ids[1:-1]:
                continue  # in other capitals it may have other pieces
            ends = [0, *(end for _, _, end in pieces)]
            assert ends == sorted(ends) and ends[-1] <= len(text), way
            shown = text[pieces[0][1] : ends[-1]]
            assert len(shown) > 0.8 * len(caption), way


def test_the_command_prints_a_row_per_way(rows, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(ways_of_writing, "WAYS", {"UPPER": str.upper})
    file, out = tmp_path / "rows.jsonl", tmp_path / "out.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows[:25]), encoding="utf-8")
    arguments = ["--rows", str(file), "--languages", "en,zh", "--output", str(out)]
    ways_of_writing.main(arguments)
    assert "| UPPER | +0.0000 0.0 % |" in capsys.readouterr().out
    assert list(json.loads(Path(out).read_text())["UPPER"]) == ["en"]
