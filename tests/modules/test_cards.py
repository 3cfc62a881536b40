"""Each folder of `metrics/` is a whole Space, and its card says what is so: its examples are run here."""

import doctest
import importlib.util
import re
import sys
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
from tools.tiny.colours import RED
from tools.tiny.judges import tiny_judge

from ..photos import encode, noise
from .conftest import METRICS, SLUGS, WITH_BACKBONE

COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}


def card(slug):
    """Front matter and body."""
    text = (METRICS / slug / "README.md").read_text(encoding="utf-8")
    _, front, body = re.split(r"^---\n", text, maxsplit=2, flags=re.MULTILINE)
    return yaml.safe_load(front), body


def section(body, title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", body, re.DOTALL | re.MULTILINE)[1]


def test_a_folder_is_named_as_its_metric_and_asks_for_the_library(slug):
    names = {path.name for path in (METRICS / slug).iterdir() if path.name != "__pycache__"}
    assert names == {f"{slug}.py", "README.md", "app.py", "requirements.txt"} and slug in SCORERS
    lines = (METRICS / slug / "requirements.txt").read_text().splitlines()
    library = next(Requirement(line) for line in lines if line and not line.startswith("#"))
    assert library.name == "capscore" and library.specifier.contains(capscore.__version__)
    assert {specifier.operator for specifier in library.specifier} == {">=", "<"}
    needed = {"embedded", "app", "demo"} if slug in WITH_BACKBONE else {"app", "segmentation"}
    needed = {"app", "demo"} if slug == "judge" else needed
    assert needed <= library.extras <= set(metadata("capscore").get_all("Provides-Extra"))


def test_front_matter_citation_and_version(slug, load):
    front, body = card(slug)
    settings = "title emoji colorFrom colorTo sdk sdk_version app_file pinned license tags description"
    assert {*front} == {*settings.split()} and front["sdk"] == "gradio" and front["pinned"] is False
    assert (METRICS / slug / front["app_file"]).is_file()
    assert {front["colorFrom"], front["colorTo"]} <= COLOURS and {"evaluate", "metric"} <= set(front["tags"])
    module = load(slug)
    assert front["description"] == " ".join(module.description.split())
    gradio = next(item for item in map(Requirement, requires("capscore")) if item.name == "gradio")
    assert gradio.specifier.contains(Version(front["sdk_version"]))
    assert re.search(r"^# Metric: ([\w-]+)", body, re.MULTILINE)[1] == front["title"]
    assert module.citation.strip() in section(body, "Citation")
    versions = re.findall(r"^- \*\*(.+?)\*\*", section(body, "Changelog"), re.MULTILINE)
    assert versions[0] == capscore.__version__
    # `evaluate` takes the first class it finds; a name imported from the library would be in its way
    namespace = vars(sys.modules[type(module).__module__])
    assert [value for value in namespace.values() if isinstance(value, type)] == [type(module)]


def test_outputs_and_options_in_the_card_are_those_of_the_module(slug, load):
    """If this fails, the lines that it expects belong into the card."""
    kind = SCORERS.get(slug)
    rows = {"predictions": ["red", "blue"], "images": [RED, RED]}
    if kind.needs_references:
        rows["references"] = [["red"], ["blue"]]
    use = section(card(slug)[1], "How to use")
    table = use.partition("### Output values")[2].partition("###")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert named == set(load(slug).compute(**rows))
    # InfoMetIC's: two cosines, each times what the backbone's are multiplied by
    highest = {"ref_clip_score": 2 * W / (W + 1), "cider": 10, "judge": 1, "fit": 1}.get(slug, W)
    span = "−2 · s to 2 · s" if slug == "infometic" else f"0 to {highest:.5g}"
    assert f"`{slug}` | `float`, {span} " in table
    expected = [
        f"| `{name}` | {option.shown_default} | {option.summary} |"
        for name, option in options_of(slug).items()
        if name != "revision"  # that of evaluate.load is the module's own
    ]
    assert re.findall(r"^\| `.*\|$", use.partition("### Options")[2], re.MULTILINE) == expected


@pytest.mark.parametrize("slug", WITH_BACKBONE)
def test_backbones_in_the_card(slug, embedded):
    _, body = card(slug)
    default = re.search(r"The default is `(.+?)`", body)[1]
    prefix = find(default).prefix
    assert default == default_backbone(slug)
    assert re.findall(r"with the prefix `(.+?)`", body) == ([prefix] if prefix else [])
    assert re.search(rf"knows\s+{len(embedded.languages)}\s+languages", body)


@pytest.mark.parametrize(("slug", "n_compared"), [("mcs", 5), ("clip_score", 1)])
def test_agreement_in_the_card_is_that_of_the_registry(slug, n_compared):
    lines = re.findall(r"^\| `(\S+)` \|(.*)\|$", section(card(slug)[1], "Values from papers"), re.MULTILINE)
    compared = 0
    for name, cells in lines:
        agreement = getattr(find(name), "agreement", None)
        if agreement:
            compared += 1
            published = [f"{v['tau_b']} / {v['tau_c']} / {v['rho']}" for v in agreement.values()]
            assert list(agreement) == ["VICR", "Flickr8k-Expert", "Flickr8k-CF", "Composite"]
            assert [cell.strip() for cell in cells.split("|")] == published, name
    assert compared >= n_compared


@pytest.fixture
def models(embedded_is_read_once, monkeypatch):
    """What examples load: the embedded backbones, and a tiny judge."""
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    monkeypatch.setattr("capscore.judges.model.load_judge", lambda name, **options: tiny_judge())


def test_examples_of_the_card_run(slug, models, tmp_path, monkeypatch):
    """In the folder of someone who has a checkout and some photos; results as printed in the card."""
    (tmp_path / "metrics").symlink_to(METRICS)
    (tmp_path / "photos").mkdir()
    for seed, name in enumerate(("dog", "cat")):
        (tmp_path / "photos" / f"{name}.jpg").write_bytes(encode(noise(seed=seed), "JPEG"))
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", card(slug)[1], re.DOTALL | re.MULTILINE)
    program, module = (block for block in blocks if not block.startswith(">>>"))
    assert f'capscore.load("{slug}")' in program and f'evaluate.load("metrics/{slug}")' in module
    exec(compile(program + module, f"{slug}/README.md", "exec"), {})
    dialogue = "\n".join(block for block in blocks if block.startswith(">>>"))
    test = doctest.DocTestParser().get_doctest(dialogue, {}, f"{slug}/README.md", None, None)
    report = []
    outcome = doctest.DocTestRunner().run(test, out=report.append)
    assert outcome.failed == 0 and outcome.attempted >= 5, "".join(report)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "slug", [pytest.param(slug, marks=pytest.mark.slow if slug == "infometic" else ()) for slug in SLUGS]
)
def test_examples_of_the_module_run(slug, load, models):
    module = load(slug)
    found = doctest.testmod(sys.modules[type(module).__module__], optionflags=doctest.ELLIPSIS)
    assert found.failed == 0 and found.attempted > 8 and module.inputs_description.count(".compute(") >= 2


def test_an_app_imports_and_builds(slug, monkeypatch):
    gradio = pytest.importorskip("gradio")
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    spec = importlib.util.spec_from_file_location(f"app_of_{slug}", METRICS / slug / "app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert isinstance(module.demo, gradio.Blocks) and module.demo.title == card(slug)[0]["title"]
