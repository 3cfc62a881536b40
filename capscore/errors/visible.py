"""Texts from outside → texts that are safe to show: nothing controls a terminal, no address has a secret."""

from __future__ import annotations

import re

# C0, C1, separators of lines, overrides of writing direction, halves of surrogate pairs
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_BREAK = re.compile("\\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\\s*")
# up to the sign that closes it in a message
_ADDRESS = re.compile(r"(?:\b[a-z][a-z0-9+.-]+:[/\\]{2}|\bhttps?:[/\\])[^\s'\"<>`]+", re.IGNORECASE)
_PARTS = re.compile(r"(\s*[a-z][a-z0-9+.-]+:[/\\]+)([^?#]*)([?#]?)(.*)", re.IGNORECASE | re.DOTALL)
_HOST = re.compile(r"(\[[^\]]*\]|[^:/\\]*)(:\d*)?(?=[/\\]|\Z)")


def visible(text: str, *, keep: str = "") -> str:
    r"""A text in which every character that could control a terminal is written as its escape.

    Args:
        text: Text of any origin.
        keep: Characters to leave as they are.

    >>> print(visible("a\x1b[31mb\nc\u202ed"))
    a\x1b[31mb\nc\u202ed
    """
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def in_one_line(text: str) -> str:
    r"""A message as it may be shown: in one line, without control characters and secrets of addresses.

    >>> print(in_one_line("no file 'a\nb', \x1b[31mand http://x.org/?key=1"))
    no file 'a b', \x1b[31mand http://x.org/?…
    """
    return visible(_BREAK.sub(" ", without_secrets(text)))


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def json_visible(text: str) -> str:
    r"""JSON that means the same, in which no character controls a terminal; line breaks between values stay.

    >>> print(json_visible('{"a": "\x9b31m"}'))
    {"a": "\u009b31m"}
    """
    return _CONTROLS.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def address_name(address: str) -> str:
    """An address without user name, password, query and fragment; any other text as it is.

    >>> address_name("https://me:secret@x.org/a.jpg?token=1"), address_name("a photo.jpg")
    ('https://…@x.org/a.jpg?…', 'a photo.jpg')
    """
    parts = _PARTS.fullmatch(address)
    if parts is None:
        return address
    scheme, place, sign, rest = parts.groups()
    user, at, after = place.rpartition("@")
    # a password may hold a slash or question mark, which end the host for every reader of addresses
    if "@" in rest and (at or ":" in place):
        place = "…"
    elif at and (":" in user or not re.search(r"[/\\]", user)):
        place = f"…@{after}"
    elif not _HOST.match(place):
        place = "…" + place[len(re.split(r"[/\\]", place)[0]) :]
    return f"{scheme}{place}{sign}{'…' if rest else ''}"


def without_secrets(text: str) -> str:
    """A message in which every address is without user name, password, query and fragment.

    >>> without_secrets("no answer from 'ftp://me:secret@x.org/a?b=c'")
    "no answer from 'ftp://…@x.org/a?…'"
    >>> without_secrets("the Hub (http://127.0.0.1:80) is down")
    'the Hub (http://127.0.0.1:80) is down'
    """
    return _ADDRESS.sub(_name_in_text, text) if ":" in text else text


def _name_in_text(found: re.Match[str]) -> str:
    """The name of an address in a sentence, whose own punctuation follows the address."""
    address = found[0].rstrip(").,;")
    return address_name(address) + found[0][len(address) :]
