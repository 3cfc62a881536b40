"""`capscore score`: scores and files that are right, rows that are bad, wrong usage, cache and backbones."""

import json
import re
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import capscore
from capscore.embedding.cache import EmbeddingCache
from capscore.metrics import load
from capscore.registry import METRICS
from tools.tiny.colours import JudgingColours

from .conftest import HALF, MCS, REF, ROWS, TEXT, assert_refused, flat, read_jsonl, rows_of, run, write_jsonl

VERSION = f"|version:{capscore.__version__}"


@pytest.fixture
def preds(tmp_path, photos):
    return write_jsonl(tmp_path / "preds.jsonl", ROWS)


def score(source, *arguments):
    return run("score", source, "--images", source.parent / "photos", *arguments)


def summary_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["metrics"]


def near(values):
    return pytest.approx(list(values), abs=1e-6)


def column(path, name):
    return [row[name] for row in read_jsonl(path)]


def test_two_metrics_share_one_backbone_and_its_embeddings(preds, tmp_path, toys):
    output = tmp_path / "scores.jsonl"
    metrics = ("-m", "mcs", "-m", "ref_clip_score", "--backbone", "toy", "--language", "de", "--no-cache")
    done = score(preds, *metrics, "--output", output)
    assert [*toys] == ["toy"] and toys["toy"].encoded_images == 3
    rows = read_jsonl(output)
    assert [{key: row[key] for key in ROWS[0]} for row in rows] == ROWS
    assert list(rows[0]) == [*ROWS[0], "mcs", "ref_clip_score", "clip_score", "text_score"]
    for name, expected in (("mcs", MCS), ("clip_score", MCS), ("text_score", TEXT), ("ref_clip_score", REF)):
        assert column(output, name) == near(expected)
    assert "mcs 1.4226 3 0 0 3 0 ref_clip_score 0.7042 3 0 0 3 0 " in flat(done.stdout)
    signatures = [
        f"{name}|backbone:toy@w00000000|w:2.5|prefix:none|refs:{refs}|lang:de|dtype:fp32|exif:yes{VERSION}"
        for name, refs in (("mcs", "0"), ("ref_clip_score", "var"))
    ]
    assert [line for line in done.stdout.splitlines() if "|" in line] == signatures
    found = summary_of(tmp_path / "scores.summary.json")
    counts = {"n_items": 3, "n_scored": 3, "n_unique_images": 3}
    counts |= dict.fromkeys(("n_failed", "n_empty", "n_truncated"), 0)
    assert found["mcs"] == {"mean": pytest.approx(sum(MCS) / 3), **counts, "signature": signatures[0]}
    assert found["ref_clip_score"]["mean_text_score"] == pytest.approx(sum(TEXT) / 3)


def test_one_language_for_all_rows_is_not_mixed_with_a_column(tmp_path, photos, toys):
    done = score(write_jsonl(tmp_path / "p.jsonl", [{**ROWS[0], "language": "sw"}]), "--language", "de")
    note = "the language de is taken for every row; the column 'language' is not read"
    assert "|lang:de|" in done.stdout and done.stderr == f"capscore: note: {note}\n"


TEXTS = [
    {"caption": "a red kite", "references": ["a red kite flies", "the kite"], "language": "en"},
    {"caption": "ein Hund", "references": ["ein Hund läuft"], "language": "de"},
    {"caption": "a dog runs", "references": ["a dog", "one dog runs"], "language": "en"},
    {"caption": "zwei Drachen", "references": ["drei Drachen", "zwei Hunde"], "language": "de"},
    {"caption": "two dogs", "references": ["two dogs run"], "language": "en"},
]


def text_scores(metric, **options):
    captions, references, languages = ([row[name] for row in TEXTS] for name in TEXTS[0])
    return load(metric, **options).score(captions, None, references, languages)


