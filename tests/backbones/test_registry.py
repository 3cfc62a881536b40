"""The registry file: whole, consistent, and what its sources say."""

import json
import re
from dataclasses import fields
from importlib.resources import files

import open_clip
import pytest
import torch
from open_clip.model import CLIP, CustomTextCLIP
from open_clip.pretrained import get_pretrained_cfg

from capscore.backbones import Known, find, registry
from capscore.backbones.checkpoint import encoder_config
from capscore.text.languages import language_code

ENTRIES = list(registry().values())
OF_OPEN_CLIP = [entry for entry in ENTRIES if entry.kind == "open_clip"]
# text → image, image → text, as the sources print them
RETRIEVAL = {
    "google/siglip-so400m-patch16-256-i18n": (50.0, 62.8),
    "google/siglip2-base-patch16-256": (40.7, 51.0),
    "facebook/metaclip-2-worldwide-huge-quickgelu": (None, 64.3),
    "nllb-clip-large-siglip/mrl": (60.79, 57.41),
    "xlm-roberta-large-ViT-H-14/frozen_laion5b_s13b_b90k": (50.22, 53.38),
}
# The sum of each column of agreement, added up from the printed table by itself
COLUMN_SUMS = [1157.8, 1276.3, 1444.1, 972.3, 973.3, 1186.0, 652.0, 336.5, 801.2, 954.0, 967.8, 1270.1]


def test_the_file_has_only_fields_that_are_read_and_names_that_mean_one_thing():
    raw = json.loads(files("capscore.backbones").joinpath("registry.json").read_text(encoding="utf-8"))
    known = {field.name for field in fields(Known)}
    assert all(set(row) <= known for row in raw["backbones"])
    names = [name for row in raw["backbones"] for name in (row["name"], *row.get("aliases", ()))]
    assert len(names) == len(set(names)) and all(find(name) is not None for name in names)
    assert find("openai/clip-vit-base-patch32").name == "ViT-B-32-quickgelu/openai"
    assert find("nobody/nothing") is None


def test_every_entry_is_whole():
    for entry in ENTRIES:
        assert entry.model and entry.dim > 0, entry.name
        assert entry.revision == "" or re.fullmatch("[0-9a-f]{40}", entry.revision), entry.name
        assert entry.prefix == ("A photo depicts " if entry.languages == ("en",) else ""), entry.name
        # as `language_code` gives them, so that a code in its other form is not taken for an unknown language
        assert list(entry.languages) == sorted({*map(language_code, entry.languages)}), entry.name
        if "nllb" in entry.name or "worldwide" in entry.name:
            assert entry.licence == "CC-BY-NC-4.0", entry.name
        if entry.name.startswith("google/"):
            assert entry.licence == "Apache-2.0", entry.name
    # as the makers state them
    assert " ".join(registry()["BAAI/AltCLIP-m9"].languages) == "ar en es fr it ja ko ru zh"
    assert len(registry()["BAAI/AltCLIP-m18"].languages) == 18


def test_image_towers_bases_and_companions_are_known_and_have_the_same_length():
    for entry in ENTRIES:
        needs_tower = entry.kind in {"multilingual_clip", "sentence_transformers"}
        assert (bool(entry.image_tower), bool(entry.base)) == (needs_tower, entry.kind == "tuned"), entry.name
        for other in filter(None, (entry.image_tower, entry.base, *entry.tuned.values())):
            assert registry()[other].dim == entry.dim, entry.name
        if entry.base:
            assert registry()[entry.base].prefix == entry.prefix
            assert any(entry.name in other.tuned.values() for other in ENTRIES)


def test_open_clip_has_every_pair_and_agrees_on_length_and_activation():
    pairs = set(open_clip.list_pretrained())
    for entry in OF_OPEN_CLIP:
        config = open_clip.get_model_config(entry.model)
        trained = get_pretrained_cfg(entry.model, entry.pretrained).get("quick_gelu") or False
        assert (entry.model, entry.pretrained) in pairs
        assert entry.name == f"{entry.model}/{entry.pretrained}"
        assert (config["embed_dim"], config.get("quick_gelu", False)) == (entry.dim, trained), entry.name


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("google/siglip2-base-patch16-224", "ViT-B-16-SigLIP2"),
        ("facebook/metaclip-2-worldwide-huge-quickgelu", "ViT-H-14-worldwide"),
        ("nllb-clip-base-siglip/mrl", "nllb-clip-base-siglip"),
        ("xlm-roberta-large-ViT-H-14/frozen_laion5b_s13b_b90k", "xlm-roberta-large-ViT-H-14"),
    ],
)
def test_sizes_are_those_of_the_architectures(name, architecture, tmp_path):
    config = open_clip.get_model_config(architecture)
    text, vision = config["text_cfg"], config["vision_cfg"]
    if "timm_model_name" in vision:
        vision["timm_model_pretrained"] = False
    if "hf_model_name" in text:
        (tmp_path / "config.json").write_text(json.dumps(encoder_config(text["hf_model_name"])))
        text |= {"hf_model_name": str(tmp_path), "hf_model_pretrained": False}
    custom = config.pop("custom_text", False) or "hf_model_name" in text
    with torch.device("meta"):  # nothing is made
        model = (CustomTextCLIP if custom else CLIP)(**config)
    entry = registry()[name]
    assert entry.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert (entry.dim, entry.context) == (config["embed_dim"], text.get("context_length", 77))
    lowers = text.get("tokenizer_kwargs", {}).get("clean") == "canonicalize"
    assert entry.text_case == ("lower" if lowers else "kept")


def test_published_agreement_by_its_sums():
    found = {entry.name: entry.agreement for entry in ENTRIES if entry.agreement}
    assert len(found) == 18
    for benchmarks in found.values():
        assert list(benchmarks) == ["VICR", "Flickr8k-Expert", "Flickr8k-CF", "Composite"]
        assert all(list(values) == ["tau_b", "tau_c", "rho"] for values in benchmarks.values())
    flat = {name: [v for row in rows.values() for v in row.values()] for name, rows in found.items()}
    sums = [sum(column) for column in zip(*flat.values(), strict=True)]
    assert sums == pytest.approx(COLUMN_SUMS, abs=1e-9)


def test_published_retrieval_word_for_word_and_by_its_sums():
    found = {name: registry()[name].retrieval for name in RETRIEVAL}
    assert {name: (row["text_to_image"], row["image_to_text"]) for name, row in found.items()} == RETRIEVAL
    assert all(row["source"] for row in found.values())
    table = [entry.retrieval for name, entry in registry().items() if name.startswith("google/siglip2-")]
    assert len(table) == 12
    sums = [sum(row[way] for row in table) for way in ("text_to_image", "image_to_text")]
    assert sums == pytest.approx([543.6, 661.2], abs=1e-9)
