"""What changes of captions do to MCS, on photos and captions that the package has, and to a toy."""

import json

import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.embedding.embedder import Embedder
from capscore.metrics.mcs import MCS
from docs.demo import CAPTIONS, photo_path
from tools.tiny.colours import BLUE, RED, ColourBackbone
from tools.tiny.official import write_jsonl
from weights.measuring import changed_captions as study
from weights.measuring.changed_captions import WAYS, changes_of

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
    found = study.measure(scorer, [row for row in changes_of(rows) if row.change in WAYS])
    moved = {}
    for way, parts in found.items():
        for language, own in parts.items():
            bounds = GERMAN.get(way, (0.003, 0.1)) if language == "de" else (0.003, 0.1)
            shares = abs(own["change"]), own["moved"]
            if (np.array(shares) > bounds).any():
                moved[way, language] = shares
    assert not moved and found.keys() == WAYS.keys() - {"tatweel"}


class Lower(ColourBackbone):
    """Reads the first four words of a text, in lower case and without stops."""

    def tokenize(self, texts):
        return super().tokenize([text.lower().replace(".", "") for text in texts])


def test_changes_of_captions_move_their_scores_as_computed_by_hand(tmp_path):
    rows = []
    for photo, caption in ((RED, "Red wall"), (BLUE, "Blue wall")):
        rows.append({"image": str(tmp_path / f"{caption}.png"), "caption": caption, "language": "en"})
        Image.fromarray(photo).save(rows[-1]["image"])
    changes = list(changes_of(rows, {"UPPER": str.upper, "same": str}))
    after = {row.change: row.after for row in changes if row.before in ("Blue wall", "Blue wall.")}
    assert after == {
        "UPPER": "BLUE WALL",
        "same": "Blue wall",
        "… on a": "Blue wall on a",
        "… with a": "Blue wall with a",
        "1 of another photo": "Blue wall. Red wall.",
        "3 of another photo": "Blue wall. Red wall.",
    }
    found = study.measure(MCS(Embedder(Lower(), cache=None)), changes)
    assert found["UPPER"]["en"] == {"n": 2, "change": 0, "moved": 0, "lower": 0}
    halved = found["1 of another photo"]["en"]
    assert "same" not in found and halved["change"] == pytest.approx(2.5 * (0.5**0.5 - 1), abs=1e-6)
    assert (halved["n"], halved["moved"], halved["lower"]) == (2, 1, 1)


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


def test_the_command_prints_a_row_per_change(rows, tmp_path, capsys):
    file, out = tmp_path / "rows.jsonl", tmp_path / "out.json"
    write_jsonl(file, [row for row in rows[:25] if row["language"] == "en"])
    study.main(["--rows", str(file), "--backbone", "embedded-free", "--output", str(out)])
    assert "| UPPER CASE | +0.0000 0.0 0.0 |" in capsys.readouterr().out
    found = json.loads(out.read_text(encoding="utf-8"))
    assert [*found["UPPER CASE"]] == ["en"] and found["1 of another photo"]["en"]["lower"] == 1
