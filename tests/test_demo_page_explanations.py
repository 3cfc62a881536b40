"""The section on explained captions: marks, regions, one scale and one legend, links, and hostile texts."""

from __future__ import annotations

import re

import numpy as np
import pytest

from capscore import CapscoreError, ImageError
from demo_page import (
    ReportCaption,
    ReportExplained,
    ReportExplanations,
    ReportMetric,
    ReportPhoto,
    write_html,
)

from .infometic.invented import REGIONS, caption

METRIC = ReportMetric("infometic", "InfoCLIP", "infometic|backbone:toy@w00000000|weights:info_clip")
MCS = ReportMetric("mcs", "MCS", "mcs|backbone:toy@w00000000|lang:en")
PHOTO = np.full((30, 40, 3), 128, np.uint8)
RIGHT = caption("a red cat", right="red cat", regions=REGIONS)
WRONG = caption(
    "a red dog", right="red", wrong="dog", scores={"precision": 1.5, "recall": 0.6, "overall": 2.1}
)


def section(tmp_path, *photos: ReportExplained, **changes) -> tuple[str, str]:
    given = {"title": "Words & regions", "intro": ["First <i>."], "metric": METRIC, "beta": 0.1, **changes}
    captions = [ReportCaption("a cat", "en", {"mcs": 0.9}), ReportCaption("eine Katze", "de", {"mcs": 0.8})]
    path = write_html(
        tmp_path / "page.html",
        title="Page",
        intro=[],
        photos=[ReportPhoto(None, "Rex & Co", captions)],
        metrics=[MCS],
        explanations=ReportExplanations(photos=photos, **given),
    )
    page = path.read_text(encoding="utf-8")
    return page, page.partition('<section class="overview explanations"')[2].partition("</section>")[0]


def test_words_regions_and_scores(tmp_path):
    _, part = section(tmp_path, ReportExplained(PHOTO, "Cat", [RIGHT, WRONG], ["right", "planted"]))
    assert "Words &amp; regions</h2>" in part and "<p>First &lt;i&gt;.</p>" in part
    first, second = part.split("<article ")[1:]
    assert re.findall(r'<span class="tag \w+".*?>(.*?)</span>', first) == [
        "✓ 1 dog",
        "✗ 2 sky",
        "✗ 3 tree",
        "✗ 4 sign",
    ]
    assert "word-wrong" not in first
    assert second.count('<mark class="said word-wrong" title="score 0.02">') == 1
    assert "Likely wrong: " in second
    assert "<bdi>right</bdi>" in first and "<bdi>planted</bdi>" in second
    assert re.findall(r'<i class="full" style="width:([\d.]+)%">', second) == ["75.0", "30.0", "52.5"]
    assert part.count('<ul class="key') == part.count("Bars of precision and recall end at 2,") == 1
    assert "score above 0.1" in part


def test_several_photos_share_a_scale_and_nothing_else(tmp_path):
    page, part = section(
        tmp_path,
        ReportExplained(PHOTO, "Cat", [RIGHT, RIGHT]),
        ReportExplained(PHOTO, "Dog", [WRONG], photo=0),
        most_missed=1,
    )
    widths = re.findall(r'<i class="full" style="width:([\d.]+)%">', part)
    assert widths == ["20.0", "30.0", "25.0"] * 2 + ["75.0", "30.0", "52.5"]
    assert re.findall(r'<image id="(.*?)"', part) == ["explained-0", "explained-1"]
    assert re.findall(r'<use href="(.*?)"', part) == ["#explained-0"]
    assert part.count('<ul class="key') == 1
    assert re.findall("<h3>(.*?)</h3>", part) == ["Cat", 'Dog · <a href="#photo-0">Rex &amp; Co</a>']
    assert "✗ 2 sky" in part and "✗ 3 tree" not in part
    ids = re.findall(r'\bid="(.*?)"', page)
    assert len(ids) == len(set(ids))
    assert all(link in ids for link in re.findall(r'href="#(.*?)"', page))


