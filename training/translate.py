"""Captions in other languages, each the best of many translations (Gomes et al. 2025, App. C).

    python -m training.translate --config training/configs/translate.yaml \
        --input captions.jsonl --output translated.jsonl --languages de fr zh

In: a file of captions, with any other columns. Out: JSON lines, a row for each row and language, in this
order: the translation in place of the caption; `original`, `original_language`, `quality`,
`translation_problem` and `source_row` beside all other columns; references are translated in the same way.
A model writes candidates by beam search, candidates in another language are rejected, and of the others
the one with the highest estimated quality is kept. Finished blocks of rows are files in OUTPUT.blocks, from
which the same command continues.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from capscore.backbones.base import resolve_device, resolve_dtype
from capscore.errors import BackboneUnavailable, CapscoreError, InputError, Setting
from capscore.files.columns import ColumnNames, find_columns, is_missing, read_inputs
from capscore.files.console import progress_bar
from capscore.files.image_folder import ImageFolder
from capscore.files.read import open_rows
from capscore.files.row_source import CHUNK_ROWS
from capscore.files.write import refuse_bytes, write_text
from capscore.text.languages import language_code
from training.engine.config import main as run_as_command
from training.engine.config import parse

Row = dict[str, Any]
Translation = tuple[str, float | None, str | None]  # text, estimated quality, what is wrong if it is not good


@dataclass
class Settings:
    """Settings of the translation.

    Attributes:
        input: File of captions: JSONL, JSON, CSV, TSV, Parquet, or the folder of a saved data set.
        output: File of the result, JSON lines.
        languages: Languages to translate into: ISO 639 or BCP 47, or as the model calls them.
        language: Language of all captions; none reads the column.
        translator, revision: Hub id or folder of M2M100 or NLLB; its commit, branch or tag on the Hub.
        num_beams, candidates: Number of beams; number of translations per text, of which one is kept.
        max_new_tokens: Largest number of tokens of a translation.
        quality: cosine:BACKBONE, the cosine of text and translation under a multilingual backbone, or
            cometkiwi:MODEL.
        quality_python: Python of an environment with unbabel-comet, for cometkiwi.
        language_check: Whether candidates in other languages are rejected.
        references: Whether references are translated too.
        on_rejected: What happens to a row without a good translation: drop, or keep the best with the reason.
        batch_size, block_rows: Number of texts that are translated together; number of rows per block.
        device, dtype: Torch device, none for a GPU if there is one; float32 (none), bfloat16 or float16.
    """

    input: str
    output: str
    languages: list[str] = field(default_factory="fr de es zh pt it ru nl ko".split)
    language: str | None = "en"
    translator: str = "facebook/m2m100_1.2B"
    revision: str | None = None
    num_beams: int = 100
    candidates: int = 25
    max_new_tokens: int = 128
    quality: str = "cosine"
    quality_python: str | None = None
    language_check: bool = True
    references: bool = True
    on_rejected: Literal["keep", "drop"] = "drop"
    batch_size: int = 8
    block_rows: int = 256
    device: str | None = None
    dtype: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.candidates <= self.num_beams:
            raise CapscoreError(
                Setting("candidates", self.candidates), f": expected 1 to num_beams={self.num_beams}"
            )
        if len(set(map(language_tag, self.languages))) < max(1, len(self.languages)):
            raise CapscoreError(Setting("languages", self.languages), ": expected languages, each once")


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

    if language in codes:
        return language
    asked = language_tag(language)
    likely = langcodes.Language.get(asked).maximize()  # a region says which script
    tags: dict[str, str] = {}
    for code in codes:
        tags.setdefault(langcodes.standardize_tag(code.replace("_", "-")), code)
    same = [code for tag, code in tags.items() if tag.partition("-")[0] == asked]
    if len(same) == 1:  # in whatever script
        return same[0]
    for wanted in (asked, f"{likely.language}-{likely.script}"):
        # "no" and "nb" are 1 apart; different languages are further than 3
        best, _ = langcodes.closest_match(wanted, list(tags), max_distance=3)
        if best in tags:
            return tags[best]
    raise InputError(
        f"the translator does not know {language!r:.40}; it knows {', '.join(sorted(codes))}",
        field="language",
    )


def load_language_check(languages: Sequence[str]) -> Callable[[str], str]:
    """A function from a text to the code of its language, "" without letters; it has to know `languages`."""
    import py3langid

    labels = {label for label, _ in py3langid.rank("a")} - {"zxx"}  # no language
    codes = {label: language_code(label) for label in labels}
    unknown = [language for language in languages if language_code(language) not in codes.values()]
    if unknown:
        problem = f"; the language check (py3langid) does not know {', '.join(unknown)}"
        raise InputError("give ", Setting("language_check", False), problem)
    return lambda text: codes.get(py3langid.classify(text)[0], "") if any(map(str.isalpha, text)) else ""


def load_quality(settings: Settings) -> Callable[[Sequence[str], Sequence[str]], np.ndarray]:
    """A function from n texts and their n translations to estimates of quality, (n,)."""
    kind, _, model = settings.quality.partition(":")
    if kind == "cosine":
        from capscore.backbones.loading import load_backbone
        from capscore.embedding.embedder import Embedder

        backbone = load_backbone(model or "embedded-free", device=settings.device)
        embedder = Embedder(backbone, cache=None, progress=False)

        def cosine(sources: Sequence[str], translations: Sequence[str]) -> np.ndarray:
            parts = embedder.texts(sources), embedder.texts(translations)
            return np.einsum("nd,nd->n", *(part.matrix[part.index].astype(np.float64) for part in parts))

        return cosine
    python = shutil.which(os.path.expanduser(settings.quality_python or ""))
    if kind != "cometkiwi" or python is None:
        raise CapscoreError(
            Setting("quality", settings.quality),
            ": expected cosine:BACKBONE, or cometkiwi:MODEL with ",
            Setting("quality_python"),
            ", the Python of an environment with unbabel-comet",
        )
    model = model or "Unbabel/wmt22-cometkiwi-da"
    gpus = int(resolve_device(settings.device).startswith("cuda"))
    return lambda sources, translations: comet(python, model, gpus, sources, translations)


def comet(python: str, model: str, gpus: int, sources: Sequence[str], translations: Sequence[str]) -> Any:
    """Estimates of quality, float64 (n,), by COMET's own command; a CapscoreError if it fails."""
    if not sources:
        return np.zeros(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, texts in (("sources", sources), ("translations", translations)):
            lines = "".join(" ".join(text.split()) + "\n" for text in texts)
            (folder / file).write_text(lines, encoding="utf-8", errors="replace")
        command = [python, "-m", "comet.cli.score", "--model", model, "--quiet"]
        command += ["-s", "sources", "-t", "translations", "--to_json", "scores", "--gpus", str(gpus)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            last = " ".join(done.stderr.split())[-500:]
            raise CapscoreError(f"COMET under {python} ended with exit code {done.returncode}: {last}")
        (scores,) = json.loads((folder / "scores").read_text(encoding="utf-8")).values()
    return np.array([score["COMET"] for score in scores], dtype=np.float64)


def choose(candidates: Sequence[tuple[str, float, str]], language: str | None) -> Translation:
    """The best candidate for a text.

    Args:
        candidates: Text, quality and language of each, the translator's best first.
        language: Language that they should be in; None if that is not checked.

    >>> choose([("a dog", 0.9, "en"), ("ein Hund", 0.8, "de"), ("Hund", 0.7, "de")], "de")
    ('ein Hund', 0.8, None)
    """
    if not candidates:
        return "", None, "the translator wrote nothing"
    accepted = [candidate for candidate in candidates if language in (None, candidate[2])]
    text, quality, _ = max(accepted or candidates, key=lambda candidate: candidate[1])  # the first of equals
    if accepted:
        return text, quality, None
    return text, quality, f"none of {len(candidates)} candidates is in {language} by the language check"


class Translator:
    """M2M100 or NLLB with a language check and an estimate of quality, as `Settings` name them.

    Attributes:
        codes: The model's codes of its languages → the number of each one's token.
        identify: Function of a text that gives its language; None if that is not checked.
        quality: As `load_quality` gives it.

    Raises:
        BackboneUnavailable: The weights are not available, or are of another kind of model.
        InputError: A language that the model or the check does not know.
    """

    def __init__(self, settings: Settings):
        import torch
        from transformers import AutoTokenizer, M2M100ForConditionalGeneration

        name, revision = settings.translator, settings.revision or "main"
        dtype, model = getattr(torch, resolve_dtype(settings.dtype)), M2M100ForConditionalGeneration
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(name, revision=revision)
            self.model: Any = model.from_pretrained(name, revision=revision, dtype=dtype)
        except Exception as error:  # transformers' own, of many types
            reason = f"the translator {name!r} is not available: {' '.join(str(error).split())[:400]}"
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
        """The model's code of a language; errors as in `find_language`."""
        return find_language(language, tuple(self.codes))

    def token_ids(self, texts: Sequence[Any], language: str) -> list[list[int]]:
        """The tokens of texts; an InputError for what is no text, empty, or too long for the model."""
        self.tokenizer.src_lang, longest = self.code(language), self.model.config.max_position_embeddings
        for text in texts:
            if not isinstance(text, str) or not text.strip():
                raise InputError(f"{text!r:.60}: expected a text to translate", field="caption")
        found = [self.tokenizer(text)["input_ids"] for text in texts]
        if max(map(len, found)) > longest:
            raise InputError(
                f"a text has {max(map(len, found))} tokens; the translator reads at most {longest}"
            )
        return found

    def candidates(self, texts: Sequence[str], source: str, target: str) -> list[list[str]]:
        """Translations of each text by beam search, the model's best first; nothing is drawn at random.

        Args:
            texts: n texts; those of like length share a batch, which changes no translation but for rounding.
            source, target: Languages.

        Returns:
            n lists of `settings.candidates` texts, which may be equal or empty.
        """
        import torch

        settings, ids = self.settings, self.token_ids(texts, source)
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
        made = self.candidates(texts, source, target)
        pairs = [(text, new) for text, several in zip(texts, made, strict=True) for new in several if new]
        pairs = list(dict.fromkeys(pairs))
        estimates = self.quality([text for text, _ in pairs], [new for _, new in pairs])
        found: dict[str, list[tuple[str, float, str]]] = {text: [] for text in texts}
        for (text, new), estimate in zip(pairs, estimates.tolist(), strict=True):
            found[text].append((new, estimate, self.identify(new) if self.identify else ""))
        wanted = language_code(target) if self.identify else None
        return {text: choose(candidates, wanted) for text, candidates in found.items()}


def read_rows(settings: Settings, translator: Translator) -> tuple[ColumnNames, list[Row]]:
    """The columns and rows of the input; an InputError names a row that cannot be translated.

    Returns:
        Of each row its "row" number, its "cells", its "texts" (caption and references), and their "language".
    """
    source = open_rows(settings.input)
    refuse_bytes(source, Setting("output", settings.output), ".jsonl")
    names = find_columns(source.columns, with_images=False, with_references=settings.references)
    if settings.language is None and names.language is None:
        raise InputError(Setting("language"), f": not stated, and {source.path} has no column for it")
    rows: list[Row] = []
    for chunk in source.chunks(CHUNK_ROWS):
        inputs = read_inputs(chunk, source, names, ImageFolder(source.folder))
        languages = inputs.languages or [None] * len(chunk)
        for index, cells in enumerate(chunk.dicts()):
            try:
                if index in inputs.problems:
                    raise inputs.problems[index]
                references = (inputs.references[index] if inputs.references else None) or []
                texts = [
                    inputs.candidates[index],
                    *([references] if isinstance(references, str) else references),
                ]
                language = language_code(settings.language or languages[index])
                translator.token_ids(texts, language)
            except InputError as error:
                raise source.at(error, chunk, index) from None
            rows.append({"row": len(rows), "cells": cells, "texts": texts, "language": language})
    return names, rows


def translate_block(
    rows: Sequence[Row], names: ColumnNames, settings: Settings, translator: Translator
) -> list[Row]:
    """The rows of the result for some rows of the input; what is in a target's language stays as it is."""
    result = []
    for target in settings.languages:
        tag = language_tag(target)
        found: dict[tuple[str, str], Translation] = {}
        for source in {row["language"] for row in rows} - {tag}:
            texts = [text for row in rows if row["language"] == source for text in row["texts"]]
            made = translator.translate(list(dict.fromkeys(texts)), source, target)
            found.update({(source, text): translation for text, translation in made.items()})
        for row in rows:
            chosen = [found.get((row["language"], text), (text, None, None)) for text in row["texts"]]
            cells = {**row["cells"], names.candidate: chosen[0][0], names.language or "language": tag}
            cells |= {"original": row["texts"][0], "original_language": row["language"]}
            cells |= {"quality": chosen[0][1], "translation_problem": chosen[0][2], "source_row": row["row"]}
            if names.references:
                texts = [text for text, _, _ in chosen[1:]]
                filled = [name for name in names.references if not is_missing(cells.get(name))]
                numbered = names.references[-1][-1].isdigit()  # reference_1, reference_2, …
                cells |= dict(zip(filled, texts, strict=True)) if numbered else {names.references[0]: texts}
                cells["original_references"] = row["texts"][1:]
                cells["references_quality"] = [quality for _, quality, _ in chosen[1:]]
            if settings.on_rejected == "keep" or not cells["translation_problem"]:
                result.append(cells)
    return sorted(result, key=lambda cells: cells["source_row"])


def translate(settings: Settings) -> int:
    """Translate a file, block by block, and write the result; returns its number of rows."""
    output = Path(settings.output)
    folder = output.with_name(f"{output.name}.blocks")
    if output.exists() or output.suffix != ".jsonl":
        raise InputError(Setting("output", settings.output), ": expected a new file that ends in .jsonl")
    translator = Translator(settings)
    names, rows = read_rows(settings, translator)
    digest = hashlib.sha256(json.dumps([row["texts"] for row in rows]).encode()).hexdigest()
    record, content = folder / "settings.json", json.dumps({**asdict(settings), "texts": digest}, indent=2)
    if record.exists() and record.read_text(encoding="utf-8") != content:
        raise InputError(f"{folder} holds blocks of other settings or captions: delete it to start again")
    write_text(record, content)
    size, blocks = settings.block_rows, []
    with progress_bar("Translating", -(-len(rows) // size)) as advance:
        for first in range(0, len(rows), size):
            blocks.append(folder / f"{first:09d}.jsonl")
            if not blocks[-1].exists():
                made = translate_block(rows[first : first + size], names, settings, translator)
                write_text(blocks[-1], "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made))
            advance(1)
    result = "".join(block.read_text(encoding="utf-8") for block in blocks)
    write_text(output, result)
    shutil.rmtree(folder)
    return result.count("\n")


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    settings = parse(Settings, argv, (__doc__ or "").partition("\n")[0])
    print(f"{translate(settings):,} rows written to {settings.output}; quality: {settings.quality}")


if __name__ == "__main__":
    run_as_command(lambda: main(sys.argv[1:]))
