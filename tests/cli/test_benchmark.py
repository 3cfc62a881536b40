"""`capscore benchmark` and `capscore data` as a person types them: output, files, exit codes."""

from __future__ import annotations

import json
import os
import sys

import pytest
from typer.testing import CliRunner

from capscore.cli import app

from .. import processes
from ..benchmarks.test_run import rated
from ..datasets_scripts.conftest import _own_cache, official

__all__ = ["_own_cache"]


def capscore(*arguments, width=80):
    return CliRunner(env={"COLUMNS": str(width)}).invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def flickr(tmp_path):
    folder = tmp_path / "flickr8k_human"
    folder.mkdir()
    official("flickr8k_human").write(folder)
    rated(folder)
    shares = (0, 1, 0.5, 0.25)
    crowd = [f"{n}.jpg\t{n + 4}.jpg#1\t{share}\t{int(4 * share)}\t1" for n, share in enumerate(shares)]
    (folder / "CrowdFlowerAnnotations.txt").write_text("".join(f"{line}\n" for line in crowd))
    return folder


def benchmark(folder, *arguments):
    return capscore(
        "benchmark", "--data", "flickr8k_human", "--config", "expert", "--data-dir", folder, *arguments
    )


def test_a_table_beside_what_was_published(flickr):
    result = benchmark(flickr, "--metric", "cider", "--metric", "rouge_l", "--bootstrap", 50)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert not [line for line in lines if len(line) > 80]
    assert "flickr8k_human · expert (test, 12 rows)" in lines
    assert any(line.startswith("cider") and "43.9 [1]" in line for line in lines)
    assert any(line.startswith("rouge_l") and "32.3 [1]" in line for line in lines)
    assert "[1] Hu et al. 2023, Table 1" in lines
    assert "cider|" in result.stdout.replace("\n", "")


def test_all_that_can_be_written(flickr, tmp_path):
    out = tmp_path / "out"
    files = [out / "r.json", out / "r.md", out / "r.svg"]
    options = ("--output", files[0], "--markdown", files[1], "--figure", files[2], "--bootstrap", 20)
    result = benchmark(flickr, "--metric", "rouge_l", "--quiet", *options)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    document = json.loads(files[0].read_text())
    assert document["benchmark"] == "flickr8k_human"
    assert set(document["files"]) == {"ExpertAnnotations.txt", "Flickr8k.token.txt"}
    assert document["results"][0]["statistics"][0]["n"] == 36
    assert files[1].read_text().startswith("## flickr8k_human · expert (test, 12 rows)")
    assert "<svg" in files[2].read_text()
    assert sorted(path.name for path in out.iterdir()) == ["r.json", "r.md", "r.svg"]

    again = benchmark(flickr, "--metric", "rouge_l", "--output", files[0])
    assert again.exit_code == 2 and "exists; --force overwrites it" in again.stderr


def test_json_on_stdout_is_json(flickr):
    result = benchmark(flickr, "--metric", "rouge_l", "--bootstrap", 0, "--json")
    assert json.loads(result.stdout)["results"][0]["metric"] == "rouge_l"


def test_scores_of_others(flickr, tmp_path):
    queries = tmp_path / "queries.jsonl"
    result = benchmark(flickr, "--write-queries", queries)
    assert result.exit_code == 0 and "12 rows to score are in" in result.stderr
    rows = [json.loads(line) for line in queries.read_text().splitlines()]
    assert set(rows[0]) == {"id", "image_id", "image", "caption", "references", "language"}
    mine = tmp_path / "mine.jsonl"
    mine.write_text("".join(json.dumps({**row, "score": number}) + "\n" for number, row in enumerate(rows)))
    result = benchmark(flickr, "--scores", mine, "--scores", f"again={mine}", "--bootstrap", 0)
    assert result.exit_code == 0, result.output
    assert "mine.jsonl, column score, rows matched by id" in result.stdout
    assert [line.split()[0] for line in result.stdout.splitlines() if "τ_c" in line] == ["mine", "again"]


