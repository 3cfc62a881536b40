"""The eye's figures on a few drawn photos and invented captions, each computed a second way."""

from __future__ import annotations

import dataclasses
import doctest
import gzip
import json
import subprocess

import numpy as np
import pytest
from PIL import Image
from scipy.stats import kendalltau, spearmanr

from capscore.benchmarks.tasks import TaskOptions
from tests.toy import WORDS, ColourBackbone
from weights.making.package_texts import source_named
from weights.measuring.image_tower import __main__ as image_tower
from weights.measuring.image_tower import agreement, report, searching
from weights.measuring.image_tower.__main__ import document, grid, main, measure, measure_speed
from weights.measuring.image_tower.report import GROUPS, Figure, PublishedFigure, Report, markdown

# photo → its colour; no two are alike but for the order of their parts, whose cosines would be tied
COLOURS = {
    "101_a.jpg": (250, 10, 10),
    "102_b.jpg": (12, 240, 30),
    "103_c.jpg": (25, 7, 200),
    "104_d.jpg": (200, 120, 5),
    "105_e.jpg": (5, 160, 150),
    "106_f.jpg": (150, 5, 170),
}
# photo → its English captions; the toy's words are colours, and every other word is nothing to it
ENGLISH = {
    "101_a.jpg": ["a red thing", "red red wall and green"],
    "102_b.jpg": ["all green here", "green and blue then green"],
    "103_c.jpg": ["blue as blue", "a blue and red one"],
    "104_d.jpg": ["red red green light", "green on red ground red red"],
    "105_e.jpg": ["green blue pond", "blue blue then green reeds"],
    "106_f.jpg": ["red blue dusk", "blue with red and red flags"],
}
OTHERS = {
    "zh": {photo: [texts[1]] for photo, texts in ENGLISH.items()},
    "zh_translated": {photo: [*texts, "blue"] for photo, texts in ENGLISH.items()},
    "ar": {photo: [ENGLISH["103_c.jpg"][0]] for photo in ENGLISH},
}
PASCAL = {"2008_000001.jpg": (240, 20, 20), "2008_000002.jpg": (20, 20, 240)}
COCO = {"COCO_val2014_000000000001.jpg": (230, 30, 20), "COCO_val2014_000000000002.jpg": (20, 200, 90)}
RATED = [
    ("COCO_val2014_000000000001.jpg", "red", "train", [5, 4]),
    ("COCO_val2014_000000000001.jpg", "green and red", "val", [3, 4]),
    ("COCO_val2014_000000000001.jpg", "blue", "test", [1, 1]),
    ("COCO_val2014_000000000002.jpg", "green", "test", [4, 5]),
    ("COCO_val2014_000000000002.jpg", "red", "train", [2, 1]),
    ("COCO_val2014_000000000002.jpg", "blue and green", "val", [5, 3]),
]
NO_DRAWS = TaskOptions(bootstrap=0)
FOLDERS = {"zh": "flickr8kcn", "zh_translated": "flickr8kcn", "ar": "Arabic-Image-Captioning"}


def draw(folder, photos):
    folder.mkdir(parents=True)
    for name, colour in photos.items():
        Image.new("RGB", (6, 4), colour).save(folder / name, "PNG")


def unit_rows(rows):
    rows = np.array(rows, dtype=float)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def photo_rows(photos):
    return unit_rows(list(photos))


def text_rows(texts):
    """The toy reads four words of a text."""
    return unit_rows([[text.split()[:4].count(word) for word in WORDS] for text in texts])


