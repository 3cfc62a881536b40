"""Perturbs and scores captions: captions with their photos and metrics in, drops and false alarms out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ...errors import CapscoreError, InputError, MissingExtraError
from ...metrics.base import Scorer
from ...metrics.loading import ScorerLoader
from ...metrics.mcs import MCS
from ...metrics.rows import format_signature
from ...options import LoadOptions, RowOptions, Sampling, split_options
from ...perturbations import KINDS, Perturbed, perturb
from ...perturbations.by_degree import DEGREES, DegreePerturbed, by_degree
from ...perturbations.by_degree import RULES as DEGREE_RULES
from ...perturbations.styles import RULES as STYLE_RULES
from ...perturbations.styles import STYLES, restyle
from ...registry import BENCHMARKS
from ...statistics.correlation import spearman
from ...tables import counted
from ..protocols.recall import retrieval
from ..protocols.results import ProtocolResult, Statistic, estimates
from ..published import Published, find
from ..reading import collected_warnings, configurations
from ..results import MetricResult
from ..run import Measurable, NamedMetric, backbone_name, named_metrics
from .captions import CaptionSet, benchmark_captions, file_captions
from .results import Numbers, Robustness, RobustnessOptions, SetResult, Versions

KS = (1, 5, 10)
# benchmarks whose captions papers report under another name
_PUBLISHED_AS = {"flickr8k_human": "flickr8k"}
# captions of one version (perturbed, in another style), and the row of the set that each is made of
Version = tuple[Sequence[str], Sequence[int]]
T = TypeVar("T")


def robustness(
    captions: str | Path | Sequence[str] | Sequence[CaptionSet],
    metrics: str | Sequence[str] | Mapping[str, Measurable | None],
    *,
    config: str | Sequence[str] = (),
    data_dir: str | Path | None = None,
    **options: Any,
) -> Robustness:
    """Measure how far the score of a true caption falls once the caption is perturbed.

    Drops are those of Kim et al. 2023 (PR-MCS), per language, with intervals over photos, the mean score of
    the unchanged captions, and how often they retrieve their photo.

    Args:
        captions: Names of benchmarks; or a file with captions, photos and languages; or sets of captions.
        metrics: Names of metrics that look at the photo alone, also METRIC@BACKBONE, or name → scorer.
        config: Configurations of the benchmarks, or "all"; () takes each benchmark's default.
        data_dir: Folder of a benchmark's official files; of several benchmarks, of a folder for each.
        **options: How rows are read (`capscore.options.RowOptions`: columns of a file, split, images, …),
            captions perturbed and counted (`benchmarks.robustness.RobustnessOptions`: kinds, styles, degrees,
            …), intervals drawn (`Sampling`) and metrics loaded (`capscore.load`).

    Raises:
        InputError: a metric of another kind, a file or option that does not fit; names file and row.
        CapscoreError: an unknown name, no captions, photos that are missing, or no perturbation that fits.
        ImageError: a photo that cannot be read.

    >>> import capscore
    >>> found = capscore.robustness("multi30k", ["mcs@embedded", "pr_mcs"], config="de",
    ...                             data_dir="multi30k")                                # doctest: +SKIP
    >>> print(found)                                                                    # doctest: +SKIP
    >>> found.sets[0].results[1].value("drop_average")                                  # doctest: +SKIP
    -0.5023…
    """
    rows, load, sampling, noise = split_options(options, RowOptions, LoadOptions, Sampling, RobustnessOptions)
    if "sampling" not in options:
        noise = replace(noise, sampling=sampling)
    loader = ScorerLoader(load.arguments())
    named = photo_metrics(metrics, load, loader)
    sets = _caption_sets(captions, config, data_dir, rows, noise)
    scorers = {metric.name: metric.make() for metric in named}
    against = {}
    if noise.styles:
        against = {name: _plain_metric(scorer, loader) for name, scorer in scorers.items()}
    return Robustness([measure(part, scorers, noise, against) for part in sets])


def photo_metrics(
    metrics: str | Sequence[str] | Mapping[str, Measurable | None],
    load: LoadOptions,
    loader: ScorerLoader | None = None,
) -> list[NamedMetric]:
    """Metrics by name, each of which looks at the photo and at nothing else."""
    named, files = named_metrics(metrics, load, loader)
    if not named:
        raise InputError("there is nothing to measure: name a metric", field="metric")
    for name, kind, *_ in named:
        if kind.needs_references or not kind.needs_images:
            raise InputError(
                f"{name} compares captions with references; robustness is measured for metrics that look at "
                "the photo alone: mcs, pr_mcs, clip_score",
                field="metric",
            )
    for name in (*files, *(metric.name for metric in named if metric.component)):
        raise InputError(f"{name}: robustness is measured of the scores of a metric", field="metric")
    return named


def _plain_metric(scorer: Any, loader: ScorerLoader) -> tuple[str, Scorer]:
    """MCS on the backbone from which a metric's own was fine-tuned, or on its own, and its name."""
    if scorer.embedder is None:
        raise InputError(f"{scorer.metric} has no embeddings; styles are counted against MCS on its backbone")
    base = scorer.backbone.tuned_from
    if base:
        return f"{MCS.metric}@{base}", loader(MCS.metric, base)
    return f"{MCS.metric}@{scorer.backbone.name}", MCS(scorer.embedder)