@pytest.mark.parametrize("entry", ["=mine.jsonl", "mine="])
def test_scores_need_a_name_and_a_file(flickr, entry):
    result = benchmark(flickr, "--scores", entry)
    assert result.exit_code == 2 and "expected NAME=FILE, or a file" in result.stderr


def test_missing_scores_are_left_out_on_demand(flickr, tmp_path):
    queries, mine = tmp_path / "queries.jsonl", tmp_path / "mine.jsonl"
    benchmark(flickr, "--write-queries", queries)
    rows = [json.loads(line) for line in queries.read_text().splitlines()]
    rows = [{"id": row["id"], "score": None if n == 0 else n} for n, row in enumerate(rows[:-1])]
    mine.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = benchmark(flickr, "--scores", mine)
    assert result.exit_code == 1 and "no score for 1 of 12 queries" in result.stderr
    result = benchmark(flickr, "--scores", mine, "--missing", "skip", "--bootstrap", 0)
    assert result.exit_code == 0, result.output
    assert "10 items, 30 ratings" in result.stdout
    assert "no score for 1 of 12 queries" in " ".join(result.stdout.split())


def test_what_cannot_be_written_is_told_before_the_work(flickr, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    result = benchmark(flickr, "-m", "rouge_l", "--output", tmp_path / "file" / "deep" / "r.json")
    assert result.exit_code == 2 and "file is not a folder" in " ".join(result.stderr.split())
    (tmp_path / "r.json").mkdir()
    result = benchmark(flickr, "-m", "rouge_l", "--output", tmp_path / "r.json", "--force")
    assert result.exit_code == 2 and "r.json exists and is not a regular file" in " ".join(
        result.stderr.split()
    )
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = benchmark(flickr, "-m", "rouge_l", "--figure", tmp_path / "r.png")
    assert result.exit_code == 1 and result.stdout == ""
    assert "capscore[figures]" in result.stderr


def test_files_are_written_though_nobody_reads_the_tables(flickr, tmp_path):
    out = tmp_path / "r.json"
    reader, writer = os.pipe()
    os.close(reader)
    arguments = ("--data", "flickr8k_human", "--config", "expert", "--data-dir", str(flickr))
    script = "import sys; from capscore.cli import main; sys.argv[0] = 'capscore'; main()"
    process = processes.run(
        ["-c", script, "benchmark", *arguments, "-m", "rouge_l", "--output", out], stdout=writer
    )
    os.close(writer)
    assert json.loads(out.read_text())["n_rows"] == 12
    assert (process.returncode, "Traceback" in process.stderr) == (0, False)


def test_a_suite_of_nothing_is_no_success(tmp_path):
    result = capscore("benchmark", "--suite", "english", "--data-dir", tmp_path, "-m", "rouge_l")
    assert result.exit_code == 1
    assert "nothing of the suite 'english' could be measured" in result.stderr


def test_a_suite_runs_what_is_there(flickr):
    result = capscore(
        *("benchmark", "--suite", "english", "--data-dir", flickr.parent, "--metric", "rouge_l"),
        *("--bootstrap", 0),
    )
    assert result.exit_code == 0, result.output
    assert "flickr8k_human · crowdflower" in result.stdout
    assert "Not run" in result.stdout and "there is no folder" in result.stdout
    (flickr / "ExpertAnnotations.txt").write_text("broken\n")
    result = capscore("benchmark", "--suite", "english", "--data-dir", flickr.parent, "--metric", "rouge_l")
    assert result.exit_code == 1
    assert "Damaged" in result.stdout and "line 1" in result.stdout


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (("--metric", "rouge_l"), 2, "give either --data, for one benchmark, or --suite"),
        (("--suite", "all", "--metric", "rouge_l"), 2, "--suite needs --data-dir"),
        (
            ("--suite", "all", "--data-dir", ".", "--split", "test"),
            2,
            "--split and --suite: give only one of them",
        ),
        (("--data", "thumb"), 2, "nothing to measure: give --metric, or --scores"),
        (
            ("--data", "xvnli", "--metric", "rouge_l"),
            2,
            "xvnli needs a configuration: expected one of en, ar",
        ),
        (("--data", "flikr8k", "--metric", "rouge_l"), 2, "there is no benchmark 'flikr8k'"),
        (("--data", "thumb", "-m", "rouge_l", "--data-dir", "gone"), 1, "gone is not a folder. Get it from"),
        (("--data", "thumb", "--metric", "roug_l"), 2, "did you mean 'rouge_l'?"),
        (
            ("--data", "xvnli", "-c", "fx", "--metric", "rouge_l"),
            2,
            "has no configuration 'fx': expected one of en, ar",
        ),
        (("--data", "thumb", "--metric", "rouge_l", "--raters", "median"), 2, "is not one of"),
        (("--data", "thumb", "--metric", "rouge_l", "--output", "out.txt"), 2, "ends in .json"),
        (
            ("--data", "thumb", "-m", "mcs", "--regions", "detr:x"),
            2,
            ": an option of infometic, not of mcs",
        ),
        (("--data", "thumb", "--data-dir", "nowhere", "-m", "rouge_l"), 1, "is not a folder"),
    ],
)
def test_what_a_person_may_get_wrong(arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = capscore("benchmark", *arguments)
    assert message in " ".join(result.stderr.split()), result.output
    assert result.exit_code == code
    assert "Traceback" not in result.output


def test_a_missing_photo_is_said_with_what_can_be_done(flickr):
    result = benchmark(flickr, "--metric", "mcs", "--backbone", "embedded")
    assert result.exit_code == 1
    told = " ".join(result.stderr.split())
    assert "mcs looks at photos, and 4 of the 4 photos of flickr8k_human · expert are missing" in told
    assert "scores the other rows" in told


def test_a_metric_that_cannot_be_run_does_not_stop_the_others(flickr):
    result = benchmark(flickr, "-m", "rouge_l", "-m", "mcs", "--backbone", "embedded", "--bootstrap", 0)
    assert result.exit_code == 3
    assert any(line.startswith("rouge_l") for line in result.stdout.splitlines())
    assert "mcs: not run. mcs looks at photos" in " ".join(result.stdout.split())
    result = benchmark(flickr, "-m", "rouge_l", "-m", "mcs", "--backbone", "embedded", "--json")
    assert result.exit_code == 3
    assert "mcs was not run" in result.stderr and json.loads(result.stdout)["skipped"].keys() == {"mcs"}


def test_data_list():
    result = capscore("data", "list")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    entries = json.loads(capscore("data", "list", "--json").stdout)
    xvnli = next(entry for entry in entries if entry["benchmark"] == "xvnli")
    assert xvnli["rows"]["fr"] == {"test": 1164}


def test_data_check(flickr):
    (flickr / "images").mkdir()
    arguments = ("data", "check", "flickr8k_human", "--data-dir", flickr)
    result = capscore(*arguments, "-c", "expert")
    assert result.exit_code == 1
    assert "✗ test: 12 rows, and 5,664 were published" in result.stdout
    result = capscore(*arguments, "--json")
    assert [part["config"] for part in json.loads(result.stdout)] == ["expert", "crowdflower"]


def test_data_export(flickr, tmp_path):
    out = tmp_path / "parquet"
    arguments = ("data", "export", "flickr8k_human", "--data-dir", flickr, "-c", "expert", "--out", out)
    assert capscore(*arguments).exit_code == 0
    assert (out / "expert" / "flickr8k_human-test.parquet").is_file()
    again = capscore(*arguments)
    assert again.exit_code == 2 and "--force replaces it" in again.stderr
