"""Perturbs and scores captions: captions and metrics in, drops, retrieval and published figures out."""

from __future__ import annotations

import difflib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import __version__
from ...errors import CapscoreError, InputError, MissingExtraError, Setting
from ...metrics.backbone_scorer import row_cosines
from ...metrics.signature import format_signature
from ...perturbations import KINDS, ORDERS, REMOVALS, UNSEEN_KINDS, P, Perturbed, all_kinds, perturb
from ...statistics.bootstrap import (
    check_sampling,
    coarseness,
    multiplicities,
    percentile_interval,
    resample,
)
from ...statistics.plain_values import plain
from ..protocols.drop import PerturbationDrop, robustness_drop
from ..protocols.recall import retrieval
from ..protocols.results import ProtocolResult, Statistic, counted, ends
from ..run import heard
from .captions import CaptionSet

if TYPE_CHECKING:
    from ...embedding.embedder import Embedder
    from ...metrics.backbone_scorer import BackboneScorer
    from ..published import Published

KS = (1, 5, 10)


def chosen_kinds(names: Sequence[str]) -> tuple[str, ...]:
    """Perturbations, given by name or as sets, in the order of the tables, each once.

    Raises:
        InputError: an unknown name; the message suggests a similar one.

    >>> chosen_kinds(["typos", "paper"])
    ('repetition', 'removal', 'masking', 'jumble', 'substitution', 'typos')
    """
    sets = {"paper": KINDS, "unseen": UNSEEN_KINDS, "all": all_kinds()}
    chosen: set[str] = set()
    for name in names:
        if name in sets:
            chosen.update(sets[name])
        elif name in sets["all"]:
            chosen.add(name)
        else:
            close = difflib.get_close_matches(name.lower(), (*sets, *sets["all"]), n=1, cutoff=0.4)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(
                f"{name!r} is not a perturbation: one of {', '.join(sets['all'])}, or one of the sets "
                f"{', '.join(sets)}{hint}",
                field="kinds",
            )
    return tuple(kind for kind in sets["all"] if kind in chosen)


@dataclass(frozen=True)
class RobustnessOptions:
    """How captions are perturbed, and how scores become numbers.

    Args:
        kinds: Names of perturbations, or of sets: "paper", "unseen", "all".
        p: Probability with which a word is drawn.
        seed: Seed for the perturbations and the bootstrap.
        shared_draws: Whether repetition, removal and masking draw the same words, as published.
        removal: "keep" the drawn words, as published, or "drop" them.
        order: Order of the objects in a substitution: "published", any order that differs, or "every", an
            order in which every object moves.
        leave_out_unchanged: Whether captions that a perturbation leaves unchanged are left out of its means;
            False is as published.
        bootstrap: Number of draws of photos for the intervals of the drops; 0 gives none.
        confidence: Share of the draws inside an interval.

    Raises:
        InputError: a value is not allowed; the message says what is expected.

    >>> RobustnessOptions(kinds=("jumble",), bootstrap=200).p
    0.4
    """

    kinds: tuple[str, ...] = ("paper",)
    p: float = P
    seed: int = 0
    shared_draws: bool = True
    removal: str = "keep"
    order: str = "published"
    leave_out_unchanged: bool = False
    bootstrap: int = 1000
    confidence: float = 0.95

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", chosen_kinds(self.kinds))
        if isinstance(self.p, bool) or not isinstance(self.p, (int, float)) or not 0 <= self.p <= 1:
            raise InputError(Setting("p", self.p), ": expected a probability from 0 to 1", field="p")
        for name, known in (("removal", REMOVALS), ("order", ORDERS)):
            given = getattr(self, name)
            if given not in known:
                raise InputError(Setting(name, given), f": expected one of {', '.join(known)}", field=name)
        check_sampling(self.bootstrap, self.confidence, self.seed, field="bootstrap", least=0)

    @property
    def paper_kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind in self.kinds if kind in KINDS)

    @property
    def unseen_kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind in self.kinds if kind not in KINDS)


