"""The demo answers with the library's scores, and with its errors."""

from __future__ import annotations

import html
import re
import sys

import pytest
import requests

import capscore
from capscore.backbones import find
from capscore.errors import CapscoreError, MissingExtraError, RecipeWarning
from capscore.perturbations import KINDS, perturb
from capscore.perturbations.by_degree import by_degree
from capscore.show import app_inputs, demo_app, perturbation_app
from capscore.show.app_parts import TITLES
from capscore.show.demo_app import EXAMPLES, build_app, launch
from capscore.text.languages import language_code

from ..photos import encode
from ..toy import RED, ColourBackbone, JudgingColours

gr = pytest.importorskip("gradio")


@pytest.fixture
def photo(uploads) -> str:
    path = uploads / "red.png"
    path.write_bytes(encode(RED))
    return str(path)


def answer(metric: str, *values, backbone=None):
    """What a click on Score gives: the HTML of the bars, and the signature."""
    app = build_app(metric, backbone=backbone or ColourBackbone(), device="cpu")
    function = next(function for function in app.fns.values() if function.api_name == "score")
    return function.fn(*values)


def shown(bars: str) -> list[float]:
    return [float(number) for number in re.findall(r"<strong[^>]*>([\d.]+)</strong>", bars)]


def test_scores_and_signature(photo):
    bars, signature = answer("mcs", photo, "red\n\n  red blue  \ngreen\n", "", "de")
    assert shown(bars) == [2.5, 1.768, 0.0]
    assert "2.5 × cosine 1.000" in bars and "2.5 × cosine 0.707" in bars and "cosine 0 or below" in bars
    assert "Bars reach from 0 to 2.5." in bars
    assert re.findall(r"width:([\d.]+)%", bars) == ["100.0", "70.7", "0.0"]
    assert "|lang:de|" in signature and signature.startswith("mcs|backbone:colours@")
    direct = capscore.load("mcs", backbone=ColourBackbone(), cache=False)
    assert signature == direct.score(["red"], [photo], language="de").signature


def test_references(photo):
    bars, signature = answer("ref_clip_score", photo, "red\nred blue", "green\nred", "")
    assert shown(bars) == [1.429, 1.010]
    assert "with the photo 1.768" in bars and "with the nearest reference 0.707" in bars
    assert "|refs:2|lang:unstated|" in signature


def test_a_metric_without_references_ignores_the_hidden_box(photo):
    assert "|refs:0|" in answer("clip_score", photo, "red", "some reference", None)[1]


def test_a_caption_is_text_not_html(photo):
    bars, _ = answer("mcs", photo, "<img src=x onerror=alert(1)> red", "", "")
    assert "<img" not in bars and "&lt;img" in bars


def test_what_is_off_is_noted(photo):
    bars, _ = answer("mcs", photo, "red red red red red red red", "", "ru")
    assert "was not trained on &#39;ru&#39; (it knows de, en)" in bars
    assert "1 of 1 rows have a text longer than 6 tokens" in bars
    assert "⚠️" not in answer("mcs", photo, "red", "", "de")[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: None}, "there is no photo"),
        ({1: " \n"}, "there is no caption"),
        ({2: ""}, "there is no reference"),
        ({3: "klingonish"}, "unknown language code 'klingonish'"),
        ({0: __file__}, "the photo was not uploaded"),
    ],
)
def test_errors_are_shown(photo, change, message):
    values = [photo, "red", "red", ""]
    for place, value in change.items():
        values[place] = value
    with pytest.raises(gr.Error, match=message):
        answer("ref_clip_score", *values)


def test_a_backbone_that_cannot_be_had_is_shown_at_the_click(photo):
    with pytest.raises(gr.Error, match="backbone") as caught:
        answer("mcs", photo, "red", "", "", backbone="./nowhere")
    assert "&lt;" not in caught.value.message and "embedded" in caught.value.message


