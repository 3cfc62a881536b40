"""Each folder of `metrics/` is a whole Space, and its card says what is so: its examples are run here."""

from __future__ import annotations

import copy
import doctest
import importlib.util
import re
from importlib.metadata import metadata, requires

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import capscore
from capscore.backbones import find
from capscore.backbones.base import PUBLISHED_W as W
from capscore.metrics.loading import default_backbone, options_of
from capscore.registry import METRICS as SCORERS

from ..photos import encode, noise
from ..toy import RED
from .conftest import METRICS, SLUGS, WITH_BACKBONE

COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
SECTIONS = [
    "Description",
    "How to use",
    "Values from papers",
    "Why do packages give different {}s?",
    "Examples",
    "Limitations and bias",
    "Citation",
    "Changelog",
]
# a card of weights that ship says what they give and where they come from
SECTIONS_WITH_WEIGHTS = [
    *SECTIONS[:3],
    "Measured with these weights",
    "Training",
    *SECTIONS[4:],
]


def card(slug: str) -> tuple[dict, str]:
    """Front matter and body."""
    text = (METRICS / slug / "README.md").read_text(encoding="utf-8")
    _, front, body = re.split(r"^---\n", text, maxsplit=2, flags=re.MULTILINE)
    return yaml.safe_load(front), body


def section(body: str, title: str) -> str:
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", body, re.DOTALL | re.MULTILINE)[1]


def test_every_module_is_a_metric():
    assert set(SLUGS) <= set(SCORERS.names())
    assert {"cider", "clip_score", "infometic", "mcs", "pr_mcs", "ref_clip_score"} <= set(SLUGS)


def test_a_folder_is_named_as_its_files(slug):
    names = {path.name for path in (METRICS / slug).iterdir() if path.name != "__pycache__"}
    assert names == {f"{slug}.py", "README.md", "app.py", "requirements.txt"}
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", slug)


def test_front_matter(slug, load):
    front, _ = card(slug)
    assert set(front) == {
        *("title", "emoji", "colorFrom", "colorTo", "sdk", "sdk_version", "app_file", "pinned"),
        *("license", "tags", "description"),
    }
    assert front["sdk"] == "gradio"
    assert (METRICS / slug / front["app_file"]).is_file()
    assert {front["colorFrom"], front["colorTo"]} <= COLOURS
    assert {"evaluate", "metric"} <= set(front["tags"])
    assert front["pinned"] is False
    assert front["description"] == " ".join(load(slug).description.split())
    bounds = [Requirement(line) for line in requires("capscore")]
    gradio = next(requirement for requirement in bounds if requirement.name == "gradio")
    assert gradio.specifier.contains(Version(front["sdk_version"]))


def test_sections(slug, load):
    front, body = card(slug)
    asked = "CLIPScore" if slug in WITH_BACKBONE else front["title"]
    expected = SECTIONS_WITH_WEIGHTS if slug in ("infometic", "pr_mcs") else SECTIONS
    assert re.findall(r"^## (.*)$", body, re.MULTILINE) == [title.format(asked) for title in expected]
    assert re.search(r"^# Metric: ([\w-]+)", body, re.MULTILINE)[1] == front["title"]
    assert load(slug).citation.strip() in section(body, "Citation")
    versions = re.findall(r"^- \*\*(.+?)\*\*", section(body, "Changelog"), re.MULTILINE)
    assert versions[0] == capscore.__version__


def test_requirements(slug):
    lines = (METRICS / slug / "requirements.txt").read_text().splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    library = requirements[0]
    assert library.name == "capscore"
    assert library.specifier.contains(capscore.__version__)
    assert {specifier.operator for specifier in library.specifier} == {">=", "<"}
    needed = {"embedded", "app", "demo"} if slug in WITH_BACKBONE else {"app", "segmentation"}
    assert needed <= library.extras <= set(metadata("capscore").get_all("Provides-Extra"))


def test_outputs_in_the_card_are_those_of_the_module(slug, load):
    kind = SCORERS.get(slug)
    rows = {"predictions": ["red", "blue"]}
    if kind.needs_images:
        rows["images"] = [RED, RED]
    if kind.needs_references:
        rows["references"] = [["red"], ["blue"]]
    _, body = card(slug)
    table = section(body, "How to use").partition("### Output values")[2].partition("###")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert set(named) == set(load(slug).compute(**rows))
    # InfoMetIC's: two cosines, each times what the backbone's are multiplied by
    lowest = "−2 · s" if slug == "infometic" else "0"
    highest = {"ref_clip_score": 2 * W / (W + 1), "cider": 10}.get(slug, W)
    highest = "2 · s" if slug == "infometic" else f"{highest:.5g}"
    assert f"`{slug}` | `float`, {lowest} to {highest} " in table


