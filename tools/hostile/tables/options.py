"""Command lines, paths, options of `load`, and settings of recipes.

{} is the folder of the files. A harmless file of settings has the learning rate 0.5.
"""

from __future__ import annotations

import json

from .. import surfaces
from ..case import cases, refused, scored

_LINE = json.dumps({"caption": "a b", "references": ["a b"]})
_FILES = {"in.jsonl": _LINE, "other.jsonl": _LINE}
_SCORED = "".join(
    json.dumps({"id": number, "caption": "a b", "references": ["a b"], "rouge_l": score}) + "\n"
    for number, score in enumerate((1.0, 0.5, 0.25))
)

_INPUTS = [
    ("a device", "/dev/zero"),
    ("lone surrogate", "{}/\ud800.jsonl"),
    ("escape sequences", "{}/\x1b[31mred\x1b]0;x\a.jsonl"),
    ("home of nobody", "~nobody-of-that-name/in.jsonl"),
    ("markup", "{}/[bold]in[/].jsonl"),
    ("web address", "http://127.0.0.1:1/in.jsonl"),
]
_OUTPUTS = [("nul", "{}/a\0b.jsonl"), ("the folder", "{}"), ("a kernel's folder", "/proc/out.jsonl")]
_SCORE, _SCORED_FILES = (_FILES, "score", "{}/in.jsonl", "-m"), {"a.jsonl": _SCORED, "b.jsonl": _SCORED}
_DIGITS = "9" * 30
_LONG = {
    "--references": "score {}/in.jsonl -m rouge_l",
    "--weights": "score --photo a.jpg --caption dog -m infometic",
    "--markdown": "compare {}/in.jsonl {}/other.jsonl -m rouge_l",
    "--output=o.html": "leaderboard",
}
_COMMANDS = [
    ("metric of escape sequences", (*_SCORE, "\x1b[31mred"), []),
    ("batch size of 5,000 digits", (*_SCORE, "mcs", "--batch-size", "9" * 5_000), ["--batch-size"]),
    ("batch size of 30 digits", (*_SCORE, "text_score", "--backbone", "toy", "--batch-size", _DIGITS), ["--batch-size"]),
    ("samples of 30 digits", (_SCORED_FILES, "compare", "{}/a.jsonl", "{}/b.jsonl", "--samples", _DIGITS), ["--samples"]),
    *((f"{option.strip('-')} of 300 letters", (_FILES, *line.split(), option, f"{300 * 'x'}.md"), ["too long"]) for option, line in _LONG.items()),
    ("images of 300 letters", (*_SCORE, "rouge_l", "--images", 300 * "x"), ["--images"]),
    ("folder of photos that is not UTF-8", ({}, "data", "check", "xvnli", "--image-dir", "\udc80"), ["UTF-8"]),
    ("unknown command", ({}, "scor"), ["scor"]),
    ("benchmark that leads out", ({}, "benchmark", "-m", "rouge_l", "-d", "../../etc"), []),
]  # fmt: skip
_COMPARED = [
    ("score is a text", _SCORED.replace("0.25", '"high"'), refused()),
    ("score is NaN", _SCORED.replace("0.25", "NaN"), refused()),
    ("score of 5,000 digits", _SCORED.replace("0.25", "9" * 5_000), refused()),
    ("scores missing", _SCORED.replace("rouge_l", "bleu"), refused()),
]
GOOD = scored(0.5)
_RATE = "learning_rate: 0.5\n"
_BOMB = "a: &a [1, 1]\n" + "".join(f"b{n}: &b{n} [*{f'b{n - 1}' if n else 'a'}, *a]\n" for n in range(20))
_SETTINGS = [
    ("larger than a megabyte", _RATE + "#" * 2**20, GOOD),
    ("JSON", '{"learning_rate": 0.5}', GOOD),
    ("aliases in aliases", _BOMB, refused("line 2", "alias")),
    ("10,000 brackets", "out: " + "[" * 10_000, refused("is not YAML")),
    ("python object", "out: !!python/object/apply:os.system [id]\n", refused("python/object")),
    ("number of 5,000 digits", f"epochs: {'9' * 5_000}\n", refused("settings.yaml")),
    ("not a number", "learning_rate: .nan\n", refused("learning_rate")),
    ("negative", "learning_rate: -1\n", refused("learning_rate")),
    ("name of a method", "__init__: 1\n", refused("unknown setting __init__")),
    ("name with escape sequences", '"\\e[31mout": 1\n', refused("unknown setting")),
    ("two documents", f"{_RATE}---\n{_RATE}", refused("is not YAML")),
    ("UTF-16", _RATE.encode("utf-16"), refused("utf-8")),
    ("line, 5,000 digits", ["--epochs", "9" * 5_000], refused("--epochs")),
    ("line, digits of another script", ["--epochs", "٣"], scored(5e-5)),
    ("line, escape sequences in a name", ["--\x1b[31mred"], refused("unknown setting")),
    ("line, device as a file", ["--config", "/dev/zero"], refused("is not a file")),
    ("line, nul in the file's name", ["--config", "a\0b"], refused("cannot be read")),
]


CASES = [
    *cases("path", surfaces.command, ((f"input: {name}", (_FILES, "score", path, "-m", "rouge_l"), refused()) for name, path in _INPUTS)),
    *cases("path", surfaces.command, ((f"output: {name}", (_FILES, "score", "{}/in.jsonl", "-m", "rouge_l", "-o", path), refused()) for name, path in _OUTPUTS)),
    *cases("command", surfaces.command, ((name, given, refused(*words)) for name, given, words in _COMMANDS)),
    *cases("compare", surfaces.command, ((name, ({"a.jsonl": _SCORED, "b.jsonl": content}, "compare", "{}/a.jsonl", "{}/b.jsonl", "--json"), expected) for name, content, expected in _COMPARED)),
    *cases("training", surfaces.settings, _SETTINGS),
]  # fmt: skip
