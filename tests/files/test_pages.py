"""Alt texts of pages: which pictures are rows, by which file, in which language, and what is left out."""

import base64
import json
import re

import numpy as np
import pytest

import capscore
from capscore.files.read import open_rows
from capscore.images.load import load_image
from capscore.options import RowOptions

from ..cli.conftest import flat, read_jsonl, run, toys
from ..photos import encode, noise

__all__ = ["toys"]
PHOTO = encode(noise(64, 80))
DATA = f"data:image/png;base64,{base64.b64encode(PHOTO).decode()}"
TINY = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


def write_site(folder, pages):
    """Pages beside photos of 80 × 64 pixels, an icon and a drawing."""
    files = {"blog/page.html": "", "img/drawing": "<?xml version='1.0'?><svg xmlns='http://x.org'/>"}
    files |= dict.fromkeys(("img/a.png", "blog/b b.png", "blog/é.png", "a.png"), PHOTO)
    files |= {"img/icon.png": encode(noise(48, 48)), "img/a-2x.png": encode(noise(99, 99))}
    for name, content in {**files, **pages}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def rows_of(path, *names, **options):
    source = open_rows(path, RowOptions(**options))
    rows = [row for chunk in source.chunks(2) for row in chunk.dicts()]
    return [tuple(row.get(name) for name in names) for row in rows], source


# what a page at blog/page.html holds → image and caption of its row, or what is said of pictures left out
PICTURES = """
<img src="b%20b.png#x" alt="b &amp; c"> → blog/b b.png → b & c
<IMG ALT="an  a" SRC=" ../img/a.png?v=2 "> → img/a.png → an a
<p>un<b>closed <![x> <img src=/img/a.png alt=a> → img/a.png → a
<img src="%C3%A9.png" alt="é"> → blog/é.png → é
<img src="/project/img/a.png" alt="a"> → img/a.png → a
<base href="/img/"><img src="a.png" alt="a"> → img/a.png → a
<base href="https://x.org/img/"><img src="a.png" alt="a"> → img/a.png → a
<img src="//x.org/a.png" alt="a"> → https://x.org/a.png → a
<img src="no.png" alt="a"> → blog/no.png → a
<img src="DATA" alt="a"> → DATA → a
<img src="/a.png" srcset="/img/a.png, /img/a-2x.png 960w, /no.png 9w" alt="a"> → img/a-2x.png → a
<picture><source srcset="/no.avif"><source srcset="/a.png 2x"><img src="no.png" alt="a"> → a.png → a
<img src="TINY" data-src="/img/a.png" alt="a"> → img/a.png → a
<img data-srcset="/img/a.png 1x" alt="a" alt="b"> → img/a.png → a
<img src="/img/a.png"> → img/a.png → no alt
<img alt="a"> → no file → a
<!-- <img src=a> --><noscript><img src=a></noscript><template><img src=a></template> → no <img>
<img src="/a.png" alt><img src="/a.png" alt="a" role="none"> → decorative (empty alt): 2 pictures
<img src="x.svg?v" alt="a"><img src="/img/drawing" alt="a"> → as SVG: 2 pictures
<img src="/img/icon.png" alt="a"><img src="/a.png" width="24px" alt="a"> → icon (at most 48 pixels): 2
<img src="TINY"><img src="https://x.org/t" height=1 width=1> → tracking pixel: 2 pictures
<img src="{{ url }}/a.png" alt="a"> → score the built site
"""


@pytest.mark.parametrize("case", PICTURES.strip().splitlines())
def test_a_picture_of_a_page_is_a_row_by_the_best_file_or_left_out_aloud(tmp_path, case):
    html, *expected = case.replace("DATA", DATA).replace("TINY", TINY).split(" → ")
    write_site(tmp_path, {"blog/page.html": html})
    if len(expected) == 2:
        ((image, caption),), source = rows_of(tmp_path, "image", "caption")
        assert [image or "no file", caption or "no alt"] == expected
        assert len(source.faults) == (image is None or caption is None)
        if image == DATA:
            np.testing.assert_array_equal(np.asarray(load_image(image)), noise(64, 80))
    else:
        with pytest.raises(capscore.InputError, match=r"1 page, and no picture to score") as refused:
            rows_of(tmp_path)
        assert expected[0] in str(refused.value)


