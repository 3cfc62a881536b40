"""Fine-tune a text tower so that captions with lexical noise score lower: PR-MCS (Kim et al. 2023, §3.4).

    python -m training.pr_mcs --config training/configs/pr_mcs.yaml --base embedded --data captions.jsonl \
        --out runs/pr_mcs

In: a backbone, and captions with their images. Out: a folder that `capscore.load("pr_mcs", backbone=folder)`
takes, with its card, the log and the checkpoints of the run. Only the text tower moves. The same command goes
on where a run was broken off.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import xxhash
from torch import Tensor, nn

from capscore import load_backbone
from capscore.backbones import tuned
from capscore.backbones.base import Backbone
from capscore.benchmark.protocols.results import counted
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import EmbeddedRows, Embedder
from capscore.errors import CapscoreError, InputError
from capscore.files.whole_file import write_text
from capscore.perturbations.published import KINDS, P
from training.data.caption_rows import CaptionRow, benchmark_rows, file_rows, read_names
from training.data.captions import Captions, embed_captions
from training.data.split import Split, split_by_image
from training.data.triples import Noise, Triple, TripleBatches
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.loop import RunResult, run
from training.engine.loop_settings import LoopSettings
from training.engine.model_card import ModelCard, Result, write_card
from training.engine.moved_threshold import MovedThreshold
from training.engine.pr_mcs_losses import LossWeights, gate_loss, pr_mcs_loss
from training.engine.processes import device, is_main_process, main_process_first
from training.engine.robustness_check import RobustnessCheck
from training.engine.run_record import (
    RESULT,
    Origin,
    as_yaml,
    finite,
    held_out,
    machine_and_time,
    own_settings,
    results,
    train_and_say,
)

_BENCHMARK = "benchmark:"
# texts that go through the tower at once
_PART = 64
# captions whose mean a gate turns texts away from
_FOR_MEAN = 5000
# of a gate's threshold, in logits
_STEP = 0.125
_MOST_STEPS = 80
# What a card tells and what is measured on the way changes nothing in the weights.
_NO_IDENTITY = frozenset(
    (
        "data",
        "data_dir",
        "image_dir",
        "hold_out",
        "evaluate_captions",
        "name",
        "license",
        "data_license",
        "gate_sharpness",
        "keep_original",
        "stored_dtype",
    )
)


@dataclass
class Settings(LoopSettings):
    """Settings of a run: those of the loop, and these.

    Defaults are the paper's where it states them (§3.4, App. B). It does not state batch size, weight decay,
    schedule, clipping, nor what the logits are scaled by.

    Attributes:
        base: the backbone to start from, as `capscore.load_backbone` takes it.
        data: files of captions (`training.data.caption_rows.file_rows`), or benchmarks such as
            "benchmark:multi30k/de:train". Where a file named as one of them with .sources.json behind it lies
            beside, the card has from there what the captions come from.
        data_dir: folder of the benchmarks' files; if it has a folder named as the benchmark, that one.
        image_dir: folder of the images; None for that of the file, or where the benchmark looks.
        language: of captions that state none.
        image_column, candidate_column, language_column: of files with unfamiliar names.
        validation_share: share of the images that is measured on.
        few_shot: train on so many captions and measure on all others; None for the split above.
        hold_out: a list of ids or names of images that are left out of everything, one a line.
        lambda_1, lambda_2, lambda_3, margin: of the loss (`training.engine.pr_mcs_losses`).
        clip_weight: of the contrastive loss.
        keep_close: weight of a term that holds captions where the base has them; not in the paper.
        logit_scale: what cosines are multiplied by in the contrastive loss; None for what the base was
            trained with.
        shared_negatives: whether rows that share an image or a text are each other's negatives, as published.
        kinds: the perturbations to draw from.
        kind_shares: how often each of them is drawn, relative to the others; empty draws them alike, as
            published.
        draws: "one" perturbation a caption and step, or "all".
        p, shared_draws, removal: of the perturbations.
        gate: width, layers and heads of a gate that the text tower is given first, and which alone is trained
            (`capscore.backbones.use_gated`); empty for none. Not in the paper; for the backbone "embedded".
        gate_weight: weight of the gate's own loss, `training.engine.pr_mcs_losses.gate_loss`.
        gate_sharpness: after training the gate's logits are multiplied by this, so that texts are rather let
            through or turned away than mixed.
        keep_original: with a gate, the share of the base's mean score on validation captions that is kept at
            least: the gate's threshold is moved until it is; None leaves it.
        dropout: whether the text tower's dropout works while it is trained.
        evaluate_captions: most validation captions that are measured on.
        name: of the model, for its card; "" for that of the folder `out`.
        license: of the weights, as the Hub writes it.
        data_license: of the captions.
        stored_dtype: of the weights that are saved.
    """

    out: str = ""
    base: str = ""
    data: list[str] = field(default_factory=list)
    data_dir: str | None = None
    image_dir: str | None = None
    language: str | None = None
    image_column: str | None = None
    candidate_column: str | None = None
    language_column: str | None = None
    validation_share: float = 0.1
    few_shot: int | None = None
    hold_out: str | None = None
    epochs: int = 5
    learning_rate: float = 5e-5
    lambda_1: float = 0.1
    lambda_2: float = 0.05
    lambda_3: float = 0.05
    margin: float = 0.1
    clip_weight: float = 1.0
    keep_close: float = 0.0
    logit_scale: float | None = None
    shared_negatives: bool = True
    kinds: list[str] = field(default_factory=lambda: list(KINDS))
    kind_shares: list[float] = field(default_factory=list)
    draws: Literal["one", "all"] = "one"
    p: float = P
    shared_draws: bool = True
    removal: Literal["keep", "drop"] = "keep"
    gate: list[int] = field(default_factory=list)
    gate_weight: float = 0.0
    gate_sharpness: float = 1.0
    keep_original: float | None = None
    dropout: bool = True
    evaluate_captions: int = 2000
    name: str = ""
    license: str = "unknown"
    data_license: str = "unknown"
    stored_dtype: Literal["float32", "float16"] = "float32"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.base.strip():
            raise CapscoreError("base is missing: the backbone to start from, such as --base embedded")
        if not self.data:
            raise CapscoreError(
                "data is missing: files of captions, such as --data captions.jsonl, or a benchmark, such as "
                "--data benchmark:multi30k/de:train"
            )
        for name in ("lambda_1", "lambda_2", "lambda_3", "clip_weight", "keep_close"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise CapscoreError(f"{name}={getattr(self, name)!r}: expected a weight of at least 0")
        if not any((self.lambda_1, self.lambda_2, self.lambda_3, self.clip_weight, self.gate_weight)):
            raise CapscoreError("every term of the loss has the weight 0: there is nothing to train for")
        if not -1 <= self.margin < 1:
            raise CapscoreError(f"margin={self.margin!r}: expected a cosine from -1 to below 1")
        if self.logit_scale is not None and not 0 < self.logit_scale < float("inf"):
            raise CapscoreError(f"logit_scale={self.logit_scale!r}: expected a number above 0, or nothing")
        if self.evaluate_captions < 1:
            raise CapscoreError(f"evaluate_captions={self.evaluate_captions}: expected at least 1")
        _ = self.noise
        if self.gate and (len(self.gate) != 3 or min(self.gate) < 1):
            raise CapscoreError(f"gate={self.gate!r}: expected its width, layers and heads, such as 128 4 4")
        if self.gate and (self.gate[0] % self.gate[2] or self.gate[0] % 2):
            raise CapscoreError(
                f"gate={self.gate!r}: expected an even width that its heads can share, such as 128 4 4"
            )
        if not 0 <= self.gate_weight < float("inf"):
            raise CapscoreError(f"gate_weight={self.gate_weight!r}: expected a weight of at least 0")
        if not 0 < self.gate_sharpness < float("inf"):
            raise CapscoreError(f"gate_sharpness={self.gate_sharpness!r}: expected a number above 0")
        if not self.gate and (self.gate_weight or self.gate_sharpness != 1 or self.keep_original is not None):
            raise CapscoreError(
                "gate_weight, gate_sharpness and keep_original are for a tower with a gate: set gate, too"
            )
        if self.keep_original is not None and not 0 < self.keep_original < 1:
            raise CapscoreError(f"keep_original={self.keep_original!r}: expected a share between 0 and 1")

    @property
    def noise(self) -> Noise:
        return Noise(
            tuple(self.kinds), self.draws, self.p, self.shared_draws, self.removal, tuple(self.kind_shares)
        )

    @property
    def weights(self) -> LossWeights:
        return LossWeights(
            clip=self.clip_weight,
            lambda_1=self.lambda_1,
            lambda_2=self.lambda_2,
            lambda_3=self.lambda_3,
            margin=self.margin,
            keep_close=self.keep_close,
        )


@dataclass(frozen=True)
class Trained:
    """What a run came to.

    Attributes:
        folder: with the weights, if the run is finished.
        run: how the run stands.
        evaluation: the last numbers of `RobustnessCheck`; {} without validation captions.
        base: the same of the base.
        n_training, n_validation: captions trained on, and left for validation.
    """

    folder: Path
    run: RunResult
    evaluation: dict[str, float]
    base: dict[str, float]
    n_training: int
    n_validation: int


class TripleLoss:
    """The loss of PR-MCS on rows of `TripleBatches`, as `training.engine.loop.run` calls it.

    Each distinct text of the rows goes through the tower once.

    Args:
        backbone: whose text tower is trained.
        captions: the data, with the images' embeddings.
        weights: what the terms count.
        logit_scale: what cosines are multiplied by in the contrastive loss.
        shared_negatives: whether rows with one image or text are each other's negatives, as published.
        before: the captions of `captions` in the base, one a row; needed if `weights.keep_close` counts.
        gate_weight: weight of the gate's own loss; 0 for a tower without one.
    """

    def __init__(
        self,
        backbone: Backbone,
        captions: Captions,
        weights: LossWeights,
        *,
        logit_scale: float,
        shared_negatives: bool = True,
        before: EmbeddedRows | None = None,
        gate_weight: float = 0.0,
    ):
        self.backbone, self.captions, self.weights = backbone, captions, weights
        self.logit_scale, self.shared_negatives, self.before = logit_scale, shared_negatives, before
        self.gate_weight = gate_weight

    def __call__(
        self, model: nn.Module, rows: Sequence[Triple], gather: Callable[[Tensor], Tensor]
    ) -> dict[str, Tensor]:
        """Loss and terms over the rows of all processes."""
        n, places = len(rows), len(rows[0].perturbed)
        noisy = [text for row in rows for text in row.perturbed]
        texts: dict[str, int] = {}
        for text in (*(row.caption for row in rows), *(text for text in noisy if text is not None)):
            texts.setdefault(text, len(texts))
        embedded, logits = self._embedded(list(texts))
        at = embedded.device
        # an empty place holds row 0, which `changed` tells not to count
        indices = torch.tensor([texts.get(text, 0) for text in noisy], device=at)
        own = torch.tensor([texts[row.caption] for row in rows], device=at)
        changed = gather(torch.tensor([text is not None for text in noisy], device=at).reshape(n, places))
        with torch.autocast(at.type, enabled=False):
            terms = pr_mcs_loss(
                gather(self._rows(self.captions.embeddings, [row.image for row in rows], at)),
                gather(embedded[own]),
                gather(embedded[indices].reshape(n, places, -1)),
                weights=self.weights,
                logit_scale=self.logit_scale,
                changed=changed,
                image_groups=None
                if self.shared_negatives
                else gather(torch.tensor([row.image for row in rows], device=at)),
                caption_groups=None
                if self.shared_negatives
                else gather(torch.tensor([_text_number(row.caption) for row in rows], device=at)),
                before=None
                if self.before is None
                else gather(
                    self._rows(self.before.matrix, self.before.index[[row.row for row in rows]].tolist(), at)
                ),
            )
            if logits is not None:
                gate = gate_loss(
                    gather(logits[own]), gather(logits[indices].reshape(n, places)), changed=changed
                )
                terms = {**terms, "loss": terms["loss"] + self.gate_weight * gate, "gate": gate}
        return terms

    def _embedded(self, texts: Sequence[str]) -> tuple[Tensor, Tensor | None]:
        """Texts → their rows, and the gate's logits if they count; in parts of like length, to pad little."""
        prefix = self.backbone.prefix
        ids = self.backbone.tokenize([prefix + text for text in texts]).ids
        order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
        embed = self.backbone.embed_gated if self.gate_weight else self.backbone.embed_tokens
        parts = [
            embed([ids[number] for number in order[start : start + _PART]])
            for start in range(0, len(order), _PART)
        ]
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order)] = torch.arange(len(order))
        if self.gate_weight:
            rows, logits = (torch.cat(kind) for kind in zip(*parts, strict=True))
            return rows[back], logits[back]
        return torch.cat(parts)[back], None

    @staticmethod
    def _rows(matrix: np.ndarray, places: Sequence[int], at: torch.device) -> Tensor:
        return torch.from_numpy(np.array(matrix[list(places)], dtype=np.float32)).to(at)


