"""Loads text towers of sentence-transformers, such as clip-ViT-B-32-multilingual-v1.

In: a folder with modules.json (Transformer → Pooling → Dense), and an image tower. Out: a `Backbone`. The
modules are the library's; capscore does the tokenising and padding.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..errors import BackboneUnavailable, CapscoreError, MissingExtraError, Setting
from .base import Backbone, LoadOptions, settings_digest
from .checkpoint import (
    in_one_line,
    inside,
    load_strictly,
    quiet_transformers,
    read_any_json,
    read_json,
    read_state_dict,
    weight_files,
)
from .paired import PairedBackbone, TextTower, registered_image_tower
from .transformers_tokenizer import context_length, require_vocabulary

# Modules that may follow the first one; they read only embeddings and the mask.
_AFTER_TRANSFORMER = ("Pooling", "Dense", "Normalize", "LayerNorm")


class SentenceTransformerTower(TextTower):
    """The modules of a SentenceTransformer, from ids and mask to the sentence's embedding.

    Args:
        model: `sentence_transformers.SentenceTransformer` whose first module is a Transformer.
    """

    def __init__(self, model: Any):
        super().__init__()
        self.model = model
        self.tokenizer = model.tokenizer
        encoder = model[0].auto_model
        longest = context_length(encoder.config, encoder, self.tokenizer)
        self.max_tokens = min(model.max_seq_length or longest, longest)
        with torch.inference_mode():
            probe = torch.tensor([self.tokenize(["a"]).ids[0]])
            self.dim = self(probe, torch.ones_like(probe)).shape[1]

    @property
    def config(self) -> Any:
        return self.model[0].auto_model.config

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """int64 (n, L) ids and mask (1 token, 0 padding) → (n, dim)."""
        return self.model({"input_ids": input_ids, "attention_mask": attention_mask})["sentence_embedding"]


def recognises(folder: Path) -> bool:
    """Whether a folder has the modules.json of sentence-transformers."""
    return (folder / "modules.json").is_file()


def load_folder(folder: Path, options: LoadOptions) -> Backbone:
    """Load a text tower of sentence-transformers, and the image tower of another backbone.

    Args:
        folder: Folder with modules.json and the folders of the modules that it lists.
        options: Options of the backbone. The folder's default prompt is put after the prefix. Without an
            image tower, the registry's is used.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        BackboneUnavailable: a file is missing or damaged, or the weights do not fit the config.
        CapscoreError: the modules are not a text tower, or there is no image tower of the same dimension.
    """
    folder = Path(folder)
    modules = _check_modules(folder, options.trust_remote_code)
    model = _load_model(folder, modules, options.trust_remote_code)
    return PairedBackbone(
        SentenceTransformerTower(model),
        replace(options, prefix=options.prefix + _default_prompt(model)),
        settings=settings_digest(folder, code=options.trust_remote_code),
        made_for=registered_image_tower(options.name),
    )


def _read_modules(folder: Path) -> list[dict[str, Any]]:
    path = folder / "modules.json"
    try:
        modules = [
            {"path": str(module["path"]), "type": str(module["type"])} for module in read_any_json(path)
        ]
    except (KeyError, TypeError) as error:
        raise BackboneUnavailable(f"{path} cannot be read as a list of modules: {error!r}") from None
    for module in modules:
        inside(folder, module["path"], path)
    return modules


def _check_modules(folder: Path, trust_remote_code: bool) -> list[dict[str, Any]]:
    modules = _read_modules(folder)
    foreign = [module["type"] for module in modules if _is_foreign(module)]
    if foreign and not trust_remote_code:
        raise CapscoreError(
            f"{folder / 'modules.json'} lists code of its own ({', '.join(foreign)}), which runs only with ",
            Setting("trust_remote_code", True),
            ": set it if you have read that code and trust it",
        )
    known = all(_is_foreign(module) or _kind(module) in _AFTER_TRANSFORMER for module in modules[1:])
    if not modules or _is_foreign(modules[0]) or _kind(modules[0]) != "Transformer" or not known:
        raise CapscoreError(
            f"{folder / 'modules.json'} lists {' → '.join(map(_kind, modules)) or 'no modules'}; a text "
            f"tower is a Transformer followed by any of {', '.join(_AFTER_TRANSFORMER)}"
        )
    require_vocabulary(folder / modules[0]["path"])
    for module in modules:
        if _kind(module) == "Dense" and not trust_remote_code:
            # The library would replace a function that it does not trust by Tanh and only warn.
            path = folder / module["path"] / "config.json"
            function = read_json(path).get("activation_function", "torch.nn.")
            if not str(function).startswith("torch.nn."):
                raise CapscoreError(
                    f"{path} names the function {function!r}, which runs only with ",
                    Setting("trust_remote_code", True),
                )
    return modules


def _kind(module: dict[str, Any]) -> str:
    return module["type"].rsplit(".", 1)[-1]


def _is_foreign(module: dict[str, Any]) -> bool:
    return not module["type"].startswith("sentence_transformers.")


def _load_model(folder: Path, modules: list[dict[str, Any]], trust_remote_code: bool) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise MissingExtraError(
            "sentence-transformers", "sentence-transformers", f"the text tower in {folder}"
        ) from None
    # Read first, so that a damaged file, or one that would run code, is refused before the library opens it.
    state, *_ = [
        read_state_dict(folder / module["path"])
        for module in modules
        if _kind(module) in ("Transformer", "Dense")
    ]
    safe = weight_files(folder / modules[0]["path"])[0].suffix == ".safetensors"
    try:
        with quiet_transformers():
            model = SentenceTransformer(
                str(folder),
                device="cpu",
                local_files_only=True,
                trust_remote_code=trust_remote_code,
                # These override the folder's own files.
                model_kwargs={
                    "dtype": torch.float32,
                    "use_safetensors": safe,
                    "weights_only": True,
                    "ignore_mismatched_sizes": True,  # refused below, by name
                },
            )
    except Exception as error:  # every module fails in its own way
        raise BackboneUnavailable(
            f"the modules in {folder} cannot be loaded: {in_one_line(error)}"
        ) from error
    _refuse_random_weights(model, folder / modules[0]["path"], state)
    return model.eval()


def _refuse_random_weights(model: Any, folder: Path, state: dict[str, torch.Tensor]) -> None:
    # The library does not report weights of the encoder that were missing and drawn at random. So load an
    # encoder strictly from the folder's weights, and replace the library's weights by its weights.
    encoder = model[0].auto_model
    strict = load_strictly(type(encoder), encoder.config, folder, state, without_pooler=True)
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    encoder.load_state_dict(strict.state_dict())


def _default_prompt(model: Any) -> str:
    name = getattr(model, "default_prompt_name", None)
    prompt = model.prompts.get(name, "") if name else ""
    if prompt and not all(getattr(module, "include_prompt", True) for module in model):
        raise CapscoreError(f"its prompt {prompt!r} is left out of the pooling, which is not supported here")
    return prompt
