"""Texts of one language → candidates for their translation, by beam search with M2M100 or NLLB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BackboneUnavailable, CapscoreError, InputError, Setting
from .languages import find_language, language_tokens

DEFAULT_TRANSLATOR = "facebook/m2m100_1.2B"  # as in the paper


@dataclass(frozen=True)
class BeamSearch:
    """Settings of the search; nothing is drawn at random.

    Attributes:
        num_beams: Number of beams, 100 in the paper.
        candidates: Number of translations that are returned per text, 25 in the paper.
        max_new_tokens: Largest number of tokens of a translation.

    Raises:
        InputError: A number below 1, or more candidates than beams.
    """

    num_beams: int = 100
    candidates: int = 25
    max_new_tokens: int = 128

    def __post_init__(self) -> None:
        for name in ("num_beams", "candidates", "max_new_tokens"):
            check_at_least_one(name, getattr(self, name))
        if self.candidates > self.num_beams:
            raise InputError(
                Setting("candidates", self.candidates),
                ": expected at most as many as there are beams, ",
                Setting("num_beams", self.num_beams),
            )


def check_at_least_one(name: str, value: Any) -> None:
    """Raise InputError if an option is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(Setting(name, value), ": expected a whole number of at least 1")


class Translator:
    """A translation model with its tokenizer.

    Args:
        model: M2M100ForConditionalGeneration, which NLLB's checkpoints are too.
        tokenizer: Its tokenizer.
        name: Name in signatures and errors.

    Attributes:
        codes: The model's codes of its languages.
        max_tokens: Number of tokens that a text may have, those of its language and end included.
    """

    def __init__(self, model: Any, tokenizer: Any, name: str):
        self.model, self.tokenizer, self.name = model.eval(), tokenizer, name
        self._tokens = language_tokens(tokenizer, name)
        self.codes = list(self._tokens)
        self.max_tokens = int(model.config.max_position_embeddings)
        self._unseen = {*self._tokens.values(), *tokenizer.all_special_ids}
        if max(self._tokens.values()) >= model.get_input_embeddings().num_embeddings:
            raise BackboneUnavailable(f"the tokenizer of {name} has more tokens than its weights")

    def code(self, language: str) -> str:
        """The model's code of a language; errors as in `find_language`."""
        return find_language(language, self.codes, self.name)

    def count_tokens(self, texts: Sequence[str], source: str) -> list[int]:
        """Number of tokens of each text, those of its language and end included."""
        return [len(ids) for ids in self._encode(texts, source)]

    def candidates(
        self, texts: Sequence[str], source: str, target: str, search: BeamSearch, *, batch_size: int = 8
    ) -> list[list[str]]:
        """Candidates for the translation of each text.

        Args:
            texts: n texts in one language, none longer than `max_tokens`.
            source, target: The model's codes of the languages.
            search: Settings of the search.
            batch_size: Number of texts that are translated together; texts of like length share a batch.
                It changes no translation, but for rounding.

        Returns:
            n lists of `search.candidates` texts, the model's best first; texts may be equal, or empty.

        Raises:
            InputError: A text is too long; names its place.
        """
        import torch

        ids = self._encode(texts, source)
        for row, own in enumerate(ids):
            if len(own) > self.max_tokens:
                raise InputError(self.too_long(len(own)), row=row)
        order = sorted(range(len(ids)), key=lambda row: (len(ids[row]), row))
        found: list[list[str]] = [[] for _ in ids]
        for first in range(0, len(order), batch_size):
            rows = order[first : first + batch_size]
            batch = self.tokenizer.pad({"input_ids": [ids[row] for row in rows]}, return_tensors="pt")
            with torch.inference_mode():
                made = self.model.generate(
                    input_ids=batch["input_ids"].to(self.model.device),
                    attention_mask=batch["attention_mask"].to(self.model.device),
                    forced_bos_token_id=self._tokens[target],
                    num_beams=search.num_beams,
                    num_return_sequences=search.candidates,
                    max_new_tokens=search.max_new_tokens,
                    do_sample=False,
                )
            texts_made = [self._decode(one) for one in made.tolist()]
            for place, row in enumerate(rows):
                found[row] = texts_made[place * search.candidates : (place + 1) * search.candidates]
        return found

    def too_long(self, n_tokens: int) -> str:
        """What is wrong with a text of so many tokens."""
        return f"the text has {n_tokens} tokens, and {self.name} reads at most {self.max_tokens}"

    def _encode(self, texts: Sequence[str], source: str) -> list[list[int]]:
        self.tokenizer.src_lang = source
        return [self.tokenizer(text)["input_ids"] for text in texts]

    def _decode(self, ids: list[int]) -> str:
        # versions of transformers differ in whether a language's token is a special one: both kinds go here
        unknown = self.tokenizer.unk_token  # M2M100's vocabulary ends with words that are made up
        kept = [
            number
            for number in ids
            if number not in self._unseen and self.tokenizer.convert_ids_to_tokens(number) != unknown
        ]
        return str(self.tokenizer.decode(kept, clean_up_tokenization_spaces=False)).strip()


