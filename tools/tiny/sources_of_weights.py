"""Tiny official files that weights are made from, and drawn photos; captions and numbers are invented.

Every caption names its photo by number, so that one of a photo that is held out is seen wherever it stands.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from tools.tiny.official import (
    capeval1k,
    composite,
    pascal50s,
    thumb,
    valse,
    vicr,
    write_jsonl,
    write_lines,
    xvnli,
)
from weights.making.held_out import photo_of

SAYS = {
    "en": "A dog lies beside sign {}.",
    "de": "Ein Hund liegt neben Schild {}.",
    "fr": "Un chien dort près du panneau {}.",
    "cs": "Pes leží vedle cedule {}.",
    "es": "Un perro duerme junto al cartel {}.",
    "ru": "Собака спит рядом со знаком {}.",
    "tr": "İki köpek {} numaralı tabelanın yanında uyuyor.",
    "ja": "犬が看板{}の横で寝ている。",
    "zh": "一只狗睡在{}号牌子旁边。",
    "nl": "Een hond slaapt naast bord {}.",
    "ar": "كلب ينام بجانب اللافتة {}",
    "it": "Un cane dorme accanto al cartello {}.",
    "ko": "개가 표지판 {} 옆에서 자고 있다.",
    "pl": "Pies śpi obok znaku {}.",
    "pt": "Um cachorro dorme ao lado da placa {}.",
}
MULTI30K = {
    "train": ["111.jpg", "222.jpg", "333.jpg", "444.jpg", "888.jpg"],
    "val": ["501.jpg", "502.jpg"],
    "test_2016_flickr": ["666.jpg"],
    "test_2017_flickr": ["888_a.jpg"],
    "test_2017_mscoco": ["COCO_val2014_000000000056.jpg#78"],
    "test_2018_flickr": ["121_c.jpg"],
}
XFLICKRCO_TEST = ["333.jpg", "502.jpg", "704.jpg", "COCO_val2014_000000000077.jpg"]
# of a photo with English captions, of one without, and of two that are tested on elsewhere
XFLICKRCO_TRAIN = ["111.jpg", "720.jpg", "666.jpg", "703.jpg"]
FLICKR8K_TRAIN = ["111_aa.jpg", "700_bb.jpg", "444_cc.jpg", "701_dd.jpg", "702_ee.jpg", "704_gg.jpg"]
# what everything that ships is measured on
HELD = {"666", "888", "56", "121", "333", "502", "704", "77", "703", "701", "444", "702"}
# of Flickr8k's training split and Multi30k, of the training split alone, of no split, and held out ones
PHOTOS = ("111_aa.jpg", "700_bb.jpg", "222_ii.jpg", "701_dd.jpg", "710_hh.jpg", "703_ff.jpg")
# 99 is known to be of train2014, 130 of val2014, 140 of neither; 56 is in a test set
COCO = (
    "coco128/train2017/000000000099.jpg",
    "coco128/train2017/000000000130.jpg",
    "coco128/train2017/000000000140.jpg",
    "coco_train2014/COCO_train2014_000000000056.jpg",
    "coco_train2014/COCO_train2014_000000000098.jpg",
    "coco_train2014/COCO_train2014_000000000099.jpg",
    "coco_val2014/COCO_val2014_000000000130.jpg",
)
TEXTS = {
    "zh": [
        ("flickr8k-cn", "700_bb.jpg#zhc#0"),
        ("flickr8k-cn", "701_dd.jpg#zhc#0"),
        ("coco-cn-extension", "COCO_train2014_000000000099#0"),
        ("coco-cn-extension", "COCO_val2014_000000000077#0"),
    ],
    "ar": [("arabic-flickr8k", "111_aa.jpg#0"), ("arabic-flickr8k", "703_ff.jpg#1")],
    "ja": [("jsts", "99-5"), ("jsts", "98-7"), ("jsts", "77-6")],
}


def write_captions(folder: Path) -> Path:
    """The folders multi30k, flickr8k and xflickrco; returns the folder."""
    for split, photos in MULTI30K.items():
        write_lines(folder / "multi30k" / "image_splits" / f"{split}.txt", photos)
        for language in ("en", "de", "fr", "cs"):
            if language != "cs" or "2017" not in split:
                captions = "".join(f"{SAYS[language].format(photo_of(photo).number)}\n" for photo in photos)
                path = folder / "multi30k" / f"{split}.{language}.gz"
                path.write_bytes(gzip.compress(captions.encode()))
    flickr8k = folder / "flickr8k"
    write_lines(flickr8k / "Flickr_8k.trainImages.txt", FLICKR8K_TRAIN)
    write_lines(flickr8k / "Flickr_8k.testImages.txt", ["703_ff.jpg"])
    write_lines(flickr8k / "Flickr_8k.devImages.txt", ["710_hh.jpg"])
    write_lines(flickr8k / "ExpertAnnotations.txt", ["701_dd.jpg\t700_bb.jpg#2\t1\t1\t2"])
    write_lines(flickr8k / "CrowdFlowerAnnotations.txt", ["444_cc.jpg\t700_bb.jpg#2\t0\t0\t3"])
    (flickr8k / "images").mkdir()
    (flickr8k / "images" / "702_ee.jpg").write_bytes(b"")
    # 710 is of the development split; one name in the official file is odd like the last
    photos = [
        (photo, photo_of(photo).number)
        for photo in (*FLICKR8K_TRAIN, "703_ff.jpg", "710_hh.jpg", "222_ii.jpg.1")
    ]
    tokens = (
        (f"{photo}#0\tA brown dog rests near sign {n} .", f"{photo}#1\t{SAYS['en'].format(n)}")
        for photo, n in photos
    )
    write_lines(flickr8k / "Flickr8k.token.txt", (line for pair in tokens for line in pair))

    def rows(language, photos, forms=1):
        for photo in photos:
            texts = [SAYS[language].format(photo_of(photo).number) + "!" * form for form in range(forms)]
            yield {"sentences": texts, "id": photo, "img_path": photo}

    for language in ("en", "de", "ja", "es", "ru", "tr", "zh"):
        own = folder / "xflickrco" / language
        write_jsonl(own / "test.jsonl", rows(language, XFLICKRCO_TEST))
        if language in ("de", "ja"):
            write_jsonl(own / "train_1500.jsonl", rows(language, XFLICKRCO_TRAIN))
            write_jsonl(own / "train_200x5.jsonl", rows(language, ["720.jpg", "666.jpg"], 5))
        elif language != "en":
            write_jsonl(own / "train_100.jsonl", rows(language, XFLICKRCO_TRAIN))
    return folder


def write_data(folder: Path) -> Path:
    """The folder of all official files; returns it."""
    write_captions(folder)
    for benchmark in (capeval1k, composite, pascal50s, thumb, valse, vicr, xvnli):
        own = folder / benchmark.__name__.rpartition(".")[2]
        own.mkdir()
        benchmark.write(own)
    return folder


def text_row(source, key, language, text) -> dict:
    return {"id": f"{source}/{key}", "text": text, "language": language, "source": source, "licence": "x"}


def write_texts(folder: Path) -> Path:
    """The folder of `weights.making.package_texts`, with 60 sentences of each language; returns it."""
    for language, says in SAYS.items():
        keys = [*TEXTS.get(language, ()), *(("tatoeba", number) for number in range(9000, 9060))]
        rows = [text_row(source, key, language, says.format(f"{key}!")) for source, key in keys]
        write_jsonl(folder / f"{language}.jsonl", rows)
    return folder


def draw_photo(path: Path, seed: int, size: tuple[int, int] = (40, 30)) -> None:
    """A photo of some coloured shapes on a gradient."""
    chance = np.random.default_rng(seed)
    across = np.linspace(0, 255, size[0], dtype=np.uint8)
    image = Image.fromarray(np.broadcast_to(across[None, :, None], (size[1], size[0], 3)).copy())
    draw = ImageDraw.Draw(image)
    for _ in range(4):
        x, y = chance.integers(0, size[0] - 8), chance.integers(0, size[1] - 8)
        draw.rectangle((x, y, x + 7, y + 7), fill=tuple(int(c) for c in chance.integers(0, 256, 3)))
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, quality=95)


def write_photos(folder: Path) -> Path:
    """The folder of photos; returns it."""
    for seed, name in enumerate((*(f"flickr8k/{name}" for name in PHOTOS), *COCO)):
        draw_photo(folder / name, seed)
    return folder
