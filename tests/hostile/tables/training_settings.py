"""YAML files and command lines of training recipes. A harmless file has the learning rate 0.5."""

from __future__ import annotations

from ..case import cases, refused, scored

GOOD = scored(0.5)
_BOMB = "a: &a [1, 1]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
)
_RATE = "learning_rate: 0.5\n"

_FILES = [
    ("harmless", _RATE, GOOD),
    ("byte order mark", f"\ufeff{_RATE}", GOOD),
    ("larger than a megabyte", _RATE + "#" * 2**20, GOOD),
    ("aliases in aliases", _BOMB, refused("line 2", "alias")),
    ("one alias", "betas: &b [0.9, 0.99]\nnames: *b\n", refused("line 2", "*b is an alias")),
    ("merge", "x: &x {epochs: 1}\n<<: *x\n", refused("line 2", "alias")),
    ("100,000 brackets", "out: " + "[" * 100_000, refused("is not YAML")),
    (
        "100,000 levels of lines",
        "\n".join(" " * n + "a:" for n in range(1_000)),
        refused("is not YAML"),
    ),
    ("python object", "out: !!python/object/apply:os.system [id]\n", refused("line 1", "python/object")),
    ("python tuple", "betas: !!python/tuple [0.9, 0.99]\n", refused("python/tuple")),
    ("own tag", "out: !include /etc/passwd\n", refused("!include")),
    ("binary", "out: !!binary aGFsbG8=\n", refused("out")),
    ("date that does not exist", "epochs: 2020-13-45\n", refused("is not YAML")),
    ("number of 5,000 digits", f"epochs: {'9' * 5_000}\n", refused("settings.yaml")),
    ("float that a tag promises", "learning_rate: !!float many\n", refused("is not YAML")),
    ("not a number", "learning_rate: .nan\n", refused("learning_rate")),
    ("negative", "learning_rate: -1\n", refused("learning_rate")),
    ("text for a number", "learning_rate: fast\n", refused("learning_rate is 'fast'")),
    ("list for a number", "learning_rate: [1]\n", refused("learning_rate is [1]")),
    ("null for a number", "learning_rate:\n", refused("learning_rate")),
    ("true for a number", "learning_rate: yes\n", refused("learning_rate is True")),
    ("fraction for a whole number", "epochs: 1.5\n", refused("epochs is 1.5")),
    ("list for a text", "out: [a]\n", refused("out is ['a']")),
    ("three betas", "betas: [0.1, 0.2, 0.3]\n", refused("betas")),
    ("betas nested", "betas: [[0.1], [0.2]]\n", refused("betas is [[0.1]")),
    ("unknown choice", "schedule: cosign\n", refused("cosign", "cosine")),
    ("misspelt", "lerning_rate: 0.5\n", refused("did you mean learning_rate?")),
    ("name of a method", "__init__: 1\n", refused("unknown setting __init__")),
    ("name of 100,000 letters", f"? {'n' * 100_000}\n: 1\n", refused("unknown setting nnn")),
    ("name with escape sequences", '"\\e[31mout": 1\n', refused("unknown setting")),
    ("null as a name", "~: 2\n", refused("unknown setting None")),
    ("list as a name", "? [a]\n: 1\n", refused("settings.yaml")),
    ("name twice", "epochs: 1\nepochs: 2\n", refused("line 2", "'epochs' appears twice")),
    ("two documents", f"{_RATE}---\n{_RATE}", refused("is not YAML")),
    ("a list", "- out\n", refused("['out']")),
    ("empty", "", scored(5e-5)),
    ("tab", "\tout: a\n", refused("is not YAML")),
    ("nul", "out: a\0b\n", refused("is not YAML")),
    ("Latin-1", "out: café\n".encode("latin-1"), refused("UTF-8")),
    ("UTF-16", _RATE.encode("utf-16"), refused("UTF-8")),
    ("binary file", bytes(range(256)), refused("settings.yaml")),
    ("JSON", '{"learning_rate": 0.5}', GOOD),
    ("directive", f"%YAML 3.0\n---\n{_RATE}", refused("is not YAML")),
]
_LINES = [
    ("not a number", ["--learning_rate", "nan"], refused("--learning_rate", "nan")),
    ("5,000 digits", ["--epochs", "9" * 5_000], refused("--epochs")),
    ("digits of another script", ["--epochs", "٣"], scored(5e-5)),
    ("empty text", ["--out", ""], refused("out")),
    ("misspelt", ["--lerning_rate", "1"], refused("did you mean --learning_rate?")),
    ("escape sequences in a name", ["--\x1b[31mred"], refused("unknown setting")),
    ("file that is not there", ["--config", "nowhere.yaml"], refused("nowhere.yaml")),
    ("device as a file", ["--config", "/dev/zero"], refused("is not a file")),
    ("nul in the file's name", ["--config", "a\0b"], refused("cannot be read")),
    ("value without a name", ["red"], refused("unknown setting red")),
    ("name without a value", ["--epochs"], refused("--epochs")),
]

CASES = [
    *cases("training", "training_file", _FILES),
    *cases("training", "training_line", ((f"line, {row[0]}", *row[1:]) for row in _LINES)),
]