MARKDOWN = """---
title: "![front](matter.png)"
lang: de
---
![ein **b**](b%20b.png "Titel") und ![ref][a]
![x]({{ site.url }}/a.png) {{< figure src="/a.png" >}} <img src="/img/a.png"
  alt="inline"> `![code](a.png)`

    ![code](a.png)

| x | y |
|---|---|
| z | ![cell](../a.png) |

<figure lang="fr">

![une image](</img/a.png>)
<figcaption>La <i>légende</i></figcaption>
</figure>

[a]: ../a.png
"""
FOUND = """
blog/b b.png ein b de None 5
a.png ref de None 5
img/a.png inline de None 6
a.png cell de None 13
img/a.png une image fr La légende 17"""


def test_markdown_gives_rows_with_language_context_and_line(tmp_path):
    write_site(tmp_path, {"blog/page.md": MARKDOWN.replace("\n", "\r\n"), "blog/empty.md": "no picture"})
    rows, source = rows_of(tmp_path, "image", "caption", "language", "context", "line")
    assert [" ".join(map(str, row)) for row in rows] == FOUND.strip().splitlines()
    assert source.places[-1] == "blog/page.md:17"
    assert "2 pictures, the first at blog/page.md:6" in source.notes[0]
    alone, _ = rows_of(tmp_path / "blog/page.md", "image", images=tmp_path)
    assert alone == [row[:1] for row in rows]


META = '<meta http-equiv="Content-Type" content="text/html; charset={}">'
CHARSETS = {"latin-1": "cp1252", "GB2312": "gb18030", "utf-16": "utf-8"}
STARTS = [("", "utf-8"), ("\ufeff", "utf-8"), ("\ufeff", "utf-16-le"), ("", "cp1252")]
STARTS += [(META.format(name), encoding) for name, encoding in CHARSETS.items()]


@pytest.mark.parametrize(("start", "encoding"), STARTS)
def test_a_page_tells_its_encoding_and_its_language(tmp_path, start, encoding):
    word = "“猫”" if encoding == "gb18030" else "“Kätzchen”"
    html = f'{start}<div lang="en-US"><p lang=""><img src="a.png" alt="{word}"></p><b lang="xy-q">'
    html += '<img src="a.png" alt="a"></b><img src="a.png" alt="b"></div><img lang=pt-BR src="a.png" alt="c">'
    write_site(tmp_path, {"page.html": html.encode(encoding)})
    rows, source = rows_of(tmp_path / "page.html", "caption", "language")
    assert rows == [(word, None), ("a", None), ("b", "en-US"), ("c", "pt-BR")]
    assert "lang='xy-q', which is no language: 1 picture, the first at page.html:1" in str(source.notes)


def test_photos_of_many_pages_are_embedded_once_and_results_name_page_and_line(tmp_path, toys, monkeypatch):
    monkeypatch.setattr("capscore.scoring.files.CHUNK_ROWS", 3)
    monkeypatch.setattr("capscore.files.pages.CHUNK_BYTES", 400)
    html, site = '<b lang="en">\n<img src="/a.png" alt="a {}">\n<img src="/img/a.png">', tmp_path / "site"
    write_site(site, {f"p{n}.html": html.format(n) for n in range(9)})
    out, page = tmp_path / "o.jsonl", tmp_path / "report.html"
    options = ("--backbone", "toy", "--on-error", "skip", "-o", out, "--report", page, "--worst", 2)
    done = run("score", site, *options)
    assert done.exit_code == 3 and toys["toy"].encoded_images == 1
    assert "p0.html:3: candidate: the picture has no alt" in flat(done.stderr)
    assert re.search(r"p\d\.html:2 +a\.png", done.stdout)
    assert [(row["page"], row["line"]) for row in read_jsonl(out)[1:3]] == [("p0.html", 3), ("p1.html", 2)]
    failures = json.loads((tmp_path / "o.summary.json").read_text())["failures"]
    assert [(failure["row"], failure["line"]) for failure in failures[:2]] == [(1, 3), (3, 3)]
    assert '<th scope="row">p0.html</th><td>2</td><td>1</td>' in page.read_text()
    read = capscore.read_rows(site, on_error="skip").describe()
    assert (read.rows, read.format, read.problems["candidate"][0]) == (18, "web pages", 9)
