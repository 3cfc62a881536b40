"""The HTML page: what it says, that it needs nothing else, and that it is whole or not there."""

from __future__ import annotations

import base64
import doctest
import errno
import io
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import demo_page
from capscore import CapscoreError, ImageError, ResultWriteError
from capscore.text.languages import NAMES
from demo_page import ReportCaption, ReportMetric, ReportPhoto, out_of_order, write_html

MCS = ReportMetric("mcs", "MCS", "mcs|backbone:toy@w00000000|w:2.5", "from 0 to 2.5")
REF = ReportMetric("ref_clip_score", "RefCLIPScore", "ref_clip_score|refs:2", "from 0 to 1.43")
GREY = np.full((20, 30, 3), 128, np.uint8)
VOID = frozenset(("meta", "img", "input", "wbr", "br", "hr", "link", "source"))


class Element:
    """An element with what is in it."""

    def __init__(self, tag: str, attributes: dict[str, str | None], parent: Element | None):
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.children: list[Element | str] = []

    def walk(self):
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, tag: str | None = None, cls: str | None = None) -> list[Element]:
        return [
            element
            for element in self.walk()
            if (tag is None or element.tag == tag)
            and (cls is None or cls in (element.attributes.get("class") or "").split())
        ]

    def one(self, tag: str | None = None, cls: str | None = None) -> Element:
        (element,) = self.all(tag, cls)
        return element


class Page(HTMLParser):
    """Builds the tree, and fails where a tag is closed that is not open."""

    def __init__(self, markup: str):
        super().__init__(convert_charrefs=True)
        self.root = self.here = Element("", {}, None)
        self.declarations: list[str] = []
        self.feed(markup)
        self.close()
        assert self.here is self.root, f"<{self.here.tag}> is never closed"

    def handle_decl(self, decl):
        self.declarations.append(decl)

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice"
        element = Element(tag, dict(attrs), self.here)
        self.here.children.append(element)
        if tag not in VOID:
            self.here = element

    def handle_endtag(self, tag):
        assert self.here.tag == tag, f"</{tag}> closes <{self.here.tag}>"
        self.here = self.here.parent

    def handle_data(self, data):
        self.here.children.append(data)


def write(folder: Path, photos, metrics=(MCS,), **options) -> tuple[str, Element]:
    path = folder / "report.html"
    settings = {"title": "Title", "intro": ["Intro."], **options}
    assert write_html(path, photos=photos, metrics=metrics, **settings) == path
    markup = path.read_text(encoding="utf-8")
    page = Page(markup)
    assert page.declarations == ["DOCTYPE html"]
    return markup, page.root


def captions_of(root: Element) -> list[Element]:
    return root.one("main").all("p", "text")


def three(language: str, right: float, half: float, wrong: float) -> list[ReportCaption]:
    scores = {"right": right, "half": half, "wrong": wrong}
    return [ReportCaption(f"{mark} {language}", language, {"mcs": s}, mark) for mark, s in scores.items()]


NASTY = [
    "<script>alert(1)</script>",
    "</p></section></main></body></html>",
    "a & b &amp; &#x3C;",
    "\"double\" and 'single'",
    '"><img src=x onerror=alert(1)>',
    "<!-- no comment",
    "{braces} %s \\ back",
    "line\nbreak\ttab",
]


@pytest.mark.parametrize("nasty", NASTY)
def test_whatever_a_text_holds_is_shown_as_text(tmp_path, nasty):
    photo = ReportPhoto(
        GREY,
        title=nasty,
        alt=nasty,
        credit=nasty,
        captions=[
            ReportCaption(nasty, "en", {"mcs": 0.5}, "right", problem=nasty),
            ReportCaption("x", nasty, {"mcs": 0.2}, "wrong"),
        ],
        references={"en": [nasty]},
    )
    metric = ReportMetric("mcs", nasty, nasty, nasty)
    markup, root = write(
        tmp_path, [photo], [metric], title=nasty, intro=[nasty], facts=[(nasty, nasty)], reproduce=nasty
    )

    assert "<script" not in markup
    tags = {element.tag for element in root.walk()}
    assert not tags & {"script", "link", "iframe", "object", "embed", "base"}
    assert len(root.all("img")) == 1
    # what was handed over comes back from every place where it is shown
    assert captions_of(root)[0].text == nasty
    assert root.one("img").attributes["alt"] == nasty
    assert root.one("title").text == nasty
    assert root.one("h1").text == nasty
    assert root.one("figcaption").text == nasty + nasty
    assert root.one("header").one("p").text == nasty
    facts = root.one("dl", "facts")
    assert facts.one("dt").text == facts.one("dd").text == nasty
    assert root.one("main").one("details").one("li").text == nasty
    assert root.one("pre").text == nasty
    assert root.one("footer").one("dt").text == root.one("footer").one("dd").text == nasty
    assert root.one("caption").text == f"{nasty} {nasty}"
    assert root.one("p", "problem").text == f"Not scored: {nasty}"