def test_the_backbone_is_loaded_once_and_late(photo, monkeypatch):
    loads = []

    def counted(*arguments, **options):
        loads.append(options)
        return capscore.load(*arguments, **{**options, "backbone": ColourBackbone()})

    monkeypatch.setattr(demo_app, "load", counted)
    app = build_app("mcs", backbone="embedded")
    function = next(function for function in app.fns.values() if function.api_name == "score").fn
    assert loads == []
    function(photo, "red", "", "")
    function(photo, "blue", "", "")
    assert [options["backbone"] for options in loads] == ["embedded"]


def test_the_environment_chooses_the_backbone(monkeypatch):
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    assert "Backbone: `embedded`" in str(build_app("mcs").get_config_file())
    monkeypatch.delenv("CAPSCORE_BACKBONE")
    assert "Backbone: `xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k`" in str(
        build_app("mcs").get_config_file()
    )


# ------------------------------------------------------------------- texts only

CAPTIONS = "a red kite flies\na dog\n"
REFERENCES = "a red kite\nthe kite\n\n \na cat sleeps\n"


def test_captions_and_references():
    bars, signature = text_answer(CAPTIONS, REFERENCES, "en")
    direct = capscore.load("cider").score(
        ["a red kite flies", "a dog"],
        references=[["a red kite", "the kite"], ["a cat sleeps"]],
        language="en",
    )
    assert shown(bars) == [round(score, 3) for score in direct.scores]
    assert shown(bars)[0] > 2 and shown(bars)[1] == 0
    assert "“a red kite”" in bars and "“a”" in bars and "“kite”" not in bars
    assert signature == direct.signature
    assert "no word in common" in text_answer("x y\na", REFERENCES, "")[0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((" ", REFERENCES, "en"), "there is no caption"),
        (
            ("a dog", REFERENCES, "en"),
            "1 captions but the references of 2 photos: put an empty line",
        ),
        ((CAPTIONS, "", "en"), "2 captions but the references of 0 photos"),
        (("a dog", "a dog", "en"), "one photo only: .* by definition"),
        ((CAPTIONS, REFERENCES, "klingonish"), "unknown language code 'klingonish'"),
    ],
)
def test_errors_of_texts_are_shown(values, message):
    with pytest.raises(gr.Error, match=message):
        text_answer(*values)


def test_text_examples_score_above_nothing():
    for _, captions, references, language in demo_app.TEXT_EXAMPLES:
        scores = shown(text_answer(captions, references, language)[0])
        assert len(scores) == 3 and scores[0] > scores[1] and min(scores) > 0


def test_texts_that_were_not_split_are_noted():
    captions, references = "犬が走る\na dog", "犬が走っている\n\na dog runs"
    assert "2 of 4 texts are written without spaces" in text_answer(captions, references, "")[0]
    assert "the language is &#39;de&#39;" in text_answer(captions, references, "de")[0]
    assert "⚠️" not in text_answer(captions, references, "ja")[0]


def text_answer(captions: str, references: str, language: str) -> tuple[str, str]:
    app = build_app("cider")
    function = next(function for function in app.fns.values() if function.api_name == "score")
    return function.fn(captions, references, language)


# ------------------------------------------------------------------- perturbed words

CAPTION = "red kites and red dogs"


@pytest.fixture
def fine_tuned():
    backbone = ColourBackbone()
    backbone.recipe = "pr_mcs"
    return backbone


def perturbed(photo, *values, backbone):
    """One list a row: its name, its texts, its numbers; and all of the HTML."""
    table, signatures = answer("pr_mcs", photo, *values, backbone=backbone)
    rows = []
    for row in re.findall(r"<tr.*?>(.*?)</tr>", table.partition("</table>")[0])[1:]:
        head, texts, *numbers = re.findall(r"<t[hd][ >].*?</t[hd]>", row)
        said = re.findall(r'<span dir="auto">(.*?)</span>', texts) or [texts]
        rows.append([html.unescape(re.sub("<[^>]+>", "", part)) for part in (head, *said, *numbers)])
    return rows, table, signatures