def _caption_sets(
    captions: str | Path | Sequence[str] | Sequence[CaptionSet],
    config: str | Sequence[str],
    data_dir: str | Path | None,
    rows: RowOptions,
    options: RobustnessOptions,
) -> list[CaptionSet]:
    names: list[str] = []
    sets: list[CaptionSet] = []
    if isinstance(captions, str) and BENCHMARKS.find(captions) is not None:
        names = [captions]
    elif isinstance(captions, (str, Path)):
        sets = file_captions(captions, rows, partial=options.partial)
    else:
        for given in captions:
            if isinstance(given, CaptionSet):
                sets.append(given)
            else:
                names.append(given)
    configs = [config] if isinstance(config, str) else config
    for where in configurations(names, configs, data_dir):
        sets += benchmark_captions(where, rows, partial=options.partial)
    if options.sample is not None:
        sets = [part.sample(options.sample, options.sampling.seed) for part in sets]
    return sets


# ---- one set of captions ----


def measure(
    captions: CaptionSet,
    scorers: Mapping[str, Scorer],
    options: RobustnessOptions = RobustnessOptions(),
    against: Mapping[str, tuple[str, Scorer]] = {},
) -> SetResult:
    """Score captions as they are and perturbed; and in other styles, and by degree, as `options` say."""
    if not len(captions):
        raise InputError(f"{captions.title}: there are no captions", field="captions")
    perturbed, skipped = perturbed_captions(captions, options)
    if not perturbed:
        raise CapscoreError("; ".join(dict.fromkeys(skipped.values())))
    results: list[MetricResult] = []
    for name, scorer in scorers.items():
        first = results[0].value("mean_original") if results else None
        results.append(_result(name, scorer, captions, perturbed, options, first))
    notes = list(captions.notes)
    if options.order == "every" and "substitution" in perturbed:
        notes.append("substitution: every object moves, which is stronger than as published")
    not_found = sum(int(part.not_found.sum()) for part in perturbed.values())
    if not_found:
        notes.append(f"{counted(not_found, 'critical object')} not found in their captions, and left there")
    return SetResult(
        captions=captions,
        options=options,
        unchanged={kind: int(part.unchanged.sum()) for kind, part in perturbed.items()},
        not_found=not_found,
        results=results,
        skipped=skipped,
        notes=tuple(notes),
        styles=measure_styles(captions, scorers, against) if options.styles else None,
        degrees=measure_degrees(captions, scorers, options) if options.degrees else None,
    )


def perturbed_captions(
    captions: CaptionSet, options: RobustnessOptions
) -> tuple[dict[str, Perturbed], dict[str, str]]:
    """The captions under each perturbation; and kind → why their language does not allow it."""

    def perturbed(kind: str) -> Perturbed:
        return perturb(
            captions.captions,
            kind,
            captions.language,
            p=options.p,
            seed=options.sampling.seed,
            objects=captions.objects if kind == "substitution" else None,
            order=options.order,
        )

    return _made_or_skipped(options.kinds, perturbed)


def _made_or_skipped(names: Iterable[str], make: Callable[[str], T]) -> tuple[dict[str, T], dict[str, str]]:
    """What is made for each name; and name → why the captions' language does not allow it."""
    made: dict[str, T] = {}
    skipped: dict[str, str] = {}
    for name in names:
        try:
            made[name] = make(name)
        except MissingExtraError as error:
            skipped[name] = str(error)
        except InputError as error:
            if error.row is not None:  # the fault is in a caption, not in the language
                raise
            skipped[name] = error.message
    return made, skipped


