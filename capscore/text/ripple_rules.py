"""A sentence's words → their tags, by a lexicon and ripple-down rules in the file formats of RDRPOSTagger.

Format and algorithm: Nguyen, Nguyen, Pham and Pham, "RDRPOSTagger: A Ripple Down Rules-based Part-Of-Speech
Tagger", EACL 2014. Rules are indexed by a condition, so that only rules that can hold are tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..errors import CapscoreError

# Conditions of a rule: the words and first tags up to two places to each side, and the word's last letters.
_CONDITIONS = (
    "prevWord2 prevTag2 prevWord1 prevTag1 word tag nextWord1 nextTag1 nextWord2 nextTag2 "
    "suffixL2 suffixL3 suffixL4"
).split()
_UNKNOWN = ("TAG4UNKN-WORD", "TAG4UNKN-CAPITAL", "TAG4UNKN-NUM")
_CONDITION = re.compile(r'object\.(\w+) == "(.*?)"(?= and object\.| : object\.conclusion)')
_CONCLUSION = re.compile(r'object\.conclusion = "(.*)"$')


class RippleRules:
    """A lexicon of tags, and rules that correct them by the neighbouring words.

    A word first gets the lexicon's tag for it, or for its last letters. Rules form a tree: the first rule of
    a node that holds gives the tag, and then its exceptions are tried.

    Args:
        lexicon: Lines "word TAG"; ".*ing TAG" for words with that ending; "TAG4UNKN-WORD",
            "TAG4UNKN-CAPITAL" and "TAG4UNKN-NUM" for other words, names and numbers.
        rules: Lines with one rule each, indented by a tab per rule that it is an exception to; the first one
            stands for the lexicon.
        lower: Function from a word to its spelling in small letters.
        endings: Patterns of words that the lexicon lacks, and the tag of each; tried before the lexicon's
            endings.
        prefixes: Letters that are words of their own at the beginning of a word, as in Arabic. The lexicon's
            tag "_", for words written as one, is then ignored.

    Raises:
        CapscoreError: the lexicon or a rule has another form.

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
        missing = [key for key in _UNKNOWN if key not in self._lexicon]
        if missing:
            raise CapscoreError(f"a lexicon of RDRPOSTagger without {', '.join(missing)}")
        self._lower, self._endings, self._prefixes = lower, endings, prefixes
        path = [_Rule((), "", -1)]
        for number, line in enumerate(rules.splitlines(), 1):
            depth = len(line) - len(line.lstrip("\t"))
            if depth == 0 or not line.strip() or line.lstrip("\t").startswith("cc:"):
                continue  # the first rule, which always holds; or an example sentence of a rule
            conclusion, found = _CONCLUSION.search(line), _CONDITION.findall(line)
            if (
                not conclusion
                or not found
                or depth > len(path)
                or not {k for k, _ in found} <= {*_CONDITIONS}
            ):
                raise CapscoreError(
                    f"line {number} of the rules is not in RDRPOSTagger's form: {line.strip()!r}"
                )
            conditions = tuple((_CONDITIONS.index(key), value) for key, value in found)
            del path[depth:]
            path.append(_Rule(conditions, conclusion[1], len(path[-1].exceptions)))
            path[-2].exceptions.append(path[-1])
        self._root = path[0]
        self._root.index()

    def tags(self, tokens: Sequence[str]) -> list[str]:
        """The tag of each word and sign of punctuation of a sentence."""
        first = [self._first(token, index == 0) for index, token in enumerate(tokens)]
        padded = [("", ""), ("", ""), *zip(tokens, first, strict=True), ("", ""), ("", "")]
        found = []
        for index, (word, tag) in enumerate(zip(tokens, first, strict=True)):
            # up to three last letters of words of at least four, four of longer ones
            suffixes = [word[-n:] if len(word) >= max(n + 1, 4) else "" for n in (2, 3, 4)]
            context = [part for pair in padded[index : index + 5] for part in pair] + suffixes
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
            # an ending shows the class only if letters precede it
            if len(word) >= max(length + 1, 4) and f".*{word[-length:]}" in lexicon:
                return lexicon[f".*{word[-length:]}"]
        return lexicon["TAG4UNKN-CAPITAL" if word[0].isupper() and not begins else "TAG4UNKN-WORD"]


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
        counts: dict[tuple[int, str], int] = {}
        for rule in self.exceptions:
            for condition in rule.conditions:
                counts[condition] = counts.get(condition, 0) + 1
        for rule in self.exceptions:
            key, value = min(rule.conditions, key=counts.__getitem__)
            self._by_value.setdefault(key, {}).setdefault(value, []).append(rule)
            rule.index()

    def exception(self, context: Sequence[str]) -> _Rule | None:
        """The first exception that holds, or None."""
        best = None
        for index, by_value in self._by_value.items():
            for rule in by_value.get(context[index], ()):
                if best is not None and rule.order >= best.order:
                    break
                if all(context[key] == value for key, value in rule.conditions):
                    best = rule
                    break
        return best
