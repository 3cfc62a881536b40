"""Backbones: what is known of one that has a name, and loading by name, Hub id, folder or open_clip pair."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from ..errors import (
    BackboneUnavailable,
    CapscoreError,
    MissingWeightsError,
    Part,
    Setting,
    UnknownBackbone,
    message_of,
)
from ..files.shipped import FREE, has_weights, weights_folder
from ..registry import BACKBONES
from . import embedded
from .base import Backbone, BackboneOptions, resolve_device, resolve_dtype
from .checkpoint import HUB_ID, fetch_model, folder_kind, needed_files, quietly_refusing

# Kind of a folder → the module beside this one and the function that load it.
LOADERS = {
    "embedded": ("embedded.backbone", "load_folder"),
    "tuned": ("tuned", "load_folder"),
    "student": ("text_towers", "load_student"),
    "sentence_transformers": ("text_towers", "load_sentence_transformers"),
    "open_clip": ("open_clip", "load_folder"),
    "multilingual_clip": ("text_towers", "load_multilingual_clip"),
    "transformers": ("transformers_clip", "load_folder"),
}


@dataclass(frozen=True)
class Known:
    """What is known of a backbone that has a name.

    Attributes:
        kind: "embedded", "open_clip", "transformers", "multilingual_clip", "sentence_transformers", "tuned"
            for installed weights that were fine-tuned from another entry, or "outside" for one from another
            package.
        weights: Folder that it needs of the distribution capscore-weights; "" for none.
        tuned: Backbones with weights for a metric that it has none for itself, {metric: name}.
        agreement: Published agreement in percent, {benchmark: {coefficient: value}} (Gomes et al. 2025).
        parameters, context: Numbers of weights of both towers, and of tokens of a text; 0 if unknown.
        text_case: "kept" or "lower", whether capitals reach the text tower; "" if unknown.
        retrieval: Published recall@1 on Crossmodal-3600 in percent, the mean over its 36 languages, as
            {"text_to_image", "image_to_text", "source"}. Sources differ in what they search.
    """

    name: str
    kind: str
    model: str
    weights: str = ""
    pretrained: str = ""
    revision: str = ""
    image_tower: str = ""
    prefix: str = ""
    languages: tuple[str, ...] = ()
    dim: int = 0
    base: str = ""
    tuned: dict[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    agreement: dict[str, dict[str, float]] = field(default_factory=dict)
    licence: str = ""
    parameters: int = 0
    context: int = 0
    text_case: str = ""
    retrieval: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    load: Callable[..., Any] | None = None


@cache
def registry() -> dict[str, Known]:
    """All backbones of registry.json by name, in the order of the file."""
    raw = json.loads(Path(__file__).with_name("registry.json").read_text(encoding="utf-8"))
    entries = {}
    for row in raw["backbones"]:
        row = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        entries[row["name"]] = Known(**row)
    return entries


def spellings() -> dict[str, str]:
    """{name or alias: name} of all entries of registry.json; see `capscore.registry.Registry`."""
    found = {name: name for name in registry()}
    for known in registry().values():
        found |= dict.fromkeys(known.aliases, known.name)
    return found


def known_backbone(name: str) -> Known:
    """The entry of registry.json with a name."""
    return registry()[name]


def find(name: str) -> Known | None:
    """The backbone with a name or alias, or None."""
    entry = BACKBONES.find(name)
    if entry is None or isinstance(entry, Known):
        return entry
    return Known(name, "outside", name, load=entry)


# ---- loading ----


def load_backbone(
    spec: str | os.PathLike[str] | Backbone,
    *,
    device: str | int | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    image_tower: str | Backbone | None = None,
) -> Backbone:
    """Load a backbone.

    Args:
        spec: Backbone to load, one of the following, tried in this order:

            - a `Backbone`, returned as it is; no other argument goes with it;
            - a name or alias in `capscore.registry.BACKBONES` ("embedded",
              "M-CLIP/XLM-Roberta-Large-Vit-B-32"), which also sets the prefix, the languages, the pinned
              revision and the image tower; or a name from another package;
            - "open_clip:MODEL/TAG", where TAG may also be a file or folder with weights;
            - "hf-hub:org/name", an open_clip model on the Hub;
            - a local folder, whose kind is recognised by its files;
            - "MODEL/TAG", if open_clip knows the pair;
            - "org/name", a model on the Hub.

            "@revision" may follow anything that comes from the Hub.
        device: Torch device such as "cpu" or "cuda:0", or a GPU's number; None or "auto" for a GPU if any.
        dtype: "float32" (None), "bfloat16" or "float16".
        revision: Commit, branch or tag on the Hub; None for the pinned one, or `main` where none is pinned.
        image_tower: Any spec, for text towers that have no image tower of their own.

    Raises:
        BackboneUnavailable: the weights are not available. The message says what was asked for, the reason,
            and what to use instead.
        CapscoreError: arguments do not go together.
    """
    if isinstance(spec, Backbone):
        _refuse(spec.name, device=device, dtype=dtype, revision=revision, image_tower=image_tower)
        return spec
    if not isinstance(spec, (str, os.PathLike)) or not str(spec).strip():
        raise CapscoreError(Setting("backbone", spec), ": expected a name, a Hub id, a folder or a Backbone")
    asked = os.fspath(spec).strip()
    name, revision = _split_revision(asked, revision)
    known = find(name)
    if "torch" not in sys.modules and known is not None and "embedded" in (known.kind, known.base):
        embedded.start_reading()  # while torch is imported
    options = BackboneOptions(
        name=name,
        revision=revision,
        device=resolve_device(device),
        dtype=resolve_dtype(dtype),
        image_tower=image_tower,
    )
    try:
        return _load(name, known, options)
    except OSError as error:
        inner = error if isinstance(error, BackboneUnavailable) else BackboneUnavailable(message_of(error))
        advice: tuple[Part, ...] = ()
        if not isinstance(error, MissingWeightsError) and "Instead: " not in str(error):
            installed = "embedded" if has_weights("image_tower") else FREE
            advice = ". Instead: ", Setting("backbone", installed), ", or a local folder with the model"
        raise type(inner)(f"backbone {asked!r} is not available: ", *inner.parts, *advice) from error


def _load(name: str, known: Known | None, options: BackboneOptions) -> Backbone:
    plain, source = _without_scheme(name), known or _source(name)
    if isinstance(source, Known):
        return _load_known(source, plain, options)
    if source == "pair":
        from .open_clip import load_open_clip

        return load_open_clip(plain, options)
    if source == "folder":
        _refuse(name, revision=options.revision)
        folder = _expanded(name)
        return _load_folder(folder, replace(options, name=folder.resolve().name))
    try:
        return _load_from_hub(plain, replace(options, name=plain))
    except BackboneUnavailable as error:
        folder = _expanded(name)
        if folder.parent != Path() and folder.parent.is_dir():
            raise BackboneUnavailable(f"there is no folder {folder}; as a Hub id: ", *error.parts) from None
        raise


def _source(name: str) -> Known | str:
    """Where a name leads: a registry entry, "pair" of open_clip, "folder" or "hub"; or an error."""
    # A model that the registry knows gets its prefix and languages by its explicit spelling too.
    known = find(name) or find(_without_scheme(name))
    if known is not None:
        return known
    folder = _expanded(name)
    if name.startswith("open_clip:"):
        return "pair"
    if name.startswith("hf-hub:"):
        return "hub"
    if "://" in name:
        raise UnknownBackbone("it is an address, and only a judge can be behind a server")
    if folder.is_dir():
        return "folder"
    if name.startswith(("/", ".", "~")) or "\\" in name or name.count("/") > 1 or folder.exists():
        raise UnknownBackbone(f"there is no folder {folder}")
    model, _, tag = name.partition("/")
    if tag:
        import open_clip

        if model in open_clip.list_models():
            return "pair"
    if HUB_ID.fullmatch(name):
        return "hub"
    raise UnknownBackbone("it is not a known name, a local folder or a Hub id")


def _load_known(known: Known, plain: str, options: BackboneOptions) -> Backbone:
    if known.kind in ("embedded", "tuned", "outside"):
        _refuse(known.name, revision=options.revision, image_tower=options.image_tower)
    if known.load is not None:
        return cast("Backbone", known.load(device=options.device, dtype=options.dtype))
    options = replace(
        options, name=known.name, prefix=known.prefix, languages=frozenset(known.languages) or None
    )
    if known.kind == "embedded":
        backbone = importlib.import_module(".embedded.backbone", __name__)
        load = backbone.load_embedded if known.weights else backbone.load_free
        return load(device=options.device, dtype=options.dtype)
    if known.kind == "tuned":
        return _load_folder(weights_folder(known.weights), options)
    another = HUB_ID.fullmatch(plain) and plain not in (known.name, repository_of(known))
    if known.kind == "open_clip" and options.revision and another:
        # The alias is a repository of its own, and the revision is one of that repository.
        return _load_from_hub(plain, replace(options, name=plain))
    options = replace(options, revision=options.revision or known.revision)
    if known.kind == "open_clip":
        from .open_clip import load_open_clip

        return load_open_clip(known.name, options)
    tower = options.image_tower or known.image_tower or None
    return _load_from_hub(known.model, replace(options, image_tower=tower))


def _load_from_hub(repo: str, options: BackboneOptions) -> Backbone:
    folder, commit = fetch_model(repo, options.revision, needed_files)
    return _load_folder(folder, replace(options, revision=commit))


def _load_folder(folder: Path, options: BackboneOptions) -> Backbone:
    kind = folder_kind(folder)
    if not kind:
        files = ", ".join(sorted(path.name for path in folder.iterdir())) or "no files"
        kinds = ", ".join(LOADERS)
        raise BackboneUnavailable(f"{folder} holds no model of a known kind ({kinds}); it has {files}")
    module, function = LOADERS[kind]
    load = getattr(importlib.import_module(f".{module}", __name__), function)
    with quietly_refusing(f"the model of the kind {kind} in {folder}"):
        return load(folder, options)


def check_spec(spec: str) -> None:
    """Raise `CapscoreError` if a spec of `load_backbone` can name no backbone; nothing is loaded."""
    name = _split_revision(spec.strip(), None)[0]
    try:
        model, _, tag = _without_scheme(name).partition("/")
        if _source(name) == "pair" and not (tag and _expanded(tag).exists()):
            from .open_clip import tag_config

            tag_config(model, tag)
    except CapscoreError as error:
        raise CapscoreError(Setting("backbone", spec), ": ", *error.parts) from None


def repository_of(known: Known) -> str:
    """Hub id of the repository that holds the weights of a registry entry, "" if there is none."""
    if known.kind in ("embedded", "tuned", "outside"):
        return ""
    if known.kind != "open_clip":
        return known.model
    from open_clip.pretrained import get_pretrained_cfg

    return get_pretrained_cfg(known.model, known.pretrained).get("hf_hub", "").rpartition("/")[0]


def _without_scheme(name: str) -> str:
    return name.removeprefix("open_clip:").removeprefix("hf-hub:")


def _expanded(name: str) -> Path:
    # Not Path.expanduser, which raises for "~nobody" if there is no such user.
    return Path(os.path.expanduser(name))


def _split_revision(asked: str, revision: str | None) -> tuple[str, str]:
    """ "name@revision" → both parts; a folder or an alias may contain an "@" itself."""
    name, separator, at = asked.rpartition("@")
    if not separator or find(asked) is not None or _expanded(asked).exists():
        return asked, revision or ""
    if not name or not at or (revision and revision != at):
        expected = ": expected name@revision, and no other "
        raise CapscoreError(Setting("backbone", asked), expected, Setting("revision"))
    return name, at


def _refuse(name: str, **arguments: object) -> None:
    for argument, value in arguments.items():
        if value:
            raise CapscoreError(Setting(argument, value), f" does not go with the backbone {name!r}")