def test_options_in_the_card_are_those_of_the_table(slug):
    """If this fails, the lines that it expects belong into the card."""
    _, body = card(slug)
    options = section(body, "How to use").partition("### Options")[2]
    expected = []
    for name, option in options_of(slug).items():
        if name != "revision":  # that of evaluate.load is the module's own
            expected.append(f"| `{name}` | {option.shown_default} | {option.summary} |")
    assert re.findall(r"^\| `.*\|$", options, re.MULTILINE) == expected


def test_backbones_in_the_card(slug_with_backbone, embedded):
    slug = slug_with_backbone
    _, body = card(slug)
    default = re.search(r"The default is `(.+?)`", body)[1]
    assert default == default_backbone(slug)
    prefix = find(default).prefix
    assert re.findall(r"with the prefix `(.+?)`", body) == ([prefix] if prefix else [])
    assert re.search(rf"knows\s+{len(embedded.languages)}\s+languages", body)


@pytest.mark.parametrize("slug", ["mcs", "clip_score"])
def test_agreement_in_the_card_is_that_of_the_registry(slug):
    """Both were copied from the same table, by hand, at different times."""
    _, body = card(slug)
    lines = re.findall(r"^\| `(\S+)` \|(.*)\|$", section(body, "Values from papers"), re.MULTILINE)
    compared = 0
    for name, cells in lines:
        known = find(name)
        if known is None or not known.agreement:
            continue
        published = [f"{v['tau_b']} / {v['tau_c']} / {v['rho']}" for v in known.agreement.values()]
        assert list(known.agreement) == ["VICR", "Flickr8k-Expert", "Flickr8k-CF", "Composite"]
        assert [cell.strip() for cell in cells.split("|")] == published, name
        compared += 1
    assert compared >= (5 if slug == "mcs" else 1)
    assert find(default_backbone(slug)) in [find(name) for name, _ in lines]


def test_examples_in_the_card_run(slug, embedded, embedded_free, tmp_path, monkeypatch):
    """In the folder of someone who has a checkout and some photos; results as printed in the card."""
    (tmp_path / "metrics").symlink_to(METRICS)
    (tmp_path / "photos").mkdir()
    for seed, name in enumerate(("dog", "cat")):
        (tmp_path / "photos" / f"{name}.jpg").write_bytes(encode(noise(seed=seed), "JPEG"))
    monkeypatch.chdir(tmp_path)
    # loaded once for all of them, each gets its own copy; what is printed is by embedded-free
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    monkeypatch.setattr(
        "capscore.backbones.embedded.backbone.load_embedded", lambda **options: copy.copy(embedded)
    )
    monkeypatch.setattr(
        "capscore.backbones.embedded.backbone.load_free", lambda **options: copy.copy(embedded_free)
    )

    _, body = card(slug)
    blocks = re.findall(r"^```python\n(.*?)^```$", body, re.DOTALL | re.MULTILINE)
    shared: dict = {}
    ran = 0
    for number, block in enumerate(blocks):
        if not block.startswith(">>>"):
            exec(compile(block, f"{slug}/README.md, block {number}", "exec"), {})
            ran += 1
    dialogue = "\n".join(block for block in blocks if block.startswith(">>>"))
    test = doctest.DocTestParser().get_doctest(dialogue, shared, f"{slug}/README.md", None, None)
    report: list[str] = []
    outcome = doctest.DocTestRunner().run(test, out=report.append)
    assert outcome.failed == 0, "".join(report)
    assert ran == 1 and outcome.attempted >= 5


def test_app_imports_and_builds(slug, monkeypatch):
    gradio = pytest.importorskip("gradio")
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    spec = importlib.util.spec_from_file_location(f"app_of_{slug}", METRICS / slug / "app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert isinstance(module.demo, gradio.Blocks)
    assert module.demo.title == card(slug)[0]["title"]


def test_the_module_shows_no_library_class_to_evaluate(slug, load):
    """`evaluate` takes the first class it finds; a name imported from the library would be in its way."""
    module = load(slug)
    namespace = vars(importlib.import_module(type(module).__module__))
    classes = [value for value in namespace.values() if isinstance(value, type)]
    assert classes == [type(module)]
