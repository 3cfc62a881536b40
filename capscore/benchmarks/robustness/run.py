"""Perturbs and scores captions: captions and metrics in, drops, retrieval and published figures out.

A text that replaces a photo is embedded by the plain backbone, from which the metric's was fine-tuned:
scores of a tuned tower and of its base are comparable only if both look at the same thing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ... import __version__
from ...backbones import find as find_backbone
from ...backbones.checkpoint import cached_snapshot, read_json
from ...errors import CapscoreError, InputError, MissingExtraError
from ...metrics.signature import format_signature
from ...metrics.with_backbone import row_cosines
from ...options import Sampling
from ...perturbations import KINDS, P, Perturbed, all_kinds, check_draws, chosen_kinds, perturb
from ..protocols.recall import retrieval
from ..protocols.results import ProtocolResult, Statistic, counted, estimates
from ..published import Published, find
from ..reading import collected_warnings
from ..results import MetricResult
from .captions import CaptionSet

if TYPE_CHECKING:
    from ...embedding.embedder import Embedder
    from ...metrics.with_backbone import BackboneScorer

KS = (1, 5, 10)
# benchmarks whose captions papers report under another name
_PUBLISHED_AS = {"flickr8k_human": "flickr8k"}
# captions of one version (perturbed, in another style), and the row of the set that each is made of
Version = tuple[Sequence[str], Sequence[int]]
T = TypeVar("T")


@dataclass(frozen=True)
class RobustnessOptions:
    """How captions are perturbed, and how scores become numbers.

    Args:
        kinds: Names of perturbations, or of sets: "paper", "unseen", "all".
        p: Probability with which a word is drawn.
        order: Order of the objects in a substitution: "published", any order that differs, or "every", an
            order in which every object moves.
        sampling: Draws of photos for the intervals of the drops; its seed is the one of all random draws.

    Raises:
        InputError: a value is not allowed; the message says what is expected.

    >>> RobustnessOptions(kinds=("jumble",), sampling=Sampling(bootstrap=200)).p
    0.4
    """

    kinds: tuple[str, ...] = ("paper",)
    p: float = P
    order: str = "published"
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self) -> None:
        chosen = chosen_kinds(self.kinds)
        object.__setattr__(self, "kinds", tuple(kind for kind in all_kinds() if kind in chosen))
        check_draws(self.p, self.sampling.seed, self.order)

    def to_dict(self) -> dict[str, Any]:
        """All options by name, ready for JSON."""
        drawn = {"seed": self.sampling.seed, "bootstrap": self.sampling.bootstrap}
        return {"kinds": list(self.kinds), "p": self.p, "order": self.order, **drawn}


@dataclass(frozen=True)
class RobustnessRun:
    """A set of captions and what it says about every metric.

    Attributes:
        captions: Captions that were scored.
        options: How they were perturbed and counted.
        images: "photos", or "stand-in" if texts replace them.
        unchanged: Kind → number of captions that it left unchanged.
        not_found: Number of critical objects that are not in their captions.
        results: One result per metric, with the statistics "mean_original"; "mean_<kind>", "drop_<kind>" and
            their plain means "mean_average" and "drop_average" over the published kinds,
            "mean_average_unseen" and "drop_average_unseen" over the others; "original_of_first", the original
            mean as a share of the first metric's; "text_to_image_r@<k>", the share of captions that find
            their photo. Its scores are those of the original captions.
        skipped: Kind → why the captions could not be perturbed this way.
        notes: Remarks that a reader needs.
    """

    captions: CaptionSet
    options: RobustnessOptions
    images: str
    unchanged: dict[str, int]
    not_found: int
    results: list[MetricResult]
    skipped: dict[str, str]
    notes: tuple[str, ...]

    @property
    def language(self) -> str:
        """Language of the captions."""
        return self.captions.language

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            **self.captions.names(),
            "split": self.captions.split,
            "capscore_version": __version__,
            "files": self.captions.files,
            "n_photos": len(set(self.captions.image_ids)),
            "images": self.images,
            "options": self.options.to_dict(),
            "unchanged": self.unchanged,
            "objects_not_found": self.not_found,
            "results": [result.to_dict() for result in self.results],
            "skipped": self.skipped,
            "notes": list(self.notes),
        }


def check_metric(name: str, scorer: Any) -> None:
    """Check that a metric, or its class, looks at the photo and at nothing else; an InputError otherwise."""
    if scorer.needs_references or not scorer.needs_images:
        raise InputError(
            f"{name} compares captions with references; robustness is measured for metrics that look at the "
            "photo alone: mcs, pr_mcs, clip_score",
            field="metric",
        )


def run_robustness(
    captions: CaptionSet,
    scorers: Mapping[str, BackboneScorer],
    options: RobustnessOptions | None = None,
    *,
    plain_embedders: Mapping[str, Embedder] | None = None,
) -> RobustnessRun:
    """Score original and perturbed captions against their photos, or against texts in place of photos.

    Args:
        captions: n captions of one language.
        scorers: Name → metric that looks at photos and needs no references.
        options: How captions are perturbed; None takes the published perturbations.
        plain_embedders: Name → embedder of the texts that replace photos, for captions that have such
            texts.

    Raises:
        CapscoreError: no captions, a metric of another kind, no perturbation that fits the captions.
        ImageError: a photo that cannot be read.

    >>> sets = benchmark_captions("multi30k", "de", data_dir="multi30k")           # doctest: +SKIP
    >>> run = run_robustness(sets[0], {"mcs": capscore.load("mcs")})                # doctest: +SKIP
    >>> run.results[0].value("drop_average")                                        # doctest: +SKIP
    -0.0523…
    """
    options = options or RobustnessOptions()
    if not len(captions):
        raise InputError(f"{captions.data} ({captions.language}): there are no captions", field="captions")
    for name, scorer in scorers.items():
        check_metric(name, scorer)
    perturbed, skipped = perturbed_captions(captions, options)
    if not perturbed:
        raise CapscoreError("; ".join(dict.fromkeys(skipped.values())))
    results: list[MetricResult] = []
    for name, scorer in scorers.items():
        embedder = None if plain_embedders is None else plain_embedders[name]
        first = results[0].value("mean_original") if results else None
        results.append(_measure(name, scorer, captions, perturbed, options, embedder, first))
    notes = list(captions.notes)
    if captions.stand_ins is not None:
        notes.append("no photo was opened: an English caption, embedded by the plain tower, replaces it")
    if options.order == "every" and "substitution" in perturbed:
        notes.append("substitution: every object moves, which is stronger than as published")
    not_found = sum(int(part.not_found.sum()) for part in perturbed.values())
    if not_found:
        notes.append(f"{counted(not_found, 'critical object')} not found in their captions, and left there")
    return RobustnessRun(
        captions=captions,
        options=options,
        images="photos" if captions.stand_ins is None else "stand-in",
        unchanged={kind: int(part.unchanged.sum()) for kind, part in perturbed.items()},
        not_found=not_found,
        results=results,
        skipped=skipped,
        notes=tuple(notes),
    )


def perturbed_captions(
    captions: CaptionSet, options: RobustnessOptions
) -> tuple[dict[str, Perturbed], dict[str, str]]:
    """The captions under each perturbation; and kind → why their language does not allow it."""
    how: dict[str, Any] = {"p": options.p, "seed": options.sampling.seed, "order": options.order}

    def perturbed(kind: str) -> Perturbed:
        objects = captions.objects if kind == "substitution" else None
        return perturb(captions.captions, kind, captions.language, objects=objects, **how)

    return made_or_skipped(options.kinds, perturbed)


def made_or_skipped(names: Iterable[str], make: Callable[[str], T]) -> tuple[dict[str, T], dict[str, str]]:
    """What is made for each name; and name → why the captions' language does not allow it."""
    made: dict[str, T] = {}
    skipped: dict[str, str] = {}
    for name in names:
        try:
            made[name] = make(name)
        except (MissingExtraError, InputError) as error:
            if getattr(error, "row", None) is not None:  # the fault is in a caption, not in the language
                raise
            skipped[name] = error.message if isinstance(error, InputError) else str(error)
    return made, skipped


