"""InfoMetIC (Hu et al. 2023): captions and images → three scores, and the words and regions behind them."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Sized
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..backbones.base import as_read
from ..embedding.embedder import Embedder
from ..errors import (
    CapscoreError,
    InputError,
    MissingExtraError,
    RegionWarning,
    Setting,
    TruncationWarning,
    warn,
)
from ..files.console import progress_bar
from ..images.load import check_images
from ..infometic.regions import (
    ImageRegions,
    RegionFinder,
    RegionMaker,
    RegionReader,
    check_finder,
    load_finder,
    unit_rows_of,
)
from ..infometic.words import CaptionReader, ReadCaption, encode_pieces, nearest_regions, word_scores
from ..text.word_classes import length_problem, tagger_name
from .rows import ExtraColumn, InputRows, PreparedRows, check_captions
from .scores import Detail, Scores, WrongWord
from .with_backbone import BackboneScorer

if TYPE_CHECKING:
    from torch import Tensor

    from ..infometic.mark_calibration import MarkCalibration
    from ..infometic.marks import RowMarks
    from ..infometic.network import States

# pairs that go through the network at once, and images that are encoded at once
_PAIRS, _IMAGES = 64, 64
# pairs whose texts, states and details are in memory at once
_AT_ONCE = 1024
# the same for all pairs of images and captions, and the images or captions that are then encoded at once
_PAIRS_ON_CPU, _PAIRS_ON_GPU, _BLOCK = 256, 4096, 256
# names of missed regions in a table of rows
_MAX_MISSED = 3
# of a word and of a region, in `details`
_WORD = ("score", "p_correct", "correct", "region")
_REGION = ("box", "score", "p_mentioned", "mentioned", "name", "confidence", "label")
# option → type, values, and what is said of others
_RANGES: dict[str, tuple[type, Callable[[Any], bool], str]] = {
    "beta": (Real, lambda value: 0 <= value < 1, "a number from 0 to below 1"),
    "false_alarms": (Real, lambda value: 0 < value <= 0.5, "a rate above 0, at most 0.5"),
    "n_regions": (Integral, lambda value: value >= 1, "a whole number of at least 1"),
}


class InfoMetIC(BackboneScorer):
    """Scores rows, their words and the regions of their images (Hu et al. 2023, section 3).

    The score of a row is recall + precision. `components` has both, "infometic_plus" (the score plus the
    scaled cosine of image and caption, section 4.1) and "clip_cosine". `details` has for each row

    - "words": text, start and end in the caption, score (the sum over the word's pieces; None for a word that
      was cut off), whether the word is semantic, its class, "p_correct" (the probability that it is right),
      "correct" (True, False for likely wrong, None for cannot tell), and the number of the region most like
      it;
    - "regions": box in pixels of the upright image (left, top, right, bottom), score, "p_mentioned",
      "mentioned", a name in the caption's language ("" for none), and the finder's confidence and label;
    - "fits" and "p_fits": whether the caption as a whole fits the image. If it does not, its words are not
      judged one by one;
    - "null": score of the null token, which is high if the caption mentions no region;
    - "image_size" (width, height), "n_words_cut", and "boxes_given": whether the caller passed the boxes.

    The word scores of a caption sum to at most 1, and so do those of its regions and the null token; they
    show which word is the worst, not whether it is wrong. "p_correct", "p_mentioned" and "p_fits" are
    absolute; they come from a mark calibration (not in the paper), which some backbones have. With
    marks="published" they are None, and a word is correct and a region mentioned if its score is above beta.

    Args:
        prefix: Text before each candidate, but not before its pieces; None takes what the weights state,
            otherwise the backbone's own.
        weights: Folder or Hub id of trained weights, or "info_clip" for the baseline; None takes those
            shipped for the backbone, else the baseline.
        marks: What decides "correct" and "mentioned": "learned", "published", or a mark calibration or its
            folder; None for "learned" if the backbone has one.
        false_alarms: Rate in (0, 0.5] of right nouns that may be called wrong; other words, and captions as
            a whole, have a lower one. Only for learned marks.
        regions: Finder of regions: "windows" of several sizes, or "things" that the mark calibration finds;
            or a `RegionFinder`. None for "things" where the backbone has a mark calibration, otherwise
            "windows".
        n_regions: Number of regions to score per image: the regions found are clustered, and the most
            confident one of each cluster is taken. Boxes that are passed are all scored.
        beta: Threshold in [0, 1) of words and regions, with marks="published".
        seed: As in `RegionMaker`.

    Raises:
        CapscoreError: weights for another backbone, or a setting out of range.
        BackboneUnavailable: weights that are not available here.
    """

    metric = "infometic"
    title = "InfoMetIC"
    variant_names = ("infoclip",)
    citation = ("hu-etal-2023-infometic",)
    default_backbone = "embedded"
    refused_options = ("long",)  # its words and regions are those of the whole caption
    component_names = ("recall", "precision", "infometic_plus", "clip_cosine")
    detail_names = ("fits", "p_fits", "words", "regions", "null", "image_size", "n_words_cut", "boxes_given")
    splits_texts: ClassVar[bool] = True
    retrieves_by_cosine = False
    detail_columns: ClassVar[Mapping[str, type]] = {"p_fits": float, "likely_wrong": str, "missed": str}
    extra_columns = (
        ExtraColumn(
            "boxes",
            "lists of boxes",
            "list of lists",
            "regions of each row's image, each (left, top, right, bottom) in pixels of the upright image; "
            "None for a row lets the finder propose them",
        ),
    )

    def __init__(
        self,
        embedder: Embedder,
        *,
        prefix: str | None = None,
        weights: str | os.PathLike[str] | None = None,
        marks: str | os.PathLike[str] | MarkCalibration | None = None,
        false_alarms: float = 0.05,
        regions: str | RegionFinder | None = None,
        n_regions: int = 20,
        beta: float = 0.1,
        seed: int = 0,
        **common: Any,
    ):
        from ..infometic.mark_calibration import load_marks
        from ..infometic.marks import RegionNames
        from ..infometic.network import cosine_scale, load_aligner

        self.check({"beta": beta, "false_alarms": false_alarms, "n_regions": n_regions, "regions": regions})
        self.mark_calibration, self.marks = load_marks(marks, embedder.backbone)
        self.aligner, self.weights = load_aligner(weights, embedder.backbone)
        config = self.aligner.config
        if prefix is None:
            prefix = config.prefix
        backbone = as_read(embedder.backbone, unit=config.unit_inputs, caption_tokens=config.caption_tokens)
        super().__init__(embedder.of(backbone), prefix=prefix, **common)
        self.reader = CaptionReader(self.embedder, self.prefix, self.aligner)
        regions = regions or ("things" if self.mark_calibration else "windows")
        self.finder = load_finder(regions, embedder, self.mark_calibration)
        self.n_regions, self.beta, self.seed = n_regions, float(beta), seed
        self.false_alarms, self.plus_scale = float(false_alarms), cosine_scale(embedder.backbone)
        self.region_maker = RegionMaker(self.embedder, self.finder, n_regions, seed, self.mark_calibration)
        if self.mark_calibration is not None:
            self._namer = RegionNames(self.mark_calibration, self._unit_texts)

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        for name, (kind, fits, expected) in _RANGES.items():
            if name not in options:
                continue
            value = options[name]
            if not isinstance(value, kind) or isinstance(value, bool) or not fits(value):
                raise InputError(Setting(name, value), f": expected {expected}")
        if (regions := options.get("regions")) is not None:
            check_finder(regions)

    @classmethod
    def cells(cls, detail: Detail) -> dict[str, Any]:
        """For a table of rows: "p_fits"; the words that are likely wrong; what regions show and no word says.

        Of missed regions, the three most confident names, each once, that no mentioned region has.
        """
        wrong = cls.wrong_words(detail)
        regions = sorted(detail["regions"], key=lambda region: -float(region["confidence"]))
        said = {region["name"] for region in regions if region["mentioned"]} | {""}
        missed = dict.fromkeys(region["name"] for region in regions if region["name"] not in said)
        return {
            "fits": detail["fits"],
            "p_fits": detail["p_fits"],
            "likely_wrong": ", ".join(word for _, _, word in wrong),
            "missed": ", ".join([*missed][:_MAX_MISSED]),
            "wrong": wrong,
            "boxes_given": detail["boxes_given"],
        }

    @classmethod
    def fits(cls, detail: Detail) -> bool | None:
        fits: bool | None = detail["fits"]
        return fits

    @classmethod
    def wrong_words(cls, detail: Detail) -> list[WrongWord]:
        """Words that are likely wrong.

        Of a caption that does not fit as a whole, those with p below 0.5, or else the least likely one.
        """
        if "wrong" in detail:
            return [*detail["wrong"]]
        judged = [word for word in detail["words"] if word["semantic"] and word["score"] is not None]
        wrong = [word for word in judged if word["correct"] is False]
        if detail.get("fits") is False:
            known = [word for word in judged if word["p_correct"] is not None]
            wrong = [word for word in known if word["p_correct"] < 0.5]
            if not wrong and judged:
                wrong = [min(known or judged, key=lambda word: word["p_correct" if known else "score"])]
        return [(word["start"], word["end"], word["text"]) for word in wrong]

    def language_problem(self, code: str) -> str:
        try:
            tagger_name(code or None)
        except InputError as error:
            return error.message
        except MissingExtraError as error:
            return str(error)
        return ""

    @property
    def value_names(self) -> tuple[str, ...]:
        return ("image_cosine", "recall", "precision")

    @property
    def known_as(self) -> str:
        return "infoclip" if self.weights == "info_clip" else self.metric

    @property
    def caution(self) -> str:
        if self.weights != "info_clip":
            return ""
        return (
            "There are no trained weights here: this is InfoCLIP, InfoMetIC without its network. Its "
            "marks on words mean little."
        )

    @property
    def marks_below(self) -> float | None:
        """Score at or below which a word is marked; None where probabilities decide."""
        if self.mark_calibration is None:
            return self.beta
        return None

    def constants(self) -> dict[str, object]:
        found: dict[str, object] = {"weights": self.weights}
        if reading := self.aligner.config.reading:
            found["reads"] = reading
        found |= {"regions": self._regions_from({False}), "n_regions": self.n_regions}
        if self.seed:
            found["seed"] = self.seed
        found["marks"] = self.marks
        if self.mark_calibration is None:
            found["beta"] = self.beta
        else:
            found["false_alarms"] = self.false_alarms
        return {**found, "plus": self.plus_scale}

    def _regions_from(self, given: set[bool]) -> str:
        """Source of the regions, for signatures; `given` holds whether boxes were given, for each row."""
        found = self.finder.name
        if found != "windows":  # windows depend on the backbone alone, which the signature names
            found += f"@{self.finder.fingerprint[:8]}"
        return "+".join([found] * (False in given) + ["given"] * (True in given))

    def finish(self, rows: PreparedRows) -> Scores:
        given = {detail["boxes_given"] for detail in rows.details or () if detail} or {False}
        settings: dict[str, object] = {"regions": self._regions_from(given)}
        if self.aligner.reads_words:  # then the taggers decide the scores
            languages = {rows.languages[row] for row in np.flatnonzero(rows.kept)}
            taggers = {self.language_settings(code)["words"] for code in languages}
            settings["words"] = ",".join(sorted(taggers))
        return self.finish_with(rows, {}, settings)

    def language_settings(self, code: str) -> dict[str, str]:
        return {"words": tagger_name(code or None)} if self.aligner.reads_words else {}

    def varied_settings(self, rows: PreparedRows) -> dict[str, list[str]]:
        given = [bool(detail and detail["boxes_given"]) for detail in rows.details or [None] * len(rows)]
        return {**super().varied_settings(rows), "regions": [self._regions_from({each}) for each in given]}

    def combine(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        overall = values["recall"] + values["precision"]
        return overall, {
            "recall": values["recall"],
            "precision": values["precision"],
            "infometic_plus": overall + self.plus_scale * values["image_cosine"],
            "clip_cosine": values["image_cosine"],
        }

    def score_matrix(
        self, candidates: Iterable[str], images: object, language: str | Iterable[str] | None = None
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Score every image with every caption, as retrieval needs it; each distinct pair once.

        Args:
            candidates: b captions.
            language: Language of the captions, as `score` takes it; only weights that read words need it.

        Returns:
            Scores, float32 (a, b), and the components, each of the same shape.

        Raises:
            InputError: a bad caption, no image, or a language without a tagger that the weights need.
            MissingExtraError: the tagger of a language is not installed.
            ImageError: an image that cannot be read.
            CapscoreError: weights that give NaN or infinity.
        """
        captions, languages = check_captions(candidates, language)
        self.warn_about_languages(languages)
        pictures = check_images(images)
        if not len(pictures):
            raise InputError("there are no images", field="images")
        region_reader = RegionReader(self.region_maker, None, "raise")
        found = self.embedder.images(pictures, reader=region_reader)
        by_row = region_reader.regions()
        firsts = np.unique(found.index, return_index=True)[1]  # the first row of each image
        regions = [by_row[row] for row in firsts.tolist()]
        _warn_about_regions(firsts, [len(photo) for photo in regions])

        reads_words = self.aligner.reads_words
        spoken = languages if reads_words else [""] * len(captions)
        text_of, firsts = _numbered([*zip(captions, spoken, strict=True)])
        texts = self.reader.read(
            [captions[row] for row in firsts], [spoken[row] for row in firsts], words=reads_words
        )
        self.warn_about_truncation(np.array([text.is_cut for text in texts])[text_of])
        recall, precision = self._all_pairs(regions, found.matrix, texts)
        cosines = self._unit(found.matrix) @ self._unit(np.stack([text.embedding for text in texts])).T
        values = {"image_cosine": cosines, "recall": recall, "precision": precision}
        return self.combine({name: matrix[np.ix_(found.index, text_of)] for name, matrix in values.items()})

    def _all_pairs(
        self, regions: list[ImageRegions], photos: np.ndarray, captions: list[ReadCaption]
    ) -> np.ndarray:
        """Recall and precision, float32 (2, images, texts); items of like length share a block."""
        import torch

        matrices = np.zeros((2, len(regions), len(captions)), np.float32)
        chunk = _PAIRS_ON_CPU if self.backbone.device.startswith("cpu") else _PAIRS_ON_GPU
        shown = self.embedder.progress
        with torch.inference_mode(), progress_bar("pairs", matrices[0].size, shown=shown) as advance:
            encoded = []
            for rows in _blocks(regions, _BLOCK):
                encoded.append((rows, self._image_states([regions[row] for row in rows], photos[rows])))
            for columns in _blocks([caption.pieces for caption in captions], _BLOCK):
                texts = self.reader.states([captions[column] for column in columns])
                for rows, images in encoded:
                    both = torch.stack(self.aligner.all_pairs(images, texts, chunk))
                    matrices[:, rows[:, None], columns] = both.float().cpu().numpy()
                    advance(len(rows) * len(columns))
        self._check_finite(matrices.sum(axis=0))
        return matrices

    def measure(self, rows: InputRows, on_error: str) -> dict[str, np.ndarray]:
        self.warn_about_languages(rows.languages)
        for row in np.flatnonzero(rows.kept()).tolist():
            if problem := length_problem(rows.candidates[row]):
                rows.failures[row] = InputError(problem, row=row, field="candidate")
                if on_error == "raise":
                    raise rows.failures[row]
        reader = RegionReader(self.region_maker, rows.extra.get("boxes"), on_error)
        images = self.embedder.images(rows.images, on_error=on_error, skip=rows.left_out(), reader=reader)
        rows.failures.update({**reader.failures, **images.failures})
        regions = reader.regions()
        kept = np.flatnonzero(rows.kept()).tolist()
        numbers = np.zeros((len(self.value_names), len(kept)))
        details: list[dict[str, Any]] = []
        with progress_bar("Judging captions", len(kept), shown=self.embedder.progress) as advance:
            for start in range(0, len(kept), _AT_ONCE):
                part = kept[start : start + _AT_ONCE]
                captions = self.reader.read(
                    [rows.candidates[row] for row in part], [rows.languages[row] for row in part]
                )
                rows.truncated[part] = [caption.is_cut for caption in captions]
                numbers[:, start : start + _AT_ONCE], found = self._score(
                    [regions[row] for row in part], images.matrix[images.index[part]], captions
                )
                details += found
                advance(len(part))
        self.warn_about_truncation(rows.truncated)
        _warn_about_regions(kept, [len(detail["regions"]) for detail in details])
        rows.image_keys, rows.details = images.keys, details
        return dict(zip(self.value_names, numbers, strict=True))

    def _score(
        self, regions: list[ImageRegions], photos: np.ndarray, captions: list[ReadCaption]
    ) -> tuple[list[np.ndarray], list[dict[str, Any]]]:
        """`value_names`, each float64 (n,), and details of rows; each distinct image is encoded once."""
        import torch

        recall, precision = np.zeros((2, len(captions)))
        scores: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # of regions, and of tokens
        image_of, firsts = _numbered([id(photo) for photo in regions])
        with torch.inference_mode():
            for block in _blocks([regions[row] for row in firsts], _IMAGES):
                seen = firsts[block]
                images = self._image_states([regions[row] for row in seen], photos[seen])
                place = np.full(len(firsts), -1)  # of each image in the block
                place[block] = np.arange(len(block))
                rows = np.flatnonzero(place[image_of] >= 0)
                for short in _blocks([captions[row].pieces for row in rows], _PAIRS):
                    part = rows[short]
                    texts = self.reader.states([captions[row] for row in part])
                    found = self.aligner.pairs(
                        images, texts, place[image_of[part]].tolist(), range(len(part))
                    )
                    recall[part], precision[part] = _numbers(found.recall), _numbers(found.precision)
                    both = zip(_numbers(found.region_scores), _numbers(found.token_scores), strict=True)
                    scores.update(zip(part.tolist(), both, strict=True))
        self._check_finite(recall + precision)
        photos = self._unit(photos)
        texts_ = self._unit(np.stack([caption.embedding for caption in captions]))
        marks, names = self._marks(regions, photos, captions, texts_)
        details = []
        for row, (photo, caption) in enumerate(zip(regions, captions, strict=True)):
            details.append(self._detail(photo, caption, *scores[row], marks[row], names[row]))
        return [np.einsum("nd,nd->n", photos, texts_), recall, precision], details

    def _check_finite(self, scores: np.ndarray) -> None:
        bad = int((~np.isfinite(scores)).sum())
        if bad:
            raise CapscoreError(f"the weights {self.weights} gave NaN or infinity for {bad:,} pairs")

    def _unit_texts(self, texts: Sequence[str]) -> np.ndarray:
        return self._unit(self.reader.embedded(texts))

    def _unit(self, rows: np.ndarray) -> np.ndarray:
        return unit_rows_of(self.reader.backbone, rows)

    def _image_states(self, regions: list[ImageRegions], photos: np.ndarray) -> States:
        import torch

        from ..infometic.network import padded

        device = self.backbone.device
        rows, mask = padded([photo.embeddings for photo in regions], device)
        shares, _ = padded([photo.shares for photo in regions], device)
        return self.aligner.encode_images(torch.from_numpy(np.array(photos)).to(device), rows, shares, mask)

    def _detail(
        self,
        regions: ImageRegions,
        caption: ReadCaption,
        region_scores: np.ndarray,
        token_scores: np.ndarray,
        marks: RowMarks | None,
        names: list[str],
    ) -> dict[str, Any]:
        """The details of a row; without marks, those by score, as published."""
        from ..infometic.marks import published_marks

        words, pieces = caption.words, caption.pieces
        of_words = word_scores(pieces, self.reader.pieces_of(token_scores, caption), words)
        of_regions = region_scores[: len(regions)].tolist()  # padding follows, and the null token is last
        if marks is None:
            rows = encode_pieces(self.backbone, pieces.ids)
            likest = nearest_regions(pieces, rows, words, regions.embeddings)
            marks = published_marks(words, of_words, of_regions, likest, self.beta)
        words_shown = []
        for word, *columns in zip(words, of_words, marks.p_correct, marks.correct, marks.region, strict=True):
            words_shown.append({**word._asdict(), **dict(zip(_WORD, columns, strict=True))})
        columns_of_regions = (
            regions.boxes.tolist(),
            of_regions,
            marks.p_mentioned,
            marks.mentioned,
            [name or label for name, label in zip(names, regions.labels, strict=True)],
            regions.confidences.tolist(),
            regions.labels,
        )
        return {
            "fits": marks.fits,
            "p_fits": marks.p_fits,
            "words": words_shown,
            "regions": [
                dict(zip(_REGION, row, strict=True)) for row in zip(*columns_of_regions, strict=True)
            ],
            "null": float(region_scores[-1]),
            "image_size": list(regions.size),
            "n_words_cut": of_words.count(None),
            "boxes_given": regions.given,
        }

    def _marks(
        self, regions: list[ImageRegions], photos: np.ndarray, captions: list[ReadCaption], texts: np.ndarray
    ) -> tuple[Sequence[RowMarks | None], list[list[str]]]:
        """Learned marks and names of regions of each row; None and "" without a mark calibration."""
        from ..infometic.marks import MarkedRow, mark_rows

        if self.mark_calibration is None:
            return [None] * len(photos), [[""] * len(photo) for photo in regions]
        embeddings = {id(photo): self._unit(photo.embeddings) for photo in regions}
        rows = []
        for seen, photo, caption, text in zip(regions, photos, captions, texts, strict=True):
            assert seen.features is not None  # `RegionMaker` has a calibration
            row = MarkedRow(
                seen.features,
                photo,
                text,
                caption.text,
                caption.words,
                caption.language,
                embeddings[id(seen)],
                seen.shares,
                caption.pieces.read_to,
            )
            rows.append(row)
        marks = mark_rows(self.mark_calibration, rows, self._unit_texts, self.false_alarms)
        return marks, self._namer.names(rows)

    def warn_about_truncation(self, truncated: np.ndarray) -> None:
        if truncated.any():
            limit = min(self.reader.sequence.max_pieces, self.backbone.max_tokens)
            message = (
                f"{truncated.sum():,} of {len(truncated):,} rows have a caption of more than {limit} pieces; "
                f"no later word is scored (first such row: {truncated.argmax()}, counted from 0)"
            )
            warn(TruncationWarning(message))


def _warn_about_regions(rows: Sequence[int] | np.ndarray, counts: list[int]) -> None:
    empty = [row for row, n_regions in zip(rows, counts, strict=True) if not n_regions]
    if empty:
        message = (
            f"{len(empty)} of {len(rows)} rows have an image in which no region was found: "
            f"their recall is 0 (first such row: {empty[0]})"
        )
        warn(RegionWarning(message))


def _numbered(items: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    """The number of each item among the distinct ones, in order, and the first row of each of these."""
    numbers: dict[Hashable, int] = {}
    index = np.array([numbers.setdefault(item, len(numbers)) for item in items], np.int64)
    return index, np.unique(index, return_index=True)[1]


def _numbers(values: Tensor) -> np.ndarray:
    return values.double().cpu().numpy()


def _blocks(items: Sequence[Sized], size: int) -> list[np.ndarray]:
    """Indices of items, in blocks of items of like length."""
    order = np.argsort([len(item) for item in items], kind="stable")
    return [order[start : start + size] for start in range(0, len(order), size)]
