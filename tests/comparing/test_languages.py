"""Systems on a tiny Crossmodal-3600: CIDEr against the formula with dicts, differences, bad files."""

import random

import numpy as np
import pytest

import capscore
from capscore import CapscoreError, InputError
from capscore.benchmarks.reading import Configuration
from capscore.comparing import compare_on_benchmark
from capscore.comparing.languages import read_captions
from capscore.options import LoadOptions, Sampling
from capscore.statistics.bootstrap import multiplicities
from tools.tiny.colours import ColourBackbone
from tools.tiny.systems import CAPTIONS, REFERENCES, rows_of, write_rows, write_set, write_systems

from ..metrics.test_formulas import naive_cider

NO_DRAWS = Sampling(0)
EMPTY = LoadOptions(metric_options={"empty": "skip"})
CIDER = {"cider": lambda: capscore.load("cider")}
# language → system → mean CIDEr, from the formula with dicts
MEANS = {
    "de": {"small": 2.506365383, "large": 5.061847683, "other": 2.667263927},
    "qu": {"small": 2.548345568, "large": 3.086071610, "other": 4.309637917},
}


@pytest.fixture
def folder(tmp_path):
    return write_set(tmp_path / "xm3600")


def run(folder, systems, metrics=CIDER, configs=(), sampling=NO_DRAWS, **more):
    where = Configuration("xm3600", None, folder)
    return compare_on_benchmark(where, systems, metrics, configs, sampling=sampling, **more)


def languages(found, metric="cider"):
    return {part.rows: part for part in found.metrics[metric]}


def test_cider_per_language_with_all_references(folder, tmp_path):
    found = run(folder, write_systems(tmp_path, "small", "large", "other"))
    parts = languages(found)
    for (code, part), config in zip(parts.items(), ("de", "quz"), strict=True):
        assert part.figures == pytest.approx(MEANS[code], abs=1e-6) and part.n_rows == 4
        rows = [
            (caption.lower(), [text.lower() for text in references[config]])
            for caption, references in zip(CAPTIONS["small"][config], REFERENCES.values(), strict=True)
        ]
        assert part.figures["small"] == pytest.approx(np.mean(naive_cider(rows)), abs=1e-9)
        differences = {row.system: row.difference + MEANS[code]["small"] for row in part.differences}
        assert {"small": MEANS[code]["small"], **differences} == pytest.approx(MEANS[code], abs=1e-6)
        assert all(row.interval is row.p_value is None for row in part.differences)
    assert found.figures("cider")["small"] == pytest.approx((2.506365383 + 2.548345568) / 2, abs=1e-6)
    short = "xm3600 (de, quz, test) has 4 rows where 3,600 were published: is a file cut short?"
    assert short in found.notes and "|lang:de+qu|" in found.signatures["cider"]
    alone = languages(run(folder, write_systems(tmp_path, "small")))["de"]
    assert alone.figures["small"] == pytest.approx(2.506365383, abs=1e-6) and alone.differences == ()


def test_intervals_draw_photos_for_both_systems_alike_in_any_order(folder, tmp_path):
    sampling = Sampling(200, confidence=0.8, seed=3)
    straight = run(folder, write_systems(tmp_path, "small", "large"), sampling=sampling)
    (row,) = languages(straight)["de"].differences
    small = np.array([1.748063421, 2.365653295, 3.143703806, 2.768041011])
    large = np.array([5.661764706, 3.628693514, 4.774105863, 6.182826648])
    drawn = multiplicities(np.random.default_rng(3), 4, 200)
    ends = tuple(np.quantile((large - small) @ drawn / 4, [0.1, 0.9]))
    assert (row.interval.low, row.interval.high) == pytest.approx(ends, abs=1e-6)
    files = {}
    for name in ("large", "small"):
        rows = random.Random(name).sample(rows_of(name), 8)
        files[name] = write_rows(tmp_path / f"{name}-shuffled.jsonl", rows)
    turned = run(folder, files, sampling=sampling)
    assert turned.signatures == straight.signatures
    for part, other in zip(*(found.metrics["cider"] for found in (straight, turned)), strict=True):
        (here,), (there,) = part.differences, other.differences
        ends = [-here.difference, -here.interval.high, -here.interval.low]
        assert [there.difference, there.interval.low, there.interval.high] == pytest.approx(ends, abs=1e-9)
        assert other.figures == pytest.approx(part.figures, abs=1e-9)


def test_several_metrics_and_one_language(folder, tmp_path):
    metrics = {"bleu_1": lambda: capscore.load("bleu"), "rouge_l": lambda: capscore.load("rouge_l")}
    found = run(folder, write_systems(tmp_path, "small", "large"), metrics, configs=["quz"])
    assert list(found.metrics) == ["bleu_1", "rouge_l"] and list(languages(found, "bleu_1")) == ["qu"]
    assert found.signatures["bleu_1"].endswith("|component:bleu_1")
    # all of 2, 1, 2, 2 words of "small" are in references, of 2, 3, 3, 2 words at the nearest
    expected = np.exp(1 - 10 / 7)
    assert languages(found, "bleu_1")["qu"].figures["small"] == pytest.approx(expected, abs=1e-6)


