"""Rows that look wrong: captions and references → kinds of oddity; one warning counts the rows.

`KINDS` is the table of kinds: a row says how its texts are found, what the warning says of them, and gives
examples.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from pathlib import PurePath

from ..errors import RowWarning, warn
from .reasoning import THOUGHT


@dataclass(frozen=True)
class OddKind:
    """A kind of odd text; each way to find it is a regular expression, or "".

    Attributes:
        said: What such rows have, as the warning says it after their number.
        examples: Texts of this kind.
        anywhere: Found anywhere in a text; every match holds one of the characters `signs`.
        begins: Found where a text in lower case begins, after blanks, quotes and brackets.
        ends: Found in the last 16 characters of a text in lower case, before blanks and punctuation.
    """

    said: str
    examples: tuple[str, ...] = ()
    anywhere: str = ""
    signs: str = ""
    begins: str = ""
    ends: str = ""


_HTML = (
    "(?i:a|abbr|b|big|blockquote|br|caption|center|code|dd|div|dl|dt|em|figcaption|"
    "figure|font|h[1-6]|hr|html|i|"
    "img|li|ol|p|pre|q|small|span|strong|sub|sup|table|tbody|td|th|title|tr|tt|u|ul)"
)


def _texts(joined: str) -> tuple[str, ...]:
    return tuple(joined.split(" ¦ "))


_ROLES = "USER|ASSISTANT|SYSTEM|Human|User|Assistant"
# how refusals begin, by language
_REFUSALS = (
    r"(?:i(?:['’]m| am) )?(?:(?:really|very|so|truly) )?(?:sorry|"
    r"i apologi[sz]e|(?:my )?apologies)\b[,.!:]? (?:but|i|for|as|the)\b",
    r"i(?:['’]m| am) (?:unable|not able|afraid|(?:just )?an ai|a language|a text)\b",
    r"(?:unfortunately,? )?i (?:can(?:['’]?t|not| not)|could(?:n['’]t| not)|do(?:n['’]t|"
    r" not)|won['’]t) (?:access|"
    "anal|answer|assist|comply|describe|determine|display|fulfil|generate|have|help|"
    "identify|open|process|provide|"
    "recogni|(?:see|view) (?:the|this|that|any|an|your|or|images?)\\b)",
    r"as an? (?:ai|artificial|(?:large )?language|text-based)\b|please (?:provide|upload|share|attach) ",
    r"(?:unfortunately,? )?(?:there (?:is|was) no image\b|no image (?:was|is|has|provided|attached))",
    "it (?:seems|looks like|appears)(?: that)? (?:you|there is no|the image)|"
    "the image is not (?:available|provided)",
    "(?:es )?tut mir (?:sehr )?leid|leider kann ich|ich kann (?:das|dieses|kein|die|diese) (?:bild|foto)",
    "(?:je suis |nous sommes )?désolée?s?,|je ne (?:peux|suis) pas (?:en mesure|capable|"
    "voir [lc]|décrire|vous)",
    "lo siento|lamento|no puedo (?:ver|ayudar|describir|analizar|acceder)|como (?:modelo|ia|asistente) ",
    "desculpe,|sinto muito|não (?:posso|consigo) (?:ver|ajudar|descrever|analisar)|"
    "como (?:um modelo|uma ia) ",
    "mi dispiace|non (?:posso|riesco a) (?:vedere|aiutare|descrivere)|come (?:modello|"
    "ia) |als (?:ki|ai|taalmodel)\\b",
    "het spijt me|ik kan (?:geen|de afbeelding|deze)|tyvärr|beklager|valitettavasti|omlouvám se|je mi líto",
    "przykro mi|przepraszam|nie mogę (?:zobaczyć|opisać|pomóc)|üzgünüm|maalesef|xin lỗi|rất tiếc|maaf,",
    "извините|простите|к сожалению|я не могу|на жаль|вибачте|λυπάμαι|מצטער|عذر[اًا]|آسف|أعتذر|لا أستطيع|متأسف",
    "申し訳|すみません|ごめんなさい|(?:很|非常)?抱歉|对不起|對不起|我(?:无法|無法|不能)|作为.{0,3}(?:ai|人工智能|"
    "语言模型)",
    "画像が(?:見え|表示|添付)|我看不[到见見]|이미지를 (?:볼|확인|분석)|görüntüyü göremi|görseli göremi|"
    "entschuldigung[,!]",
    "죄송|मुझे खेद|माफ़ करें|क्षमा करें|ขออภัย|ขอโทษ",
)
_LABELS = (
    r"(?:(?:image|photo|short)[ _])?(?:caption|description)|alt(?:[ _-]?text)?|answer|"
    r"assistant|output|response|title|the (?:caption|description)[\w ]{0,25}|"
    "bildunterschrift|beschreibung|légende|descripci[oó]n|descrição|legenda|didascalia|описание|подпись|"
    "キャプション|説明|描述|标题|標題|설명|캡션|وصف"
)
# Kinds in the order in which they are tried at one place; a text counts for the first that is found in it.
KINDS: dict[str, OddKind] = {
    "decoded": OddKind(
        "have text that was decoded wrongly",
        ("a dog\ufffd", "un garÃ§on", "a dogâ€™s ball"),
        anywhere="\ufffd",
        signs="\ufffd",
    ),
    "entities": OddKind(
        "have HTML entities",
        ("it&#39;s red", "red &amp; blue"),
        anywhere=r"&(?:#\w{2,6}|[A-Za-z]{2,8});",
        signs="&",
    ),
    "reasoning": OddKind(
        "have reasoning before their caption",
        _texts(
            "<think>two</think> a dog ¦ ◁think▷ two ¦ [THINK]two ¦ Okay, let me look. ¦ two</thinking> a dog"
        ),
        anywhere=rf"</?{THOUGHT}\b[^<>]*>|[◁\[]/?{THOUGHT}[▷\]]|<\|(?:begin|"
        rf"end)_of_(?:thought|solution)\|>",
        signs="<◁[",
        begins="(?:(?:okay|ok|alright|hmm|well)[,.]? )?(?:so,? |first,? )?"
        "(?:let me (?:think|see|look|analy)|the user (?:wants|asks|is asking)|"
        "i(?: need to|['’]ll| will) (?:figure|describe|caption|look|write|analy))|step 1[:.]|"
        "analysis.*assistantfinal",
    ),
    "photo": OddKind(
        "have placeholders of a photo",
        ("<image> a dog", "<|image_pad|>", "[image] a dog", "<image_soft_token>", "![](cat)", "a <loc_12>"),
        anywhere=r"</?(?i:image|img|im|photo|picture|video|vision|loc|ref|box|quad|patch)(?:[_-]?\w*)>"
        r"|<\|(?:image|vision|video)[^|<>\s]*\|>|\[(?i:image|img|photo|"
        r"picture)(?:[_ -]?\w*)\]|!\[[^\]]*\]\(",
        signs="<[",
    ),
    "html": OddKind(
        "have HTML or Markdown",
        ("<p>a dog</p>", "a <b>red</b> dog", "a<br/>dog", "a **red** dog", '<img src="a.jpg">'),
        anywhere=rf"</?{_HTML}(?:\s[^<>]*)?/?>|<!--|\*\*\w[^*]*\*\*",
        signs="<*",
    ),
    "turns": OddKind(
        "have turns of a conversation",
        _texts(
            "USER: what? ASSISTANT: a dog ¦ a dog. Human: and ¦ <|im_start|>a dog ¦ [INST] a dog ¦ "
            "<<SYS>> a ¦ user\na dog ¦ <start_of_turn>model ¦ ### Response: a dog ¦ "
            "red<|im_end|> ¦ Assistant: a dog"
        ),
        anywhere=rf"(?:^|(?<=[\s\"'>.]))(?:{_ROLES}) ?:|<\|(?:im_(?:start|end)|user|"
        rf"assistant|system|end|eot_id|"
        r"(?:start|end)_header_id)\|>|\[/?INST\]|<</?SYS>>|</?(?:start|end)_of_turn>"
        rf"|### ?(?:Response|Instruction|Input|{_ROLES})\b",
        signs=":<[#",
        begins=r"(?:user|assistant|human|model|system)(?:[:\n]|$)|q(?:uestion)?:.*\ba(?:nswer)?:",
    ),
    "tokens": OddKind(
        "have special tokens of a model",
        _texts(
            "a dog</s> ¦ <pad> ¦ startseq a dog ¦ a dog endseq . ¦ <start> a dog ¦ [UNK] dog ¦ "
            "a dog [SEP] ¦ [CLS] ¦ [PAD] ¦ <bos>a ¦ a <unk> ¦ <|endoftext|> ¦ <0x0A> ¦ "
            "a dog <EOS> ¦ <extra_id_0> ¦ <eot>"
        ),
        anywhere=rf"<\|[^|<>\s]+\|>|</?(?!{_HTML}\b)[^\W\d_][\w:.-]*(?:\s[^<>]*)?/?>|<0x[0-9A-F]{{2}}>"
        r"|\[/?(?i:unk|sep|cls|pad|bos|eos|start|end)\]",
        signs="<[",
        begins=r"(?:start|begin)(?:of)?(?:seq|sequence|token)\b|unk\b",
        ends=r"(?:end|start)(?:of)?(?:seq|sequence|token)|(?:unk|eos)(?<=\W...)",
    ),
    "pieces": OddKind(
        "have pieces of a tokenizer",
        ("aĠdogĠruns", "a Ġdog Ġruns", "ĠaĠdog", "▁a ▁dog", "a dog play ##ing", "play@@ ing", "a dog.Ċ"),
        anywhere=r"(?<=[a-z.,])[ĠĊ]|Ġ\w+ ?Ġ|▁\w|(?<!\S)##\w|\w@@(?= )",
        signs="ĠĊ▁#@",
    ),
    "wide": OddKind(
        "have full-width letters",
        ("Ａ dog",),
        anywhere="[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]",
        signs="\uff10-\uff5a",
    ),
    "tatweel": OddKind(
        "have tatweel (U+0640), which lengthens letters", ("كـــلب",), anywhere="\u0640", signs="\u0640"
    ),
    "zero": OddKind(
        "have zero-width spaces inside words",
        ("a d\u200bog",),
        # in the scripts of South East Asia they stand between words
        anywhere=r"(?<=[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff])\u200b(?=\w)",
        signs="\u200b",
    ),
    "code": OddKind(
        "have code or JSON around their caption",
        _texts(
            "{\"caption\": \"a dog\"} ¦ {'caption': 'a dog'} ¦ ['a dog', 'two'] ¦ ```a dog``` ¦ "
            "b'a dog' ¦ u\"a dog\" ¦ tensor([101, 2]) ¦ array(['a'], dtype=object) ¦ "
            "\\boxed{a dog} ¦ a dog\\n ¦ caf\\u00e9"
        ),
        anywhere=r"```|\\boxed\{|\\(?:[nrt](?![a-z])|u[0-9a-f]{4}|x[0-9a-f]{2})",
        signs=r"`\\",
        begins=r"[\[{]+\s*(?:\"[^\"]*\"|'[^']*')\s*[:,\]]|"
        r"[bu](?P<quote>['\"]).*(?P=quote)\W*$|(?:\w+\.)?(?:tensor|array)\(|`",
    ),
    "cells": OddKind(
        "have an error of a spreadsheet",
        ("#N/A", "#REF!", "#NAME?", "####"),
        begins=r"#(?:n/a|ref!|value!|name\?|div/0!|null!|num!|spill!|calc!|#{2,}$)",
    ),
    "address": OddKind(
        "have an address on the web",
        ("https://a.org/cat", "a dog (http://a.org)", "www.dogs.com", "data:image/png;base64,iVBO"),
        anywhere=r"\b(?:https?|s3|gs|file)://\S|\bdata:\w+/",
        signs=":",
        begins=r"www\.\w",
    ),
    "file": OddKind(
        "have the name of a file as caption",
        _texts(
            "IMG_1234.jpg ¦ DSC_0042 ¦ photo of IMG_20200101_1 ¦ dog-in-park.png ¦ COCO_val2014_000000000042"
        ),
        anywhere=r"\b[A-Z]{1,8}(?:_[a-z]+\d*)?_\d{3,}",
        signs="_",
        begins=r"\S+\.(?:jpe?g|png|gif|webp|bmp|tiff?|heic|avif|svg)\W*$|(?:dsc[nf]?|img|pxl|p|"
        r"screenshot[ _-])-?\d{4,}",
    ),
    "bytes": OddKind(
        "have a caption of coded bytes",
        ("iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACN", "d41d8cd98f00b204e9800998ecf8427e"),
        begins=r"ivborw0kggo|/9j/4aaq|r0lgod|(?=\S*\d)[a-z0-9+/]{32,}={0,2}$|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
    ),
    "refusal": OddKind(
        "have a refusal in place of a caption",
        _texts(
            "I'm sorry, but I can't help ¦ As an AI language model ¦ I cannot see the image ¦ "
            "Lo siento, no puedo ¦ No image was provided ¦ Es tut mir leid ¦ "
            "Je suis désolé, mais ¦ 申し訳ありません ¦ 抱歉，我无法"
        ),
        begins="|".join(_REFUSALS),
    ),
    "label": OddKind(
        "have a caption that begins with a label",
        _texts(
            "Caption: red ¦ Sure! Here is a caption: ¦ Image description: red ¦ **Caption:** red ¦ "
            "描述：红色 ¦ Here's a caption for the image: ¦ Bildunterschrift: rot"
        ),
        begins=rf"(?:{_LABELS})\W?\s*[:：]|(?:sure|certainly|of course|absolutely)[!,.] |"
        rf"here(?:['’]s| is| are) "
        r"(?:a|an|the|your|some|one)\b.{0,40}\b(?:captions?|descriptions?)\b",
    ),
    "none": OddKind(
        "have a caption such as nan or none",
        _texts(
            "nan ¦ None ¦ NA ¦ null ¦ N/A ¦ undefined ¦ no caption ¦ (none) ¦ <NA> ¦ [No caption available]."
        ),
        begins="(?:nan|none|null|nil|undefined|n/?a|n\\.a|test|lorem ipsum.*|object object|"
        "not (?:available|applicable|provided)|missing|untitled|todo|tbd|"
        r"placeholder|(?:no|empty|missing) (?:caption|description|alt(?:[ -]text)?|text|"
        r"title|image|photo|data)(?: "
        r"(?:available|provided|found|given))?|"
        r"quality issues are too severe to recognize visual content)[^\w]*$",
    ),
    "signs": OddKind(
        "have a caption without a letter", ("-", "?!", "...", "17", "3.5 %"), begins=r"(?=\S)[\W\d_]+$"
    ),
    "loop": OddKind(
        "have words that repeat again and again",
        _texts(
            "a dog a dog a dog a dog ¦ on a hill on a hill on a hill on a hill. ¦ "
            "a cat a cat a cat a cat on it ¦ 犬犬犬犬犬犬犬犬 ¦ the the the the"
        ),
    ),
    "name": OddKind("have the name of their photo as caption"),
    "mass": OddKind("got an answer other than the one that the judge was asked for (mass below 0.5)"),
    "empty": OddKind("have an empty caption, which gets the lowest score"),
    "blank": OddKind("have a photo that shows nothing: of one colour, or with a side of 1 or 2 pixels"),
}
# UTF-8 that was read as Latin-1 or Windows-1252: a letter, and the sign of a byte from 0x80 to 0xbf
_MISREAD = "[\xc2-\xf4][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
_EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")  # where full-width letters are usual
_MAX_READ = 2000  # characters of a text


def _any_of(way: str) -> str:
    """One pattern for all kinds that are found in a way, each a group with the name of its kind."""
    listed = [(name, getattr(kind, way)) for name, kind in KINDS.items()]
    return "|".join(f"(?P<{name}>{pattern})" for name, pattern in listed if pattern)


_anywhere = re.compile(_any_of("anywhere")).finditer
_at_begin = re.compile(rf"[\s\"'“‘„«(\[<*]*(?:{_any_of('begins')})").match
_at_end = re.compile(rf"(?:{_any_of('ends')})\W*\Z").search
# what all texts hold that are odd somewhere, so that others cost next to nothing
_has_sign = re.compile(rf"[{''.join(kind.signs for kind in KINDS.values())}]|{_MISREAD}").search
# what begins most captions and no odd one; how odd ends end; what has no sign of `KINDS`
_USUAL_BEGINS = ("a ", "an ", "two ")
_ODD_ENDS = ("seq", "sequence", "token", "unk", "eos", "bos")
_is_plain = re.compile("[A-Za-z ,.'-]*").fullmatch


@lru_cache(2**14)
def oddity(text: str) -> str:
    """The kind of oddity of a text, a key of `KINDS`; "" for none.

    >>> oddity("a dog"), oddity("gar\u00c3\u00a7on"), oddity("it&#39;s"), oddity("a dog</s>")
    ('', 'decoded', 'entities', 'tokens')
    """
    lower = text.lower()
    found = None if lower.startswith(_USUAL_BEGINS) else _at_begin(lower)
    is_plain = _is_plain(text) is not None
    if not is_plain or lower.rstrip(" ,.'-").endswith(_ODD_ENDS):
        found = found or _at_end(lower, max(0, len(lower) - 16))
    if found is not None:
        return str(found.lastgroup)
    if not is_plain and _has_sign(text):
        for found in _anywhere(text):
            if not _is_usual(found):
                return str(found.lastgroup)
        if not text.isascii():
            from ftfy.badness import is_bad

            if is_bad(text):
                return "decoded"
    return "loop" if _repeats(text) or _repeats(text[::-1]) else ""


def _is_usual(found: re.Match[str]) -> bool:
    if found.lastgroup == "wide":
        return _EAST_ASIAN.search(found.string) is not None
    return found.lastgroup == "entities" and html.unescape(found[0]) == found[0]


def _repeats(text: str) -> bool:
    """Whether a text ends in the same words, or letters, three and a half times."""
    text = text.rstrip(" \n.,!?…。！")
    last = text[-6:]
    at = text.rfind(last, 0, -1)
    if at < 0 or len(text) < 8:
        return False
    period = len(text) - len(last) - at
    end = text[-period * 7 // 2 :]
    is_whole = len(end) * 2 >= period * 7
    return is_whole and end[period:] == end[:-period] and any(map(str.isalpha, end))


def _caption_oddity(caption: str, image: object) -> str:
    text = caption.strip()
    if isinstance(image, dict):
        image = image.get("path")
    # a part of the path, which is quicker to tell, and the whole of it or of its name
    if isinstance(image, str | PurePath) and " " not in text and text in str(image):
        path = PurePath(image)
        is_number = text.isdecimal() and path.stem.endswith(text)
        is_stem = text == path.stem and re.search(r"\d", text)
        if is_number or is_stem or text in (str(image), path.name):
            return "name"
    return oddity(caption[:_MAX_READ])


# a word: without blanks, and short in scripts that have none between words, as Thai, Chinese and Japanese
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(
    rf"[^\s{_UNSPACED}]+|[\u3040-\u30ff\u3400-\u9fff]{{1,4}}|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{{1,8}}"
)


def are_tokens(lists: Iterable[object]) -> bool:
    """Whether lists, one per row, hold the tokens of a text: single words alone, three or more on average.

    >>> are_tokens([["a", "red", "bus"], ["two", "dogs", "play"]]), are_tokens([["a red bus", "bus"]])
    (True, False)
    """
    n_lists, n_words = 0, 0
    for items in lists:
        if not isinstance(items, list | tuple) or not items:
            continue
        for item in items:
            if isinstance(item, str) and not _WORD.fullmatch(item.strip()):
                return False
        n_lists, n_words = n_lists + 1, n_words + len(items)
    return n_words >= 3 * n_lists > 0


class OddRows:
    """Counts rows that look wrong, piece by piece.

    Attributes:
        first: Kind of oddity, a key of `KINDS` → number of such rows, the first of them, and its text.
        kinds: Odd row → its kinds of oddity; None where rows are only counted, as in streams without end.
    """

    def __init__(self, *, keeps_rows: bool = False) -> None:
        self.first: dict[str, tuple[int, int, str]] = {}
        self.kinds: dict[int, list[str]] | None = {} if keeps_rows else None
        self._last: dict[str, int] = {}

    def add(
        self,
        candidates: Sequence[object],
        images: Sequence[object] | None = None,
        references: Iterable[object] | None = None,
        start: int = 0,
    ) -> OddRows:
        """Count rows, the first of them row `start`; values that are not text are checked elsewhere."""
        n_rows = len(candidates)
        photos = images if isinstance(images, list | tuple) else repeat(None, n_rows)  # none read from disk
        lists = repeat((), n_rows) if references is None else references
        for row, (caption, image, texts) in enumerate(zip(candidates, photos, lists, strict=True), start):
            kinds = {}
            if isinstance(caption, str):
                kinds[_caption_oddity(caption, image)] = caption
            if isinstance(texts, str):
                texts = [texts]
            for text in texts if isinstance(texts, list | tuple) else ():
                if isinstance(text, str):
                    kinds.setdefault(oddity(text[:_MAX_READ]), text)
            kinds.pop("", None)
            for kind, text in kinds.items():
                self.count(kind, row, repr(text)[:60])
        return self

    def count(self, kind: str, row: int, shown: str = "") -> None:
        """Count an odd row."""
        if row <= self._last.get(kind, -1):  # another metric saw the same
            return
        self._last[kind] = row
        if self.kinds is not None:
            self.kinds.setdefault(row, []).append(kind)
        number, first, example = self.first.get(kind, (0, row, shown))
        self.first[kind] = (number + 1, first, example)

    def warn(self, remedy: str = "") -> None:
        """Warn once of all that was counted, and say what may be done."""
        listed = []
        for kind, (number, row, shown) in self.first.items():
            example = f": {shown}" if shown else ""
            listed.append(f"{number:,} {KINDS[kind].said} (first: row {row}, counted from 0{example})")
        if listed:
            warn(RowWarning(f"rows that look wrong were scored as they are: {'; '.join(listed)}{remedy}"))
