"""The doors to the library give one number for the same rows, whatever the rows and names are like."""

import functools
import itertools

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

import capscore
from capscore.benchmarks.protocols import retrieval
from capscore.benchmarks.tasks import RetrievalTask, TaskOptions
from capscore.comparing.systems import read_systems
from capscore.errors import InputError, OptionError
from capscore.integrations.ray import Score
from capscore.integrations.torchmetrics import CaptionMetric
from capscore.integrations.trainer import CaptionCallback
from capscore.options import Sampling
from capscore.scoring.calibrating import CaptionedPhoto, other_captions
from tools.tiny.colours import BLUE, RED, ColourBackbone
from tools.tiny.command import write_jsonl

from .metrics.test_formulas import naive_cider
from .photos import GREY, png


def test_metrics_of_a_collection_keep_their_own_rows_unless_all_settings_agree():
    """They agree on the first batch: a caption of one sentence, then one of two."""

    def made():
        backbone = ColourBackbone()
        backbone.by_sentence = True
        options = {"language": "en", "backbone": backbone, "cache": False}
        metrics = {"mcs": CaptionMetric("mcs", **options), "again": CaptionMetric("mcs", **options)}
        metrics |= {"cut": CaptionMetric("mcs", long="cut", **options)}
        return metrics | {"clip_score": CaptionMetric("clip_score", **options)}

    together, alone = MetricCollection(made()), made()
    for batch in ((["red"], [RED]), (["A red ball. The blue box."], [RED])):
        together.update(*batch)
        for metric in alone.values():
            metric.update(*batch)
    assert sorted(map(len, together.compute_groups.values())) == [1, 1, 2]
    found = {name: float(number) for name, number in together.compute().items()}
    assert found == {name: float(metric.compute()) for name, metric in alone.items()}
    assert found["mcs"] != found["cut"]


@pytest.mark.parametrize(
    "ids",
    [
        *([7, 8], ["7", "8"], [[7], [8]], (7, 8), np.array([7, 8]), np.array([[7], [8]])),
        *(torch.tensor([7, 8]), [torch.tensor(7), torch.tensor([8])], [np.int32(7), np.float64(8)]),
    ],
    ids=lambda ids: f"{type(ids).__name__} of {type(ids[0]).__name__}",
)
def test_a_row_has_one_name_whatever_holds_it(ids):
    metric = CaptionMetric("rouge_l", language="en")
    for named in ([7, 8], ids):
        metric.update(["a dog", "a cat"], references=[["a dog"], ["a bus"]], ids=named)
    assert int(metric.n_rows) == 2
    for one in (7, "7", "x.jpg", ["x.jpg"]):
        metric.update(["a"], references=[["a"]], ids=one)
    assert int(metric.n_rows) == 3
    metric.update(["a", "b"], references=[["a"], ["b"]], ids=[None, float("nan")])
    assert int(metric.n_rows) == 5
    with pytest.raises(InputError, match="ids: got 1; expected 2, one per caption"):
        metric.update(["a", "b"], references=[["a"], ["b"]], ids=[1])


def test_what_is_no_set_of_metrics_is_refused_by_every_door():
    scorers = [capscore.load("mcs", backbone=ColourBackbone(), cache=False) for _ in range(2)]
    rows = [{"image": "a.jpg", "caption": "a dog"}]
    for call in (
        lambda: capscore.score_stream(rows, scorers),
        lambda: capscore.score_file(rows, scorers),
        lambda: capscore.score_file(rows, scorers, preset="multilingual"),
        lambda: capscore.score_file(rows, [scorers[0], "mcs"]),
        lambda: Score(["mcs", "mcs@embedded-free"]),
        lambda: CaptionCallback(len, ["a.jpg"], ["mcs", "mcs"]),
    ):
        with pytest.raises(OptionError, match=r"two scorers of|is there twice"):
            call()
    systems = {"a": rows, "b": rows}
    one = (capscore.load,), (CaptionMetric,), (capscore.explain, RED, "a"), (capscore.battles, systems)
    some = *one, (capscore.score_file, rows), (capscore.score_stream, rows), (capscore.calibrate, rows)
    every = *some, (capscore.compare, systems), (capscore.benchmark, "thumb")
    wrong = {3: every, (3, "mcs"): every, (): some, ("mcs", "cider"): one, scorers[0]: every[-3:]}
    for given, doors in wrong.items():
        for door, *first in doors:
            with pytest.raises(OptionError, match=r"metric: (expected the name|got \d metrics)"):
                door(*first, given)


def test_systems_may_have_any_name():
    names = ["missing", "self", "rows", "systems", "images", "name", "all", "en"]
    systems = {name: [0.1 * number, 0.2, 0.3] for number, name in enumerate(names)}
    (found,) = capscore.compare_systems(systems, images=["a", "b", "c"])
    assert [*found.figures] == names and [other.system for other in found.differences] == names[1:]


PHOTOS = {
    "1": ["a red bus on a street", "a bus in the city"],
    "2": ["a dog on a beach", "the dog runs on sand"],
    "3": ["a cat in the house"],
}
BUSES = ["a red bus in the city", "a bus", "the bus", "a city bus", "bus on street"]
OTHERS = {"2": "a dog runs on a street", "3": "a cat on a street"}