@pytest.mark.parametrize(("size", "output"), [(1, "o.parquet"), (3, "o.csv"), (9, "o.jsonl")])
def test_chunks_are_one_corpus_in_every_kind_of_file(tmp_path, monkeypatch, size, output):
    monkeypatch.setattr("capscore.scoring.files.CHUNK_ROWS", size)
    source, path = write_jsonl(tmp_path / "in.jsonl", TEXTS), tmp_path / output
    done = run("score", source, "-m", "cider", "-m", "bleu", "-o", path)
    assert done.exit_code == 0 and done.stderr.count("warning: 5 of 5 captions have fewer than 4 words") == 1
    rows = rows_of(path)
    assert list(rows[0]) == [*TEXTS[0], "cider", "bleu", "bleu_1", "bleu_2", "bleu_3", "bleu_4"]
    cider, bleu = text_scores("cider"), text_scores("bleu")
    assert [float(row["cider"]) for row in rows] == pytest.approx(list(cider.scores), abs=5e-6)
    assert [float(row["bleu_2"]) for row in rows] == near(bleu.components["bleu_2"])
    assert re.search(rf"cider +{cider.mean:.4f} +5 +0 +0 +0 +0 *\n", done.stdout)
    assert f"corpus_bleu_4 {bleu.corpus['corpus_bleu_4']:.4f}" in done.stdout
    found = summary_of(tmp_path / "o.summary.json")
    assert found["bleu"]["corpus_bleu_1"] == bleu.corpus["corpus_bleu_1"]
    assert found["cider"]["signature"] == cider.signature and cider.signature in done.stdout.splitlines()


def test_noise_found_in_captions_is_in_files_tables_and_pages(tmp_path, photos, monkeypatch):
    monkeypatch.setattr("capscore.backbones.load_backbone", lambda name, **options: JudgingColours())
    rows = [{"image": "red.png", "caption": text} for text in ("red", "red red red red")]
    source = write_jsonl(tmp_path / "p.jsonl", [*rows, {"image": "none.png", "caption": "red"}])
    output, page = tmp_path / "o.parquet", tmp_path / "page.html"
    given = ("-m", "pr_mcs", "--no-cache", "--on-error", "skip")
    shown = score(source, *given, "-o", output, "--report", page).stdout
    found = pq.read_table(output).select(["pr_mcs", "kept", "lost", "kind", "p_kind"])
    expected = [[2.5, 1.0, 0.0, "none", 1.0], [2.5, 0.5, 0.5, "none", 0.5], [None] * 5]
    assert [[*row.values()] for row in found.to_pylist()] == expected
    assert [found.schema.field(name).type for name in ("kept", "kind")] == [pa.float64(), pa.string()]
    assert "50 % kept" in shown and "50 % kept: no noise (p = 0.50)" in page.read_text("utf-8")
    # a column of that name stays
    source = write_jsonl(tmp_path / "p.jsonl", [{**rows[0], "kind": "jumble"}])
    score(source, "-m", "pr_mcs", "-o", tmp_path / "other.jsonl")
    (row,) = read_jsonl(tmp_path / "other.jsonl")
    assert [row[name] for name in ("kind", "pr_mcs_kind")] == ["jumble", "none"]


# of a red photo: scores 2.5, 0, 1.77, 2.5, none, 1.77, 1.77
CAPTIONS = ["red", "blue", "red blue", "red", None, "red green", "blue red"]