def load_translator(
    spec: str, *, revision: str | None = None, device: str | None = None, dtype: str | None = None
) -> Translator:
    """Load M2M100 or NLLB.

    Args:
        spec: Hub id, such as "facebook/m2m100_1.2B" or "facebook/nllb-200-distilled-600M", or a folder.
        revision: Commit, branch or tag on the Hub; None for `main`.
        device: Torch device; None for a GPU if there is one.
        dtype: "float32" (None), "bfloat16" or "float16".

    Raises:
        BackboneUnavailable: The weights are not available, are damaged, or are of another kind of model.
        MissingExtraError: A package that the tokenizer needs is not installed.
    """
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    from ..backbones.base import resolve_device, resolve_dtype, weights_digest
    from ..backbones.checkpoint import (
        in_one_line,
        load_processor,
        load_with_report,
        read_json,
        refuse_misreport,
    )

    folder, commit = _folder(spec, revision)
    kind = read_json(folder / "config.json").get("model_type")
    if kind != "m2m_100":
        raise BackboneUnavailable(
            f"{spec} is a model of the kind {kind!r:.40}; expected 'm2m_100', which M2M100 and NLLB are"
        )
    tokenizer = load_processor(AutoTokenizer, folder, "tokenizer of the translator")
    try:
        model, report = load_with_report(AutoModelForSeq2SeqLM, folder)
    except CapscoreError:
        raise
    except Exception as error:  # transformers' own, of many types
        raise BackboneUnavailable(
            f"the weights in {folder} cannot be loaded: {in_one_line(error)}"
        ) from error
    refuse_misreport(folder, report)
    revision = commit or f"w{weights_digest(model)[:8]}"
    wanted = getattr(torch, resolve_dtype(dtype))
    return Translator(model.to(resolve_device(device), wanted), tokenizer, f"{spec}@{revision}")


def _folder(spec: str, revision: str | None) -> tuple[Path, str]:
    """The folder of a model, and its commit on the Hub or ""."""
    from ..backbones.checkpoint import fetch, needed_files

    folder = Path(spec).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise CapscoreError(
                Setting("revision", revision), f" goes with a model on the Hub; {spec} is a folder"
            )
        if not (folder / "config.json").is_file():
            raise BackboneUnavailable(f"{folder} has no config.json; expected a checkpoint of M2M100 or NLLB")
        return folder, ""
    if spec.count("/") != 1 or spec.startswith((".", "/", "~")):
        raise BackboneUnavailable(
            f"the translator {spec!r} is no folder, nor a Hub id such as '{DEFAULT_TRANSLATOR}'"
        )
    return fetch(spec, revision or "", needed_files)
