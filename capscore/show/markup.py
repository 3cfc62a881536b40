"""Templates and their values → HTML that runs no script and loads nothing from the network."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ..perturbations.words import Span
from ..text.languages import NAMES
from .explained import bars_note, number

if TYPE_CHECKING:
    from PIL import Image

# Control characters and halves of surrogate pairs, which HTML cannot hold, and overrides of writing direction
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
RIGHT_TO_LEFT = frozenset(("Adlm", "Arab", "Hebr", "Mand", "Nkoo", "Rohg", "Syrc", "Thaa"))
_JPEG_QUALITY = 85


def environment(folder: Path | None = None) -> Environment:
    """The templates of capscore and, before them, those of a folder. All printed values are escaped.

    Characters of `UNSEEN` come out as U+FFFD, or by their code where the filter `with_codes` is used.
    """
    own = PackageLoader("capscore.show", "templates")
    templates = Environment(
        loader=own if folder is None else ChoiceLoader([FileSystemLoader(folder), own]),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else UNSEEN.sub("\ufffd", str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        with_codes=with_codes,
        breakable=breakable,
        in_language=language_attributes,
        language_names=language_names,
        language_name=language_name,
        number=number,
        change=change_in_percent,
        bars_note=bars_note,
    )
    return templates


@lru_cache(maxsize=1)
def _own_templates() -> Environment:
    return environment()


def render(template: str, **context: Any) -> str:
    """Fill one of capscore's own templates.

    >>> render("warnings.html", notes=["a < b"])
    '<p style="margin-top:.6em">⚠️ a &lt; b</p>'
    """
    return _own_templates().get_template(template).render(context)


# ---- filters ----


def with_codes(text: object) -> Markup:
    """Text for an element, in which control characters are shown by their code.

    >>> with_codes("<b> & \x07")
    Markup('&lt;b&gt; &amp; <span class="control" dir="ltr">U+0007</span>')
    """
    return Markup(
        UNSEEN.sub(
            lambda match: f'<span class="control" dir="ltr">U+{ord(match.group()):04X}</span>',
            str(escape(text)),
        )
    )


def breakable(signature: str) -> Markup:
    """A signature that may be broken into lines after each of its settings.

    >>> breakable("mcs|w:2.5")
    Markup('mcs|<wbr>w:2.5')
    """
    return Markup("|<wbr>").join(map(with_codes, signature.split("|")))


def language_names(tag: str) -> tuple[str, str]:
    """The name of a language in itself and in English; the tag where the language has no known name.

    >>> language_names("de"), language_names("de-AT"), language_names("tlh")
    (('Deutsch', 'German'), ('Deutsch (AT)', 'German (AT)'), ('tlh', 'tlh'))
    """
    if not tag:
        return "Language not stated", "Language not stated"
    primary, _, rest = tag.replace("_", "-").partition("-")
    own, english = NAMES.get(primary.lower(), (tag, tag))
    if rest and own != tag:
        own, english = f"{own} ({rest})", f"{english} ({rest})"
    return own, english


def language_name(tag: str) -> str:
    """Both names of a language as one text.

    >>> language_name("de"), language_name("en")
    ('Deutsch, German', 'English')
    """
    return ", ".join(dict.fromkeys(language_names(tag)))


def language_attributes(tag: str) -> Markup:
    """The attributes ` lang="ar" dir="rtl"` of an element in that language.

    Without a language the text decides its direction.
    """
    if not tag:
        return Markup(' dir="auto"')
    lang = UNSEEN.sub("\ufffd", tag.replace("_", "-"))
    return Markup(' lang="{}" dir="{}"').format(lang, text_direction(tag))


@lru_cache(maxsize=1024)
def text_direction(tag: str) -> str:
    """The writing direction of a language: "ltr", "rtl", or "auto" for what is not a language tag.

    >>> text_direction("ar"), text_direction("az"), text_direction("az-Arab"), text_direction("?")
    ('rtl', 'ltr', 'rtl', 'auto')
    """
    import langcodes

    try:
        script = langcodes.Language.get(tag.replace("_", "-")).maximize().script
    except langcodes.LanguageTagError:
        return "auto"
    return "rtl" if script in RIGHT_TO_LEFT else "ltr"


def change_in_percent(change: float | None) -> str:
    """A relative change as printed; "–" where it is undefined.

    >>> change_in_percent(-0.936), change_in_percent(0.004), change_in_percent(0.12), change_in_percent(None)
    ('−94 %', '0 %', '+12 %', '–')
    """
    if change is None:
        return "–"
    percent = round(100 * change)
    return f"{percent:+d} %".replace("-", "−") if percent else "0 %"


def marked_pieces(text: str, spans: Sequence[Span]) -> list[tuple[str, bool]]:
    """A text in pieces, each with whether it is one of the spans.

    >>> marked_pieces("a red cat", [(2, 5)])
    [('a ', False), ('red', True), (' cat', False)]
    """
    pieces, last = [], 0
    for start, end in spans:
        pieces += [(text[last:start], False), (text[start:end], True)]
        last = end
    return [*pieces, (text[last:], False)]


# ---- photos ----


def inline_jpeg(image: Image.Image, longest_side: int) -> tuple[str, int, int]:
    """A photo as a `data:` address with a JPEG inside, and the width and height of that JPEG in pixels.

    Args:
        image: The photo; not changed.
        longest_side: Longest side in pixels; a larger photo is scaled down.
    """
    from PIL import Image as PIL_Image

    small = image.convert("RGB")
    small.thumbnail((longest_side, longest_side), PIL_Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=_JPEG_QUALITY, optimize=True)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f"data:image/jpeg;base64,{data}", *small.size