def test_nothing_is_loaded_or_run(tmp_path):
    photo = ReportPhoto(
        GREY, "see https://example.org/a.png", [ReportCaption("url(http://example.org)", "en", {"mcs": 1.0})]
    )
    _, root = write(tmp_path, [photo], intro=["http://example.org"], reproduce="curl http://example.org")
    for element in root.walk():
        for name, value in element.attributes.items():
            assert not name.startswith("on"), f"<{element.tag} {name}>"
            if name in ("src", "href", "srcset", "action", "data", "poster", "formaction", "background"):
                assert value.startswith(("data:image/jpeg;base64,", "#")), f"<{element.tag} {name}={value!r}>"
            if name == "style":
                assert re.fullmatch(r"(width|height):\d+\.\d%", value)
    style = root.one("style").text
    assert "url(" not in style and "@import" not in style and "http" not in style
    policies = [
        meta.attributes["content"]
        for meta in root.all("meta")
        if meta.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]


def test_ids_are_unique_and_links_lead_somewhere(tmp_path):
    photos = [ReportPhoto(GREY, "same title", three(tag, 0.9, 0.5, 0.1)) for tag in ("en", "de")]
    _, root = write(tmp_path, photos, [MCS, REF])
    ids = [element.attributes["id"] for element in root.walk() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    links = [link.attributes["href"] for link in root.all("a")]
    assert links == ["#photo-0", "#photo-1"] * 2
    named = [e.attributes["aria-labelledby"] for e in root.walk() if "aria-labelledby" in e.attributes]
    assert {link.removeprefix("#") for link in links} | set(named) <= set(ids)


def test_photos_are_in_the_page_as_small_jpegs(tmp_path):
    wide = np.zeros((300, 1500, 3), np.uint8)
    wide[:, :750] = (255, 0, 0)
    wide[:, 750:] = (0, 0, 255)
    small = np.full((40, 20, 3), (0, 128, 0), np.uint8)
    path = tmp_path / "small.png"
    Image.fromarray(small).save(path)
    _, root = write(
        tmp_path, [ReportPhoto(wide, "Wide", [], alt="red, blue"), ReportPhoto(path, "Small", [])]
    )

    def decode(element: Element) -> Image.Image:
        kind, data = element.attributes["src"].split(",", 1)
        assert kind == "data:image/jpeg;base64"
        image = Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
        assert image.format == "JPEG"
        assert (element.attributes["width"], element.attributes["height"]) == tuple(map(str, image.size))
        return image

    first, second = (decode(element) for element in root.all("img"))
    assert first.size == (640, 128)
    np.testing.assert_allclose(first.getpixel((100, 60)), (255, 0, 0), atol=6)
    np.testing.assert_allclose(first.getpixel((540, 60)), (0, 0, 255), atol=6)
    assert second.size == (20, 40), "small photos are not blown up"
    np.testing.assert_allclose(second.getpixel((10, 20)), (0, 128, 0), atol=6)
    assert [image.attributes["alt"] for image in root.all("img")] == ["red, blue", "Small"]


def test_a_photo_is_upright_and_transparency_is_white(tmp_path):
    turned = Image.fromarray(np.full((10, 40, 3), 9, np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    turned.save(tmp_path / "turned.jpg", exif=exif)
    _, root = write(
        tmp_path,
        [
            ReportPhoto(tmp_path / "turned.jpg", "t", []),
            ReportPhoto(np.zeros((8, 8, 4), np.uint8), "clear", []),
        ],
    )
    first, second = root.all("img")
    assert (first.attributes["width"], first.attributes["height"]) == ("10", "40")
    clear = Image.open(io.BytesIO(base64.b64decode(second.attributes["src"].split(",")[1])))
    assert clear.getpixel((4, 4)) == (255, 255, 255)


def test_a_photo_without_a_picture_has_its_captions(tmp_path):
    caption = ReportCaption("a dog", "en", problem="image: dog.jpg is empty")
    _, root = write(tmp_path, [ReportPhoto(None, "dog.jpg", [caption])])
    assert not root.all("img")
    assert root.one("figure").one("p", "no-picture").text == "No picture"
    assert root.one("p", "problem").text == "Not scored: image: dog.jpg is empty"
    assert root.one("div", "score").one("b").text == "no score"


def test_control_and_override_characters_are_shown_by_their_code(tmp_path):
    text = "abc\u202egnp.exe\u202c \u2066x\u2069 \x00\x1b[31m \ud800 \uffff"
    photo = ReportPhoto(GREY, text, [ReportCaption(text, "en", {"mcs": 0.5})], alt=text)
    markup, root = write(tmp_path, [photo], title=text)
    for character in "\u202e\u202c\u2066\u2069\x00\x1b\ufffe\uffff":
        assert character not in markup, f"U+{ord(character):04X}"
    expected = r"abc\u202egnp.exe\u202c \u2066x\u2069 \x00\x1b[31m \ud800 \uffff"
    assert captions_of(root)[0].text == root.one("img").attributes["alt"] == expected


@pytest.mark.parametrize("text", ["می‌خواهم", "👨‍👩‍👧", "א\u200fb\u200e", "e\u0301", "ไทย"])
def test_joiners_marks_and_accents_stay_as_they_are(tmp_path, text):
    _, root = write(tmp_path, [ReportPhoto(GREY, "t", [ReportCaption(text, "", {"mcs": 0.5})])])
    assert captions_of(root)[0].text == text


@pytest.mark.parametrize(
    ("tag", "lang", "direction"),
    [
        ("en", "en", "ltr"),
        ("ar", "ar", "rtl"),
        ("ar-EG", "ar-EG", "rtl"),
        ("fa", "fa", "rtl"),
        ("he", "he", "rtl"),
        ("ur", "ur", "rtl"),
        ("ja", "ja", "ltr"),
        ("zh_TW", "zh-TW", "ltr"),
        ("ar-Latn", "ar-Latn", "ltr"),
        ("", None, "auto"),
        ("not a language", "not a language", "auto"),
    ],
)
def test_language_and_direction(tmp_path, tag, lang, direction):
    photo = ReportPhoto(
        GREY, "t", [ReportCaption("text", tag, {"mcs": 0.5})], references={tag: ["reference"]}
    )
    _, root = write(tmp_path, [photo])
    for element in (captions_of(root)[0], root.one("main").one("details").one("li")):
        assert element.attributes.get("lang") == lang
        assert element.attributes["dir"] == direction
    # numbers and bars run from left to right whatever the caption does
    bars = root.one("div", "scores")
    while bars is not None:
        assert "dir" not in bars.attributes
        bars = bars.parent


def test_scores_bars_and_signatures(tmp_path):
    captions = [
        ReportCaption("a", "en", {"mcs": 1.0, "ref_clip_score": 0.25}),
        ReportCaption("b", "en", {"mcs": 1.23456, "ref_clip_score": 0.5}),
        ReportCaption("c", "en", {"mcs": 0.0, "ref_clip_score": None}),
        ReportCaption("d", "en", {"mcs": float("nan"), "ref_clip_score": -0.125}),
    ]
    _, root = write(tmp_path, [ReportPhoto(GREY, "t", captions)], [MCS, REF])
    shown = [
        (bar.one("span", "name").text, bar.one("b").text, bar.one("i").attributes["style"])
        for bar in root.all("div", "score")
    ]
    # bars of MCS end at 1.3, those of RefCLIPScore at 0.5
    assert shown == [
        ("MCS", "1.000", "width:76.9%"),
        ("RefCLIPScore", "0.250", "width:50.0%"),
        ("MCS", "1.235", "width:95.0%"),
        ("RefCLIPScore", "0.500", "width:100.0%"),
        ("MCS", "0.000", "width:0.0%"),
        ("RefCLIPScore", "no score", "width:0.0%"),
        ("MCS", "no score", "width:0.0%"),
        ("RefCLIPScore", "-0.125", "width:0.0%"),
    ]
    assert "MCS from 0 to 1.3; RefCLIPScore from 0 to 0.5." in root.one("p", "scale").text
    assert [dd.text for dd in root.one("footer").all("dd")] == [MCS.signature, REF.signature]
    assert not root.all("table"), "without marks there is nothing to compare at a glance"


def test_marks_are_words_and_symbols_not_colours_alone(tmp_path):
    _, root = write(tmp_path, [ReportPhoto(GREY, "t", three("en", 0.9, 0.5, 0.1))])
    assert [mark.text for mark in root.one("main").all("span", "mark")] == [
        "✓ right",
        "~ half right",
        "✗ wrong",
    ]
    cell = root.one("td")
    assert cell.one("span", "unseen").text == "right 0.90, half right 0.50, wrong 0.10"
    assert [bar.attributes["style"] for bar in cell.all("i")] == [
        "height:100.0%",
        "height:55.6%",
        "height:11.1%",
    ]
    assert not root.all(cls="flag")


def test_a_caption_that_scores_above_a_better_one_is_flagged(tmp_path):
    photos = [
        ReportPhoto(GREY, "one", three("en", 0.4, 0.5, 0.1) + three("de", 0.4, 0.4, 0.4)),
        ReportPhoto(GREY, "two", three("en", 0.9, 0.0, 0.2)),
    ]
    _, root = write(tmp_path, photos)
    flagged = [caption.text for caption in captions_of(root) if caption.parent.all(cls="flag")]
    assert flagged == ["half en", "wrong en"]
    assert [bool(cell.all(cls="flag")) for cell in root.all("td")] == [True, False, True, False]
    assert "▲" in root.one("p", "scale").text


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["right", "half", "wrong", ""]), st.sampled_from([None, 0.0, 0.25, 0.5, 1.0])
        ),
        max_size=6,
    )
)
def test_out_of_order_compares_every_pair(rows):
    captions = [ReportCaption("t", "en", {"mcs": score}, mark) for mark, score in rows]
    worth = {"right": 3, "half": 2, "wrong": 1}
    expected = [False] * len(rows)
    for a, (mark_a, score_a) in enumerate(rows):
        for mark_b, score_b in rows:
            if not mark_a or not mark_b or score_a is None or score_b is None:
                continue
            if worth[mark_a] < worth[mark_b] and score_a > score_b:
                expected[a] = True
    assert out_of_order(captions, "mcs") == expected


