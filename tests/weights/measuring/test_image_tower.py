"""The image tower's figures on a few drawn photos and invented captions, each computed a second way."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from PIL import Image
from scipy.stats import kendalltau

from capscore.benchmarks.protocols.recall import retrieval
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from capscore.options import Sampling
from tools.tiny.colours import WORDS, ColourBackbone
from tools.tiny.official import write_json, write_lines
from weights.measuring import image_tower as study
from weights.measuring.figures import ratio
from weights.measuring.image_tower import ranks

# photo → its colour; no two are alike but for the order of their parts, whose cosines would be tied
COLOURS = {
    "101_a.jpg": (250, 10, 10), "102_b.jpg": (12, 240, 30), "103_c.jpg": (25, 7, 200),
    "104_d.jpg": (200, 120, 5), "105_e.jpg": (5, 160, 150), "106_f.jpg": (150, 5, 170),
}  # fmt: skip
# photo → its English captions; the toy's words are colours, and every other word is nothing to it
ENGLISH = {
    "101_a.jpg": ["a red thing", "red red wall and green"],
    "102_b.jpg": ["all green here", "green and blue then green"],
    "103_c.jpg": ["blue as blue", "a blue and red one"],
    "104_d.jpg": ["red red green light", "green on red ground red red"],
    "105_e.jpg": ["green blue pond", "blue blue then green reeds"],
    "106_f.jpg": ["red blue dusk", "blue with red and red flags"],
}
# of every photo but the last
CHINESE = [(photo, texts[1]) for photo, texts in ENGLISH.items()][:-1]
# Multi30k's captions of one of the photos; the other photo is none of ours
MULTI30K = {"en": ["red wall", "nothing of ours"], "de": ["blue", "x"]}
COCO = {"COCO_val2014_000000000001.jpg": (230, 30, 20), "COCO_val2014_000000000002.jpg": (20, 200, 90)}
RATED = [
    ("COCO_val2014_000000000001.jpg", "red", "train", [5, 4]),
    ("COCO_val2014_000000000001.jpg", "green and red", "val", [3, 4]),
    ("COCO_val2014_000000000001.jpg", "blue", "test", [1, 1]),
    ("COCO_val2014_000000000002.jpg", "green", "test", [4, 5]),
    ("COCO_val2014_000000000002.jpg", "red", "train", [2, 1]),
    ("COCO_val2014_000000000002.jpg", "blue and green", "val", [5, 3]),
]

# captions of two machines, with their ratings
COMPOSITE = [("red and blue", 2), ("green", 4)]


def expert_rows():
    """(photo, caption's photo, its number, ratings) of every caption of another photo, in a fixed order."""
    for one, photo in enumerate(COLOURS):
        for other, owner in enumerate(COLOURS):
            if owner != photo:
                near = 1 + (3 * one + 2 * other) % 4
                yield photo, owner, other % 2, sorted([near, max(1, near - 1), 1 + one % 3])


def write_files(data, photos):
    """The official files, and the photos."""
    flickr8k, multi30k, vicr = (data / name for name in ("flickr8k", "multi30k", "vicr"))
    write_lines(flickr8k / "Flickr_8k.testImages.txt", COLOURS)
    tokens = [f"{photo}#{n}\t{text}" for photo, texts in ENGLISH.items() for n, text in enumerate(texts)]
    write_lines(flickr8k / "Flickr8k.token.txt", [*tokens, "107_g.jpg#0\ta red train photo"])
    expert, crowd = [], []
    for photo, owner, n, given in expert_rows():
        expert.append("\t".join([photo, f"{owner}#{n}", *map(str, given)]))
        crowd.append(f"{photo}\t{owner}#{n}\t{(given[1] - 1) / 3:.12f}\t{given[1] - 1}\t{4 - given[1]}")
    write_lines(flickr8k / "ExpertAnnotations.txt", expert)
    write_lines(flickr8k / "CrowdFlowerAnnotations.txt", crowd)
    for split, names in (("train", ["101.jpg", "555.jpg"]), ("val", ["556.jpg"])):
        write_lines(multi30k / "image_splits" / f"{split}.txt", names)
        for language, lines in MULTI30K.items():
            content = "".join(f"{line}\n" for line in lines[: len(names)]).encode()
            (multi30k / f"{split}.{language}.gz").write_bytes(gzip.compress(content))
    lines = ["\ufeffimage,caption,subset,num_ratings,ratings,rating_2,rating_3"]
    for photo, caption, subset, (first, second) in RATED:
        lines.append(f"http://x/val2014/{photo},{caption},{subset},2,{first},{second},")
    write_lines(vicr / "VICR_Sample250.csv", lines)
    composite = [
        {"img": f"flickr8k_{photo[:-4]}.npz", "caption": caption, "score": score}
        for photo, texts in ENGLISH.items()
        for caption, score in ((texts[0], 5), *COMPOSITE)
    ]
    write_json(data / "composite" / "umic_composite_8k_decoded.json", composite)
    for folder, shown in (("flickr8k", COLOURS), ("coco_val2014", COCO)):
        (photos / folder).mkdir(parents=True)
        for name, colour in shown.items():
            Image.new("RGB", (6, 4), colour).save(photos / folder / name, "PNG")


def chinese(source, sources):
    """The captions of a source; there is no Arabic one."""
    if source.name != "flickr8k-cn":
        raise InputError(f"{source.name}: not there")
    listed = [*CHINESE, ("107_g.jpg", "red")]
    return [{"id": f"{source.name}/{photo}#zhc#0", "text": text} for photo, text in listed]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Key → figure as the command writes it, and its tables."""
    folder = tmp_path_factory.mktemp("study")
    write_files(folder / "data", folder / "photos")
    given = {name: str(folder / name) for name in ("data", "photos", "sources", "output", "markdown")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "source_texts", chinese)
        patch.setattr("capscore.load_backbone", lambda name: ColourBackbone())
        study.main([f"--{name}={path}" for name, path in given.items()] + ["--backbone", "toy"])
    (written,) = json.loads((folder / "output").read_text(encoding="utf-8"))["backbones"]
    assert written["backbone"]["fingerprint"] == "colours-1"
    figures = {figure["key"]: figure for figure in written["measures"]}
    return figures, (folder / "markdown").read_text(encoding="utf-8")


def photo_rows(photos):
    rows = np.array(list(photos), dtype=float)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def text_rows(texts):
    """The toy reads four words of a text; one without a colour is as near to each."""
    counts = ([text.split()[:4].count(word) for word in WORDS] for text in texts)
    return photo_rows([row if any(row) else [1, 1, 1] for row in counts])


def expected_recall(captions, k):
    """Percent of captions whose photo is among the first k, by sorting; captions: (photo, text)."""
    names, photos = list(COLOURS), photo_rows(COLOURS.values())
    hits = 0
    for photo, text in captions:
        cosines = photos @ text_rows([text])[0]
        right = cosines[names.index(photo)]
        hits += sum(other >= right - 1e-6 for other in cosines) - 1 < k
    return 100 * hits / len(captions)


def test_each_language_is_searched_among_the_test_photos_and_compared_with_english(measured):
    found, table = measured
    english = [(photo, text) for photo, texts in ENGLISH.items() for text in texts]
    key, shared = "retrieval/flickr8k_test", "101_a.jpg"
    for language, captions, same in (
        ("en", english, None),
        ("zh", CHINESE, english[:-2]),
        ("en_of_de", [(shared, "red wall")], None),
        ("de", [(shared, "blue")], [(shared, "red wall")]),
    ):
        values = [expected_recall(captions, k) for k in (1, 5, 10)]
        figures = [found[f"{key}/{language}/r@{k}"] for k in (1, 5, 10)]
        assert [figure["value"] for figure in figures] == pytest.approx(values), language
        assert figures[0]["n"] == len(captions)
        if same:
            share = 100 * values[1] / expected_recall(same, 5)
            assert found[f"{key}/{language}/share_of_english_r@5"]["value"] == pytest.approx(share)
    figure = found[f"{key}/en/r@1"]
    assert figure["interval"][0] <= figure["value"] <= figure["interval"][1]
    assert figure["note"] == "6 photos have captions, 6 are ranked"
    assert figure["signature"].startswith("mcs|backbone:colours@w00000000|")
    assert found[f"{key}/ar"]["missing"] == "arabic-flickr8k: not there"
    assert "toy, ar, Arabic Flickr8k: not measured: arabic-flickr8k" in table


def rated_scores():
    """(MCS, nearest reference's cosine, RefCLIPScore, ratings) of the expert's rows."""
    photos = dict(zip(COLOURS, photo_rows(COLOURS.values()), strict=True))
    for photo, owner, number, given in expert_rows():
        text = text_rows([ENGLISH[owner][number]])[0]
        mcs = 2.5 * max(float(photos[photo] @ text), 0)
        near = max(float(row @ text) for row in text_rows(ENGLISH[photo]))
        yield mcs, near, 2 * mcs * near / (mcs + near), given


def test_agreement_is_tau_c_of_single_ratings_and_tau_b_with_the_share_of_yes(measured):
    found, table = measured
    rows = list(rated_scores())
    given = [rating for row in rows for rating in row[3]]
    for column, metric in enumerate(("mcs", "text_score", "ref_clip_score")):
        scores = [row[column] for row in rows for _ in row[3]]
        figure = found[f"expert/{metric}/tau_c"]
        # the backbone computes in float32, which must not make or break ties
        expected = kendalltau(np.round(scores, 6), given, variant="c").statistic
        assert figure["value"] == pytest.approx(100 * expected, abs=1e-6)
        assert figure["interval"][0] < figure["value"] < figure["interval"][1]
        assert figure["n"] == 90
    figure = found["expert/mcs/tau_c"]
    shown = "{:.1f} [{:.1f}–{:.1f}]".format(figure["value"], *figure["interval"]).replace("-", "−")
    assert table.index("### Flickr8k-Expert") < table.index(f"| MCS τ_c | 90 | {shown} |")
    expected = kendalltau(np.round([row[0] for row in rows], 6), [row[3][1] for row in rows]).statistic
    assert found["crowdflower/mcs/tau_b"]["value"] == pytest.approx(100 * expected, abs=1e-6)


@pytest.mark.parametrize(
    ("gone", "key"),
    [
        ("photos/flickr8k/104_d.jpg", "retrieval/flickr8k_test"),
        ("data/flickr8k/Flickr8k.token.txt", "retrieval/flickr8k_test/en"),
        ("data/flickr8k/ExpertAnnotations.txt", "expert/mcs/flatten"),
        ("photos/coco_val2014", "vicr/mcs/flatten"),
        ("data/composite", "composite/mcs/flatten"),
    ],
)
def test_a_missing_file_is_named_for_each_skipped_measurement(tmp_path, gone, key):
    write_files(tmp_path / "data", tmp_path / "photos")
    (tmp_path / gone).rename(tmp_path / "elsewhere")
    embedder = Embedder(ColourBackbone(), cache=None)
    given = embedder, tmp_path / "data", tmp_path / "photos", None, TaskOptions(sampling=Sampling(0))
    figure = {figure.key: figure for figure in study.measure(*given)}[key]
    assert figure.value is None and gone.rpartition("/")[2] in figure.missing


FOUND, ALL, OTHER = np.array([[2, 0, 5, 1, 3], [5, 5, 5, 1, 4], [1, 2, 4, 1, 2]])


@pytest.mark.parametrize(
    ("columns", "value"), [((FOUND, ALL), 1100 / 20), ((OTHER, ALL, FOUND, ALL), 1000 / 11)]
)
def test_shares_and_their_ratios_draw_whole_photos(columns, value):
    found, interval = ratio(columns, TaskOptions(sampling=Sampling(200, seed=3, confidence=0.8)))
    assert found == pytest.approx(value)
    samples = []
    for drawn in np.random.default_rng(3).integers(0, 5, (200, 5)):
        over, under, *others = (column[drawn].sum() for column in columns)
        if not others or others[0]:
            samples.append(100 * over / under * (others[1] / others[0] if others else 1))
    assert interval == pytest.approx(tuple(np.quantile(samples, [0.1, 0.9])))
    assert ratio([*columns[:-1], 0 * ALL], TaskOptions()) == (None, None)
    assert ratio(columns, TaskOptions(sampling=Sampling(0))) == (pytest.approx(value), None)


def test_ranks_are_those_of_the_benchmark_s_protocol(monkeypatch):
    rng = np.random.default_rng(7)
    photos = photo_rows(rng.normal(size=(12, 4))).astype(np.float32)
    photos[5] = photos[3]  # a tie counts against the caption
    own = rng.integers(0, 12, 40)
    texts = photo_rows(photos[own] + rng.normal(size=(40, 4))).astype(np.float32)
    expected = retrieval(image_embeddings=photos, text_embeddings=texts, text_to_image=own)
    monkeypatch.setattr(study, "_CAPTIONS", 7)
    rank = ranks(texts, photos, own)
    for k in study.KS:
        assert (rank <= k).mean() == pytest.approx(expected.value(f"text_to_image_r@{k}"), abs=1e-9)
