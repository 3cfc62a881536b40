"""`capscore benchmark` and `capscore data`: metrics, backbones and systems; output, files, exit codes."""

import json

import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

import capscore
from tools.tiny.colours import BLUE, RED, ColourBackbone
from tools.tiny.systems import write_set, write_systems

from ..datasets_scripts.conftest import official
from ..photos import encode, noise
from .conftest import assert_refused, flat, json_lines, run, write_jsonl


def benchmark(folder, *arguments):
    expert = ("--data", "flickr8k_human", "--config", "expert", "--data-dir", folder)
    return run("benchmark", *expert, "--bootstrap", 0, *arguments)


def lines_of(done):
    return [line.split() for line in done.stdout.splitlines()]


def test_tables_show_published_figures_beside_measured_ones(flickr):
    shown = flat(benchmark(flickr, "--metric", "cider", "--metric", "rouge_l", "--bootstrap", 50).stdout)
    assert "flickr8k_human · expert (test, 12 rows)" in shown and "[1] Hu et al. 2023, Table 1" in shown
    for metric, value in (("cider", 43.9), ("rouge_l", 32.3)):
        assert f"{metric}: published, but not comparable (12 rows, not 5,664): τ_c {value} [1]" in shown


def test_scores_of_others_are_matched_and_missing_ones_left_out_on_demand(flickr, tmp_path):
    queries = tmp_path / "queries.jsonl"
    done = benchmark(flickr, "--write-queries", queries)
    assert done.exit_code == 0 and "12 rows to score are in" in done.stderr
    rows = json_lines(queries.read_text())
    assert set(rows[0]) == {"id", "image_id", "image", "caption", "references", "language"}
    mine = write_jsonl(tmp_path / "mine.jsonl", [{**row, "score": number} for number, row in enumerate(rows)])
    done = benchmark(flickr, "--scores", mine, "--scores", f"again={mine}")
    assert "mine.jsonl, column score, rows matched by id" in done.stdout
    assert [line[0] for line in lines_of(done) if "τ_c" in line] == ["mine", "again"]
    write_jsonl(mine, [{"id": row["id"], "score": n or None} for n, row in enumerate(rows[:-1])])
    assert_refused(benchmark(flickr, "--scores", mine), "no score for 1 of 12 queries", 1)
    done = benchmark(flickr, "--scores", mine, "--missing", "skip")
    assert "10 items, 30 ratings" in done.stdout and "no score for 1 of 12 queries" in flat(done.stdout)


def test_a_suite_runs_available_benchmarks_and_fails_without_any(flickr, tmp_path):
    suite = ("benchmark", "--suite", "english", "--metric", "rouge_l", "--bootstrap", 0, "--data-dir")
    (tmp_path / "empty").mkdir()
    (flickr / "ExpertAnnotations.txt").write_text("broken\n")
    told = "flickr8k_human · crowdflower", "Damaged", "Not run", "there is no folder"
    for folder, parts in ((flickr.parent, told), (tmp_path / "empty", ["'english'"])):
        done = run(*suite, folder)
        assert done.exit_code == 1 and all(part in done.output for part in parts)


class Backwards(ColourBackbone):
    def encode_pixels(self, pixels):
        return super().encode_pixels([pixel.flip(0) for pixel in pixels])


@pytest.fixture
def photographed(flickr, toys, monkeypatch):
    (flickr / "images").mkdir(exist_ok=True)
    for number, colour in enumerate((RED, BLUE, noise(seed=1), noise(seed=2))):
        (flickr / "images" / f"{number}.jpg").write_bytes(encode(colour, "JPEG"))
    load = capscore.backbones.load_backbone

    def changed(name, **options):
        if name in ("BAAI/AltCLIP", "BAAI/AltCLIP-m9"):
            raise capscore.BackboneUnavailable(f"{name!r} is not available: no network here.\nInstead: …")
        return Backwards(fingerprint=name) if name == "embedded-free" else load(name)

    monkeypatch.setattr("capscore.backbones.load_backbone", changed)
    return flickr


TWO = ("--backbone", "embedded", "--backbone", "embedded-free")


def test_each_backbone_is_a_row(photographed, tmp_path):
    both = ("--config", "crowdflower", *TWO, "--output", tmp_path / "t.json", "--no-cache")
    done = benchmark(photographed, *both)
    assert done.exit_code == 0, done.output
    expert, crowd = json.loads((tmp_path / "t.json").read_text())["runs"]
    assert [crowd["results"][0]["statistics"][0]["name"], crowd["config"]] == ["tau_b", "crowdflower"]
    assert [result["metric"] for result in expert["results"]] == ["mcs@embedded", "mcs@embedded-free"]
    values = [result["statistics"][0]["measured"] for result in expert["results"]]
    # that the number is scipy's: tests/benchmarks/test_run.py
    for toy, value in zip((ColourBackbone(), Backwards()), values, strict=True):
        made = {"mcs": lambda toy=toy: capscore.load("mcs", backbone=toy, cache=False)}
        where = {"config": "expert", "data_dir": photographed, "bootstrap": 0}
        (run,) = capscore.benchmark("flickr8k_human", made, **where).runs
        assert run.results[0].value("tau_c") == pytest.approx(value, abs=1e-6)
        assert f"{100 * value:.2f}".replace("-", "−") in done.stdout
    assert values[0] != values[1]


