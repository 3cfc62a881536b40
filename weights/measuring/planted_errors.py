"""Measures how often a wrong word planted in a right caption is found, and how often right words are flagged.

    python -m weights.measuring.planted_errors --data DATA --weights info_clip --weights FOLDER \
        [--photos FOLDER]

In: a folder with `flickr8k` (`multilingual_captions.json` and the folder `images`) and `xflickrco`
(`es/test.jsonl`, `en/test.jsonl`, …), and weights of InfoMetIC. Out: for each language and kind of error, how
often the planted word has the lowest score of its caption and how often it is flagged, beside chance and
three baselines without training; false alarms; how often recall and precision fall when they should.

Spanish has no captions of those photos: it is measured on those of XFlickrCO's test split that Flickr8k has
too, and needs a folder of Flickr8k's photos.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from capscore.metrics.loading import default_backbone

from .figures import mean, percent, study_parser, table, write_json
from .planted_words import LANGUAGES
from .planting import KINDS, Planted, drop_clause, plant, shuffled

if TYPE_CHECKING:
    from capscore.embedding.embedder import Embedder
    from capscore.metrics.infometic import InfoMetIC

BASELINES = ("whole", "regions", "left_out")


# ------------------------------------------------------------------ photos


class Photo(NamedTuple):
    """The file of a photo, and language → its captions."""

    file: str
    captions: Mapping[str, Sequence[str]]


def read_photos(folder: Path) -> list[Photo]:
    """The available photos of Flickr8k with their captions, without machine translations."""
    listed = json.loads((folder / "multilingual_captions.json").read_text(encoding="utf-8"))
    return [
        Photo(
            str(folder / "images" / name),
            {language: captions for language, captions in languages.items() if isinstance(captions, list)},
        )
        for name, languages in sorted(listed.items())
        if (folder / "images" / name).is_file()
    ]


def read_shared_photos(folder: Path, photos: Path) -> list[Photo]:
    """The photos of XFlickrCO's test split that Flickr8k has too, matched by Flickr's number in their names.

    Args:
        folder: Folder of XFlickrCO.
        photos: Folder of Flickr8k's photos.
    """
    by_language = {}
    for language in LANGUAGES:
        file = folder / language / "test.jsonl"
        if file.is_file():
            rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
            by_language[language] = {row["id"]: row["sentences"] for row in rows}
    files = {file.name.partition("_")[0]: file for file in sorted(photos.glob("*_*.jpg"))}
    return [
        Photo(str(files[name]), {language: rows.get(name, ()) for language, rows in by_language.items()})
        for name in by_language["es"]
        if name in files
    ]


# ------------------------------------------------------------------ cases and rows


class Row(NamedTuple):
    """A caption to score with a photo, given by its file."""

    photo: str
    caption: str
    language: str


@dataclass(frozen=True, eq=False)
class Cases:
    """What is measured of one language.

    Attributes:
        language: Language of the captions.
        n_photos: Number of photos with captions in it.
        planted: (file of the photo, what was planted), of all kinds.
        dropped: (file of the photo, caption, the same without its last clauses).
    """

    language: str
    n_photos: int
    planted: list[tuple[str, Planted]]
    dropped: list[tuple[str, str, str]]

    def rows(self) -> list[Row]:
        """Every row that has to be scored, each once."""
        texts = [(photo, text) for photo, found in self.planted for text in (found.original, found.caption)]
        texts += [(photo, text) for photo, *both in self.dropped for text in both]
        return list(dict.fromkeys(Row(photo, text, self.language) for photo, text in texts))

    def untouched(self) -> list[Row]:
        """The rows in which nothing is wrong, each once."""
        texts = [(photo, found.original) for photo, found in self.planted]
        texts += [(photo, caption) for photo, caption, _ in self.dropped]
        return list(dict.fromkeys(Row(photo, text, self.language) for photo, text in texts))


def photo_random(seed: int, file: str, language: str) -> random.Random:
    """The source of chance of a photo's captions in a language, which depends on no other photo."""
    return random.Random(f"{seed} {Path(file).name} {language}")


