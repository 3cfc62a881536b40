"""CHAIR (Rohrbach et al. 2018): which of COCO's 80 objects a caption mentions and its photo lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import xxhash

from .. import __version__
from ..errors import InputError, Setting
from ..files.columns import is_missing
from ..files.image_folder import image_key
from ..files.text_files import json_document
from ..text.letters import lower
from .base import Scorer
from .rows import ExtraColumn, InputRows, PreparedRows, row_settings
from .scores import Scores

_TRUTH = ("objects", "image_id")
_DATA = json.loads(files(__package__).joinpath("coco_objects.json").read_text(encoding="utf-8"))
# ends of plurals and of their singulars, the first that fits; the published singulars leave the first two
_PLURALS = [pair.split(":") for pair in _DATA["plurals"].split()]
# What NLTK, with which the authors find words, takes for words of their own: signs, but not "/",
# "_" or "…", and a full stop where a sentence ends; and after them what is written onto a word.
_SEPARATE = re.compile(
    r"[\"«»“”„‘’`;@#$%&?!*()<>{}\[\]\u2012-\u2015]|--|''|[:,](?!\d)|\.{2,}"
    r"|(?<=[^.\s])\.(?=[\"'»”’)>}\]]*(?:\s|\Z))|(?<!\w)'(?!(?:[smdtn]|ll|re|ve)\b)(?=\w)"
)
_ENDINGS = re.compile(r"(?<=[^'\s])(?:'(?:[smd]|ll|re|ve)?|n't)(?=\s|\Z)")


def _singular(word: str) -> str:
    return next((word.removesuffix(end) + new for end, new in _PLURALS if word.endswith(end)), word)


@cache
def _vocabulary(rules: str) -> tuple[dict[str, str], dict[str, str]]:
    """Word, or two words, → object; two words → the one word that they are read as, "" for no object."""
    objects = {word: name for name, more in _DATA["words"].items() for word in (name, *_listed(more))}
    pairs = {word: word for word in objects if " " in word} | _DATA["pairs"]
    pairs |= {f"{first} {word}": word for first, more in _DATA["before"].items() for word in _listed(more)}
    if rules == "mended":
        mended = {_singular(word): name for name, more in _DATA["mended"].items() for word in _listed(more)}
        objects |= mended
        pairs |= {word: word for word in mended if " " in word}
    # wine glass: "glas" is the singular of glass as well
    return objects, pairs | {" ".join(map(_singular, pair.split())): word for pair, word in pairs.items()}


def _listed(text: str) -> list[str]:
    return [part for part in map(str.strip, text.split(",")) if part]


@lru_cache(2**16)
def mentioned_objects(text: str, rules: Literal["published", "mended"] = "published") -> tuple[str, ...]:
    """COCO's objects that an English text mentions, one for each mention, in order.

    >>> mentioned_objects("Two women with hot dogs and a baby elephant near train tracks")
    ('person', 'hot dog', 'elephant')
    >>> mentioned_objects("A bus and buses"), mentioned_objects("A bus and buses", "mended")
    (('bus',), ('bus', 'bus'))
    """
    objects, pairs = _vocabulary(rules)
    spaced = _SEPARATE.sub(r" \g<0> ", lower(text))
    tokens = [_singular(token) for token in _ENDINGS.sub(r" \g<0> ", spaced).split()]
    words, place = [], 0
    while place < len(tokens):
        pair = pairs.get(" ".join(tokens[place : place + 2]))
        words.append(tokens[place] if pair is None else pair)
        place += 1 if pair is None else 2
    if "toilet" in words:  # whose seat is no chair
        words = [word for word in words if word != "seat"]
    return tuple(objects[word] for word in words if word in objects)


def _named_objects(value: object) -> set[str]:
    """The objects of a photo, from a list of their names, or their names with commas between."""
    names = _listed(value) if isinstance(value, str) else value
    if not isinstance(names, Iterable) or isinstance(names, Mapping | bytes):
        raise InputError(f"expected a list of names of objects, got {value!r:.60}", field="objects")
    objects, found = _vocabulary("mended")[0], set()
    for name in names:
        word = name.strip().lower() if isinstance(name, str) else ""
        if (known := objects.get(word) or objects.get(_singular(word))) is None:
            raise InputError(f"{name!r:.60} is not one of COCO's 80 objects", field="objects")
        found.add(known)
    return found


def read_instances(path: str | Path) -> dict[str, set[str]]:
    """Read COCO's instances, such as instances_val2014.json: id of the photo → names of its objects."""
    document = json_document(path, "instances")
    try:
        names = {item["id"]: _named_objects([item["name"]]) for item in document["categories"]}
        found: dict[str, set[str]] = {str(image_key(item["id"])): set() for item in document["images"]}
        for item in document["annotations"]:
            found.setdefault(str(image_key(item["image_id"])), set()).update(names[item["category_id"]])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(Setting("instances", path), f": no instances of COCO ({error!r:.200})") from error
    return found


