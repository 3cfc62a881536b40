"""InfoMetIC (Hu et al. 2023): captions and images → three scores, and the words and regions behind them.

In: captions in any language with a tagger, and images; optionally boxes of their regions. Out: per row,
vision recall, text precision and their sum, and a score for each word and region.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

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
from ..files.progress import progress_bar
from ..images.sequence import check_images
from ..text.word_classes import length_problem, tagger_name
from .backbone_scorer import BackboneScorer
from .base import Measured, PreparedRows, Scores
from .image_regions import ImageRegions, RegionMaker, unit_rows_of
from .input_rows import ExtraColumn, InputRows, check_captions

if TYPE_CHECKING:
    import torch

    from ..infometic.alignment import Aligner, ImageStates, TextStates
    from ..infometic.mark_calibration import MarkCalibration
    from ..infometic.marks import RegionNames
    from ..infometic.regions import RegionFinder
    from ..infometic.words import CaptionWord, Pieces

# pairs that go through the network at once, and images that are encoded at once
_PAIRS, _IMAGES = 64, 64
# pairs whose texts, states and details are in memory at once
_AT_ONCE = 1024
# the same for all pairs of images and captions, and the images or captions that are then encoded at once
_PAIRS_ON_CPU, _PAIRS_ON_GPU = 256, 4096
_BLOCK = 256
# the finder of regions that needs no judge
WINDOWS = "windows"
# longer lists of names are replaced by their number in the signature
_LISTED = 60
# of a caption: what its words add, and the weights of its pieces
_Context = tuple[np.ndarray, np.ndarray]
# regions of an image, place of the image's embedding, caption, language
_Pair = tuple["ImageRegions", int, str, str]


class InfoMetIC(BackboneScorer):
    """Scores rows, their words and the regions of their images (Hu et al. 2023, section 3).

    The score of a row is recall + precision. `components` has both, "infometic_plus" (the score plus the
    scaled cosine of image and caption, section 4.1) and "clip_cosine". `details` has for each row

    - "words": text, start and end in the caption, score (the sum over the word's pieces), whether the word is
      semantic, its class, "p_correct" (how likely it is right, where as many words are right as wrong),
      "correct" (True, False for likely wrong, None for cannot tell), and the number of the region most like
      it. A word that was cut off has the score None.
    - "regions": box in pixels of the upright image (left, top, right, bottom), score, "p_mentioned" and
      "mentioned" (whether the caption mentions the region), a name for what it shows in the caption's
      language ("" for none), and the finder's confidence and label.
    - "fits" and "p_fits": whether the caption as a whole fits the image. If it does not, its words are not
      judged one by one.
    - "null": score of the null token, which is high if the caption mentions no region.
    - "image_size" (width, height), "n_words_cut", and "boxes_given": whether the boxes were given.

    The word scores of a caption sum to at most 1, and so do the scores of its regions and the null token;
    they say which word is the worst of its caption, not whether it is wrong. "p_correct", "p_mentioned" and
    "p_fits" are absolute. They come from a mark calibration (`capscore.infometic.mark_calibration`, not in
    the paper), which some backbones have. With marks="published" they are None, and a word is correct and a
    region mentioned if its score is above beta.

    Args:
        embedder: Embedder of images, regions and texts; holds the backbone.
        prefix: Text before each candidate, but not before its pieces; None takes what the weights state,
            otherwise the backbone's own.
        weights: Folder or Hub id of trained weights, or "info_clip" for the baseline; None takes those
            shipped for the backbone, else the baseline.
        marks: What decides "correct" and "mentioned", as `capscore.infometic.weights.load_marks` takes it:
            "learned", "published", or a folder with a judge; None for "learned" where the backbone has a
            judge.
        false_alarms: Rate in (0, 0.5] of right nouns that may be called wrong; other words, and captions as
            a whole, have a lower one (`capscore.infometic.mark_calibration`). Only for a judge.
        regions: Finder of regions, as `capscore.infometic.finders.load_finder` takes it; None for
            "things" where the backbone has a judge, otherwise "windows".
        region_names: Names for an open-vocabulary detector to look for, such as ("dog", "red ball"); None
            for other finders.
        n_regions: Number of regions to score per image: the regions found are clustered, and the most
            confident one of each cluster is taken. Given boxes are all scored.
        beta: Threshold in [0, 1) above which a word is correct and a region mentioned, with
            marks="published".
        seed: As in `RegionMaker`.
        empty, per_row: As in `Scorer`.

    Raises:
        CapscoreError: weights for another backbone, or a setting out of range.
        BackboneUnavailable: weights or a detector that are not available here.
    """

    metric = "infometic"
    title = "InfoMetIC"
    citation = ("hu-etal-2023-infometic",)
    default_backbone = "embedded"
    component_names = ("recall", "precision", "infometic_plus", "clip_cosine")
    detail_names = (
        "fits",
        "p_fits",
        "words",
        "regions",
        "null",
        "image_size",
        "n_words_cut",
        "boxes_given",
    )
    reported: ClassVar[dict[str, str]] = {
        "infometic_plus": "infometic_plus",
        "infometic_recall": "recall",
        "infometic_precision": "precision",
    }
    splits_texts: ClassVar[bool] = True
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
        weights: str | os.PathLike[str] | Aligner | None = None,
        marks: str | os.PathLike[str] | MarkCalibration | None = None,
        false_alarms: float = 0.05,
        regions: str | RegionFinder | None = None,
        region_names: Sequence[str] | None = None,
        n_regions: int = 20,
        beta: float = 0.1,
        seed: int = 0,
        empty: Literal["raise", "score", "skip"] = "raise",
        per_row: bool = True,
    ):
        from ..backbones.base import as_read
        from ..infometic.finders import load_finder
        from ..infometic.weights import cosine_scale, load_aligner, load_marks
        from ..infometic.words import piece_sequence

        self.check_options(
            {
                "regions": regions,
                "region_names": region_names,
                "n_regions": n_regions,
                "beta": beta,
                "false_alarms": false_alarms,
            }
        )
        self.judge, self.marks = load_marks(marks, embedder.backbone)
        self.false_alarms = float(false_alarms)
        if regions is None:
            regions = WINDOWS if self.judge is None else "things"
        self.aligner, self.weights = load_aligner(weights, embedder.backbone)
        config = getattr(self.aligner, "config", None)
        self.reading = ""  # of the network, where it differs from the paper's
        features = embedder
        if config is not None:
            self.reading = config.reading
            prefix = config.prefix if prefix is None else prefix
            features = embedder.of(
                as_read(embedder.backbone, unit=config.unit_inputs, caption_tokens=config.caption_tokens)
            )
        super().__init__(features, prefix=prefix, empty=empty, per_row=per_row)
        self.sequence = piece_sequence(features.backbone, config)
        with _finder_options():
            self.finder = load_finder(regions, embedder, names=region_names, judge=self.judge)
        self.n_regions, self.beta, self.seed = n_regions, float(beta), seed
        self.plus_scale = cosine_scale(embedder.backbone)
        self.region_maker = RegionMaker(features, self.finder, n=n_regions, seed=seed, judge=self.judge)
        self._namer: RegionNames | None = None

    @classmethod
    def check_options(cls, given: Mapping[str, Any]) -> None:
        """Check options, and that `region_names` go with `regions`.

        >>> InfoMetIC.check_options({"regions": "owlv2:org/detector", "region_names": ["dog"], "beta": 0.2})
        >>> InfoMetIC.check_options({"region_names": ["dog"]})
        Traceback (most recent call last):
            ...
        capscore.errors.InputError: region_names: ['dog'] do not go with regions='windows', which takes \
none: names are for owlv2 and grounding-dino
        """
        from ..infometic.finders import check_finder

        for name, fits, expected in (
            ("beta", lambda value: 0 <= value < 1, "a number from 0 to below 1"),
            ("false_alarms", lambda value: 0 < value <= 0.5, "a rate above 0, at most 0.5"),
            (
                "n_regions",
                lambda value: isinstance(value, Integral) and value >= 1,
                "a whole number of at least 1",
            ),
        ):
            value = given.get(name)
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            if value is not None and not (is_number and fits(value)):
                raise InputError(Setting(name, value), f": expected {expected}")
        with _finder_options():
            check_finder(given.get("regions") or WINDOWS, given.get("region_names"))

    # ------------------------------------------------------------------ rows

    def language_problem(self, code: str) -> str:
        try:
            tagger_name(code or None)
        except (InputError, MissingExtraError) as error:
            return str(error)
        return ""

    @property
    def value_names(self) -> tuple[str, ...]:
        return ("image_cosine", "recall", "precision")

    def constants(self) -> dict[str, object]:
        return {
            "weights": self.weights,
            **({"reads": self.reading} if self.reading else {}),
            "regions": self._regions_from({False}),
            "n_regions": self.n_regions,
            **({"seed": self.seed} if self.seed else {}),
            "marks": self.marks,
            **({"beta": self.beta} if self.judge is None else {"false_alarms": self.false_alarms}),
            "plus": self.plus_scale,
        }

    def _regions_from(self, given: set[bool]) -> str:
        """Source of the regions, for signatures; `given` holds whether boxes were given, for each row."""
        found = self.finder.name
        if found != WINDOWS:  # windows depend on the backbone alone, which the signature names
            found += f"@{self.finder.fingerprint[:8]}"
        if self.finder.names:
            listed = ",".join(self.finder.names)
            found += f"({listed if len(listed) <= _LISTED else f'{len(self.finder.names)} names'})"
        return "+".join(([found] if False in given else []) + (["given"] if True in given else []))

    def finish(self, rows: PreparedRows) -> Scores:
        given = {detail["boxes_given"] for detail in rows.details or () if detail} or {False}
        return self._combined(rows, {}, {"regions": self._regions_from(given), **self._tagged(rows)})

    def _tagged(self, rows: PreparedRows) -> dict[str, object]:
        """The taggers of the rows' words, for signatures, if the words decide the scores."""
        if not self.aligner.reads_words:
            return {}
        languages = {rows.languages[row] for row in np.flatnonzero(rows.kept)}
        return {"words": ",".join(sorted({tagger_name(language or None) for language in languages}))}

    def combine(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        overall = values["recall"] + values["precision"]
        return overall, {
            "recall": values["recall"],
            "precision": values["precision"],
            "infometic_plus": overall + self.plus_scale * values["image_cosine"],
            "clip_cosine": values["image_cosine"],
        }

    @property
    def known_as(self) -> str:
        from ..infometic.weights import INFO_CLIP

        return "infoclip" if self.weights == INFO_CLIP else self.metric

    # ------------------------------------------------------------------ every image with every caption

    def score_matrix(
        self,
        candidates: Iterable[str],
        images: Any,
        language: str | Iterable[str] | None = None,
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Score every image with every caption, as retrieval needs it.

        Parts that depend on an image or a caption alone are computed once. Parts that depend on both are
        computed for each distinct pair, which takes one pass through a transformer with trained weights.
        Equal captions of one language have exactly equal scores, and so have equal images. Only weights that
        read words need a tagger; with other weights, captions in any language can be scored.

        Args:
            candidates: b captions.
            images: a images, as `score` takes them.
            language: Language of the captions, as `score` takes it.

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
        n_images = len(pictures)
        if not n_images:
            raise InputError("there are no images", field="images")
        reading = self.region_maker.reading(None, "raise")
        found = self.embedder.images(pictures, reader=reading)
        # the first row of each distinct image
        firsts = np.unique(found.index, return_index=True)[1].tolist()
        by_row = reading.regions()
        seen = [by_row[row] for row in firsts]
        self._warn_about_regions(firsts, [{"regions": one.labels} for one in seen])

        told = list(zip(captions, languages, strict=True))
        if not self.aligner.reads_words:
            told = [(caption, "") for caption in captions]
        distinct = {key: place for place, key in enumerate(dict.fromkeys(told))}
        text_of = np.array([distinct[key] for key in told])
        texts = [caption for caption, _ in distinct]
        embedded = self.embedder.texts(texts, prefix=self.prefix)
        read = embedded.matrix[embedded.index]
        pieces, contexts = self._pieces(texts), None
        if self.aligner.reads_words:
            words = self._words(texts, [language for _, language in distinct])
            contexts = self.contexts(texts, words, pieces)
        self.warn_about_truncation(embedded.truncated[embedded.index][text_of])
        self._warn_about_cut(_is_cut(pieces)[text_of])

        recall, precision = self._all_pairs(seen, found.matrix, read, pieces, contexts)
        cosines = self._unit(found.matrix) @ self._unit(read).T
        values = {"image_cosine": cosines, "recall": recall, "precision": precision}
        return self.combine({name: one[np.ix_(found.index, text_of)] for name, one in values.items()})

    def _all_pairs(
        self,
        seen: list[ImageRegions],
        photos: np.ndarray,
        read: np.ndarray,
        pieces: list[Pieces],
        contexts: list[_Context] | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recall and precision, float32 (images, texts); items of like length share a block."""
        import torch

        recall, precision = np.zeros((2, len(seen), len(pieces)), np.float32)
        texts = _blocks([len(piece) for piece in pieces])
        chunk = _PAIRS_ON_CPU if self.backbone.device.startswith("cpu") else _PAIRS_ON_GPU
        with (
            torch.inference_mode(),
            progress_bar("pairs", recall.size, shown=self.embedder.progress) as advance,
        ):
            encoded = [
                (part, self._image_states([seen[place] for place in part], photos[part]))
                for part in _blocks([len(one.boxes) for one in seen])
            ]
            for columns in texts:
                states = self.text_states(
                    read[columns], [pieces[place] for place in columns], _some(contexts, columns)
                )
                for part, image_states in encoded:
                    both = self.aligner.all_pairs(image_states, states, chunk)
                    for matrix, block in zip((recall, precision), both, strict=True):
                        matrix[np.ix_(part, columns)] = block.float().cpu().numpy()
                    advance(len(part) * len(columns))
        bad = int((~np.isfinite(recall + precision)).sum())
        if bad:
            raise CapscoreError(f"the weights {self.weights} gave NaN or infinity for {bad:,} pairs")
        return recall, precision

    # ------------------------------------------------------------------ measuring

    def _measure(self, rows: InputRows, on_error: str) -> Measured:
        self.warn_about_languages(rows.languages)
        for row in np.flatnonzero(rows.kept()).tolist():
            problem = length_problem(rows.candidates[row])
            if problem:
                error = InputError(problem, row=row, field="candidate")
                if on_error == "raise":
                    raise error
                rows.failures[row] = error
        reading = self.region_maker.reading(rows.extra.get("boxes"), on_error)
        images = self.embedder.images(rows.images, on_error=on_error, skip=rows.left_out(), reader=reading)
        rows.failures.update({**reading.failures, **images.failures})
        seen = reading.regions()
        kept = np.flatnonzero(rows.kept()).tolist()
        pairs = _Pairs(
            [(seen[row], int(images.index[row]), rows.candidates[row], rows.languages[row]) for row in kept]
        )
        found = _Found.empty(len(pairs))
        progress = self.embedder.progress
        quick = progress is None and len(pairs) <= 2 * _AT_ONCE
        with progress_bar("Judging captions", len(pairs), shown=False if quick else progress) as advance:
            for part in pairs.blocks(_AT_ONCE):
                self._measure_pairs([pairs.distinct[place] for place in part], part, images.matrix, found)
                advance(len(part))
        details = pairs.of_rows(found.details)
        truncated, cut = np.zeros((2, len(rows)), dtype=bool)
        truncated[kept], cut[kept] = found.truncated[pairs.of_row], found.cut[pairs.of_row]
        self.warn_about_truncation(truncated)
        self._warn_about_cut(cut)
        truncated |= cut
        self._warn_about_regions(kept, details)
        return Measured(
            values={name: found.values[name][pairs.of_row] for name in self.value_names},
            image_keys=images.keys,
            truncated=truncated,
            details=details,
        )

    def _measure_pairs(
        self, pairs: list[_Pair], places: Sequence[int], photos: np.ndarray, found: _Found
    ) -> None:
        """Measure pairs of an image and a caption; their results go to their places in `found`."""
        seen, images, captions, languages = (list(column) for column in zip(*pairs, strict=True))
        texts = self.embedder.texts(captions, prefix=self.prefix, quiet=True)
        read = texts.matrix[texts.index]
        pieces = self._pieces(captions)
        words = self._words(captions, languages)
        contexts = self.contexts(captions, words, pieces) if self.aligner.reads_words else None
        details, recall, precision = self._aligned(seen, photos[images], read, pieces, words, contexts)
        self._mark(details, seen, photos[images], read, captions, words, languages, pieces)
        cosines = np.einsum("nd,nd->n", self._unit(photos[images]), self._unit(read))
        for name, numbers in (("image_cosine", cosines), ("recall", recall), ("precision", precision)):
            found.values[name][places] = numbers
        found.truncated[places], found.cut[places] = texts.truncated[texts.index], _is_cut(pieces)
        for place, detail in zip(places, details, strict=True):
            found.details[place] = detail

    def _words(self, captions: list[str], languages: list[str]) -> list[list[CaptionWord]]:
        """The words of each caption; each distinct caption is tagged once."""
        from ..infometic.words import caption_words

        told = list(zip(captions, languages, strict=True))
        found: dict[tuple[str, str], list[CaptionWord]] = {}
        for language in dict.fromkeys(languages):
            here = list(dict.fromkeys(caption for caption, own in told if own == language))
            words = caption_words(here, language or None)
            found.update(zip(((caption, language) for caption in here), words, strict=True))
        return [found[key] for key in told]

    def contexts(
        self, captions: list[str], words: list[list[CaptionWord]], pieces: list[Pieces]
    ) -> list[_Context]:
        """Word contexts, which `text_states` needs for an aligner that reads words.

        Args:
            captions: n captions.
            words: Words of each caption.
            pieces: Pieces of each caption.

        Returns:
            For each caption, what its semantic words add to its pieces, and the weights of the pieces.
        """
        from ..infometic.words import added_by_words, word_context

        counted = [
            [number for number, word in enumerate(own) if word.semantic and word.end <= piece.seen]
            for own, piece in zip(words, pieces, strict=True)
        ]

        def embed(texts: Sequence[str]) -> np.ndarray:
            rows = self.embedder.texts(texts, prefix=self.prefix, quiet=True)
            return rows.matrix[rows.index]

        left_out = [[own[number] for number in some] for own, some in zip(words, counted, strict=True)]
        added = added_by_words(captions, left_out, embed)
        return [word_context(*one) for one in zip(pieces, words, counted, added, strict=True)]

    def _pieces(self, captions: list[str]) -> list[Pieces]:
        from ..infometic.words import split_pieces

        return split_pieces(self.backbone, captions, self.sequence.room)

    def _unit(self, rows: np.ndarray) -> np.ndarray:
        return unit_rows_of(self.backbone, rows)

    def _aligned(
        self,
        seen: list[ImageRegions],
        photos: np.ndarray,
        read: np.ndarray,
        pieces: list[Pieces],
        words: list[list[CaptionWord]],
        contexts: list[_Context] | None,
    ) -> tuple[list[dict[str, Any]], np.ndarray, np.ndarray]:
        """Details, recall and precision of rows; each distinct image is encoded once."""
        import torch

        recall, precision = np.zeros(len(seen)), np.zeros(len(seen))
        details: list[dict[str, Any]] = [{} for _ in seen]
        of_image: dict[int, list[int]] = {}
        for row, one in enumerate(seen):
            of_image.setdefault(id(one), []).append(row)
        shared = list(of_image.values())
        for images in _blocks([len(seen[rows[0]].boxes) for rows in shared], _IMAGES):
            firsts = [shared[image][0] for image in images]
            image_of = {row: place for place, image in enumerate(images) for row in shared[image]}
            order = sorted(image_of, key=lambda row: len(pieces[row]))
            with torch.inference_mode():
                states = self._image_states([seen[row] for row in firsts], photos[firsts])
            for start in range(0, len(order), _PAIRS):
                part = order[start : start + _PAIRS]
                with torch.inference_mode():
                    found = self.aligner.pairs(
                        states,
                        self.text_states(read[part], [pieces[row] for row in part], _some(contexts, part)),
                        [image_of[row] for row in part],
                        list(range(len(part))),
                    )
                recall[part] = found.recall.double().cpu().numpy()
                precision[part] = found.precision.double().cpu().numpy()
                regions = found.region_scores.double().cpu().numpy()
                tokens = found.token_scores.double().cpu().numpy()
                for place, row in enumerate(part):
                    details[row] = self._detail(
                        seen[row], regions[place], tokens[place], pieces[row], words[row]
                    )
        bad = np.flatnonzero(~np.isfinite(recall + precision))
        if len(bad):
            raise CapscoreError(
                f"the weights {self.weights} gave NaN or infinity for {len(bad)} of {len(seen)} rows"
            )
        return details, recall, precision

    def _mark(
        self,
        details: list[dict[str, Any]],
        seen: list[ImageRegions],
        photos: np.ndarray,
        read: np.ndarray,
        captions: list[str],
        words: list[list[CaptionWord]],
        languages: list[str],
        pieces: list[Pieces],
    ) -> None:
        """Put the judge's marks in the place of those by score."""
        if self.judge is None or not details:
            return
        from ..infometic.marks import MarkedRow, mark_rows

        photos, read = self._unit(photos), self._unit(read)
        regions = {id(one): self._unit(one.embeddings) for one in seen}
        rows = []
        told = zip(seen, photos, read, captions, words, languages, pieces, strict=True)
        for one, photo, row, caption, own, language, split in told:
            assert one.sight is not None  # as there is a judge
            shown = regions[id(one)]
            rows.append(
                MarkedRow(one.sight, photo, row, caption, own, language, shown, one.shares, split.seen)
            )
        marks = mark_rows(self.judge, rows, self._embedded, self.false_alarms)
        names = self._names(list(zip(seen, photos, strict=True)), languages)
        for detail, mark, one, language in zip(details, marks, seen, languages, strict=True):
            detail["fits"], detail["p_fits"] = mark.fits, mark.p_fits
            judged = zip(detail["words"], mark.p_correct, mark.correct, mark.region, strict=True)
            for word, p_correct, correct, nearest in judged:
                word.update(p_correct=p_correct, correct=correct, region=nearest)
            own = names[id(one), language]
            marked = zip(
                detail["regions"], mark.p_mentioned.tolist(), mark.mentioned.tolist(), own, strict=True
            )
            for region, p_mentioned, mentioned, name in marked:
                region.update(p_mentioned=p_mentioned, mentioned=mentioned, name=name or region["label"])

    def _embedded(self, texts: Sequence[str]) -> np.ndarray:
        found = self.embedder.texts(texts, prefix=self.prefix, quiet=True)
        return self._unit(found.matrix[found.index])

    def _names(
        self, seen: Sequence[tuple[ImageRegions, np.ndarray]], languages: Sequence[str]
    ) -> dict[tuple[int, str], list[str]]:
        """Names for the regions of each image in each language in which it has a caption."""
        from ..infometic.marks import RegionNames
        from ..text.languages import language_code

        assert self.judge is not None
        if self._namer is None:
            self._namer = RegionNames(self.judge, self._embedded)
        names: dict[tuple[int, str], list[str]] = {}
        for language in dict.fromkeys(languages):
            here = {
                id(one): (photo, self._unit(one.embeddings))
                for (one, photo), own in zip(seen, languages, strict=True)
                if own == language
            }
            found = self._namer.names([*here.values()], language_code(language) if language else "en")
            names.update(zip(((image, language) for image in here), found, strict=True))
        return names

    def _image_states(self, seen: list[ImageRegions], photos: np.ndarray) -> ImageStates:
        import torch

        device = self.backbone.device
        regions, mask = _padded([one.embeddings for one in seen], self.backbone.dim, device)
        shares, _ = _padded([one.shares for one in seen], 4, device)
        return self.aligner.encode_images(
            torch.from_numpy(np.array(photos)).to(device), regions, shares, mask
        )

    def text_states(
        self, read: np.ndarray, pieces: list[Pieces], contexts: list[_Context] | None = None
    ) -> TextStates:
        """Encode captions for the aligner.

        Args:
            read: float32 (n, d), embeddings of the captions.
            pieces: Pieces of each caption.
            contexts: Word context of each caption (`capscore.infometic.words.word_context`), for an aligner
                that reads words.
        """
        import torch

        from ..infometic.alignment import WordContext
        from ..infometic.words import encode_pieces

        device, dim, first = self.backbone.device, self.backbone.dim, len(self.sequence.before)
        listed = [self.sequence.ids(piece.ids) for piece in pieces]
        rows = encode_pieces(self.backbone, [token for ids in listed for token in ids])
        ends = np.cumsum([len(ids) for ids in listed])
        tokens, mask = _padded(np.split(rows, ends[:-1]), dim, device)
        length = tokens.shape[1]
        _, scored = _padded([np.zeros((len(piece), 0)) for piece in pieces], 0, device, first, length)
        context = None
        if contexts is not None:
            added, _ = _padded([own for own, _ in contexts], dim, device, first, length)
            weight, _ = _padded([own[:, None] for _, own in contexts], 1, device, first, length)
            context = WordContext(added, weight[..., 0])
        return self.aligner.encode_texts(
            torch.from_numpy(np.array(read)).to(device), tokens, mask, scored, context
        )

    def _detail(
        self,
        seen: ImageRegions,
        region_scores: np.ndarray,
        token_scores: np.ndarray,
        pieces: Pieces,
        words: list[CaptionWord],
    ) -> dict[str, Any]:
        from ..infometic.words import encode_pieces, nearest_regions, word_scores

        first = len(self.sequence.before)
        scores = word_scores(pieces, token_scores[first : first + len(pieces)], words)
        near: list[int | None] = [None] * len(words)
        if self.judge is None:  # which says itself what each word is most like
            near = nearest_regions(pieces, encode_pieces(self.backbone, pieces.ids), words, seen.embeddings)
        return {
            "fits": None,
            "p_fits": None,
            "words": [
                {
                    "text": word.text,
                    "start": word.start,
                    "end": word.end,
                    "score": score,
                    "semantic": word.semantic,
                    "word_class": word.word_class,
                    "p_correct": None,
                    "correct": None if score is None or not word.semantic else score > self.beta,
                    "region": None if score is None else region,
                }
                for word, score, region in zip(words, scores, near, strict=True)
            ],
            "regions": [
                {
                    "box": [float(edge) for edge in box],
                    "score": float(score),
                    "p_mentioned": None,
                    "mentioned": bool(score > self.beta),
                    "name": label,
                    "confidence": float(confidence),
                    "label": label,
                }
                for box, score, confidence, label in zip(
                    seen.boxes, region_scores[: len(seen.boxes)], seen.confidences, seen.labels, strict=True
                )
            ],
            "null": float(region_scores[-1]),
            "image_size": list(seen.size),
            "n_words_cut": sum(score is None for score in scores),
            "boxes_given": seen.given,
        }

    def _warn_about_cut(self, cut: np.ndarray) -> None:
        if cut.any():
            warn(
                TruncationWarning(
                    f"{cut.sum()} of {len(cut)} rows have a caption of more than {self.sequence.room} "
                    f"pieces; no word after them is scored (first such row: {cut.argmax()})"
                )
            )

    def _warn_about_regions(self, kept: list[int], details: list[dict[str, Any]]) -> None:
        empty = [row for row, detail in zip(kept, details, strict=True) if not detail["regions"]]
        if empty:
            warn(
                RegionWarning(
                    f"{len(empty)} of {len(kept)} rows have an image in which no region was found: nothing "
                    f"in it can be mentioned, and their recall is 0 (first such row: {empty[0]})"
                )
            )


class _Pairs:
    """The distinct pairs of image and caption among rows.

    Attributes:
        distinct: The pairs: regions, place of the image's embedding, caption, language.
        of_row: int64 (n,), the pair of each row.
    """

    def __init__(self, rows: Sequence[_Pair]):
        place: dict[tuple[int, str, str], int] = {}
        self.distinct: list[_Pair] = []
        of_row = []
        for seen, image, caption, language in rows:
            own = place.setdefault((id(seen), caption, language), len(place))
            if own == len(self.distinct):
                self.distinct.append((seen, image, caption, language))
            of_row.append(own)
        self.of_row = np.array(of_row, np.int64)

    def __len__(self) -> int:
        return len(self.distinct)

    def of_rows(self, details: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The details of each row; each row has its own, which the caller may change."""
        last = dict(zip(self.of_row.tolist(), range(len(self.of_row)), strict=True))
        return [
            details[place] if last[place] == row else _copied(details[place])
            for row, place in enumerate(self.of_row.tolist())
        ]

    def blocks(self, size: int) -> list[list[int]]:
        """Places of the pairs in blocks; those with the same caption are together, so it is read once."""
        first: dict[str, int] = {}
        for place, (_, _, caption, _) in enumerate(self.distinct):
            first.setdefault(caption, place)
        order = sorted(range(len(self)), key=lambda place: first[self.distinct[place][2]])
        return [order[start : start + size] for start in range(0, len(order), size)]


@dataclass
class _Found:
    """What is known of pairs: numbers by name, details, and which captions were cut, and by what."""

    values: dict[str, np.ndarray]
    truncated: np.ndarray
    cut: np.ndarray
    details: list[dict[str, Any]]

    @classmethod
    def empty(cls, count: int) -> _Found:
        names = ("image_cosine", "recall", "precision")
        return cls(
            {name: np.zeros(count) for name in names},
            np.zeros(count, dtype=bool),
            np.zeros(count, dtype=bool),
            [{} for _ in range(count)],
        )


def _copied(detail: dict[str, Any]) -> dict[str, Any]:
    """The same detail in other dicts and lists."""
    return {
        **detail,
        "words": [{**word} for word in detail["words"]],
        "regions": [{**region, "box": [*region["box"]]} for region in detail["regions"]],
        "image_size": [*detail["image_size"]],
    }


@contextmanager
def _finder_options() -> Iterator[None]:
    """Errors about the `names` of a finder become errors about the option `region_names`."""
    try:
        yield
    except InputError as error:
        if error.field != "names":
            raise
        raise InputError(Setting("region_names"), ": ", *error.parts) from None


def _some(contexts: list[_Context] | None, places: Iterable[int]) -> list[_Context] | None:
    return None if contexts is None else [contexts[place] for place in places]


def _is_cut(pieces: list[Pieces]) -> np.ndarray:
    """bool (n,), True where a caption has more pieces than can be scored."""
    return np.array([piece.n_cut > 0 for piece in pieces], dtype=bool)


def _padded(
    parts: list[np.ndarray], width: int, device: str, first: int = 0, length: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """n matrices of different heights → float32 (n, m, width), zeros around, and a mask of rows (n, m).

    Each matrix begins at row `first`; m is the least that holds them all, or `length`.
    """
    import torch

    most = max((first + len(part) for part in parts), default=0) if length is None else length
    batch = np.zeros((len(parts), most, width), np.float32)
    mask = np.zeros((len(parts), most), dtype=bool)
    for row, part in enumerate(parts):
        batch[row, first : first + len(part)] = part
        mask[row, first : first + len(part)] = True
    return torch.from_numpy(batch).to(device), torch.from_numpy(mask).to(device)


def _blocks(lengths: list[int], size: int = _BLOCK) -> list[np.ndarray]:
    """Places of items with these lengths, in blocks of items of like length."""
    order = np.argsort(lengths, kind="stable")
    return [order[start : start + size] for start in range(0, len(order), size)]


def _plain(boxes: Any) -> str:
    return repr(boxes.tolist() if hasattr(boxes, "tolist") else boxes)