def make_cases(photos: Sequence[Photo], language: str, seed: int = 0) -> Cases:
    """One planted error of each kind, and one dropped clause, for each photo with a suitable caption.

    A photo's errors depend on its name, its captions and the seed, and on no other photo.
    """
    planted, dropped, n_photos = [], [], 0
    for file, captions in photos:
        own = captions.get(language, ())
        n_photos += bool(own)
        if language not in LANGUAGES:
            continue
        for kind in KINDS:
            found = plant(captions, language, kind, photo_random(seed, file, language))
            if found:
                planted.append((file, found))
        for caption in shuffled(own, photo_random(seed, file, language)):
            shorter = drop_clause(caption, language)
            if shorter:
                dropped.append((file, caption, shorter))
                break
    return Cases(language, n_photos, planted, dropped)


# ------------------------------------------------------------------ scoring


class Scored(NamedTuple):
    """A scorer's result for a row: its entry of `Scores.details`, recall and precision."""

    detail: dict[str, Any]
    recall: float
    precision: float


def score_rows(scorer: InfoMetIC, rows: Sequence[Row]) -> dict[Row, Scored]:
    """Score every row with its image, in one call."""
    images = [row.photo for row in rows]
    scores = scorer.score([row.caption for row in rows], images, language=[row.language for row in rows])
    recall, precision = scores.components["recall"].tolist(), scores.components["precision"].tolist()
    return dict(zip(rows, map(Scored, scores.details, recall, precision), strict=True))


class Embedded(NamedTuple):
    """Embeddings of a photo: the whole (d,), its regions (m, d)."""

    whole: np.ndarray
    regions: np.ndarray


def embed_photos(scorer: InfoMetIC, scored: Mapping[Row, Scored]) -> dict[str, Embedded]:
    """The embeddings of each photo and of the regions that its rows were scored with."""
    from capscore.images.load import load_image

    boxes = {
        row.photo: [region["box"] for region in found.detail["regions"]] for row, found in scored.items()
    }
    embedded = {}
    for file, own in boxes.items():
        image = load_image(file)
        (vectors,) = scorer.embedder.regions([image], [np.array([(0, 0, *image.size), *own])])
        embedded[file] = Embedded(vectors[0], vectors[1:])
    return embedded


def baseline_scores(
    embedder: Embedder,
    prefix: str,
    cases: Cases,
    scored: Mapping[Row, Scored],
    embedded: Mapping[str, Embedded],
) -> dict[tuple[str, Planted], dict[str, list[float]]]:
    """Scores of each planted caption's semantic words without training; the lowest is likeliest wrong.

    "whole": the cosine of the word alone with the whole image; "regions": the mean of those with its regions
    (where there are none, with the whole); "left_out": how much the caption's cosine with the image loses
    when the word is left out.
    """
    from capscore.infometic.words import without_word

    texts: dict[str, None] = {}
    plans = {}
    for photo, found in cases.planted:
        words = semantic_words(scored[Row(photo, found.caption, cases.language)].detail)
        alone = [word["text"] for word in words]
        without = [without_word(found.caption, word["start"], word["end"]) for word in words]
        texts.update(dict.fromkeys([found.caption, *alone, *without]))
        plans[photo, found] = (alone, without)
    rows = embedder.texts(list(texts), prefix=prefix)
    index = {text: int(row) for text, row in zip(texts, rows.index, strict=True)}
    result = {}
    for (photo, found), (alone, without) in plans.items():
        whole, regions = embedded[photo]
        matrix = rows.matrix[[index[text] for text in alone]] if alone else np.zeros((0, len(whole)))
        rest = rows.matrix[[index[text] for text in without]] if without else matrix
        average = regions.mean(axis=0) if len(regions) else whole
        result[photo, found] = {
            "whole": (matrix @ whole).tolist(),
            "regions": (matrix @ average).tolist(),
            "left_out": (rows.matrix[index[found.caption]] @ whole - rest @ whole).tolist(),
        }
    return result


# ------------------------------------------------------------------ the report


