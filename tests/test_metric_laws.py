"""What holds for every metric, of the library and of other packages; a metric's own tests hold its numbers.

Metrics with a backbone are tried on colours, METEOR and SPICE on stand-ins for their programs.
"""

import argparse
import functools
import inspect
import itertools
import json
import operator
import pickle
from pathlib import Path

import evaluate
import numpy as np
import pandas
import pyarrow
import pytest
from PIL import Image

import capscore
from capscore.benchmarks.robustness import CaptionSet, RobustnessOptions
from capscore.benchmarks.robustness.run import measure
from capscore.comparing.systems import read_systems
from capscore.embedding.background import Background, Curve
from capscore.errors import CapscoreWarning, ImageError, InputError, OptionError
from capscore.images.load import BLANK
from capscore.integrations.harness import HarnessMetric
from capscore.integrations.ray import Score
from capscore.integrations.torchmetrics import CaptionMetric
from capscore.integrations.trainer import CaptionCallback
from capscore.integrations.trl import caption_reward
from capscore.metrics import load_together
from capscore.metrics.base import Scorer
from capscore.metrics.cider import DocumentFrequencies
from capscore.metrics.loading import options_of
from capscore.metrics.rows import PreparedRows, parse_signature
from capscore.options import LoadOptions, Sampling, split_options
from capscore.perturbations import perturb
from capscore.registry import METRICS, register_metric
from tools.hostile import metrics as calls
from tools.hostile.metrics import COLUMNS, columns_of, load, options_for, rows_of, with_cell
from tools.tiny.colours import RED, ColourBackbone, meteor_counts
from tools.tiny.command import read_jsonl, run, write_jsonl

from .laws import every
from .outside.package import run_module

pytestmark = pytest.mark.filterwarnings("ignore::capscore.errors.CapscoreWarning")

MODULES = Path(__file__).resolve().parents[1] / "metrics"
OUTSIDE = []
for name in ("shortness", "mood", "length_ratio"):
    run_module(name)
    OUTSIDE.append(METRICS.get(name))
    METRICS.unregister(name)  # it is registered while these laws run
KINDS = {name: METRICS.get(name) for name in every("metric").args[1]}
KINDS |= {scorer.metric: scorer for scorer in OUTSIDE}


def metrics(which=lambda kind: True):
    """Parametrize a law over the metrics for which it holds."""
    return pytest.mark.parametrize("metric", [name for name, kind in KINDS.items() if which(kind)])


METRIC = metrics()

FIELDS = {"candidates": "candidate", "images": "image", "references": "references", "language": "language"}
# another value of each option that a metric has of its own
OTHER = {
    "prefix": "A ",
    "document_frequencies": DocumentFrequencies.from_references([[["red"]], [["blue"]]], segmenter="ptb2"),
    "variant": "paper",
    "clip": "clip_score",
    "n_regions": 3,
    "reading": "match",
    "formula": "p_yes",
    "question": "Is {photo} {caption}?",
    "instruction": "You are strict.",
    "answers": "no/yes",
    "max_pixels": 0,
    "rules": "mended",
    "background": Background(calls.CORNERS[:2], "colours@w00000000", {"shared": Curve(3.0, -1.0)}),
} | dict.fromkeys(("beta", "highest", "longest"), 0.5)
# see tests/metrics/test_infometic*.py, test_chair.py and test_pairs_and_long_texts.py, and tests/judges
ELSEWHERE = {"instances", "long", "pairs", "weights", "marks", "false_alarms"}
ELSEWHERE |= {"regions", "with_references", "explain", "claims_by"}


@pytest.fixture(scope="module", autouse=True)
def registered():
    """Metrics of another package, and programs that give the share of the first reference's words."""

    def spice(candidates, references):
        rows = zip(candidates, references, strict=True)
        return np.array([np.isin(texts[0].split(), text.split()).mean() for text, texts in rows])

    def meteor(candidates, references, language):
        scores = spice(candidates, references)
        return scores, meteor_counts(scores)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("capscore.metrics.spice.SPICE.program", staticmethod(spice))
        patch.setattr("capscore.metrics.meteor.Knowledge", str)
        patch.setattr("capscore.metrics.meteor.meteor_with_counts", meteor)
        for scorer in OUTSIDE:
            register_metric(scorer.metric)(scorer)
        yield
    for scorer in OUTSIDE:
        METRICS.unregister(scorer.metric)


