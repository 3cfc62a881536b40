"""MaRVL in the official files' format."""

from tools.tiny.official import write_jsonl

# language → concept, two captions
TEXTS = {
    "id": ("7-Sapu", "Kedua gambar memperlihatkan  sapu.", "Ada sapu merah di kiri."),
    "sw": ("7-Ufagio", "Picha zote mbili zina ufagio.", "Kuna ufagio mwekundu kushoto."),
    "ta": ("7-துடைப்பம்", "இரண்டு படங்களிலும் துடைப்பம் உள்ளது.", "இடதுபுறம் சிவப்பு துடைப்பம் உள்ளது."),
    "tr": ("7-Süpürge", "Her iki görselde de süpürge var.", "Soldaki süpürge kırmızı."),
    "zh": ("7-扫帚", "两张图中都有扫帚。", "左边的扫帚是红色的。"),
}
# number of the caption, left and right photo, label; of the second caption a row is lost
PAIRS = [
    (1, 0, 1, True),
    (1, 2, 3, True),
    (1, 0, 4, False),
    (1, 4, 5, False),
    (2, 1, 0, True),
    (2, 3, 2, False),
    (2, 5, 4, False),
]


def _rows(language):
    texts = TEXTS[language]
    annotator = {"annotator_id": f"{language}_01", "country_of_birth": "Nowhere", "age": 40}
    for number, (caption, left, right, label) in enumerate(PAIRS):
        yield {
            "concept": texts[0],
            "language": language,
            "caption": texts[caption],
            "left_img": f"7-{left}.jpg",
            "right_img": f"7-{right}.jpg",
            "annotator_info": annotator,
            "chapter": "The house",
            "id": f"{language}-{number}",
            "label": label,
        }


def write(folder):
    """A file a language, side by side."""
    for language in TEXTS:
        write_jsonl(folder / f"marvl-{language}.jsonl", _rows(language))


def write_checkout(folder):
    for language in TEXTS:
        path = folder / "data" / language / "annotations" / f"marvl-{language}.jsonl"
        write_jsonl(path, _rows(language))


PHOTOS = [
    f"marvl-images/{language}/images/{concept}/7-{number}.jpg"
    for language, (concept, *_) in TEXTS.items()
    for number in range(6)
]
ROWS = {(language, "test"): 7 for language in TEXTS}
VARIANTS = {"checkout": (write_checkout, ROWS)}
DAMAGE = {
    ("sw", "marvl-sw.jsonl"): [
        ('"left_img"', '"left_image"'),
        ('"sw-1"', '"sw-0"'),
        ('"label": true', '"label": "true"'),
        ('"language": "sw"', '"language": "ta"'),
        ('"7-1.jpg"', "null"),
    ]
}