def expected_recall(captions, k, colours=COLOURS):
    """Percent of captions whose photo is among the first k, by sorting; captions: (photo, text)."""
    names = list(colours)
    photos = photo_rows(colours.values())
    hits = 0
    for photo, text in captions:
        cosines = photos @ text_rows([text])[0]
        own = cosines[names.index(photo)]
        before = sum(other >= own - 1e-6 for name, other in zip(names, cosines, strict=True) if name != photo)
        hits += before < k
    return 100 * hits / len(captions)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Folders of official files, of photos and of packages."""
    data, photos, packages = tmp_path / "data", tmp_path / "photos", tmp_path / "packages"
    for name in ("flickr8k", "multi30k/image_splits", "pascal50s", "vicr"):
        (data / name).mkdir(parents=True)
    draw(photos / "flickr8k", {**COLOURS, "107_g.jpg": (9, 9, 9)})
    draw(photos / "voc_animals", PASCAL)
    draw(photos / "coco_val2014", COCO)
    flickr8k(data / "flickr8k")
    multi30k(data / "multi30k")
    pascal50s(data / "pascal50s")
    vicr(data / "vicr")
    package(packages, monkeypatch)
    return data, photos, packages


def expert_rows():
    """(photo, caption's photo, its number, ratings) of every caption of another photo, in a fixed order."""
    rows = []
    for one, photo in enumerate(COLOURS):
        for other, owner in enumerate(COLOURS):
            if owner != photo:
                near = 1 + (3 * one + 2 * other) % 4
                rows.append((photo, owner, other % 2, sorted([near, max(1, near - 1), 1 + one % 3])))
    return rows


def flickr8k(folder):
    (folder / "Flickr_8k.testImages.txt").write_text("".join(f"{photo}\n" for photo in COLOURS))
    tokens = [
        f"{photo}#{place}\t{text}\n" for photo, texts in ENGLISH.items() for place, text in enumerate(texts)
    ]
    (folder / "Flickr8k.token.txt").write_text("".join([*tokens, "107_g.jpg#0\ta red train photo\n"]))
    expert, crowd = [], []
    for photo, owner, place, given in expert_rows():
        expert.append("\t".join([photo, f"{owner}#{place}", *map(str, given)]) + "\n")
        yes = given[1] - 1
        crowd.append(f"{photo}\t{owner}#{place}\t{yes / 3:.12f}\t{yes}\t{3 - yes}\n")
    (folder / "ExpertAnnotations.txt").write_text("".join(expert))
    (folder / "CrowdFlowerAnnotations.txt").write_text("".join(crowd))
    several = {
        "101_a.jpg": {"en": ["red"], "zh": ["red red"], "de": ["blue"], "multi30k_split": "train"},
        "103_c.jpg": {"en": ["blue", "blue and red"], "zh": ["red"]},
        "999_z.jpg": {"en": ["green"]},
    }
    (folder / "multilingual_captions.json").write_text(json.dumps(several))
    draw(folder / "images", {name: COLOURS[name] for name in ("101_a.jpg", "103_c.jpg")})


def multi30k(folder):
    """Two photos of the test split in Multi30k's training and validation split; no Czech."""
    texts = {
        "train": {"en": ["red wall", "nothing of ours"], "de": ["blue", "x"], "fr": ["red red", "x"]},
        "val": {"en": ["green blue"], "de": ["green blue"], "fr": ["green"]},
    }
    for split, photos in {"train": ["101.jpg", "555.jpg"], "val": ["105.jpg"]}.items():
        listed = "".join(f"{photo}\n" for photo in photos)
        (folder / "image_splits" / f"{split}.txt").write_text(listed)
        for language, lines in texts[split].items():
            content = "".join(f"{line}\n" for line in lines).encode()
            (folder / f"{split}.{language}.gz").write_bytes(gzip.compress(content))


def pascal50s(folder):
    one, two = PASCAL
    pairs = {
        "HC": [(one, "red", "red and green", 0), (two, "blue blue red", "blue", 0)],
        "HI": [(one, "green", "red", 1), ("2008_000009.jpg", "red", "blue", 0)],
        "HM": [(two, "blue", "green blue", 0)],
        "MM": [(two, "red", "green red", 0)],
    }
    document = {
        category: [
            {
                "image": f"VOC2012/JPEGImages/{photo}",
                "captions": [first, second],
                "label": label,
                "references": ["red", "red green", "blue", "blue red", "blue blue red"],
            }
            for photo, first, second, label in some
        ]
        for category, some in pairs.items()
    }
    (folder / "pascal_50s.json").write_text(json.dumps(document))


def vicr(folder):
    head = "image,caption,subset,num_ratings,ratings,rating_2,rating_3"
    lines = [
        f"http://images.cocodataset.org/val2014/{photo},{caption},{subset},2,{given[0]},{given[1]},"
        for photo, caption, subset, given in RATED
    ]
    (folder / "VICR_Sample250.csv").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8-sig")


def package(folder, monkeypatch):
    """Both packages as repositories, the sources pinned to their commits."""
    files = {
        "zh": ("data/flickr8kzhc.caption.txt", "{}#zhc#{} {}\n"),
        "zh_translated": ("data/flickr8kzhmtest.captions.txt", "{}#zhm#{} {}\n"),
        "ar": ("data/Flickr8k_text/Flickr8k.arabic.full.txt", "{}#{}\t{}\n"),
    }
    commits = {}
    for language, (name, line) in files.items():
        place = folder / FOLDERS[language]
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        listed = {**OTHERS[language], "107_g.jpg": ["red"]}
        lines = [line.format(p, row, text) for p, texts in listed.items() for row, text in enumerate(texts)]
        (place / name).write_text("".join(lines))
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "texts"]):
            subprocess.run(["git", *who, *command], cwd=place, check=True, capture_output=True)
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=place, check=True, capture_output=True, text=True
        )
        commits[searching.PACKAGED[language]] = done.stdout.strip()
    pinned = {
        name: dataclasses.replace(source_named(name), version=commit) for name, commit in commits.items()
    }
    monkeypatch.setattr(searching, "source_named", pinned.__getitem__)