def _measure(
    name: str,
    scorer: BackboneScorer,
    captions: CaptionSet,
    perturbed: Mapping[str, Perturbed],
    options: RobustnessOptions,
    embedder: Embedder | None,
    first: float | None,
) -> MetricResult:
    start, n = time.perf_counter(), len(captions)
    versions = {kind: part.captions for kind, part in perturbed.items()}
    with collected_warnings() as said:
        by_kind, settings = score_versions(
            scorer,
            captions,
            {kind: (texts, range(n)) for kind, texts in {"": captions.captions, **versions}.items()},
            embedder,
        )
    scores = by_kind.pop("")
    original = float(scores.mean())
    means_and_drops, notes = _means_and_drops(scores, by_kind, captions.image_ids, options)
    share = 1.0 if first is None and original else original / first if first else None
    statistics = [
        Statistic("mean_original", original, None, n),
        *means_and_drops,
        Statistic("original_of_first", share, None, n),
        *_retrieval(scorer, captions, embedder),
    ]
    for kind, part in perturbed.items():
        if n_unchanged := int(part.unchanged.sum()):
            notes.append(f"{kind}: left {n_unchanged:,} of {counted(n, 'caption')} unchanged; counted")
    notes += [] if original else ["the mean of the original captions is 0, so the drop is undefined"]
    return MetricResult(
        metric=name,
        backbone=scorer.backbone.name,
        signature=format_signature(scorer.metric, {**settings, **_perturbation_settings(perturbed)}),
        outcome=ProtocolResult(tuple(statistics), {}, tuple(notes)),
        n_rows=n,
        n_queries=n,
        seconds=time.perf_counter() - start,
        warnings=tuple(said),
        published=_published(captions, name.partition("@")[0]),
        scores=scores,
    )


