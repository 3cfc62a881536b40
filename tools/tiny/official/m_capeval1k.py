"""M-CapEval1k in the format that its card documents; ids and ratings are the same in all languages."""

from tools.tiny.official import write_jsonl

TEXTS = {
    "en": ["a man with two umbrellas", "a man with a dog"],
    "de": ["ein Mann mit zwei Regenschirmen", "ein Mann mit einem Hund"],
    "es": ["un hombre con dos paraguas", "un hombre con un perro"],
    "fr": ["un homme avec deux parapluies", "un homme avec un chien"],
    "ja": ["傘を二本持つ男性", "犬を連れた男性"],
}
NAME = "COCO_val2014_000000000031.jpg"


def write(folder):
    for language, (first, second) in TEXTS.items():
        rows = [
            {"id": "31-1", "image": NAME, "caption": first, "score": 0.85},
            {"id": "31-2", "image": NAME, "caption": second, "score": 0},
        ]
        if language == "de":
            rows[0]["references"] = ["ein Mann mit Schirmen", "Schirme  im Regen"]
        write_jsonl(folder / f"{language}.jsonl", rows)


PHOTOS = [f"val2014/{NAME}"]
ROWS = {(language, "test"): 2 for language in TEXTS}
DAMAGE = {
    ("de", "de.jsonl"): [
        ('"score": 0}', '"rating": 0}'),
        ('"31-2"', '"31-1"'),
        ("0.85", "8.5"),
        ("ein Mann mit einem Hund", " "),
        ('["ein Mann mit Schirmen", "Schirme  im Regen"]', '"x"'),
    ]
}