@dataclass(frozen=True)
class MetricRobustness:
    """What a set of captions says about one metric.

    Attributes:
        metric: Name of the metric, as given.
        backbone: Name of its backbone.
        signature: Everything the numbers depend on.
        original: Mean score of the original captions.
        original_of_first: The same as a share of the first metric's; None if that is 0.
        paper: Result for the published perturbations; None if none was measured.
        unseen: Kind → effect, for the other perturbations; never part of the published average.
        intervals: Statistic → ends of its bootstrap interval.
        retrieval: k → share of captions that find their photo among the best k; None for a single photo.
        published: Statistic → published figure for the same captions.
        notes: Remarks that a reader needs.
        warnings: Warnings given while scoring.
        seconds: Time that scoring took.
        scores: Scores of the original captions, (n,).
        perturbed_scores: Kind → scores of the perturbed captions, (n,).
    """

    metric: str
    backbone: str
    signature: str
    original: float
    original_of_first: float | None
    paper: ProtocolResult | None
    unseen: dict[str, PerturbationDrop]
    intervals: dict[str, tuple[float, float] | None]
    retrieval: dict[int, float | None]
    published: dict[str, Published]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    seconds: float
    scores: np.ndarray = field(repr=False)
    perturbed_scores: dict[str, np.ndarray] = field(repr=False)

    @property
    def parts(self) -> dict[str, PerturbationDrop]:
        """Kind → its effect, with the published kinds first."""
        return {**(self.paper.details["perturbations"] if self.paper else {}), **self.unseen}

    @property
    def unseen_average(self) -> float | None:
        """Plain mean of the drops under `unseen`; None if there are none or one is undefined."""
        drops = [part.drop for part in self.unseen.values()]
        return None if not drops or None in drops else float(np.mean(drops))  # type: ignore[arg-type]

    def statistics(self) -> list[Statistic]:
        """Means, drops and their averages, named as in `robustness_drop`.

        Averages over unpublished kinds are "mean_average_unseen" and "drop_average_unseen". At the end are
        "original_of_first" and "text_to_image_r@<k>".
        """
        n = len(self.scores)
        found = [Statistic("mean_original", self.original, None, n)]
        if self.paper is not None:
            found = list(self.paper.statistics)
        for name in ("perturbed", "drop"):
            prefix = {"perturbed": "mean", "drop": "drop"}[name]
            found += [
                Statistic(f"{prefix}_{kind}", getattr(part, name), None, part.n)
                for kind, part in self.unseen.items()
            ]
        if self.unseen:
            total = sum(part.n for part in self.unseen.values())
            means = [part.perturbed for part in self.unseen.values()]
            mean = None if None in means else float(np.mean(means))  # type: ignore[arg-type]
            found.append(Statistic("mean_average_unseen", mean, None, total))
            found.append(Statistic("drop_average_unseen", self.unseen_average, None, total))
        found.append(Statistic("original_of_first", self.original_of_first, None, n))
        found += [Statistic(f"text_to_image_r@{k}", value, None, n) for k, value in self.retrieval.items()]
        return [each._replace(interval=self.intervals.get(each.name)) for each in found]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "metric": self.metric,
            "backbone": self.backbone,
            "signature": self.signature,
            "statistics": [
                {
                    "name": each.name,
                    "measured": each.value,
                    "interval": None if each.interval is None else list(each.interval),
                    "n": each.n,
                    "published": _published_entry(self.published.get(each.name)),
                }
                for each in self.statistics()
            ],
            "perturbations": plain(self.parts),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "seconds": round(self.seconds, 3),
        }


def _published_entry(figure: Published | None) -> dict[str, Any] | None:
    if figure is None:
        return None
    return {
        "value": figure.measured_unit,
        "metric": figure.metric,
        "kind": figure.kind,
        "source": figure.citation,
        "note": figure.note,
    }


@dataclass(frozen=True)
class RobustnessRun:
    """A set of captions and what it says about every metric.

    Attributes:
        captions: Captions that were scored.
        options: How they were perturbed and counted.
        images: "photos", or "stand-in" where texts stand for them.
        unchanged: Kind → number of captions that it left unchanged.
        not_found: Number of critical objects that are not in their captions.
        results: One result per metric; `original_of_first` compares with the first.
        skipped: Kind → why the captions could not be perturbed this way.
        notes: Remarks that a reader needs.
    """

    captions: CaptionSet
    options: RobustnessOptions
    images: str
    unchanged: dict[str, int]
    not_found: int
    results: list[MetricRobustness]
    skipped: dict[str, str]
    notes: tuple[str, ...]

    @property
    def data(self) -> str:
        return self.captions.data

    @property
    def language(self) -> str:
        return self.captions.language

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "data": self.captions.data,
            "config": self.captions.config,
            "split": self.captions.split,
            "language": self.captions.language,
            "capscore_version": __version__,
            "files": self.captions.files,
            "n_captions": len(self.captions),
            "n_photos": len(set(self.captions.image_ids)),
            "images": self.images,
            "options": plain(asdict(self.options)),
            "unchanged": self.unchanged,
            "objects_not_found": self.not_found,
            "results": [result.to_dict() for result in self.results],
            "skipped": self.skipped,
            "notes": list(self.notes),
        }


