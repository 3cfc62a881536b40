"""Command lines and paths. {} is the folder of the files; a harmless file is scored with ROUGE-L."""

from __future__ import annotations

import json

from ..case import accepted, cases, refused

_LINE = json.dumps({"caption": "a b", "references": ["a b"]})
_FILES = {"in.jsonl": _LINE, "other.jsonl": _LINE}
_PHOTO = {"in.jsonl": json.dumps({"caption": "a b", "image": "a.png"})}
_SCORED = "".join(
    json.dumps({"id": number, "caption": "a b", "references": ["a b"], "rouge_l": score}) + "\n"
    for number, score in enumerate((1.0, 0.5, 0.25))
)
_GOOD = ("score", "{}/in.jsonl", "-m", "rouge_l")


def _score(*more: str) -> tuple:
    return (_FILES, *_GOOD, *more)


def _compare(content: object, *more: str) -> tuple:
    return ({"a.jsonl": _SCORED, "b.jsonl": content}, "compare", "{}/a.jsonl", "{}/b.jsonl", "--json", *more)


_PATHS = [
    ("not there", "{}/none.jsonl", ["no such file"]),
    ("empty", "", []),
    ("root", "/", []),
    ("a device", "/dev/zero", []),
    ("300 letters", "{}/" + "a" * 300 + ".jsonl", []),
    ("nul", "{}/a\0b.jsonl", []),
    ("lone surrogate", "{}/\ud800.jsonl", []),
    ("escape sequences", "{}/\x1b[31mred\x1b]0;x\a.jsonl", []),
    ("home of nobody", "~nobody-of-that-name/in.jsonl", []),
    ("below a file", "{}/in.jsonl/in.jsonl", []),
    ("markup", "{}/[bold]in[/].jsonl", []),
    ("dash", "--", []),
    ("web address", "http://127.0.0.1:1/in.jsonl", []),
]
_OUTPUTS = [
    ("the input itself", "{}/in.jsonl"),
    ("unknown kind", "{}/out.xyz"),
    ("a full device", "/dev/full"),
    ("below a file", "{}/in.jsonl/out.jsonl"),
    ("nul", "{}/a\0b.jsonl"),
    ("existing file", "{}/other.jsonl"),
    ("the folder", "{}"),
    ("empty", ""),
    ("a kernel's folder", "/proc/out.jsonl"),
]
_WRONG = [
    ("unknown option", _score("--fast"), ["--fast"]),
    ("misspelt option", _score("--langage", "en"), ["--langage"]),
    ("unknown metric", (_FILES, "score", "{}/in.jsonl", "-m", "blue"), ["blue"]),
    ("metric of escape sequences", (_FILES, "score", "{}/in.jsonl", "-m", "\x1b[31mred"), []),
    ("option of another metric", _score("--beta", "0.1"), ["--beta"]),
    ("batch size of text", (_FILES, "score", "{}/in.jsonl", "-m", "mcs", "--batch-size", "many"), ["--batch-size"]),
    ("batch size of 5,000 digits", (_FILES, "score", "{}/in.jsonl", "-m", "mcs", "--batch-size", "9" * 5_000), ["--batch-size"]),
    ("beta that is not a number", (_PHOTO, "score", "{}/in.jsonl", "-m", "infometic", "--beta", "nan"), ["--beta"]),
    ("unknown choice", _score("--on-error", "ignore"), ["--on-error"]),
    ("column that is not there", _score("--candidate-column", "text"), ["--candidate-column"]),
    ("split of a file", _score("--split", "test"), ["--split"]),
    ("two answers to one question", _score("--language", "en", "--language-column", "lang"), ["--language"]),
    ("unknown command", ({}, "scor"), ["scor"]),
    ("unknown backbone", (_FILES, "score", "{}/in.jsonl", "-m", "text_score", "--backbone", "./nowhere"), []),
    ("unknown kind of perturbation", (_FILES, "perturb", "{}/in.jsonl", "--kind", "explosion"), []),
    ("benchmark that leads out", ({}, "benchmark", "-m", "rouge_l", "-d", "../../etc"), []),
    ("confidence of 2", (_FILES, "compare", "{}/in.jsonl", "{}/other.jsonl", "--confidence", "2"), ["--confidence"]),
]  # fmt: skip
_COMPARED = [
    ("harmless", _compare(_SCORED), accepted("rouge_l")),
    ("empty file", _compare(""), refused("b.jsonl")),
    ("fewer rows", _compare(_SCORED.split("\n")[0] + "\n"), refused()),
    ("other rows", _compare(_SCORED.replace('"id": 2', '"id": 9')), refused()),
    ("a row twice", _compare(_SCORED.replace('"id": 2', '"id": 1')), refused()),
    ("score is a text", _compare(_SCORED.replace("0.25", '"high"')), refused()),
    ("score is NaN", _compare(_SCORED.replace("0.25", "NaN")), refused()),
    ("score of 5,000 digits", _compare(_SCORED.replace("0.25", "9" * 5_000)), refused()),
    ("scores missing", _compare(_SCORED.replace("rouge_l", "bleu")), refused()),
    ("cut short", _compare(_SCORED[:-10]), refused("b.jsonl")),
    ("deep", _compare("[" * 100_000), refused("b.jsonl")),
    ("a folder", _compare(lambda path: path.mkdir()), refused("b.jsonl")),
    ("one file twice", ({"a.jsonl": _SCORED}, "compare", "{}/a.jsonl", "{}/a.jsonl", "--json"), refused()),
]

CASES = [
    *cases("path", "command_fails", ((f"input: {name}", (_FILES, "score", path, "-m", "rouge_l"), refused(*words)) for name, path, words in _PATHS)),
    *cases("path", "command_fails", ((f"output: {name}", _score("-o", path), refused()) for name, path in _OUTPUTS)),
    *cases("command", "command_fails", ((name, given, refused(*words)) for name, given, words in _WRONG)),
    *cases("compare", "command_fails", _COMPARED),
]  # fmt: skip