def test_a_caption_and_its_perturbations(photo, fine_tuned):
    values = (CAPTION, "en", "kites, dogs", "blue kites and red dogs", 3, 0.4)
    rows, table, signatures = perturbed(photo, *values, backbone=fine_tuned)
    assert rows[0][:2] == ["as it is", CAPTION]
    heads = [row[0] for row in rows]
    assert (
        heads[1].startswith("repetition") and heads[5].startswith("substitution") and heads[6] == "your own"
    )
    for row, kind in zip(rows[1:6], KINDS, strict=True):
        objects = [["kites", "dogs"]] if kind == "substitution" else None
        text = perturb([CAPTION], kind, "en", seed=3, p=0.4, objects=objects).captions[0]
        assert row[1:3] == [CAPTION, text]
    assert rows[5][2] == "red dogs and red kites"
    # of the colours that the towers see, nothing changes by an exchange; a half goes where red becomes blue
    assert rows[5][3:] == ["MCS2.5000 %", "PR-MCS2.5000 %"]
    assert rows[6][3:] == ["MCS1.768−29 %", "PR-MCS1.768−29 %"]
    last = table[table.index(">substitution") : table.index(">your own")]
    assert (
        re.findall("<del>(.*?)</del>", last)
        == re.findall("<ins>(.*?)</ins>", last)[::-1]
        == ["kites", "dogs"]
    )
    lines = signatures.splitlines()
    assert [line.partition("|")[0] for line in lines] == ["mcs", "pr_mcs"]
    assert all("|lang:en|" in line for line in lines)


def judging():
    backbone = JudgingColours()
    backbone.max_tokens = 40
    return backbone


def test_what_was_found_stands_below_each_caption(photo):
    _, table, _ = perturbed(photo, "red kites fly", "en", "", "red red red red", 0, 0.4, backbone=judging())
    found = re.findall(r'found">(.*?)</div>', table)
    # of the five tokens of the caption and its edit, start and end among them: 4 kinds of 5, 3 of 6
    assert found[0] == "80 % kept: no noise (p = 0.80)"
    assert found[-1] == "50 % kept: no noise (p = 0.50)"


def test_curves_by_degree(photo):
    caption = "red kites and blue dogs"
    _, table, _ = perturbed(photo, caption, "en", "kites, dogs", "", 5, 0.4, backbone=judging())
    curves = table.partition("PR-MCS by degree")[2]
    heads = [html.unescape(one) for one in re.findall(r'"columnheader" class="number">(.*?)</th>', curves)]
    assert heads == ["10 %", "20 %", "40 %", "60 %", "80 %"]
    assert re.findall("<title>(.*?)</title>", curves) == list(KINDS)
    scorer = capscore.load("pr_mcs", backbone=judging(), cache=False)
    rows = re.findall(r"<tr.*?>(.*?)</tr>", curves)[1:]
    assert len(rows) == len(KINDS)
    for row, kind in zip(rows, KINDS, strict=True):
        shown = [float(number) for number in re.findall(r"</span>([\d.]+)<div", row)]
        objects = [["kites", "dogs"]] if kind == "substitution" else None
        expected = [
            scorer.score(
                [
                    by_degree([caption], kind, "en", degree=degree, seed=seed, objects=objects).captions[0]
                    for seed in (5, 6, 7)
                ],
                [photo] * 3,
            ).mean
            for degree in (0.1, 0.2, 0.4, 0.6, 0.8)
        ]
        assert shown == pytest.approx(expected, abs=6e-4)
    assert curves.count("<polyline") == 5 and curves.count("<circle") == 30


def test_a_kind_that_cannot_change_the_caption_has_no_curve(photo, fine_tuned):
    _, table, _ = perturbed(photo, "red", "en", "red", "", 0, 0.4, backbone=fine_tuned)
    assert re.findall("<title>(.*?)</title>", table) == ["repetition", "masking"]