def run_robustness(
    captions: CaptionSet,
    scorers: Mapping[str, BackboneScorer],
    options: RobustnessOptions | None = None,
    *,
    plain_embedders: Mapping[str, Embedder] | None = None,
) -> RobustnessRun:
    """Score original and perturbed captions against their photos, or against texts that stand for these.

    Args:
        captions: n captions of one language.
        scorers: Name → metric that looks at photos and needs no references.
        options: How captions are perturbed; None takes the published perturbations.
        plain_embedders: Name → embedder of the texts that stand for photos, for captions that have such
            texts.

    Raises:
        CapscoreError: no captions, a metric of another kind, no perturbation that fits the captions.
        ImageError: a photo that cannot be read.

    >>> sets = benchmark_captions("multi30k", "de", data_dir="multi30k")           # doctest: +SKIP
    >>> run = run_robustness(sets[0], {"mcs": capscore.load("mcs")})                # doctest: +SKIP
    >>> run.results[0].paper.value("drop_average")                                  # doctest: +SKIP
    -0.0523…
    """
    options = options or RobustnessOptions()
    if not len(captions):
        raise InputError(f"{captions.data} ({captions.language}): there are no captions", field="captions")
    check_metrics(scorers)
    perturbed, skipped = perturbed_captions(captions, options)
    if not perturbed:
        raise CapscoreError("; ".join(dict.fromkeys(skipped.values())))
    stands_in = captions.stand_ins is not None
    results: list[MetricRobustness] = []
    for name, scorer in scorers.items():
        embedder = None if plain_embedders is None else plain_embedders[name]
        first = results[0].original if results else None
        results.append(_measure(name, scorer, captions, perturbed, options, embedder, first))
    notes = list(captions.notes)
    if stands_in:
        notes.append("no photo was opened: an English caption, embedded by the plain tower, stands for it")
    if options.order == "every" and "substitution" in perturbed:
        notes.append("substitution: every object moves, which is stronger than as published")
    not_found = sum(int(part.not_found.sum()) for part in perturbed.values())
    if not_found:
        notes.append(f"{counted(not_found, 'critical object')} not found in their captions, and left there")
    return RobustnessRun(
        captions=captions,
        options=options,
        images="stand-in" if stands_in else "photos",
        unchanged={kind: int(part.unchanged.sum()) for kind, part in perturbed.items()},
        not_found=not_found,
        results=results,
        skipped=skipped,
        notes=tuple(notes),
    )


def check_metrics(scorers: Mapping[str, Any]) -> None:
    """Check that metrics, or their classes, look at the photo and at nothing else.

    Raises:
        InputError: one compares with references, or opens no photo.
    """
    for name, scorer in scorers.items():
        if scorer.needs_references or not scorer.needs_images:
            raise InputError(
                f"{name} compares captions with references; robustness is measured for metrics that look at "
                "the photo alone: mcs, pr_mcs, clip_score",
                field="metric",
            )


def perturbed_captions(
    captions: CaptionSet, options: RobustnessOptions
) -> tuple[dict[str, Perturbed], dict[str, str]]:
    """The captions under each perturbation; and kind → why their language does not allow it."""
    found: dict[str, Perturbed] = {}
    skipped: dict[str, str] = {}
    for kind in options.kinds:
        try:
            found[kind] = perturb(
                captions.captions,
                kind,
                captions.language,
                p=options.p,
                seed=options.seed,
                objects=captions.objects if kind == "substitution" else None,
                shared_draws=options.shared_draws,
                removal=options.removal,
                order=options.order,
            )
        except MissingExtraError as error:
            skipped[kind] = str(error)
        except InputError as error:
            if error.row is not None:  # the fault is in a caption, not in the language
                raise
            skipped[kind] = error.message
    return found, skipped


