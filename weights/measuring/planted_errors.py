"""Measures how often a wrong word planted in a right caption is found, and how often right words are flagged.

    python -m weights.measuring.planted_errors --data DATA --weights info_clip --weights FOLDER \
        [--photos FOLDER]

In: a folder with `flickr8k` (`multilingual_captions.json` and the folder `images`) and `xflickrco`
(`es/test.jsonl`, `en/test.jsonl`, …), and weights of InfoMetIC. Out: for each language and kind of error, how
often the planted word has the lowest score of its caption and how often it is flagged, beside chance and
three baselines without training; false alarms; how often recall and precision fall when they should.

Spanish has no captions of those photos. With a folder of Flickr8k's photos it is measured on those photos of
XFlickrCO's test split that Flickr8k has too. Without one, an English caption of the photo stands in for its
image: its embedding for the whole image, those of its noun phrases for the regions. The output says so.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from capscore.metrics.loading import default_backbone

from .planted_words import LANGUAGES
from .planting import KINDS, Planted, drop_clause, plant, shuffled

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from capscore.embedding.embedder import Embedder
    from capscore.infometic.alignment import Alignment, TextStates
    from capscore.infometic.words import CaptionWord
    from capscore.metrics.infometic import InfoMetIC

BASELINES = ("whole", "regions", "left_out")
STAND_INS = 150
# pairs that go through the network at once
_PAIRS = 64


# ------------------------------------------------------------------ photos


@dataclass(frozen=True, eq=False)
class Photo:
    """A photo and its captions.

    Attributes:
        name: Name of the photo.
        captions: Language → captions.
        image: Image file; None where a text stands in.
        stand_in: English caption that stands in for the image.
    """

    name: str
    captions: Mapping[str, Sequence[str]]
    image: Path | None = None
    stand_in: str = ""


def read_photos(folder: Path) -> list[Photo]:
    """The available photos of Flickr8k with their captions, without machine translations."""
    listed = json.loads((folder / "multilingual_captions.json").read_text(encoding="utf-8"))
    return [
        Photo(
            name,
            {language: captions for language, captions in languages.items() if isinstance(captions, list)},
            folder / "images" / name,
        )
        for name, languages in sorted(listed.items())
        if (folder / "images" / name).is_file()
    ]


def _xflickrco(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Language → id of the photo → captions, of XFlickrCO's test split."""
    by_language = {}
    for language in LANGUAGES:
        file = folder / language / "test.jsonl"
        if file.is_file():
            rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
            by_language[language] = {row["id"]: row["sentences"] for row in rows}
    return by_language


def read_shared_photos(folder: Path, photos: Path) -> list[Photo]:
    """The photos of XFlickrCO's test split that Flickr8k has too, matched by Flickr's number in their names.

    Args:
        folder: Folder of XFlickrCO.
        photos: Folder of Flickr8k's photos.
    """
    by_language = _xflickrco(folder)
    files = {file.name.partition("_")[0]: file for file in sorted(photos.glob("*_*.jpg"))}
    return [
        Photo(
            files[name].name,
            {language: rows.get(name, ()) for language, rows in by_language.items()},
            files[name],
        )
        for name in by_language["es"]
        if name in files
    ]


def read_stand_ins(folder: Path, most: int) -> list[Photo]:
    """The first photos of XFlickrCO's test split, an English caption standing in for each image.

    Nothing that this caption mentions is planted, since it is one of the English captions.
    """
    by_language = _xflickrco(folder)
    names = [name for name in by_language["es"] if by_language["en"].get(name)][:most]
    return [
        Photo(
            name,
            {language: rows.get(name, ()) for language, rows in by_language.items()},
            stand_in=by_language["en"][name][0],
        )
        for name in names
    ]


# ------------------------------------------------------------------ cases and rows


class Row(NamedTuple):
    """A caption to score with a photo, given by name."""

    photo: str
    caption: str
    language: str


@dataclass(frozen=True, eq=False)
class Cases:
    """What is measured of one language.

    Attributes:
        language: Language of the captions.
        n_photos: photos with captions in it.
        stands_in: whether texts stand in for the images.
        planted: (name of the photo, what was planted), of all kinds.
        dropped: (name of the photo, caption, the same without its last clauses).
    """

    language: str
    n_photos: int
    stands_in: bool
    planted: list[tuple[str, Planted]]
    dropped: list[tuple[str, str, str]]

    def rows(self) -> list[Row]:
        """Every row that has to be scored, each once."""
        texts = [
            (photo, text) for photo, found in self.planted for text in (found.original, found.caption)
        ] + [(photo, text) for photo, *both in self.dropped for text in both]
        return list(dict.fromkeys(Row(photo, text, self.language) for photo, text in texts))

    def untouched(self) -> list[Row]:
        """The rows in which nothing is wrong, each once."""
        texts = [(photo, found.original) for photo, found in self.planted]
        texts += [(photo, caption) for photo, caption, _ in self.dropped]
        return list(dict.fromkeys(Row(photo, text, self.language) for photo, text in texts))


