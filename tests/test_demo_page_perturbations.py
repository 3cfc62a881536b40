"""The section on perturbed words: its numbers, marks, languages and links."""

from __future__ import annotations

import re

import pytest

from capscore import CapscoreError
from demo_page import (
    ReportCaption,
    ReportMetric,
    ReportPerturbations,
    ReportPerturbed,
    ReportPhoto,
    ReportVariant,
    write_html,
)

METRICS = [
    ReportMetric("mcs", "MCS", "mcs|backbone:toy@w00000000|lang:ar"),
    ReportMetric("pr_mcs", "PR-MCS", "pr_mcs|backbone:toy-tuned@w00000001|lang:ar"),
]
DROPS = {
    "en": {"jumble": {"mcs": -0.02, "pr_mcs": -0.957}, "average": {"mcs": 0.25, "pr_mcs": None}},
    "ar": {"jumble": {"mcs": 0.001, "pr_mcs": -1.0}, "average": {"mcs": 0.0, "pr_mcs": -0.5}},
}
EXAMPLES = [
    ReportPerturbed(
        "a <b> cat",
        "en",
        {"mcs": 1.0, "pr_mcs": 0.96},
        [ReportVariant("jumble", "cat <b> a", {"mcs": 0.5, "pr_mcs": None}, [(0, 3), (8, 9)])],
        photo=0,
    ),
    ReportPerturbed("قطة", "ar", {"mcs": 0.7}, [ReportVariant("repetition", "قطة قطة", {})]),
]


def section(tmp_path, **changes) -> tuple[str, str]:
    given = {
        "title": "Words & noise",
        "intro": ["First <i>."],
        "metrics": METRICS,
        "drops": DROPS,
        "examples": EXAMPLES,
    }
    photo = ReportPhoto(None, "Cat", [ReportCaption("a cat", "en", {"mcs": 0.9})])
    path = write_html(
        tmp_path / "page.html",
        title="Page",
        intro=[],
        photos=[photo],
        metrics=[ReportMetric("mcs", "MCS", "mcs|backbone:toy@w00000000|lang:en")],
        perturbations=ReportPerturbations(**{**given, **changes}),
    )
    page = path.read_text(encoding="utf-8")
    return page, page.partition('<section class="overview perturbed"')[2].partition("</section>")[0]


def test_drops(tmp_path):
    part = section(tmp_path)[1].partition("</table>")[0]
    shown = re.findall(r"<b>([−+\d]+ %|–)</b>", part)
    assert shown == ["−2 %", "−96 %", "0 %", "−100 %", "+25 %", "–", "0 %", "−50 %"]
    widths = re.findall(r'width:([\d.]+)%"></i></span><span class="unseen">', part)
    assert widths == ["98.0", "4.3", "100.0", "0.0", "100.0", "0.0", "100.0", "50.0"]
    assert part.count('<tr class="average">') == 1


def test_examples(tmp_path):
    page, part = section(tmp_path)
    assert "<mark>cat</mark> &lt;b&gt; <mark>a</mark></span>" in part
    assert '<span class="text" lang="en" dir="ltr">a &lt;b&gt; cat</span>' in part
    assert '<span class="text" lang="ar" dir="rtl">قطة قطة</span>' in part
    assert part.count('<a href="#photo-0">Cat</a>') == 1 and 'id="photo-0"' in page
    cells = re.findall(r'<td class="left"><b>(.*?)</b>', part)
    assert cells == ["1.00", "0.96", "0.50", "–", "0.70", "–", "–", "–"]
    widths = re.findall(r'style="width:([\d.]+)%"></i></span></td>', part)
    assert widths == ["100.0", "96.0", "50.0", "0.0", "70.0", "0.0", "0.0", "0.0"]
    assert "Words &amp; noise</h2>" in part and "<p>First &lt;i&gt;.</p>" in part


def test_marks_and_bars_differ_without_colour(tmp_path):
    page, _ = section(tmp_path)
    rules = dict(re.findall(r"^([^{}@/\n]+) \{([^{}]*)\}", page, re.MULTILINE))
    assert "underline" in rules[".perturbed mark"]
    assert "repeating-linear-gradient" in rules[".before"] and "gradient" not in rules[".plain"]


def test_every_signature_is_at_the_foot_once(tmp_path):
    page, _ = section(tmp_path)
    foot = page.partition("<footer>")[2].replace("<wbr>", "")
    assert re.findall("<dt>(.*?)</dt>", foot) == ["MCS", "PR-MCS"]
    found = re.findall("<dd><code>(.*?)</code></dd>", foot)
    assert [text.rpartition("lang:")[2] for text in found] == ["en", "ar", "ar"]


def test_without_examples_or_drops(tmp_path):
    assert "Marked:" not in section(tmp_path, examples=[])[1]
    assert "What is left" not in section(tmp_path, drops={})[1]


def test_a_page_without_the_section_has_nothing_of_it(tmp_path):
    photo = ReportPhoto(None, "Cat", [ReportCaption("a cat", "en", {"mcs": 0.9})])
    path = write_html(tmp_path / "p.html", title="P", intro=[], photos=[photo], metrics=METRICS[:1])
    assert "perturbed" not in path.read_text(encoding="utf-8")


def test_languages_with_other_perturbations():
    with pytest.raises(CapscoreError, match="the same perturbations in every language"):
        ReportPerturbations("", [], METRICS, {"en": {"jumble": {}}, "de": {"removal": {}}})
