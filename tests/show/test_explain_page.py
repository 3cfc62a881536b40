"""The page: what it says, that it needs nothing else, and that captions cannot change it."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from capscore.show.pages import explain_page

from ..infometic.invented import REGIONS, caption

PHOTO = Image.new("RGB", (40, 30), (200, 30, 30))


def written(*captions, **options):
    return explain_page(PHOTO, captions, **options)


class Page(HTMLParser):
    """Elements with their attributes and text; fails where a tag is closed that is not open."""

    def __init__(self, markup: str):
        super().__init__(convert_charrefs=True)
        self.open: list[int] = []
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.feed(markup)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))
        if tag not in ("meta", "wbr"):
            self.open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag):
        assert self.elements[self.open.pop()][0] == tag

    def handle_data(self, data):
        for number in self.open:
            self.elements[number][2].append(data)

    def all(self, tag, cls=None):
        return [
            (attributes, "".join(text))
            for name, attributes, text in self.elements
            if name == tag and (cls is None or cls in (attributes.get("class") or "").split())
        ]


def test_words_scores_and_regions():
    item = caption("a red cat asleep", right="red", wrong="cat", cut="asleep", regions=REGIONS)
    page = Page(written(item, title="photo.jpg", signature="infometic|beta:0.1", beta=0.1))
    ((_, said),) = page.all("p", "caption")
    assert said == "a red ✗likely wrong: cat asleep"
    titles = [a.get("title") for a, _ in page.all("mark", "word-wrong")]
    assert titles == [None, "score 0.02"]  # the first is the legend's
    ((_, verdict),) = page.all("p", "verdict")
    assert verdict == "Likely wrong: cat (score 0.02)."
    assert [text for _, text in page.all("div", "score")] == [
        "Text precision0.40",
        "Vision recall0.60",
        "Overall1.00",
    ]
    assert [a["style"] for a, _ in page.all("i", "full")] == ["width:40.0%", "width:60.0%", "width:50.0%"]
    assert [text for _, text in page.all("span", "tag")] == ["✓ 1 dog", "✗ 2 sky", "✗ 3 tree", "✗ 4 sign"]
    assert [len(page.all("rect", kind)) for kind in ("mentioned", "missed")] == [2, 6]
    box = page.all("rect", "box")[0][0]
    assert [float(box[name]) for name in ("x", "y", "width", "height")] == [5, 5, 10, 20]
    notes = page.all("ul", "notes")[0][1]
    assert "Words past the limit, not scored: 1" in notes and "Missed regions that are not drawn: 1" in notes
    assert "infometic|beta:0.1" in page.all("footer")[0][1]
    told = "The photo, with 1 region that the caption mentions and 3 regions that it misses"
    assert page.all("svg")[0][0]["aria-label"] == told
    assert not page.all("rect", "near")  # results of older versions name no region of a word


def test_all_words_are_listed():
    page = Page(written(caption("a red cat asleep", right="red", wrong="cat", cut="asleep")))
    rows = [text for _, text in page.all("tr")]
    assert rows == [
        "WordScoreJudged",
        "a0.31not a content word",
        "red0.31✓ right",
        "cat0.02✗ likely wrong",
        "asleep–cut off",
    ]


def test_the_photo_is_in_it_once_whatever_the_captions():
    markup = written(caption("one"), caption("two"), caption("three"))
    assert markup.count("data:image") == 1
    assert markup.count('<use href="#photo"/>') == 2
    data = re.search(r"data:image/jpeg;base64,([^\"]+)", markup)[1]
    with Image.open(io.BytesIO(base64.b64decode(data))) as photo:
        assert photo.size == (40, 30)
        assert all(abs(a - b) < 8 for a, b in zip(photo.getpixel((20, 15)), (200, 30, 30), strict=True))


def test_it_asks_for_nothing():
    markup = written(caption("a", regions=REGIONS), signature="s")
    assert "<script" not in markup and "http:" not in markup and "https:" not in markup
    for attribute in re.findall(r'(?:href|src)="([^"]*)"', markup):
        assert attribute.startswith(("#", "data:image/jpeg"))
    assert "default-src 'none'" in markup
    # without a place to break, the name of a photo's file makes the page wider than a phone
    rules = dict(re.findall(r"^([^{}@/\n]+) \{([^{}]*)\}", markup.partition("</style>")[0], re.MULTILINE))
    assert all("overflow-wrap: anywhere" in rules[name] for name in ("h1", "footer :not(pre) > code"))


HOSTILE = '<script>alert(1)</script><b title="x">\'&amp;'


def test_nothing_that_is_given_becomes_markup():
    regions = [((0, 0, 9, 9), True, 1.0, HOSTILE), ((0, 0, 9, 9), False, 1.0, HOSTILE)]
    item = caption(HOSTILE, '"><script>', wrong="script", right="alert", regions=regions)
    page = Page(written(item, title=HOSTILE, signature=HOSTILE))
    assert not page.all("script")
    assert page.all("h1")[0][1] == page.all("title")[0][1] == HOSTILE
    said = page.all("p", "caption")[0][1].replace("✗likely wrong: ", "")
    assert said == HOSTILE


@given(st.text(max_size=60))
def test_any_caption_makes_a_page_that_parses(text):
    markup = explain_page(PHOTO, [caption(text)])
    Page(markup)
    assert not re.search("[\x00-\x08\x0b-\x1f\ud800-\udfff\u202a-\u202e]", markup)


def test_right_to_left_and_no_language():
    page = Page(written(caption("قطة", "ar"), caption("a cat", "")))
    (arabic, _), (unknown, _) = page.all("p", "caption")
    assert (arabic["lang"], arabic["dir"]) == ("ar", "rtl")
    assert unknown["dir"] == "auto" and "lang" not in unknown


def test_a_word_and_the_region_most_like_it_light_each_other_up():
    told = caption("red dog runs", right="red runs", wrong="dog", regions=REGIONS)
    near = [0, len(REGIONS) - 1, None]
    for word, region in zip(told.explanation["words"], near, strict=True):
        word["region"] = region
    markup = written(told)
    page = Page(markup)
    said = [
        page.all("span", "word-right")[-2],
        page.all("mark", "word-wrong")[-1],
        page.all("span", "said")[-1],
    ]
    assert [attributes.get("data-region") for attributes, _ in said] == ["0", str(near[1]), None]
    assert [attributes.get("tabindex") for attributes, _ in said] == ["0", "0", None]
    assert [attributes["data-region"] for attributes, _ in page.all("rect", "near")] == ["0", str(near[1])]
    listed = {attributes["data-region"] for attributes, _ in page.all("span", "listed")}
    assert listed == {"1", "2", "3", "4"}  # of four missed regions, three are shown
    for place in range(len(REGIONS)):
        this = f'[data-region="{place}"]'
        rule = f".explained:has({this}:is(:hover,:focus-visible)) {this}{{--lit:1}}"
        assert markup.count(rule) == 1
    # white on black lines: a white line alone is lost in a bright photo
    assert re.findall(r'<rect class="(edge|near)" data-region="0"', markup) == ["edge", "near"]
    assert "rect.edge { stroke: #000;" in markup


def luminance(colour: tuple[float, ...]) -> float:
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (channel / 255 for channel in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_that_is_lit_up_can_be_read():
    """On a card, in light and dark: at least 4.5, as WCAG 2 asks of text."""
    style = written(caption("a")).partition("</style>")[0]
    share = float(re.search(r"var\(--mentioned\) calc\((\d+)% \* var\(--lit", style)[1]) / 100
    colours: dict[str, list[tuple[float, ...]]] = {}
    for name, digits in re.findall(r"--([a-z-]+): #([0-9a-f]{3,6});", style):
        digits = digits if len(digits) == 6 else "".join(digit * 2 for digit in digits)
        colours.setdefault(name, []).append(tuple(bytes.fromhex(digits)))
    for scheme in (0, 1):
        card, light = colours["card"][scheme], colours["mentioned"][scheme]
        back = luminance(tuple(share * a + (1 - share) * b for a, b in zip(light, card, strict=True)))
        for name in ("ink", "soft", "wrong"):
            front = luminance(colours[name][scheme])
            assert (max(front, back) + 0.05) / (min(front, back) + 0.05) >= 4.5, (name, scheme)
