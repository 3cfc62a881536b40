"""Captions → their words, with places and classes, and the pieces that a backbone's text tower reads.

InfoMetIC encodes each piece without its neighbours, since a text tower's states within a caption describe the
caption more than the word (Hu et al. 2023, appendix A). What a word means in its caption is the change of the
caption's embedding if the word is left out.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..backbones.base import Backbone
from ..errors import CapscoreError, Setting
from ..text import word_classes
from ..text.languages import language_code

if TYPE_CHECKING:
    from .network import InfoMetICConfig

# The classes of the paper (Hu et al. 2023, section 3.2.1), and numbers, since counts can be seen as well.
SEMANTIC_CLASSES = frozenset(("noun", "verb", "adjective", "adverb", "number"))
MAX_PIECES = 32  # per caption (Hu et al. 2023, section 4.1)
MAX_REMEMBERED = 32_768  # rows per backbone, 64 MB with 512 numbers each
_BATCH = 128


class CaptionWord(NamedTuple):
    """A word of a caption: `caption[start:end]`.

    Attributes:
        text, start, end: The word as spelled in the caption, and where it begins and ends.
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

    Raises InputError for a row that is not a string or a language without a tagger, and MissingExtraError
    for a
    tagger that is not installed.
    """
    code = "en" if language is None else language_code(language)

    def word(text: str, start: int, end: int, word_class: str) -> CaptionWord:
        if word_class == "other" and _is_number(text, code):
            word_class = "number"
        return CaptionWord(text, start, end, word_class in SEMANTIC_CLASSES, word_class)

    return [[word(*tagged) for tagged in row] for row in word_classes.tag(texts, language)]


# ------------------------------------------------------------------ pieces


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of one caption; len() is their number p.

    Attributes:
        ids: p token ids, without special tokens.
        starts, ends: int64 (p,), index of each piece's first character, and after its last one; equal for a
            piece that writes nothing. Pieces of one character share its place.
        n_cut: Number of pieces beyond the limit, which are left out.
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
    """The pieces of captions; each distinct caption is tokenised once, and equal captions share one object.

    At most `max_pieces` of a caption; no prefix is added. Raises CapscoreError if the backbone cannot say
    where its tokens are.
    """
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

    Attributes:
        length: Maximum number of tokens in the sequence.
        before, after: Special tokens before and after the pieces.
        pad_token: Token that fills every sequence up to `length`; None for no filling.

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
        """The sequence that a network with this config reads.

        Raises:
            CapscoreError: the frame leaves no room for pieces, or the backbone cannot say what it is.
        """
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
        """Maximum number of pieces."""
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


# ------------------------------------------------------------------ words and their pieces


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


# ------------------------------------------------------------------ what words add to their captions


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


# ------------------------------------------------------------------ numbers

# Two to ten in the forms that occur in captions, and larger numbers; no words that often mean something else.
_NUMBERS = {
    "ar": "اثنان اثنين اثنتان اثنتين ثلاثة ثلاث أربعة أربع خمسة خمس ستة ست سبعة سبع ثمانية ثماني تسعة تسع "
    "عشرة عشر",
    "bg": "два две двама три трима четири четирима пет шест седем осем девет десет",
    "ca": "dos dues tres quatre cinc sis set vuit nou deu",
    "cs": "dva dvě dvou dvěma tři tří třemi čtyři čtyř čtyřmi pět pěti šest šesti sedm osm devět deset",
    "da": "to tre fire fem seks syv otte ni ti",
    "de": "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig hundert tausend",
    "el": "δύο δυο τρεις τρία τέσσερις τέσσερα πέντε έξι επτά εφτά οκτώ οχτώ εννέα εννιά δέκα",
    "en": "two three four five six seven eight nine ten eleven twelve twenty thirty hundred thousand",
    "es": "dos tres cuatro cinco seis siete ocho nueve diez once doce veinte cien",
    "et": "kaks kahe kolm kolme neli nelja viis viie kuus kuue seitse kaheksa üheksa kümme",
    "eu": "bi hiru lau bost sei zazpi zortzi bederatzi hamar",
    "fa": "دو سه چهار پنج شش هفت هشت نه ده",
    "fi": "kaksi kahden kahta kolme kolmen neljä neljän viisi viiden kuusi seitsemän kahdeksan yhdeksän "
    "kymmenen",
    "fr": "deux trois quatre cinq six sept huit neuf dix onze douze vingt cent",
    "he": "שני שתי שניים שתיים שלושה שלוש ארבעה ארבע חמישה חמש שישה שש שבעה שבע שמונה תשעה תשע עשרה עשר",
    "hi": "दो तीन चार पांच पाँच छह छः सात आठ नौ दस",
    "hr": "dva dvije dvoje tri troje četiri pet šest sedam osam devet deset",
    "hu": "két kettő három négy öt hat hét nyolc kilenc tíz",
    "id": "dua tiga empat lima enam tujuh delapan sembilan sepuluh",
    "it": "due tre quattro cinque sei sette otto nove dieci undici dodici venti cento",
    "ja": "ふたり ふたつ みっつ よっつ いつつ",
    "ko": "두 세 네 둘 셋 넷 다섯 여섯 일곱 여덟 아홉 열",
    "nl": "twee drie vier vijf zes zeven acht negen tien elf twaalf twintig honderd",
    "no": "to tre fire fem seks sju syv åtte ni ti",
    "pl": "dwa dwie dwóch dwoje dwaj trzy trzech troje trzej cztery czterech czworo czterej pięć pięciu "
    "sześć sześciu siedem siedmiu osiem ośmiu dziewięć dziesięć",
    "pt": "dois duas três quatro cinco seis sete oito nove dez onze doze vinte cem",
    "ro": "doi două trei patru cinci șase şase șapte şapte opt nouă zece",
    "ru": "два две двое двух двумя три трое трёх трех тремя четыре четверо четырёх четырех пять пятеро пяти "
    "шесть шесть семь восемь девять десять",
    "sl": "dva dve tri trije štiri štirje pet šest sedem osem devet deset",
    "sv": "två tre fyra fem sex sju åtta nio tio",
    "th": "สอง สาม สี่ ห้า หก เจ็ด แปด เก้า สิบ",
    "tr": "iki üç dört beş altı yedi sekiz dokuz on",
    "uk": "два дві двоє двох три троє трьох чотири четверо чотирьох п'ять п’ять п'ятеро шість сім вісім "
    "дев'ять дев’ять десять",
}
# Numbers in Chinese characters are joined to the measure word; 一 alone is the article.
_HAN = re.compile("[二三四五六七八九十百千两兩]|一[十百千]")


def _is_number(word: str, code: str) -> bool:
    """Whether a word without another class is a number in a language."""
    if word.lower() in _NUMBERS.get(code, "").split() or any(map(str.isdecimal, word)):
        return True
    return code in ("ja", "zh") and _HAN.match(word) is not None
