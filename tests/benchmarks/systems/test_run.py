"""Systems on a tiny Crossmodal-3600: CIDEr against the formula with dicts, differences, bad files."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest

import capscore
from capscore import CapscoreError, InputError
from capscore.benchmarks.caption_statistics import caption_statistics
from capscore.benchmarks.data.annotation_files import AnnotationSource, KeptReadings
from capscore.benchmarks.data.load import builder_class
from capscore.benchmarks.run import open_benchmark
from capscore.benchmarks.systems import published_score, run_systems
from capscore.benchmarks.tasks import TaskOptions
from capscore.show.system_tables import systems_report
from capscore.show.tables import Table
from capscore.statistics.bootstrap import multiplicities

from ...datasets_scripts.conftest import _own_cache
from ...metrics.formulas.test_cider import naive
from .tiny import CAPTIONS, REFERENCES, rows_of, write_rows, write_set, write_systems

__all__ = ["_own_cache"]

NO_DRAWS = TaskOptions(bootstrap=0)
CIDER = {"cider": lambda: capscore.load("cider")}
# language → system → mean CIDEr, from the formula with dicts
MEANS = {
    "de": {"small": 2.506365383, "large": 5.061847683, "other": 2.667263927},
    "qu": {"small": 2.548345568, "large": 3.086071610, "other": 4.309637917},
}


@pytest.fixture
def folder(tmp_path):
    return write_set(tmp_path / "xm3600")


def run(folder, systems, metrics=CIDER, options=NO_DRAWS, **more):
    return run_systems("xm3600", systems, metrics, data_dir=folder, options=options, **more)


def test_cider_per_language_with_all_references(folder, tmp_path):
    found = run(folder, write_systems(tmp_path, "small", "large", "other"))
    parts = found.metrics["cider"]
    assert [(language, one.config) for language, one in parts.items()] == [("de", "de"), ("qu", "quz")]
    assert [(one.comparison.n_rows, one.n_references) for one in parts.values()] == [(4, 8), (4, 7)]
    for (language, one), name in zip(parts.items(), ("de", "quz"), strict=True):
        for system, mean in one.comparison.means.items():
            assert mean == pytest.approx(MEANS[language][system], abs=1e-6)
            rows = [
                (caption.lower(), [text.lower() for text in own[name]])
                for caption, own in zip(CAPTIONS[system][name], REFERENCES.values(), strict=True)
            ]
            assert mean == pytest.approx(np.mean(naive(rows)), abs=1e-9)
    assert found.means("cider")["small"] == pytest.approx((2.506365383 + 2.548345568) / 2, abs=1e-6)


def test_differences_to_the_first_system(folder, tmp_path):
    found = run(folder, write_systems(tmp_path, "large", "small", "other"))
    german, quechua = (part.comparison for part in found.metrics["cider"].values())
    assert {one.system: one.difference for one in german.differences} == pytest.approx(
        {"small": -2.555482300, "other": -2.394583756}, abs=1e-6
    )
    assert quechua.differences[1].difference == pytest.approx(1.223566307, abs=1e-6)
    assert all(one.interval is one.p_randomisation is None for one in german.differences)


def test_intervals_draw_photos_for_both_systems_alike(folder, tmp_path):
    options = TaskOptions(bootstrap=200, confidence=0.8, seed=3)
    found = run(folder, write_systems(tmp_path, "small", "large"), options=options)
    (one,) = found.metrics["cider"]["de"].comparison.differences
    small = np.array([1.748063421, 2.365653295, 3.143703806, 2.768041011])
    large = np.array([5.661764706, 3.628693514, 4.774105863, 6.182826648])
    drawn = multiplicities(np.random.default_rng(3), 4, 200)
    low, high = np.quantile((large - small) @ drawn / 4, [0.1, 0.9])
    assert (one.interval.low, one.interval.high) == pytest.approx((low, high), abs=1e-6)
    assert one.p_randomisation == 2 / 16  # all four photos have the same sign


def test_the_order_of_rows_and_of_systems_does_not_matter(folder, tmp_path):
    options = TaskOptions(bootstrap=100)
    straight = run(folder, write_systems(tmp_path, "small", "large"), options=options).metrics["cider"]
    files = {}
    for name in ("large", "small"):
        rows = rows_of(name)
        random.Random(name).shuffle(rows)
        files[name] = write_rows(tmp_path / f"{name}-shuffled.jsonl", rows)
    turned = run(folder, files, options=options).metrics["cider"]
    for part, other in zip(straight.values(), turned.values(), strict=True):
        assert other.comparison.means == pytest.approx(part.comparison.means, abs=1e-9)
        assert other.signature == part.signature
        (here,), (there,) = part.comparison.differences, other.comparison.differences
        assert there.difference == pytest.approx(-here.difference, abs=1e-9)
        ends = [-here.interval.high, -here.interval.low]
        assert [there.interval.low, there.interval.high] == pytest.approx(ends, abs=1e-9)


def test_published_scores_stand_beside_those_of_the_whole_set(folder, tmp_path, monkeypatch):
    systems = write_systems(tmp_path, "small", "large")
    part = run(folder, systems)
    assert [one.published for one in part.metrics["cider"].values()] == [None, None]
    told = [note for note in part.notes if "published" in note]
    assert told == ["xm3600 (de, quz, test) has 4 rows where 3,600 were published: is a file cut short?"]
    monkeypatch.setattr(
        builder_class("xm3600"), "COUNTS", {name: {"test": {"rows": 4}} for name in ("de", "quz")}
    )
    whole = run(folder, systems)
    assert [one.published for one in whole.metrics["cider"].values()] == [0.224, None]
    assert published_score("xm3600", "cider", "zh") == 0.202
    assert published_score("xm3600", "bleu_4", "en") is None
    means, german, _ = [part for part in systems_report(whole).parts if isinstance(part, Table)]
    assert " ".join(means.headings) == "language photos small large published"
    assert german.title == "cider, de (4 rows, 4 photos)"


def test_several_metrics_and_one_language(folder, tmp_path):
    metrics = {
        "bleu_1": lambda: capscore.load("bleu"),
        "rouge_l": lambda: capscore.load("rouge_l"),
    }
    found = run(folder, write_systems(tmp_path, "small", "large"), metrics, configs=["quz"])
    assert list(found.metrics) == ["bleu_1", "rouge_l"] and list(found.metrics["bleu_1"]) == ["qu"]
    quechua = found.metrics["bleu_1"]["qu"]
    assert quechua.signature.endswith("|component:bleu_1") and quechua.published is None
    # 1-grams of "small": all of 2, 1, 2, 2 words are in references of 3, 3, 3, 2 words at the nearest
    assert quechua.comparison.means["small"] == pytest.approx(
        np.mean([1, np.exp(1 - 3), np.exp(1 - 3 / 2), 1]), abs=1e-6
    )


def test_one_system_is_scored_and_not_compared(folder, tmp_path):
    found = run(folder, write_systems(tmp_path, "small"))
    german = found.metrics["cider"]["de"].comparison
    assert german.means["small"] == pytest.approx(2.506365383, abs=1e-6) and german.differences == ()


def test_photos_and_languages_in_common(folder, tmp_path):
    systems = write_systems(tmp_path, "small", "large")
    rows = [row for row in rows_of("large") if row["language"] == "de" and row["image_id"] != "11bb"]
    systems["large"] = write_rows(tmp_path / "part.jsonl", rows)
    with pytest.raises(InputError, match=r"large has no caption in 'de' of 1 of the 4 photos .* as 11bb"):
        run(folder, systems)
    found = run(folder, systems, common_rows=True)
    german, quechua = (part.comparison for part in found.metrics["cider"].values())
    assert (german.n_rows, quechua.n_rows) == (3, 4)
    assert quechua.differences == () and list(quechua.means) == ["small"]
    rows = [
        (CAPTIONS["large"]["de"][place].lower(), [text.lower() for text in REFERENCES[photo]["de"]])
        for place, photo in enumerate(REFERENCES)
        if photo != "11bb"
    ]
    assert german.means["large"] == pytest.approx(np.mean(naive(rows)), abs=1e-9)
    assert "de: 3 of 4 photos, those that all have" in found.notes


def test_a_language_that_one_system_lacks(folder, tmp_path):
    systems = write_systems(tmp_path, "small", "large")
    rows = [row for row in rows_of("large") if row["language"] == "de"]
    systems["large"] = write_rows(tmp_path / "german.jsonl", rows)
    with pytest.raises(InputError, match=r"large has no caption in 'qu' of 4 of the 4"):
        run(folder, systems)


def test_a_photo_that_the_set_does_not_have(folder, tmp_path):
    rows = rows_of("small")
    rows[2]["image_id"] = "images/99zz.jpg"
    systems = {"small": write_rows(tmp_path / "small.jsonl", rows)}
    with pytest.raises(InputError, match=r"small.jsonl, line 3 .*: xm3600 · de has no photo '99zz'"):
        run(folder, systems)


def test_metrics_that_look_at_photos_say_which_are_missing(folder, tmp_path):
    metrics = {"mcs": lambda: capscore.load("mcs", backbone="embedded-free")}
    with pytest.raises(
        CapscoreError, match="mcs: 4 of the 4 photos of xm3600 · de cannot be scored; 00aa, for"
    ):
        run(folder, write_systems(tmp_path, "small", "large"), metrics)


def test_sets_and_configurations(folder, tmp_path):
    systems = write_systems(tmp_path, "small")
    with pytest.raises(
        InputError, match="'vicr' is not a set of captioned photos; those are xm3600, multi30k"
    ):
        run_systems("vicr", systems, CIDER)
    with pytest.raises(
        InputError, match="nocaps has several sets of references in 'en': choose one of in, near"
    ):
        run_systems("nocaps", systems, CIDER)
    with pytest.raises(InputError, match="xm3600 has no configuration 'xx'"):
        run(folder, systems, configs=["xx"])
    with pytest.raises(InputError, match="at least one system and one metric"):
        run(folder, {})


def test_the_file_of_all_languages_is_parsed_once(folder, tmp_path, monkeypatch):
    systems = write_systems(tmp_path, "small", "large")
    apart = {}
    for name in ("de", "quz"):
        for language, one in run(folder, systems, configs=[name]).metrics["cider"].items():
            apart[language] = one.comparison.means
    parsed = []
    plain = AnnotationSource._parsed
    monkeypatch.setattr(
        AnnotationSource,
        "_parsed",
        lambda self, text, line: (parsed.append(line), plain(self, text, line))[1],
    )
    found = run(folder, systems)
    assert parsed == [1, 2, 3, 4]
    assert {name: one.comparison.means for name, one in found.metrics["cider"].items()} == apart
    digest = hashlib.sha256((folder / "captions.jsonl").read_bytes()).hexdigest()
    assert found.files == {"captions.jsonl": digest}
    table = caption_statistics("xm3600", ["de", "quz"], data_dir=folder)
    assert parsed == [1, 2, 3, 4] * 2
    assert [part["files"] for part in table["configs"]] == [{"captions.jsonl": digest}] * 2


def test_a_file_that_changes_is_read_again(folder):
    kept, rows = KeptReadings(), []
    for word in ("Hund", "Vogel"):
        path = folder / "captions.jsonl"
        path.write_text(path.read_text(encoding="utf-8").replace("Hund", word), encoding="utf-8")
        builder, split = open_benchmark("xm3600", "de", data_dir=folder, images=False, kept=kept)
        rows.append(next(iter(builder.examples(split)))[1]["references"][0])
        assert builder.files_read[path].sha256() == hashlib.sha256(path.read_bytes()).hexdigest()
    assert rows == ["ein Hund läuft am Strand", "ein Vogel läuft am Strand"]
