"""What is done to texts: words, classes, perturbations, changes; in several languages and on odd strings."""

from __future__ import annotations

import hashlib
from typing import Any

from .place import Place
from .table import case

LANGUAGES = ("en", "de", "fr", "es", "ja", "zh", "ar", "ru")
# languages beside the demo's, a caption each
MORE = {
    "nl": "Twee honden spelen met een bal op het strand.",
    "it": "L'operaio ripara il tetto dell'edificio con un martello.",
    "pt": "Mulheres de vestidos dançam na praça.",
    "sv": "Två hundar leker med en boll på stranden.",
    "cs": "Malá dívka hází míč na zahradě.",
    "pl": "Dwa psy bawią się piłką na plaży.",
    "uk": "Маленька дівчинка їсть морозиво перед білою церквою.",
    "tr": "İki kedi ağacın altında uyuyor.",
    "ko": "어린 소녀가 창문 옆에서 자전거를 탄다.",
    "th": "แมวนอนบนเก้าอี้",
    "hi": "एक आदमी सड़क पर साइकिल चला रहा है।",
    "vi": "Một con chó chạy trên bãi biển.",
    "zh-TW": "一隻狗追著一輛車。",
}
ODD = (
    "",
    " ",
    "A man's dog isn't chasing the red ball.",
    'He said, "I can\'t!" and left...',
    "T-shirts & jeans, 50% off (today only) - $3.50",
    "U.S. soldiers in Washington D.C. at 3 p.m.",
    "cannot gonna wanna gimme lemme whaddya 'tis 'twas",
    "a/b c\\d e_f g#h i@j.com http://example.org/a?b=c",
    "“Curly” ‘quotes’ — dashes – and … dots",
    "café naïve Ærøskøbing ﬁne ½ ² ™",
    "tab\tand\nnew line\rand\u00a0blank\u2028and\u200bzero",
    "emoji 🐕‍🦺 and 👩‍👧 ⛄",
    "UPPER lower MiXeD",
    "((nested [brackets] {braces}))",
    "1,000,000.00 and 1.000,00 and 3/4 and 12:30",
    "rock'n'roll o'clock y'all I'd've",
    "--- ... !!! ??? ;;; :::",
    "end. Start. Mr. Smith vs. Dr. No.",
    "a-b-c-d e - f",
    "'single' `back` ``double'' \"straight\"",
    "a . b , c ; d : e",
    "no space.After period,comma",
    "x" * 60,
    "a b " * 30,
    "日本語 and English 混ぜる",
    "Ελληνικά и кириллица",
    "<tag> &amp; &lt;",
    "C++ C# .NET node.js",
    "he'll she's they've we're I'm don't won't",
    "the dogs' bowls and the boss's car",
    "-LRB- -RRB- ( )",
    "50°C 5'10\" 6ft",
    "#hashtag @user :) :-( <3",
    "e.g. i.e. etc. et al.",
    "A.B.C. a.m. Ph.D. Inc.",
    "ten-year-old boy's 2nd-hand bike",
    "\ufeffbom and \u00adsoft\u00adhyphen",
    "d'accord l'homme aujourd'hui",
    "İstanbul ısı ß ẞ ſ",
    "a\u0301 e\u0308 combining",
    "100 % 100% % 100",
    "w/ w/o b/c",
    "...leading and trailing...",
    "a,b,c a,b c ,d",
    "1st 2nd 3rd 4th 20s 1990's",
    "yes/no either-or and/or",
    "~tilde ^caret |pipe| *star*",
    "one\u3000wide。two、three",
    "‹a› «b» „c“ ‚d‘",
    "fin.",
)
SHIPPED_KINDS = ("repetition", "removal", "masking", "jumble", "substitution")
UNSEEN_KINDS = ("neighbours", "typos", "number", "negation", "foreign", "truncation")


def texts_of(place: Place, language: str) -> list[str]:
    """The demo's captions of a language, right and half right."""
    return place.captions(language, ("right", "half"))


@case("languages/ptb")
def _(place: Place) -> Any:
    from capscore.text import ptb

    everything = [*ODD, *(text for language in LANGUAGES for text in texts_of(place, language))]
    return {
        "odd": {text: ptb.tokenize(text) for text in ODD},
        "all": hashlib.sha256(repr(ptb.tokenize_all(everything)).encode()).hexdigest(),
    }


