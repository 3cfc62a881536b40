"""Scorers with a backbone: rows are embedded, and their cosines go into a formula."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from .. import __version__
from ..backbones.base import DTYPES, Backbone
from ..errors import ImageError, InputError, LanguageWarning, Setting, TruncationWarning, warn
from ..text.segmentation import string_problem
from ..text.sentences import RULE, SHORT, split_texts
from .base import Scorer
from .rows import InputRows, PreparedRows, row_settings
from .scores import Scores

if TYPE_CHECKING:
    from ..embedding.embedder import EmbeddedRows, Embedder

# a letter, digit or sign after which a word begins with a blank
_ENDS_IN_WORD = re.compile(r"[^\W\u2e80-\u9fff\uff00-\uffef]\Z|[.,;:!?)]\Z").search
_LOG = logging.getLogger(__name__)
# options of `load` for the backbone, and for its embedder
_OF_BACKBONE = ("device", "dtype", "revision", "image_tower")
_OF_EMBEDDER = ("batch_size", "allow_urls", "allow_private_urls", "progress")


class BackboneScorer(Scorer):
    """Scores rows by the cosines of their embeddings.

    Args:
        embedder: Embedder of images and texts; holds the backbone.
        prefix: Text before each candidate and reference, with a blank after a word; None takes what the
            backbone's makers state, else what the metric was published with.
        long: Way to read a text beyond the backbone's context: "cut" reads its beginning, as published, and
            "sentences" all of it, sentence by sentence, weighted by length. Default: "cut"; for `embedded`
            and its relatives "sentences", which there splits every text of several sentences.
        common: Options of `Scorer`; with empty="score", the text without words is the prefix alone.
    """

    takes_backbone: ClassVar[bool] = True
    needs_images: ClassVar[bool] = True
    retrieves_by_cosine: ClassVar[bool] = True
    published_prefix: ClassVar[str] = ""
    embedder: Embedder

    def __init__(
        self,
        embedder: Embedder,
        *,
        prefix: str | None = None,
        long: Literal["cut", "sentences"] | None = None,
        **common: Any,
    ):
        super().__init__(**common)
        self.embedder = embedder
        self.check({"prefix": prefix, "long": long})
        if prefix is None:
            towers = embedder.backbone
            prefix = towers.prefix if towers.prefix or towers.states_prefix else self.published_prefix
        # it does not run into the caption's first word; Chinese and Japanese have no blanks
        self.prefix = f"{prefix} " if _ENDS_IN_WORD(prefix) else prefix
        self.long = long or ("sentences" if embedder.backbone.by_sentence else "cut")
        self.cuts_by_wish = long == "cut" and embedder.backbone.by_sentence

    @classmethod
    def open_backbone(cls, spec: Any, options: Mapping[str, Any]) -> Embedder:
        from ..backbones import load_backbone
        from ..embedding.cache import resolve_cache
        from ..embedding.embedder import Embedder

        of_backbone = {name: options[name] for name in _OF_BACKBONE if name in options}
        of_embedder = {name: options[name] for name in _OF_EMBEDDER if name in options}
        cache = resolve_cache(options.get("cache"))
        towers = load_backbone(spec, **of_backbone)
        _LOG.info("loaded %s@%s on %s, %s", towers.name, towers.revision, towers.device, towers.dtype)
        return Embedder(towers, cache=cache, **of_embedder)

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        prefix = options.get("prefix")
        if prefix is not None and (problem := string_problem(prefix)):
            raise InputError(Setting("prefix", prefix), f": {problem}")
        if options.get("long") not in (None, "cut", "sentences"):
            raise InputError(Setting("long", options["long"]), ": expected 'cut' or 'sentences'")

    @property
    def backbone(self) -> Backbone:
        return self.embedder.backbone

    @property
    def value_names(self) -> tuple[str, ...]:
        names = {"image_cosine": self.needs_images, "text_cosine": self.compares_texts}
        names["has_long"] = self.long == "sentences"
        return tuple(name for name, is_measured in names.items() if is_measured)

    @property
    def signed_values(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("has_long",) if "has_long" in self.value_names else ()

    @property
    def compares_texts(self) -> bool:
        """Whether candidates are compared with references by their embeddings."""
        return self.needs_references

    @abstractmethod
    def constants(self) -> dict[str, object]:
        """The constants of the formula, for the signature."""

    @abstractmethod
    def combine(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The formula: (n,) numbers of each of `value_names` → scores, components.

        "image_cosine" compares candidate and image, "text_cosine" candidate and best reference.
        """

    def text_values(self, texts: EmbeddedRows, rows: np.ndarray) -> dict[str, np.ndarray]:
        """More values of n candidates; `rows` (n,) are those of `texts.matrix` and `texts.verdicts`."""
        return {}

    def finish(self, rows: PreparedRows) -> Scores:
        return self.finish_with(rows, {}, {})

    def finish_with(
        self, rows: PreparedRows, values: Mapping[str, np.ndarray], settings: Mapping[str, object]
    ) -> Scores:
        """`finish`, with numbers that are known only now, and the settings they depend on."""
        kept = rows.kept
        measured = {name: rows.values[name][kept] for name in self.value_names}
        scores, components = self.combine({**measured, **values})
        stated = self._settings_of_texts(any(measured[name].any() for name in self.signed_values))
        stated |= {**settings, **row_settings(rows), **self.last_settings}
        return self.make_scores(rows, scores, components, stated)

    def _settings_of_texts(self, have_long: bool) -> dict[str, object]:
        """The settings that come before those of the rows, and the way to read long texts.

        It is named where there are long texts: only then does it change a number. Of texts that are not split
        against the backbone's custom, it is not known which are long.
        """
        if self.cuts_by_wish or have_long:
            return {**self.first_settings, "long": RULE if self.long == "sentences" else self.long}
        return self.first_settings

    def embed_to_retrieve(
        self, captions: Sequence[str], images: Any
    ) -> tuple[np.ndarray, np.ndarray, dict[str, object]]:
        """Embeddings whose products rank photos and captions as the cosines in the scores of pairs do.

        Returns:
            float32 (a, d) of the photos and (b, d) of the captions, and the settings that they depend on. A
            row is of unit length, except for that of a caption which is read by its sentences.
        """
        photos = self.embedder.images(images)
        texts, is_long = self.texts(captions)
        self.warn_about_truncation(texts.truncated[texts.index])
        settings = {**self._settings_of_texts(bool(is_long.any())), **self.last_settings}
        return photos.matrix[photos.index], texts.matrix[texts.index], settings

    @property
    def settings(self) -> dict[str, object]:
        return {**self.first_settings, **self.last_settings}

    @property
    def first_settings(self) -> dict[str, object]:
        """The settings that come before those of the rows."""
        backbone = self.backbone
        settings: dict[str, object] = {"backbone": f"{backbone.name}@{backbone.revision}"}
        if backbone.rated_from:
            settings["rated"] = backbone.rated_from
        settings |= {**self.constants(), "prefix": self.prefix}
        if backbone.text_rule:
            settings["text"] = backbone.text_rule
        return settings

    @property
    def last_settings(self) -> dict[str, object]:
        """The settings that come after those of the rows."""
        settings: dict[str, object] = {"dtype": DTYPES[self.backbone.dtype]}
        if self.needs_images:
            settings["exif"] = "yes"
        return settings | {"version": __version__}

    def measure(self, rows: InputRows, on_error: str) -> dict[str, np.ndarray]:
        if self.compares_photos:
            return self._measure_photos(rows, on_error)
        self.warn_about_languages(rows.languages)
        n_rows = len(rows.candidates)
        if self.needs_images:
            images = self.embedder.images(rows.images, on_error=on_error, skip=rows.left_out())
            rows.failures.update(images.failures)
            rows.image_keys = images.keys
        kept = np.flatnonzero(rows.kept())
        lists = rows.references if self.compares_texts and rows.references else [[]] * n_rows
        references = [*itertools.chain.from_iterable(lists[row] for row in kept)]
        sizes = np.array([len(lists[row]) for row in kept], dtype=np.int64)
        owners = np.repeat(np.arange(len(kept)), sizes)  # which kept row a reference belongs to
        embedded, is_long = self.texts([*(rows.candidates[row] for row in kept), *references])
        candidates, compared = np.split(embedded.index, [len(kept)])
        values = self.text_values(embedded, candidates)
        if self.long == "sentences":
            values["has_long"] = is_long[: len(kept)].astype(np.float64)
            np.maximum.at(values["has_long"], owners, is_long[len(kept) :])
        if self.needs_images:
            values["image_cosine"] = row_cosines(
                images.matrix, images.index[kept], embedded.matrix, candidates
            )
        if self.compares_texts:
            lengths = np.ones(len(is_long))
            lengths[is_long] = np.linalg.norm(embedded.matrix[embedded.index[is_long]], axis=1)
            pairs = row_cosines(embedded.matrix, candidates[owners], embedded.matrix, compared)
            pairs /= np.maximum(lengths[owners] * lengths[len(kept) :], 1e-9)
            values["text_cosine"] = np.full(len(kept), -np.inf)
            np.maximum.at(values["text_cosine"], owners, pairs)
        rows.truncated[kept[embedded.truncated[candidates]]] = True
        rows.truncated[kept[owners[embedded.truncated[compared]]]] = True
        self.warn_about_truncation(rows.truncated)
        return values

    def _measure_photos(self, rows: InputRows, on_error: str) -> dict[str, np.ndarray]:
        try:
            candidates = self.embedder.images(rows.candidates, on_error=on_error, skip=rows.left_out())
        except ImageError as error:
            raise error if error.row is None else error.at(error.row, "candidate") from error
        failed = candidates.failures.items()
        rows.failures.update((row, error.at(row, "candidate")) for row, error in failed)
        images = self.embedder.images(rows.images, on_error=on_error, skip=rows.left_out())
        rows.failures.update(images.failures)
        kept = np.flatnonzero(rows.kept())
        rows.image_keys = images.keys
        cosines = row_cosines(candidates.matrix, candidates.index[kept], images.matrix, images.index[kept])
        return {"image_cosine": cosines}

    def texts(self, texts: Sequence[str]) -> tuple[EmbeddedRows, np.ndarray]:
        """Embed one text per row, as `Embedder.texts`; a long one, where it is split, by its sentences.

        Returns:
            The rows, and bool (n,), which texts were split. The row of such a text is the mean of those of
            its sentences, weighted by length. It is not of unit length: its product with a photo's row is the
            mean of the sentences' cosines. Its verdict is the mean of theirs.
        """
        distinct = list(dict.fromkeys(texts))
        unwrapped = dict(zip(distinct, self.backbone.unwrapped(distinct), strict=True))
        texts = [unwrapped[text] for text in texts]
        parts = self._split_texts(texts)
        if not parts:
            return self.embedder.texts(texts, prefix=self.prefix), np.zeros(len(texts), dtype=bool)
        listed = [part for text in texts for part, _ in parts.get(text, [(text, 1)])]
        embedded = self.embedder.texts(listed, prefix=self.prefix)
        is_split = np.array([text in parts for text in texts], dtype=bool)
        sizes = np.array([len(parts.get(text, "1")) for text in texts])
        starts = np.cumsum(sizes) - sizes
        index, n_rows = embedded.index[starts], len(embedded.matrix)
        places: dict[str, int] = {}
        means = []
        for row in np.flatnonzero(is_split).tolist():
            text = texts[row]
            if text not in places:
                places[text] = n_rows + len(places)
                own = embedded.index[starts[row] : starts[row] + sizes[row]]
                sentences, lengths = zip(*parts[text], strict=True)
                shares = np.array(lengths, np.float32)
                shares /= shares.sum()
                verdict = self._joined_verdict(embedded.verdicts[own], shares, sentences)
                means.append((shares @ embedded.matrix[own], embedded.truncated[own].any(), verdict))
            index[row] = places[text]
        rows, cut, verdicts = zip(*means, strict=True)
        joined = dataclasses.replace(
            embedded,
            matrix=np.vstack([embedded.matrix, *rows]),
            index=index,
            keys=["".join(embedded.keys[a : a + k]) for a, k in zip(starts, sizes, strict=True)],
            truncated=np.append(embedded.truncated, cut),
            verdicts=np.vstack([embedded.verdicts, *verdicts]),
        )
        return joined, is_split

    def _joined_verdict(
        self, verdicts: np.ndarray, shares: np.ndarray, sentences: Sequence[str]
    ) -> np.ndarray:
        """Verdicts (m, 1 + k) on a text's sentences, shares of its length (m,), and they → that on it."""
        if not verdicts.shape[1]:
            return verdicts[0]
        import torch

        from ..backbones.embedded.noise_gate import joined_verdict

        kinds = self.backbone.kinds_of_noise
        return joined_verdict(torch.from_numpy(verdicts), torch.from_numpy(shares), sentences, kinds).numpy()

    def _split_texts(self, texts: Sequence[str]) -> dict[str, list[tuple[str, int]]]:
        if self.long == "cut":
            return {}
        short = SHORT if self.backbone.kinds_of_noise else 0
        parts = split_texts(texts, short)
        if parts and not self.backbone.by_sentence:
            cut = self.backbone.tokenize([self.prefix + text for text in parts]).truncated
            parts = dict(itertools.compress(parts.items(), cut))
        return parts

    def warn_about_languages(self, languages: Iterable[str]) -> None:
        known = self.backbone.languages
        if known is None:
            return
        if strange := sorted(set(languages) - {""} - known):
            message = (
                f"backbone {self.backbone.name!r} was not trained on {', '.join(strange)} (it knows "
                f"{', '.join(sorted(known))}): scores in these languages mean little"
            )
            warn(LanguageWarning(message))

    def warn_about_truncation(self, truncated: np.ndarray) -> None:
        if truncated.any():
            message = (
                f"{truncated.sum():,} of {len(truncated):,} rows have a text longer than the "
                f"{self.backbone.max_tokens} tokens of {self.backbone.name!r}; the rest of it was not seen "
                f"(first such row: {truncated.argmax()}, counted from 0)"
            )
            hint = ("; ", Setting("long", "sentences"), " reads all of it") if self.long == "cut" else ()
            warn(TruncationWarning(message, *hint))


def row_cosines(
    left: np.ndarray, left_rows: np.ndarray, right: np.ndarray, right_rows: np.ndarray
) -> np.ndarray:
    """Cosines of n pairs of unit rows → float64 (n,); computed in slices, so that memory stays bounded."""
    out = np.empty(len(left_rows))
    for start in range(0, len(out), 1024):
        part = slice(start, start + 1024)
        out[part] = np.einsum(
            "nd,nd->n", _taken(left, left_rows[part]), _taken(right, right_rows[part]), optimize=False
        )
    return out


def _taken(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """`matrix[rows]`, without a copy where the rows follow one another."""
    first = int(rows[0])
    if first >= 0 and (np.diff(rows) == 1).all():
        return matrix[first : first + len(rows)]
    return matrix[rows]