def make_cases(photos: Sequence[Photo], language: str, seed: int = 0) -> Cases:
    """One planted error of each kind, and one dropped clause, for each photo with a suitable caption.

    A photo's errors depend on its name, its captions and the seed, and on no other photo.
    """
    planted, dropped, n_photos = [], [], 0
    for photo in photos:
        captions = photo.captions.get(language, ())
        n_photos += bool(captions)
        chances = {kind: random.Random(f"{seed} {photo.name} {language}") for kind in (*KINDS, "clause")}
        for kind in KINDS:
            found = plant(photo.captions, language, kind, chances[kind])
            if found:
                planted.append((photo.name, found))
        for caption in shuffled(captions, chances["clause"]):
            shorter = drop_clause(caption, language)
            if shorter:
                dropped.append((photo.name, caption, shorter))
                break
    return Cases(language, n_photos, any(photo.stand_in for photo in photos), planted, dropped)


# ------------------------------------------------------------------ scoring


class Scored(NamedTuple):
    """A scorer's result for a row: words as in `Scores.details`, recall and precision."""

    words: list[dict[str, Any]]
    recall: float
    precision: float


@dataclass(frozen=True, eq=False)
class Seen:
    """Embeddings of a photo, or of texts that stand in for it: the whole (d,), regions (m, d)."""

    whole: np.ndarray
    regions: np.ndarray


def score_photos(
    scorer: InfoMetIC, rows: Sequence[Row], photos: Mapping[str, Photo]
) -> tuple[dict[Row, Scored], dict[str, Seen]]:
    """Score every row with its image in one call; also the embeddings of each photo."""
    from capscore.images.load import load_image

    images = [str(photos[row.photo].image) for row in rows]
    scores = scorer.score([row.caption for row in rows], images, language=[row.language for row in rows])
    recall, precision = scores.components["recall"], scores.components["precision"]
    scored = {
        row: Scored(detail["words"], float(recall[place]), float(precision[place]))
        for place, (row, detail) in enumerate(zip(rows, scores.details, strict=True))
    }
    boxes = {
        row.photo: [region["box"] for region in detail["regions"]]
        for row, detail in zip(rows, scores.details, strict=True)
    }
    seen = {}
    for name, own in boxes.items():
        image = load_image(str(photos[name].image))
        (shown,) = scorer.embedder.regions([image], [np.array([(0, 0, *image.size), *own])])
        seen[name] = Seen(shown[0], shown[1:])
    return scored, seen


def read_seen(scorer: InfoMetIC, photos: Sequence[Photo]) -> dict[str, Seen]:
    """Stand-ins for images: embeddings of the English caption and of its noun phrases."""
    from capscore.infometic.words import caption_words

    texts = [photo.stand_in for photo in photos]
    phrases = [
        noun_phrases(text, words) for text, words in zip(texts, caption_words(texts, "en"), strict=True)
    ]
    every = [*texts, *(phrase for some in phrases for phrase in some)]
    rows = scorer.embedder.texts(every, prefix=scorer.prefix)
    vectors = rows.matrix[rows.index]
    ends = np.cumsum([len(some) for some in phrases])
    regions = np.split(vectors[len(texts) :], ends[:-1])
    return {
        photo.name: Seen(vectors[place], own)
        for place, (photo, own) in enumerate(zip(photos, regions, strict=True))
    }


def noun_phrases(text: str, words: Sequence[CaptionWord]) -> list[str]:
    """A caption's nouns with the adjectives, numbers and nouns right before them.

    >>> from capscore.infometic.words import caption_words
    >>> text = "Two small dogs run on the sandy beach"
    >>> noun_phrases(text, caption_words([text], "en")[0])
    ['Two small dogs', 'sandy beach']
    """
    phrases, run = [], []
    for word in [*words, None]:
        if word is not None and word.word_class in ("noun", "adjective", "number"):
            run.append(word)
            continue
        while run and run[-1].word_class != "noun":
            run.pop()
        if run:
            phrases.append(text[run[0].start : run[-1].end])
        run = []
    return list(dict.fromkeys(phrases))