def semantic_words(detail: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The words that must be right or wrong: semantic words within the tower's context."""
    return [word for word in detail["words"] if word["semantic"] and word["score"] is not None]


def is_planted(words: Sequence[Mapping[str, Any]], found: Planted) -> list[bool]:
    """Of each word, whether it is the planted one or a part of it."""
    return [word["start"] < found.end and word["end"] > found.start for word in words]


def is_lowest(scores: Sequence[float], planted: Sequence[bool]) -> bool:
    """Whether a planted word scores below every other one; a tie counts against it.

    >>> is_lowest([0.2, 0.1, 0.7], [False, True, False]), is_lowest([0.1, 0.1], [False, True])
    (True, False)
    """
    own = [score for score, here in zip(scores, planted, strict=True) if here]
    others = [score for score, here in zip(scores, planted, strict=True) if not here]
    return bool(own) and (not others or min(own) < min(others))


def falls(cases: Cases, scored: Mapping[Row, Scored]) -> tuple[list[bool], list[bool]]:
    """Whether recall falls with each dropped clause, and precision with each swapped (blatant) noun."""
    language = cases.language
    recall = [
        scored[Row(photo, shorter, language)].recall < scored[Row(photo, caption, language)].recall
        for photo, caption, shorter in cases.dropped
    ]
    precision = [
        scored[Row(photo, found.caption, language)].precision
        < scored[Row(photo, found.original, language)].precision
        for photo, found in cases.planted
        if found.kind == "blatant"
    ]
    return recall, precision


def report(
    cases: Cases,
    scored: Mapping[Row, Scored],
    beta: float,
    baselines: Mapping[tuple[str, Planted], Mapping[str, Sequence[float]]],
) -> dict[str, Any]:
    """Shares of one language, JSON-ready; None where there is nothing to count.

    Args:
        cases: Cases of the language.
        scored: Result of each of `cases.rows()`.
        beta: Semantic words with a score of at most this are flagged.
        baselines: As `baseline_scores` gives them.

    Returns:
        - "kinds": of each kind "n", "left_out" (photos without a caption for it), "lowest" (share of captions
          in which the planted word has the lowest score of all semantic ones), "flagged", "chance" (mean of
          1 / number of semantic words), "not_semantic" (captions in which the tagger takes the planted word
          for none, or the tower does not read it: they count as not found), "baselines" (as "lowest").
        - "false_alarms": "captions", "words", "share" of the untouched captions' semantic words that are
          flagged.
        - "dropped_clause": "n", "lower_recall"; "swapped_noun": "n", "lower_precision" (blatant nouns).
    """
    kinds = {}
    for kind in KINDS:
        own = [(photo, found) for photo, found in cases.planted if found.kind == kind]
        words = [
            semantic_words(scored[Row(photo, found.caption, cases.language)].detail) for photo, found in own
        ]
        planted = [is_planted(some, found) for some, (_, found) in zip(words, own, strict=True)]
        scores = [[word["score"] for word in some] for some in words]
        flagged = [
            any(here and score <= beta for score, here in zip(*pair, strict=True))
            for pair in zip(scores, planted, strict=True)
        ]
        kinds[kind] = {
            "n": len(own),
            "left_out": cases.n_photos - len(own),
            "not_semantic": sum(not any(here) for here in planted),
            "lowest": mean(list(map(is_lowest, scores, planted))),
            "flagged": mean(flagged),
            "chance": mean([1 / len(some) if some else 0.0 for some in words]),
            "baselines": {
                name: mean(list(map(is_lowest, [baselines[key][name] for key in own], planted)))
                for name in BASELINES
            },
        }
    untouched = cases.untouched()
    alarms = [word["score"] <= beta for row in untouched for word in semantic_words(scored[row].detail)]
    recall, precision = falls(cases, scored)
    return {
        "photos": cases.n_photos,
        "kinds": kinds,
        "false_alarms": {"captions": len(untouched), "words": len(alarms), "share": mean(alarms)},
        "dropped_clause": {"n": len(recall), "lower_recall": mean(recall)},
        "swapped_noun": {"n": len(precision), "lower_precision": mean(precision)},
    }


def measure(
    embedder: Embedder,
    data: Path,
    weights: Sequence[str],
    languages: Sequence[str],
    seed: int = 0,
    shared: Path | None = None,
) -> dict[str, Any]:
    """The reports of all weights and languages.

    Args:
        embedder: Embedder of the backbone.
        data: Folder with "flickr8k" and, for Spanish, "xflickrco".
        weights: As `capscore.infometic.network.load_aligner` takes them.
        languages: Languages, some of `LANGUAGES`; Spanish is left out without `shared`.
        seed: Seed for the planted errors.
        shared: Folder of Flickr8k's photos, for Spanish.

    Returns:
        JSON-ready: "backbone", "seed", "shared_photos" (how many Spanish has), and under "weights", by name,
        "scorer" (their name in signatures), "beta", "languages" (of each what `report` says).
    """
    from capscore.metrics.infometic import InfoMetIC

    photos = read_photos(data / "flickr8k") if set(languages) - {"es"} else []
    spanish = read_shared_photos(data / "xflickrco", shared) if shared and "es" in languages else []
    cases = {
        language: make_cases(spanish if language == "es" else photos, language, seed)
        for language in languages
        if language != "es" or shared
    }
    rows = [row for own in cases.values() for row in own.rows()]
    result: dict[str, Any] = {
        "backbone": embedder.backbone.name,
        "seed": seed,
        "shared_photos": len(spanish),
        "weights": {},
    }
    baselines: dict[str, Any] = {}
    for name in weights:
        scorer = InfoMetIC(embedder, weights=name)
        scored = score_rows(scorer, rows)
        if not baselines:  # nothing in them depends on the weights
            embedded = embed_photos(scorer, scored)
            baselines = {
                language: baseline_scores(embedder, scorer.prefix, own, scored, embedded)
                for language, own in cases.items()
            }
        result["weights"][name] = {
            "scorer": scorer.weights,
            "beta": scorer.beta,
            "languages": {
                language: report(own, scored, scorer.beta, baselines[language])
                for language, own in cases.items()
            },
        }
    return result


def markdown(result: Mapping[str, Any]) -> str:
    """Two tables per weights, with shares in percent."""
    parts = []
    for name, found in result["weights"].items():
        parts.append(f"{name} on {result['backbone']}, β = {found['beta']:g}, seed {result['seed']}")
        kinds, wholes = [], []
        for language, own in found["languages"].items():
            kinds += [
                [
                    language,
                    kind.replace("_", " "),
                    str(shares["n"]),
                    *(percent(shares[key]) for key in ("chance", "lowest", "flagged")),
                    *(percent(shares["baselines"][key]) for key in BASELINES),
                ]
                for kind, shares in own["kinds"].items()
            ]
            alarms, clause, noun = own["false_alarms"], own["dropped_clause"], own["swapped_noun"]
            wholes.append(
                [
                    language,
                    f"{alarms['words']:,}",
                    percent(alarms["share"]),
                    str(clause["n"]),
                    percent(clause["lower_recall"]),
                    str(noun["n"]),
                    percent(noun["lower_precision"]),
                ]
            )
        heads = ["", "planted", "n", "chance", "lowest", "flagged", "whole", "regions", "without"]
        parts.append(table(heads, kinds, 2))
        heads = ["", "words", "false alarms", "clauses", "recall falls", "nouns", "precision falls"]
        parts.append(table(heads, wholes, 1))
    parts.append(
        "Shares in percent. lowest: the planted word scores lowest of the semantic words (chance: one of "
        "them by lot). flagged: its score is at most β. whole, regions, without: lowest by the word's cosine "
        "with the image, with its regions, by what the caption's cosine loses without it; no training, no β."
    )
    if result["shared_photos"]:
        parts.append(
            f"es: on the {result['shared_photos']} photos that XFlickrCO's test split and Flickr8k share."
        )
    return "\n\n".join(parts)


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    import capscore
    from capscore.embedding.cache import EmbeddingCache
    from capscore.embedding.embedder import Embedder

    parser = study_parser("planted_errors", __doc__)
    parser.add_argument(
        "--weights", action="append", required=True, help="'info_clip', a folder or a Hub id; may come again"
    )
    parser.add_argument("--languages", default=",".join(LANGUAGES), help="default: %(default)s")
    parser.add_argument("--backbone", default=default_backbone("infometic"), help="default: %(default)s")
    parser.add_argument("--photos", type=Path, help="folder of Flickr8k's photos, for Spanish")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    options = parser.parse_args(argv)
    languages = options.languages.split(",")
    unknown = [language for language in languages if language not in LANGUAGES]
    if unknown:
        parser.error(f"--languages {options.languages}: no lexicon for {unknown[0]!r}, only for {LANGUAGES}")
    if options.photos and not options.photos.is_dir():
        parser.error(f"--photos {options.photos}: no such folder")
    embedder = Embedder(capscore.load_backbone(options.backbone), cache=EmbeddingCache(None))
    result = measure(embedder, options.data, options.weights, languages, options.seed, options.photos)
    print(markdown(result))
    write_json(options.output, result)


if __name__ == "__main__":
    main()
