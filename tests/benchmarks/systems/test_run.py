"""Systems on a tiny Crossmodal-3600: CIDEr against the formula with dicts, differences, bad files."""

from __future__ import annotations

import hashlib
import itertools
import random

import numpy as np
import pytest

import capscore
from capscore import CapscoreError, InputError
from capscore.benchmarks.caption_statistics import caption_statistics
from capscore.benchmarks.data.annotation_files import AnnotationSource, KeptReadings
from capscore.benchmarks.data.load import builder_class
from capscore.benchmarks.run import open_benchmark
from capscore.benchmarks.systems import Evaluation, run_systems
from capscore.benchmarks.tasks import TaskOptions
from capscore.show.system_tables import systems_report
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
    (metric,) = found.metrics
    assert [(one.language, one.config) for one in metric.languages] == [("de", "de"), ("qu", "quz")]
    assert [(one.n_photos, one.n_references) for one in metric.languages] == [(4, 8), (4, 7)]
    for one, name in zip(metric.languages, ("de", "quz"), strict=True):
        for system, mean in one.means.items():
            assert mean == pytest.approx(MEANS[one.language][system], abs=1e-6)
            rows = [
                (caption.lower(), [text.lower() for text in own[name]])
                for caption, own in zip(CAPTIONS[system][name], REFERENCES.values(), strict=True)
            ]
            assert mean == pytest.approx(np.mean(naive(rows)), abs=1e-9)
    assert metric.means["small"] == pytest.approx((2.506365383 + 2.548345568) / 2, abs=1e-6)


def test_differences_of_every_two_systems(folder, tmp_path):
    found = run(folder, write_systems(tmp_path, "small", "large", "other"))
    german, quechua = found.metrics[0].languages
    assert found.pairs == [("small", "large"), ("small", "other"), ("large", "other")]
    expected = {("small", "large"): 2.555482300, ("small", "other"): 0.160898544}
    expected["large", "other"] = -2.394583756
    differences = {(one.first, one.second): one.difference for one in german.differences}
    assert differences == pytest.approx(expected, abs=1e-6)
    assert quechua.differences[2].difference == pytest.approx(1.223566307, abs=1e-6)
    assert all(one.interval is None and not one.is_clear for one in german.differences)


def test_intervals_draw_photos_for_both_systems_alike(folder, tmp_path):
    options = TaskOptions(bootstrap=200, confidence=0.8, seed=3)
    found = run(folder, write_systems(tmp_path, "small", "large"), options=options)
    (one,) = found.metrics[0].languages[0].differences
    small = np.array([1.748063421, 2.365653295, 3.143703806, 2.768041011])
    large = np.array([5.661764706, 3.628693514, 4.774105863, 6.182826648])
    drawn = multiplicities(np.random.default_rng(3), 4, 200)
    low, high = np.quantile((large - small) @ drawn / 4, [0.1, 0.9])
    assert (one.interval.low, one.interval.high) == pytest.approx((low, high), abs=1e-6)
    assert one.is_clear == (low > 0)


def test_the_order_of_rows_and_of_systems_does_not_matter(folder, tmp_path):
    names = ["small", "large", "other"]
    options = TaskOptions(bootstrap=100)
    straight = run(folder, write_systems(tmp_path, *names), options=options).metrics[0]
    of_pair = [{(one.first, one.second): one for one in part.differences} for part in straight.languages]
    for seed, order in enumerate(itertools.permutations(names)):
        files = {}
        for name in order:
            rows = rows_of(name)
            random.Random(seed).shuffle(rows)
            files[name] = write_rows(tmp_path / f"{name}{seed}.jsonl", rows)
        turned = run(folder, files, options=options).metrics[0]
        for part, other, known in zip(straight.languages, turned.languages, of_pair, strict=True):
            assert other.means == pytest.approx(part.means, abs=1e-9)
            assert other.signature == part.signature
            for one in other.differences:
                flipped = (one.first, one.second) not in known
                same = known[(one.second, one.first) if flipped else (one.first, one.second)]
                sign = -1 if flipped else 1
                assert one.difference == pytest.approx(sign * same.difference, abs=1e-9)
                ends = sorted([sign * same.interval.low, sign * same.interval.high])
                assert [one.interval.low, one.interval.high] == pytest.approx(ends, abs=1e-9)


def test_published_scores_stand_beside_those_of_the_whole_set(folder, tmp_path, monkeypatch):
    systems = write_systems(tmp_path, "small", "large")
    part = run(folder, systems)
    assert [dict(one.published) for one in part.metrics[0].languages] == [{}, {}]
    told = [note for note in part.notes if "published" in note]
    assert told == ["xm3600 (de, quz, test) has 4 rows where 3,600 were published: is a file cut short?"]
    monkeypatch.setattr(
        builder_class("xm3600"), "COUNTS", {name: {"test": {"rows": 4}} for name in ("de", "quz")}
    )
    german, quechua = run(folder, systems).metrics[0].languages
    assert german.published == {"BB+CC": 0.224, "Bg": 0.138, "Lg": 0.130, "BB": 0.112}
    assert quechua.published == {}
    means, differences = systems_report(run(folder, systems)).tables
    assert " ".join(means.headings) == "language photos small large published"
    assert " ".join(differences.headings) == "language large − small 95% interval"


