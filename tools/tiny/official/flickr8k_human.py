"""Flickr8k human judgements: the files of Flickr8k_text.zip that hold ratings and captions."""

from tools.tiny.official import write_lines

CAPTIONS = {
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
EXPERT = [
    "111_a.jpg\t222_b.jpg#1\t1\t1\t2",
    "222_b.jpg\t111_a.jpg#3\t1\t2\t1",
    "222_b.jpg\t222_b.jpg#0\t4\t4\t4",  # its text is among the photo's own: left out
]
CROWD = ["111_a.jpg\t111_a.jpg#1\t1\t3\t0", "111_a.jpg\t222_b.jpg#1\t0.333333333333\t1\t2"]


def write(folder):
    lines = [f"{photo}#{number}\t{text}" for photo in CAPTIONS for number, text in enumerate(CAPTIONS[photo])]
    write_lines(folder / "Flickr8k.token.txt", lines)
    write_lines(folder / "ExpertAnnotations.txt", EXPERT)
    write_lines(folder / "CrowdFlowerAnnotations.txt", CROWD)


PHOTOS = [f"images/{name}" for name in CAPTIONS]
ROWS = {("expert", "test"): 2, ("crowdflower", "test"): 2}
DAMAGE = {
    ("expert", "ExpertAnnotations.txt"): [
        ("\t1\t1\t2", "\t1\t1"),
        ("\t1\t2\t1", "\t1\t5\t1"),
        ("\t1\t2\t1", "\t0\t2\t1"),
        ("222_b.jpg#1", "222_b.jpg#9"),
        ("222_b", "111_a.jpg\t222_b.jpg#1\t1\t1\t1\n222_b"),
    ],
    ("expert", "Flickr8k.token.txt"): [("111_a.jpg#2", "111_a.jpg#1")],
    ("crowdflower", "CrowdFlowerAnnotations.txt"): [("0.333333333333", "33.3")],
}