class Chair(Scorer):
    """Share of the mentioned objects that the photo shows, in [0, 1]: 1 − CHAIRi (Rohrbach et al. 2018).

    English alone; objects are the 80 of COCO, known by the words that the authors list. A photo shows what
    its references mention, what `objects` name, and what the instances have of its `image_id`; published
    numbers rest on references and instances.

    Components: "chair_i", made-up mentions over mentions, 0 without mentions; "chair_s", 1 where an object is
    made up; "recall", the share of the photo's objects that are mentioned, 1 if it has none. `Scores.corpus`
    has the figures that papers print: "corpus_chair_s" (CHAIRs, the share of captions with a made-up object),
    "corpus_chair_i" (CHAIRi, made-up mentions over all mentions) and "corpus_recall" (mentioned objects over
    objects of all photos). `details` have "mentioned" and "made_up", names of objects with commas between.

    Args:
        instances: File of COCO's instances, such as instances_val2014.json; rows need an image_id.
        rules: Words that count: "published" (default) for those of the authors' script, whose singulars lose
            "bus", "canoes" and "ties" and whose list of words loses "cheesecake", "motor bike" and "iPhone";
            "mended" for these too.
        common: Options of `Scorer`.

    Raises:
        InputError: a file that holds no instances, unknown rules.
    """

    metric = "chair"
    title = "CHAIR"
    citation: ClassVar[tuple[str, ...]] = ("rohrbach-etal-2018-object",)
    score_range = (0, 1)
    component_names = ("chair_i", "chair_s", "recall")
    lower_components = ("chair_i", "chair_s")
    corpus_names = ("corpus_chair_s", "corpus_chair_i", "corpus_recall")
    in_tables = ("chair_s", "chair_i")
    printed_times_100 = True
    needs_references = True
    splits_texts: ClassVar[bool] = True
    value_names = ("n_captions", "n_wrong", "n_mentions", "n_made_up", "n_recalled", "n_objects", "source")
    statistic_names = value_names[:-1]
    signed_values = ("source",)
    detail_names = ("mentioned", "made_up")
    detail_columns: ClassVar[Mapping[str, type]] = {"mentioned": str, "made_up": str}
    extra_columns = (
        ExtraColumn(
            "objects",
            "lists of names",
            "list of lists",
            "names of the objects in each row's photo, COCO's or words for them; None for a row without",
            from_files=True,
            replaces_references=True,
        ),
        ExtraColumn(
            "image_id",
            "ids of photos",
            "list",
            "id of each row's photo in the file of instances",
            from_files=True,
            replaces_references=True,
        ),
    )

    def __init__(
        self,
        *,
        instances: str | Path | None = None,
        rules: Literal["published", "mended"] = "published",
        **common: Any,
    ):
        super().__init__(**common)
        if rules not in ("published", "mended"):
            raise InputError(Setting("rules", rules), ": expected 'published' or 'mended'")
        self.rules: Literal["published", "mended"] = rules
        self.instances = instances
        self._known = {} if instances is None else read_instances(instances)

    def language_problem(self, code: str) -> str:
        return "" if code in ("", "en") else f"chair knows English words only, not those of {code!r}"

    def measure(self, rows: InputRows, on_error: str) -> dict[str, np.ndarray]:
        numbers, details = [], []
        for row in np.flatnonzero(rows.kept()).tolist():
            try:
                shown, source = self._shown(rows, row)
            except InputError as error:
                rows.failures[row] = error.at(row)
                if on_error == "raise":
                    raise rows.failures[row] from error
                continue
            mentions = mentioned_objects(rows.candidates[row], self.rules)
            made_up = [name for name in mentions if name not in shown]
            counts = (len(mentions), len(made_up), len(shown & {*mentions}), len(shown))
            numbers.append((1, bool(made_up), *counts, source))
            details.append({"mentioned": ", ".join(mentions), "made_up": ", ".join(made_up)})
        columns = np.array(numbers, dtype=np.float64).reshape(-1, len(self.value_names)).T
        rows.details = details
        return dict(zip(self.value_names, columns, strict=True))

    def _shown(self, rows: InputRows, row: int) -> tuple[set[str], int]:
        """The objects of a row's photo, and their sources: 1 references, 2 names, 4 instances, or a sum."""
        objects, ids = (column[row] if (column := rows.extra.get(name)) else None for name in _TRUTH)
        shown: set[str] = set()
        source = 0
        if texts := rows.references and rows.references[row]:
            shown, source = {name for text in texts for name in mentioned_objects(text, self.rules)}, 1
        if not is_missing(objects):
            shown, source = shown | _named_objects(objects), source + 2
        if self.instances is not None:
            if (key := image_key(ids)) not in self._known:
                where = (f"image_id {ids!r:.40} is not in ", Setting("instances", self.instances))
                raise InputError(*where, field="image_id")
            shown, source = shown | self._known[str(key)], source + 4
        if not source:
            either = ("expected references, names of objects, or an image_id and ", Setting("instances"))
            raise InputError(*either, field="objects")
        return shown, source

    def finish(self, rows: PreparedRows) -> Scores:
        values = {name: values[rows.kept] for name, values in rows.values.items()}
        components = {
            "chair_i": values["n_made_up"] / np.maximum(values["n_mentions"], 1),
            "chair_s": values["n_wrong"],
            "recall": np.where(
                values["n_objects"] > 0, values["n_recalled"] / np.maximum(values["n_objects"], 1), 1
            ),
        }
        sources = {int(number) for number in values["source"]}
        settings = {
            "rules": self.rules,
            "objects": self._named_sources(sources) + (",var" if len(sources) > 1 else ""),
            **row_settings(rows),
            "version": __version__,
        }
        return self.make_scores(rows, 1 - components["chair_i"], components, settings, values)

    def _named_sources(self, sources: Iterable[int]) -> str:
        """Where the objects of some rows come from, for signatures; each number is a sum of bits."""
        named = {1: "references", 2: "given", 4: f"instances@{self._digest}"}
        return "+".join(name for bit, name in named.items() if any(number & bit for number in sources))

    def varied_settings(self, rows: PreparedRows) -> dict[str, list[str]]:
        sources = np.nan_to_num(rows.values["source"]).astype(int).tolist()
        names = {number: self._named_sources({number}) for number in set(sources)}
        return {**super().varied_settings(rows), "objects": [names[number] for number in sources]}

    @classmethod
    def corpus_of(cls, sums: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        total = {}
        for name in cls.statistic_names:
            total[name] = np.sum([of_language[name] for of_language in sums.values()], axis=0)
        parts = (("n_wrong", "n_captions"), ("n_made_up", "n_mentions"), ("n_recalled", "n_objects"))
        with np.errstate(invalid="ignore"):  # 0 of 0
            shares = [np.float64(total[part]) / total[whole] for part, whole in parts]
        return dict(zip(cls.corpus_names, shares, strict=True))

    @property
    def _digest(self) -> str:
        said = sorted((key, sorted(names)) for key, names in self._known.items())
        return xxhash.xxh3_64_hexdigest(json.dumps(said).encode())[:8]
