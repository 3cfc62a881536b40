"""Pictures of web pages and Markdown, with their alternative texts: a page, or a folder of them, → rows.

Out: a row per `<img>` or `![alt](path)`, with image, caption (the alt), language (the nearest `lang`),
context (the figcaption), page and line. What is decorative, or no photo, is left out and counted.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

from ..errors import InputError, MissingExtraError, Setting
from ..text.languages import language_code
from .console import progress_bar
from .image_folder import data_bytes
from .row_source import CHUNK_BYTES, Chunk, Read, Row, RowSource
from .scratch import process_folder
from .text_files import ENCODINGS, ROW_BYTES, TextFile, longer_than

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

PAGE_SUFFIXES = (".html", ".htm", ".xhtml", ".md", ".markdown")
PAGE_STARTS = (b"<!doctype", b"<!DOCTYPE", b"<html", b"<HTML")
ICON_SIDE, PIXEL_SIDE = 48, 2
"""Pictures are icons, or tracking pixels, up to this many pixels."""
_COLUMNS = ("image", "caption", "language", "context", "page", "line")

DECORATIVE = "not scored as decorative (empty alt)"
SVG = "not scored as SVG"
ICON = f"not scored as icon (at most {ICON_SIDE} pixels)"
PIXEL = "not scored as tracking pixel"
TEMPLATE = "not scored, as a template makes its address (score the built site)"
# what an address leads to, if none of those
_PHOTO, _ON_THE_WEB, _MISSING = "photo", "address on the web", "missing file"

_NOT_SHOWN = ("template", "noscript", "noembed", "noframes", "iframe", "textarea", "title", "xmp")
_LAZY = ("data-src", "data-original", "data-lazy-src")
_LISTS = ("srcset", "data-srcset", "data-lazy-srcset")
_CANDIDATE = re.compile(r"[\s,]*(\S*[^\s,])(?:\s[^,]*)?(?:,|$)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_DRAWINGS = (".svg", ".svgz")
_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n(?:.*\n)*?(?:\1|\.\.\.)[ \t]*(?:\n|\Z)")
_STATED_LANGUAGE = re.compile(r"^lang(?:uage)?\s*[:=]\s*[\"']?([A-Za-z][\w-]*)", re.M)
_LINE = "data-capscore-line"  # where a picture of Markdown is in its file


def page_names(folder: Path) -> list[str]:
    """Names of the pages in a folder and the folders in it, without hidden ones, in order."""
    names: list[str] = []
    for place, folders, files in os.walk(folder):
        folders[:] = (name for name in folders if name[0] != "." and name != "node_modules")
        for name in files:
            if name[0] != "." and name.lower().endswith(PAGE_SUFFIXES):
                names.append(Path(place, name).relative_to(folder).as_posix())
    return sorted(names)


def open_pages(path: Path, file: Path, images: str | Path | None = None) -> RowSource:
    """Rows of a page, or of all pages in a folder, which are read once: rows wait in a temporary file.

    Args:
        images: Folder that paths with a slash in front start from; None for `path`, or the page's own.
    """
    if path.is_dir():
        kind, root, names = "web pages", path, page_names(path)
        files = [TextFile(path / name) for name in names]
    else:
        text = TextFile(path, file)
        kind, root, names, files = "web page", text.folder, [path.name], [text]
    reader = _Reader(root, Path(images or root))
    starts, lines, places, faults = [], [], list[str](), dict[int, InputError]()
    columns = {*_COLUMNS} - {"language", "context"}  # the others are there where a row has them
    with (
        tempfile.NamedTemporaryFile(dir=process_folder(), suffix=".jsonl", delete=False) as spool,
        progress_bar("Reading pages", len(names)) as advance,
    ):
        for name, page in zip(names, files, strict=True):
            for row, fault in reader.rows(name, page):
                if fault is not None:
                    faults[len(places)] = fault
                columns |= {column for column in _COLUMNS if row.get(column) is not None}
                starts.append(spool.tell())
                lines.append(row["line"])
                places.append(f"{name}:{row['line']}")
                spool.write(json.dumps(row).encode() + b"\n")
            advance(1)
        starts.append(spool.tell())
    if not places:
        found = "; ".join(reader.notes()) or "no <img> and no ![alt](path)"
        pages = f"{len(names):,} page{'s' * (len(names) != 1)}"
        raise InputError(Setting("path", path), f": {pages}, and no picture to score: {found}")
    shown = [column for column in _COLUMNS if column in columns]

    return RowSource(
        path,
        shown,
        len(places),
        _spooled(Path(spool.name), starts, lines, shown),
        notes=reader.notes(),
        faults=faults,
        places=places,
        image_folder=reader.folder,
        format=kind,
        page_column="page",
    )


def _spooled(spool: Path, starts: Sequence[int], lines: list[int], shown: Sequence[str]) -> Read:
    """Function that reads the rows that wait in a file; `starts` are their bytes, and its end."""

    def read(size: int, columns: Sequence[str] | None) -> Iterator[Chunk]:
        with open(spool, "rb") as waiting:
            first = 0
            while first < len(lines):
                end = first + 1
                while end < min(first + size, len(lines)) and starts[end + 1] - starts[first] < CHUNK_BYTES:
                    end += 1
                rows: list[Row] = []
                for _ in range(first, end):
                    cells = json.loads(waiting.readline())
                    rows.append({column: cells.get(column) for column in shown})
                yield Chunk(first, lines[first:end], rows)
                first = end

    return read


class _Reader:
    """Reads pages, and counts what it leaves out."""

    def __init__(self, root: Path, folder: Path):
        self.root, self.folder = root, folder
        self._left_out: dict[str, tuple[int, str]] = {}  # why → how many, and where the first is
        self._known: dict[str, _Target] = {}
        self._no_alt = InputError(
            'the picture has no alt; alt="" says that it is decorative', field="candidate"
        )
        self._no_source = InputError("the picture names no file", field="image")

    def notes(self) -> list[str]:
        """What was left out, and how many of each."""
        found = []
        for why, (count, first) in self._left_out.items():
            found.append(f"{why}: {count:,} picture{'s' * (count != 1)}, the first at {first}")
        return found

    def _count(self, why: str, place: str) -> None:
        count, first = self._left_out.get(why, (0, place))
        self._left_out[why] = (count + 1, first)

    def rows(self, name: str, page: TextFile) -> Iterator[tuple[Row, InputError | None]]:
        try:
            with page.open() as stream:
                data = stream.read(ROW_BYTES.bytes + 1)
            if len(data) > ROW_BYTES.bytes:
                raise InputError(longer_than(ROW_BYTES))
            is_markdown = name.lower().endswith((".md", ".markdown"))
            if b"![" not in data and b"<img" not in data.lower() and b"\0" not in data:
                return
            soup = _parsed(data, is_markdown)
        except MissingExtraError:
            raise
        except Exception as error:  # each parser fails in its own way
            yield {"page": name, "line": 1}, InputError(f"the page cannot be read: {error!s:.200}")
            return
        base = "".join(str(tag["href"]) for tag in soup.find_all("base", href=True, limit=1))
        for tag in soup.find_all("img"):
            if tag.find_parent(_NOT_SHOWN) is None:
                yield from self._row(tag, name, base, is_markdown)
        soup.decompose()  # its parts know each other, so that it would stay in memory

    def _row(
        self, tag: Tag, page: str, base: str, is_markdown: bool
    ) -> Iterator[tuple[Row, InputError | None]]:
        """The row of a picture; none where it is left out."""
        line, stated = tag.sourceline, str(tag.get(_LINE, ""))
        if is_markdown and stated.isdecimal():
            line = int(stated[:9])
        place = f"{page}:{line}"
        image, kind, _ = self._picture(tag, page, base)
        caption = " ".join(str(tag.get("alt") or "").split())
        is_hidden = tag.get("role") in ("presentation", "none") or tag.get("aria-hidden") == "true"
        if kind not in (_PHOTO, _ON_THE_WEB, _MISSING):
            self._count(kind, place)
            return
        if is_hidden or (tag.has_attr("alt") and not caption):
            self._count(DECORATIVE, place)
            return
        row: Row = {"image": image, "caption": caption or None, "page": page, "line": line}
        row["language"] = self._language(tag, place)
        figure = tag.find_parent("figure")
        for text in figure.find_all("figcaption", limit=1) if figure else ():
            row["context"] = " ".join(text.get_text(" ").split()) or None
        fault = None
        if not caption:
            fault = self._no_alt
        elif not image:
            fault = self._no_source
        yield row, fault

    def _language(self, tag: Tag, place: str) -> str | None:
        """The nearest `lang`, if it is a language; `lang=""` says that none is known."""
        for near in (tag, *tag.parents):
            stated = near.get("lang", near.get("xml:lang"))
            if stated is None:
                continue
            with suppress(InputError):
                language_code(str(stated))
                return str(stated)
            if str(stated).strip():
                self._count(f"not read: lang={str(stated)!r:.40}, which is no language", place)
            return None
        return None

    def _picture(self, tag: Tag, page: str, base: str) -> _Target:
        """What a picture is scored by: the largest photo at hand, or else the first address."""
        sides = [float(side[1]) for name in ("width", "height") if (side := _side(tag.get(name)))]
        if sides and min(sides) <= ICON_SIDE:
            return _Target(None, PIXEL if min(sides) <= PIXEL_SIDE else ICON)
        best, most = _Target(None, _MISSING), (-2, False, 0)
        for address in _addresses(tag):
            target = self._target(address, page, base)
            worth = {_PHOTO: 2, _ON_THE_WEB: 1, _MISSING: 0}.get(target.kind, -1)
            # Pillow may lack AVIF, so it is taken where nothing else is there
            key = (worth, not str(target.image).lower().endswith(".avif"), target.side)
            if key > most:
                best, most = target, key
        return best

    def _target(self, address: str, page: str, base: str) -> _Target:
        """What an address leads to."""
        address = re.sub(r"[\t\r\n]", "", address).strip()
        if address[:5].lower() == "data:":
            return self._local(address)
        if re.search(r"\{\{|\{%|<%|\$\{", unquote(address)):
            return _Target(address, TEMPLATE)
        whole = address
        with suppress(ValueError):
            whole = urljoin(base, address)
        if whole.startswith("//"):
            whole = f"https:{whole}"
        path = unquote(re.split(r"[?#]", whole, maxsplit=1)[0]).replace("\\", "/")
        if _SCHEME.match(whole):
            on_the_web = _Target(whole, SVG if path.lower().endswith(_DRAWINGS) else _ON_THE_WEB)
            if _SCHEME.match(address) or address.startswith("//"):
                return on_the_web
            # the <base> is the site's own address, whose files are likely here
            here = self._local(self._from_root(unquote(urlsplit(whole).path), page))
            return on_the_web if here.kind == _MISSING else here
        if path.startswith("/"):
            return self._local(self._from_root(path, page))
        near = os.path.relpath(self.root / PurePosixPath(page).parent / path, self.folder)
        return self._local(Path(near).as_posix())

    def _from_root(self, path: str, page: str) -> str:
        """A path with a slash in front, from `folder`; the name that a site is served under is dropped."""
        parts = [part for part in path.split("/") if part]
        first, rest = parts[:1], "/".join(parts[1:])
        if first and rest and not _exists(self.folder / first[0]) and _exists(self.folder / rest):
            self._count(f"/{first[0]}/ is read as the folder {self.folder}", page)
            return rest
        return "/".join(parts)

    def _local(self, image: str) -> _Target:
        """A picture in a file, or in an address that holds it; each file is looked at once."""
        if image[:5].lower() == "data:":
            is_drawing = re.match(r"data:image/svg", image, re.I)
            return (
                _Target(image, SVG)
                if is_drawing
                else _looked_at(image, lambda: io.BytesIO(data_bytes(image)))
            )
        if image not in self._known:
            self._known[image] = self._file(image)
        return self._known[image]

    def _file(self, image: str) -> _Target:
        if image.lower().endswith(_DRAWINGS):
            return _Target(image, SVG)
        if image.lower().endswith((".ico", ".cur")):
            return _Target(image, ICON)
        if not _exists(self.folder / image):
            return _Target(image, _MISSING)
        return _looked_at(image, lambda: open(self.folder / image, "rb"))


class _Target(NamedTuple):
    """What an address leads to."""

    image: str | None
    kind: str
    side: int = 0


def _looked_at(image: str, opened: Callable[[], IO[bytes]]) -> _Target:
    """The kind and size of a picture by the first bytes of its content."""
    from PIL import Image

    side = 0
    with suppress(Exception), opened() as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever scores it says what is wrong
        if b"<svg" in stream.read(1000):
            return _Target(image, SVG)
        stream.seek(0)
        side = max(Image.open(stream).size)
    if 0 < side <= ICON_SIDE:
        return _Target(image, PIXEL if side <= PIXEL_SIDE else ICON)
    return _Target(image, _PHOTO, side)


def _exists(path: Path) -> bool:
    with suppress(OSError, ValueError):  # a name that no file can have
        return path.exists()
    return False


def _side(stated: object) -> re.Match[str] | None:
    """Pixels that an attribute states; None for a percentage, or for anything else."""
    return re.fullmatch(r"\s*(\d{1,6}(?:\.\d{1,6})?)\s*(?:px)?\s*", str(stated))


def _addresses(tag: Tag) -> Iterator[str]:
    for name in ("src", *_LAZY):
        if address := str(tag.get(name) or "").strip():
            yield address
    picture = tag.find_parent("picture")
    for source in (tag, *(picture.find_all("source") if picture is not None else ())):
        for name in _LISTS:
            yield from _CANDIDATE.findall(str(source.get(name) or ""))


def _parsed(data: bytes, is_markdown: bool) -> BeautifulSoup:
    """The tree of a page; tags know their line."""
    try:
        from bs4 import BeautifulSoup
    except ImportError:
        raise MissingExtraError("beautifulsoup4", "web", "reading web pages") from None
    text = _decoded(data, is_markdown).replace("\r\n", "\n").replace("\r", "\n")
    if is_markdown:
        text = _as_html(text)
    text = text.replace("<![", "<! [")  # a comment to browsers; older versions of Python end on some
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a page looks like XML, or like a name
        return BeautifulSoup(text, "html.parser", on_duplicate_attribute="ignore")


def _decoded(data: bytes, is_markdown: bool) -> str:
    """The text of a page: its byte order mark tells the encoding, else its meta tag, else it is UTF-8."""
    from bs4.dammit import EncodingDetector

    data, encoding = EncodingDetector.strip_byte_order_mark(data)
    if encoding is None and not is_markdown:
        encoding = EncodingDetector.find_declared_encoding(data, is_html=True)
    if encoding is not None:
        with suppress(LookupError):
            encoding = codecs.lookup(encoding).name
        with suppress(LookupError, ValueError):
            return data.decode(ENCODINGS["wider"].get(encoding, encoding), "replace")
    with suppress(UnicodeDecodeError):
        return data.decode()
    return data.decode("cp1252", "replace")


def _as_html(text: str) -> str:
    """Markdown as HTML, in which every picture has the line where it is."""
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise MissingExtraError("markdown-it-py", "web", "reading Markdown") from None
    language = None
    if matter := _FRONT_MATTER.match(text):
        language = _STATED_LANGUAGE.search(matter[0])
        text = "\n" * matter[0].count("\n") + text[matter.end() :]
    # what a generator fills in is seen, though it is no Markdown
    text = re.sub(r"\{\{[<%]\s*(?:figure|image|img)\b.*?[>%]\}\}", '<img src="{{">', text)
    text = re.sub(r"(!\[[^\]\n]*\]\()\s*(\{[{%][^)\n]*)\)", r"\1<\2>)", text)
    parser = MarkdownIt("commonmark").enable("table")
    tokens, line = parser.parse(text), 1
    for token in tokens:
        if token.map:
            line = token.map[0] + 1
        if token.type == "html_block":
            token.content = _numbered(token.content, line)
        here = line
        for child in token.children or ():
            if child.type == "image":
                child.attrSet(_LINE, str(here))
            elif child.type == "html_inline":
                n_breaks = child.content.count("\n")
                child.content = _numbered(child.content, here)
                here += n_breaks
            here += child.type in ("softbreak", "hardbreak")
    html = str(parser.renderer.render(tokens, parser.options, {}))
    return f'<div lang="{language[1]}">{html}</div>' if language else html


def _numbered(html: str, line: int) -> str:
    """HTML inside Markdown, with the line of every picture; the first character is on `line`."""

    def number(found: re.Match[str]) -> str:
        return f'{found[0]} {_LINE}="{line + html.count(chr(10), 0, found.start())}"'

    return re.sub(r"<img(?=[\s/>])", number, html, flags=re.I)