def test_long_captions_have_no_curves(photo, fine_tuned):
    _, table, _ = perturbed(photo, "red kites " * 101, "en", "red", "", 0, 0.4, backbone=fine_tuned)
    assert "polyline" not in table and "captions of up to 1,000 characters" in table


def test_seed_and_p_change_what_is_drawn(photo, fine_tuned):
    def texts(seed, p):
        rows, _, _ = perturbed(photo, CAPTION, "en", "kites, dogs", "", seed, p, backbone=fine_tuned)
        assert len(rows) == 6
        return [row[2] for row in rows[1:]]

    assert texts(0, 0.4) == texts(0, 0.4) != texts(1, 0.4)
    assert texts(0, 0.0)[2].count("[MASK]") == 1 and texts(0, 1.0)[2].count("[MASK]") == 4


def test_every_object_moves_on_demand(photo, fine_tuned):
    def text(*order):
        values = ("kites and dogs and owls", "en", "kites, dogs, owls", "", 0, 0.4, *order)
        return perturbed(photo, *values, backbone=fine_tuned)[0][5][2]

    assert text() == text("published") == "owls and dogs and kites"
    assert text("every") == "dogs and owls and kites"
    radio = [part for part in build_app("pr_mcs").blocks.values() if isinstance(part, gr.Radio)]
    assert [[value for _, value in part.choices] for part in radio] == [["published", "every"]]


def test_what_cannot_be_perturbed_says_why(photo, fine_tuned, monkeypatch):
    rows, _, _ = perturbed(photo, "red", "en", "red", "", 0, 0.4, backbone=fine_tuned)
    assert rows[2][1] == rows[4][1] == "unchanged: the caption has no two different words"
    assert rows[5][1] == "unchanged: the caption has no two different objects"
    assert rows[1][2] == "red red"

    def missing(language):
        raise MissingExtraError("HanTa", "nouns", "finding nouns")

    monkeypatch.setattr("capscore.text.word_classes._tagger", missing)
    rows, _, _ = perturbed(photo, CAPTION, "de", "", "", 0, 0.4, backbone=fine_tuned)
    assert "capscore[nouns]" in rows[5][1] and len(rows[5]) == 2
    assert len(rows[4]) == 5, "the other rows are there"


def test_notes_on_perturbed_captions(photo, fine_tuned):
    def notes(*values, backbone=fine_tuned):
        return html.unescape(perturbed(photo, *values, backbone=backbone)[1])

    assert "⚠️" not in notes(CAPTION, "en", "kites、dogs", "", 0, 0.4).partition("</table>")[2].replace(
        "⚠️ A caption is longer than 6 tokens", ""
    )
    assert "1 of the 2 objects are not in the caption" in notes(CAPTION, "en", "kites, cats", "", 0, 0.4)
    assert "was not trained on 'fr'" in notes(CAPTION, "fr", "kites, dogs", "", 0, 0.4)
    plain = notes(CAPTION, "en", "kites, dogs", "", 0, 0.4, backbone=ColourBackbone())
    assert "was not fine-tuned for PR-MCS: both columns show MCS" in plain
    assert "fine-tuned" not in notes(CAPTION, "en", "kites, dogs", "", 0, 0.4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: None}, "there is no photo"),
        ({1: " "}, "there is no caption"),
        ({2: "klingonish"}, "unknown language code 'klingonish'"),
        ({5: 1.5}, "seed=1.5: expected a whole number"),
        ({5: None}, "seed=None: expected a whole number"),
        ({6: 2}, "p=2: expected a probability"),
        ({7: "all"}, "order 'all' is not one of published, every"),
        ({0: __file__}, "the photo was not uploaded"),
    ],
)
def test_errors_on_perturbed_captions_are_shown(photo, fine_tuned, change, message):
    values = [photo, CAPTION, "en", "kites, dogs", "", 0, 0.4, "published"]
    for place, value in change.items():
        values[place] = value
    with pytest.raises(gr.Error, match=message):
        answer("pr_mcs", *values, backbone=fine_tuned)


