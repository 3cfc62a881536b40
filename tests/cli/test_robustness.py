"""`capscore robustness` as a person types it: tables, files, exit codes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from capscore.backbones.loading import load_backbone
from capscore.cli import app

from ..datasets_scripts.conftest import _own_cache, official, write_photos
from ..photos import encode
from ..toy import BLUE, RED, ColourBackbone

__all__ = ["_own_cache"]

pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


def run_command(*arguments, width=80):
    return CliRunner(env={"COLUMNS": str(width)}).invoke(app, ["robustness", *map(str, arguments)])


def flat(text):
    return " ".join(text.split())


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """Every backbone is a toy of its own, by name."""
    made = {}

    def load(name, **options):
        made[name] = ColourBackbone(fingerprint=name)
        made[name].name = name
        return made[name]

    monkeypatch.setattr("capscore.backbones.loading.load_backbone", load)
    monkeypatch.setenv("CAPSCORE_BACKBONE", "colours")
    return made


@pytest.fixture
def file(tmp_path):
    """Captions in two languages with their photos, and texts for them."""
    (tmp_path / "r.png").write_bytes(encode(RED))
    (tmp_path / "b.png").write_bytes(encode(BLUE))
    rows = [
        {"image": "r.png", "caption": "red red ball by a tree", "language": "en", "stand_in": "red"},
        {"image": "b.png", "caption": "two blue birds and a blue sea", "language": "en", "stand_in": "blue"},
        {"image": "r.png", "caption": "ein red Ball am Baum", "language": "de", "stand_in": "red"},
        {"image": "b.png", "caption": "zwei blue Vögel im Wasser", "language": "de", "stand_in": "blue"},
    ]
    path = tmp_path / "captions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_tables_in_80_columns(file):
    result = run_command("-m", "mcs", "--captions", file, "--kind", "all")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(len(line) for line in lines if "|" not in line) <= 80
    assert "mcs (colours)" in lines
    assert "mcs (colours), kinds that PR-MCS does not train on" in lines
    assert sum(line.startswith(("en   mean", "de   mean", "all  mean")) for line in lines) >= 6
    assert "en: 2 captions of 2 photos" in lines
    assert "images:photos" in result.stdout.replace("\n", "")
    assert result.stderr == ""


def test_all_that_can_be_written(file, tmp_path):
    out = tmp_path / "out"
    files = {
        name: out / f"r.{suffix}"
        for name, suffix in {"output": "json", "markdown": "md", "figure": "svg"}.items()
    }
    options = [part for name, path in files.items() for part in (f"--{name}", path)]
    arguments = ("-m", "mcs@one", "-m", "pr_mcs@two", "--captions", file)
    result = run_command(*arguments, "--quiet", *options)
    assert result.exit_code == 0 and result.stdout == "", result.output
    document = json.loads(files["output"].read_text())
    assert [run["language"] for run in document["runs"]] == ["en", "de"]
    first, second = document["runs"][0]["results"]
    assert (first["metric"], second["metric"], second["backbone"]) == ("mcs@one", "pr_mcs@two", "two")
    drop = {each["name"]: each for each in second["statistics"]}["drop_average"]
    assert drop["published"] is None and len(drop["interval"]) == 2
    assert document["averages"]["captions.jsonl"]["pr_mcs@two"]["drop_masking"]["published"] is None
    text = files["markdown"].read_text()
    assert text.startswith("## captions.jsonl\n")
    assert (
        "| language |  | original | repetition | removal | masking | jumble | substitution | average |"
        in text
    )
    assert "<svg" in files["figure"].read_text()
    again = run_command(*arguments, "--output", files["output"])
    assert again.exit_code == 2 and "exists; --force overwrites it" in flat(again.stderr)


def test_false_alarms_and_degrees_stand_beside_the_drops(file, tmp_path):
    output, markdown = tmp_path / "r.json", tmp_path / "r.md"
    arguments = ("-m", "mcs@one", "--captions", file, "--styles", "--degrees")
    result = run_command(*arguments, "--output", output, "--markdown", markdown)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(len(line) for line in lines if str(tmp_path) not in line and "|" not in line) <= 80
    assert "Right captions in other styles, mcs@one" in lines and "By degree, mcs@one" in lines
    document = json.loads(output.read_text())
    assert [run["language"] for run in document["styles"]] == ["en", "de"]
    (alarms,) = document["styles"][0]["results"]
    assert alarms["against"] == "mcs@one"
    assert alarms["styles"]["given"] == {"n": 2, "below_half": 0.0, "kept": 1.0, "not_scored": 0}
    (curves,) = document["degrees"][1]["results"]
    assert list(curves["kinds"]) == ["repetition", "removal", "masking", "jumble", "substitution"]
    assert curves["kinds"]["masking"]["degrees"] == [0.1, 0.2, 0.4, 0.6, 0.8]
    text = markdown.read_text()
    assert "### Right captions in other styles, mcs@one" in text and "### By degree, mcs@one" in text
    plain = run_command("-m", "mcs@one", "--captions", file, "--json")
    assert json.loads(plain.stdout).keys() == {"runs", "averages"}


def test_false_alarms_are_counted_against_the_backbone_that_a_metric_was_tuned_from(file, tmp_path, toys):
    tuned = tmp_path / "tuned"
    tuned.mkdir()
    (tuned / "capscore_tuned.json").write_text('{"base": "plain"}')
    result = run_command("-m", f"pr_mcs@{tuned}", "--captions", file, "--styles", "--json")
    assert result.exit_code == 0, result.output
    (alarms,) = json.loads(result.stdout)["styles"][0]["results"]
    assert alarms["against"] == "mcs@plain" and set(toys) == {str(tuned), "plain"}


def test_a_style_without_a_tagger_is_told(tmp_path, file):
    path = tmp_path / "sw.jsonl"
    path.write_text('{"image": "r.png", "caption": "mbwa red anakimbia", "language": "sw"}\n')
    result = run_command("-m", "mcs", "--captions", path, "--kind", "jumble", "--styles", "-q")
    assert result.exit_code == 3
    assert "sw.jsonl (sw): nouns was not measured." in flat(result.stderr)


def test_json_on_stdout_is_json(file):
    result = run_command("-m", "mcs", "--captions", file, "--json", "--kind", "jumble,typos")
    _, run = json.loads(result.stdout)["runs"]
    assert run["language"] == "de" and list(run["unchanged"]) == ["jumble", "typos"]


def test_two_backbones_are_two_rows(file, toys):
    result = run_command("-m", "mcs", "--backbone", "one", "--backbone", "two", "--captions", file)
    assert result.exit_code == 0, result.output
    assert "mcs@one" in result.stdout and "mcs@two" in result.stdout
    assert set(toys) == {"one", "two"}


def test_texts_stand_for_photos_and_the_plain_tower_embeds_them(file, tmp_path, toys):
    tuned = tmp_path / "tuned"
    tuned.mkdir()
    (tuned / "capscore_tuned.json").write_text('{"base": "plain"}')
    (tmp_path / "r.png").unlink()
    result = run_command("-m", "mcs@plain", "-m", f"pr_mcs@{tuned}", "--captions", file, "--stand-in")
    assert result.exit_code == 0, result.output
    assert result.stdout.replace("\n", "").count("images:stand-in,plain@w00000000") == 4
    assert set(toys) == {"plain", str(tuned)}
    assert toys["plain"].encoded_images == toys[str(tuned)].encoded_images == 0
    assert "an English caption, embedded by the plain tower" in flat(result.stdout)
    without = run_command("-m", "mcs", "--captions", file)
    assert without.exit_code == 1 and "line 1 (row 0 counted from 0): image: no such file" in flat(
        without.stderr
    )


def test_a_benchmark_by_configurations(tmp_path):
    official("xflickrco").write(tmp_path)
    write_photos("xflickrco", tmp_path)
    arguments = ("-m", "mcs", "--data", "xflickrco", "--data-dir", tmp_path)
    result = run_command(*arguments, "--config", "en", "--config", "de", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [run["language"] for run in document["runs"]] == ["en", "de"]
    assert document["averages"].keys() == {"xflickrco"}
    assert document["runs"][0]["files"].keys() == {"test.jsonl"}


def test_a_kind_without_rules_is_told_and_the_rest_is_measured(tmp_path, file):
    path = tmp_path / "sw.jsonl"
    path.write_text('{"image": "r.png", "caption": "mbwa red anakimbia", "language": "sw"}\n')
    result = run_command("-m", "mcs", "--captions", path, "--kind", "negation,jumble", "-q")
    assert result.exit_code == 3
    assert "negation was not measured. there are no rules for 'negation' in Swahili" in flat(result.stderr)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is nothing to measure: give --metric"),
        (("-m", "msc"), "metric 'msc' is not one of"),
        (("-m", "cider"), "cider compares captions with references; robustness is measured for"),
        (("-m", "mcs", "--kind", "jumbel"), "--kind jumbel: expected repetition"),
        (("-m", "mcs", "--kind", ","), "expected repetition"),
        (("-m", "mcs", "--p", "2"), "less than or equal to 1"),
        (("-m", "mcs", "--data", "xvnli"), "give either --data, for a benchmark, or --captions"),
        (("-m", "mcs", "--config", "de"), "--config de does not go with --captions"),
        (("-m", "mcs", "--degrees", "--kind", "typos"), "--degrees: expected one of repetition"),
        (("-m", "mcs", "--figure", "r.jpg"), "expected a name that ends in"),
        (("-m", "mcs", "--no-cache", "--cache-dir", "x"), "--no-cache and --cache-dir: give only one"),
        (("-m", "mcs", "--candidate-column", "capt"), "there is no such column"),
    ],
)
def test_wrong_usage(file, arguments, message):
    result = run_command(*arguments, "--captions", file)
    assert result.exit_code == 2, result.output
    assert message in flat(result.stderr)


def test_what_the_data_lack(file, tmp_path):
    official("xflickrco").write(tmp_path)
    arguments = ("-m", "mcs", "--data", "xflickrco", "--data-dir", tmp_path)
    result = run_command(*arguments, "--config", "de")
    assert result.exit_code == 1 and "the photo is missing" in flat(result.stderr)
    result = run_command("-m", "mcs", "--captions", tmp_path / "gone.jsonl")
    assert result.exit_code == 2 and "no such file" in flat(result.stderr)


def test_help_is_in_80_columns():
    result = run_command("--help")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_no_traceback_and_no_colour_in_errors(file):
    file.write_text('{"image": "r.png", "caption": "mbwa"}\n')
    result = run_command("-m", "mcs", "--captions", file)
    assert "has no column with languages of captions" in flat(result.stderr)
    assert "Traceback" not in result.output and "\x1b" not in result.output
    assert result.stderr.startswith("capscore: error: ")


def test_the_real_towers_and_a_tuned_one(file, tmp_path, embedded, monkeypatch):
    """From weights on disk to a table: a step of training away from the base, which embeds the stand-ins."""
    import torch

    from capscore.backbones.tuned import save_tuned

    monkeypatch.setattr("capscore.backbones.loading.load_backbone", load_backbone)
    student = load_backbone("embedded", device="cpu")
    first, second = student.embed_tokens(student.tokenize(["a cat", "a dog"]).ids)
    (first @ second).backward()
    torch.optim.SGD(student.text_network().parameters(), lr=0.5).step()
    save_tuned(student, tmp_path / "tuned", base=embedded, base_spec="embedded", recipe="one step")
    command = ("-m", "mcs@embedded", "-m", f"pr_mcs@{tmp_path / 'tuned'}", "--captions", file, "--stand-in")
    result = run_command(*command, "--json", "--no-cache", "--device", "cpu")
    assert result.exit_code == 0, result.output
    plain, tuned = json.loads(result.stdout)["runs"][0]["results"]
    assert plain["signature"].partition("|images:")[2] == tuned["signature"].partition("|images:")[2]
    assert f"images:stand-in,embedded@{embedded.revision}|" in tuned["signature"]
    assert tuned["backbone"] == "tuned" and "mean_original" == tuned["statistics"][0]["name"]
    assert plain["statistics"][0]["measured"] != tuned["statistics"][0]["measured"]
