"""The image tower's figures on a few drawn photos and invented captions, each computed a second way."""

import gzip
import json

import numpy as np
import pytest
from PIL import Image
from scipy.stats import kendalltau

from capscore.benchmarks.protocols.recall import retrieval
from capscore.errors import InputError
from capscore.options import Sampling
from tools.tiny.colours import WORDS, ColourBackbone
from tools.tiny.official import write_json, write_lines
from weights.measuring import image_tower as study
from weights.measuring.image_tower import ranks, ratio
from weights.measuring.summary import values_at

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
# captions of two machines, with their ratings
COMPOSITE = [("red and blue", 2), ("green", 4)]


def write_files(data, photos):
    write_lines(data / "flickr8k" / "Flickr_8k.testImages.txt", COLOURS)
    tokens = [f"{photo}#{n}\t{text}" for photo, texts in ENGLISH.items() for n, text in enumerate(texts)]
    write_lines(data / "flickr8k" / "Flickr8k.token.txt", [*tokens, "107_g.jpg#0\ta red train photo"])
    for split, names in (("train", ["101.jpg", "555.jpg"]), ("val", ["556.jpg"])):
        write_lines(data / "multi30k" / "image_splits" / f"{split}.txt", names)
        for language, lines in MULTI30K.items():
            content = "".join(f"{line}\n" for line in lines[: len(names)]).encode()
            (data / "multi30k" / f"{split}.{language}.gz").write_bytes(gzip.compress(content))
    composite = []
    for photo, texts in ENGLISH.items():
        for caption, score in ((texts[0], 5), *COMPOSITE):
            composite.append({"img": f"flickr8k_{photo[:-4]}.npz", "caption": caption, "score": score})
    write_json(data / "composite" / "umic_composite_8k_decoded.json", composite)
    (photos / "flickr8k").mkdir(parents=True)
    for name, colour in COLOURS.items():
        Image.new("RGB", (6, 4), colour).save(photos / "flickr8k" / name, "PNG")


def chinese(source, sources):
    """The captions of a source; there is no Arabic one."""
    if source.name != "flickr8k-cn":
        raise InputError(f"{source.name}: not there")
    listed = [*CHINESE, ("107_g.jpg", "red")]
    return [{"id": f"{source.name}/{photo}#zhc#0", "text": text} for photo, text in listed]


def measure(folder):
    given = {name: str(folder / name) for name in ("data", "photos", "sources", "output", "markdown")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "source_texts", chinese)
        patch.setattr(study, "resolve_cache", lambda cache: None)
        patch.setattr("capscore.load_backbone", lambda name: ColourBackbone())
        study.main([f"--{name}={path}" for name, path in given.items()] + ["--backbone", "toy"])
    return json.loads((folder / "output").read_text("utf-8")), (folder / "markdown").read_text("utf-8")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    write_files(folder / "data", folder / "photos")
    return measure(folder)


def unit_rows(rows):
    rows = np.array(list(rows), dtype=float)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def text_rows(texts):
    """The toy reads four words of a text; one without a colour is as near to each."""
    counts = ([text.split()[:4].count(word) for word in WORDS] for text in texts)
    return unit_rows([row if any(row) else [1, 1, 1] for row in counts])


def expected_recall(captions, k):
    """Percent of captions whose photo is among the first k, by sorting; captions: (photo, text)."""
    names, photos = list(COLOURS), unit_rows(COLOURS.values())
    hits = 0
    for photo, text in captions:
        cosines = photos @ text_rows([text])[0]
        right = cosines[names.index(photo)]
        hits += sum(other >= right - 1e-6 for other in cosines) - 1 < k
    return 100 * hits / len(captions)


def test_each_language_is_searched_among_the_test_photos_and_compared_with_english(measured):
    document, table = measured
    english = [(photo, text) for photo, texts in ENGLISH.items() for text in texts]
    shared = "101_a.jpg"
    for language, captions, same in (
        ("en", english, None),
        ("zh", CHINESE, english[:-2]),
        ("en, Multi30k", [(shared, "red wall")], None),
        ("de, Multi30k", [(shared, "blue")], [(shared, "red wall")]),
    ):
        found = document["search"]["toy"][language]
        values = [expected_recall(captions, k) for k in (1, 5, 10)]
        assert [found[f"r@{k}"][0] for k in (1, 5, 10)] == pytest.approx(values), language
        assert (found["captions"], found["photos"]) == (len(captions), len(dict(captions)))
        if same:
            share = 100 * values[1] / expected_recall(same, 5)
            assert found["share of English r@5"][0] == pytest.approx(share)
    value, low, high = document["search"]["toy"]["en"]["r@1"]
    assert low <= value <= high and f"{value:.1f} [{low:.1f}–{high:.1f}]" in table
    assert document["signatures"]["toy"].startswith("mcs|backbone:colours@w00000000|")
    assert document["missing"]["text → image, colours, ar"] == "arabic-flickr8k: not there"
    assert "- not measured: text → image, colours, ar: arabic-flickr8k" in table