def measured(folders, *only, options=NO_DRAWS, backbone=None, packages=True):
    """Key → figure of the toy backbone."""
    data, photos, packed = folders
    (report,) = measure(
        {"colours": backbone or ColourBackbone()},
        data,
        photos,
        packed if packages else None,
        only=only,
        options=options,
        cache=False,
    )
    assert len({figure.key for figure in report.figures}) == len(report.figures)
    return {figure.key: figure for figure in report.figures}


@pytest.mark.parametrize("module", [image_tower, searching, report])
def test_docstrings(module):
    assert not doctest.testmod(module).failed


# ------------------------------------------------------------------ retrieval


def test_english_is_searched_among_the_test_photos_alone(folders):
    found = measured(folders, "retrieval", options=TaskOptions(bootstrap=100))
    captions = [(photo, text) for photo, texts in ENGLISH.items() for text in texts]
    values = [expected_recall(captions, k) for k in (1, 5, 10)]
    assert 0 < values[0] < values[1] <= values[2] == 100
    for k, value in zip((1, 5, 10), values, strict=True):
        figure = found[f"retrieval/flickr8k_test/en/r@{k}"]
        assert figure.value == pytest.approx(value)
        assert figure.interval[0] <= value <= figure.interval[1]
        assert (figure.n, figure.n_of, figure.unit, figure.resampled) == (
            12,
            "captions",
            "percent",
            "photos",
        )
        assert figure.note == "6 photos have captions, 6 are ranked"
        assert figure.signature.startswith("mcs|backbone:colours@w00000000|")


@pytest.mark.parametrize("language", ["zh", "zh_translated", "ar"])
def test_other_languages_are_compared_with_english_on_the_same_photos(folders, language):
    found = measured(folders, "retrieval")
    captions = [(photo, text) for photo, texts in OTHERS[language].items() for text in texts]
    key = f"retrieval/flickr8k_test/{language}"
    for k in (1, 5, 10):
        assert found[f"{key}/r@{k}"].value == pytest.approx(expected_recall(captions, k))
    here = expected_recall(captions, 5)
    there = expected_recall([(photo, text) for photo, texts in ENGLISH.items() for text in texts], 5)
    assert found[f"{key}/share_of_english_r@5"].value == pytest.approx(100 * here / there)


