"""The report of scores: which rows it shows, what it counts, and that texts cannot change the page."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from capscore.show.score_report import ReportedMetric, ReportedRow, row_lists, write_score_report
from capscore.show.tables import photo_name

NAN = float("nan")


def report(path, metrics, languages=(), **options):
    """The page's text, and the numbers of the rows that it asked for."""
    asked = []

    def rows_of(numbers):
        asked.extend(numbers)
        image = Image.new("RGB", (60, 40), (200, 30, 30))
        captions = {name: f"caption of {name}" for name in metrics[0].scores}
        return {number: ReportedRow(f"line {number + 1}", captions, image) for number in numbers}

    options = {"title": "Scores", "rows_of": rows_of, **options}
    page = write_score_report(path / "report.html", metrics=metrics, languages=languages, **options)
    return page.read_text(encoding="utf-8"), asked


def test_rows_are_listed_once_from_both_ends():
    metric = ReportedMetric("mcs", {"all": np.array([0.5, 0.1, NAN, 0.9, 0.1, 0.7])})
    assert row_lists(metric, 2) == {"Lowest mcs": [1, 4], "Highest mcs": [3, 5]}
    # five scored rows: none is in both lists
    assert row_lists(metric, 9) == {"Lowest mcs": [1, 4, 0], "Highest mcs": [3, 5]}
    scores = {"a": np.array([0.5, 0.1, 0.4, 0.9]), "b": np.array([0.5, 0.8, 0.5, NAN])}
    assert row_lists(ReportedMetric("mcs", scores), 2) == {
        "Largest differences in mcs": [1, 2],  # row 0 does not differ, row 3 has no score of b
        "Lowest mean mcs": [1, 2],
        "Highest mean mcs": [0],
    }


@given(st.lists(st.floats(0, 2) | st.just(NAN), min_size=1, max_size=12), st.integers(1, 6))
def test_lists_hold_scored_rows_once_and_in_order(values, n):
    low, high = row_lists(ReportedMetric("mcs", {"all": np.array(values)}), n).values()
    assert not set(low) & set(high)
    assert not any(np.isnan(values[row]) for row in low + high)
    assert [values[row] for row in low] == sorted(values[row] for row in low)
    assert [values[row] for row in high] == sorted((values[row] for row in high), reverse=True)
    left = [values[row] for row in range(len(values)) if row not in low and not np.isnan(values[row])]
    assert not low or not left or max(values[row] for row in low) <= min(left)


def test_distribution_and_quantiles(tmp_path):
    scores = np.array([0.1] * 3 + [0.3] * 6 + [NAN])
    page, asked = report(tmp_path, [ReportedMetric("mcs", {"all": scores}, "mcs|w:2.5", ["A remark."])])
    counts = [int(count) for count in re.findall(r"<title>(\d+) rows</title>", page)]
    assert counts == [3, 6]
    assert "<td>0.233</td><td>9 (1 without)</td>" in page
    assert page.count("<td>0.300</td>") >= 3 and "A remark." in page and "mcs|<wbr>w:2.5" in page
    heights = [float(height) for height in re.findall(r'width="9" height="([\d.]+)"', page)]
    assert heights == [29.0, 58.0]
    assert asked == sorted(asked) and 9 not in asked


def test_means_per_language_and_system(tmp_path):
    scores = {"a": np.array([0.2, 0.4, 0.9]), "b": np.array([0.6, NAN, 0.5])}
    page, _ = report(tmp_path, [ReportedMetric("mcs", scores)], ["en", "en", "de"])
    table = page.partition("<h2>Languages</h2>")[2].partition("</table>")[0]
    assert re.findall(r'<th scope="row">(\w+)</th><td>(\d)</td><td>(.*?)</td><td>(.*?)</td>', table) == [
        ("English", "2", "0.300", "0.600"),
        ("German", "1", "0.900", "0.500"),
    ]
    assert "Languages" not in report(tmp_path, [ReportedMetric("mcs", scores)], ["en"] * 3)[0]


def test_rows_without_any_score(tmp_path):
    metric = ReportedMetric("mcs", {"all": np.array([NAN, NAN])})
    page, asked = report(tmp_path, [metric], notes=["no <photo>"])
    assert asked == [] and "<rect" not in page
    assert "no &lt;photo&gt;" in page


HOSTILE = '<script>alert("1")</script></section>&amp;\x1b[31m'


def test_texts_cannot_change_the_page(tmp_path):
    row = ReportedRow(HOSTILE, {HOSTILE: HOSTILE}, None, [HOSTILE], HOSTILE, HOSTILE)
    metric = ReportedMetric(HOSTILE, {HOSTILE: np.array([0.5])}, HOSTILE, [HOSTILE])
    page, _ = report(
        tmp_path, [metric], [HOSTILE], title=HOSTILE, rows_of=lambda numbers: {0: row}, notes=[HOSTILE]
    )
    assert "<script" not in page and "\x1b" not in page
    assert "default-src 'none'" in page and "http" not in page.partition("</style>")[2]


def test_names_of_photos_hold_no_secrets():
    assert photo_name("https://me:word@x.org/dir/a.jpg?token=key#part") == "a.jpg?…"
    assert photo_name("data:image/png;base64,AAAA") == "" and photo_name({"bytes": b""}) == ""
    assert (photo_name("dir/a.jpg"), photo_name(42), photo_name(True)) == ("a.jpg", "42", "")