def test_several_metrics_and_one_language(folder, tmp_path):
    metrics = {
        "bleu_1": lambda: capscore.load("bleu"),
        "rouge_l": lambda: capscore.load("rouge_l"),
    }
    found = run(folder, write_systems(tmp_path, "small", "large"), metrics, configs=["quz"])
    assert [one.metric for one in found.metrics] == ["bleu_1", "rouge_l"]
    (quechua,) = found.metrics[0].languages
    assert quechua.signature.endswith("|component:bleu_1") and quechua.published == {}
    # 1-grams of "small": all of 2, 1, 2, 2 words are in references of 3, 3, 3, 2 words at the nearest
    assert quechua.means["small"] == pytest.approx(
        np.mean([1, np.exp(1 - 3), np.exp(1 - 3 / 2), 1]), abs=1e-6
    )
    assert "small: 4 rows in other languages left out" in found.notes


def test_agreement_with_people(folder, tmp_path):
    systems = write_systems(tmp_path, "small", "large", "other")
    people = [
        Evaluation("small", "large", "de", 30.0),
        Evaluation("other", "large", "de", 25.0),
        Evaluation("small", "other", "de", -4.0),
        Evaluation("large", "other", "qu", 10.0),
        Evaluation("large", "other", "en", 10.0),
    ]
    found = run(folder, systems, evaluations=people)
    agreement = found.metrics[0].agreement
    assert set(agreement) == {"all", "de"}
    # differences 2.555, 2.395, 0.161 and 1.224 against gains of 30, 25, −4 and 10; then with flipped signs
    both = np.array([[2.555482300, 2.394583756, 0.160898544, 1.223566307], [30, 25, -4, 10]])
    both = np.concatenate([both, -both], axis=1)
    assert agreement["all"].values["pearson"] == pytest.approx(np.corrcoef(both)[0, 1], abs=1e-6)
    # of 28 pairs of points one is in the opposite order: 0.161 and −0.161 against −4 and 4
    assert agreement["all"].values["tau_b"] == pytest.approx(26 / 28, abs=1e-9)
    assert agreement["all"].n_evaluations == 4 and agreement["de"].n_evaluations == 3
    assert "1 of 5 side-by-side evaluations left out: they are of other systems or languages" in found.notes
    with pytest.raises(
        InputError, match="no side-by-side rating compares two of the systems small, large in"
    ):
        run(folder, write_systems(tmp_path, "small", "large"), evaluations=people[1:2])


def test_one_system_is_scored_and_not_compared(folder, tmp_path):
    found = run(folder, write_systems(tmp_path, "small"))
    assert found.metrics[0].languages[0].means["small"] == pytest.approx(2.506365383, abs=1e-6)
    assert found.metrics[0].languages[0].differences == ()
    assert "1 system: there is nothing to compare it with" in found.notes


def test_photos_and_languages_in_common(folder, tmp_path):
    systems = write_systems(tmp_path, "small", "large")
    rows = [row for row in rows_of("large") if row["language"] == "de" and row["image_id"] != "11bb"]
    systems["large"] = write_rows(tmp_path / "part.jsonl", rows)
    with pytest.raises(
        InputError, match=r"part.jsonl has no caption in 'de' of 1 of the 4 photos .* as 11bb"
    ):
        run(folder, systems)
    found = run(folder, systems, common_rows=True)
    german, quechua = found.metrics[0].languages
    assert (german.n_photos, quechua.n_photos) == (3, 4)
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
    with pytest.raises(InputError, match=r"german.jsonl has no caption in 'qu' of 4 of the 4"):
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
        for one in run(folder, systems, configs=[name]).metrics[0].languages:
            apart[one.language] = one.means
    parsed = []
    plain = AnnotationSource._parsed
    monkeypatch.setattr(
        AnnotationSource,
        "_parsed",
        lambda self, text, line: (parsed.append(line), plain(self, text, line))[1],
    )
    found = run(folder, systems)
    assert parsed == [1, 2, 3, 4]
    assert {one.language: one.means for one in found.metrics[0].languages} == apart
    digest = hashlib.sha256((folder / "captions.jsonl").read_bytes()).hexdigest()
    assert found.files == {"captions.jsonl": digest}
    table = caption_statistics("xm3600", ["de", "quz"], data_dir=folder)
    assert parsed == [1, 2, 3, 4] * 2
    assert [one.files for one in table.configs] == [{"captions.jsonl": digest}] * 2


def test_a_file_that_changes_is_read_again(folder):
    kept, rows = KeptReadings(), []
    for word in ("Hund", "Vogel"):
        path = folder / "captions.jsonl"
        path.write_text(path.read_text(encoding="utf-8").replace("Hund", word), encoding="utf-8")
        builder, split = open_benchmark("xm3600", "de", data_dir=folder, images=False, kept=kept)
        rows.append(next(iter(builder.examples(split)))[1]["references"][0])
        assert builder.files_read[path].sha256() == hashlib.sha256(path.read_bytes()).hexdigest()
    assert rows == ["ein Hund läuft am Strand", "ein Vogel läuft am Strand"]