# ------------------------------------------------------------------ ratings


def rated_scores():
    """(MCS, nearest reference's cosine, RefCLIPScore, ratings) of the expert's rows."""
    photos = dict(zip(COLOURS, photo_rows(COLOURS.values()), strict=True))
    rows = []
    for photo, owner, place, given in expert_rows():
        text = text_rows([ENGLISH[owner][place]])[0]
        mcs = 2.5 * max(float(photos[photo] @ text), 0)
        near = max(float(row @ text) for row in text_rows(ENGLISH[photo]))
        rows.append((mcs, near, 2 * mcs * near / (mcs + near), given))
    return rows


def test_expert_is_tau_c_over_single_ratings(folders):
    found = measured(folders, "expert", options=TaskOptions(bootstrap=200))
    rows = rated_scores()
    given = [rating for row in rows for rating in row[3]]
    assert len(given) == 90
    for column, metric in enumerate(("mcs", "text_score", "ref_clip_score")):
        scores = [row[column] for row in rows for _ in row[3]]
        figure = found[f"expert/{metric}/tau_c"]
        # the backbone computes in float32, which must not make or break ties
        expected = kendalltau(np.round(scores, 6), given, variant="c").statistic
        assert figure.value == pytest.approx(100 * expected, abs=1e-6)
        assert figure.interval[0] < figure.value < figure.interval[1]
        assert (figure.n, figure.n_of, figure.resampled) == (90, "ratings", "photos")
        assert figure.signature.startswith(f"capscore:{metric}") or metric in figure.signature
    assert found["expert/photo_term"].value == pytest.approx(np.mean([row[0] for row in rows]), abs=1e-6)
    assert found["expert/text_term"].value == pytest.approx(np.mean([row[1] for row in rows]), abs=1e-6)
    published = {(one.metric, one.value) for one in found["expert/mcs/tau_c"].published}
    assert {("CLIPScore", 51.2), ("InfoMetIC", 54.2), ("InfoMetIC+", 55.5)} <= published
    references = {one.value for one in found["expert/ref_clip_score/tau_c"].published}
    assert 53.0 in references


def test_crowdflower_is_tau_b_with_the_share_of_yes(folders):
    figure = measured(folders, "crowdflower")["crowdflower/mcs/tau_b"]
    rows = rated_scores()
    expected = kendalltau(np.round([row[0] for row in rows], 6), [row[3][1] for row in rows]).statistic
    assert figure.value == pytest.approx(100 * expected, abs=1e-6)
    assert figure.n == 30 and figure.interval is None and figure.resampled == ""


def test_vicr_s_splits_are_measured_together(folders):
    found = measured(folders, "vicr")
    photos = dict(zip(COCO, photo_rows(COCO.values()), strict=True))
    # splits one after the other
    rows = [row for subset in ("train", "val", "test") for row in RATED if row[2] == subset]
    scores = np.round([max(photos[photo] @ text_rows([text])[0], 0) for photo, text, *_ in rows], 6)
    means = [np.mean(given) for *_, given in rows]
    single = [rating for *_, given in rows for rating in given]
    expected = {
        "tau_b/mean_ratings": kendalltau(scores, means).statistic,
        "spearman/mean_ratings": spearmanr(scores, means).statistic,
        "tau_b": kendalltau(np.repeat(scores, 2), single).statistic,
    }
    for key, value in expected.items():
        assert found[f"vicr/mcs/{key}"].value == pytest.approx(100 * value, abs=1e-6), key
        assert found[f"vicr/mcs/{key}"].published == ()
    assert found["vicr/mcs/tau_b/mean_ratings"].n == 6 and found["vicr/mcs/tau_b"].n == 12


# ------------------------------------------------------------------ the demo