def test_languages_can_be_chosen_without_a_script(tmp_path):
    photos = [ReportPhoto(GREY, "one", three("en", 3, 2, 1) + three("ar", 3, 2, 1), references={"fr": ["x"]})]
    _, root = write(tmp_path, photos)
    form = root.one("form")
    assert [label.text for label in form.all("label")] == [
        "English",
        "العربية (Arabic)",
        "français (French)",
        "All languages",
    ]
    assert ["checked" in choice.attributes for choice in form.all("input")] == [True, False, False, False]
    assert root.one("article").attributes["class"] == "card photo l0 l1 l2"
    assert [block.attributes["class"] for block in root.all("section", "block")] == [
        "block l0",
        "block l1",
        "block l2",
    ]
    rules = re.findall(
        r"^body:has\(#(\S+):checked\) :is\(\.photo,\.block\):not\(\.(l\d)\)\{display:none\}$",
        root.one("style").text,
        re.MULTILINE,
    )
    assert rules == [("language-0", "l0"), ("language-1", "l1"), ("language-2", "l2")]
    assert {choice.attributes["id"] for choice in form.all("input")} >= {name for name, _ in rules}


def test_one_language_leaves_nothing_to_choose(tmp_path):
    _, root = write(tmp_path, [ReportPhoto(GREY, "one", three("en", 3, 2, 1))])
    assert not root.all("form")


