"""`capscore translate` and `python -m training.translate`: from a file to a translated file and a figure."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from capscore import load
from capscore.cli.app import app
from capscore.translation import model, run
from training.translate import main

from ..processes import Process
from ..translation.conftest import Letters
from ..translation.tiny_translator import TEXTS, tiny_m2m100

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")
SMALL = ("--num-beams", "4", "--candidates", "3", "--max-new-tokens", "8", "--device", "cpu")


@pytest.fixture(scope="module")
def m2m100(tmp_path_factory):
    return tiny_m2m100(tmp_path_factory.mktemp("m2m100"))


@pytest.fixture
def captions(tmp_path, monkeypatch):
    # random weights write no language: a rule that accepts about half stands in for py3langid
    monkeypatch.setattr(run, "Py3LangId", Letters)
    texts = [*TEXTS, *(f"{text} a dog" for text in TEXTS), "a cat", "two chairs"]
    path = tmp_path / "captions.jsonl"
    rows = [
        {"caption": text, "references": [text[::-1], TEXTS[number % 5]], "rating": number}
        for number, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def command(*arguments):
    result = CliRunner(env={"COLUMNS": "100"}).invoke(app, ["translate", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def read(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def test_the_command_translates_splits_and_draws(captions, m2m100, tmp_path, embedded_free):
    pytest.importorskip("matplotlib")
    output, figure = tmp_path / "out.jsonl", tmp_path / "figure.svg"
    given = (captions, "--language", "en", "--to", "de", "--to", "fr", "--translator", m2m100, *SMALL)
    drawn = ("--no-language-check", "--split-quartiles", "--heatmap", figure, "--metric", "text_score")
    result = command(*given, "--output", output, *drawn, "--backbone", "embedded-free", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["settings"]["quality"] == f"cosine:embedded-free@{embedded_free.revision}"
    rows = read(output)
    for row in rows:
        if row["quality"] is not None:  # the cosine, computed from the embeddings
            a, b = embedded_free.encode_texts([row["original"], row["caption"]])
            assert row["quality"] == pytest.approx(float(a @ b), abs=1e-5)
    assert (tmp_path / "out.quartile1.jsonl").is_file() and (tmp_path / "out.quartile4.jsonl").is_file()
    # the correlations, from scores of one row at a time
    scorer = load("text_score", backbone="embedded-free", device="cpu", cache=False)
    source = read(captions)
    scores = {code: np.full(len(source), np.nan) for code in ("en", "de", "fr")}
    scores["en"][:] = [
        scorer.score([row["caption"]], references=[row["references"]]).scores[0] for row in source
    ]
    for row in rows:
        if row["translation_problem"] is None:
            score = scorer.score([row["caption"]], references=[row["references"]]).scores[0]
            scores[row["language"]][row["source_row"]] = score
    maps = {one["rows"]: one for one in summary["correlations"]}
    assert maps["all"]["languages"] == ["en", "de", "fr"]
    for a, one in enumerate(scores):
        for b, other in enumerate(scores):
            both = ~np.isnan(scores[one]) & ~np.isnan(scores[other])
            assert maps["all"]["counts"][a][b] == both.sum()
            expected = np.corrcoef(scores[one][both], scores[other][both])[0, 1]
            assert maps["all"]["matrix"][a][b] == pytest.approx(expected, abs=1e-5)
    low = {row["source_row"] for row in rows if row["language"] == "de" and row["quartile"] == 1}
    assert maps["low"]["counts"][0][1] == len(low) > 0
    text = figure.read_text(encoding="utf-8")
    assert "all rows" in text and "below the diagonal: lowest quarter · above: highest quarter" in text


# The command with a rule for py3langid; it notes what it translates, and stays in the third block.
PROGRAM = """
import sys, time
sys.path.insert(0, {root!r})
from capscore.translation import run
from tests.translation.conftest import Letters
run.Py3LangId = Letters
plain, calls = run.translate_texts, []
def noted(texts, *arguments, **named):
    calls.append(texts)
    with open({notes!r}, "a") as notes:
        print(*texts, sep="\\n", file=notes)
    if len(calls) == 3:
        time.sleep(300)
    return plain(texts, *arguments, **named)
