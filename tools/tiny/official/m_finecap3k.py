"""M-FineCap3k in the format that its card documents, and FineCapEval's CSV."""

from tools.tiny.official import write_jsonl, write_lines

# language → caption, objects, backgrounds, relationships
TEXTS = {
    "en": ("A woman in a red coat waits at a tram stop.", ["woman", "red coat"], ["tram stop"], ["waits"]),
    "de": ("Eine Frau in rotem Mantel  wartet.", ["Frau", "rotem Mantel"], [], ["wartet"]),
    "es": ("Una mujer con abrigo rojo espera.", ["mujer", "abrigo rojo"], [], ["espera"]),
    "fr": ("Une femme en manteau rouge attend.", ["femme", "manteau rouge"], [], ["attend"]),
    "ja": ("赤いコートを着た女性が停留所で待っている。", ["女性", "赤いコート"], ["停留所"], ["待っている"]),
}
NAMES = ("caption", "critical_objects", "backgrounds", "relationships")


def write(folder):
    """A file a language."""
    for language, texts in TEXTS.items():
        row = dict(zip(NAMES, texts, strict=True))
        rows = [{"id": f"{language}-{number}", "image": "41.jpg", **row} for number in (0, 1)]
        write_jsonl(folder / f"{language}.jsonl", rows)


def write_finecapeval(folder):
    """FineCapEval as its authors publish it: English only."""
    lines = [
        "image,caption,background,object,relation",
        '41.jpg,"A woman, in a red  coat, waits.",tram stop\\;grey sky,woman\\; red coat\\;,waits',
        "41.jpg,A woman waits.,,woman,waits",
        "42.jpg,A dog sleeps.,sofa,dog,sleeps on",
    ]
    write_lines(folder / "data" / "FineCapEval.csv", lines)


PHOTOS = ["images/41.jpg"]
ROWS = {(language, "test"): 2 for language in TEXTS}
VARIANTS = {"finecapeval": (write_finecapeval, {("en", "test"): 3})}
DAMAGE = {
    ("fr", "fr.jsonl"): [
        ('"critical_objects"', '"objects"'),
        ('"fr-1"', '"fr-0"'),
        ('["attend"]', '"attend"'),
        ('["attend"]', '[""]'),
    ]
}