def test_mcs_is_on_what_the_backbone_was_fine_tuned_from(photo, monkeypatch):
    asked = []
    load = capscore.load  # before it is replaced where it comes from

    def counted(metric, *, backbone, **options):
        asked.append((metric, backbone))
        return load(metric, backbone=ColourBackbone())

    monkeypatch.setattr("capscore.metrics.load", counted)
    with pytest.warns(RecipeWarning):
        answer("pr_mcs", photo, CAPTION, "en", "kites, dogs", backbone="embedded-pr-mcs")
    assert asked == [("pr_mcs", "embedded-pr-mcs"), ("mcs", find("embedded-pr-mcs").base)]


def test_the_environment_chooses_the_companion(monkeypatch):
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    assert "Backbone: `embedded-pr-mcs`" in str(build_app("pr_mcs").get_config_file())


def test_perturbed_captions_are_text_not_html(photo, fine_tuned):
    _, table, _ = perturbed(photo, "red <b>dogs</b>", "en", "", "<i>x</i> red", 0, 0.4, backbone=fine_tuned)
    assert "<b>" not in table and "<i>" not in table and "&lt;b&gt;" in table


def test_examples_of_perturbed_captions(base_of_pr_mcs, embedded_pr_mcs):
    """Each is a right caption with its objects in it, and PR-MCS sees more of its perturbations than MCS."""
    pytest.importorskip("skimage")
    examples = perturbation_app.examples()
    assert [row[2] for _, row in examples] == [code for code, *_ in EXAMPLES]
    both = [
        capscore.load(metric, backbone=backbone, cache=False)
        for metric, backbone in (("mcs", base_of_pr_mcs), ("pr_mcs", embedded_pr_mcs))
    ]
    left = []
    for name, (path, caption, code, objects, _) in examples:
        given = perturbation_app._objects(objects)
        assert len(given) == 3 and all(part in caption for part in given), name
        texts = [caption]
        for kind in KINDS:
            made = perturb([caption], kind, code, objects=[given] if kind == "substitution" else None)
            assert not made.unchanged[0], (name, kind)
            texts += made.captions
        scores = [scorer.score(texts, [path] * 6, language=code).scores for scorer in both]
        assert all(values[0] > 0.2 for values in scores), name
        left.append([values[1:].mean() / values[0] for values in scores])
    plain, robust = zip(*left, strict=True)
    assert sum(robust) < 0.6 * sum(plain)


def test_a_metric_without_a_demo():
    with pytest.raises(
        CapscoreError, match=r"there is no demo of bleu; there are demos of mcs, pr_mcs, .*cider"
    ):
        build_app("bleu")