def _perturbation_settings(perturbed: Mapping[str, Perturbed]) -> dict[str, object]:
    """Settings that the perturbed captions depend on; those that several kinds share appear once."""
    settings: dict[str, object] = {"kinds": "+".join(perturbed)}
    for kind, part in perturbed.items():
        for key, value in part.settings.items():
            if settings.setdefault(key, value) != value:
                settings[f"{kind}-{key}"] = value
    return settings


def _means_and_drops(
    original: np.ndarray,
    perturbed: Mapping[str, np.ndarray],
    photos: Sequence[str],
    options: RobustnessOptions,
) -> tuple[list[Statistic], list[str]]:
    """Mean and drop under each kind, and their plain means over the published and over the other kinds.

    Drops have intervals: photos are drawn with all their original and perturbed captions.
    """
    index = {name: number for number, name in enumerate(dict.fromkeys(photos))}
    unit = np.array([index[name] for name in photos])
    before, *rest = (np.bincount(unit, weights=column) for column in (original, *perturbed.values()))
    after = np.stack(rest)
    published = np.array([kind in KINDS for kind in perturbed])
    groups = {"average": published, "average_unseen": ~published}
    groups = {name: group for name, group in groups.items() if group.any()}

    def drops(drawn: np.ndarray) -> np.ndarray:
        base = before @ drawn
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(base > 0, (after @ drawn) / base - 1, np.nan)
        return np.vstack([found, *(found[group].mean(axis=0) for group in groups.values())])

    n, names = len(original), [*perturbed, *groups]
    size = {"n_units": len(index), "n_rows": len(perturbed) * len(index)}
    of_drops = [f"drop_{name}" for name in names]
    found, notes = estimates(drops, of_drops, unit="image", sampling=options.sampling, **size)
    means = np.array([column.mean() for column in perturbed.values()])
    of_names = [*means.tolist(), *(float(means[group].mean()) for group in groups.values())]
    counts = [n] * len(perturbed) + [n * int(group.sum()) for group in groups.values()]
    statistics = []
    for name, mean, count in zip(names, of_names, counts, strict=True):
        statistics.append(Statistic(f"mean_{name}", mean, None, count))
        statistics.append(Statistic(f"drop_{name}", *found[f"drop_{name}"], count))
    return statistics, notes


def _retrieval(scorer: BackboneScorer, captions: CaptionSet, embedder: Embedder | None) -> list[Statistic]:
    """How often an original caption finds its photo among all photos of the set; None of a single photo, and
    of a metric without embeddings.
    """
    first: dict[str, int] = {}
    for row, name in enumerate(captions.image_ids):
        first.setdefault(name, row)
    found: Mapping[int, float | None] = dict.fromkeys(KS)
    if len(first) > 1 and scorer.embedder is not None:
        if captions.stand_ins is None:
            photos = scorer.embedder.images([captions.images[row] for row in first.values()])
        else:
            assert embedder is not None
            stand_ins = [captions.stand_ins[row] for row in first.values()]
            photos = embedder.texts(stand_ins, prefix=embedder.backbone.prefix)
        texts = scorer.embedder.texts(captions.captions, prefix=scorer.prefix)
        index = {name: number for number, name in enumerate(first)}
        found = retrieval(
            image_embeddings=photos.matrix[photos.index],
            text_embeddings=texts.matrix[texts.index],
            text_to_image=[index[name] for name in captions.image_ids],
            ks=KS,
        ).details["text_to_image"]["at"]
    return [Statistic(f"text_to_image_r@{k}", found[k], None, len(captions)) for k in KS]