def scored(metric, **more):
    return load(metric).score(**rows_of(metric), **more)


def numbers(scores, rows=slice(None)):
    """Scores and components of some rows, float64 (components + 1, n)."""
    return np.array([scores.scores, *scores.components.values()])[:, rows]


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@METRIC
def test_a_metric_and_its_options_are_documented(metric):
    kind, options = METRICS.get(metric), options_of(metric)
    assert kind.metric == metric and issubclass(kind, Scorer) and kind.title and metric in METRICS.names()
    assert bool(kind.default_backbone) == kind.takes_backbone
    taken = inspect.signature(kind).parameters.values()
    taken = {item.name: item.default for item in taken if item.kind is item.KEYWORD_ONLY}
    taken.pop("seed", None)  # of InfoMetIC's clusters: no option of `load`
    documented = {name: option.default for name, option in options.items() if option.own}
    assert all(documented[name] == default for name, default in taken.items())
    for option in options.values():
        assert option.summary[0].isupper() and option.summary[-1] == ".", option


@METRIC
def test_results_have_the_parts_and_the_range_that_their_metric_declares(metric):
    kind, found = KINDS[metric], scored(metric)
    assert tuple(found.components) == kind.component_names and tuple(found.corpus) == kind.corpus_names
    assert {float} >= {*map(type, found.corpus.values())}  # as JSON and print show them
    assert [tuple(detail) for detail in found.details or ()] == [kind.detail_names] * len(found.details or ())
    low, high = kind.score_range
    assert (low is None or found.scores.min() >= low) and (high is None or found.scores.max() <= high)
    assert found.scores.shape == (5,) and found.scores.dtype == np.float64 and found.languages == ["en"] * 5
    assert found.mean == pytest.approx(sum(found.scores) / 5, rel=1e-12)
    assert (found.n_items, found.n_scored, found.n_failed, found.n_empty) == (5, 5, 0, 0)
    assert found.n_unique_images == (3 if kind.needs_images else 0)
    assert found.n_references.tolist() == ([2, 1, 2, 1, 2] if kind.needs_references else [0] * 5)
    assert repr(found).startswith(f"Scores({metric}: mean {found.mean:.4f} of 5 rows; {metric}|")
    assert load(metric)(**rows_of(metric)).to_dict() == found.to_dict(), "a scorer can be called"


@METRIC
def test_results_are_plain_and_ready_for_json(metric):
    found = load(metric).score(**with_cell(metric, "candidates", 1, None), on_error="skip")
    result, summary = found.to_dict(), found.summary()
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert {type(value) for value in summary.values()} <= {float, int, str}
    assert {type(value) for value in result["scores"]} == {float, type(None)}
    assert summary == found.to_dict(per_row=False) == {name: result[name] for name in summary}
    frame = found.to_pandas()
    names = [metric, *found.components, *found.detail_names]
    assert [*frame.columns] == [*names, "error"] and [*frame.index[frame["error"].notna()]] == [1]
    assert_same(frame[metric], found.scores)
    assert summary[metric] == found.mean == pytest.approx(np.nanmean(found.scores), rel=1e-12)
    for name, values in found.components.items():
        assert summary[f"mean_{name}"] == pytest.approx(np.nanmean(values), rel=1e-12)
        assert result[name][1] is None and result[name][0] == values[0]
    for name in KINDS[metric].detail_names if found.details else ():
        assert result[name][1] is None and result[name][0] == found.details[0][name]


@METRIC
def test_results_survive_pickling(metric):
    scorer = load(metric)
    rows = scorer.prepare(**rows_of(metric))
    found = scorer.finish(rows)
    assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()
    assert scorer.finish(pickle.loads(pickle.dumps(rows))).to_dict() == found.to_dict()
    if not scorer.takes_backbone:
        assert pickle.loads(pickle.dumps(scorer)).score(**rows_of(metric)).to_dict() == found.to_dict()