@pytest.mark.parametrize("metrics, size, file", [("mcs", 2, "k.jsonl"), ("mcs,cider", 3, "k.parquet")])
@pytest.mark.parametrize(
    ("choice", "stay"),
    [
        ("--min-score 1.7", [0, 2, 3, 5, 6]),
        ("--min-score 2.5", [0, 3]),
        ("--top 3", [0, 2, 3]),  # of rows with the same score, the first
        ("--top 50%", [0, 2, 3]),
        ("--top 16.7%", [0, 3]),  # of six rows, rounded up
        ("--top 1000", [0, 1, 2, 3, 5, 6]),
    ],
)
def test_rows_that_score_high_stay(tmp_path, photos, toys, monkeypatch, metrics, size, file, choice, stay):
    monkeypatch.setattr("capscore.scoring.files.CHUNK_ROWS", size)
    rows = [{**ROWS[0], "id": f"row {number}", "caption": text} for number, text in enumerate(CAPTIONS)]
    source, whole, kept = write_jsonl(tmp_path / "p.jsonl", rows), tmp_path / "o.jsonl", tmp_path / file
    if file == "k.parquet":
        source = tmp_path / "p.parquet"
        pq.write_table(pa.Table.from_pylist(rows), source)
    given = ("-m", metrics, "--on-error", "skip", *choice.split())
    dropped = tmp_path / "d.jsonl"
    done = score(source, *given, "-o", whole, "--keep", kept, "--drop", dropped)
    found = rows_of(kept)
    assert [row["id"] for row in found] == [f"row {number}" for number in stay]
    assert found == [read_jsonl(whole)[number] for number in stay]
    assert done.exit_code == 3 and f"Kept {len(stay)} of 6 scored rows, with mcs" in done.stdout
    option, value = choice.split()
    asked, why = {"min_score": None, "min_rank": None, "top": value}, f"is not among the highest {value}"
    if option == "--min-score":
        asked, why = asked | {"min_score": float(value), "top": None}, f"is below {value}"
    lowest = min(column(whole, "mcs")[number] for number in stay)
    counts = {"n_kept": len(stay), "n_scored": 6, "lowest": lowest}
    files = {"file": str(kept), "dropped": str(dropped), "metric": "mcs"}
    assert json.loads((tmp_path / "k.summary.json").read_text())["kept"] == {**files, **asked, **counts}
    others = [row for number, row in enumerate(read_jsonl(whole)) if number not in stay]
    for row, left in zip(others, read_jsonl(dropped), strict=True):
        assert left == row | {"capscore_reason": row["capscore_error"] or f"mcs {row['mcs']:.4f} {why}"}


@pytest.mark.parametrize("choice", ["--top 2", "--min-score 0"])
def test_a_row_that_one_metric_cannot_score_does_not_stay(tmp_path, photos, toys, choice):
    rows = [ROWS[0], {**ROWS[1], "image": "gone.png"}, ROWS[2]]
    source, kept = write_jsonl(tmp_path / "p.jsonl", rows), tmp_path / "k.jsonl"
    score(source, "-m", "rouge_l,mcs", "--on-error", "skip", "--keep", kept, *choice.split())
    assert column(kept, "id") == [1, 3]


@pytest.mark.parametrize(("how", "mean", "scored"), [("worst", "2.4327", 3), ("skip", "3.6490", 2)])
def test_empty_captions_get_the_worst_score_or_are_counted_beside_the_mean(tmp_path, how, mean, scored):
    texts = [("a dog", "a dog runs"), (" ", "a cat"), ("two cats", "two cats sit"), (None, "x y")]
    rows = [{"caption": text, "references": [other]} for text, other in texts]
    output = tmp_path / "o.jsonl"
    given = (write_jsonl(tmp_path / "p.jsonl", rows), "-m", "cider", "--on-error", "skip", "--empty")
    assert_refused(run("score", *given, "raise"), "line 2: candidate: ", 1)
    done = run("score", *given, how, "--output", output)
    assert done.exit_code == 3  # for the caption that is missing
    assert f"cider {mean} {scored} 1 1 0 0 " in flat(done.stdout)
    row = read_jsonl(output)[1]
    assert row["cider"] == (None if how == "skip" else 0)
    assert (row["capscore_error"] is None) == (how != "skip")
    found = summary_of(tmp_path / "o.summary.json")["cider"]
    assert [found[key] for key in ("n_items", "n_scored", "n_failed", "n_empty")] == [4, scored, 1, 1]


