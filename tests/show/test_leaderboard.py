"""Files of results, their stamp, schema and page, and BibTeX of what stands behind a number."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from packaging.version import Version

import capscore
from capscore.backbones import registry
from capscore.benchmarks.result_file import check_document, environment, read_results, runs_of, stamped
from capscore.errors import InputError
from capscore.metrics.rows import parse_signature
from capscore.registry import METRICS
from capscore.show.citations import cite, entries, keys_of_backbone
from capscore.show.pages import leaderboard_page

from ..cli.conftest import run
from ..processes import ROOT
from ..shipped_weights import pr_mcs_on


def statistic(name, measured, interval=None, **more):
    return {"name": name, "measured": measured, "interval": interval, "n": 9, **more}


def result(metric, *statistics, backbone=None, signature="", n_rows=9):
    named = {"metric": metric, "backbone": backbone, "signature": signature or metric}
    return {**named, "statistics": [*statistics], "counts": {}, "n_rows": n_rows}


PUBLISHED, SIGNATURE = {"value": 0.7, "source": "Somebody 2020"}, "mcs|backbone:embedded@w4e728dcc|lang:en"
ACCURACY = statistic("accuracy", 0.625, [0.5, 0.75], published=[PUBLISHED])
RUN = {
    **{"benchmark": "valse", "config": "existence", "split": "test", "files": {"existence.json": 64 * "a"}},
    **{"script_version": "1.0.0", "capscore_version": "0.6.0", "n_rows": 9},
    "options": {"raters": "flatten", "bootstrap": 9, "confidence": 0.9, "seed": 0, "missing": "raise"},
    "results": [
        result("mcs", ACCURACY, statistic("auc", None), backbone="embedded", signature=SIGNATURE, n_rows=8),
        result("theirs", statistic("accuracy", 0.5), signature="theirs <b>.jsonl, matched by id"),
    ],
}


def written(folder: Path, document: object) -> Path:
    (folder / "one.json").write_text(json.dumps(document), encoding="utf-8")
    return folder / "one.json"


def numbers_of(folder: Path, *results):
    return read_results([written(folder, stamped({**RUN, "results": [*results]}))])


def test_a_stamp_says_what_computed_it_and_nothing_of_the_machine():
    found = environment()
    assert set(found) == {"python", "system", "machine", "packages"}
    assert found["packages"]["numpy"] and found["packages"]["torch"]
    assert check_document(stamped(RUN), "it")["benchmark"] == "valse"
    assert runs_of(stamped({"runs": [RUN, RUN]})) == [RUN, RUN]


def test_numbers_of_a_file(tmp_path):
    numbers = read_results([written(tmp_path, stamped({"runs": [RUN]}))])
    main = [(one.metric, one.statistic) for one in numbers if one.main]
    assert main == [("mcs", "accuracy"), ("theirs", "accuracy")]
    first, theirs, nothing = numbers
    assert (first.value, first.interval) == (0.625, (0.5, 0.75))
    assert (first.published, first.source) == (0.7, "Somebody 2020")
    assert (first.language, first.licence, first.parameters > 10**7) == ("en", "CC-BY-NC-4.0", True)
    assert (first.n_rows, first.n_of, first.file) == (8, 9, "one.json")
    assert (theirs.backbone, theirs.language, theirs.licence, nothing.value) == ("", "", "", None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"environment"', '"other"', "'environment' is a required property"),
        ("0.625", '"high"', "results/0/statistics/0/measured: 'high' is not of type"),
        ("[0.5, 0.75]", "[1]", "interval"),
        (64 * "a", "none", "files/existence.json: 'none' does not match"),
        *(("0.625", "NaN", "has NaN"), ("0.625", 400 * "9", "results/0/statistics/0/measured: 999")),
        ("0.625", "7.5", "results/0/statistics/0/measured: 7.5 is greater"),
        ('"n_rows": 8', f'"n_rows": {400 * "9"}', "results/0/n_rows: 999"),
        *((None, "null", "None is not of type 'object'"), (None, 100_000 * "[", "not valid JSON")),
    ],
)
def test_files_without_results_are_named(tmp_path, old, new, message):
    path = tmp_path / "one.json"
    path.write_text(json.dumps(stamped(RUN)).replace(old, new) if old else new)
    with pytest.raises(InputError) as raised:
        read_results([path])
    assert str(path) in str(raised.value) and message in str(raised.value)


def test_numbers_are_sorted_and_a_figure_of_something_else_is_not_shown_as_published(tmp_path):
    figure = PUBLISHED | {"standing": "not comparable: another backbone"}
    measured = {"cider": 0.5, "mcs": None, "theirs": 0.75}
    results = [result(name, statistic("accuracy", value)) for name, value in measured.items()]
    results[0]["statistics"][0]["published"] = [figure]
    numbers = numbers_of(tmp_path, *results)
    assert [one.metric for one in numbers] == ["theirs", "cider", "mcs"] and numbers[1].published is None
    assert numbers[1].source == "Somebody 2020: 70.0; not comparable: another backbone"
    cell = 'data-name="Published" class="number more" data-sort="" title="Somebody'
    assert cell in leaderboard_page(numbers, "")
    measured = {"worse": 54.75, "better": 8.29}  # of 1 − R², less is better, and it may be above 1
    results = [result(name, statistic("one_minus_r2", of, [of, of])) for name, of in measured.items()]
    assert [one.metric for one in numbers_of(tmp_path, *results)] == ["better", "worse"]


def test_the_page_has_titles_and_metrics_in_their_order(tmp_path):
    names = ("theirs", "bleu_4", "ref_clip_score", "infometic_plus", "mcs")
    results = [result(name, statistic("accuracy", 0.5)) for name in names]
    page = leaderboard_page(numbers_of(tmp_path, *results), "Title")
    titles = ["MCS", "InfoMetIC+", "RefCLIPScore", "BLEU-4", "theirs"]
    assert re.findall(r'data-name="Metric">([^<]*)<', page) == titles
    choices = re.search(r'<select name="metric">(.*?)</select>', page, re.DOTALL)[1]
    assert re.findall(r'value="(\w+)">([^<]*)<', choices) == list(zip(reversed(names), titles, strict=True))
    assert page.count(">VALSE · existence<") == 5 and '<option value="valse">VALSE</option>' in page


def test_the_page_escapes_foreign_text_and_loads_nothing(tmp_path):
    path = written(tmp_path, stamped(RUN))
    shown = run("leaderboard", path).stdout
    assert "62.50" in shown and "auc" not in shown
    page = leaderboard_page(read_results([path]), "<i>Title</i>")
    assert "theirs &lt;b&gt;.jsonl" in page and "<i>Title" not in page
    assert "62.50" in page and "50.0 to 75.0" in page and 'title="Somebody 2020"' in page
    assert not re.search(r'(src|href)="(?!#)', page)
    (digest,) = re.findall(r"script-src '(sha256-[^']+)'", page)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert digest == "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def test_results_of_the_repository_are_of_the_schema_and_of_the_weights_that_ship(embedded, embedded_free):
    shipped = {towers.name: towers for towers in (embedded, embedded_free, pr_mcs_on(embedded))}
    for number in read_results([ROOT / "results"]):
        assert number.value is None or -1 <= number.value <= 1
        assert Version(number.version) <= Version(capscore.__version__)
        assert number.file.startswith(number.benchmark)
        if towers := shipped.get(number.backbone):
            backbone = parse_signature(number.signature)[1]["backbone"]
            assert backbone == f"{towers.name}@{towers.revision}", number.file


MCS = "mcs|backbone:embedded@w4e728dcc|w:2.5|prefix:none|refs:0|lang:en|dtype:fp32|exif:yes|version:0.6.0"


def test_every_entry_has_its_parts():
    for key, entry in entries().items():
        assert entry.count("{") == entry.count("}"), key
        assert all(part in entry for part in ("title = ", "author = ", "year = {")), key


def test_every_metric_and_every_known_backbone_has_a_paper():
    assert all(METRICS.get(name).citation for name in METRICS.builtin)
    used = {key for name in METRICS.builtin for key in METRICS.get(name).citation}
    of_backbones = [keys_of_backbone(name) for name in registry()]
    assert all(of_backbones) and used.union(*of_backbones) == set(entries()), "none is left over"


def test_the_entry_of_a_module_is_the_same():
    for path in ROOT.glob("metrics/*/[a-z]*.py"):
        if path.stem == path.parent.name:
            citation = re.search(r'_CITATION = r?"""(.*?)"""', path.read_text("utf-8"), re.DOTALL)
            assert citation and citation[1].replace("\\\n", "").strip() in entries().values(), path


def test_a_signature_is_cited_with_library_metric_backbone_and_benchmark():
    found, notes = cite(MCS, ["valse"])
    towers = ["hessel-etal-2021-clipscore", "yang-etal-2020-multilingual", "tan-le-2019-efficientnet"]
    keys = [re.match(r"@\w+\{([\w-]+),", entry)[1] for entry in found[:-1]]
    assert keys == ["capscore", "kim-etal-2023-pr-mcs", *towers]
    assert "VALSE" in found[-1] and "version = {0.6.0}" in found[0] and notes == []
    found, notes = cite("mcs|backbone:someone/tower@0123|version:0.6.0")
    assert len(found) == len(cite("mcs")[0]) == 3
    assert notes == ["no citation is known for the backbone someone/tower: see its own card"]
    for text in ("", "nonsense|a:b", "mcs|what"):
        with pytest.raises(InputError):
            cite(text)


def test_a_result_file_is_cited_as_its_signatures(tmp_path):
    done = run("cite", MCS, "--data", "valse")
    assert done.exit_code == 0 and done.stdout.startswith("@software{capscore,")
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"benchmark": "valse", "results": [{"signature": MCS}]}))
    assert run("cite", path).stdout == done.stdout
    path.write_text(json.dumps({"metrics": {"mcs": {"signature": MCS}, "own": {"signature": None}}}))
    assert run("cite", path, "--data", "valse").stdout == done.stdout
    path.write_text("[]")
    assert "is not a result file" in run("cite", path).stderr