def test_a_photo_with_an_empty_caption_is_left_out_for_all(folder, tmp_path):
    rows = [{**row, "caption": row["caption"] * (row["image_id"] != "11bb")} for row in rows_of("large")]
    systems = write_systems(tmp_path, "small") | {"large": write_rows(tmp_path / "part.jsonl", rows)}
    found = languages(run(folder, systems, {"cider": None}, configs=["de"], load=EMPTY))["de"]
    assert (found.n_rows, found.n_left_out) == (3, 1)
    assert found.figures["small"] == pytest.approx(np.mean([1.748063421, 3.143703806, 2.768041011]), abs=1e-6)


def test_systems_that_cannot_be_compared_are_refused(folder, tmp_path):
    small = write_systems(tmp_path, "small")
    german = [row for row in rows_of("large") if row["language"] == "de"]
    part = {**small, "large": write_rows(tmp_path / "part.jsonl", german)}
    toy = {"mcs": lambda: capscore.load("mcs", backbone=ColourBackbone(), cache=False)}
    for message, call in {
        "mcs: 4 of the 4 photos of xm3600 · de cannot be scored; .* 00aa": lambda: run(folder, small, toy),
        "'vicr' is not a set of captioned": lambda: compare_on_benchmark(Configuration("vicr"), small),
        "nocaps .* in 'en': choose one of in,": lambda: compare_on_benchmark(Configuration("nocaps"), small),
        "large has no caption in 'qu' for 4 of the 4 .*; config names": lambda: run(folder, part),
        "theirs: beside a benchmark, expected a file, got list": lambda: capscore.compare(
            {"ours": "ours.jsonl", "theirs": german}, "cider", data="xm3600", data_dir=folder
        ),
    }.items():
        with pytest.raises(CapscoreError, match=message):
            call()
    expected = {name: MEANS["de"][name] for name in ("small", "large")}
    assert run(folder, part, configs=["de"]).figures("cider") == pytest.approx(expected, abs=1e-6)
    rows = rows_of("small")
    for name, message in (
        ("images/99zz.jpg", "line 3: xm3600 · de has no photo 'images/99zz.jpg'"),
        ("photos/00aa.jpg", "line 1: .* no photo '00aa': '00aa.jpg' may be 'photos/00aa.jpg' as well"),
    ):
        rows[2]["image_id"] = name
        with pytest.raises(InputError, match=rf"small.jsonl, {message}"):
            run(folder, {"small": write_rows(tmp_path / "small.jsonl", rows)})


KNOWN = ["de", "qu", "en"]
ROW = {"image_id": "00aa", "language": "de", "caption": "ein Hund"}


def read(tmp_path, *rows, languages=KNOWN, **how):
    return read_captions(write_rows(tmp_path / "a.jsonl", rows), languages, **how)[0]


def test_captions_are_found_by_photo_and_language(tmp_path):
    found = read(tmp_path, *rows_of("small"), languages=["de", "qu"])
    assert found["qu"]["22cc"][0] == "puka awto"
    assert found["de"]["11bb"][1] == f"{tmp_path / 'a.jsonl'}, line 2"
    assert set(read(tmp_path, *rows_of("small"), languages=["de"], known=KNOWN)) == {"de"}
    assert read(tmp_path, {**ROW, "caption": " "}, may_be_empty=True)["de"]["00aa"][0] == " "
    assert read(tmp_path, {"image_id": "00aa", "caption": "x"}, languages=["de"])["de"]["00aa"][0] == "x"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "a second caption of the photo '00aa'; the first is in "),
        ({"language": "xx"}, "language: unknown language code 'xx'"),
        ({"language": "ta"}, "there are no references in 'ta', only in de, qu, en"),
        ({"language": None}, "there are no references in ''"),
        ({"image_id": " "}, "the column 'image_id' holds ' '; expected the name of a photo"),
        ({"image_id": None}, "the column 'image_id' holds None"),
        ({"image_id": "1", "caption": ""}, "expected a caption, got an empty string"),
        ({"image_id": "1", "caption": 7}, r"7 \(int\); expected a caption"),
    ],
)
def test_bad_rows_are_named(tmp_path, change, message):
    with pytest.raises(InputError, match=rf"a\.jsonl, line 2: {message}"):
        read(tmp_path, ROW, {**ROW, **change})


def test_columns_of_other_programs_are_found_and_said(tmp_path):
    row = {"question_id": "x/00aa.jpg", "prompt": "Describe it.", "text": "a dog"}
    found, notes = read_captions(write_rows(tmp_path / "a.jsonl", [row]), ["en"])
    ((caption, _),) = found["en"].values()
    assert caption == "a dog" and len(notes) == 2 and "'text' is read as the candidate" in notes[1]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"image_id": "00aa", "language": "de"}, r"a\.jsonl, candidate_column: no column"),
        ({"caption": "ein Hund", "language": "de"}, r"a\.jsonl, image_column: no column"),
        ({"image_id": "00aa", "text": "a", "response": "b"}, "text and response could each be meant"),
        ({"image_id": "00aa", "caption": "x"}, r"a\.jsonl has no column of languages"),
    ],
)
def test_columns_that_are_missing(tmp_path, row, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, row)
