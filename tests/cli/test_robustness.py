"""`capscore robustness`: tables, files, styles and degrees, exit codes."""

import json

import pytest

from tools.tiny.colours import BLUE, RED, ColourBackbone

from ..datasets_scripts.conftest import official, write_photos
from ..photos import encode
from .conftest import HALF, assert_refused, flat, run, write_jsonl


@pytest.fixture(autouse=True)
def backbones(toys, monkeypatch):
    monkeypatch.setenv("CAPSCORE_BACKBONE", "colours")
    return toys


@pytest.fixture
def file(tmp_path):
    for name, pixels in (("r", RED), ("b", BLUE)):
        (tmp_path / f"{name}.png").write_bytes(encode(pixels))
    rows = [
        {"image": "r.png", "caption": "red red ball by a tree", "language": "en"},
        {"image": "b.png", "caption": "two blue birds and a blue sea", "language": "en"},
        {"image": "r.png", "caption": "ein red Ball am Baum", "language": "de"},
        {"image": "b.png", "caption": "zwei blue Vögel im Wasser", "language": "de"},
    ]
    return write_jsonl(tmp_path / "captions.jsonl", rows)


def test_drops_are_in_tables_per_language(file):
    done = run("robustness", "-m", "mcs", file, "--kind", "all")
    lines = done.stdout.splitlines()
    assert {"mcs (colours)", "mcs (colours), kinds that PR-MCS does not train on"} <= set(lines)
    assert sum(line.startswith(("en   mean", "de   mean", "all  mean")) for line in lines) >= 6
    assert "en: 2 captions of 2 photos" in lines and "images:photos" in done.stdout.replace("\n", "")


def test_a_judge_has_drops_and_no_retrieval(file, judge):
    done = run("robustness", "-m", "judge@b", "-k", "jumble", file, "--json")
    (result,) = json.loads(done.stdout)["runs"][0]["results"]
    found = {each["name"]: each["measured"] for each in result["statistics"]}
    assert judge == ["b"] and found["drop_jumble"] is not None and found["text_to_image_r@1"] is None


def test_all_that_can_be_written(file, tmp_path, backbones):
    files = {name: tmp_path / f"r.{name}" for name in ("json", "md")}
    options = ("--output", files["json"], "--markdown", files["md"])
    done = run("robustness", "-m", "mcs", "-m", "pr_mcs@two", "--backbone", "one", file, "-q", *options)
    assert (done.exit_code, done.stdout) == (0, "") and set(backbones) == {"one", "two"}
    document = json.loads(files["json"].read_text())
    assert [run["language"] for run in document["runs"]] == ["en", "de"]
    first, second = document["runs"][0]["results"]
    assert (first["metric"], second["metric"], second["backbone"]) == ("mcs", "pr_mcs@two", "two")
    assert len({each["name"]: each for each in second["statistics"]}["drop_average"]["interval"]) == 2
    assert document["averages"]["captions.jsonl"]["pr_mcs@two"]["drop_masking"]["published"] is None
    kinds = "repetition | removal | masking | jumble | substitution"
    assert f"| language |  | original | {kinds} | average |" in files["md"].read_text()


def test_false_alarms_and_degrees_are_shown_with_the_drops(file, tmp_path):
    output, markdown = tmp_path / "r.json", tmp_path / "r.md"
    given = ("-m", "mcs@one", file)
    done = run("robustness", *given, "--styles", "--degrees", "--output", output, "--markdown", markdown)
    for shown in (done.stdout, markdown.read_text()):
        assert "Right captions in other styles, mcs@one" in shown and "By degree, mcs@one" in shown
    document = json.loads(output.read_text())
    (alarms,), (curves,) = document["styles"][0]["results"], document["degrees"][1]["results"]
    assert alarms["against"] == "mcs@one"
    assert alarms["styles"]["given"] == {"n": 2, "below_half": 0.0, "kept": 1.0, "not_scored": 0}
    assert list(curves["kinds"]) == ["repetition", "removal", "masking", "jumble", "substitution"]
    assert curves["kinds"]["masking"]["degrees"] == [0.1, 0.2, 0.4, 0.6, 0.8]
    document = json.loads(run("robustness", *given, "--json", "--kind", "jumble,typos").stdout)
    assert document.keys() == {"runs", "averages"}
    assert list(document["runs"][1]["unchanged"]) == ["jumble", "typos"]


def test_false_alarms_are_against_the_backbone_that_a_metric_was_tuned_from(file, backbones, monkeypatch):
    monkeypatch.setattr(ColourBackbone, "tuned_from", "plain")
    done = run("robustness", "-m", "pr_mcs@tuned", file, "--styles", "--json")
    (alarms,) = json.loads(done.stdout)["styles"][0]["results"]
    assert alarms["against"] == "mcs@plain" and set(backbones) == {"tuned", "plain"}


def test_a_kind_without_rules_in_a_language_is_named_and_has_no_average(tmp_path, file):
    captions = {"sw": "mbwa red yuko", "en": "two red and blue dogs run"}
    rows = [{"image": "r.png", "caption": text, "language": code} for code, text in captions.items()]
    given = ("-m", "mcs", write_jsonl(tmp_path / "sw.jsonl", rows), "--kind", "negation,jumble", "--styles")
    done = run("robustness", *given, "-q")
    assert done.exit_code == 3 and "sw.jsonl (sw): nouns was not measured." in flat(done.stderr)
    assert "negation was not measured. there are no rules for 'negation' in Swahili" in flat(done.stderr)
    averages = json.loads(run("robustness", *given, "--json").stdout)["averages"]["sw.jsonl"]["mcs"]
    # red alone, and red beside blue
    assert averages["mean_original"]["measured"] == pytest.approx((2.5 + HALF) / 2)
    assert averages["drop_negation"]["measured"] is None


def test_a_benchmark_by_configurations(tmp_path):
    official("xflickrco").write(tmp_path)
    given = ("-m", "mcs", "--data", "xflickrco", "--data-dir", tmp_path, "--config", "de")
    assert_refused(run("robustness", *given), "the photo is missing", 1)
    write_photos("xflickrco", tmp_path)
    document = json.loads(run("robustness", *given, "--config", "en", "--json").stdout)
    assert [run["language"] for run in document["runs"]] == ["de", "en"]
    assert document["averages"].keys() == {"xflickrco"}
    assert document["runs"][0]["files"].keys() == {"test.jsonl"}
