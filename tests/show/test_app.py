"""The app answers with the library's scores, marks and comparisons, and with its errors."""

import html
import re
import socket
import sys
from unittest import mock

import pytest
import requests

import capscore
from capscore.errors import CapscoreError, MissingExtraError, install_command
from capscore.registry import METRICS
from capscore.show import app as app_module
from capscore.show.app import build_app, launch
from tools.tiny.colours import RED, ColourBackbone

from ..cli.conftest import judge, run
from ..photos import encode

__all__ = ["judge"]


@pytest.fixture(autouse=True)
def gr():
    """Gradio, which only the worker that runs these tests reads."""
    return pytest.importorskip("gradio")


@pytest.fixture
def photo(tmp_path, monkeypatch) -> str:
    """A photo in the folder in which gradio keeps uploads."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    path = tmp_path / "uploads" / "red.png"
    path.parent.mkdir()
    path.write_bytes(encode(RED))
    return str(path)


def answer(metric: str, *values, backbone=None):
    return call(build_app(metric, backbone=backbone or ColourBackbone()), "score", "explain")(*values)


def shown(bars: str) -> list[float]:
    return [float(number) for number in re.findall(r"<strong[^>]*>([\d.]+)</strong>", bars)]


def text_of(markup: str) -> str:
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", markup)).split())


def call(page, *names):
    """The function behind the button of the first tab of these names: → HTML, and the signature."""
    return next(tab.fn for tab in page.fns.values() if tab.api_name in names)


def test_scores_and_signature_are_the_librarys(photo):
    bars, signature = answer("mcs", photo, "red\n\n  red blue  \ngreen\n", "", "de")
    assert shown(bars) == [2.5, 1.768, 0.0] and "Bars reach from 0 to 2.5." in bars
    assert re.findall(r"width:([\d.]+)%", bars) == ["100.0", "70.7", "0.0"]
    direct = capscore.load("mcs", backbone=ColourBackbone(), cache=False)
    assert signature == direct.score(["red"], [photo], language="de").signature


def test_a_judge_gives_its_reasons_and_takes_no_backbone_of_other_metrics(photo, judge):
    bars, _ = answer("judge", photo, "red", "", "", backbone="own")
    assert "too &lt;b&gt;" in bars and "margin: " in bars and 0 <= shown(bars)[0] <= 1
    call(build_app(None, backbone=ColourBackbone()), "score")(photo, "red", "", "", "judge")
    assert judge == ["own", METRICS.get("judge").default_backbone]


def test_references_of_one_photo_and_of_texts(photo):
    bars, signature = answer("ref_clip_score", photo, "red\nred blue", "green\nred", "")
    assert shown(bars) == [1.429, 1.010] and "|refs:2|lang:unstated|" in signature
    assert "clip_score: 1.768" in bars and "text_score: 0.707" in bars
    captions, references = "a red kite flies\na dog\n", "a red kite\nthe kite\n\n \na cat sleeps\n"
    bars, signature = answer("cider", None, captions, references, "en")
    lists = [["a red kite", "the kite"], ["a cat sleeps"]]
    direct = capscore.load("cider").score(["a red kite flies", "a dog"], references=lists, language="en")
    assert shown(bars) == [round(score, 3) for score in direct.scores] and shown(bars)[0] > 2
    assert signature == direct.signature


def test_any_metric_can_be_chosen_in_the_tab(photo, gr):
    page = build_app(backbone=ColourBackbone())
    tabs = [block.label for block in page.blocks.values() if isinstance(block, gr.Tab)]
    assert tabs == ["Explain", "Score", "Compare"]
    score = call(page, "score")
    assert shown(score(photo, "red", "", "", "mcs")[0]) == [2.5]
    assert shown(score(None, "a dog runs", "a dog runs", "en", "rouge_l")[0]) == [1.0]
    dropdown = next(block for block in page.blocks.values() if getattr(block, "label", "") == "Metric")
    assert [value for _, value in dropdown.choices] == METRICS.names()


def test_captions_are_compared_by_several_metrics(photo, gr):
    compare = call(build_app(backbone=ColourBackbone()), "compare")
    table, signatures = compare(photo, "red\nred blue\ngreen", "red\nblue", "en", ["mcs", "rouge_l"])
    rows = [text_of(row) for row in table.split("<tr>")[1:]]
    assert rows[0] == "Caption MCS ROUGE-L"
    numbers = ["2.500 1.000", "1.768 0.709", "0.000 0.000"]
    assert [" ".join(re.findall(r"\d\.\d{3}", row)) for row in rows[1:]] == numbers
    assert shown(table) == [2.5, 1.0]  # the best caption of each metric
    assert [line.split("|")[0] for line in signatures.splitlines()] == ["mcs", "rouge_l"]
    with pytest.raises(gr.Error, match="no metric is chosen"):
        compare(photo, "red", "", "en", [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(({0: None}, "no photo"), ({1: " \n"}, "no caption"), ({2: ""}, "no reference")),
        ({2: "a\n\nb\n\nc"}, "1 captions but the references of 3 photos"),
        *(({3: "klingonish"}, "unknown language code 'klingonish'"), ({3: "<b>"}, "&lt;b&gt;")),
        *(({1: "red\n" * 101}, "101 lines; "), ({1: "r" * 20_001}, "20,001 characters in 1 lines")),
        *(({1: ["red"]}, "got a list"), ({1: "red \ud800"}, "surrogate")),
        *(({0: b"text"}, "&lt;b&gt;x.png"), ({0: bytes(20 * 2**20 + 1)}, "20 MB at most")),
    ],
)
def test_errors_are_shown(photo, tmp_path, gr, change, message):
    values = dict(enumerate((photo, "red", "red", ""))) | change
    if isinstance(values[0], bytes):
        values[0], content = str(tmp_path / "<b>x.png"), values[0]
        (tmp_path / "<b>x.png").write_bytes(content)
    with pytest.raises(gr.Error, match=message):
        answer("ref_clip_score", *values.values())


def test_the_backbone_is_loaded_once_and_late(photo, monkeypatch):
    loads = []

    def counted(*metric, backbone, **options):
        loads.append(backbone)
        return capscore.load(*metric, backbone=ColourBackbone(), **options)

    monkeypatch.setattr(app_module, "load", counted)
    page = build_app("mcs", backbone="embedded")
    assert loads == []
    for caption in ("red", "blue"):
        call(page, "score")(photo, caption, "", "")
    assert loads == ["embedded"]


def test_a_page_names_its_backbone_and_how_to_install_the_photos_of_examples(monkeypatch):
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    monkeypatch.setattr(app_module, "find_spec", lambda name: None)
    for metric, backbone in (("mcs", "embedded"), ("pr_mcs", "embedded-pr-mcs")):
        page = str(build_app(metric).get_config_file())
        assert f"Backbone: `{backbone}`" in page and install_command("demo") in page


def test_the_right_caption_of_every_example_scores_above_the_wrong_one(embedded):
    pytest.importorskip("skimage")
    scorer = capscore.load("mcs", backbone=embedded)
    assert len(app_module._examples("mcs")) == 8
    for name, (path, captions, _, code) in app_module._examples("mcs"):
        right, wrong = scorer.score(captions.splitlines(), [path] * 2, language=code).scores
        assert right > wrong + 0.2, name
    ((_, (_, captions, references, _)),) = app_module._examples("cider")
    scores = shown(answer("cider", None, captions, references, "en")[0])
    assert len(scores) == 3 and min(scores) > 0


def test_marks_are_the_librarys_and_captions_cannot_change_the_page(photo):
    captions = ['red <img src=x onerror=alert(1)> "kite" & </iframe>', "blue"]
    result, signature = answer("infometic", photo, f"{captions[0]}\n blue ", "en")
    scorer = capscore.load("infometic", backbone=ColourBackbone(), cache=False)
    scores = scorer.score(captions, [photo] * 2, language="en")
    assert signature == scores.signature
    assert result.count("<iframe") == result.count("</iframe>") == 1
    assert '<iframe sandbox="allow-same-origin" ' in result and "<img" not in result
    assert "There are no trained weights here" in text_of(result.partition("<iframe")[0])
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', result)[1])
    assert page.startswith("<!DOCTYPE html>") and "&lt;img src=" in page
    assert not re.search("<script|<img|</iframe>", page)
    values = [f"{value:.2f}".replace("-", "−") for value in scores.scores]
    assert all(value in text_of(page) for value in values)


def test_no_folder_of_the_server_is_in_an_error_or_a_heading(photo, monkeypatch, gr):
    error = CapscoreError("spice needs Java: no java in /opt/a folder/bin, C:\\jdk\\bin or ~/tools/java")
    monkeypatch.setattr(app_module, "load", mock.Mock(side_effect=error))
    page = build_app("mcs", backbone="/srv/models/mine")
    parts = [part.value for part in page.blocks.values() if isinstance(part, gr.Markdown)]
    assert "`mine`" in parts[0] and "/srv" not in parts[0]
    with pytest.raises(gr.Error, match="no java in bin, bin or java"):
        call(page, "score")(photo, "red", "", "")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("PATH=/usr/local/bin:/opt/secret/bin", "PATH=bin:bin"),
        ("cannot read 'file:///srv/app/x.png'", "cannot read 'x.png'"),
        ("'/srv/a (b), c/d;e/x.jar' is gone", "'x.jar' is gone"),
        ("(see /srv/a(b)/x, /srv/app/y)", "(see x, y)"),
        ("PosixPath('/srv/x/y') and ~anna/models/tower", "PosixPath('y') and tower"),
        (r"\\server\share\x.png", "x.png"),
        ("mcs|backbone:/srv/models/tower@w1|refs:0", "mcs|backbone:tower@w1|refs:0"),
        ("it's in /srv/a/b and that's /srv/c/d", "it's in b and that's d"),
        *[(text, text) for text in ("https://x.org/a/b, s3://a/b/c", "12.5 km/h; 犬/猫, and/or a/b")],
    ],
)
def test_of_a_path_only_the_name_of_the_file_is_shown(message, shown):
    assert app_module.without_folders(message) == shown


def test_the_server_reads_uploads_alone(photo, tmp_path, monkeypatch):
    """What a program may send that is no browser: other files of this machine, and very large ones."""
    secret = tmp_path / "secret.png"
    secret.write_bytes(encode(RED))
    page = build_app("mcs", backbone=ColourBackbone())
    quiet = {"prevent_thread_lock": True, "quiet": True, "inbrowser": False}
    _, address, _ = launch(page, server_name="127.0.0.1", **quiet)
    address = f"{address}gradio_api"

    def ask(photo, *values):
        """The answer to a click on Score: the last event that the server sends."""
        started = requests.post(f"{address}/call/score", json={"data": [photo, *values]}, timeout=300)
        return requests.get(f"{address}/call/score/{started.json()['event_id']}", timeout=300).text

    def upload(name, content):
        return requests.post(f"{address}/upload", files={"files": (name, content)}, timeout=300)

    try:
        mine = {"path": upload("mine.png", encode(RED)).json()[0], "meta": {"_type": "gradio.FileData"}}
        assert "event: complete" in ask(mine, "red", "", "en")
        for path in (str(secret), f"{mine['path']}/../../../secret.png", "/etc/passwd"):
            answered = ask({**mine, "path": path}, "red", "", "en")
            assert "event: error" in answered and "Traceback" not in answered and "2.5" not in answered
            assert requests.get(f"{address}/file={path}", timeout=300).status_code in (403, 404)
        assert upload("large.png", bytes(app_module.MAX_UPLOAD_BYTES + 1)).status_code == 413
        monkeypatch.setattr(app_module, "scored", mock.Mock(side_effect=RuntimeError("the password is 1234")))
        answered = ask(mine, "red", "", "en")
        assert "Something went wrong inside the app" in answered
        assert "1234" not in answered and "Traceback" not in answered
    finally:
        page.close()


@pytest.mark.parametrize(
    ("metric", "backbone", "variable", "host"),
    [
        ("judge", "https://x.org/v1", "", "https://x.org/v1"),
        ("judge", None, "http://127.0.0.1:8000/v1?key=1", "http://127.0.0.1:8000/v1?…"),
        (None, None, "https://y.org/v1", "https://y.org/v1"),
        ("judge", "Qwen/Qwen3-VL-4B-Instruct", "https://y.org/v1", ""),
        *(("mcs", None, "https://y.org/v1", ""), (None, "embedded", "", "")),
    ],
)
def test_page_and_command_say_what_a_remote_judge_is_sent(metric, backbone, variable, host, monkeypatch, gr):
    monkeypatch.setenv("CAPSCORE_JUDGE", variable)
    pages: list = []
    monkeypatch.setattr(app_module, "launch", lambda page, **_: pages.append(page))
    given = [*(["--metric", metric] if metric else []), *(["--backbone", backbone] if backbone else [])]
    said = run("app", *given).output
    (page,) = pages
    shown = " ".join(str(part.value) for part in page.blocks.values() if isinstance(part, gr.Markdown))
    for text in (" ".join(said.split()), shown):
        assert ("sends each photo and its captions to" in text) == bool(host) and host in text


def test_no_telemetry_an_example_in_the_boxes_and_a_style_for_phones(gr):
    page = build_app("cider")
    assert page.analytics_enabled is False and page.delete_cache == (600, 3600)
    parts, kinds = page.blocks.values(), (gr.HTML, gr.Textbox)
    texts = {kind: [part.value for part in parts if isinstance(part, kind)] for kind in kinds}
    (style,) = [part for part in texts[gr.HTML] if "<style>" in part]
    assert "@container" in style and not re.search("}}|{{", style)
    assert texts[gr.Textbox][0].count("\n") == 2 and texts[gr.Textbox][1]


def test_a_taken_port_is_an_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        outcome = run("app", "--port", port, "--backbone", "embedded")
    assert outcome.exit_code == 1 and str(port) in " ".join(outcome.output.split())


def test_an_unknown_metric_and_a_missing_extra_are_named(monkeypatch):
    with pytest.raises(CapscoreError, match="did you mean 'mcs'"):
        build_app("mcss")
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(MissingExtraError, match=r"\[app\]"):
        build_app("mcs")