@case("languages/segmentation")
def _(place: Place) -> Any:
    from capscore.text import segmentation

    found: dict[str, Any] = {"ptb": segmentation.tokenize(list(ODD), None)[:5]}
    for language in LANGUAGES:
        texts = texts_of(place, language)
        pieces = [segmentation.words(text, language) for text in texts]
        blank = " " if segmentation.has_spaces(language) else ""
        found[language] = {
            "tokens": segmentation.tokenize(texts, language),
            "words": pieces[:3],
            "joined": [blank.join(piece) for piece in pieces],
            "name": segmentation.segmenter_name(language),
            "unsplit": segmentation.not_split_by_blanks(texts, language),
        }
    for language, text in MORE.items():
        found[language] = [
            segmentation.tokenize([text], language),
            segmentation.words(text, language),
            segmentation.segmenter_name(language),
        ]
    found["odd de"] = segmentation.tokenize(list(ODD), "de")
    found["odd ja"] = segmentation.words(ODD[24], "ja")
    return found


@case("languages/word_classes")
def _(place: Place) -> Any:
    from capscore.text import word_classes

    found: dict[str, Any] = {}
    for language in (*LANGUAGES, *MORE):
        if not word_classes.supported(language):
            found[language] = None
            continue
        texts = texts_of(place, language)[:6] if language in LANGUAGES else [MORE[language]]
        found[language] = {
            "name": word_classes.tagger_name(language),
            "words": [[list(word) for word in words] for words in word_classes.tag(texts, language)],
        }
    return found


@case("languages/perturbations")
def _(place: Place) -> Any:
    """The five kinds of PR-MCS, with fixed seeds and every option."""
    from capscore import perturbations
    from capscore.text import word_classes

    found: dict[str, Any] = {"kinds": perturbations.KINDS, "p": perturbations.P}
    for language in LANGUAGES:
        texts = texts_of(place, language)
        entries = [entry["captions"][language] for entry in place.entries.values()]
        own = {}
        for kind in SHIPPED_KINDS:
            if kind == "substitution" and not word_classes.supported(language):
                continue
            for seed in (0, 7):
                result = perturbations.perturb(texts, kind, language, seed=seed)
                own[f"{kind} {seed}"] = [result.captions, result.unchanged, result.not_found, result.settings]
        if "objects" in entries[0]:
            objects = [entry["objects"] for entry in entries] * 2
            result = perturbations.perturb(texts, "substitution", language, objects=objects)
            own["objects"] = [result.captions, result.unchanged, result.not_found, result.settings]
        found[language] = own
    texts = texts_of(place, "en")
    for p in (0.0, 1.0):
        result = perturbations.perturb(texts, "repetition", "en", p=p)
        found[f"p {p:g}"] = [result.captions, result.unchanged, result.settings]
    found["nouns"] = [perturbations.find_nouns(texts_of(place, code), code) for code in ("en", "de", "ja")]
    found["finders"] = [
        [perturbations.noun_finder(c), perturbations.word_finder(c)] for c in ("en", "fr", "zh")
    ]
    odd = [text for text in ODD if text.strip()]
    found["odd"] = {kind: perturbations.perturb(odd, kind, "en").captions for kind in SHIPPED_KINDS}
    return found


@case("languages/unseen_perturbations")
def _(place: Place) -> Any:
    from capscore import perturbations

    found: dict[str, Any] = {"kinds": perturbations.UNSEEN_KINDS}
    for language in (*LANGUAGES, "nl", "it", "pt", "cs", "ko", "th", "tr", "pl"):
        texts = texts_of(place, language) if language in LANGUAGES else [MORE[language]]
        found[language] = {}
        for kind in UNSEEN_KINDS:
            if not perturbations.kind_of(kind).has_rules(language):
                found[language][kind] = None
                continue
            for seed in (0, 5):
                result = perturbations.perturb(texts, kind, language, seed=seed)
                found[language][f"{kind} {seed}"] = [result.captions, result.unchanged, result.settings]
    return found
