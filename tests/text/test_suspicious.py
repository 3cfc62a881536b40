"""Rows that look wrong are scored as they are, and counted in one warning that names the first."""

import re

import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.text.suspicious import KINDS, OddRows, oddity
from tools.tiny.colours import BLUE, RED, ColourBackbone, plain

FINE = [
    *("a dog runs", "AT&T & salt; a < b", "None of the dogs", "a nan bread", "a sign: stop", "[MASK] cat"),
    *("2人の男性がＴシャツを着ている", "ÇA VA À ÉTÉ", "MAÇÃ É", "der „Spaß“", "„schnell“ – 50 °C", "мальчик"),
    *("น้ำตก\u200bที่สวยงาม", "رجل أنيق", "ένα κορίτσι", "zażółć gęślą jaźń", "người đàn ông"),
    *("a sign [STOP]", "Sorry sign on a door", "I see a dog", "a dog <3 a cat", "Thinking man: art"),
    *("Il-Ġnus jiġru fil-ġnien", "a user: of tools", "#dog on a beach", "man in a cap, man in a hat"),
    *("the very very very big dog", "Missing person poster", "Null island", "a red 1000000 sign", "a.m. fog"),
    *("Alternating stripes: red", "As an airplane lands", "The user holds a phone", "IMG at dusk", "a trunk"),
]


def test_captions_of_all_languages_are_fine():
    assert [text for text in FINE if oddity(text)] == []
    assert not OddRows().add(FINE, ["0042.jpg"] * len(FINE), [[text] for text in FINE]).first


ODD = [(example, kind) for kind, row in KINDS.items() for example in row.examples]


@pytest.mark.parametrize(("caption", "kind"), [*ODD, ("42", "name"), ("0042", "name"), ("0042.jpg", "name")])
def test_suspicious_rows_are_counted(caption, kind):
    rows = OddRows().add(["a dog"], start=7).add(["a dog", caption], [None, "photos/0042.jpg"], start=8)
    assert rows.first == {kind: (1, 9, repr(caption)[:60])}


@pytest.mark.parametrize("metric", ["mcs", "rouge_l"])
def test_one_warning_names_the_first_row_of_each_kind(metric, tmp_path):
    captions = ["red", "nan", "it&#39;s red", "NA", "red"]
    line, transparent = np.tile(BLUE[:2], (1, 9, 1)), Image.new("RGBA", (3, 3), (1, 2, 3, 0))
    almost_white = plain((254, 253, 254))
    almost_white[1] = 255
    images = [RED, almost_white, line, transparent, BLUE]
    references = [["red"]] * 4 + [["un garÃ§on"]]
    for _ in range(2):  # the second time from the cache
        with pytest.warns(capscore.RowWarning) as caught:
            if metric == "mcs":
                capscore.load("mcs", backbone=ColourBackbone(), cache=tmp_path).score(captions, images)
            else:
                capscore.load("rouge_l").score(captions, references=references)
        said = " ".join(str(item.message) for item in caught)
        assert "2 have a caption such as nan or none (first: row 1, counted from 0: 'nan')" in said
        assert "1 have HTML entities (first: row 2" in said
        no_photo = re.search(r"3 have a photo that shows nothing.*\(first: row 1", said)
        assert bool(no_photo) == (metric == "mcs")
        assert ("decoded wrongly (first: row 4" in said) == (metric != "mcs")


def test_a_stream_warns_once_at_its_end():
    rows = [{"caption": text, "references": ["red"]} for text in ("red", "nan", "red", "blue", "NA")]
    stream = capscore.score_stream(rows, capscore.load("rouge_l"), batch_rows=2)
    with pytest.warns(capscore.RowWarning) as caught:
        assert len(list(stream)) == 5
    (said,) = [str(item.message) for item in caught if item.category is capscore.RowWarning]
    assert "2 have a caption such as nan or none (first: row 1" in said
    assert np.isfinite(stream.summary()["metrics"]["rouge_l"]["mean"])