def test_the_demo_s_captions_are_counted_in_strict_order(folders, embedded):
    found = measured(folders, "demo", backbone=embedded)
    shown = agreement.demo()
    photos = json.loads(shown.CAPTIONS.read_text(encoding="utf-8"))
    strict = loose = 0
    for entry in photos.values():
        with Image.open(shown.photo_path(entry["file"])) as image:
            photo = embedded.encode_images([image.convert("RGB")])[0]
        for own in entry["captions"].values():
            rows = embedded.encode_texts([own[mark] for mark in ("right", "half", "wrong")])
            right, half, wrong = (max(float(photo @ row), 0.0) for row in rows)
            strict += right > half > wrong
            loose += right >= half >= wrong
    assert 0 < strict <= loose < 48
    assert (found["demo/mcs/ordered"].value, found["demo/mcs/ordered"].n) == (pytest.approx(strict), 48)
    assert found["demo/mcs/ordered_or_tied"].value == pytest.approx(loose)
    with Image.open(shown.photo_path("astronaut.png")) as image:
        photo = embedded.encode_images([image.convert("RGB")])[0]
    texts = ["An astronaut in an orange suit.", "Two men play football"]
    right, wrong = embedded.w * np.maximum(embedded.encode_texts(texts) @ photo, 0)
    assert found["demo/mcs/astronaut"].value == pytest.approx(float(right - wrong), abs=1e-6)


# ------------------------------------------------------------------ speed


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
    files = []
    for place in range(19):
        files.append(tmp_path / f"{place}.png")
        Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(files[-1])
    now = [0.0]
    fast, slow = Timed(now, 0.01), Timed(now, 0.04)
    reports = [Report("fast"), Report("slow")]
    measure_speed(
        reports, [fast, slow], slow, files, TaskOptions(bootstrap=50), threads=1, clock=lambda: now[0]
    )
    by_key = [{figure.key: figure for figure in report.figures} for report in reports]
    for own, per_second in zip(by_key, (100, 25), strict=True):
        alone, regions = own["speed/alone"], own["speed/with_regions"]
        assert alone.value == pytest.approx(per_second) and alone.interval == pytest.approx((per_second,) * 2)
        # a photo and the crops of its 20 regions
        assert regions.value == pytest.approx(per_second / 21)
        assert (alone.n, alone.unit, alone.resampled) == (16, "photos/s", "blocks of 8 photos")
    for key in ("speed/alone/ratio", "speed/with_regions/ratio"):
        assert by_key[0][key].value == pytest.approx(4) and key not in by_key[1]


def test_the_regions_cover_the_photo_and_do_not_overlap():
    boxes = grid((53, 37))
    assert boxes.shape == (20, 4)
    widths, heights = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    assert (widths > 0).all() and (heights > 0).all()
    assert (widths * heights).sum() == pytest.approx(53 * 37)
    assert boxes.min() == 0 and boxes[:, 2].max() == 53 and boxes[:, 3].max() == 37


# ------------------------------------------------------------------ what is missing


@pytest.mark.parametrize(
    ("gone", "group", "key"),
    [
        ("photos/flickr8k/104_d.jpg", "retrieval", "retrieval/flickr8k_test"),
        ("packages/flickr8kcn", "retrieval", "retrieval/flickr8k_test/zh"),
        ("data/flickr8k/ExpertAnnotations.txt", "expert", "expert/mcs/flatten"),
        ("photos/voc_animals", "pascal50s", "pascal50s/mcs/flatten"),
        ("photos/flickr8k/101_a.jpg", "speed", "speed"),
    ],
)
def test_what_cannot_be_measured_says_which_file_is_missing(folders, gone, group, key):
    path = folders[0].parent / gone
    path.rename(path.with_name("elsewhere"))
    figure = measured(folders, group)[key]
    assert figure.value is None and path.name in figure.missing


# ------------------------------------------------------------------ tables