def score_stand_ins(scorer: InfoMetIC, rows: Sequence[Row], seen: Mapping[str, Seen]) -> dict[Row, Scored]:
    """Score every row with the stand-in for its image. Regions have no place: their boxes are 0."""
    from capscore.infometic.words import MAX_PIECES, caption_words, split_pieces, word_scores

    captions = [row.caption for row in rows]
    config = getattr(scorer.aligner, "config", None)
    pieces = split_pieces(scorer.backbone, captions, config.max_tokens if config else MAX_PIECES)
    words_of = [caption_words([row.caption], row.language)[0] for row in rows]
    texts = scorer.embedder.texts(captions, prefix=scorer.prefix)
    read = texts.matrix[texts.index]
    contexts = scorer.contexts(captions, words_of, pieces) if scorer.aligner.reads_words else None
    scored = {}
    for start in range(0, len(rows), _PAIRS):
        part = slice(start, start + _PAIRS)
        texts = scorer.text_states(read[part], pieces[part], contexts and contexts[part])
        found = _aligned(scorer, [seen[row.photo] for row in rows[part]], texts)
        told = zip(rows[part], pieces[part], words_of[part], strict=True)
        for place, (row, piece, words) in enumerate(told):
            alone = found.token_scores[place, : len(piece)].double().cpu().numpy()
            scored[row] = Scored(
                [
                    {**word._asdict(), "score": score}
                    for word, score in zip(words, word_scores(piece, alone, words), strict=True)
                ],
                float(found.recall[place]),
                float(found.precision[place]),
            )
    return scored


