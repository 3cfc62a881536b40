"""The report of scores: which rows it shows, what it counts, and that texts cannot change the page."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.show.score_report import histogram, lowest_and_highest
from capscore.tables import photo_name

from ..cli.conftest import photos, run, toys, write_jsonl

__all__ = ["photos", "toys"]
NAN = float("nan")
HOSTILE = '<script>alert("1")</script></section>&amp;\x1b[31m'


@given(st.lists(st.integers(), unique=True, max_size=12), st.integers(1, 6))
def test_lists_hold_rows_once_and_in_order(rising, n):
    low, high = lowest_and_highest(rising, n).values()
    assert not set(low) & set(high)
    assert low == rising[: len(low)] and high == rising[::-1][: len(high)] and max(len(low), len(high)) <= n


def test_a_histogram_begins_at_zero_or_below_and_ends_at_the_highest():
    found = histogram(np.array([0.1] * 3 + [0.3] * 6 + [NAN]))
    assert (found.low, found.high) == (0.0, 0.3) and found.mean == pytest.approx(2.1 / 9)
    assert found.place == pytest.approx(2.1 / 9 / 0.3)
    assert [(at, count) for at, count in enumerate(found.counts) if count] == [(10, 3), (29, 6)]
    assert [height for height in found.heights if height] == [0.5, 1.0]
    below = histogram(np.array([-1.0, -0.5]))
    assert (below.low, below.high, below.place) == (-1.0, -0.5, pytest.approx(0.5))
    empty = histogram(np.array([NAN]))
    assert (empty.low, empty.high, empty.mean, empty.place) == (0.0, 1.0, None, None)


def test_a_page_has_rows_photos_languages_and_no_markup_of_others(photos, toys, tmp_path):
    rows = [
        ("red.png", "a dog", "a dog", "en"),
        ("blue.png", "a blue ball", "a red ball", "en"),
        ("none.png", HOSTILE, "a tree", "de"),
        ("green.png", None, "a tree", "de"),
    ]
    names = ("image", "caption", "references", "language")
    given = [
        dict(zip(names, (image, text, [reference], code), strict=True))
        for image, text, reference, code in rows
    ]
    source = write_jsonl(photos / "<i>rows.jsonl", given)
    page = tmp_path / "page.html"
    done = run(
        "score", source, "-m", "rouge_l,mcs", "--backbone", "toy", "--report", page, "--on-error", "skip"
    )
    text = page.read_text(encoding="utf-8")
    assert done.exit_code == 3 and "<h1>&lt;i&gt;rows.jsonl: 4 rows</h1>" in text
    # 1, 2 of 3 words, 0
    assert "<td>0.556</td><td>3 (1 without)</td>" in text
    table = text.partition("<h2>Languages</h2>")[2].partition("</table>")[0]
    assert re.findall(r'<th scope="row">(\w+)</th><td>(\d)</td><td>(.*?)</td>', table) == [
        ("English", "2", "0.833"),
        ("German", "2", "0.000"),
    ]
    lowest = text.partition("Lowest rouge_l")[2].partition("<h2")[0]
    shown = re.findall(r'class="soft">(line \d) · (\w+\.png) · (\w+)</p>', lowest)
    assert shown == [("line 3", "none.png", "German"), ("line 2", "blue.png", "English")]
    listed = text.partition(">All rows<")[2]  # the lowest first, those without a score last
    assert re.findall(r'"Row" class="name">(line \d)<', listed) == [f"line {n}" for n in (3, 2, 1, 4)]
    assert "Mark" not in listed and '<option value="de">German</option>' in listed
    assert "2 rows could not be scored." in text and "a red ball" in text and "rouge_l|<wbr>" in text
    assert text.count("data:image/jpeg;base64,") == 2  # of three rows, one names no photo that is there
    assert text.count("<script") == 1 and "\x1b" not in text and "default-src 'none'" in text
    assert "http" not in text.partition("</style>")[2]
    one = write_jsonl(tmp_path / "one.jsonl", given[:1])
    run("score", one, "-m", "rouge_l", "--report", page, "--force")
    assert "Languages" not in page.read_text("utf-8") and "one.jsonl: 1 row<" in page.read_text("utf-8")


def test_names_of_photos_hold_no_secrets():
    assert photo_name("https://me:word@x.org/dir/a.jpg?token=key#part") == "a.jpg?…"
    assert photo_name("data:image/png;base64,AAAA") == "" and photo_name({"bytes": b""}) == ""
    assert (photo_name("dir/a.jpg"), photo_name(42), photo_name(True)) == ("a.jpg", "42", "")