run.translate_texts = noted
from capscore.cli import main
sys.argv = ["capscore", "translate", *sys.argv[1:]]
main()
"""


def test_a_run_that_sigkill_ended_goes_on(captions, m2m100, tmp_path, monkeypatch):
    given = [captions, "--language", "en", "--to", "de", "--translator", m2m100, *SMALL, "--shard-rows", 3]
    whole, output, notes = tmp_path / "whole.jsonl", tmp_path / "de.jsonl", tmp_path / "notes.txt"
    program = PROGRAM.format(root=str(Path(__file__).parents[2]), notes=str(notes))
    killed = Process(["-c", program, *given, "--output", output])
    try:
        assert command(*given, "--output", whole).exit_code == 0
        deadline = time.monotonic() + 120
        while not notes.exists() or len(notes.read_text().splitlines()) < 9:  # it is in the third block
            assert killed.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        killed.send_signal(signal.SIGKILL)
        assert killed.wait(60) == -signal.SIGKILL
    finally:
        killed.kill()
    assert not output.exists()
    kept = {path: path.read_bytes() for path in (tmp_path / "de.jsonl.shards").glob("00*.json")}
    assert sorted(path.name for path in kept) == ["000000.json", "000001.json"]
    again, plain = [], run.translate_texts
    monkeypatch.setattr(
        run, "translate_texts", lambda texts, *a, **n: (again.extend(texts), plain(texts, *a, **n))[1]
    )
    assert command(*given, "--output", output).exit_code == 0
    assert again == [row["caption"] for row in read(captions)][6:]  # the finished blocks are not repeated
    assert not (tmp_path / "de.jsonl.shards").exists()
    got, expected = read(output), read(whole)
    for one, other in zip(got, expected, strict=True):
        for row in (one, other):
            row["quality"] = None if row["quality"] is None else pytest.approx(row["quality"], abs=1e-6)
    assert got == expected


def test_what_the_command_says(captions, m2m100, tmp_path):
    given = (captions, "--language", "en", "--translator", m2m100, *SMALL, "--output", tmp_path / "out.csv")
    first = command(*given, "--to", "de", "--shard", "1/2", "--shard-rows", "6")
    assert first.exit_code == 0 and "1 blocks translated; 1 of 2 are left" in first.stdout.replace("\n", " ")
    result = command(*given, "--to", "de", "--shard-rows", "6")
    assert result.exit_code == 0
    assert "rejected" in result.stdout and "embedded-free@" in result.stdout
    assert f"Written to {tmp_path / 'out.csv'}" in result.stdout
    unknown = command(*given, "--to", "te")
    assert unknown.exit_code != 0
    assert "does not know the language 'te'" in unknown.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no language to translate into: give --to de"),
        (("--to", "de"), "give --output, the file for the translated rows"),
        (("--to", "de", "-o", "x.jsonl", "--shard", "3/2"), "--shard 3/2: expected a share such as 2/4"),
        (("--to", "de", "-o", "x.jsonl", "--num-beams", "2"), "--candidates 25: expected at most as many as"),
        (
            ("--to", "de", "-o", "x.jsonl", "--on-rejected", "skip"),
            "--on-rejected skip: expected keep, drop or stop",
        ),
        (
            ("--to", "de", "-o", "x.jsonl", "--heatmap", "x.txt"),
            "--heatmap x.txt: expected a name that ends in",
        ),
        (("--to", "de", "-o", "x.jsonl", "--quality", "bleu"), "--quality bleu: expected cosine"),
    ],
)
def test_wrong_usage(captions, arguments, message, tmp_path, monkeypatch, m2m100):
    monkeypatch.chdir(tmp_path)
    result = command(captions, "--language", "en", "--translator", m2m100, "--device", "cpu", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["captions.jsonl"]


def test_the_recipe_does_what_the_command_does(captions, m2m100, tmp_path, capsys):
    given = (captions, "--language", "en", "--to", "de", "--translator", m2m100, *SMALL, "--references")
    assert command(*given, "--output", tmp_path / "a.jsonl", "--quiet").exit_code == 0
    config = tmp_path / "small.yaml"
    config.write_text("num_beams: 4\ncandidates: 3\nmax_new_tokens: 8\ndevice: cpu\non_rejected: keep\n")
    paths = ["--input", str(captions), "--output", str(tmp_path / "b.jsonl"), "--translator", str(m2m100)]
    main(["--config", str(config), *paths, "--languages", "de"])
    assert read(tmp_path / "a.jsonl") == read(tmp_path / "b.jsonl")
    assert (
        f"12 rows written to {tmp_path / 'b.jsonl'}; quality: cosine:embedded-free@"
        in capsys.readouterr().out
    )


def test_the_config_of_the_paper():
    from training.engine.config import parse
    from training.translate import Settings

    settings = parse(
        Settings, ["--config", "training/configs/translate.yaml", "--input", "a", "--output", "b"], ""
    )
    assert settings.options().search == model.BeamSearch(100, 25, 128)
    assert settings.translator == model.DEFAULT_TRANSLATOR == "facebook/m2m100_1.2B"