def test_warnings_come_once_and_short(tmp_path, photos, toys, monkeypatch):
    monkeypatch.setattr("capscore.scoring.files.CHUNK_ROWS", 2)
    rows = [{"image": "red.png", "caption": "a b c d e f red", "language": code} for code in ["sw", "ta"] * 3]
    rows[1]["caption"] = "red"
    (tmp_path / "file").touch()
    done = score(write_jsonl(tmp_path / "p.jsonl", rows), "--cache-dir", tmp_path / "file")
    lines = done.stderr.splitlines()
    assert done.exit_code == 0 and len(lines) == done.stderr.count("capscore: warning: ") == 3
    for part in ("the embedding cache in .*--cache-dir", "not trained on sw, ta ", "5 of 6 rows have"):
        assert any(re.search(part, line) for line in lines), part


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"image": "rde.png"}, "line 3: image: no such file: "),
        ({"references": 3}, "line 3: references: expected a list of references, got 3"),
        ({"image": "https://x.org/a.jpg"}, "--allow-urls"),
        ({"image": "more/a.png"}, "; --images names the folder"),
        ({"image": "text.png"}, "text.png' is not an image"),
    ],
)
def test_a_bad_row_stops_with_its_line_or_is_skipped(tmp_path, photos, toys, monkeypatch, row, message):
    monkeypatch.setattr("capscore.scoring.files.CHUNK_ROWS", 2)
    (photos / "text.png").write_text("no image")
    source, output = write_jsonl(tmp_path / "p.jsonl", [*ROWS[:2], {**ROWS[2], **row}]), tmp_path / "o.jsonl"
    assert_refused(score(source, "-m", "ref_clip_score", "-o", output), message, 1)
    assert not output.exists()
    done = score(source, "-m", "ref_clip_score", "-o", output, "--on-error", "skip")
    assert done.exit_code == 3 and "1 of 3 rows could not be scored:" in done.stderr
    found, errors = column(output, "ref_clip_score"), column(output, "capscore_error")
    assert found[:2] == near(REF[:2]) and found[2] is None
    assert errors[:2] == [None, None] and errors[2] in done.stderr
    found = json.loads((tmp_path / "o.summary.json").read_text())
    assert [(entry["row"], entry["line"]) for entry in found["failures"]] == [(2, 3)]
    assert found["metrics"]["ref_clip_score"]["mean"] == pytest.approx(sum(REF[:2]) / 2)


def test_rows_that_look_wrong_are_counted_once_for_all(tmp_path, photos, toys, monkeypatch):
    monkeypatch.setattr("capscore.scoring.files.CHUNK_ROWS", 1)
    rows = [ROWS[0], {**ROWS[1], "caption": "nan"}, {**ROWS[2], "caption": "NA"}]
    Image.new("RGB", (3, 3)).save(photos / rows[2]["image"])
    done = score(write_jsonl(tmp_path / "p.jsonl", rows), "-m", "mcs,rouge_l")
    assert done.exit_code == 0 and done.stderr.count("look wrong") == 1
    assert re.search(r"2 have a caption .* \(first: row 1.* 1 have a photo .* \(first: row 2", done.stderr)


def test_the_first_bad_row_is_named_and_the_others_are_counted(tmp_path, photos, toys):
    rows = [ROWS[0], *({**ROWS[1], "image": name} for name in ("gone.png", "no.png", "none.png"))]
    done = score(write_jsonl(tmp_path / "p.jsonl", rows), "-m", "mcs,rouge_l", "--no-cache")
    assert_refused(done, "gone.png", 1)
    assert re.search(r"line 2: image: .*; 2 more of rows 0 to 3 .*; --on-error", done.stderr)
    # a metric without embeddings keeps none
    assert score(write_jsonl(tmp_path / "q.jsonl", ROWS), "-m", "rouge_l", "--no-cache").exit_code == 0


def test_a_row_may_fail_for_one_metric_only(tmp_path, photos, toys):
    rows = [ROWS[0], {**ROWS[1], "references": None}, {**ROWS[2], "image": "gone.png"}]
    source, output = write_jsonl(tmp_path / "p.jsonl", rows), tmp_path / "o.csv"
    done = score(source, "-m", "mcs,rouge_l", "-o", output, "--on-error", "skip")
    _, second, third = rows_of(output)
    assert (done.exit_code, second["rouge_l"], third["mcs"]) == (3, "", "")
    assert float(second["mcs"]) == pytest.approx(HALF, abs=5e-6) and float(third["rouge_l"]) == 1
    assert second["capscore_error"] == "rouge_l: references: expected a list of references, got None"
    assert third["capscore_error"].startswith("mcs: image: no such file")