def _measure(
    name: str,
    scorer: BackboneScorer,
    captions: CaptionSet,
    perturbed: Mapping[str, Perturbed],
    options: RobustnessOptions,
    embedder: Embedder | None,
    first: float | None,
) -> MetricRobustness:
    start = time.perf_counter()
    texts = [*captions.captions, *(text for part in perturbed.values() for text in part.captions)]
    with heard() as said:
        if captions.stand_ins is None:
            values, settings = _against_photos(scorer, captions, texts)
        else:
            assert embedder is not None
            repeated = captions.stand_ins * (1 + len(perturbed))
            values, settings = against_stand_ins(scorer, texts, repeated, captions.language, embedder)
    scores = values.reshape(1 + len(perturbed), len(captions))
    by_kind = dict(zip(perturbed, scores[1:], strict=True))
    unchanged = {kind: part.unchanged for kind, part in perturbed.items()}
    paper = None
    if any(kind in KINDS for kind in perturbed):
        paper = robustness_drop(
            scores[0],
            {kind: column for kind, column in by_kind.items() if kind in KINDS},
            unchanged={kind: column for kind, column in unchanged.items() if kind in KINDS},
            leave_out_unchanged=options.leave_out_unchanged,
        )
    unseen = {
        kind: _drop(scores[0], by_kind[kind], unchanged[kind], options.leave_out_unchanged)
        for kind in perturbed
        if kind not in KINDS
    }
    original = float(scores[0].mean())
    notes = list(paper.notes) if paper else []
    notes += [
        f"{kind}: left {part.n_unchanged:,} of {counted(len(captions), 'caption')} unchanged; "
        f"{'left out' if options.leave_out_unchanged else 'counted'}"
        for kind, part in unseen.items()
        if part.n_unchanged
    ]
    intervals: dict[str, tuple[float, float] | None] = {}
    if options.bootstrap and len(set(captions.image_ids)) < 2:
        notes.append("no intervals: there is one photo")
    elif options.bootstrap:
        kept = {kind: ~unchanged[kind] if options.leave_out_unchanged else None for kind in perturbed}
        intervals = _intervals(scores[0], by_kind, kept, captions.image_ids, options)
        few = coarseness(options.bootstrap, options.confidence)
        notes += [few] if few else []
    return MetricRobustness(
        metric=name,
        backbone=scorer.backbone.name,
        signature=format_signature(scorer.metric, {**settings, **_perturbation_settings(perturbed, options)}),
        original=original,
        original_of_first=1.0 if first is None and original else original / first if first else None,
        paper=paper,
        unseen=unseen,
        intervals=intervals,
        retrieval=_retrieval(scorer, captions, embedder),
        published=_published(captions, name.partition("@")[0]),
        notes=tuple(notes),
        warnings=tuple(said),
        seconds=time.perf_counter() - start,
        scores=scores[0],
        perturbed_scores=by_kind,
    )


def _against_photos(
    scorer: BackboneScorer, captions: CaptionSet, texts: list[str]
) -> tuple[np.ndarray, dict[str, object]]:
    repeats = len(texts) // len(captions)
    found = scorer.score(texts, captions.images * repeats, language=captions.language)
    return found.scores, {**found.settings, "images": "photos"}


def against_stand_ins(
    scorer: BackboneScorer, texts: Sequence[str], stand_ins: Sequence[str], language: str, embedder: Embedder
) -> tuple[np.ndarray, dict[str, object]]:
    """Apply the metric's formula with the cosine to a text in place of the cosine to a photo.

    Args:
        scorer: Metric that looks at photos alone.
        texts: n captions.
        stand_ins: n texts that stand for their photos.
        language: Language of the captions.
        embedder: Embedder of the stand-ins.

    Returns:
        Scores, (n,); the signature's settings.

    Raises:
        CapscoreError: the two towers have embeddings of different length.
    """
    scorer.warn_about_languages([language])
    embedded = scorer.embedder.texts(texts, prefix=scorer.prefix)
    scorer.warn_about_truncation(embedded.truncated[embedded.index])
    tower = embedder.backbone
    photos = embedder.texts(stand_ins, prefix=tower.prefix)
    if tower.dim != scorer.backbone.dim:
        raise CapscoreError(
            f"{scorer.backbone.name} has embeddings of {scorer.backbone.dim} numbers, and {tower.name}, "
            f"which embeds the texts that stand for photos, has embeddings of {tower.dim}"
        )
    cosines = row_cosines(embedded.matrix, embedded.index, photos.matrix, photos.index)
    scores, _ = scorer.combine({"image_cosine": cosines})
    first = {**scorer.first_settings, "refs": 0, "lang": language}
    last = {key: value for key, value in scorer.last_settings.items() if key != "exif"}
    return scores, {**first, **last, "images": f"stand-in,{tower.name}@{tower.revision}"}


def _stand_ins(texts: Sequence[str], embedder: Embedder) -> np.ndarray:
    embedded = embedder.texts(list(texts), prefix=embedder.backbone.prefix)
    return embedded.matrix[embedded.index]