def _text_number(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")) >> 1


def train(settings: Settings, *, command: str = "") -> Trained:
    """Run the recipe: read, split, train, measure, save.

    Args:
        settings: see `Settings`.
        command: what the card says trains the tower again; "" for the run's own settings file.

    Raises:
        CapscoreError, InputError: bad data or settings; a loss that is not finite names its batch.
        BackboneUnavailable: the base cannot be had.
    """
    out = Path(settings.out).expanduser()
    if (out / tuned.WEIGHTS).is_file() and not tuned.recognises(out):
        raise CapscoreError(f"{out} has the weights of another model: give another folder as out")
    backbone = load_backbone(settings.base, device=device(), dtype="float32")
    network = backbone.text_network()
    with main_process_first():  # the others find the embeddings in the cache
        embedder = Embedder(backbone, cache=EmbeddingCache(None))
        sources = [_Source(spec, settings) for spec in settings.data]
        folder = out if out.is_dir() else None
        captions = embed_captions(_chained(sources), embedder, folder=folder)
        split = split_by_image(
            captions,
            validation_share=settings.validation_share,
            few_shot=settings.few_shot,
            hold_out=read_names(settings.hold_out) if settings.hold_out else (),
            seed=settings.seed,
        )
        before = embedder.texts(captions.texts, prefix=backbone.prefix) if settings.keep_close else None
    if settings.keep_original is not None and not len(split.validation):
        raise CapscoreError(
            f"keep_original={settings.keep_original} is measured on validation captions, and there are none"
        )
    batches = TripleBatches(
        captions,
        split.training,
        batch_size=settings.batch_size,
        noise=settings.noise,
        seed=settings.seed,
    )
    check = None
    if len(split.validation) and is_main_process():  # of the base, before it has a gate
        check = RobustnessCheck(
            captions,
            split.validation,
            settings.noise,
            backbone,
            most=settings.evaluate_captions,
            seed=settings.seed,
        )
    if settings.gate:
        _add_gate(backbone, settings, captions, split, embedder)
        network = backbone.text_network()
    if is_main_process():
        _say(captions, split, check)
    network.requires_grad_(not settings.gate)
    if settings.gate:
        network.gate.requires_grad_(True)
    network.train(settings.dropout)
    result = run(
        network,
        batches,
        TripleLoss(
            backbone,
            captions,
            settings.weights,
            logit_scale=backbone.logit_scale if settings.logit_scale is None else settings.logit_scale,
            shared_negatives=settings.shared_negatives,
            before=before,
            gate_weight=settings.gate_weight,
        ),
        settings,
        evaluate=None if check is None else lambda model, step: check(backbone),
        identity=_identity(settings, backbone, captions, split, batches),
    )
    network.eval()
    evaluation = result.evaluation
    if result.finished and settings.gate:
        _sharpen(network, settings.gate_sharpness)
        if check is not None:
            if settings.keep_original is not None:
                _move_threshold(network, backbone, check, settings.keep_original)
            evaluation = check(backbone)
    trained = Trained(
        folder=out,
        run=result,
        evaluation=evaluation,
        base={} if check is None else check.base_numbers,
        n_training=len(split.training),
        n_validation=len(split.validation),
    )
    if result.finished and is_main_process():
        _save(settings, backbone, captions, split, batches, sources, trained, check, command)
    return trained


def _add_gate(
    backbone: Backbone, settings: Settings, captions: Captions, split: Split, embedder: Embedder
) -> None:
    """Give the text tower an untrained gate, and say where it turns texts to: away from captions."""
    width, layers, heads = settings.gate
    chosen = np.random.default_rng(0).permutation(split.training)[:_FOR_MEAN]
    embedded = embedder.texts([captions.texts[row] for row in chosen], prefix=backbone.prefix)
    mean = embedded.matrix[embedded.index].mean(axis=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        backbone.add_network_parts({"gate": {"width": width, "layers": layers, "heads": heads}})
    backbone.text_network().turn_away(-torch.from_numpy(mean))


def _sharpen(network: nn.Module, factor: float) -> None:
    with torch.no_grad():
        network.gate.leave.weight *= factor
        network.gate.leave.bias *= factor


def _move_threshold(network: nn.Module, backbone: Backbone, check: RobustnessCheck, least: float) -> None:
    """Open the gate in small steps until the mean original score is that share of the base's."""
    memory: dict[tuple[int, ...], tuple[Tensor, Tensor]] = {}
    for steps in range(_MOST_STEPS + 1):
        if check.original_of_base(MovedThreshold(backbone, steps * _STEP, memory)) >= least:
            with torch.no_grad():
                network.gate.leave.bias -= steps * _STEP
            return
    raise CapscoreError(
        f"keep_original={least}: the mean score of validation captions stays below that share of the base's"
    )


class _Source(Origin):
    """A file or a benchmark of the data."""

    def __init__(self, spec: str, settings: Settings):
        name = spec.removeprefix(_BENCHMARK) if spec.startswith(_BENCHMARK) else Path(spec).name
        super().__init__(spec, name, settings.data_license)
        self.spec, self.settings = spec, settings

    def rows(self) -> Iterator[CaptionRow]:
        settings = self.settings
        if self.spec.startswith(_BENCHMARK):
            rest, _, split = self.spec.removeprefix(_BENCHMARK).partition(":")
            slug, _, config = rest.partition("/")
            data_dir = settings.data_dir
            if data_dir is not None and (Path(data_dir).expanduser() / slug).is_dir():
                data_dir = str(Path(data_dir).expanduser() / slug)
            rows: Iterable[CaptionRow] = benchmark_rows(
                slug, config or None, split=split or None, data_dir=data_dir, image_dir=settings.image_dir
            )
        else:
            rows = file_rows(
                Path(self.spec).expanduser(),
                images=settings.image_dir,
                language=settings.language,
                image_column=settings.image_column,
                candidate_column=settings.candidate_column,
                language_column=settings.language_column,
            )
        yield from self.counted(rows)


def data_digests(settings: Settings) -> dict[str, str]:
    """Digest of each file of the data; a benchmark's files have none here.

    Raises:
        InputError: a file cannot be read.
    """
    digests = {}
    for spec in settings.data:
        path = Path(spec).expanduser()
        if spec.startswith(_BENCHMARK) or path.is_dir():
            continue
        digest = xxhash.xxh3_128()
        try:
            with open(path, "rb") as file:
                while block := file.read(2**20):
                    digest.update(block)
        except OSError as error:
            raise InputError(f"{spec} cannot be read: {error.strerror or error}", field="data") from None
        digests[spec] = digest.hexdigest()
    return digests


def _chained(sources: Sequence[_Source]) -> Iterator[CaptionRow]:
    for source in sources:
        yield from source.rows()


def _identity(
    settings: Settings, backbone: Backbone, captions: Captions, split: Split, batches: TripleBatches
) -> dict[str, Any]:
    """What makes a run what it is besides the loop's settings."""
    digest = xxhash.xxh3_128()
    for row in split.training.tolist():
        key = captions.keys[captions.image[row]]
        digest.update(
            repr((key, captions.texts[row], captions.languages[row], captions.objects[row])).encode()
        )
    return {
        **own_settings(settings, _NO_IDENTITY),
        "base_fingerprint": backbone.fingerprint,
        "training_data": digest.hexdigest(),
        "nouns": batches.noun_finders,
    }


def _say(captions: Captions, split: Split, check: RobustnessCheck | None) -> None:
    parts = [
        f"{counted(len(split.training), 'caption')} to train on",
        f"{len(split.validation):,} for validation" + (f", {check.n:,} of them measured" if check else ""),
        counted(len(captions.keys), "image")
        + (f", {captions.n_stand_ins:,} of them texts that stand in" if captions.n_stand_ins else ""),
    ]
    if split.n_held_out:
        parts.append(f"{split.n_held_out:,} held out by the list")
    if split.n_left_out:
        parts.append(f"{split.n_left_out:,} left out: they share an image with few-shot training")
    print("; ".join(parts), file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------ saving


def _save(
    settings: Settings,
    backbone: Backbone,
    captions: Captions,
    split: Split,
    batches: TripleBatches,
    sources: Sequence[_Source],
    trained: Trained,
    check: RobustnessCheck | None,
    command: str,
) -> None:
    languages = sorted({captions.languages[row] for row in split.training.tolist()})
    out = trained.folder
    numbers = {"this": trained.evaluation, "base": trained.base}
    tuned.save_tuned(
        backbone,
        out,
        base=load_backbone(settings.base, device="cpu", dtype="float32"),
        base_spec=settings.base,
        recipe="pr_mcs",
        languages=languages,
        notes={
            "loss": asdict(settings.weights),
            "noise": asdict(settings.noise),
            "validation": finite(numbers),
        },
        dtype=settings.stored_dtype,
    )
    own = {name: value for name, value in asdict(settings).items() if name not in ("out", "name")}
    write_text(out / "settings.yaml", as_yaml(asdict(settings)), "settings")
    command = command or "python -m training.pr_mcs --config settings.yaml"
    card = ModelCard(
        name=settings.name or out.resolve().name,
        recipe="pr_mcs",
        base=settings.base,
        languages=languages,
        license=settings.license,
        command=command,
        settings={**own, "logit_scale": _scale(settings, backbone), "nouns": batches.noun_finders},
        data=[part for source in sources for part in source.described()],
        held_out=held_out(split, sources, "images"),
        results=_results(trained, check, command),
        not_measured=["Agreement with human ratings."],
        limitations=[
            f"{captions.n_stand_ins:,} of the {len(captions.keys):,} images were not to be had: another "
            "caption of the photo stood in for it, through the base's own text tower."
        ]
        if captions.n_stand_ins
        else [],
        compute=machine_and_time(trained.run),
    )
    write_card(out, card)
    summary = {
        "step": trained.run.step,
        "n_training": trained.n_training,
        "n_validation": trained.n_validation,
        "data": data_digests(settings),
        **finite(numbers),
    }
    write_text(out / RESULT, json.dumps(summary, indent=2, ensure_ascii=False) + "\n", "result")


def _results(trained: Trained, check: RobustnessCheck | None, command: str) -> list[Result]:
    if check is None:
        return [Result("validation split", "drop_average", None)]
    return results(trained.evaluation, trained.base, command, check.n, no_shares=("original",))


def _scale(settings: Settings, backbone: Backbone) -> float:
    return backbone.logit_scale if settings.logit_scale is None else settings.logit_scale


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    settings = parse(Settings, arguments, "Fine-tune a text tower for PR-MCS.")
    train_and_say(lambda: train(settings, command=f"python -m training.pr_mcs {shlex.join(arguments)}"))


if __name__ == "__main__":
    run_as_command(main)
