"""`capscore robustness` as a person types it: tables, files, exit codes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from capscore.backbones.loading import load_backbone
from capscore.cli import app

from ..benchmarks.test_run import rated
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
    result = run_command("-m", "mcs", "--captions", file, "--kind", "all", "--bootstrap", 20)
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
        for name, suffix in {"output": "json", "markdown": "md", "figure": "svg", "bars": "png"}.items()
    }
    options = [part for name, path in files.items() for part in (f"--{name}", path)]
    arguments = ("-m", "mcs@one", "-m", "pr_mcs@two", "--captions", file, "--beside", "coco_captions")
    result = run_command(*arguments, "--bootstrap", 0, "--quiet", *options)
    assert result.exit_code == 0 and result.stdout == "", result.output
    document = json.loads(files["output"].read_text())
    assert [run["language"] for run in document["runs"]] == ["en", "de"]
    first, second = document["runs"][0]["results"]
    assert (first["metric"], second["metric"], second["backbone"]) == ("mcs@one", "pr_mcs@two", "two")
    drop = {each["name"]: each for each in second["statistics"]}["drop_average"]
    assert drop["published"]["value"] == -0.7886 and drop["interval"] is None
    average = document["averages"]["captions.jsonl"]["pr_mcs@two"]["drop_masking"]
    assert average["published"] == pytest.approx((-0.9921 - 0.9867) / 2)
    assert document["runs"][0]["unchanged"].keys() == second["perturbations"].keys()
    text = files["markdown"].read_text()
    assert text.startswith("## captions.jsonl\n")
    assert (
        "| language |  | original | repetition | removal | masking | jumble | substitution | average |"
        in text
    )
    assert "<svg" in files["figure"].read_text()
    assert files["bars"].read_bytes().startswith(b"\x89PNG")
    again = run_command(*arguments, "--output", files["output"])
    assert again.exit_code == 2 and "exists; --force overwrites it" in flat(again.stderr)


def test_false_alarms_and_degrees_stand_beside_the_drops(file, tmp_path):
    output, markdown = tmp_path / "r.json", tmp_path / "r.md"
    arguments = ("-m", "mcs@one", "--captions", file, "--bootstrap", 0, "--styles", "--degrees")
    result = run_command(*arguments, "--against", "mcs@two", "--output", output, "--markdown", markdown)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(len(line) for line in lines if str(tmp_path) not in line and "|" not in line) <= 80
    assert "Right captions in other styles, mcs@one" in lines and "By degree, mcs@one" in lines
    document = json.loads(output.read_text())
    assert [run["language"] for run in document["styles"]] == ["en", "de"]
    (alarms,) = document["styles"][0]["results"]
    assert alarms["against"] == "mcs@two"
    assert alarms["styles"]["given"] == {"n": 2, "below_half": 0.0, "kept": 1.0, "not_scored": 0}
    (curves,) = document["degrees"][1]["results"]
    assert list(curves["kinds"]) == ["repetition", "removal", "masking", "jumble", "substitution"]
    assert curves["kinds"]["masking"]["degrees"] == [0.1, 0.2, 0.4, 0.6, 0.8]
    text = markdown.read_text()
    assert "### Right captions in other styles, mcs@one" in text and "### By degree, mcs@one" in text
    plain = run_command("-m", "mcs@one", "--captions", file, "--bootstrap", 0, "--json")
    assert json.loads(plain.stdout).keys() == {"runs", "averages", "agreement"}


def test_false_alarms_are_counted_against_the_backbone_that_a_metric_was_tuned_from(file, tmp_path, toys):
    tuned = tmp_path / "tuned"
    tuned.mkdir()
    (tuned / "capscore_tuned.json").write_text('{"base": "plain"}')
    result = run_command("-m", f"pr_mcs@{tuned}", "--captions", file, "--bootstrap", 0, "--styles", "--json")
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
    options = ("--kind", "jumble,typos", "--languages", "de")
    result = run_command("-m", "mcs", "--captions", file, "--json", *options)
    (run,) = json.loads(result.stdout)["runs"]
    assert run["language"] == "de" and list(run["unchanged"]) == ["jumble", "typos"]


@pytest.mark.parametrize(("arguments", "order"), [((), "published"), (("--order", "every"), "every")])
def test_the_order_of_exchanged_objects(file, arguments, order):
    options = ("--kind", "substitution", "--languages", "en", "--bootstrap", 0, *arguments)
    result = run_command("-m", "mcs", "--captions", file, "--json", *options)
    assert result.exit_code == 0, result.output
    (run,) = json.loads(result.stdout)["runs"]
    assert run["options"]["order"] == order
    assert run["results"][0]["signature"].endswith(f"|order:{order}")


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


def test_a_benchmark_by_languages(tmp_path):
    official("xflickrco").write(tmp_path)
    write_photos("xflickrco", tmp_path)
    arguments = ("-m", "mcs", "--data", "xflickrco", "--data-dir", tmp_path, "--bootstrap", 0)
    by_language = run_command(*arguments, "--languages", "en,de", "--json")
    by_config = run_command(*arguments, "--config", "en", "--config", "de", "--json")
    assert by_language.exit_code == 0, by_language.output
    first, second = (json.loads(result.stdout) for result in (by_language, by_config))
    assert [run["language"] for run in first["runs"]] == ["en", "de"]
    assert first["averages"] == second["averages"]
    assert first["runs"][0]["files"].keys() == {"test.jsonl"}


def test_agreement_with_ratings_stands_below(file, tmp_path):
    ratings = tmp_path / "ratings"
    ratings.mkdir()
    rated(ratings)
    arguments = ("-m", "mcs", "--captions", file, "--bootstrap", 0)
    agreement = ("--agreement", f"flickr8k_human/expert={ratings}")
    result = run_command(*arguments, "--stand-in", *agreement)
    assert result.exit_code == 0, result.output
    assert "flickr8k_human · expert (test, 12 rows)" in result.stdout
    assert "its first reference" in flat(result.stdout)
    without_photos = run_command(*arguments, "--quiet", *agreement)
    assert without_photos.exit_code == 3
    assert "mcs was not run. mcs looks at photos" in flat(without_photos.stderr)


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
        (("-m", "mcs", "--languages", "xyzzy"), "unknown language code 'xyzzy'"),
        (("-m", "mcs", "--p", "2"), "less than or equal to 1"),
        (("-m", "mcs", "--removal", "no"), "'no' is not one of 'keep'"),
        (("-m", "mcs", "--order", "all"), "'all' is not one of 'published',"),
        (("-m", "mcs", "--data", "xvnli"), "give either --data, for a benchmark, or --captions"),
        (("-m", "mcs", "--config", "de"), "--config de does not go with --captions"),
        (("-m", "mcs", "--beside", "xvnli"), "--beside xvnli: expected coco_captions"),
        (("-m", "mcs", "--agreement", "flickr8k"), "--agreement flickr8k: expected BENCHMARK=FOLDER"),
        (("-m", "mcs", "--agreement", "flickr=x"), "there is no benchmark 'flickr'"),
        (("-m", "mcs", "--against", "mcs"), "--against mcs belongs to --styles"),
        (("-m", "mcs", "--styles", "--against", "cider"), "cider compares captions with references"),
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
    result = run_command("-m", "mcs", "--captions", file, "--languages", "fr")
    assert result.exit_code == 1 and "has no captions in 'fr'" in flat(result.stderr)
    official("xflickrco").write(tmp_path)
    arguments = ("-m", "mcs", "--data", "xflickrco", "--data-dir", tmp_path)
    result = run_command(*arguments, "--languages", "fr")
    assert result.exit_code == 1 and "xflickrco has no captions in 'fr'" in flat(result.stderr)
    result = run_command(*arguments, "--config", "de", "--languages", "en", "--stand-in")
    assert result.exit_code == 1 and "xflickrco has no captions in 'en'" in flat(result.stderr)
    result = run_command(*arguments, "--config", "de")
    assert result.exit_code == 1 and "the photo is missing" in flat(result.stderr)
    result = run_command("-m", "mcs", "--captions", tmp_path / "gone.jsonl")
    assert result.exit_code == 2 and "no such file" in flat(result.stderr)


def test_help_is_in_80_columns():
    result = run_command("--help")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "BENCHMARK[/CONFIG]=FOLDER" in flat(result.stdout.replace("│", " "))


def test_no_traceback_and_no_colour_in_errors(file):
    result = run_command("-m", "mcs", "--captions", file, "--languages", "fr")
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
    result = run_command(*command, "--json", "--no-cache", "--device", "cpu", "--bootstrap", 0)
    assert result.exit_code == 0, result.output
    plain, tuned = json.loads(result.stdout)["runs"][0]["results"]
    assert plain["signature"].partition("|images:")[2] == tuned["signature"].partition("|images:")[2]
    assert f"images:stand-in,embedded@{embedded.revision}|" in tuned["signature"]
    assert tuned["backbone"] == "tuned" and "mean_original" == tuned["statistics"][0]["name"]
    assert plain["statistics"][0]["measured"] != tuned["statistics"][0]["measured"]
