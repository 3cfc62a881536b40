"""Captions → their words, with places and classes; scores of a caption's pieces → scores of its words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from ..errors import CapscoreError, Setting
from ..text import word_classes
from ..text.languages import language_code
from .pieces import Pieces

CLASSES = (*word_classes.CLASSES[:-1], "number", "other")
# The classes of the paper (Hu et al. 2023, section 3.2.1), and numbers, since counts can be seen as well.
SEMANTIC_CLASSES = frozenset(("noun", "verb", "adjective", "adverb", "number"))


class CaptionWord(NamedTuple):
    """A word of a caption.

    Attributes:
        text: Word as spelled in the caption, `caption[start:end]`.
        start: Place of its first character, counted from 0.
        end: Place after its last character.
        semantic: Whether its class is one of the semantic ones.
        word_class: One of `CLASSES`. A number is a word in digits, or a number word, for which
            `capscore.text.word_classes` finds no other class; "one" is not a number, since it is the article
            in most languages.
    """

    text: str
    start: int
    end: int
    semantic: bool
    word_class: str


def caption_words(
    texts: Sequence[str], language: str | None = None, *, classes: Collection[str] = SEMANTIC_CLASSES
) -> list[list[CaptionWord]]:
    """The words of captions, without punctuation.

    Args:
        texts: n captions.
        language: Language code of all texts (see `capscore.text.languages.language_code`); None for English.
        classes: The semantic classes among `CLASSES`.

    Returns:
        n lists of words in the order of the text, without overlaps; [] for a caption without words.

    Raises:
        InputError: a row is not a string (the error has its number), or the language has no tagger.
        MissingExtraError: the tagger of the language is not installed.
        CapscoreError: an unknown class.

    >>> words = caption_words(["Two dogs chase a red ball on the beach."], "en")[0]
    >>> [(word.text, word.word_class) for word in words if word.semantic]
    [('Two', 'number'), ('dogs', 'noun'), ('chase', 'verb'), ('red', 'adjective'), ('ball', 'noun'), \
('beach', 'noun')]
    """
    wanted = _checked(classes)
    is_number = _numbers("en" if language is None else language_code(language))
    rows = []
    for tagged in word_classes.tag(texts, language):
        row = []
        for text, start, end, word_class in tagged:
            if word_class == "other" and is_number(text):
                word_class = "number"
            row.append(CaptionWord(text, start, end, word_class in wanted, word_class))
        rows.append(row)
    return rows


def word_shares(pieces: Pieces, words: Sequence[CaptionWord]) -> np.ndarray:
    """The share of each piece that belongs to each word.

    Returns:
        float64 (pieces, words). Rows sum to 1, or to 0 for a piece outside all words. A piece in several
        words is divided by characters.

    >>> pieces = Pieces([5, 6], np.array([0, 3]), np.array([3, 9]), 0, 9)  # "red", "ballgame"
    >>> words = [CaptionWord("redball", 0, 7, True, "noun"), CaptionWord("game", 7, 9, True, "noun")]
    >>> word_shares(pieces, words).round(2).tolist()
    [[1.0, 0.0], [0.67, 0.33]]
    """
    places = np.array([(word.start, word.end) for word in words], np.int64).reshape(-1, 2)
    first = np.maximum(pieces.starts[:, None], places[:, 0])
    after = np.minimum(pieces.ends[:, None], places[:, 1])
    common = np.maximum(after - first, 0).astype(np.float64)
    return common / np.maximum(common.sum(axis=1, keepdims=True), 1.0)


def word_scores(pieces: Pieces, piece_scores: np.ndarray, words: Sequence[CaptionWord]) -> list[float | None]:
    """Sums of the scores of each word's pieces.

    Args:
        pieces: Pieces of one caption.
        piece_scores: (p,), scores of the pieces.
        words: Words of the same caption.

    Returns:
        A score for each word; None for a word that the tower has not read to its end because the caption was
        cut, or that has no piece.

    Raises:
        CapscoreError: there is not one finite score per piece.

    >>> pieces = Pieces([5, 6, 7], np.array([0, 3, 9]), np.array([3, 8, 12]), 1, 13)
    >>> words = [CaptionWord("surfboard", 0, 8, True, "noun"), CaptionWord("waves", 9, 14, True, "noun")]
    >>> word_scores(pieces, np.array([0.25, 0.5, 0.25]), words)
    [0.75, None]
    """
    scores = np.asarray(piece_scores, np.float64)
    if scores.shape != (len(pieces),) or not np.isfinite(scores).all():
        raise CapscoreError(
            f"expected one finite score for each of {len(pieces)} pieces; got an array of shape "
            f"{scores.shape} with {int((~np.isfinite(scores)).sum())} that are not finite"
        )
    shares = word_shares(pieces, words)
    sums, written = scores @ shares, np.any(shares, axis=0)
    return [
        float(total) if has_pieces and word.end <= pieces.seen else None
        for word, total, has_pieces in zip(words, sums, written.tolist(), strict=True)
    ]


def nearest_regions(
    pieces: Pieces, rows: np.ndarray, words: Sequence[CaptionWord], regions: np.ndarray
) -> list[int | None]:
    """The region whose embedding is most like each semantic word's.

    Args:
        pieces: Pieces of one caption.
        rows: (p, d), embeddings of the pieces; a word's is the mean of its pieces'.
        words: Words of the same caption.
        regions: (m, d), embeddings of the regions of a photo, of any length.

    Returns:
        For each word the number of a region, counted from 0, by cosine; None for a word that is not semantic
        or has no piece, and without regions.

    >>> pieces = Pieces([5, 6], np.array([0, 4]), np.array([3, 8]), 0, 8)
    >>> words = [CaptionWord("red", 0, 3, True, "adjective"), CaptionWord("ball", 4, 8, True, "noun")]
    >>> nearest_regions(pieces, np.eye(2), words, np.array([[0.1, 2.0], [3.0, 0.0]]))
    [1, 0]
    """
    if not len(regions):
        return [None] * len(words)
    shares = word_shares(pieces, words)
    lengths = np.linalg.norm(regions, axis=1, keepdims=True)
    likeness = (shares.T @ np.asarray(rows, np.float64)) @ (regions / np.maximum(lengths, 1e-12)).T
    nearest: list[int] = likeness.argmax(axis=1).tolist()
    written: list[bool] = (shares.sum(axis=0) > 0).tolist()
    return [
        number if word.semantic and has_pieces else None
        for word, number, has_pieces in zip(words, nearest, written, strict=True)
    ]


def _checked(classes: Collection[str]) -> frozenset[str]:
    if isinstance(classes, str):
        raise CapscoreError(
            Setting("classes", classes), f" is one string; expected several of {', '.join(CLASSES)}"
        )
    for word_class in classes:
        if word_class not in CLASSES:
            close = difflib.get_close_matches(str(word_class), CLASSES, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise CapscoreError(
                f"unknown word class {word_class!r}; expected some of {', '.join(CLASSES)}{hint}"
            )
    return frozenset(classes)


# ---- numbers ----

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


@cache
def _numbers(code: str) -> Callable[[str], bool]:
    """A function that says whether a word without another class is a number in a language."""
    known = frozenset(_NUMBERS.get(code, "").split())
    han = _HAN if code in ("ja", "zh") else None

    def is_number(word: str) -> bool:
        if any(map(str.isdecimal, word)) or (han and han.match(word)):
            return True
        return word.lower() in known

    return is_number