def _published(captions: CaptionSet, metric: str) -> dict[str, list[Published]]:
    """Statistic → published figures of the metric, with its own towers, on these captions of a benchmark."""
    found: dict[str, list[Published]] = {}
    if captions.split:
        benchmark = _PUBLISHED_AS.get(captions.data, captions.data)
        for figure in find(benchmark, None, metric, language=captions.language):
            is_drop = figure.statistic.startswith(("drop_", "mean_"))
            if is_drop and not figure.setting and not figure.backbone:
                found.setdefault(figure.statistic, []).append(figure)
    return found


# ---- scores against photos, or against texts that stand for these ----


def score_versions(
    scorer: BackboneScorer,
    captions: CaptionSet,
    versions: Mapping[str, Version],
    embedder: Embedder | None,
) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """Scores (m,) of each version's m texts, each with the photo of its row or its stand-in; settings.

    `embedder` embeds the texts that replace photos.
    """
    texts = [text for part, _ in versions.values() for text in part]
    rows = [row for _, part in versions.values() for row in part]
    if captions.stand_ins is None:
        images = [captions.images[row] for row in rows]
        measured = scorer.score(texts, images, language=captions.language)
        scores, settings = measured.scores, {**measured.settings, "images": "photos"}
    else:
        assert embedder is not None
        stand_ins = [captions.stand_ins[row] for row in rows]
        scores, settings = _against_stand_ins(scorer, texts, stand_ins, captions.language, embedder)
    cuts = np.cumsum([len(part) for part, _ in versions.values()])[:-1]
    return dict(zip(versions, np.split(scores, cuts), strict=True)), settings


def _against_stand_ins(
    scorer: BackboneScorer, texts: Sequence[str], stand_ins: Sequence[str], language: str, embedder: Embedder
) -> tuple[np.ndarray, dict[str, object]]:
    """A metric's scores (n,) with cosines to n texts in place of those to the photos; the settings."""
    scorer.warn_about_languages([language])
    embedded, is_long = scorer.texts(texts)
    scorer.warn_about_truncation(embedded.truncated[embedded.index])
    tower = embedder.backbone
    photos = embedder.texts(stand_ins, prefix=tower.prefix)
    if tower.dim != scorer.backbone.dim:
        raise CapscoreError(
            f"{scorer.backbone.name} has embeddings of {scorer.backbone.dim} numbers, and {tower.name}, "
            f"which embeds the texts that replace photos, has embeddings of {tower.dim}"
        )
    cosines = row_cosines(embedded.matrix, embedded.index, photos.matrix, photos.index)
    scores, _ = scorer.combine({"image_cosine": cosines})
    long = {"long": scorer.long} if is_long.any() else {}
    first = {**scorer.first_settings, **long, "refs": 0, "lang": language}
    last = {key: value for key, value in scorer.last_settings.items() if key != "exif"}
    return scores, {**first, **last, "images": f"stand-in,{tower.name}@{tower.revision}"}


def plain_backbone(spec: str) -> str:
    """The backbone at the start of a chain of fine-tuning; the backbone itself if it was not fine-tuned.

    Args:
        spec: Backbone as in `capscore.load_backbone`; one from the Hub must have been loaded before.

    Raises:
        BackboneUnavailable: the folder of a fine-tuned backbone is damaged.

    >>> plain_backbone("embedded-pr-mcs"), plain_backbone("embedded")
    ('embedded', 'embedded')
    """
    seen: set[str] = set()
    while spec not in seen:
        seen.add(spec)
        spec = _base(spec) or spec
    return spec


def _base(spec: str) -> str:
    """The backbone that a backbone was fine-tuned from, or ""."""
    from ...backbones.tuned import MARKER

    known = find_backbone(spec)
    if known is not None:
        return known.base
    folder: Path | None = Path(spec).expanduser()
    if folder is not None and not folder.is_dir():
        repository, _, revision = spec.partition("@")
        folder = cached_snapshot(repository, revision)
    if folder is None or not (folder / MARKER).is_file():
        return ""
    return str(read_json(folder / MARKER)["base"])
