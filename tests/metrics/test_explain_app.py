"""The demo of InfoMetIC answers with the library's marks and scores, and with its errors."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

import capscore
from capscore.show import app_inputs, explain_app
from capscore.show.demo_app import build_app
from capscore.text.languages import language_code

from ..photos import encode
from ..toy import RED, ColourBackbone

gr = pytest.importorskip("gradio")


@pytest.fixture
def photo(uploads) -> str:
    """60 × 40 pixels, red in the left two thirds, blue in the right one."""
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[:, :40, 0] = pixels[:, 40:, 2] = 255
    path = uploads / "halves.png"
    path.write_bytes(encode(pixels))
    return str(path)


@pytest.fixture(scope="module")
def explain():
    """What a click on Explain does, on the toy backbone."""
    return on(ColourBackbone())


def on(backbone):
    app = build_app("infometic", backbone=backbone, device="cpu")
    return next(function for function in app.fns.values() if function.api_name == "score").fn


def page_in(picture: str) -> str:
    """The page that the frame shows."""
    return html.unescape(re.search(r'srcdoc="([^"]*)"', picture)[1])


def text_of(markup: str) -> str:
    return html.unescape(re.sub("<[^>]+>", "", markup))


def test_scores_are_the_librarys(explain, photo):
    picture, table, signature = explain(photo, "red kite\n\n  blue  \n", "en")
    scorer = capscore.load("infometic", backbone=ColourBackbone(), cache=False)
    scores = scorer.score(["red kite", "blue"], [photo] * 2, language="en")
    assert signature == scores.signature and "|lang:en|" in signature
    assert [row[0] for row in table] == ["red kite", "blue"]
    expected = [scores.components["precision"], scores.components["recall"], scores.scores]
    for column, values in enumerate(expected, 1):
        assert [row[column] for row in table] == pytest.approx(values, abs=6e-4)
    page = page_in(picture)
    assert page.startswith("<!DOCTYPE html>") and signature.split("|")[0] in page
    # by hand: of "red kite" nearly all goes to "red", as its cosine with the photo is 0.89 against 0.77
    assert re.findall(r'<mark class="said word-wrong" title="score 0.00">.*?(\w+)</mark>', page) == ["kite"]
    assert "1 of 2 content words is wrong" in text_of(page)
    assert "No wrong word" in text_of(page)


def test_the_frame_holds_the_page_apart(explain, photo):
    """Nothing of a caption is markup, neither in the frame's attribute nor in its page."""
    picture, table, _ = explain(photo, 'red <img src=x onerror=alert(1)> "kite" & </iframe>', "en")
    assert picture.count("<iframe") == picture.count("</iframe>") == 1
    assert "<iframe sandbox " in picture and "<img" not in picture
    page = page_in(picture)
    assert "<img" not in page and "</iframe>" not in page and "<script" not in page
    assert "&lt;img src=" in page
    assert table[0][0].startswith("red <img")


def test_missed_regions_that_are_shown(explain, photo):
    def drawn(most):
        return page_in(explain(photo, "blue", "en", most)[0]).count('class="box missed"')

    assert [drawn(most) for most in (0, 3)] == [0, 3]
    assert drawn(20) > 3


def test_notes(explain, photo):
    def notes(*values):
        return text_of(explain(photo, *values)[0].partition("<iframe")[0])

    assert "There are no trained weights here: this is InfoCLIP" in notes("red", "en")
    assert "was not trained on" not in notes("red", "de")
    assert "was not trained on 'ru' (it knows de, en)" in notes("red", "ru")
    assert "1 of 2 captions are longer than the limit" in notes("red red red red red red red\nblue", "en")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: None}, "there is no photo"),
        ({1: " \n"}, "there is no caption"),
        ({2: "klingonish"}, "unknown language code 'klingonish'"),
        ({2: "mi"}, "mi"),
        ({3: 1.5}, "missed regions=1.5: expected a whole number"),
        ({3: None}, "missed regions=None"),
        ({0: __file__}, "the photo was not uploaded"),
    ],
)
def test_errors_are_shown(explain, photo, change, message):
    values = [photo, "red", "en", 3]
    for place, value in change.items():
        values[place] = value
    with pytest.raises(gr.Error, match=message):
        explain(*values)


def test_a_backbone_that_cannot_be_had_is_shown_at_the_click(photo):
    with pytest.raises(gr.Error, match="backbone"):
        on("./nowhere")(photo, "red", "en")


def test_the_environment_chooses_the_backbone(monkeypatch):
    assert "Backbone: `embedded`" in str(build_app("infometic").get_config_file())
    monkeypatch.setenv("CAPSCORE_BACKBONE", "org/name")
    assert "Backbone: `org/name`" in str(build_app("infometic").get_config_file())


def test_examples_are_those_whose_words_can_be_found(monkeypatch):
    pytest.importorskip("skimage")
    found = explain_app.examples()
    assert [name for name, _ in found][:2] == ["English", "Deutsch"]
    for _, (path, captions, language) in found:
        right, wrong = captions.splitlines()
        assert right != wrong and language_code(language) == language
        assert capscore.load_image(path).size[0] > 100
    monkeypatch.setattr(explain_app, "supported", lambda language: language != "fr")
    assert {row[2] for _, row in explain_app.examples()} == {row[2] for _, row in found} - {"fr"}
    monkeypatch.setattr(app_inputs, "find_spec", lambda name: None)
    assert explain_app.examples() == []


def test_in_most_examples_the_wrong_word_scores_lowest(embedded):
    """With the weights that ship; where the right caption is French or Chinese it is a near thing."""
    pytest.importorskip("skimage")
    scorer = capscore.load("infometic", backbone=embedded, cache=False, progress=False)
    found = set()
    for name, (path, captions, language) in explain_app.examples():
        right, wrong = captions.splitlines()
        words = [
            word
            for word in scorer.score([wrong], [path], language=language).details[0]["words"]
            if word["semantic"]
        ]
        if min(words, key=lambda word: word["score"])["text"] not in right:
            found.add(name)
    assert {"English", "Deutsch", "Español"} <= found


def test_the_server_answers(uploads):
    """As a browser would ask, over HTTP on this machine."""
    client = pytest.importorskip("gradio_client")
    path = uploads / "red.png"
    path.write_bytes(encode(RED))
    app = build_app("infometic", backbone=ColourBackbone())
    _, address, _ = app.launch(
        server_name="127.0.0.1", prevent_thread_lock=True, quiet=True, share=False, inbrowser=False
    )
    try:
        browser = client.Client(address, verbose=False)
        picture, table, signature = browser.predict(
            client.handle_file(str(path)), "red\nblue", "en", 3, api_name="/score"
        )
        assert "<iframe sandbox" in picture
        assert table["headers"] == explain_app.HEADS
        assert [row[0] for row in table["data"]] == ["red", "blue"]
        assert "|lang:en|" in signature
    finally:
        app.close()