def _scores(
    scorer: Scorer, captions: CaptionSet, versions: Mapping[str, Version]
) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """Scores (m,) of each version's m texts, each with the photo of its row; settings for the signature."""
    texts: list[str] = []
    rows: list[int] = []
    for some, of_rows in versions.values():
        texts += some
        rows += of_rows
    images = [captions.images[row] for row in rows]
    measured = scorer.score(texts, images, language=captions.language)
    cuts = np.cumsum([len(part) for part, _ in versions.values()])[:-1]
    scores = dict(zip(versions, np.split(measured.scores, cuts), strict=True))
    return scores, {**measured.settings, "images": "photos"}


def _result(
    name: str,
    scorer: Scorer,
    captions: CaptionSet,
    perturbed: Mapping[str, Perturbed],
    options: RobustnessOptions,
    first: float | None,
) -> MetricResult:
    """Means, drops and retrieval of a metric; `first` is the original mean of the first one, if another."""
    start, n = time.perf_counter(), len(captions)
    versions: dict[str, Version] = {"": (captions.captions, range(n))}
    for kind, part in perturbed.items():
        versions[kind] = part.captions, range(n)
    with collected_warnings() as said:
        by_kind, settings = _scores(scorer, captions, versions)
    scores = by_kind.pop("")
    original = float(scores.mean())
    statistics, notes = _means_and_drops(scores, by_kind, captions.image_ids, options)
    if first is None:
        first = original
    share = original / first if first > 0 else None
    statistics = [Statistic("mean_original", original, None, n), *statistics]
    statistics += [Statistic("original_of_first", share, None, n), *_retrieval(scorer, captions)]
    for kind, part in perturbed.items():
        if n_unchanged := int(part.unchanged.sum()):
            notes.append(f"{kind}: left {n_unchanged:,} of {counted(n, 'caption')} unchanged; counted")
    if original <= 0:
        notes.append(f"the mean of the original captions is {original:.4g}, so the drop is undefined")
    return MetricResult(
        metric=name,
        backbone=backbone_name(scorer),
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
    """Mean and drop under each kind, and their plain means over the published and over the other kinds."""
    index = {name: number for number, name in enumerate(dict.fromkeys(photos))}
    unit = np.array([index[name] for name in photos])
    before = np.bincount(unit, weights=original)
    after = np.stack([np.bincount(unit, weights=column) for column in perturbed.values()])
    published = np.array([kind in KINDS for kind in perturbed])
    groups = {"average": published, "average_unseen": ~published}
    groups = {name: group for name, group in groups.items() if group.any()}

    def drops(drawn: np.ndarray) -> np.ndarray:
        base = before @ drawn
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(base > 0, (after @ drawn) / base - 1, np.nan)
        return np.vstack([found, *(found[group].mean(axis=0) for group in groups.values())])

    n, means = len(original), {name: float(column.mean()) for name, column in perturbed.items()}
    counts = dict.fromkeys(perturbed, n)
    every = np.array(list(means.values()))
    for name, group in groups.items():
        means[name], counts[name] = float(every[group].mean()), n * int(group.sum())
    size = {"n_units": len(index), "n_rows": len(perturbed) * len(index)}
    of_drops = [f"drop_{name}" for name in means]
    found, notes = estimates(drops, of_drops, unit="image", sampling=options.sampling, **size)
    statistics = []
    for name, mean in means.items():
        statistics.append(Statistic(f"mean_{name}", mean, None, counts[name]))
        statistics.append(Statistic(f"drop_{name}", *found[f"drop_{name}"], counts[name]))
    return statistics, notes


def _retrieval(scorer: Any, captions: CaptionSet) -> list[Statistic]:
    """How often an original caption finds its photo among all photos of the set; None of a single photo, and
    of a metric without embeddings.
    """
    first: dict[str, int] = {}
    for row, name in enumerate(captions.image_ids):
        first.setdefault(name, row)
    found: Mapping[int, float | None] = dict.fromkeys(KS)
    if len(first) > 1 and scorer.embedder is not None:
        photos = [captions.images[row] for row in first.values()]
        images, texts, settings = scorer.embed_to_retrieve(captions.captions, photos)
        index = {name: number for number, name in enumerate(first)}
        found = retrieval(
            image_embeddings=images,
            text_embeddings=texts,
            unit="long" not in settings,
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


# ---- right captions in other styles ----


def measure_styles(
    captions: CaptionSet, scorers: Mapping[str, Scorer], against: Mapping[str, tuple[str, Scorer]]
) -> Versions:
    """Score right captions in each style with metrics and with their plain metrics; as in `measure`."""
    restyled, skipped = _made_or_skipped(
        STYLES, lambda style: restyle(captions.captions, style, captions.language, photos=captions.image_ids)
    )
    versions = {style: (part.captions, part.rows) for style, part in restyled.items()}
    numbers = {}
    for name, (_, plain_scorer) in against.items():
        own, _ = _scores(scorers[name], captions, versions)
        other, _ = _scores(plain_scorer, captions, versions)
        numbers[name] = {style: alarms(own[style], other[style]) for style in versions}
    names = {name: other for name, (other, _) in against.items()}
    return Versions("styles", {"rules": STYLE_RULES}, numbers, skipped, names)


def alarms(scores: np.ndarray, plain_scores: np.ndarray) -> Numbers:
    """Scores of a metric and of the plain metric for the same captions → its false alarms.

    A right caption raises a false alarm if a metric gives it less than half of what the plain metric does.

    Returns:
        "n", the number of captions; "below_half", the share of them that scores below half of the plain
        metric; "kept", the mean score as a share of the plain metric's; both None if there are no captions;
        "not_scored", the number of captions left out because the plain metric gives them 0.
    """
    scored = plain_scores > 0
    own, other = scores[scored], plain_scores[scored]
    below_half = kept = None
    if len(own):
        below_half, kept = float((own < 0.5 * other).mean()), float(own.mean() / other.mean())
    return {"n": len(own), "below_half": below_half, "kept": kept, "not_scored": len(scored) - len(own)}


# ---- more and more noise ----


def measure_degrees(
    captions: CaptionSet, scorers: Mapping[str, Scorer], options: RobustnessOptions
) -> Versions:
    """Score captions as they are, and perturbed to each degree by the published kinds; as in `measure`."""
    seed = options.sampling.seed

    def perturbed(kind: str) -> list[DegreePerturbed]:
        objects = captions.objects if kind == "substitution" else None
        given: dict[str, Any] = {"seed": seed, "objects": objects}
        return [by_degree(captions.captions, kind, captions.language, degree=d, **given) for d in DEGREES]

    by_kind, skipped = _made_or_skipped([kind for kind in options.kinds if kind in KINDS], perturbed)
    every = range(len(captions))
    versions: dict[str, Version] = {"": (captions.captions, every)}
    for kind, parts in by_kind.items():
        for degree, part in zip(DEGREES, parts, strict=True):
            versions[f"{kind} {degree}"] = part.captions, every
    numbers: dict[str, dict[str, Numbers]] = {}
    for name, scorer in scorers.items():
        scores, _ = _scores(scorer, captions, versions)
        numbers[name] = {}
        for kind, parts in by_kind.items():
            after = [scores[f"{kind} {degree}"] for degree in DEGREES]
            numbers[name][kind] = curve(scores[""], after, [part.touched for part in parts])
    return Versions("kinds", {"rules": DEGREE_RULES, "seed": seed}, numbers, skipped)


def curve(
    original: np.ndarray,
    perturbed: Sequence[np.ndarray],
    touched: Sequence[np.ndarray],
    degrees: Sequence[float] = DEGREES,
) -> Numbers:
    """Scores (n,), at each degree scores (n,) and shares of words touched (n,) → how the score falls.

    Captions that are touched at no degree are left out; so are, of ρ over captions, those that score 0.

    Returns:
        "degrees"; "touched", the mean share of the words that was touched at each degree; "drops", the change
        of the mean score at each degree, −0.25 for a quarter, None where it is undefined; "n", the number of
        captions that the kind can change; "of_means", Spearman's ρ of the mean fall and the mean share over
        the degrees, where values that are equal to a tenth of a percent count as equal; "of_captions",
        Spearman's ρ of the fall and the share over all captions at all degrees.
    """
    shares = np.stack([np.asarray(row, dtype=float) for row in touched])
    changed = shares.max(axis=0) > 0
    before, after, shares = original[changed], np.stack(perturbed)[:, changed], shares[:, changed]
    found: dict[str, Any] = {"degrees": list(degrees), "n": len(before)}
    found |= {"touched": [0.0] * len(degrees), "drops": [None] * len(degrees)}
    found |= {"of_means": None, "of_captions": None}
    if not len(before):
        return found
    means, scored = shares.mean(axis=1), before > 0
    found["touched"] = means.tolist()
    if scored.any():
        drops = after.mean(axis=1) / float(before.mean()) - 1
        found["drops"] = drops.tolist()
        falls = 1 - after[:, scored] / before[scored]
        # a score that is lost as a whole cannot fall further: what is left of it is rounding
        found["of_means"] = spearman(-np.round(drops, 3), np.round(means, 3))
        found["of_captions"] = spearman(falls.ravel(), shares[:, scored].ravel())
    return found
