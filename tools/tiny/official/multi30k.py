"""Multi30k in the official repository's format."""

import gzip

from tools.tiny.official import write_lines

# split, as its files are named → its photos
SPLITS = {
    "train": ["111.jpg", "222.jpg", "333.jpg"],
    "val": ["444.jpg", "555.jpg"],
    "test_2016_flickr": ["666.jpg", "777.jpg"],
    "test_2017_flickr": ["888_a.jpg", "999_b.jpg"],
    "test_2017_mscoco": ["COCO_train2014_000000000012.jpg#34", "COCO_val2014_000000000056.jpg#78"],
    "test_2018_flickr": ["121_c.jpg", "343_d.jpg"],
}
TEXTS = {
    "en": "A dog  in picture {}.",
    "de": "Ein Hund auf grünem Gras {}.",
    "fr": "Un chien {}.",
    "cs": "Pes na obrázku {}.",
}


def _write_captions(path, language, photos):
    write_lines(path, (TEXTS[language].format(number) for number in range(1, len(photos) + 1)))
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(path.read_bytes()))


def write(folder):
    """Files of task 1 side by side, lists in a folder; the captions of two splits are unpacked."""
    for split, photos in SPLITS.items():
        write_lines(folder / "image_splits" / f"{split}.txt", photos)
        suffix = "" if split in ("train", "val") else ".gz"
        for language in TEXTS:
            if language != "cs" or "2017" not in split:
                _write_captions(folder / f"{split}.{language}{suffix}", language, photos)


def write_repository(folder):
    """The repository's folder data, with both tasks."""
    for split, photos in (("train", SPLITS["train"]), ("val", SPLITS["val"])):
        write_lines(folder / f"data/task1/image_splits/{split}.txt", photos)
        write_lines(folder / f"data/task2/image_splits/{split}_images.txt", photos)
        for language in ("en", "de"):
            _write_captions(folder / f"data/task1/raw/{split}.{language}.gz", language, photos)
            for number in range(1, 6):
                _write_captions(folder / f"data/task2/raw/{split}.{number}.{language}.gz", language, photos)


PHOTOS = [
    "flickr30k-images/111.jpg",
    *(f"images/{photo.partition('#')[0]}" for photos in SPLITS.values() for photo in photos),
]
ROWS = {
    (language, split.replace("val", "validation")): len(photos)
    for language in TEXTS
    for split, photos in SPLITS.items()
    if not (language == "cs" and "2017" in split)
}
REPOSITORY = {("en", "train"): 3, ("de", "validation"): 2, ("task2_en", "train"): 3, ("task2_de", "train"): 3}
VARIANTS = {"repository": (write_repository, REPOSITORY)}
DAMAGE = {
    ("en", "image_splits/train.txt"): [("222.jpg", "111.jpg")],
    ("de", "train.de"): [("Ein Hund auf grünem Gras 2.\n", "")],
    ("en", "image_splits/val.txt"): [("555.jpg\n", "")],
    ("fr", "train.fr"): [("Un chien 2.", ""), (" 3.\n", "")],
    ("en", "image_splits/test_2017_mscoco.txt"): [("#34", "#x34"), ("COCO_train2014_000000000012.jpg", "")],
}
