"""Flickr8k human judgements in the official files' format; captions and ratings are invented."""

from __future__ import annotations

from pathlib import Path

_CAPTIONS = {
    "111_a.jpg": [
        "A dog runs over the sand .",
        "A brown dog is running on a beach .",
        "The dog is at the sea .",
        "A wet dog runs .",
        "Dog on a beach .",
    ],
    "222_b.jpg": [
        "Two boys kick a ball .",
        "Boys play football  in the park .",
        "Two children with a red ball .",
        "Kids play .",
        "Boys on grass .",
    ],
}


def write(folder: Path) -> None:
    """The files of the archive Flickr8k_text.zip that hold ratings and captions."""
    lines = [
        f"{image}#{number}\t{text}" for image, texts in _CAPTIONS.items() for number, text in enumerate(texts)
    ]
    (folder / "Flickr8k.token.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "ExpertAnnotations.txt").write_text(
        "111_a.jpg\t222_b.jpg#1\t1\t1\t2\n"
        "222_b.jpg\t111_a.jpg#3\t1\t2\t1\n"
        # its text is among the photo's own: left out
        "222_b.jpg\t222_b.jpg#0\t4\t4\t4\n",
        encoding="utf-8",
    )
    (folder / "CrowdFlowerAnnotations.txt").write_text(
        "111_a.jpg\t111_a.jpg#1\t1\t3\t0\n111_a.jpg\t222_b.jpg#1\t0.333333333333\t1\t2\n", encoding="utf-8"
    )


# photos that the rows ask for, as paths under data_dir
PHOTOS = ["images/111_a.jpg", "images/222_b.jpg"]

# (configuration, split) → rows
ROWS = {("expert", "test"): 2, ("crowdflower", "test"): 2}

# (configuration, split) → the first row, without photos
FIRST = {
    ("expert", "test"): {
        "image_id": "111_a.jpg",
        "caption": "Boys play football in the park .",
        "caption_id": "222_b.jpg#1",
        "references": _CAPTIONS["111_a.jpg"],
        "ratings": [1, 1, 2],
        "language": "en",
    },
    ("crowdflower", "test"): {
        "image_id": "111_a.jpg",
        "caption": "A brown dog is running on a beach .",
        "caption_id": "111_a.jpg#1",
        "references": [
            text for text in _CAPTIONS["111_a.jpg"] if text != "A brown dog is running on a beach ."
        ],
        "rating": 1.0,
        "n_yes": 3,
        "n_no": 0,
        "language": "en",
    },
}

# (configuration, file, what in it becomes what (bytes; None: the whole file is removed), what the error says)
DAMAGE = [
    ("expert", "ExpertAnnotations.txt", None),
    ("expert", "ExpertAnnotations.txt", (b"\t1\t1\t2", b"\t1\t1")),
    ("expert", "ExpertAnnotations.txt", (b"\t1\t2\t1", b"\t1\t5\t1")),
    ("expert", "ExpertAnnotations.txt", (b"222_b.jpg#1", b"222_b.jpg#9")),
    (
        "expert",
        "ExpertAnnotations.txt",
        (b"222_b", b"111_a.jpg\t222_b.jpg#1\t1\t1\t1\n222_b"),
    ),
    ("expert", "Flickr8k.token.txt", (b"wet dog", b"wet d\xf6g")),
    ("expert", "Flickr8k.token.txt", (b"111_a.jpg#2", b"111_a.jpg#1")),
    ("crowdflower", "CrowdFlowerAnnotations.txt", (b"0.333333333333", b"33.3")),
]
