"""The report of scores: which rows it shows, what it counts, and that texts cannot change the page."""

import csv
import json
import re

import numpy as np
import pytest

import capscore
from capscore.errors import RowWarning
from capscore.show.score_report import histogram, write_score_report
from capscore.tables import photo_name

from ..cli.conftest import photos, run, toys, write_jsonl

__all__ = ["photos", "toys"]
NAN = float("nan")
HOSTILE = '<script>alert("1")</script></section>&amp;\x1b[31m'


def test_a_histogram_begins_at_zero_or_below_and_ends_at_the_highest():
    found = histogram(np.array([0.1] * 3 + [0.3] * 6 + [NAN]))
    assert (found.low, found.high) == (0.0, 0.3) and found.mean == pytest.approx(2.1 / 9)
    assert found.place == pytest.approx(2.1 / 9 / 0.3)
    assert [(at, count) for at, count in enumerate(found.counts) if count] == [(10, 3), (29, 6)]
    assert [height for height in found.heights if height] == [0.5, 1.0]
    below, flat, empty = (histogram(np.array(given)) for given in ([-1.0, -0.5], [0.0] * 3, [NAN]))
    assert (below.low, below.high, below.place) == (-1.0, -0.5, pytest.approx(0.5))
    assert (flat.low, flat.high) == (0.0, 1.0)
    assert (empty.low, empty.high, empty.mean, empty.place) == (0.0, 1.0, None, None)


def test_a_page_has_rows_photos_languages_and_no_markup_of_others(photos, toys, tmp_path):
    columns = {"image": [f"{name}.png" for name in ("red", "blue", "none", "green")]}
    columns["language"] = ["en", "en", "de", "de"]
    columns["caption"] = ["a dog", "a blue ball", HOSTILE, None]
    columns["references"] = [["a dog"], ["a red ball"], ["a tree"], ["a tree"]]
    given = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    source, page = write_jsonl(photos / "<i>rows.jsonl", given), tmp_path / "page.html"
    made = ("--report", page, "--on-error", "skip")
    done = run("score", source, "-m", "rouge_l,mcs", "--backbone", "toy", *made)
    text = page.read_text(encoding="utf-8")
    assert done.exit_code == 3 and "<h1>&lt;i&gt;rows.jsonl: 4 rows</h1>" in text
    # 1, 2 of 3 words, 0
    assert '<th scope="row">3 (1 without)</th><td>0.556</td>' in text
    table = text.partition("<h2>Languages</h2>")[2].partition("</table>")[0]
    rows = re.findall(r'<th scope="row">(\w+)</th><td>(\d)</td><td>(.*?)</td>', table)
    assert rows == [("English", "2", "0.833"), ("German", "2", "0.000")]
    # nothing is calibrated, so half of the rows with a score are the lowest; none names a photo that is there
    data = json.loads(re.search(r'id="rows-data">(.*?)</script>', text, re.S)[1])
    reasons = {row["row"]: [*row["reasons"]] for row in data["rows"]}
    assert reasons == {2: ["score", "failed", "text"], 3: ["failed"]}
    assert data["rows"][0]["caption"] == HOSTILE
    assert "<" not in json.dumps(data).replace(json.dumps(HOSTILE), "")
    shown = re.findall('<img data-photo="0" alt="(.*?)" style="(.*?)">', text)
    assert shown == [("green.png", "aspect-ratio: 3 / 4")]
    assert len(data["photos"]) == 1 and data["rows"][0]["worst_first"] == 0.0
    listed = text.partition(">All rows<")[2]  # the lowest first, those without a score last
    assert re.findall(r'"Row" class="name">(line \d)<', listed) == [f"line {n}" for n in (3, 2, 1, 4)]
    assert "Mark" not in listed and '<option value="de">German</option>' in listed
    assert "2 rows could not be scored." in text and "a red ball" in text and "rouge_l|<wbr>" in text
    assert len(re.findall("<script>", text)) == 2 and "\x1b" not in text and "default-src 'none'" in text
    assert "http" not in text.partition("</style>")[2]
    one = write_jsonl(tmp_path / "one.jsonl", given[:1])
    run("score", one, "-m", "rouge_l", "--report", page, "--force")
    assert "Languages" not in page.read_text("utf-8") and "one.jsonl: 1 row<" in page.read_text("utf-8")


