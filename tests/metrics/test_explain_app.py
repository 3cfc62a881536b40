"""The demo of InfoMetIC answers with the library's marks and scores, and with its errors."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

import capscore
from capscore.metrics.loading import default_backbone
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


def table_in(result: str) -> list[list[str]]:
    """The texts of the table's cells, a list per caption."""
    rows = re.findall("<tr.*?</tr>", result, re.DOTALL)[1:]
    return [[text_of(cell) for cell in re.findall("<t[hd] .*?</t[hd]>", row, re.DOTALL)] for row in rows]


def test_scores_are_the_librarys(explain, photo):
    result, signature = explain(photo, "red kite\n\n  blue  \n", "en")
    scorer = capscore.load("infometic", backbone=ColourBackbone(), cache=False)
    scores = scorer.score(["red kite", "blue"], [photo] * 2, language="en")
    assert signature == scores.signature and "|lang:en|" in signature
    table = table_in(result)
    assert [row[0] for row in table] == ["red kite", "blue"]
    expected = [scores.components["precision"], scores.components["recall"], scores.scores]
    names = ["Text precision", "Vision recall", "Overall"]
    for column, (name, values) in enumerate(zip(names, expected, strict=True), 1):
        # every number has its name: on a narrow screen the table has no head
        shown = [float(row[column].removeprefix(name).replace("−", "-")) for row in table]
        assert shown == pytest.approx(values, abs=6e-4)
    page = page_in(result)
    assert page.startswith("<!DOCTYPE html>")
    # by hand: of "red kite" nearly all goes to "red", as its cosine with the photo is 0.89 against 0.77
    assert re.findall(r'<mark class="said word-wrong"[^>]* title="score 0.00">.*?(\w+)</mark>', page) == [
        "kite"
    ]
    assert "Likely wrong: " in text_of(page)
    assert "No word looks wrong" in text_of(page)


def test_the_frame_holds_the_page_apart(explain, photo):
    """Nothing of a caption is markup, neither in the frame's attribute nor in its page."""
    result, _ = explain(photo, 'red <img src=x onerror=alert(1)> "kite" & </iframe>', "en")
    assert result.count("<iframe") == result.count("</iframe>") == 1
    # the page outside reads how high the frame must be; nothing inside runs
    assert '<iframe sandbox="allow-same-origin" ' in result and "<img" not in result
    page = page_in(result)
    assert "<img" not in page and "</iframe>" not in page and "<script" not in page
    assert "&lt;img src=" in page
    assert table_in(result)[0][0].startswith("red <img")


def test_missed_regions_that_are_shown(explain, photo):
    def drawn(most):
        return page_in(explain(photo, "blue", "en", most)[0]).count('class="box missed"')

    assert [drawn(most) for most in (0, 3)] == [0, 3]
    assert drawn(20) > 3


def test_notes(explain, photo):
    def notes(*values):
        return text_of(explain(photo, *values)[0].partition("<table")[0])

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
    assert f"Backbone: `{default_backbone('infometic')}`" in str(build_app("infometic").get_config_file())
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


@pytest.fixture(scope="module")
def shipped():
    """InfoMetIC with the weights and the backbone that ship."""
    return capscore.load("infometic", cache=False, progress=False)


@pytest.mark.parametrize("name", ["English", "Deutsch", "Español"])
def test_in_most_examples_the_wrong_word_scores_lowest(name, shipped):
    """Where the right caption is French or Chinese it is a near thing."""
    pytest.importorskip("skimage")
    path, captions, language = dict(explain_app.examples())[name]
    right, wrong = captions.splitlines()
    words = shipped.score([wrong], [path], language=language).details[0]["words"]
    lowest = min((word for word in words if word["semantic"]), key=lambda word: word["score"])
    assert lowest["text"] not in right


def test_what_is_said_about_the_language_is_true(shipped):
    """The weights that ship leave out one content word at a time, and the language says which those are."""
    pytest.importorskip("HanTa")
    pytest.importorskip("skimage")
    (info,) = [part.info for part in build_app("infometic").blocks.values() if isinstance(part, gr.Dropdown)]
    assert "it changes scores as well" in info and "Not stated counts as English" in info
    path, captions, _ = dict(explain_app.examples())["English"]
    caption = captions.splitlines()[0]
    english, german, unstated = shipped.score([caption] * 3, [path] * 3, language=["en", "de", ""]).scores
    assert english == pytest.approx(unstated, abs=1e-6) and abs(english - german) > 0.01


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
        result, signature = browser.predict(
            client.handle_file(str(path)), "red\nblue", "en", 3, api_name="/score"
        )
        assert "<iframe sandbox" in result
        assert [row[0] for row in table_in(result)] == ["red", "blue"]
        assert "|lang:en|" in signature
    finally:
        app.close()
