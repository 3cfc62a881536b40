"""Rated captions and their references in other languages, for training: the best of many translations.

    python -m training.translate --config training/configs/translate.yaml \
        --input captions.jsonl --output translated.jsonl --languages de fr zh

In: a file of captions in one language. Out: a row for each row and language, with every other column carried
along, as `capscore translate` writes it (Gomes et al. 2025, App. C); `--shard 2/4` makes a share of the work,
and a run that was ended goes on where it was.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from capscore.files.progress import progress_bar
from capscore.translation.model import DEFAULT_TRANSLATOR, BeamSearch
from capscore.translation.run import TranslatedFile, TranslationOptions, split_by_quartile, translate_file
from capscore.translation.shards import parse_shard
from training.engine.config import main as run_as_command
from training.engine.config import parse


@dataclass
class Settings:
    """Settings of the translation.

    Attributes:
        input: File of captions: JSONL, JSON, CSV, TSV, Parquet, or the folder of a saved data set.
        output: File of the result, of any of these kinds.
        languages: Languages to translate into.
        language: Language of all captions; none reads the column.
        translator: Hub id or folder of M2M100 or NLLB.
        revision: Its commit, branch or tag on the Hub; none for main.
        num_beams: Number of beams.
        candidates: Number of translations per text, of which one is kept.
        max_new_tokens: Largest number of tokens of a translation.
        quality: cosine:BACKBONE or cometkiwi:MODEL.
        quality_python: Python of an environment with unbabel-comet, for cometkiwi; None for this one.
        language_check: Whether candidates in other languages are turned away.
        references: Whether references are translated too.
        on_error: What a bad row does: raise, or skip to leave it untranslated.
        on_rejected: What a row without a good translation does: keep, drop or stop.
        batch_size: Number of texts that are translated together.
        shard_rows: Number of rows per block.
        shard: Share of the blocks to make, such as 2/4; none makes all, and the result.
        split_quartiles: Whether a file per quartile of the quality is written too.
        device: Torch device; none for a GPU if there is one.
        dtype: float32, bfloat16 or float16; none for float32.
        force: Whether results and unfinished work of other settings are replaced.
    """

    input: str
    output: str
    languages: list[str] = field(
        default_factory=lambda: ["fr", "de", "es", "zh", "pt", "it", "ru", "nl", "ko"]
    )
    language: str | None = "en"
    translator: str = DEFAULT_TRANSLATOR
    revision: str | None = None
    num_beams: int = 100
    candidates: int = 25
    max_new_tokens: int = 128
    quality: str = "cosine"
    quality_python: str | None = None
    language_check: bool = True
    references: bool = True
    on_error: Literal["raise", "skip"] = "raise"
    on_rejected: Literal["keep", "drop", "stop"] = "drop"
    batch_size: int = 8
    shard_rows: int = 256
    shard: str | None = None
    split_quartiles: bool = False
    device: str | None = None
    dtype: str | None = None
    force: bool = False

    def options(self) -> TranslationOptions:
        """The options of the library; errors as in `TranslationOptions`."""
        return TranslationOptions(
            languages=tuple(self.languages),
            language=self.language,
            translator=self.translator,
            revision=self.revision,
            search=BeamSearch(self.num_beams, self.candidates, self.max_new_tokens),
            quality=self.quality,
            quality_python=self.quality_python,
            language_check=self.language_check,
            references=self.references,
            on_error=self.on_error,
            on_rejected=self.on_rejected,
            batch_size=self.batch_size,
            shard_rows=self.shard_rows,
            shard=parse_shard(self.shard),
            device=self.device,
            dtype=self.dtype,
        )


def translate(settings: Settings) -> TranslatedFile:
    """Translate a file, and split it if asked for; errors as in `capscore.translation.run.translate_file`."""
    done = translate_file(
        settings.input,
        settings.output,
        settings.options(),
        force=settings.force,
        progress=lambda total, before: progress_bar("Translating", total, done=before),
    )
    if done.output is not None and settings.split_quartiles:
        split_by_quartile(done.output, force=True)
    return done


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    done = translate(parse(Settings, argv, (__doc__ or "").partition("\n")[0]))
    summary = done.summary
    if done.output is None:
        print(f"{summary['done']:,} of {summary['blocks']:,} blocks are translated")
        return
    print(f"{summary['written']:,} rows written to {done.output}; quality: {summary['settings']['quality']}")
    for code, part in summary["languages"].items():
        print(f"{code}: {part['translated']:,} translated, {part['rejected']:,} rejected")


if __name__ == "__main__":
    run_as_command(lambda: main(sys.argv[1:]))
