"""The image tower's figures on a few drawn photos and invented captions, each computed a second way."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from PIL import Image
from scipy.stats import kendalltau, spearmanr

from capscore.benchmarks.tasks import TaskOptions
from capscore.errors import InputError
from tests.toy import WORDS, ColourBackbone
from weights.measuring.image_tower import searching
from weights.measuring.image_tower.__main__ import grid, main, measure_speed
from weights.measuring.image_tower.report import Report

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
CHINESE = [(photo, texts[1]) for photo, texts in ENGLISH.items()]
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


def expert_rows():
    """(photo, caption's photo, its number, ratings) of every caption of another photo, in a fixed order."""
    for one, photo in enumerate(COLOURS):
        for other, owner in enumerate(COLOURS):
            if owner != photo:
                near = 1 + (3 * one + 2 * other) % 4
                yield photo, owner, other % 2, sorted([near, max(1, near - 1), 1 + one % 3])


def write_flickr8k(folder):
    (folder / "Flickr_8k.testImages.txt").write_text("".join(f"{photo}\n" for photo in COLOURS))
    tokens = [f"{photo}#{n}\t{text}\n" for photo, texts in ENGLISH.items() for n, text in enumerate(texts)]
    (folder / "Flickr8k.token.txt").write_text("".join([*tokens, "107_g.jpg#0\ta red train photo\n"]))
    expert, crowd = [], []
    for photo, owner, number, given in expert_rows():
        expert.append("\t".join([photo, f"{owner}#{number}", *map(str, given)]) + "\n")
        yes = given[1] - 1
        crowd.append(f"{photo}\t{owner}#{number}\t{yes / 3:.12f}\t{yes}\t{3 - yes}\n")
    (folder / "ExpertAnnotations.txt").write_text("".join(expert))
    (folder / "CrowdFlowerAnnotations.txt").write_text("".join(crowd))


def write_multi30k(folder):
    for split in ("train", "val"):
        photos = ["101.jpg", "555.jpg"] if split == "train" else ["556.jpg"]
        (folder / "image_splits" / f"{split}.txt").write_text("".join(f"{photo}\n" for photo in photos))
        for language, lines in MULTI30K.items():
            content = "".join(f"{line}\n" for line in lines[: len(photos)]).encode()
            (folder / f"{split}.{language}.gz").write_bytes(gzip.compress(content))


def write_vicr(folder):
    lines = ["image,caption,subset,num_ratings,ratings,rating_2,rating_3"]
    for photo, caption, subset, given in RATED:
        address = f"http://images.cocodataset.org/val2014/{photo}"
        lines.append(f"{address},{caption},{subset},2,{given[0]},{given[1]},")
    (folder / "VICR_Sample250.csv").write_text("\n".join(lines) + "\n", encoding="utf-8-sig")


def draw(folder, photos):
    folder.mkdir(parents=True)
    for name, colour in photos.items():
        Image.new("RGB", (6, 4), colour).save(folder / name, "PNG")


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Folders of official files and of photos; Chinese captions of packages, and no Arabic ones."""
    data, photos = tmp_path / "data", tmp_path / "photos"
    for write in (write_flickr8k, write_multi30k, write_vicr):
        folder = data / write.__name__.removeprefix("write_")
        (folder / "image_splits").mkdir(parents=True)
        write(folder)
    draw(photos / "flickr8k", {**COLOURS, "107_g.jpg": (9, 9, 9)})
    draw(photos / "coco_val2014", COCO)

    def texts(source, packages, languages):
        if source.name != "flickr8k-cn":
            raise InputError(f"{source.name}: not there")
        listed = [*CHINESE, ("107_g.jpg", "red")]
        return [{"id": f"{source.name}/{photo}#zhc#0", "text": text} for photo, text in listed]

    monkeypatch.setattr(searching, "source_texts", texts)
    return data, photos


@pytest.fixture
def measured(folders, tmp_path, monkeypatch, capsys):
    """Runs the command; gives key → figure as the JSON file has it, and the table."""
    monkeypatch.setattr("capscore.load_backbone", lambda name: ColourBackbone())

    def run(*options, bootstrap=0):
        files = tmp_path / "out" / "figures.json", tmp_path / "figures.md"
        data, photos = map(str, folders)
        given = [
            "--data",
            data,
            "--photos",
            photos,
            "--packages",
            "packages",
            "--bootstrap",
            str(bootstrap),
            *options,
        ]
        main([*given, "--backbone", "toy", "--output", str(files[0]), "--markdown", str(files[1])])
        (written,) = json.loads(files[0].read_text(encoding="utf-8"))["backbones"]
        table = files[1].read_text(encoding="utf-8")
        assert written["backbone"]["fingerprint"] == "colours-1" and table in capsys.readouterr().out
        return {figure["key"]: figure for figure in written["measures"]}, table

    return run


def photo_rows(photos):
    rows = np.array(list(photos), dtype=float)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def text_rows(texts):
    """The toy reads four words of a text."""
    return photo_rows([[text.split()[:4].count(word) for word in WORDS] for text in texts])


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
    found, table = measured("--only", "retrieval", bootstrap=100)
    english = [(photo, text) for photo, texts in ENGLISH.items() for text in texts]
    key, shared = "retrieval/flickr8k_test", "101_a.jpg"
    for language, captions, same in (
        ("en", english, None),
        ("zh", CHINESE, english),
        ("en_of_de", [(shared, "red wall")], None),
        ("de", [(shared, "blue")], [(shared, "red wall")]),
    ):
        values = [expected_recall(captions, k) for k in (1, 5, 10)]
        figures = [found[f"{key}/{language}/r@{k}"] for k in (1, 5, 10)]
        assert [figure["value"] for figure in figures] == pytest.approx(values), language
        assert figures[0]["n"] == len(captions) and figures[0]["n_of"] == "captions"
        if same:
            share = 100 * values[1] / expected_recall(same, 5)
            assert found[f"{key}/{language}/share_of_english_r@5"]["value"] == pytest.approx(share)
    figure = found[f"{key}/en/r@1"]
    assert (
        figure["interval"][0] <= figure["value"] <= figure["interval"][1] and figure["resampled"] == "photos"
    )
    assert figure["note"] == "6 photos have captions, 6 are ranked"
    assert figure["signature"].startswith("mcs|backbone:colours@w00000000|")
    assert (
        found[f"{key}/ar"]["value"] is None and found[f"{key}/ar"]["missing"] == "arabic-flickr8k: not there"
    )
    assert "ar, Arabic Flickr8k — not measured" in table


def rated_scores():
    """(MCS, nearest reference's cosine, RefCLIPScore, ratings) of the expert's rows."""
    photos = dict(zip(COLOURS, photo_rows(COLOURS.values()), strict=True))
    for photo, owner, number, given in expert_rows():
        text = text_rows([ENGLISH[owner][number]])[0]
        mcs = 2.5 * max(float(photos[photo] @ text), 0)
        near = max(float(row @ text) for row in text_rows(ENGLISH[photo]))
        yield mcs, near, 2 * mcs * near / (mcs + near), given


def test_agreement_is_tau_c_of_single_ratings_and_tau_b_with_the_share_of_yes(measured):
    found, table = measured("--only", "expert,crowdflower", bootstrap=100)
    rows = list(rated_scores())
    given = [rating for row in rows for rating in row[3]]
    for column, metric in enumerate(("mcs", "text_score", "ref_clip_score")):
        scores = [row[column] for row in rows for _ in row[3]]
        figure = found[f"expert/{metric}/tau_c"]
        # the backbone computes in float32, which must not make or break ties
        expected = kendalltau(np.round(scores, 6), given, variant="c").statistic
        assert figure["value"] == pytest.approx(100 * expected, abs=1e-6)
        assert figure["interval"][0] < figure["value"] < figure["interval"][1]
        assert (figure["n"], figure["n_of"], figure["resampled"]) == (90, "ratings", "photos")
    published = {(item["metric"], item["value"]) for item in found["expert/mcs/tau_c"]["published"]}
    assert {("CLIPScore", 51.2), ("InfoMetIC", 54.2), ("InfoMetIC+", 55.5)} <= published
    figure = found["expert/mcs/tau_c"]
    shown = "{:.1f} [{:.1f}–{:.1f}]".format(figure["value"], *figure["interval"]).replace("-", "−")
    assert f"| MCS τ_c | 90 | {shown} | CLIPScore 51.2–51.5, InfoMetIC 54.2, InfoMetIC+ 55.5 |" in table
    assert table.index("**Flickr8k-Expert**") < table.index("| MCS τ_c |") < table.index("**Flickr8k-CF**")
    expected = kendalltau(np.round([row[0] for row in rows], 6), [row[3][1] for row in rows]).statistic
    assert found["crowdflower/mcs/tau_b"]["value"] == pytest.approx(100 * expected, abs=1e-6)


def test_vicr_s_splits_are_measured_together(measured):
    found, _ = measured("--only", "vicr")
    photos = dict(zip(COCO, photo_rows(COCO.values()), strict=True))
    rows = [row for subset in ("train", "val", "test") for row in RATED if row[2] == subset]
    scores = np.round([max(photos[photo] @ text_rows([text])[0], 0) for photo, text, *_ in rows], 6)
    means, single = [np.mean(row[3]) for row in rows], [rating for row in rows for rating in row[3]]
    for key, value in {
        "tau_b/mean_ratings": kendalltau(scores, means).statistic,
        "spearman/mean_ratings": spearmanr(scores, means).statistic,
        "tau_b": kendalltau(np.repeat(scores, 2), single).statistic,
    }.items():
        assert found[f"vicr/mcs/{key}"]["value"] == pytest.approx(100 * value, abs=1e-6), key
        assert found[f"vicr/mcs/{key}"]["published"] == []


@pytest.mark.parametrize(
    ("gone", "group", "key"),
    [
        ("photos/flickr8k/104_d.jpg", "retrieval", "retrieval/flickr8k_test"),
        ("data/flickr8k/ExpertAnnotations.txt", "expert", "expert/mcs/flatten"),
        ("photos/coco_val2014", "vicr", "vicr/mcs/flatten"),
        ("photos/flickr8k/101_a.jpg", "speed", "speed"),
    ],
)
def test_what_cannot_be_measured_says_which_file_is_missing(folders, measured, gone, group, key):
    path = folders[0].parent / gone
    path.rename(path.with_name("elsewhere"))
    figure = measured("--only", group)[0][key]
    assert figure["value"] is None and path.name in figure["missing"]


class Timed(ColourBackbone):
    """A backbone whose image tower takes a given time per image, on a clock of the test's own."""

    def __init__(self, clock, seconds):
        super().__init__()
        self.clock, self.seconds = clock, seconds

    def encode_pixels(self, pixels):
        self.clock[0] += self.seconds * len(pixels)
        return super().encode_pixels(pixels)


def test_speed_is_measured_in_turns_and_compared(tmp_path):
    rng = np.random.default_rng(0)
    files = [tmp_path / f"{number}.png" for number in range(19)]
    for file in files:
        Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(file)
    now = [0.0]
    fast, slow = Timed(now, 0.01), Timed(now, 0.04)
    reports = [Report("fast"), Report("slow")]
    options = TaskOptions(bootstrap=50)
    measure_speed(reports, [fast, slow], slow, files, options, threads=1, clock=lambda: now[0])
    by_key = [{figure.key: figure for figure in report.figures} for report in reports]
    for figures, per_second in zip(by_key, (100, 25), strict=True):
        alone = figures["speed/alone"]
        assert alone.value == pytest.approx(per_second) and alone.interval == pytest.approx((per_second,) * 2)
        # a photo and the crops of its 20 regions
        assert figures["speed/with_regions"].value == pytest.approx(per_second / 21)
        assert (alone.n, alone.unit, alone.resampled) == (16, "photos/s", "blocks of 8 photos")
    for key in ("speed/alone/ratio", "speed/with_regions/ratio"):
        assert by_key[0][key].value == pytest.approx(4) and key not in by_key[1]


def test_the_regions_cover_the_photo_and_do_not_overlap():
    boxes = grid((53, 37))
    sides = boxes[:, 2:] - boxes[:, :2]
    assert boxes.shape == (20, 4) and (sides > 0).all()
    assert sides.prod(axis=1).sum() == pytest.approx(53 * 37)
    assert boxes.min() == 0 and boxes.max(axis=0)[2:].tolist() == [53, 37]
