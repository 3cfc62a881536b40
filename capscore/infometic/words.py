"""Captions → their words, with places and classes, and the pieces that a backbone's text tower reads.

InfoMetIC encodes each piece without its neighbours, since a text tower's states within a caption describe the
caption more than the word (Hu et al. 2023, appendix A). What a word means in its caption is the change of the
caption's embedding if the word is left out.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain, compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..backbones.base import Backbone
from ..errors import CapscoreError, Setting
from ..text import word_classes
from ..text.languages import stated_code
from ..text.letters import lower

if TYPE_CHECKING:
    import torch

    from ..embedding.embedder import Embedder
    from ..text.taggers import Word
    from .network import InfoMetIC, InfoMetICConfig, States

# The classes of the paper (Hu et al. 2023, section 3.2.1), and numbers, since counts can be seen as well.
SEMANTIC_CLASSES = frozenset(("noun", "verb", "adjective", "adverb", "number"))
MAX_PIECES = 32  # per caption (Hu et al. 2023, section 4.1)
MAX_REMEMBERED = 32_768  # rows per backbone, 64 MB with 512 numbers each
_BATCH = 128


class CaptionWord(NamedTuple):
    """A word of a caption: `caption[start:end]`.

    Attributes:
        semantic: Whether its class is one of `SEMANTIC_CLASSES`.
        word_class: A class of `capscore.text.word_classes`, or "number": a word in digits, or a number word
            for which the tagger finds no other class, but not "one", the article in most languages.
    """

    text: str
    start: int
    end: int
    semantic: bool
    word_class: str


def caption_words(texts: Sequence[str], language: str | None = None) -> list[list[CaptionWord]]:
    """The words of captions in a language (None for English), without punctuation, in the order of the text.

    Raises InputError for a row that is not a string or a language without a tagger, and MissingExtraError for
    a tagger that is not installed.
    """
    code = stated_code(language)

    def word(tagged: Word) -> CaptionWord:
        word_class = tagged.word_class
        if word_class == "other" and _is_number(tagged.text, code):
            word_class = "number"
        is_semantic = word_class in SEMANTIC_CLASSES
        return CaptionWord(tagged.text, tagged.start, tagged.end, is_semantic, word_class)

    return [list(map(word, row)) for row in word_classes.tag(texts, language)]


def words_by_language(texts: Sequence[str], languages: Sequence[str]) -> list[list[CaptionWord]]:
    """`caption_words` of captions with a language each; a tagger has all captions of its language at once."""
    found: list[list[CaptionWord]] = [[] for _ in texts]
    for language in dict.fromkeys(languages):
        rows = [row for row, spoken in enumerate(languages) if spoken == language]
        words = caption_words([texts[row] for row in rows], language or None)
        for row, listed in zip(rows, words, strict=True):
            found[row] = listed
    return found


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of one caption; len() is their number p.

    Attributes:
        starts, ends: int64 (p,), index of each piece's first character, and after its last one; equal for a
            piece that writes nothing. Pieces of one character share its place.
        read_to: Number of characters before the first piece that was left out; all characters if none was.
    """

    ids: list[int]
    starts: np.ndarray
    ends: np.ndarray
    n_cut: int
    read_to: int

    def __len__(self) -> int:
        return len(self.ids)


def split_pieces(backbone: Backbone, texts: Sequence[str], max_pieces: int = MAX_PIECES) -> list[Pieces]:
    """The pieces of captions; each distinct one is tokenised once, and equal ones share an object."""
    distinct = list(dict.fromkeys(texts))
    by_text = {}
    for text, spans in zip(distinct, backbone.piece_spans(distinct), strict=True):
        rows = np.array(spans[:max_pieces], np.int64).reshape(-1, 3)
        n_cut = max(0, len(spans) - max_pieces)
        read_to = spans[max_pieces][1] if n_cut else len(text)
        by_text[text] = Pieces(rows[:, 0].tolist(), rows[:, 1], rows[:, 2], n_cut, read_to)
    return [by_text[text] for text in texts]