def test_agreement_is_that_of_the_benchmark_also_on_the_captions_of_machines_alone(measured):
    document, table = measured
    every, machines = document["runs"]
    assert every["config"] == "flickr8k" and set(every["skipped"]) == {"fit@toy"}
    names = ["mcs@toy", "ref_clip_score@toy", "text_score@toy"]
    assert [result["metric"] for run in (every, machines) for result in run["results"]] == names * 2
    figures = dict(values_at(document["runs"], "runs"))
    for config, rated in (("flickr8k", 3), ("flickr8k, captions of machines alone", 2)):
        cosines, ratings = [], []
        for photo, colour in zip(ENGLISH, unit_rows(COLOURS.values()), strict=True):
            for text, rating in ((ENGLISH[photo][0], 5), *COMPOSITE)[3 - rated :]:
                cosines.append(colour @ text_rows([text])[0])
                ratings.append(rating)
        expected = kendalltau(np.round(cosines, 6), ratings, variant="c").statistic
        found = figures[f"runs/composite/{config}/results/mcs@toy/statistics/tau_c/measured"]
        assert found == pytest.approx(expected, abs=1e-8)
    assert {"flickr8k_human, expert", "pascal50s, default"} <= document["missing"].keys()
    assert "composite · flickr8k, captions of machines alone" in table


@pytest.mark.parametrize(
    ("gone", "what"),
    [
        ("photos/flickr8k/104_d.jpg", "text → image, toy"),
        ("data/flickr8k/Flickr8k.token.txt", "text → image, colours, en"),
        ("data/composite", "composite, flickr8k"),
    ],
)
def test_a_missing_file_is_named_for_what_is_not_measured(tmp_path, gone, what):
    write_files(tmp_path / "data", tmp_path / "photos")
    (tmp_path / gone).rename(tmp_path / "elsewhere")
    document, _ = measure(tmp_path)
    assert gone.rpartition("/")[2] in document["missing"][what]


FOUND, ALL, OTHER = np.array([[2, 0, 5, 1, 3], [5, 5, 5, 1, 4], [1, 2, 4, 1, 2]])


@pytest.mark.parametrize(
    ("columns", "value"), [((FOUND, ALL), 1100 / 20), ((OTHER, ALL, FOUND, ALL), 1000 / 11)]
)
def test_shares_and_their_ratios_draw_whole_photos(columns, value):
    found = ratio(columns, Sampling(200, seed=3, confidence=0.8))
    samples = []
    for drawn in np.random.default_rng(3).integers(0, 5, (200, 5)):
        over, under, *others = (column[drawn].sum() for column in columns)
        if not others or others[0]:
            samples.append(100 * over / under * (others[1] / others[0] if others else 1))
    assert found == pytest.approx((value, *np.quantile(samples, [0.1, 0.9])))
    assert ratio([*columns[:-1], 0 * ALL], Sampling()) == (None, None, None)
    assert ratio(columns, Sampling(0)) == (pytest.approx(value), None, None)


def test_ranks_are_those_of_the_benchmark_s_protocol():
    rng = np.random.default_rng(7)
    photos = unit_rows(rng.normal(size=(12, 4))).astype(np.float32)
    photos[5] = photos[3]  # a tie counts against the caption
    own = rng.integers(0, 12, 40)
    texts = unit_rows(photos[own] + rng.normal(size=(40, 4))).astype(np.float32)
    expected = retrieval(image_embeddings=photos, text_embeddings=texts, text_to_image=own)
    for k in study.KS:
        found = (ranks(texts, photos, own) <= k).mean()
        assert found == pytest.approx(expected.value(f"text_to_image_r@{k}"), abs=1e-9)
