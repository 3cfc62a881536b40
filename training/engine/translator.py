"""M2M100 or NLLB → translations of captions by beam search, the best of many (Gomes et al. 2025, App. C)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from capscore.backbones import load_backbone
from capscore.backbones.base import resolve_device, resolve_dtype
from capscore.embedding.embedder import Embedder
from capscore.errors import BackboneUnavailable, CapscoreError, InputError, Setting, message_of
from capscore.files.scratch import process_folder
from capscore.text.languages import language_code
from training.engine.loop_settings import require

Translation = tuple[str, float | None, str | None]  # text, estimated quality, what is wrong if it is not good
Quality = Callable[[Sequence[str], Sequence[str]], np.ndarray]  # n texts and their n translations → (n,)


@dataclass
class TranslatorSettings:
    """Which model translates, and how.

    Attributes:
        languages: Languages to translate into: ISO 639 or BCP 47, or as the model calls them.
        translator, revision: Hub id or folder of M2M100 or NLLB; its commit, branch or tag on the Hub.
        num_beams, candidates: Number of beams; number of translations per text, of which one is kept.
        max_new_tokens: Largest number of tokens of a translation.
        quality: cosine:BACKBONE, the cosine of text and translation under a multilingual backbone, or
            cometkiwi:MODEL.
        quality_python: Python of an environment with unbabel-comet, for cometkiwi.
        language_check: Whether candidates in other languages are rejected.
        batch_size: Number of texts that are translated together.
        device, dtype: Torch device, None for a GPU if there is one; float32 (None), bfloat16 or float16.
    """

    languages: list[str] = field(default_factory="fr de es zh pt it ru nl ko".split)
    translator: str = "facebook/m2m100_1.2B"
    revision: str | None = None
    num_beams: int = 100
    candidates: int = 25
    max_new_tokens: int = 128
    quality: str = "cosine"
    quality_python: str | None = None
    language_check: bool = True
    batch_size: int = 8
    device: str | None = None
    dtype: str | None = None

    def __post_init__(self) -> None:
        beams = self.num_beams
        require(1 <= self.candidates <= beams, "candidates", self.candidates, f"1 to num_beams={beams}")
        distinct = len(set(map(language_tag, self.languages)))
        require(0 < len(self.languages) == distinct, "languages", self.languages, "languages, each once")


def language_tag(language: str) -> str:
    """The tag that a result has for a language.

    >>> language_tag("deu_Latn"), language_tag("zho_Hant"), language_tag("zh-TW"), language_tag("pt")
    ('de', 'zh-Hant', 'zh-TW', 'pt')
    """
    import langcodes

    primary, tag = language_code(language), langcodes.standardize_tag(language.strip().replace("_", "-"))
    return tag if "-" in tag else primary


@lru_cache
def find_language(language: str, codes: tuple[str, ...]) -> str:
    """The code that a translation model has for a language: German is "de" for M2M100, "deu_Latn" for NLLB.

    >>> find_language("de", ("fr", "de")), find_language("zh-TW", ("zho_Hans", "zho_Hant"))
    ('de', 'zho_Hant')
    """
    import langcodes

    standard = [langcodes.standardize_tag(code.replace("_", "-")) for code in codes]
    tags: dict[str, str] = {}
    for tag, code in zip([*standard, *(tag.partition("-")[0] for tag in standard)], codes * 2, strict=True):
        tags.setdefault(tag, code)  # a code without its script, too
    likely = langcodes.Language.get(language_tag(language)).maximize()  # a region says which script
    # "no" and "nb" are 1 apart; different languages are further than 3
    best, _ = langcodes.closest_match(f"{likely.language}-{likely.script}", list(tags), max_distance=3)
    if language in codes or best in tags:
        return language if language in codes else tags[best]
    known = ", ".join(sorted(codes))
    raise InputError(
        f"the translator does not support {language!r:.40}; it supports {known}", field="language"
    )


def load_language_check(languages: Sequence[str]) -> Callable[[str], str]:
    """A function from a text to the code of its language, "" without letters; it has to know `languages`."""
    import py3langid

    labels = {label for label, _ in py3langid.rank("a")} - {"zxx"}  # no language
    codes = {label: language_code(label) for label in labels}
    for language in languages:
        if language_code(language) not in codes.values():
            problem = f"; the language check (py3langid) does not support {language}"
            raise InputError("give ", Setting("language_check", False), problem)
    return lambda text: codes.get(py3langid.classify(text)[0], "") if any(map(str.isalpha, text)) else ""


def load_quality(settings: TranslatorSettings) -> Quality:
    """A function from n texts and their n translations to estimates of quality, (n,)."""
    kind, _, model = settings.quality.partition(":")
    if kind == "cosine":
        backbone = load_backbone(model or "embedded-free", device=settings.device)
        embedder = Embedder(backbone, cache=None, progress=False)

        def cosine(sources: Sequence[str], translations: Sequence[str]) -> np.ndarray:
            parts = embedder.texts(sources), embedder.texts(translations)
            return np.einsum("nd,nd->n", *(part.matrix[part.index].astype(np.float64) for part in parts))

        return cosine
    python = shutil.which(os.path.expanduser(settings.quality_python or ""))
    if kind != "cometkiwi" or python is None:
        expected = ": expected cosine:BACKBONE, or cometkiwi:MODEL with "
        of_comet = Setting("quality_python"), ", the Python of an environment with unbabel-comet"
        raise CapscoreError(Setting("quality", settings.quality), expected, *of_comet)
    command = [python, "-m", "comet.cli.score", "--model", model or "Unbabel/wmt22-cometkiwi-da", "--quiet"]
    command += ["--gpus", str(int(resolve_device(settings.device).startswith("cuda")))]
    return lambda sources, translations: _comet(command, sources, translations)


def _comet(command: list[str], sources: Sequence[str], translations: Sequence[str]) -> np.ndarray:
    """Estimates of quality, float64 (n,), by COMET's own command; a CapscoreError if it fails."""
    if not sources:
        return np.zeros(0)
    with tempfile.TemporaryDirectory(dir=process_folder()) as name:
        folder = Path(name)
        for file, texts in (("sources", sources), ("translations", translations)):
            lines = "".join(" ".join(text.split()) + "\n" for text in texts)
            (folder / file).write_text(lines, encoding="utf-8", errors="replace")
        command = [*command, "-s", "sources", "-t", "translations", "--to_json", "scores"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            last = " ".join(done.stderr.split())[-500:]
            raise CapscoreError(f"COMET under {command[0]} ended with exit code {done.returncode}: {last}")
        (scores,) = json.loads((folder / "scores").read_text(encoding="utf-8")).values()
    return np.array([score["COMET"] for score in scores], dtype=np.float64)


def choose(candidates: Sequence[tuple[str, float, str]], language: str | None) -> Translation:
    """The best of a text's candidates: text, quality and language of each, the translator's best first.

    >>> choose([("a dog", 0.9, "en"), ("ein Hund", 0.8, "de"), ("Hund", 0.7, "de")], "de")
    ('ein Hund', 0.8, None)
    """
    if not candidates:
        return "", None, "the translator wrote nothing"
    accepted = [candidate for candidate in candidates if language in (None, candidate[2])]
    text, quality, _ = max(accepted or candidates, key=lambda candidate: candidate[1])  # the first of equals
    rejected = f"none of {len(candidates)} candidates is in {language} by the language check"
    return text, quality, None if accepted else rejected


class Translator:
    """M2M100 or NLLB with a language check and an estimate of quality, as `TranslatorSettings` name them.

    `codes` are the model's codes of its languages, with the number of each one's token.
    """

    def __init__(self, settings: TranslatorSettings):
        import torch
        from transformers import AutoConfig, AutoTokenizer, M2M100ForConditionalGeneration

        name, revision = settings.translator, settings.revision or "main"
        dtype, model = getattr(torch, resolve_dtype(settings.dtype)), M2M100ForConditionalGeneration
        try:
            kind = AutoConfig.from_pretrained(name, revision=revision).model_type
            if kind != "m2m_100":  # that of both
                raise TypeError(f"it is a model of the type {kind!r}")
            self.tokenizer: Any = AutoTokenizer.from_pretrained(name, revision=revision)
            self.model: Any = model.from_pretrained(name, revision=revision, dtype=dtype)
        except Exception as error:  # transformers' own, of many types
            reason = f"the translator {name!r} is not available: {message_of(error).rstrip('.')}"
            raise BackboneUnavailable(f"{reason}; expected a Hub id or folder of M2M100 or NLLB") from error
        self.settings = settings
        self.model.eval().to(resolve_device(settings.device))
        # M2M100 has a table; of NLLB, codes are tokens of their own
        self.codes: dict[str, int] = getattr(self.tokenizer, "lang_code_to_id", None) or {
            token: number
            for token, number in self.tokenizer.get_added_vocab().items()
            if re.fullmatch("[a-z]{3}_[A-Z][a-z]{3}", token)
        }
        self._not_text = {*self.codes.values(), *self.tokenizer.all_special_ids}
        for language in settings.languages:
            self.code(language)
        self.identify = load_language_check(settings.languages) if settings.language_check else None
        self.quality = load_quality(settings)

    def code(self, language: str) -> str:
        return find_language(language, tuple(self.codes))

    def token_ids(self, texts: Sequence[object], language: str) -> list[list[int]]:
        """The tokens of texts; an InputError for what is no text, empty, or too long for the model."""
        self.tokenizer.src_lang, longest = self.code(language), self.model.config.max_position_embeddings
        for text in texts:
            if not isinstance(text, str) or not text.strip():
                raise InputError(f"{text!r:.60}: expected a text to translate", field="caption")
        found = [self.tokenizer(text)["input_ids"] for text in texts]
        most = max(map(len, found))
        if most > longest:
            raise InputError(f"a text has {most} tokens; the translator reads at most {longest}")
        return found

    def candidates(self, texts: Sequence[str], source: str, target: str) -> list[list[str]]:
        """`settings.candidates` translations of each of n texts by beam search, the model's best first.

        Nothing is drawn at random; translations may be equal or empty.
        """
        import torch

        settings, ids = self.settings, self.token_ids(texts, source)
        # texts of like length share a batch, which changes no translation but for rounding
        order = sorted(range(len(ids)), key=lambda index: (len(ids[index]), index))
        made: list[list[str]] = [[] for _ in ids]
        for first in range(0, len(order), settings.batch_size):
            rows = order[first : first + settings.batch_size]
            batch = self.tokenizer.pad({"input_ids": [ids[row] for row in rows]}, return_tensors="pt")
            with torch.inference_mode():
                generated = self.model.generate(
                    **batch.to(self.model.device),
                    forced_bos_token_id=self.codes[self.code(target)],
                    num_beams=settings.num_beams,
                    num_return_sequences=settings.candidates,
                    max_new_tokens=settings.max_new_tokens,
                    do_sample=False,
                )
            for index, numbers in enumerate(generated.tolist()):
                kept = [number for number in numbers if number not in self._not_text]
                text = self.tokenizer.decode(kept).replace(self.tokenizer.unk_token, "")  # M2M100 has some
                made[rows[index // settings.candidates]].append(" ".join(text.split()))
        return made

    def translate(self, texts: Sequence[str], source: str, target: str) -> dict[str, Translation]:
        """Each of n different texts → its best translation."""
        made = zip(texts, self.candidates(texts, source, target), strict=True)
        pairs = list(dict.fromkeys((text, new) for text, several in made for new in several if new))
        estimates = self.quality([text for text, _ in pairs], [new for _, new in pairs])
        found: dict[str, list[tuple[str, float, str]]] = {text: [] for text in texts}
        for (text, new), estimate in zip(pairs, estimates.tolist(), strict=True):
            found[text].append((new, estimate, self.identify(new) if self.identify else ""))
        wanted = language_code(target) if self.identify else None
        return {text: choose(candidates, wanted) for text, candidates in found.items()}