@dataclass(frozen=True)
class PieceSequence:
    """The sequence in which a network reads the pieces of a caption.

    >>> sequence = PieceSequence(6, (101,), (102,), 0)
    >>> sequence.max_pieces, sequence.ids([7, 8])
    (4, [101, 7, 8, 102, 0, 0])
    """

    length: int = MAX_PIECES
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    pad_token: int | None = None

    @classmethod
    def of(cls, backbone: Backbone, config: InfoMetICConfig) -> PieceSequence:
        """The sequence that a network with this config reads."""
        before, after = backbone.special_tokens() if config.frame else ([], [])
        sequence = cls(config.max_tokens, tuple(before), tuple(after), config.pad_token)
        if sequence.max_pieces < 1:
            raise CapscoreError(
                Setting("max_tokens", config.max_tokens),
                f" leaves no room for pieces: {backbone.name!r} puts {len(before) + len(after)} special "
                "tokens around a text",
            )
        return sequence

    @property
    def max_pieces(self) -> int:
        return self.length - len(self.before) - len(self.after)

    def ids(self, pieces: Sequence[int]) -> list[int]:
        """All tokens of the sequence with these pieces, of which there are at most `max_pieces`."""
        ids = [*self.before, *pieces, *self.after]
        return ids if self.pad_token is None else ids + [self.pad_token] * (self.length - len(ids))


# Backbone → its fingerprint, and the embeddings of pieces by id.
_encoded: weakref.WeakKeyDictionary[Backbone, tuple[str, dict[int, np.ndarray]]] = weakref.WeakKeyDictionary()


def encode_pieces(backbone: Backbone, ids: Sequence[int] | np.ndarray) -> np.ndarray:
    """Embeddings of single pieces between the special tokens of the tower: start, piece, end.

    Token ids, with or without repetitions → float32 (n, d), rows from `Backbone.encode_tokens`. Up to
    `MAX_REMEMBERED` rows are remembered as long as the backbone exists. Raises CapscoreError for NaN.
    """
    wanted, row_of = np.unique(np.asarray(ids, np.int64).reshape(-1), return_inverse=True)
    if not len(wanted):
        return np.zeros((0, backbone.dim), np.float32)
    fingerprint, known = _encoded.get(backbone, ("", {}))
    if fingerprint != backbone.fingerprint:
        known = {}
    before, after = backbone.special_tokens()
    missing = [token for token in wanted.tolist() if token not in known]
    for start in range(0, len(missing), _BATCH):
        batch = missing[start : start + _BATCH]
        rows = backbone.encode_tokens([[*before, token, *after] for token in batch])
        if not np.isfinite(rows).all():
            raise CapscoreError(f"{backbone.name} returned NaN or infinity in {backbone.dtype} for a piece")
        known.update(zip(batch, rows, strict=True))
    rows = np.stack([known[token] for token in wanted.tolist()])
    if len(known) > MAX_REMEMBERED:  # the latest pieces are the likeliest to be needed next
        known = dict(zip(wanted[:MAX_REMEMBERED].tolist(), rows, strict=False))
    _encoded[backbone] = backbone.fingerprint, known
    return rows[row_of.reshape(-1)]


def word_shares(pieces: Pieces, words: Sequence[CaptionWord]) -> np.ndarray:
    """The share of each piece that belongs to each word, float64 (pieces, words).

    Rows sum to 1, or to 0 for a piece outside all words. A piece in several words is divided by characters.
    """
    spans = np.array([(word.start, word.end) for word in words], np.int64).reshape(-1, 2)
    first = np.maximum(pieces.starts[:, None], spans[:, 0])
    after = np.minimum(pieces.ends[:, None], spans[:, 1])
    common = np.maximum(after - first, 0).astype(np.float64)
    return common / np.maximum(common.sum(axis=1, keepdims=True), 1.0)


