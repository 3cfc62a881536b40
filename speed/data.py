"""Made-up data of a realistic shape: captions from a small grammar, photo-like JPEG files, rows of ratings.

In: how many, and a seed. Out: the same captions, files and rows for the same seed, with nothing downloaded.
"""

from __future__ import annotations

import io
import itertools
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 500, 375  # what Flickr8k's photos measure

# A pattern is filled from the slots.
GRAMMAR: dict[str, dict[str, list[str]]] = {
    "en": {
        "pattern": ["{who} {does} {where}", "{who} {looks} {does} {where}", "{who} {does} {where} {while_}"],
        "who": [
            "a young girl", "two men", "an elderly woman", "a small brown dog", "a group of children",
            "a boy", "three hikers", "a tall man", "a black and white dog", "several people", "a bearded man",
        ],
        "looks": [
            "in a red jacket", "with a backpack", "wearing a blue helmet", "in muddy clothes",
            "with wet hair", "in a striped shirt", "with a yellow ball", "wearing sunglasses and a hat",
        ],
        "does": [
            "runs", "is jumping", "sits down", "stands still", "is climbing", "plays", "walks slowly",
            "is looking at the camera", "leans against a fence", "waves both hands",
        ],
        "where": [
            "on a sandy beach", "beside a frozen lake", "in a crowded street", "near a wooden bench",
            "at the edge of a cliff", "through tall green grass", "in front of a brick building",
            "under a large tree", "on top of a snowy mountain",
        ],
        "while_": [
            "while another one watches", "as the sun goes down behind the hills", "at night",
            "while a crowd of people cheers in the background", "on a cold and rainy day",
        ],
    },
    "de": {
        "pattern": ["{who} {does} {where}", "{who} {looks} {does} {where}", "{who} {does} {where} {while_}"],
        "who": [
            "ein junges Mädchen", "zwei Männer", "eine ältere Frau", "ein kleiner brauner Hund",
            "eine Gruppe von Kindern", "ein Junge", "drei Wanderer", "ein bärtiger Mann",
        ],
        "looks": [
            "in roter Jacke", "mit einem Rucksack", "mit blauem Helm", "in schmutzigen Kleidern",
            "mit nassen Haaren", "im gestreiften Hemd", "mit Sonnenbrille und Hut",
        ],
        "does": ["rennt", "springt", "sitzt", "steht still", "klettert", "spielt", "geht langsam", "winkt"],
        "where": [
            "an einem sandigen Strand", "neben einem zugefrorenen See", "auf einer belebten Straße",
            "neben einer hölzernen Bank", "durch hohes grünes Gras", "vor einem Gebäude aus Ziegeln",
        ],
        "while_": [
            "während jemand zusieht", "bei Sonnenuntergang hinter den Hügeln", "in der Nacht",
            "während im Hintergrund viele Leute jubeln", "an einem kalten und regnerischen Tag",
        ],
    },
    "ja": {
        "pattern": ["{while_}{where}{looks}{who}が{does}"],
        "who": ["若い女の子", "二人の男性", "年配の女性", "小さな茶色い犬", "子どもたち", "三人の登山者"],
        "looks": ["赤い上着を着た", "リュックを背負った", "青いヘルメットの", "帽子をかぶった"],
        "does": ["走っている", "跳んでいる", "座っている", "立っている", "遊んでいる", "手を振っている"],
        "where": ["砂浜で", "凍った湖のそばで", "混雑した通りで", "木のベンチの近くで", "大きな木の下で"],
        "while_": ["", "夜に", "寒い雨の日に", "夕日を背にして", "大勢の人が見守る中、"],
    },
}  # fmt: skip


def captions(count: int, languages: tuple[str, ...] = ("en",), seed: int = 0) -> list[str]:
    """`count` distinct captions, the languages in turn."""
    chance = random.Random(seed)
    made: dict[str, None] = {}
    for draws in itertools.count():
        if len(made) == count:
            break
        if draws > 100 * count + 1000:
            raise ValueError(f"{count:,} captions were asked for; the grammar makes about {len(made):,}")
        grammar = GRAMMAR[languages[len(made) % len(languages)]]
        slots = {name: chance.choice(words) for name, words in grammar.items() if name != "pattern"}
        made[chance.choice(grammar["pattern"]).format(**slots)] = None
    return list(made)


def photo(seed: int, quality: int = 92) -> bytes:
    """A JPEG of 500 × 375 with large shapes, fine texture and noise; 86 KB, at quality 50 it is 19 KB."""
    chance = np.random.default_rng(seed)
    pixels = np.full((HEIGHT, WIDTH, 3), 0.0)
    for cells, strength in ((5, 80.0), (20, 40.0), (90, 20.0)):
        coarse = chance.normal(128, strength, (cells * 3 // 4, cells, 3)).clip(0, 255).astype(np.uint8)
        pixels += np.asarray(Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))
    pixels = pixels / 3 + chance.normal(0, 12, pixels.shape)
    file = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=quality)
    return file.getvalue()


def write_photos(folder: Path, count: int, distinct: int | None = None, quality: int = 92) -> list[str]:
    """Paths of `count` JPEG files of which no two hold the same bytes.

    Args:
        distinct: how many pictures there are, the others being copies with another JPEG comment: each has a
            content of its own for capscore, and a thousand are written in a second. None: all are pictures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pictures = [photo(seed, quality) for seed in range(distinct or count)]
    paths = []
    for number in range(count):
        start, rest = pictures[number % len(pictures)][:2], pictures[number % len(pictures)][2:]
        comment = f"{number:08d}".encode()
        path = folder / f"{number:05d}.jpg"
        path.write_bytes(start + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + rest)
        paths.append(str(path))
    return paths


@dataclass(frozen=True)
class ScoredPhotos:
    """Rows to score: the candidate, image path and references of each."""

    candidates: list[str]
    images: list[str]
    references: list[list[str]]

    def __len__(self) -> int:
        return len(self.candidates)

    def distinct_texts(self) -> list[str]:
        """Every candidate and reference once, in the order of the rows."""
        references = (text for texts in self.references for text in texts)
        return list(dict.fromkeys([*self.candidates, *references]))

    def distinct_images(self) -> list[str]:
        """Every image path once, in the order of the rows."""
        return list(dict.fromkeys(self.images))


def flickr8k_expert_rows(paths: list[str], seed: int = 0) -> ScoredPhotos:
    """Rows shaped like the 16,992 of Flickr8k-Expert, on the images given.

    An image comes 17 times on average: with 6, 6 or 5 candidates, each in 3 rows (one a rater). It has 5
    references; candidates are the references of other images, so there are 5 distinct texts an image.
    """
    chance = random.Random(seed)
    pool = captions(5 * len(paths), seed=seed)
    rows: list[tuple[str, str, list[str]]] = []
    for number, path in enumerate(paths):
        own = pool[5 * number : 5 * number + 5]
        others = pool[: 5 * number] + pool[5 * number + 5 :]
        for candidate in chance.sample(others, 5 if number % 3 == 2 else 6):
            rows += [(candidate, path, own)] * 3
    return ScoredPhotos([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])