@pytest.mark.parametrize("count", [1, 10, 11])
def test_few_rows_are_shown_each(photos, toys, tmp_path, count):
    source = write_jsonl(tmp_path / "p.jsonl", [{**ROWS[0], "caption": f"red {n}"} for n in range(count)])
    shown = score(source).stdout
    assert ("red 0" in shown) == (count <= 10) and ("truncated" in shown) == (count > 1)
    assert "The scores of rows were not saved; --output scores.jsonl saves them." in shown


def test_the_cache_is_used_shown_and_cleared(preds, tmp_path, toys, monkeypatch):
    monkeypatch.setenv("CAPSCORE_BACKBONE", "toy")
    folder = tmp_path / "kept"
    where = ("--cache-dir", folder)
    assert run("cache", "info", *where).stdout == f"0 embeddings, 0 bytes, in {folder}\n"
    for options, n_encoded in ((where, 3), (where, 0), (["--no-cache"], 3)):
        assert score(preds, *options).exit_code == 0
        assert [backbone.encoded_images for backbone in toys.values()] == [n_encoded]
    assert EmbeddingCache().info()["entries"] == 0
    (stored,) = EmbeddingCache(folder).info()["backbones"]
    short = stored["fingerprint"][:12]
    assert re.search(rf"toy@w00000000 +{short} +5 ", run("cache", "info", *where).stdout)
    assert json.loads(run("cache", "info", "--json", *where).stdout)["entries"] == 5
    assert_refused(run("cache", "clear", *where), "this would remove 5 embeddings")
    assert "0 backbones in" in run("cache", "clear", "zz", "--yes", *where).stderr
    monkeypatch.setattr("capscore.cli.cache.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    asked = run("cache", "clear", *where, input="n\n").stdout
    assert "Remove 5 embeddings" in asked and "nothing was removed" in asked
    assert run("cache", "clear", short[:6], "--yes", *where).stdout.startswith("removed 5 embeddings")
    assert "holds no embeddings" in run("cache", "clear", *where).stdout
    score(preds, *where)
    assert "removed 5" in run("cache", "clear", *where, input="y\n").stdout


def test_the_list_of_backbones_shows_what_is_known():
    known = {entry["name"]: entry for entry in json.loads(run("backbones", "--json").stdout)}
    judge = known[METRICS.get("judge").default_backbone]
    assert [*judge] == [*known["embedded"]] and judge["kind"] == "judge (generative)"
    licences = [known[name]["licence"] for name in ("embedded-free", "embedded", "BAAI/AltCLIP")]
    assert licences == ["Apache-2.0", "CC-BY-NC-4.0", None]
    assert known["xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k"]["flickr8k_expert_tau_c"] == 52.8


def test_photos_and_captions_that_are_typed(photos, toys, monkeypatch):
    monkeypatch.chdir(photos)
    given = ("--photo", "red.png", "--caption", "red green", "--caption", "blue", "--no-cache")
    done = run("score", *given, "-m", "ref_clip_score", "--reference", "red green", "--reference", "blue")
    assert done.stderr == "" and "Scored 2 of 2 rows." in done.stdout
    lines = [line.split() for line in run("score", *given).stdout.splitlines() if line.strip()]
    assert lines[0] == ["photo", "caption", "mcs"] and lines[2] == ["red.png", "red", "green", f"{HALF:.4f}"]
    assert f"{2 * HALF / (HALF + 1):.4f}" in done.stdout and "0.0000" in done.stdout


def test_of_several_captions_of_a_photo_there_is_a_mean_per_photo_too(tmp_path):
    known = {"images": [{"id": number, "file_name": row["image"]} for number, row in enumerate(ROWS)]}
    texts = [(number, text) for number, row in enumerate(ROWS) for text in row["references"]]
    known["annotations"] = [{"image_id": number, "caption": text} for number, text in texts]
    (tmp_path / "known.json").write_text(json.dumps(known))
    rows = [{"image_id": number, "caption": text} for number, text in ((2, "red"), (2, "x"), (0, ["blue"]))]
    source = write_jsonl(tmp_path / "p.jsonl", rows)
    given = (source, "--references", tmp_path / "known.json", "-m", "rouge_l")
    found = json.loads(run("score", *given, "--json").stdout)["metrics"]["rouge_l"]
    assert [found[name] for name in ("mean", "mean_of_photos")] == near([2 / 3, 3 / 4])
    assert "rouge_l: mean per caption 0.6667, per photo 0.7500" in flat(run("score", *given).stdout)
    write_jsonl(tmp_path / "p.jsonl", [{"image_id": n, "caption": "red"} for n in (0, 5)])
    assert_refused(run("score", *given), "line 2: references: image_id 5", 1)
    done = run("score", *given, "--on-error", "skip")
    assert done.exit_code == 3 and "note: 2 images of" in done.stderr and "Scored 1 of 2 rows" in done.stdout


def test_reasons_of_a_judge_are_a_column_where_they_are_asked_for(preds, photos, judge, tmp_path):
    out, page = tmp_path / "out.jsonl", tmp_path / "page.html"
    plain = score(preds, "-m", "judge", "-o", out, "--force")
    assert plain.exit_code == 0 and [*read_jsonl(out)[0]] == [*ROWS[0], "judge", "margin", "mass"]
    done = score(preds, "-m", "judge", "--explain", "-o", out, "--force", "--report", page)
    assert column(out, "reason") == ["too <b>\x1b</b>"] * 3
    assert "red.png: too <b>\\x1b</b>" in done.stdout.splitlines()
    assert page.read_text(encoding="utf-8").count("too &lt;b&gt;\\x1b&lt;/b&gt;</p>") == 3
    done = score(preds, "-m", "judge", "--with-references", "--json")
    assert "|refs:var|" in json.loads(done.stdout)["metrics"]["judge"]["signature"]


def test_a_metric_may_name_its_own_backbone(preds, photos, toys, judge):
    done = score(preds, "-m", "mcs,judge@org/model@v1", "--backbone", "toy", "--no-cache")
    assert done.exit_code == 0 and judge == ["org/model@v1"] and [*toys] == ["toy"]


def test_a_preset_is_the_metrics_that_the_rows_have_inputs_for(preds, photos, toys, tmp_path):
    done = score(preds, "--preset", "multilingual", "-m", "cider_d,mcs", "--language", "en", "--json")
    assert list(json.loads(done.stdout)["metrics"]) == ["mcs", "cider", "rouge_l", "cider_d"]
    assert done.stderr == ""
    rows = [{name: row[name] for name in ("image", "caption")} for row in ROWS]
    source = write_jsonl(tmp_path / "p.jsonl", rows)
    done = score(source, "--preset", "multilingual", "--json")
    assert list(json.loads(done.stdout)["metrics"]) == ["mcs"]
    assert "note: --preset multilingual: cider left out" in done.stderr
    assert_refused(score(source, "--preset", "coco"), "the input lacks the photos or references")


def test_a_preset_leaves_out_programs_that_are_not_here(preds, toys, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("capscore.metrics.spice.program_folder", lambda *_: None)
    monkeypatch.setattr("capscore.metrics.meteor_words.version", lambda name: "3.0.1")
    done = score(preds, "--preset", "clipscore", "--json")
    expected = ["bleu", "rouge_l", "cider", "clip_score", "ref_clip_score"]
    assert [*json.loads(done.stdout)["metrics"]] == expected
    assert "--preset clipscore: meteor left out. METEOR needs snowballstemmer 2" in done.stderr
    assert "--preset clipscore: spice left out. SPICE needs Java" in done.stderr