def word_scores(pieces: Pieces, piece_scores: np.ndarray, words: Sequence[CaptionWord]) -> list[float | None]:
    """Sums of the scores (p,) of each word's pieces; None for a word that was cut or has no piece."""
    shares = word_shares(pieces, words)
    sums, has_pieces = np.asarray(piece_scores, np.float64) @ shares, np.any(shares, axis=0)
    return [
        total if known and word.end <= pieces.read_to else None
        for word, total, known in zip(words, sums.tolist(), has_pieces.tolist(), strict=True)
    ]


def nearest_regions(
    pieces: Pieces, rows: np.ndarray, words: Sequence[CaptionWord], regions: np.ndarray
) -> list[int | None]:
    """For each word the region whose embedding is most like it, by cosine.

    The embedding of a word is the mean of `rows` (p, d) of its pieces; `regions` is (m, d). None for a word
    that is not semantic or has no piece, and without regions.
    """
    if not len(regions):
        return [None] * len(words)
    shares = word_shares(pieces, words)
    lengths = np.linalg.norm(regions, axis=1, keepdims=True)
    likeness = (shares.T @ np.asarray(rows, np.float64)) @ (regions / np.maximum(lengths, 1e-12)).T
    nearest, has_pieces = likeness.argmax(axis=1).tolist(), np.any(shares, axis=0).tolist()
    return [
        index if word.semantic and known else None
        for word, index, known in zip(words, nearest, has_pieces, strict=True)
    ]


def without_word(caption: str, word: CaptionWord) -> str:
    """A caption without one of its words, with runs of blanks as one."""
    return " ".join((caption[: word.start] + caption[word.end :]).split())


def added_by_words(
    captions: Sequence[str],
    words: Sequence[Sequence[CaptionWord]],
    embed: Callable[[Sequence[str]], np.ndarray],
) -> list[np.ndarray]:
    """What each word that counts adds to its caption; each distinct text is embedded once.

    `embed` gives the unit embeddings (m, d) of m texts. Returns n float32 arrays (w, d): embedding of the
    caption minus that of the caption without the word.
    """
    index: dict[str, int] = {}
    numbers = []  # of each caption, and of its text without each word
    for caption, row in zip(captions, words, strict=True):
        texts = [caption, *(without_word(caption, word) for word in row)]
        numbers.append([index.setdefault(text, len(index)) for text in texts])
    rows = np.asarray(embed(list(index)), np.float32)
    return [rows[first] - rows[others].reshape(len(others), rows.shape[1]) for first, *others in numbers]