@pytest.mark.parametrize("captions", [BUSES[:1] * 5, BUSES], ids=["a row five times", "five captions"])
def test_a_photo_with_several_captions_is_one_document(captions, tmp_path):
    rows = [*(("1", text) for text in captions), *OTHERS.items()]
    references = [PHOTOS[photo] for photo, _ in rows]
    texts, ids = [text for _, text in rows], [int(photo) for photo, _ in rows]
    naive = [(text, PHOTOS[photo]) for photo, text in rows]
    expected, by_row = naive_cider(naive, [*PHOTOS.values()]), naive_cider(naive)
    score = functools.partial(capscore.load("cider").score, texts, language="en")
    forms = {
        "equal references": {},
        "pixels": {"images": [np.full((2, 2, 3), photo, np.uint8) for photo in ids]},
        "names of images": {"images": [f"{photo}.jpg" for photo in ids]},
        "bytes": {"images": [{"bytes": b"%d" % photo, "path": "x"} for photo in ids]},
        "ids": {"image_id": np.array(ids)},
    }
    found = {form: score(references=references, **columns).scores for form, columns in forms.items()}
    few = [texts[:1] for texts in references[:1]] + [texts[1:] for texts in references[1:2]] + references[2:]
    # one set of references, in two rows
    split, whole = score(image_id=ids, references=few).signature, score(references=references).signature
    assert split.partition("|refs")[0] == whole.partition("|refs")[0]
    for column in ("image_id", "image", "file_name"):
        named = []
        for photo, text in rows:
            named.append({"caption": text, "references": PHOTOS[photo], "language": "en", column: photo})
        path = write_jsonl(tmp_path / "rows.jsonl", named)
        found[column] = capscore.score_file(path, "cider")["cider"].scores
    for way, scores in found.items():
        assert scores == pytest.approx(expected, abs=1e-6), way
    named_apart = score(image_id=[*range(len(texts))], references=references).scores
    assert named_apart == pytest.approx(by_row, abs=1e-6)


@pytest.mark.parametrize("long", ["sentences", "cut"])
def test_retrieval_ranks_captions_of_several_sentences_as_their_scores_do(long):
    scorer = capscore.load("mcs", backbone=ColourBackbone(), cache=False, long=long)
    texts = ["red", "A red red ball is. The blue blue blue sea is.", "Look at the green. It is red."]
    photos = {"0": (RED, texts[:1]), "1": (BLUE, texts[1:])}
    rows = []
    for key, (photo, references) in photos.items():
        rows.append((key, {"image_id": key, "image": photo, "references": references, "language": "en"}))
    matrix, _ = scorer.score_matrix(texts, [RED, BLUE])
    found = RetrievalTask().measure(rows, scorer, "", TaskOptions(sampling=Sampling(0)))
    assert found.outcome.table() == retrieval(matrix, text_to_image=[0, 1, 1]).table()
    images, embedded, settings = scorer.embed_to_retrieve(texts, [RED, BLUE])
    assert 2.5 * np.maximum(images @ embedded.T, 0) == pytest.approx(matrix, abs=1e-6)
    stated = [scorer.score([text], [RED]).settings.get("long") for text in texts]
    assert ("long" in settings) == ("|long:" in found.signature) == any(stated)


def test_common_rows_are_chosen_before_they_are_scored_and_checked():
    """The second system has another photo, with two references, in a language that METEOR does not know."""
    rows = []
    for photo, text in {"1": BUSES[0], **OTHERS}.items():
        rows.append({"id": len(rows), "caption": text, "references": PHOTOS[photo], "language": "en"})
    more = {"id": 9, "caption": "x", "references": ["x", "y", "z"], "language": "km"}
    metrics = ["cider", "bleu", "rouge_l"]
    found = read_systems({"missing": rows, "self": [more, *rows[::-1]]}, metrics, common_rows=True)
    alone = capscore.score_file(rows, metrics)
    for metric in metrics:
        for scores in found.scores[metric].values():
            assert scores == pytest.approx(alone[metric].scores, abs=1e-9)
        assert found.signatures[metric] == alone[metric].signature


def test_a_calibration_knows_photos_by_content_and_no_right_caption_as_wrong(tmp_path):
    rows = []
    for number in range(25):
        (tmp_path / f"{number}.png").write_bytes(png(2, 2, bits=8, colour=GREY, lines=b"\0\0\0" * 2))
        rows.append({"image": str(tmp_path / f"{number}.png"), "caption": f"dog {number}"})
    with pytest.raises(capscore.InputError, match=r"has 20 photos with captions.*; photos: \d+ in "):
        capscore.calibrate(rows, "mcs@embedded-free", language="en")
    captions = ["a dog", "A dog. ", "a cat", "a  cat", "a sea"]
    of_photo = [CaptionedPhoto(photo, None, text) for photo, text in zip("vwxyz", captions, strict=True)]
    drawn = {*zip(*other_captions(of_photo, 9, 0), strict=True)}
    assert drawn == {*itertools.permutations(range(5), 2)} - {(0, 1), (1, 0), (2, 3), (3, 2)}