def test_language_names_are_complete():
    assert all(own and english for own, english in NAMES.values())
    assert NAMES["ja"] == ("日本語", "Japanese")


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    if len(digits) == 3:
        digits = "".join(digit * 2 for digit in digits)
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4))
    ]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_nothing_makes_the_page_wider_than_a_phone(tmp_path):
    """Wide tables scroll in their own box, with what is hidden in them; photos stay within theirs."""
    _, root = write(tmp_path, [ReportPhoto(GREY, "one", three("en", 3, 2, 1))])
    rules = dict(re.findall(r"^([^{}@/\n]+) \{([^{}]*)\}", root.one("style").text, re.MULTILINE))
    assert "position: relative" in rules[".sheet"] and "overflow-x: auto" in rules[".sheet"]
    assert "max-height" in rules["figure img"] and "object-fit: contain" in rules["figure img"]
    assert "overflow-wrap: anywhere" in rules["h1"]


def test_contrast_holds_in_light_and_dark(tmp_path):
    assert contrast("#fff", "#000000") == pytest.approx(21)
    _, root = write(tmp_path, [ReportPhoto(GREY, "one", three("en", 3, 2, 1))])
    style = root.one("style").text
    light, dark = re.split(r"@media \(prefers-color-scheme: dark\)", style, maxsplit=1)
    for part in (light, dark):
        colour = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+);", part))
        for front, back in [
            ("ink", "page"),
            ("ink", "card"),
            ("soft", "page"),
            ("soft", "card"),
            ("link", "card"),
            ("wrong", "card"),
            ("ink", "chip-right"),
            ("ink", "chip-half"),
            ("ink", "chip-wrong"),
        ]:
            assert contrast(colour[front], colour[back]) >= 4.5, f"{front} on {back}"
        for bar in ("right", "half", "wrong"):
            assert contrast(colour[bar], colour["track"]) >= 3, bar
            assert contrast(colour[bar], colour["card"]) >= 3, bar