@METRIC
def test_neither_order_nor_other_rows_nor_size_of_batches_moves_a_number(metric):
    scorer, found = load(metric), scored(metric)
    assert_same(numbers(found, [4]), numbers(found, [0]))  # they are equal
    sizes = ({"batch_size": size} for size in (1, 2, 64))
    for options in sizes if scorer.takes_backbone else [{}]:
        for order in ([4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
            shuffled = load(metric, **options).score(**rows_of(metric, order))
            assert_same(numbers(shuffled), numbers(found, order))
            assert shuffled.signature == found.signature and shuffled.corpus == pytest.approx(found.corpus)
            assert_same(shuffled.mean, found.mean)
    for row in range(5):
        alone = scorer.score(**rows_of(metric, [row]))
        assert len(alone) == 1 and parse_signature(alone.signature)[0] == metric
        if not scorer.compares_rows:
            assert_same(numbers(alone)[:, 0], numbers(found)[:, row])


@METRIC
def test_pieces_of_rows_are_finished_as_the_whole(metric):
    scorer, given = load(metric), with_cell(metric, "candidates", 2, None)
    whole = scorer.score(**given, on_error="skip")
    for cuts in ([1], [2, 4], [1, 2, 3, 4]):
        pieces = []
        for first, last in itertools.pairwise([0, *cuts, 5]):
            part = {name: values[first:last] for name, values in given.items()}
            pieces.append(scorer.prepare(**part, on_error="skip"))
        found = scorer.finish(PreparedRows.concatenate(pieces))
        assert_same(numbers(found), numbers(whole))
        assert found.corpus == whole.corpus and found.details == whole.details
        assert (found.signature, found.failures) == (whole.signature, whole.failures)


@METRIC
def test_columns_of_any_type_stay_unchanged(metric):
    given, scorer = rows_of(metric), load(metric)
    before = [*map(repr, given.values())]
    expected = scorer.score(**given).to_dict()
    assert [*map(repr, given.values())] == before
    texts = {name for name in given if name != "images"}
    series = functools.partial(pandas.Series, index=range(5, 0, -1))
    for make in (tuple, iter, np.array, pyarrow.array, series):
        changed = {name: make(given[name]) for name in texts - {"references"}}
        if "references" in texts and make in (tuple, iter, pyarrow.array):
            changed["references"] = make(given["references"])
        assert scorer.score(**{**given, **changed}).to_dict() == expected


@METRIC
def test_a_signature_names_what_the_numbers_depend_on(metric):
    found = scored(metric)
    name, settings = parse_signature(found.signature)
    assert name == metric and settings["lang"] == "en" and "version" in settings
    assert settings["refs"] == ("var" if KINDS[metric].needs_references else "0")
    if KINDS[metric].takes_backbone:
        backbone = options_for(metric)["backbone"]
        assert settings["backbone"] == f"{backbone.name}@{backbone.revision}"
        assert settings.get("prefix", "none") == "none"
    own = {name for name, option in options_of(metric).items() if option.own} - {"empty"}
    assert own <= OTHER.keys() | ELSEWHERE, "an option that no test sets"
    for option in own & OTHER.keys():
        changed = load(metric, **{option: OTHER[option]}).score(**rows_of(metric))
        assert changed.signature != found.signature, option


@METRIC
def test_languages_are_in_the_signature(metric):
    first = "en" if metric in ("chair", "spice") else "de"  # those read nothing else
    found = load(metric).score(**rows_of(metric, language=[first, None, "en-GB", "", float("nan")]))
    assert found.languages == [first, "", "en", "", ""] and found.n_failed == 0
    assert f"|lang:{'de+' * (first == 'de')}en+unstated|" in found.signature
    given = rows_of(metric) | {"language": "en-GB"}
    assert load(metric).score(**given).signature == scored(metric).signature
    assert "|lang:unstated|" in load(metric).score(**given | {"language": None}).signature


@METRIC
@pytest.mark.parametrize("column", COLUMNS)
def test_a_bad_cell_is_named_and_can_be_skipped(metric, column, tmp_path):
    if column not in columns_of(metric):
        return
    (tmp_path / "cut.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    scorer, field = load(metric), FIELDS[column]
    expected = scorer.score(**rows_of(metric, [0, 2, 3, 4]))
    for value in [*calls.BAD[column], *[tmp_path / "cut.png"] * (column == "images")]:
        given = with_cell(metric, column, 1, value)
        with pytest.raises(InputError, match=f"^row 1, {field}: ") as caught:
            scorer.score(**given)
        assert (caught.value.row, caught.value.field) == (1, field), value
        assert isinstance(caught.value, ImageError) == (column == "images")
        found = scorer.score(**given, on_error="skip")
        assert np.isnan(numbers(found, [1])).all() and [*found.failures] == [1] and found.n_scored == 4
        assert found.failures[1].startswith(f"{field}: ")
        assert_same(numbers(found, [0, 2, 3, 4]), numbers(expected))
        assert (found.signature, found.corpus) == (expected.signature, expected.corpus)
        assert_same(found.mean, expected.mean)


@METRIC
def test_a_row_keeps_its_first_error_and_without_any_scored_row_there_is_no_mean(metric):
    found = load(metric).score(**rows_of(metric, candidates=[None] * 5), on_error="skip")
    assert np.isnan(found.mean) and (found.n_failed, found.n_scored) == (5, 0)
    result = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert result[metric] is None and result["scores"] == [None] * 5
    changed = {"candidates": [None], "images": ["gone.jpg"], "references": [[]], "language": ["nolang"]}
    given = {name: [*values[:4], *changed[name]] for name, values in rows_of(metric).items()}
    found = load(metric).score(**given, on_error="skip")
    assert [*found.failures] == [4] and found.failures[4].startswith("candidate: ")
    assert found.n_unique_images == (3 if KINDS[metric].needs_images else 0)


@METRIC
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_columns_that_do_not_fit_together_are_never_skipped(metric, on_error):
    scorer, given = load(metric), rows_of(metric)
    needed = [name for name in given if name != "language"]
    for name, values in (
        *((name, values[:4]) for name, values in given.items() if name != "candidates"),
        ("images", [RED] * 4),
        *((name, None) for name in needed),
        *((name, "red") for name in needed if name != "images"),
        ("candidates", {"red", "blue"}),
        ("candidates", np.array("red")),
        ("candidates", pandas.DataFrame({"a": ["red"]})),
        ("candidates", pyarrow.table({"a": ["red"]})),
        ("candidates", []),
        ("language", 3),
        ("language", "klingonese"),
    ):
        with pytest.raises(InputError) as caught:
            scorer.score(**{**given, name: values}, on_error=on_error)
        assert caught.value.field == name
        if isinstance(values, list) and len(values) == 4:
            assert "got 4; expected 5, one per candidate" in str(caught.value)
    if not (scorer.needs_references or scorer.takes_references):
        with pytest.raises(InputError, match="takes no references"):
            scorer.score(**given, references=COLUMNS["references"], on_error=on_error)


@metrics(lambda kind: not kind.needs_images)
def test_images_of_a_metric_of_texts_are_not_opened(metric):
    with_images = load(metric).score(**rows_of(metric), images=[f"gone {row % 4}.jpg" for row in range(5)])
    assert with_images.to_dict() == scored(metric).to_dict() and with_images.image_keys == [""] * 5


@metrics(lambda kind: kind.needs_references)
def test_a_reference_that_is_one_string_is_one_reference(metric):
    given = rows_of(metric, references=[texts[-1] for texts in COLUMNS["references"]])
    listed = given | {"references": [[text] for text in given["references"]]}
    assert load(metric).score(**given).to_dict() == load(metric).score(**listed).to_dict()


@METRIC
def test_unknown_options_and_columns_are_named(metric):
    with pytest.raises(OptionError, match="batchsize=3") as caught:
        load(metric, batchsize=3)
    assert isinstance(caught.value, TypeError)  # as a wrong keyword is
    for name in ("torch_dtype", "cache_dir", "token", "local_files_only"):  # options of transformers
        with pytest.raises(OptionError, match=f"{name}=.*; instead, use "):
            load(metric, **{name: "x"})
    for call in (load(metric).score, load(metric).prepare):
        with pytest.raises(OptionError, match=f"{metric} takes no bxes"):
            call(**rows_of(metric), bxes=[None] * 5)
    assert load(metric).score(**rows_of(metric), bxes=None).n_items == 5
    for call, name in ((load(metric).score, "on_error"), (load, "empty")):
        given = rows_of(metric) if name == "on_error" else {"metric": metric}
        with pytest.raises(InputError, match=f"{name}='ignore': expected") as wrong:
            call(**given, **{name: "ignore"})
        assert wrong.value.option == name


@metrics(lambda kind: kind.splits_texts)
def test_a_language_that_cannot_be_split_fails_by_row(metric):
    scorer = load(metric)
    assert not scorer.language_problem("en") and not scorer.language_problem("")
    with pytest.raises(InputError, match=r"^row 1, language: "):
        scorer.score(**with_cell(metric, "language", 1, "km"))
    assert [*scorer.score(**with_cell(metric, "language", 1, "km"), on_error="skip").failures] == [1]


@METRIC
def test_an_empty_caption_gets_the_worst_score_unless_an_option_says_otherwise(metric):
    without = load(metric).score(**rows_of(metric, [0, 2, 3, 4]))
    blanks, worst = [], KINDS[metric].worst_score()
    for blank in calls.BLANKS:
        given = with_cell(metric, "candidates", 1, blank)
        for on_error in ("raise", "skip"):
            with pytest.raises(InputError, match=r"^row 1, candidate: .*empty='skip'"):
                load(metric, empty="raise").score(**given, on_error=on_error)
        left_out = load(metric, empty="skip").score(**given)
        assert np.isnan(left_out.scores[1]) and left_out.empty.tolist() == [False, True, False, False, False]
        counted = load(metric, empty="score").score(**given)
        if load(metric).compares_rows:  # the photo of the row is a document
            assert_same(numbers(left_out, [0, 2, 3, 4]), numbers(counted, [0, 2, 3, 4]))
        else:
            assert_same(numbers(left_out, [0, 2, 3, 4]), numbers(without))
            assert left_out.corpus == pytest.approx(without.corpus)
            assert_same(left_out.mean, without.mean)
        usual = load(metric).score(**given)
        assert np.isfinite(counted.scores).all()
        assert usual.scores[1] == pytest.approx(counted.scores[1] if worst is None else worst)
        assert_same(usual.scores[[0, 2, 3, 4]], counted.scores[[0, 2, 3, 4]])
        assert usual.ranking[1] <= usual.ranking.min() or worst is None
        blanks.append(counted.scores)
        stated = "score" if worst is None else "worst"
        for found, word, n_scored in ((left_out, "skip", 4), (counted, "score", 5), (usual, stated, 5)):
            assert (found.n_scored, found.n_empty, found.n_failed) == (n_scored, 1, 0)
            assert f"|empty:{word}|" in found.signature and "empty" not in without.signature
    assert_same(np.ptp(blanks, axis=0), np.zeros(5))


@METRIC
@pytest.mark.parametrize("empty", ["worst", "score", "skip"])
def test_a_row_that_is_both_empty_and_broken_counts_once(metric, empty):
    given = with_cell(metric, "candidates", 1, "")
    given["language"][1] = "nolang"
    found = load(metric, empty=empty).score(**given, on_error="skip")
    assert (found.n_empty, found.n_failed, found.n_scored) == (0, 1, 4) and not found.empty.any()
    nothing = load(metric, empty="skip").score(**rows_of(metric, candidates=calls.BLANKS))
    assert nothing.to_dict()[metric] is None and nothing.n_empty == 5


@metrics(lambda kind: kind.needs_images)
def test_photos_that_show_nothing_are_named_also_where_results_are_cached(metric, tmp_path):
    texture = np.random.default_rng(0).integers(0, 255, (32, 32, 3), np.uint8)
    nearly_white = np.full((32, 32, 3), 254, np.uint8)
    nearly_white[0] = 251
    flat = np.zeros((2, 8, 3), np.uint8)
    given = rows_of(metric, images=[nearly_white, texture, np.zeros((9, 9, 3), np.uint8), flat, texture])
    kept = {"cache": tmp_path} if KINDS[metric].takes_backbone else {}
    for _ in range(2):
        BLANK.clear()
        with pytest.warns(CapscoreWarning, match=r"3 have a photo that shows nothing: .*\(first: row 0"):
            load(metric, **kept).score(**given)


def module_of(metric, **options):
    """The metric's `evaluate` module: the published one, or one that is written in three lines."""
    if (MODULES / metric).is_dir():
        return evaluate.load(str(MODULES / metric), **options)
    describe = classmethod(lambda cls: ("A metric.", ""))
    return type("Module", (capscore.CaptionModule,), {"metric": metric, "describe": describe})(**options)


def for_module(given):
    return {"predictions" if name == "candidates" else name: values for name, values in given.items()}


@METRIC
def test_the_module_gives_the_numbers_of_the_library(metric, tmp_path):
    module = module_of(metric, cache_dir=str(tmp_path), **options_for(metric))
    expected = scored(metric).to_dict()
    assert module.compute(**for_module(rows_of(metric))) == expected
    module.add_batch(**for_module(rows_of(metric, [0, 1])))
    module.add(**{name: values[0] for name, values in for_module(rows_of(metric, [2])).items()})
    assert len(module) == 3
    in_pieces = module.compute(**for_module(rows_of(metric, [3, 4])))
    assert_same(in_pieces["scores"], expected["scores"])
    assert in_pieces["signature"] == expected["signature"] and in_pieces.keys() == expected.keys()
    with pytest.raises(InputError, match=f"{metric} has no rows to compute"):
        module.compute()
    with pytest.raises(TypeError, match="captions"):
        module.compute(captions=["red"])
    with pytest.raises(TypeError, match="batchsize"):
        _ = module_of(metric, batchsize=3).scorer


@METRIC
def test_the_command_gives_the_numbers_of_the_library(metric, tmp_path, monkeypatch):
    options = options_for(metric)
    backbone = options.pop("backbone", None)
    options.pop("cache", None)
    for loader in ("backbones.load_backbone", "judges.model.load_judge"):
        monkeypatch.setattr(f"capscore.{loader}", lambda name, **options: backbone)
    rows = []
    for row, image in enumerate(COLUMNS["images"]):
        Image.fromarray(image).save(tmp_path / f"{row % 4}.png")
        cells = {"caption": COLUMNS["candidates"][row], "image": f"{row % 4}.png", "language": "en"}
        rows.append(cells | {"references": COLUMNS["references"][row]})
    if "background" in options:
        document = {"background": options["background"].to_dict()}
        options["background"] = tmp_path / "background.json"
        options["background"].write_text(json.dumps(document))
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    flags += ["--images", tmp_path, "-o", tmp_path / "scored.jsonl", "--json"]
    done = run("score", write_jsonl(tmp_path / "rows.jsonl", rows), "-m", metric, *flags)
    assert done.exit_code == 0, done.output
    expected, cells = scored(metric), read_jsonl(tmp_path / "scored.jsonl")
    for name, values in {metric: expected.scores, **expected.components}.items():
        assert_same([row[name] for row in cells], values)
    assert expected.signature in done.output


@METRIC
@pytest.mark.parametrize("caption", ["blue dog", ""], ids=["words", "an empty caption"])
def test_streams_and_frameworks_give_the_numbers_of_the_library(metric, caption, tmp_path):
    """Metrics that compare rows are refused where rows come batch by batch."""
    options = options_for(metric)
    if "document_frequencies" in options_of(metric):
        options["document_frequencies"] = OTHER["document_frequencies"]
    (scorer,) = load_together(metric, **options)
    captions = [*COLUMNS["candidates"][:3], caption, "red"]
    given = rows_of(metric, language=["en", "en", "", "", "en"], candidates=captions)
    expected = scorer.score(**given)
    image = operator.itemgetter("images") if scorer.needs_images else None
    references = operator.itemgetter("references") if scorer.needs_references else None
    harness = HarnessMetric(metric, image=image, references=references, **options)
    rows = [dict(zip(given, cells, strict=True)) for cells in zip(*given.values(), strict=True)]
    answers = [harness.process_results(row, [f" {row['candidates']} "])[metric] for row in rows]
    assert harness.aggregation(answers) == pytest.approx(expected.of_set, rel=1e-6)
    photos = given.get("images", COLUMNS["images"])
    callback = CaptionCallback(lambda model: captions, photos, [metric], worst=1, **options)
    callback.references, callback.language = given.get("references"), given["language"]
    state = argparse.Namespace(is_world_process_zero=True, global_step=1, log_history=[])
    callback.on_evaluate(argparse.Namespace(output_dir=tmp_path), state, None, metrics={})
    assert state.log_history[0][f"eval_{metric}"] == pytest.approx(expected.of_set, rel=1e-6)
    worst = json.loads((tmp_path / "captions" / "step-000001.jsonl").read_text(), parse_constant=pytest.fail)
    assert expected.ranking[worst["row"]] == pytest.approx(expected.ranking.min())
    names = {"candidates": "caption", "images": "image"}
    rows = [{names.get(name, name): cell for name, cell in row.items()} for row in rows]
    systems = {name: [{**row, "id": n} for n, row in enumerate(rows)] for name in ("missing", "self")}
    compared = read_systems(systems, [metric], load=split_options(options, LoadOptions)[0])
    for scores in compared.scores[metric].values():
        assert_same(scores, expected.scores)
    if scorer.compares_rows:
        opened = (Score, CaptionMetric, caption_reward)
        doors = [functools.partial(door, metric, **options) for door in opened]
        for refused in (functools.partial(capscore.score_stream, rows, scorer), *doors):
            with pytest.raises(capscore.CapscoreError, match=f"{metric} compares"):
                refused()
        return
    stream = capscore.score_stream(iter(rows), scorer, batch_rows=2)
    assert_same([row[metric] for row in stream], expected.scores)
    summary, whole = stream.summary()["metrics"][metric], expected.summary()
    whole["mean"] = whole.pop(metric)
    assert summary.keys() == whole.keys() and summary["signature"] == whole["signature"]
    figures = [name for name in summary if name != "signature"]
    assert_same(*(np.array([part[name] for name in figures], dtype=float) for part in (summary, whole)))
    batch = {name: np.array([*column, None], dtype=object)[:5] for name, column in _columns(rows).items()}
    assert_same(Score(metric, **options)(batch)[metric], expected.scores)
    columns = _columns(rows)
    rewards = caption_reward(metric, **options)([""] * 5, columns.pop("caption"), **columns)
    assert_same(rewards, expected.rising())
    torch_metric = CaptionMetric(metric, **options)
    assert torch_metric.higher_is_better == harness.higher_is_better == KINDS[metric].higher_is_better
    for part in ([0, 1], [2, 3, 4]):
        cut = {name: [values[row] for row in part] for name, values in given.items()}
        torch_metric.update(cut.pop("candidates"), **cut)
    assert float(torch_metric.compute()) == pytest.approx(expected.of_set, rel=1e-6)


@metrics(lambda kind: kind.needs_images and not kind.needs_references)
def test_robustness_measures_metrics_that_look_at_the_photo_alone(metric):
    texts, photos, scorer = COLUMNS["candidates"], COLUMNS["images"], load(metric)
    captions = CaptionSet("toy", "", "", "en", texts, ["r", "g", "b", "b", "r"], photos)
    noise = RobustnessOptions(sampling=Sampling(20), degrees=True)
    (result,) = measure(captions, {metric: scorer}, noise).results
    assert_same(result.scores, scored(metric).scores)
    jumbled = scorer.score(perturb(texts, "jumble", "en").captions, photos, language="en")
    assert result.value("mean_jumble") == pytest.approx(np.mean(jumbled.scores), rel=1e-6)
    mean, drop = np.mean(result.scores), result.value("drop_jumble")
    is_undefined = any("so the drop is undefined" in note for note in result.outcome.notes)
    assert (drop is None) == is_undefined == (mean <= 0)
    assert is_undefined or drop == pytest.approx(np.mean(jumbled.scores) / mean - 1, abs=1e-6)


def _columns(rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_several_metrics_share_a_backbone():
    backbone = ColourBackbone()
    for scorer in load_together(["mcs", "ref_clip_score"], backbone=backbone, cache=False):
        scorer.score(**rows_of(scorer.metric))
        assert scorer.backbone is backbone
