"""XVNLI in the official files' format: a folder a language with its test.jsonl."""

from tools.tiny.official import write_jsonl

# photo, number of its caption, number of the sentence, label
PAIRS = [
    ("3001", 0, "r1e", "entailment"),
    ("3001", 0, "r1n", "neutral"),
    ("3001", 0, "r1c", "contradiction"),
    ("3001", 4, "r2c", "contradiction"),
    ("3002", 1, "r1n", "neutral"),
    ("3002", 1, "r1x", "-"),
]
# language → premise, the first sentence, the others
TEXTS = {
    "en": ("A girl feeds a goat.", "A child is near an animal.", "She is  laughing."),
    "ar": ("فتاة تطعم ماعزا.", "طفلة بجانب حيوان.", "إنها تضحك."),
    "es": ("Una niña alimenta a una cabra.", "Una niña está junto a un animal.", "Ella se ríe."),
    "fr": ("Une fille nourrit une chèvre.", "Une enfant est près d'un animal.", "Elle rit."),
    "ru": ("Девочка кормит козу.", "Ребёнок рядом с животным.", "Она смеётся."),
}


def write(folder):
    for language, (premise, first, other) in TEXTS.items():
        rows = [
            {
                "gold_label": label,
                "sentence1": premise,
                "sentence2": other if number else first,
                "captionID": f"{photo}.jpg#{caption}",
                "pairID": f"{photo}.jpg#{caption}{name}",
                "Flikr30kID": photo,
            }
            for number, (photo, caption, name, label) in enumerate(PAIRS)
        ]
        write_jsonl(folder / language / "test.jsonl", rows)


def write_checkout(folder):
    write(folder / "datasets" / "XVNLI" / "annotations")


PHOTOS = ["flickr30k-images/3001.jpg", "flickr30k-images/3002.jpg"]
ROWS = {(language, "test"): 6 for language in TEXTS}
VARIANTS = {"checkout": (write_checkout, ROWS)}
DAMAGE = {
    ("fr", "fr/test.jsonl"): [
        ("Flikr30kID", "Flickr30kID"),
        ("#0r1n", "#0r1e"),
        ('"gold_label": "neutral"', '"gold_label": "maybe"'),
        ('"captionID": "3001', '"captionID": "3003'),
    ],
    ("ar", "ar/test.jsonl"): [("إنها تضحك.", " ")],
}
