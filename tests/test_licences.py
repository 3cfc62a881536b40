"""Every file that names a licence says the same, and the library's packages hold nothing that is not free."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import capscore
from capscore.backbones import find, registry
from capscore.infometic.network import INSTALLED
from capscore.metrics.loading import default_backbone
from capscore.registry import METRICS

from .test_architecture import SOURCES

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS = ROOT / "weights"
if not (WEIGHTS / "pyproject.toml").exists():
    pytest.skip("a source archive has no weights", allow_module_level=True)
FREE, NOT_FREE = "Apache-2.0", "CC-BY-NC-4.0"
# package → its folder, its licence, a line of that licence's text
PACKAGES = {
    "capscore": (ROOT, FREE, "Version 2.0, January 2004"),
    "capscore-weights": (WEIGHTS, NOT_FREE, "Creative Commons Attribution-NonCommercial 4.0 International"),
}
# the only weights of the library's own: embeddings of WordNet's texts by an encoder that is Apache-2.0
FREE_WEIGHTS = {"capscore/backbones/embedded/free_classes.safetensors"}
FOLDERS = sorted(path.name for path in (WEIGHTS / "capscore_weights").iterdir() if path.is_dir())
SPACES = sorted(path.parent.name for path in ROOT.glob("metrics/*/README.md"))


def spdx(licence: str) -> str:
    """The SPDX id of a licence as people write it.

    >>> spdx("CC BY-NC 4.0")
    'CC-BY-NC-4.0'
    """
    return licence.replace(" ", "-")


def front_matter(card: Path) -> dict:
    return yaml.safe_load(card.read_text(encoding="utf-8").split("---\n")[1])


def project(name: str) -> str:
    return (PACKAGES[name][0] / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_states_its_licence_and_has_its_text(name):
    folder, licence, line = PACKAGES[name]
    assert re.findall(r"^license = (.*)$", project(name), re.M) == [f'"{licence}"']
    assert re.findall(r"^license-files = (.*)$", project(name), re.M) == ['["LICENSE"]']
    assert "License ::" not in project(name), "a classifier besides the SPDX expression is refused by PyPI"
    text = (folder / "LICENSE").read_text(encoding="utf-8")
    assert re.search(rf"^ *{re.escape(line)}$", text, re.M) and len(text) > 10_000, "the whole text"


def test_the_citation_is_of_this_version():
    stated = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert stated["version"] == capscore.__version__ and stated["date-released"]


@pytest.fixture(scope="module", params=[WheelBuilder, pytest.param(SdistBuilder, marks=pytest.mark.slow)])
def archives(request, tmp_path_factory) -> dict[str, dict[str, Path]]:
    """Name of a package → its files, built as pip does."""
    found = {}
    for name, (folder, _, _) in PACKAGES.items():
        out = next(request.param(str(folder)).build(directory=str(tmp_path_factory.mktemp("built"))))
        unpacked = tmp_path_factory.mktemp("unpacked")
        shutil.unpack_archive(out, unpacked, "zip" if out.endswith(".whl") else "gztar")
        top = unpacked if out.endswith(".whl") else next(unpacked.iterdir())
        found[name] = {path.relative_to(top).as_posix(): path for path in top.rglob("*") if path.is_file()}
    return found


def test_the_source_archive_has_what_make_test_needs():
    packed = {Path(file.path) for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    code = {path for folder in (*SOURCES, "tests") for path in (ROOT / folder).rglob("*.py")}
    assert {ROOT / "Makefile", *ROOT.glob("*.md"), *code} <= packed


def metadata_of(files: dict[str, Path]) -> str:
    return next(path for path in files.values() if path.name in ("METADATA", "PKG-INFO")).read_text("utf-8")


def test_archives_have_the_version_of_the_code_and_links_that_lead_somewhere(archives):
    texts = {name: metadata_of(files) for name, files in archives.items()}
    for name, text in texts.items():
        assert re.findall(r"^Version: (.*)$", text, re.M) == [capscore.__version__], name
    links = re.findall(r"\]\(([^)]+)\)", texts["capscore"])
    assert len(links) > 20 and all(link.startswith(("https://", "#")) for link in links)
    (weights,) = re.findall(
        r"^Requires-Dist: capscore-weights(\S+); extra == 'weights'", texts["capscore"], re.M
    )
    major, minor, _ = Version(capscore.__version__).release
    assert capscore.__version__ in SpecifierSet(weights)
    assert f"{major}.{minor + 1}.0" not in SpecifierSet(weights)


def weights_in(files: Iterable[str]) -> set[str]:
    return {name for name in files if name.endswith((".safetensors", ".bin", ".pt", ".pth", ".npz", ".onnx"))}


def test_the_library_carries_no_weights_that_are_not_free(archives):
    files = archives["capscore"]
    assert "capscore/__init__.py" in files and len(files) > 200
    assert weights_in(files) == FREE_WEIGHTS
    assert not [name for name in files if "capscore_weights" in name]
    cards = (ROOT / "capscore").rglob("README.md")
    assert not any("license" in card.read_text(encoding="utf-8") for card in cards), (
        "they belong into weights/"
    )


def test_the_weights_contain_no_code(archives):
    files = archives["capscore-weights"]
    assert weights_in(files) == {f"capscore_weights/{folder}/model.safetensors" for folder in FOLDERS}
    assert {f"capscore_weights/{folder}/README.md" for folder in FOLDERS} <= set(files)
    assert any(name.endswith("LICENSE") for name in files)
    assert not [name for name in files if name.endswith((".py", ".pyc", ".so", ".pkl"))]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_card_of_weights(name):
    folder = WEIGHTS / "capscore_weights" / name
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert front_matter(folder / "README.md")["license"] == NOT_FREE.lower()
    assert re.findall(r"^- \*\*Licence\*\*: (.*)$", text, re.M) == [NOT_FREE.lower()]
    settings = yaml.safe_load((folder / "settings.yaml").read_text(encoding="utf-8"))
    assert settings["license"] == NOT_FREE.lower()


def test_the_recipes_of_these_weights_write_that_licence():
    configs = (ROOT / "weights" / "making" / "configs").glob("*.yaml")
    others = ("captions.yaml", "embedded.yaml")  # numbers of texts, and the plan
    recipes = [path for path in configs if path.name not in others]
    assert len(recipes) >= len(FOLDERS)
    for recipe in recipes:
        assert yaml.safe_load(recipe.read_text(encoding="utf-8"))["license"] == NOT_FREE.lower(), recipe.name


def test_the_registry():
    """What needs capscore-weights is not free, and says so; the other embedded backbones are free."""
    for known in registry().values():
        if known.weights or known.kind in ("embedded", "tuned"):
            assert known.licence == (NOT_FREE if known.weights else FREE), known.name
        assert known.weights in ("", *FOLDERS), known.name
    assert (find("embedded-free").licence, find("embedded-free").weights) == (FREE, "")


def needs_weights(slug: str) -> bool:
    """Whether a metric loads weights that are not free where nothing else is asked for."""
    default = find(default_backbone(slug)) if METRICS.get(slug).default_backbone else None
    return default is not None and (
        default.weights != "" or (slug == "infometic" and default.name in INSTALLED)
    )


@pytest.mark.parametrize("slug", SPACES)
def test_a_space(slug):
    assert needs_weights(slug) or slug not in ("infometic", "pr_mcs")
    card = ROOT / "metrics" / slug / "README.md"
    licence = NOT_FREE if needs_weights(slug) else FREE
    assert front_matter(card)["license"] == licence.lower()
    lines = (card.parent / "requirements.txt").read_text(encoding="utf-8").splitlines()
    required = {Requirement(line).name: Requirement(line) for line in lines if not line.startswith("#")}
    assert set(required) == ({"capscore", "capscore-weights"} if needs_weights(slug) else {"capscore"})
    assert len({str(requirement.specifier) for requirement in required.values()}) == 1
    text = " ".join(card.read_text(encoding="utf-8").split())
    if needs_weights(slug):
        assert "(https://creativecommons.org/licenses/by-nc/4.0/)" in text
        assert "of this Space and of the library, is under Apache-2.0" in text
        assert "the Space as a whole is not for commercial use" in text


def test_the_table_of_licences():
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    section = re.search(r"^## Licences\n(.*?)(?=^## |\Z)", page, re.S | re.M)[1]
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", section, re.M)
    # package → its licence and the file that the licence links to, and the backbones of its row
    told = {
        names[0]: (spdx(licence[1]), licence[2], {name for name in names if find(name) is not None})
        for what, cell in rows
        if (names := re.findall(r"`([^`]+)`", what)) and (licence := re.match(r"\[(.+?)\]\((.+?)\)", cell))
    }
    not_free = {known.name for known in registry().values() if known.weights}
    assert told == {
        "capscore": (FREE, "../LICENSE", {"embedded-free"}),
        "capscore-weights": (NOT_FREE, "../weights/LICENSE", not_free),
    }


@pytest.mark.parametrize("page", ["README.md", "docs/backbones.md", "docs/infometic.md", "docs/training.md"])
def test_pages_that_name_the_weights_say_their_licence(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "capscore-weights" in text and "CC BY-NC 4.0" in text
    assert not re.search(r"(weights|installed|ships?) with capscore\b(?!-)", text)


def test_a_readme_is_made_for_the_index(archives):
    for files in archives.values():
        (name,) = [name for name in files if name.endswith((".dist-info/METADATA", "PKG-INFO"))]
        text = files[name].read_text(encoding="utf-8")
        assert re.search(r"pip install '(.*)'", text)[1] == "capscore[embedded]"
        assert "make demo" not in text.split("## Install")[0]
        assert not re.findall(r"\]\((?!https?://|#)[^)]*", text)