def spread(shares: np.ndarray, added: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What words add, and their weight, for each piece (`capscore.infometic.network.WordContext`).

    From `word_shares` (p, w) of the words that count, and what these words add (w, d): float32 (p, d) and
    (p,). A piece of several words gets a share of each; a piece of several whole words has weight 1.
    """
    in_pieces = np.asarray(shares.sum(axis=0), np.float64)
    share_of_word = np.divide(1.0, in_pieces, out=np.zeros_like(in_pieces), where=in_pieces > 0)
    weight = np.minimum(shares @ share_of_word, 1.0)
    return (shares @ added).astype(np.float32), weight.astype(np.float32)


class ReadCaption(NamedTuple):
    """A caption and what is read of it.

    `is_cut` says whether it, or its sequence of pieces, is too long to be read whole; `context` (`spread`)
    is there for networks that read words.
    """

    text: str
    language: str
    embedding: np.ndarray
    is_cut: bool
    words: list[CaptionWord]
    pieces: Pieces
    context: tuple[np.ndarray, np.ndarray] | None


class CaptionReader:
    """Reads captions for a network, and encodes them."""

    def __init__(self, embedder: Embedder, prefix: str, network: InfoMetIC):
        self.embedder, self.prefix, self.network = embedder, prefix, network
        self.backbone = embedder.backbone
        self.sequence = PieceSequence.of(self.backbone, network.config)

    def embedded(self, texts: Sequence[str]) -> np.ndarray:
        rows = self.embedder.texts(texts, prefix=self.prefix, quiet=True)
        return rows.matrix[rows.index]

    def read(
        self, captions: Sequence[str], languages: Sequence[str], *, words: bool = True
    ) -> list[ReadCaption]:
        embedded = self.embedder.texts(captions, prefix=self.prefix, quiet=True)
        pieces = split_pieces(self.backbone, captions, self.sequence.max_pieces)
        tagged = words_by_language(captions, languages) if words else [[] for _ in captions]
        contexts: Sequence[tuple[np.ndarray, np.ndarray] | None] = [None] * len(captions)
        if self.network.reads_words:
            contexts = self._contexts(captions, tagged, pieces)
        vectors, truncated = embedded.matrix[embedded.index], embedded.truncated[embedded.index]
        is_cut = truncated | np.array([piece.n_cut > 0 for piece in pieces], dtype=bool)
        columns = zip(captions, languages, vectors, is_cut, tagged, pieces, contexts, strict=True)
        return [ReadCaption(*column) for column in columns]

    def _contexts(
        self, captions: Sequence[str], words: list[list[CaptionWord]], pieces: list[Pieces]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each caption, what its semantic words add to its pieces, and the weights of the pieces."""
        counted, shares = [], []
        for row, piece in zip(words, pieces, strict=True):
            is_counted = [word.semantic and word.end <= piece.read_to for word in row]
            counted.append([*compress(row, is_counted)])
            shares.append(word_shares(piece, row)[:, np.array(is_counted, dtype=bool)])
        added = added_by_words(captions, counted, self.embedded)
        return [spread(*pair) for pair in zip(shares, added, strict=True)]

    def states(self, captions: Sequence[ReadCaption]) -> States:
        import torch

        from .network import WordContext, padded

        device, first = self.backbone.device, len(self.sequence.before)
        ids = [self.sequence.ids(caption.pieces.ids) for caption in captions]
        encoded = encode_pieces(self.backbone, [*chain.from_iterable(ids)])
        tokens, mask = padded(np.split(encoded, np.cumsum([len(listed) for listed in ids])[:-1]), device)

        def framed(parts: Iterable[np.ndarray]) -> torch.Tensor:
            """Arrays of pieces, moved behind the special tokens before them."""
            moved = [np.concatenate([np.zeros((first, *part.shape[1:])), part]) for part in parts]
            return padded(moved, device, min_length=tokens.shape[1])[0]

        scored = framed(np.ones(len(caption.pieces)) for caption in captions).bool()
        contexts = [caption.context for caption in captions if caption.context is not None]
        context = WordContext(*map(framed, zip(*contexts, strict=True))) if contexts else None
        whole = torch.from_numpy(np.stack([caption.embedding for caption in captions])).to(device)
        return self.network.encode_texts(whole, tokens, mask, scored, context)

    def pieces_of(self, token_scores: np.ndarray, caption: ReadCaption) -> np.ndarray:
        """The scores of a caption's pieces among those of all tokens."""
        first = len(self.sequence.before)
        return token_scores[first : first + len(caption.pieces)]


# Numbers in Chinese characters are joined to the measure word; 一 alone is the article.
_HAN = re.compile("[二三四五六七八九十百千两兩]|一[十百千]")


def numbers() -> dict[str, list[str]]:
    """Language → two to ten in the forms that occur in captions, and larger numbers."""
    return _word_lists("numbers.tsv")


@cache
def _word_lists(name: str) -> dict[str, list[str]]:
    lines = files(__package__).joinpath(name).read_text(encoding="utf-8").splitlines()
    return {code: words.split() for code, words in (line.split("\t") for line in lines)}


def is_collective(word: str, code: str) -> bool:
    """Whether a noun says how many there are together ("couple", "group"), not what is seen.

    >>> is_collective("Couple", "en"), is_collective("Gruppe", "de"), is_collective("dog", "en")
    (True, True, False)
    """
    return lower(word, code) in _word_lists("collective_nouns.tsv").get(code, ())


def _is_number(word: str, code: str) -> bool:
    word = lower(word, code)
    if word in numbers().get(code, ()) or any(map(str.isdecimal, word)):
        return True
    return code in ("ja", "zh") and _HAN.match(word) is not None