def test_a_backbone_that_fails_does_not_stop_the_others(photographed, monkeypatch):
    done = benchmark(photographed, *TWO, "--backbone", "BAAI/AltCLIP-m9")
    assert done.exit_code == 3 and "mcs@BAAI/AltCLIP-m9: not run." in flat(done.stdout)
    assert "no network here." in flat(done.stdout)
    assert any(line[0] == "mcs@embedded" for line in lines_of(done) if "τ_c" in line)

    def full(self, pixels):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Backwards, "encode_pixels", full)
    done = benchmark(photographed, *TWO, "--no-cache")
    assert done.exit_code == 3 and "mcs@embedded-free: not run." in flat(done.stdout)
    done = benchmark(photographed, "--quiet", "--backbone", "BAAI/AltCLIP-m9", "--backbone", "BAAI/AltCLIP")
    assert_refused(done, "no network here.", 1)


def test_numbers_are_written_into_the_folder_of_the_model_as_the_hub_reads_them(photographed, tmp_path):
    (tmp_path / "own").mkdir()
    hub = ("--eval-results", tmp_path / "own", "--org", "lab")
    given = ("-m", "cider", "-m", "mcs", *TWO[:2], "--output", tmp_path / "o.json")
    done = benchmark(photographed, *given, *hub)
    assert done.exit_code == 0 and "written for the Hub: " in done.stderr, done.output
    (file,) = (tmp_path / "own" / ".eval_results").iterdir()
    entries = parse_eval_result_entries(yaml.safe_load(file.read_text()))
    measured = json.loads((tmp_path / "o.json").read_text())["results"][1]["statistics"]
    rounded = {f"expert_test_{one['name']}": round(100 * one["measured"], 2) for one in measured}
    assert {entry.task_id: entry.value for entry in entries} == rounded
    assert {entry.dataset_id for entry in entries} == {"lab/flickr8k_human"}
    assert all(entry.date and str(tmp_path) not in entry.notes for entry in entries)
    assert_refused(benchmark(photographed, "-m", "rouge_l", "-q", *hub), "no metric with weights", 1, 2)


def test_systems_are_compared_by_language(tmp_path):
    small, large, other = write_systems(tmp_path, "small", "large", "other").values()
    of_set = ("--data", "xm3600", "--data-dir", write_set(tmp_path / "xm3600"), "--samples", 50)
    markdown = tmp_path / "r.md"
    done = run("compare", small, large, *of_set, "--markdown", markdown)
    lines = done.stdout.splitlines()
    assert lines[1] == "xm3600 (test): small, large"
    cells = {line.split()[0]: line.split()[1:] for line in reversed(lines) if line.strip()}
    assert cells["de"] == ["4", "2.5064", "*5.0618"] and cells["mean"] == ["2.5274", "4.0740"]
    heading = lines.index("cider, de (4 rows, 4 photos)")
    large = next(line.split() for line in lines[heading:] if line.startswith("large"))
    assert large[1:3] == ["*5.0618", "+2.5555"] and large[-1] == "0.12"  # 2 of 16 ways to swap
    assert "cider|variant:coco|" in done.stdout and "lang:de+qu" in done.stdout
    assert "| de | 4 | 2.5064 | **5.0618** |" in markdown.read_text()
    given = (f"mine={small}", other, "-m", "cider,rouge_l", "--json")
    found = json.loads(run("compare", *given, *of_set).stdout)
    assert list(found["systems"]) == ["mine", "other"] and list(found["metrics"]) == ["cider", "rouge_l"]
    assert found["metrics"]["cider"]["figures"]["mine"] == pytest.approx(2.527355475, abs=1e-6)
    german = found["metrics"]["cider"]["comparisons"][0]
    assert german["figures"]["other"] == pytest.approx(2.667263927, abs=1e-6)


@pytest.fixture
def xvnli(tmp_path, monkeypatch):
    folder = tmp_path / "xvnli"
    folder.mkdir()
    official("xvnli").write(folder)
    monkeypatch.chdir(folder)
    return folder


def test_rows_that_are_in_two_configurations_count_once():
    entries = {entry["benchmark"]: entry for entry in json.loads(run("data", "list", "--json").stdout)}
    assert entries["xvnli"]["rows"]["fr"] == {"test": 1164}
    shown = {line[0]: line[-1] for line in lines_of(run("data", "list")) if line}
    assert (shown["composite"], shown["valse"], shown["xvnli"]) == ("11,985", "8,782", "5,820")


def test_a_check_names_what_differs_from_what_was_published(xvnli, flickr):
    done = run("data", "check", "flickr8k_human", "--data-dir", flickr, "-c", "expert")
    assert done.exit_code == 1 and "✗ test: 12 rows, and 5,664 were published" in done.stdout
    (xvnli / "fr" / "test.jsonl").unlink()
    done = run("data", "check", "xvnli", "-c", "fr", "-c", "ru", "--data-dir", xvnli, "--json")
    french, russian = json.loads(done.stdout)
    assert done.exit_code == 1 and french["findings"][0]["level"] == "problem"
    assert russian["counts"]["test"]["rows"] == 6


def test_an_export_is_reported_without_bars_and_replaced_with_force(xvnli, tmp_path):
    export = ("data", "export", "xvnli", "--data-dir", xvnli, "--output", tmp_path / "out", "-c")
    lines = [line for line in run(*export, "fr").stderr.splitlines() if "warning" not in line]
    assert lines == ["capscore: xvnli (fr)", f"capscore: exported to {tmp_path / 'out'}"]
    assert (tmp_path / "out" / "fr" / "xvnli-test.parquet").is_file()
    assert run(*export, "ru", "--force").exit_code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["README.md", "ru"]


def test_a_damaged_file_is_named_and_nothing_is_left(xvnli):
    path = xvnli / "fr" / "test.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    for command in ("check xvnli", "export xvnli --output out"):
        done = run("data", *command.split(), "-c", "fr", "--data-dir", xvnli)
        assert done.exit_code == 1 and "test.jsonl, line 6: not valid JSON" in flat(done.output)
        assert not [path for path in xvnli.iterdir() if path.name == "out" or path.name.startswith(".")]