def test_a_chosen_language_shows_its_explained_captions(tmp_path):
    page, part = section(tmp_path, ReportExplained(PHOTO, "Cat", [RIGHT]))
    assert 'data-language="en"' in part
    hiding = re.findall(r'\[data-language\]:not\(\[data-language="(\w+)"\]\)\{display:none\}', page)
    assert "en" in hiding and len(hiding) == page.count('type="radio"') - 1  # "All languages" hides nothing
    assert "Examples in English;" in part
    # a heading, the legend and the scale would stand there alone where the language has no example
    hiding = re.findall(r'\.examples:not\(:has\(\[data-language="(\w+)"\]\)\)\{display:none\}', page)
    assert hiding == ["en", "de"]
    shell, one = part.split('<div class="examples">')[1:]
    assert '<ul class="key' in shell and "<h3>" in one and "<article" in one


def test_its_signature_is_at_the_foot(tmp_path):
    page, _ = section(tmp_path, ReportExplained(PHOTO, "Cat", [RIGHT]))
    foot = page.partition("<footer>")[2].replace("<wbr>", "")
    assert re.findall("<dt>(.*?)</dt>", foot) == ["MCS", "InfoCLIP"]
    assert f"<dd><code>{METRIC.signature}</code></dd>" in foot


HOSTILE = '<script>alert("1")</script></section>&amp;'


def test_nothing_that_is_given_becomes_markup(tmp_path):
    told = caption(HOSTILE, '"><b>', wrong="script", regions=[((0, 0, 9, 9), True, 1.0, HOSTILE)])
    metric = ReportMetric("infometic", HOSTILE, HOSTILE)
    page, part = section(
        tmp_path,
        ReportExplained(PHOTO, HOSTILE, [told], [HOSTILE]),
        title=HOSTILE,
        intro=[HOSTILE],
        metric=metric,
    )
    assert "<script" not in page and "<b>&quot;" not in page
    assert page.count("</section>") == page.count("<section ")
    # title, intro, heading, label, a region's tag and its name in the list; the caption's has marks in it
    assert part.count("&lt;script&gt;") == 6
    assert "http:" not in page and "https:" not in page


def test_right_to_left(tmp_path):
    arabic = caption("قطة حمراء تنام", "ar", wrong="حمراء", right="قطة")
    _, part = section(tmp_path, ReportExplained(PHOTO, "Cat", [arabic], ["right"]))
    assert '<p class="caption" lang="ar" dir="rtl">' in part
    assert '<span lang="ar" dir="rtl">العربية</span> · Arabic · <bdi>right</bdi>' in part
    assert '<b lang="ar" dir="rtl">حمراء</b></bdi> (score 0.02)' in part


def test_a_photo_of_another_size_leaves_what_was_there(tmp_path):
    (tmp_path / "page.html").write_text("before")
    other = np.zeros((30, 41, 3), np.uint8)
    with pytest.raises(CapscoreError, match=r"'Cat' has 41 × 30 pixels.*'a red cat' were found in 40 × 30"):
        section(tmp_path, ReportExplained(other, "Cat", [RIGHT]))
    with pytest.raises(ImageError):
        section(tmp_path, ReportExplained(tmp_path / "none.jpg", "Cat", [RIGHT]))
    assert (tmp_path / "page.html").read_text() == "before"


def test_captions_and_labels_that_are_missing():
    with pytest.raises(CapscoreError, match="'Cat' has no caption"):
        ReportExplained(PHOTO, "Cat", [])
    with pytest.raises(CapscoreError, match="2 captions and 1 labels: expected one each, or none"):
        ReportExplained(PHOTO, "Cat", [RIGHT, WRONG], ["right"])


def test_without_photos_there_is_no_legend(tmp_path):
    _, part = section(tmp_path)
    assert "First &lt;i&gt;." in part and "key" not in part and "Bars of" not in part