def test_examples_in_the_docstrings():
    assert doctest.testmod(demo_page).failed == 0


def test_an_unknown_mark_is_an_error():
    with pytest.raises(CapscoreError, match="mark='good': expected one of right, half, wrong"):
        ReportCaption("text", "en", {}, "good")


# ------------------------------------------------------------------ whole or not there


def fail_on_replace(monkeypatch, error: BaseException) -> None:
    def replace(*_):
        raise error

    monkeypatch.setattr(os, "replace", replace)


def simple(path: Path, image=GREY) -> None:
    write_html(path, title="t", intro=[], photos=[ReportPhoto(image, "p", [])], metrics=[MCS])


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")
    fail_on_replace(monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(
        ResultWriteError, match=r"report\.html' could not be written: No space left on device"
    ):
        simple(path)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_disk_that_fills_halfway_leaves_nothing(tmp_path, monkeypatch):
    def fsync(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(ResultWriteError, match="No space left on device"):
        simple(tmp_path / "report.html")
    assert os.listdir(tmp_path) == []


def test_ctrl_c_leaves_nothing(tmp_path, monkeypatch):
    fail_on_replace(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        simple(tmp_path / "report.html")
    assert os.listdir(tmp_path) == []


def test_a_photo_that_cannot_be_read_leaves_what_was_there(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("before")
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"not a photo")
    with pytest.raises(ImageError, match=r"bad\.jpg"):
        simple(path, bad)
    assert path.read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["bad.jpg", "report.html"]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "nowhere" / "report.html"
    with pytest.raises(ResultWriteError, match=re.escape(str(path))):
        simple(path)


def test_a_folder_is_not_replaced(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(ResultWriteError, match=r"report\.html"):
        simple(tmp_path / "report.html")
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "report.html"
    link.symlink_to(tmp_path / "real" / "page.html")
    simple(link)
    assert link.is_symlink()
    assert (tmp_path / "real" / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_file_is_as_readable_as_any_other(tmp_path):
    (tmp_path / "other").touch()
    simple(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_mode == (tmp_path / "other").stat().st_mode