REPORTS = [
    Report(
        "embedded",
        {},
        [
            Figure(
                "retrieval/t/en/r@5", "R@5 en", 49.87, (47.6, 52.04), 5000, "captions", resampled="photos"
            ),
            Figure("retrieval/t/zh", "zh, Flickr8k-CN", missing="there is no a|b.txt"),
            Figure(
                "expert/mcs/tau_c",
                "MCS τ_c",
                52.04,
                (50, 54.16),
                16992,
                "ratings",
                resampled="photos",
                published=(
                    PublishedFigure("CLIPScore", "b", 51.5, "x"),
                    PublishedFigure("CLIPScore", "b", 51.2, "y"),
                    PublishedFigure("InfoMetIC", "b", 54.2, "x"),
                ),
            ),
            Figure("speed/alone", "photos a second", 41.26, (9.5, 123.4), 96, unit="photos/s"),
        ],
    ),
    Report(
        "a-folder/with/a-long-name-of-weights",
        {},
        [
            Figure("retrieval/t/en/r@5", "R@5 en", 20.2, (18.7, 21.69), 5000, resampled="photos"),
            Figure("retrieval/t/zh", "zh, Flickr8k-CN", missing="there is no a|b.txt"),
            Figure("speed/alone", "photos a second", missing="no such tower"),
        ],
    ),
]


def test_the_markdown_table():
    assert (
        markdown(REPORTS)
        == """\
| measure | n | `embedded` | `a-folder/with/a-long-name-of-weights` | published |
|---|---:|---:|---:|---:|
| **Text → image** |  |  |  |  |
| R@5 en | 5,000 | 49.9 [47.6–52.0] | 20.2 [18.7–21.7] |  |
| zh, Flickr8k-CN — not measured: there is no a\\|b.txt |  |  |  |  |
| **Flickr8k-Expert** |  |  |  |  |
| MCS τ_c | 16,992 | 52.0 [50.0–54.2] | – | CLIPScore 51.2–51.5, InfoMetIC 54.2 |
| **Speed** |  |  |  |  |
| photos a second | 96 | 41.3 [9.5–123] | not measured |  |

τ, ρ, R@k and accuracies are times 100. In brackets: 95 % bootstrap intervals, which draw photos \
with all their captions; in retrieval the ranked photos stay the same.
Published: values with OpenAI's ViT-B/32, on all rows of a set.
a-folder/with/a-long-name-of-weights, photos a second: not measured: no such tower
"""
    )


# ------------------------------------------------------------------ the command


def test_the_command_writes_json_and_markdown(folders, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("capscore.load_backbone", lambda name: ColourBackbone())
    data, photos, packages = map(str, folders)
    main(
        [
            *("--data", data, "--photos", photos, "--packages", packages),
            *("--backbone", "one", "--backbone", "two", "--only", "expert,vicr", "--bootstrap", "50"),
            *("--output", str(tmp_path / "out/figures.json"), "--markdown", str(tmp_path / "figures.md")),
        ]
    )
    written = json.loads((tmp_path / "out/figures.json").read_text(encoding="utf-8"))
    assert (written["schema"], written["bootstrap"], written["confidence"]) == (1, 50, 0.95)
    assert [one["name"] for one in written["backbones"]] == ["one", "two"]
    backbone = written["backbones"][0]
    assert backbone["backbone"]["fingerprint"] == "colours-1"
    first = backbone["measures"][0]
    assert first["key"] == "expert/mcs/tau_c" and first["n"] == 90 and len(first["interval"]) == 2
    assert set(first) == {field.name for field in dataclasses.fields(Figure)}
    assert {one["key"].partition("/")[0] for one in backbone["measures"]} == {"expert", "vicr"}
    table = (tmp_path / "figures.md").read_text(encoding="utf-8")
    assert "| **VICR** |" in table and "Text → image" not in table
    printed = capsys.readouterr().out
    assert "Flickr8k-Expert" in printed


def test_the_groups_of_the_command_are_those_of_the_tables():
    assert {"retrieval", "demo", "speed", *agreement.SETS} == set(GROUPS)
    assert json.loads(json.dumps(document([], NO_DRAWS)))["backbones"] == []
