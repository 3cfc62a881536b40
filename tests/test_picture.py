"""The picture at the top of the README: its page, and what draws it."""

import json

import pytest
from PIL import Image

import capscore
import picture
from capscore.show.explained import Segment


def test_the_page_has_scores_and_marks():
    pieces = [Segment("a ", "plain"), Segment("cat", "wrong"), Segment("dog", "right")]
    caption = {"language": "en", "name": "English", "pieces": pieces, "score": 1.25, "share": 0.5, "rank": 61}
    html = picture.page(Image.new("RGB", (90, 60)), [caption], "Photo: nobody")
    assert 'word-wrong"><span class="sign">✗</span>cat</span>' in html and 'word-right">dog</span>' in html
    assert "<b>1.25</b>" in html and "width:50.0%" in html and "better than 61 %" in html
    assert "Photo: nobody" in html


def test_without_chromium_the_error_names_its_package(monkeypatch):
    monkeypatch.setattr(picture.shutil, "which", lambda name: None)
    with pytest.raises(capscore.CapscoreError, match="apt install chromium"):
        picture.screenshot("<p>")


def test_captions_of_the_picture_are_in_the_demo():
    entry = json.loads(picture.CAPTIONS_FILE.read_text(encoding="utf-8"))[picture.PHOTO]
    assert list(picture.CAPTIONS) == list(picture.LANGUAGES)
    for language, planted in picture.CAPTIONS.items():
        right = entry["captions"][language]["right"]
        # a planted noun changes the right caption, and little else
        assert planted != right
        if planted:
            assert len(set(planted.split()) - set(right.split())) <= 3