def _perturbation_settings(
    perturbed: Mapping[str, Perturbed], options: RobustnessOptions
) -> dict[str, object]:
    """Settings that the perturbed captions depend on; those that several kinds share appear once."""
    settings: dict[str, object] = {"kinds": "+".join(perturbed)}
    for kind, part in perturbed.items():
        for key, value in part.settings.items():
            if settings.setdefault(key, value) != value:
                settings[f"{kind}-{key}"] = value
    if options.leave_out_unchanged:
        settings["unchanged"] = "left_out"
    return settings


def _drop(
    original: np.ndarray, perturbed: np.ndarray, unchanged: np.ndarray, leave_out: bool
) -> PerturbationDrop:
    """The same as `robustness_drop` for a kind that is not published."""
    kept = ~unchanged if leave_out else np.ones(len(original), dtype=bool)
    n = int(kept.sum())
    before = float(original[kept].mean()) if n else None
    after = float(perturbed[kept].mean()) if n else None
    drop = (after - before) / before if before and after is not None else None
    return PerturbationDrop(n, before, after, drop, int(unchanged.sum()), 0)


def _intervals(
    original: np.ndarray,
    perturbed: Mapping[str, np.ndarray],
    kept: Mapping[str, np.ndarray | None],
    photos: Sequence[str],
    options: RobustnessOptions,
) -> dict[str, tuple[float, float] | None]:
    """Percentile intervals of drops; photos are drawn with all their original and perturbed captions."""
    place = {name: number for number, name in enumerate(dict.fromkeys(photos))}
    unit = np.array([place[name] for name in photos])

    def sums(column: np.ndarray, kind: str) -> np.ndarray:
        weights = column if kept[kind] is None else column * kept[kind]
        return np.bincount(unit, weights=weights, minlength=len(place))

    before = np.stack([sums(original, kind) for kind in perturbed])
    after = np.stack([sums(column, kind) for kind, column in perturbed.items()])
    groups = {
        "drop_average": [number for number, kind in enumerate(perturbed) if kind in KINDS],
        "drop_average_unseen": [number for number, kind in enumerate(perturbed) if kind not in KINDS],
    }
    groups = {name: rows for name, rows in groups.items() if rows}

    def drops(drawn: np.ndarray) -> np.ndarray:
        base = before @ drawn
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(base > 0, (after @ drawn) / base - 1, np.nan)
        return np.concatenate([found, *(found[rows].mean(axis=0, keepdims=True) for rows in groups.values())])

    samples = resample(
        drops,
        multiplicities,
        n_units=len(place),
        n_samples=options.bootstrap,
        seed=options.seed,
        n_rows=len(perturbed) * len(place),
        label="Resampling photos",
    )
    names = [*(f"drop_{kind}" for kind in perturbed), *groups]
    return {
        name: ends(percentile_interval(row, options.confidence))
        for name, row in zip(names, samples, strict=True)
    }


def _retrieval(
    scorer: BackboneScorer, captions: CaptionSet, embedder: Embedder | None
) -> dict[int, float | None]:
    """How often an original caption finds its photo among all photos of the set."""
    first: dict[str, int] = {}
    for row, name in enumerate(captions.image_ids):
        first.setdefault(name, row)
    if len(first) < 2:
        return dict.fromkeys(KS)
    place = {name: number for number, name in enumerate(first)}
    if captions.stand_ins is None:
        images = scorer.embedder.images([captions.images[row] for row in first.values()])
        photos = images.matrix[images.index]
    else:
        assert embedder is not None
        photos = _stand_ins([captions.stand_ins[row] for row in first.values()], embedder)
    texts = scorer.embedder.texts(captions.captions, prefix=scorer.prefix)
    found = retrieval(
        image_embeddings=photos,
        text_embeddings=texts.matrix[texts.index],
        text_to_image=[place[name] for name in captions.image_ids],
        ks=KS,
    )
    return found.details["text_to_image"]["at"]


def _published(captions: CaptionSet, metric: str) -> dict[str, Published]:
    """Statistic → published figure of the metric, with its own towers, on these captions."""
    from ..published import find

    if not captions.published_as:
        return {}
    found: dict[str, Published] = {}
    for figure in find(captions.published_as, None, metric, language=captions.language):
        if figure.statistic.startswith(("drop_", "mean_")) and not figure.setting and not figure.backbone:
            found.setdefault(figure.statistic, figure)
    return found