def test_without_gradio(monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(MissingExtraError, match=r"capscore\[app\]"):
        build_app("mcs")


def test_an_unknown_metric():
    with pytest.raises(CapscoreError, match="did you mean 'mcs'"):
        build_app("mcss")


def test_examples_are_in_order(embedded):
    """On the embedded backbone the right caption of every example scores above the wrong one."""
    pytest.importorskip("skimage")
    assert len({code for code, *_ in EXAMPLES}) == len(EXAMPLES) >= 8
    both = {metric: capscore.load(metric, backbone=embedded) for metric in ("mcs", "ref_clip_score")}
    for name, (path, captions, references, code) in demo_app._examples("mcs"):
        assert language_code(code) in embedded.languages
        pair = captions.splitlines()
        right, wrong = both["mcs"].score(pair, [path] * 2, language=code).scores
        assert right > wrong + 0.2, name
        lists = [references.splitlines()] * 2
        right, wrong = both["ref_clip_score"].score(pair, [path] * 2, lists, code).scores
        assert right > wrong + 0.2, name
    assert [name for name, _ in demo_app._examples("clip_score")] == ["English"]


QUIET = {
    "server_name": "127.0.0.1",
    "prevent_thread_lock": True,
    "quiet": True,
    "share": False,
    "inbrowser": False,
}


def test_the_server_answers(photo):
    """As a browser would ask, over HTTP on this machine."""
    client = pytest.importorskip("gradio_client")
    app = build_app("mcs", backbone=ColourBackbone())
    _, address, _ = launch(app, **QUIET)
    try:
        browser = client.Client(address, verbose=False)
        bars, signature = browser.predict(client.handle_file(photo), "red\nblue", "", "en", api_name="/score")
        assert shown(bars) == [2.5, 0.0]
        assert "|lang:en|" in signature
        with pytest.raises(Exception, match="there is no caption") as caught:
            browser.predict(client.handle_file(photo), "", "", "en", api_name="/score")
        assert html.unescape(str(caught.value)) == str(caught.value)
    finally:
        app.close()


def test_the_server_reads_uploads_alone(photo, tmp_path, monkeypatch):
    """What a program may send that is no browser: other files of this machine, and very large ones."""
    secret = tmp_path / "secret.png"
    secret.write_bytes(encode(RED))
    app = build_app("mcs", backbone=ColourBackbone())
    _, address, _ = launch(app, **QUIET)
    address = f"{address}gradio_api"

    def ask(photo, *values):
        """The answer to a click on Score: the last event that the server sends."""
        body = {"data": [photo, *values]}
        started = requests.post(f"{address}/call/score", json=body, timeout=60)
        assert started.status_code == 200, started.text
        return requests.get(f"{address}/call/score/{started.json()['event_id']}", timeout=60).text

    def upload(name, content):
        return requests.post(f"{address}/upload", files={"files": (name, content)}, timeout=60)

    try:
        mine = {"path": upload("mine.png", encode(RED)).json()[0], "meta": {"_type": "gradio.FileData"}}
        assert "event: complete" in ask(mine, "red", "", "en")
        for path in (str(secret), f"{mine['path']}/../../../secret.png", "/etc/passwd"):
            answer = ask({**mine, "path": path}, "red", "", "en")
            assert "event: error" in answer and "Traceback" not in answer and "2.5" not in answer
            assert requests.get(f"{address}/file={path}", timeout=60).status_code in (403, 404)
        large = upload("large.png", bytes(app_inputs.MOST_UPLOAD_BYTES + 1))
        assert large.status_code == 413
        assert "this demo reads 100 at most" in ask(mine, "red\n" * 101, "", "en")
        assert "this demo reads 20,000 at most" in ask(mine, "r" * 20_001, "", "en")

        def fail(*_, **__):
            raise RuntimeError("the password is 1234")

        monkeypatch.setattr(demo_app, "_bars", fail)
        answer = ask(mine, "red", "", "en")
        assert "Something went wrong inside the demo" in answer
        assert "1234" not in answer and "Traceback" not in answer
    finally:
        app.close()


@pytest.mark.parametrize("metric", sorted(TITLES))
def test_no_telemetry_and_no_flagging(metric):
    app = build_app(metric, backbone=None if metric == "cider" else ColourBackbone())
    assert app.analytics_enabled is False
    assert app.delete_cache == (600, 3600)
    assert {one.api_name for one in app.fns.values() if one.api_name} <= {"score", "load_example"}


@pytest.mark.parametrize("metric", sorted(TITLES))
def test_every_demo_fits_a_phone(metric):
    """Its style turns rows into blocks; gradio's own table would hide columns, and its greys are too pale."""
    app = build_app(metric, backbone=None if metric == "cider" else ColourBackbone())
    parts = list(app.blocks.values())
    (style,) = [part.value for part in parts if isinstance(part, gr.HTML) and "<style>" in part.value]
    assert "@container" in style and "--block-info-text-color: var(--neutral-500)" in style
    assert "}}" not in style and "{{" not in style, "gradio would read these as its own"
    assert not any(isinstance(part, gr.Dataframe) for part in parts)