def _aligned(scorer: InfoMetIC, seen: Sequence[Seen], texts: TextStates) -> Alignment:
    """The aligner's result for n texts, each with the embeddings of its photo."""
    import torch

    regions, there = _padded([own.regions for own in seen])
    boxes = np.zeros((*there.shape, 4), np.float32)

    def on_device(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(scorer.backbone.device)

    whole = np.stack([own.whole for own in seen])
    with torch.inference_mode():
        images = scorer.aligner.encode_images(*map(on_device, (whole, regions, boxes, there)))
        index = list(range(len(seen)))
        return scorer.aligner.pairs(images, texts, index, index)


def _padded(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Matrices of different heights → (n, m, d), padded with zeros, and bool (n, m) for real rows."""
    there = np.arange(max(map(len, parts)))[None, :] < np.array([len(part) for part in parts])[:, None]
    batch = np.zeros((*there.shape, parts[0].shape[1]), np.float32)
    batch[there] = np.concatenate(parts)
    return batch, there


def baseline_scores(
    embedder: Embedder, prefix: str, cases: Cases, scored: Mapping[Row, Scored], seen: Mapping[str, Seen]
) -> dict[tuple[str, Planted], dict[str, list[float]]]:
    """Scores of each planted caption's semantic words without training; the lowest is likeliest wrong.

    "whole": the cosine of the word alone with the whole image; "regions": the mean of those with its regions
    (where there are none, with the whole); "left_out": how much the caption's cosine with the image loses
    when the word is left out.
    """
    from capscore.infometic.words import without_word

    asked: dict[str, None] = {}
    plans = {}
    for photo, found in cases.planted:
        words = semantic_words(scored[Row(photo, found.caption, cases.language)])
        alone = [word["text"] for word in words]
        without = [without_word(found.caption, word["start"], word["end"]) for word in words]
        asked.update(dict.fromkeys([found.caption, *alone, *without]))
        plans[photo, found] = (alone, without)
    rows = embedder.texts(list(asked), prefix=prefix)
    place = {text: int(row) for text, row in zip(asked, rows.index, strict=True)}
    result = {}
    for (photo, found), (alone, without) in plans.items():
        whole, regions = seen[photo].whole, seen[photo].regions
        matrix = rows.matrix[[place[text] for text in alone]] if alone else np.zeros((0, len(whole)))
        rest = rows.matrix[[place[text] for text in without]] if without else matrix
        mean = regions.mean(axis=0) if len(regions) else whole
        result[photo, found] = {
            "whole": (matrix @ whole).tolist(),
            "regions": (matrix @ mean).tolist(),
            "left_out": (rows.matrix[place[found.caption]] @ whole - rest @ whole).tolist(),
        }
    return result


# ------------------------------------------------------------------ the report


def semantic_words(scored: Scored) -> list[dict[str, Any]]:
    """The words that must be right or wrong: semantic words within the tower's context."""
    return [word for word in scored.words if word["semantic"] and word["score"] is not None]


def is_lowest(scores: Sequence[float], planted: Sequence[bool]) -> bool:
    """Whether a planted word scores below every other one; a tie counts against it.

    >>> is_lowest([0.2, 0.1, 0.7], [False, True, False]), is_lowest([0.1, 0.1], [False, True])
    (True, False)
    """
    own = [score for score, here in zip(scores, planted, strict=True) if here]
    others = [score for score, here in zip(scores, planted, strict=True) if not here]
    return bool(own) and (not others or min(own) < min(others))


def report(
    cases: Cases,
    scored: Mapping[Row, Scored],
    beta: float,
    baselines: Mapping[tuple[str, Planted], Mapping[str, Sequence[float]]],
) -> dict[str, Any]:
    """Shares of one language, JSON-ready; None where there is nothing to count.

    Args:
        cases: Cases of the language.
        scored: each of `cases.rows()`.
        beta: semantic words with a score of at most this are flagged.
        baselines: as `baseline_scores` gives them.

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
        lowest, flagged, chance, missing = [], [], [], 0
        known: dict[str, list[bool]] = {name: [] for name in BASELINES}
        for photo, found in own:
            words = semantic_words(scored[Row(photo, found.caption, cases.language)])
            planted = [word["start"] < found.end and word["end"] > found.start for word in words]
            missing += not any(planted)
            lowest.append(is_lowest([word["score"] for word in words], planted))
            flagged.append(
                any(here and word["score"] <= beta for word, here in zip(words, planted, strict=True))
            )
            chance.append(1 / len(words) if words else 0.0)
            for name in BASELINES:
                known[name].append(is_lowest(baselines[photo, found][name], planted))
        kinds[kind] = {
            "n": len(own),
            "left_out": cases.n_photos - len(own),
            "not_semantic": missing,
            "lowest": _share(lowest),
            "flagged": _share(flagged),
            "chance": _share(chance),
            "baselines": {name: _share(found) for name, found in known.items()},
        }
    alarms = [word["score"] <= beta for row in cases.untouched() for word in semantic_words(scored[row])]
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
    return {
        "photos": cases.n_photos,
        "stands_in": cases.stands_in,
        "kinds": kinds,
        "false_alarms": {"captions": len(cases.untouched()), "words": len(alarms), "share": _share(alarms)},
        "dropped_clause": {"n": len(recall), "lower_recall": _share(recall)},
        "swapped_noun": {"n": len(precision), "lower_precision": _share(precision)},
    }


def _share(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def measure(
    embedder: Embedder,
    data: Path,
    weights: Sequence[str],
    languages: Sequence[str],
    stand_ins: int = STAND_INS,
    seed: int = 0,
    shared: Path | None = None,
) -> dict[str, Any]:
    """The reports of all weights and languages; Spanish on photos of its own, or on texts that stand in.

    Args:
        embedder: holds the backbone.
        data: folder with "flickr8k" and, for Spanish, "xflickrco".
        weights: as `capscore.infometic.weights.load_aligner` takes them.
        languages: Languages, some of `LANGUAGES`.
        stand_ins: Largest number of Spanish captions where texts stand in for photos.
        seed: Seed for the planted errors.
        shared: folder of Flickr8k's photos, for Spanish.

    Returns:
        JSON-ready: "backbone", "seed", "shared_photos" (how many Spanish has), and under "weights", by name,
        "scorer" (their name in signatures), "beta", "languages" (of each what `report` says).
    """
    from capscore.metrics.infometic import InfoMetIC

    photos = read_photos(data / "flickr8k") if set(languages) - {"es"} else []
    told = []
    if "es" in languages:
        folder = data / "xflickrco"
        told = read_shared_photos(folder, shared) if shared else read_stand_ins(folder, stand_ins)
    named = {photo.name: photo for photo in (*told, *photos)}
    cases = {
        language: make_cases(told if language == "es" else photos, language, seed) for language in languages
    }
    rows = {
        stands_in: [row for own in cases.values() if own.stands_in == stands_in for row in own.rows()]
        for stands_in in (False, True)
    }
    result: dict[str, Any] = {
        "backbone": embedder.backbone.name,
        "seed": seed,
        "shared_photos": len(told) if shared else 0,
        "weights": {},
    }
    baselines: dict[str, Any] = {}
    for name in weights:
        scorer = InfoMetIC(embedder, weights=name)
        scored: dict[Row, Scored] = {}
        seen: dict[str, Seen] = {}
        if rows[False]:
            scored, seen = score_photos(scorer, rows[False], named)
        if rows[True]:
            seen.update(read_seen(scorer, told))
            scored.update(score_stand_ins(scorer, rows[True], seen))
        if not baselines:  # nothing in them depends on the weights
            baselines = {
                language: baseline_scores(embedder, scorer.prefix, own, scored, seen)
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


# ------------------------------------------------------------------ printing


def print_result(result: Mapping[str, Any], console: Console | None = None) -> None:
    """Print two tables per weights, 80 columns wide, with shares in percent."""
    from rich.console import Console

    console = console or Console(width=80, highlight=False)
    for name, one in result["weights"].items():
        console.print(
            f"[bold]{name}[/bold] on {result['backbone']}, β = {one['beta']:g}, seed {result['seed']}"
        )
        console.print(_kinds_table(one["languages"]))
        console.print(_whole_table(one["languages"]))
    languages = next(iter(result["weights"].values()))["languages"]
    console.print(
        "Shares in percent. lowest: the planted word scores lowest of the semantic words (chance: one of "
        "them by lot). flagged: its score is at most β. whole, regions, without: lowest by the word's cosine "
        "with the image, with its regions, by what the caption's cosine loses without it; no training, no β."
    )
    if result["shared_photos"]:
        console.print(
            f"es: on the {result['shared_photos']} photos that XFlickrCO's test split and Flickr8k share."
        )
    told = [f"{language}*" for language, own in languages.items() if own["stands_in"]]
    if told:
        console.print(
            f"{', '.join(told)}: a stand-in, not photos. The embedding of an English caption stands for the "
            "image and those of its noun phrases for the regions."
        )


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f}"


def _table(columns: Sequence[str], left: int) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place < left else "right", no_wrap=True)
    return table


def _kinds_table(languages: Mapping[str, Any]) -> Table:
    table = _table(("", "planted", "n", "chance", "lowest", "flagged", "whole", "regions", "without"), left=2)
    for language, own in languages.items():
        for place, (kind, shares) in enumerate(own["kinds"].items()):
            table.add_row(
                (language + "*" * own["stands_in"]) if place == 0 else "",
                kind.replace("_", " "),
                str(shares["n"]),
                *(_percent(shares[name]) for name in ("chance", "lowest", "flagged")),
                *(_percent(shares["baselines"][name]) for name in BASELINES),
            )
    return table


def _whole_table(languages: Mapping[str, Any]) -> Table:
    table = _table(
        ("", "words", "false alarms", "clauses", "recall falls", "nouns", "precision falls"), left=1
    )
    for language, own in languages.items():
        alarms, clause, noun = own["false_alarms"], own["dropped_clause"], own["swapped_noun"]
        table.add_row(
            language + "*" * own["stands_in"],
            f"{alarms['words']:,}",
            _percent(alarms["share"]),
            str(clause["n"]),
            _percent(clause["lower_recall"]),
            str(noun["n"]),
            _percent(noun["lower_precision"]),
        )
    return table


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    import capscore
    from capscore.embedding.cache import EmbeddingCache
    from capscore.embedding.embedder import Embedder
    from capscore.files.whole_file import write_text

    parser = argparse.ArgumentParser(
        prog="python -m weights.measuring.planted_errors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with flickr8k and xflickrco")
    parser.add_argument(
        "--weights", action="append", required=True, help="'info_clip', a folder or a Hub id; may come again"
    )
    parser.add_argument("--languages", default=",".join(LANGUAGES), help="default: %(default)s")
    parser.add_argument("--backbone", default=default_backbone("infometic"), help="default: %(default)s")
    parser.add_argument(
        "--stand-ins", type=int, default=STAND_INS, help="photos for Spanish; default: %(default)s"
    )
    parser.add_argument(
        "--photos", type=Path, help="folder of Flickr8k's photos: Spanish is measured on those of XFlickrCO's"
    )
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--output", type=Path, help="also write the result to this file, as JSON")
    options = parser.parse_args(argv)
    languages = options.languages.split(",")
    unknown = [language for language in languages if language not in LANGUAGES]
    if unknown:
        parser.error(f"--languages {options.languages}: no lexicon for {unknown[0]!r}, only for {LANGUAGES}")
    if options.photos and not options.photos.is_dir():
        parser.error(f"--photos {options.photos}: no such folder")
    embedder = Embedder(capscore.load_backbone(options.backbone), cache=EmbeddingCache(None))
    result = measure(
        embedder, options.data, options.weights, languages, options.stand_ins, options.seed, options.photos
    )
    print_result(result)
    if options.output:
        write_text(options.output, json.dumps(result, ensure_ascii=False, indent=1) + "\n", "planted errors")


if __name__ == "__main__":
    main()