def test_names_of_photos_hold_no_secrets():
    assert photo_name("https://me:word@x.org/dir/a.jpg?token=key#part") == "a.jpg?…"
    assert photo_name("data:image/png;base64,AAAA") == "" and photo_name({"bytes": b""}) == ""
    assert (photo_name("dir/a.jpg"), photo_name(42), photo_name(True)) == ("a.jpg", "42", "")


# each on the page as it was at first → numbers of the rows that are shown, and of those in the saved file
ACTIONS = {
    "nothing": ("", [2, 1, 0], None),
    "by file": ("set('order', 'file')", [0, 1, 2], None),
    "by name": ("set('order', 'name')", [1, 2, 0], None),
    "words": ("set('text', 'DOG run')", [1], None),
    "reason": ("set('reason', 'text')", [0], None),
    "some": ("set('text', 'dog'); click('#tick-shown'); click('[data-save=jsonl]')", [1, 0], [1, 0]),
    "none": ("click('#tick-shown'); click('#untick'); click('[data-save=jsonl]')", [2, 1, 0], None),
    "by score": ("set('order', 'name'); set('order', 'score')", [2, 1, 0], None),
    "csv": ("set('order', 'file'); click('#tick-shown'); click('[data-save=csv]')", [0, 1, 2], [0, 1, 2]),
}
ACT = """
const form = document.querySelector("#check-filters"), files = {}, shown = {};
const set = (name, value) => { form[name].value = value; form[name].dispatchEvent(new Event("input")); };
const click = (selector) => document.querySelector(selector).click();
let blob;
URL.createObjectURL = (given) => { blob = given; return "#"; };
const rows = JSON.parse(document.querySelector("#rows-data").textContent).rows;
const captions = rows.map((row) => row.caption);
return (async () => {
  for (const [name, script] of Object.entries(ACTIONS)) {
    blob = null;
    eval(script);
    shown[name] = [...document.querySelectorAll("#cards > li:not([hidden]) .text")]
      .map((text) => rows[captions.indexOf(text.textContent)].row);
    files[name] = await blob?.text();
    set("text", ""), set("reason", ""), set("order", "score"), click("#untick");
  }
  return { shown, files };
})();
"""


@pytest.mark.slow
def test_rows_are_sorted_filtered_ticked_and_saved_in_the_browser(tmp_path, browser):
    texts = [("c.jpg", "a dog</s>", "a dog</s>"), ("a.jpg", '=a "dog" runs', "a dog")]
    texts += [("b.jpg", "a cat", "bird"), *[("d.jpg", "two", "two")] * 3]
    rows = [{"image_id": name, "caption": text, "references": [other]} for name, text, other in texts]
    with pytest.warns(RowWarning, match="special tokens"):
        scored = capscore.score_file(rows, "rouge_l", language="en")
    write_score_report(tmp_path / "page.html", scored)
    page = re.sub("<meta http-equiv.*?>", "", (tmp_path / "page.html").read_text("utf-8"))
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    browser.open((tmp_path / "page.html").as_uri())
    scripts = json.dumps({name: script for name, (script, *_) in ACTIONS.items()})
    found = browser.driver.execute_script(ACT.replace("ACTIONS", scripts))
    assert found["shown"] == {name: numbers for name, (_, numbers, _) in ACTIONS.items()}
    saved = {name: text for name, text in found["files"].items() if text}
    assert {*saved} == {name for name, (_, _, numbers) in ACTIONS.items() if numbers}
    captions = [row["caption"] for row in csv.DictReader(saved["csv"].split("\n"))]
    assert captions == ["a dog</s>", '\'=a "dog" runs', "a cat"]  # as capscore writes CSV
    assert [json.loads(line)["row"] for line in saved["some"].splitlines()] == ACTIONS["some"][2]
