"""A metric's name and options → its scorer."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import CapscoreError, InputError, OptionError, RecipeWarning, Setting, address_name, warn
from ..options import check_flag, check_whole_number, stated_options
from ..registry import METRICS

if TYPE_CHECKING:
    from ..backbones.base import Backbone
    from ..embedding.cache import EmbeddingCache
    from ..embedding.embedder import Embedder
    from .base import Scorer

# Sets of metrics under one name, for `--preset`
PRESETS = {
    # the numbers of papers on COCO, without meteor (its extra) and spice (Java)
    "coco": ("bleu", "rouge_l", "cider", "ref_clip_score"),
    # what clipscore's own script prints
    "clipscore": ("bleu", "meteor", "rouge_l", "cider", "spice", "clip_score", "ref_clip_score"),
    # every language that the backbone knows: one metric for the photo, two for the references
    "multilingual": ("mcs", "cider", "rouge_l"),
    # the photo alone: in every language, and as published for English; each with its own backbone
    "reference-free": ("mcs", "clip_score"),
}

# Values that are no name and no path
_PLAIN = (bytes, Number, list, tuple, dict, set, type)
# Options of the embedder that only metrics with images take
_WITH_IMAGES = ("allow_urls", "allow_private_urls")
# Options of a model behind a server
OF_SERVERS = ("model", "top_logprobs")
# what other libraries call an option, or take it from
_ELSEWHERE = {
    "torch_dtype": "dtype",
    "cache_dir": "the variable HF_HUB_CACHE for models, or cache for embeddings",
    "token": "`hf auth login`, or the variable HF_TOKEN",
    "local_files_only": "the variable HF_HUB_OFFLINE=1",
    "split": "claims_by for claims of captions",
}


def load(
    metric: str | Scorer,
    *,
    backbone: str | Backbone | None = None,
    device: str | int | None = None,
    dtype: Literal["float32", "bfloat16", "float16"] | None = None,
    batch_size: int | None = None,
    cache: bool | str | Path | EmbeddingCache | None = None,
    revision: str | None = None,
    image_tower: str | None = None,
    model: str | None = None,
    top_logprobs: int | None = None,
    allow_urls: bool = False,
    allow_private_urls: bool = False,
    progress: bool | None = None,
    **options: object,
) -> Scorer:
    """Make a scorer. An option that its metric does not take is an error.

    Args:
        metric: Name of the metric, one of `capscore.registry.METRICS.names()`; or a scorer, as it is.
        backbone: Name, Hub id (org/name@revision) or folder of the backbone; or a `Backbone`. Default: the
            variable CAPSCORE_BACKBONE, else the metric's own. PR-MCS takes `embedded-pr-mcs` for `embedded`.
            A judge may be behind a server: http://127.0.0.1:8000/v1.
        device: Torch device, such as cpu, cuda:1, or 1 for that GPU. Default: auto, a GPU if there is one.
        dtype: Number format of the model: float32 (default, of a judge on a GPU bfloat16), bfloat16 or
            float16.
        batch_size: Number of images or texts per batch; of a server, of photos asked about at once. Default:
            one that suits the device, 8 for a server.
        cache: Folder that keeps embeddings; False keeps none. Default: the user's cache folder.
        revision: Commit, branch or tag of the backbone on the Hub. Default: the pinned one, else main.
        image_tower: Image tower to go with a text tower that was published alone.
        model: Name of the model on a server. Default: the only one that it has.
        top_logprobs: Number of likeliest tokens that a server is asked for. Default: 20.
        allow_urls: Permission to fetch images from http(s) addresses.
        allow_private_urls: Permission to fetch images from hosts that are not public, such as localhost.
        progress: Whether a progress bar is shown. Default: for long work in a terminal.
        **options: Options of the metric itself, as its class documents them.

    Raises:
        CapscoreError: unknown metric, device or dtype, or an option that the metric does not take.
        BackboneUnavailable: the weights are not available here; says why, and what is available.
        MissingExtraError: a package is missing; names the extra that brings it.

    >>> import capscore
    >>> scorer = capscore.load("mcs", backbone="embedded")                    # doctest: +SKIP
    >>> scorer.score(["a cat"], ["cat.jpg"], language="en").mean               # doctest: +SKIP
    >>> bleu = capscore.load("bleu").score(["a cat sits"], references=[["a cat sits there"]], language="en")
    >>> bleu.components["bleu_1"].round(4).tolist()
    [0.7165]
    """
    given = dict(locals())
    (named,) = metric_names(given.pop("metric"), most=1, loaded=True)
    return load_together(named, **given.pop("options"), **given)[0]


def load_together(metrics: str | Scorer | Sequence[str | Scorer], **options: object) -> list[Scorer]:
    """Make scorers of several metrics; those with the same backbone share it and its embeddings.

    Args:
        metrics: Metric or metrics, each once: METRIC, METRIC@BACKBONE, or a scorer that is loaded already.
        **options: Options of `load`; each goes to the metrics that take it.
    """
    chosen, backbones = chosen_metrics(metrics)
    load = ScorerLoader(options, backbones)
    check_options([*backbones], load.options)
    return [load(item) if isinstance(item, str) else item for item in chosen]


def chosen_metrics(metrics: object) -> tuple[list[str | Scorer], dict[str, str]]:
    """Metrics by name and loaded scorers → the same without backbones, and `own_backbones` of the names."""
    listed = metric_names(metrics, loaded=True)
    backbones = own_backbones([item for item in listed if isinstance(item, str)])
    chosen = [item.partition("@")[0] if isinstance(item, str) else item for item in listed]
    if len({item if isinstance(item, str) else item.metric for item in chosen}) < len(chosen):
        raise OptionError("two scorers of one metric; score them one after the other", field="metrics")
    return chosen, backbones


class ScorerLoader:
    """A function from metric and backbone (None for its default) to a scorer; loads each backbone once.

    Args:
        options: Options of `load`; each metric gets those that it takes.
    """

    def __init__(self, options: Mapping[str, Any], backbones: Mapping[str, str] = {}):
        self.options, self.backbones = stated_options(options), backbones
        self._opened: dict[Any, Any] = {}

    def __call__(self, metric: str, backbone: Any = None) -> Scorer:
        takes, make = options_of(metric), METRICS.get(metric)
        own = {name: value for name, value in self.options.items() if name in takes and takes[name].own}
        make.check(own)  # before the backbone is loaded, which takes seconds
        if not make.takes_backbone:
            return make(**own)
        asked, chosen = self._backbones(metric, backbone)
        if chosen != asked:
            warn(RecipeWarning(f"{metric} uses {chosen!r}: {asked!r} with weights trained for it"))
        return make(self.opened(make, chosen), **own)

    def _backbones(self, metric: str, backbone: Any) -> tuple[Any, Any]:
        """The backbone that is asked for, and the one with weights for the metric that goes with it."""
        asked = backbone or self.backbones.get(metric) or self.options.get("backbone")
        asked = asked or default_backbone(metric)
        return asked, _tuned_for(metric, asked)

    def known_backbone(self, metric: str) -> str:
        """Name of the backbone that a metric will load; "" for none, or if its name shows once loaded."""
        from ..backbones import find

        if not METRICS.get(metric).takes_backbone:
            return ""
        _, chosen = self._backbones(metric, None)
        if not isinstance(chosen, str) or Path(chosen).exists():
            return ""
        known = find(chosen)
        return chosen.partition("@")[0] if known is None else known.name

    def opened(self, make: Any, backbone: Any) -> Any:
        """What a metric's class takes first, such as an embedder; each backbone is loaded once."""
        from ..files.console import status

        key = make.open_backbone.__func__, backbone
        if key not in self._opened:
            if "batch_size" in self.options:  # checked first, because loading takes seconds
                check_whole_number("batch_size", self.options["batch_size"], 1, sys.maxsize)
            with status(f"loading {address_name(str(backbone))} …", shown=self.options.get("progress")):
                self._opened[key] = make.open_backbone(backbone, self.options)
        return self._opened[key]

    def embedder(self, backbone: Any) -> Embedder:
        """The embedder of a backbone, which is loaded once."""
        from .with_backbone import BackboneScorer

        return self.opened(BackboneScorer, backbone)


def default_backbone(metric: str) -> str:
    """Name of the backbone that a metric uses when the user names none.

    The environment variable CAPSCORE_BACKBONE, for judges CAPSCORE_JUDGE, overrides the default. A metric
    that needs weights of its own, such as PR-MCS, uses the backbone with such weights that goes with the one
    in the variable.
    """
    chosen = os.environ.get(METRICS.get(metric).backbone_variable, "").strip()
    if chosen:
        return _tuned_for(metric, chosen)
    default = METRICS.get(metric).default_backbone
    if not default:
        raise CapscoreError(f"{metric!r} has no default backbone: name one")
    return default


def is_lower_better(column: str) -> bool:
    """Whether less is better in a column of results, by its name; an unknown name says nothing of it."""
    known = METRICS.find(column)
    if known is not None:
        return bool(known.lower_is_better())
    for metric in METRICS.names():
        if any(column in (part, f"{metric}_{part}") for part in METRICS.get(metric).lower_components):
            return True
    return False


def _tuned_for(metric: str, backbone: object) -> Any:
    """The backbone with weights for a metric that goes with this one, or this one itself."""
    from ..backbones import find

    known = find(backbone) if isinstance(backbone, str) else None
    return backbone if known is None else known.tuned.get(metric, backbone)


def metric_names(metrics: object, *, least: int = 1, most: int = 10**9, loaded: bool = False) -> list[Any]:
    """One name of a metric, or several, as a list; all else is an error, but of scorers if `loaded`."""
    from .base import Scorer

    listed = [metrics]
    if isinstance(metrics, Iterable) and not isinstance(metrics, (str, Mapping)):
        listed = [*metrics]
    if not all(isinstance(item, str) or (loaded and isinstance(item, Scorer)) for item in listed):
        raise OptionError("expected the name of a metric, with options beside it", field="metric")
    if not least <= len(listed) <= most:
        raise OptionError(f"got {len(listed)} metrics: name one", field="metric")
    return listed


def component_of(name: str) -> tuple[str, str]:
    """A name in a table → the metric, and its component that is meant, or "".

    A component is named like `Scores.components` calls it, with its metric before it.

    >>> component_of("mcs@embedded"), component_of("bleu_4"), component_of("infometic_recall")
    (('mcs', ''), ('bleu', 'bleu_4'), ('infometic', 'recall'))
    """
    plain = name.partition("@")[0]
    if METRICS.find(plain) is not None:
        return plain, ""
    for metric in METRICS.names():
        if plain.startswith(f"{metric}_"):
            names = METRICS.get(metric).component_names
            for component in (plain, plain.removeprefix(f"{metric}_")):
                if component in names:
                    return metric, component
    return plain, ""


def metric_of(column: str) -> type[Scorer] | None:
    """The class of the metric that a column of results belongs to, as `component_of` says; None for none."""
    kind = METRICS.find(column.partition("@")[0])
    return METRICS.find(component_of(column)[0]) if kind is None else kind


def metric_title(name: str) -> str:
    """The name of a metric, or of its component, as papers write it.

    >>> [metric_title(name) for name in ("ref_clip_score", "infometic_plus", "bleu_4", "theirs.jsonl")]
    ['RefCLIPScore', 'InfoMetIC+', 'BLEU-4', 'theirs.jsonl']
    """
    scorer = metric_of(name)
    if scorer is None:
        return name
    blank = "-" if name[-1].isdigit() else " "
    part = name.removeprefix(scorer.metric).replace("_plus", "+").replace("_", blank)
    return (scorer.title or scorer.metric) + part


def own_backbones(names: Sequence[str]) -> dict[str, str]:
    """Metrics as METRIC or METRIC@BACKBONE → metric and backbone, "" for none.

    >>> own_backbones(["mcs", "judge@org/model@v1"])
    {'mcs': '', 'judge': 'org/model@v1'}
    """
    found: dict[str, str] = {}
    for name in names:
        metric, sign, backbone = name.partition("@")
        whole, component = component_of(name)
        if component:
            problem = f": it is a component of {whole}; name {whole}, whose results hold it as {component}"
            raise OptionError(Setting("metric", name), problem)
        if metric in found:
            raise OptionError(Setting("metric", name), f": {metric} is there twice")
        try:
            scorer = METRICS.get(metric)
        except CapscoreError as error:
            raise OptionError(*error.parts) from None
        if sign and not scorer.takes_backbone:
            raise OptionError(Setting("metric", name), f": {metric} has no backbone")
        found[metric] = backbone
    return found


def preset_metrics(preset: str, *, has_images: bool, has_references: bool) -> tuple[list[str], list[str]]:
    """The metrics of a preset that rows have inputs for, and whose program is here; and notes on the others.

    >>> preset_metrics("reference-free", has_images=True, has_references=False)
    (['mcs', 'clip_score'], [])
    """
    if preset not in PRESETS:
        raise OptionError(Setting("preset", preset), f": expected {', '.join(PRESETS)}")
    metrics, notes = [], []
    for name in PRESETS[preset]:
        kind = METRICS.get(name)
        problem = f". {kind.what_is_missing()}"
        if (kind.needs_images and not has_images) or (kind.needs_references and not has_references):
            problem = ", because the input lacks photos or references"
        if problem == ". ":
            metrics.append(name)
        else:
            notes.append(f"--preset {preset}: {name} left out{problem}")
    return metrics, notes


@dataclass(frozen=True)
class Option:
    """One option of `capscore.load`.

    Attributes:
        default: Value that applies when it is not given, or None.
        help: Its entry in the docstring, on one line.
        own: Whether the metric's class takes it; the others go to the backbone and the embedder.
    """

    name: str
    type: Any
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    accepts: tuple[type, ...] = ()
    metrics: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    own: bool = False

    @property
    def summary(self) -> str:
        """The first part of the help, as a sentence."""
        return re.split(r"[.;] ", self.help, maxsplit=1)[0].rstrip(".") + "."

    @property
    def shown_default(self) -> str:
        """The default, as `--help` and cards print it; "none" where it is not a value."""
        return {None: "none", "": "none", False: "no", True: "yes"}.get(self.default, str(self.default))


def help_lines(options: Mapping[str, Option]) -> dict[str, str]:
    """The summary of each option, by name, with a default where it is a value that the summary lacks."""
    lines = {}
    for name, option in options.items():
        lines[name] = option.summary
        if option.default not in (None, False, "") and "default" not in option.summary:
            lines[name] += f" Default: {option.shown_default}."
    return lines


def options_of(metric: str) -> dict[str, Option]:
    return dict(_options_of(METRICS.get(metric)))


@functools.cache
def _options_of(scorer: Any) -> dict[str, Option]:
    found: dict[str, Option] = {}
    if scorer.takes_backbone:
        found = _parameters(load, documented_arguments(load.__doc__))
    if not scorer.needs_images:
        found = {name: option for name, option in found.items() if name not in _WITH_IMAGES}
    if not scorer.takes_servers:
        found = {name: option for name, option in found.items() if name not in OF_SERVERS}
    texts: dict[str, str] = {}
    for base in reversed(scorer.__mro__):
        inherited = documented_arguments(base.__doc__).items()
        texts |= {name: text for name, text in inherited if not text.startswith("As in")}
    own: dict[str, Option] = {}
    for base in scorer.__mro__:
        if "__init__" in vars(base):
            for name, option in _parameters(base.__init__, texts).items():
                own.setdefault(name, replace(option, own=True))
            if not inspect.getfullargspec(base.__init__).varkw:  # else it passes the others on
                break
    return {name: option for name, option in (found | own).items() if name not in scorer.refused_options}


def all_options(metrics: Sequence[str] | None = None) -> dict[str, Option]:
    """The options of several metrics together (None: all), each with the metrics that take it."""
    scorers = METRICS.all() if metrics is None else {metric: METRICS.get(metric) for metric in metrics}
    found: dict[str, Option] = {}
    for metric, scorer in scorers.items():
        for name, option in _options_of(scorer).items():
            option = found.get(name, option)
            titles = tuple(dict.fromkeys((*option.titles, scorer.title)))
            found[name] = replace(option, metrics=(*option.metrics, metric), titles=titles)
    return dict(sorted(found.items(), key=lambda item: item[1].own))


def check_options(metrics: Sequence[str], options: Mapping[str, object]) -> None:
    """Check that one of the metrics takes each option, and that values are among the choices."""
    takes = all_options(metrics)
    for name, value in options.items():
        if name not in takes and (name == "progress" or (name, value) == ("cache", False)):
            continue
        if name not in takes:
            asked, others = ", ".join(metrics) or "a loaded scorer", all_options().get(name)
            if name in _ELSEWHERE:
                instead = f"; instead, use {_ELSEWHERE[name]}"
                raise OptionError(f"{asked} takes no ", Setting(name, "…"), instead)
            if others is not None:
                takers = ", ".join(others.metrics)
                raise OptionError(Setting(name, value), f": an option of {takers}, not of {asked}")
            listed = [part for option in takes for part in (", ", Setting(option))][1:] or ["none"]
            raise OptionError(f"{asked} takes no ", Setting(name, value), "; its options: ", *listed)
        choices = takes[name].choices
        if choices and not (isinstance(value, str) and value in choices):
            raise InputError(Setting(name, value), f": expected {' or '.join(map(repr, choices))}")
        accepts = takes[name].accepts
        if accepts == (bool,) and value is not None:
            check_flag(name, value)
        is_other = isinstance(value, _PLAIN) or not _has_truth(value)
        if str in accepts and is_other and not isinstance(value, accepts):
            raise InputError(
                Setting(name, value), ": expected text", ", or a path" if Path in accepts else ""
            )
        without = ", ".join(metric for metric in metrics if metric not in takes[name].metrics)
        if (name, value) == ("pairs", "images") and without:  # they would read names of photos as captions
            raise OptionError(Setting(name, value), f": {without} cannot compare photos with photos")


def _has_truth(value: object) -> bool:
    """Whether a value is true or false, as arrays and pandas.NA are not."""
    try:
        bool(value)
    except (TypeError, ValueError):
        return False
    return True


def documented_arguments(docstring: str | None) -> dict[str, str]:
    """The entries under `Args:` of a Google docstring: name → text on one line."""
    section = re.search(r"^Args:\n((?:(?: .*)?(?:\n|$))+)", inspect.cleandoc(docstring or ""), re.MULTILINE)
    found = {}
    for entry in re.split(r"^    (?=\S)", section[1], flags=re.MULTILINE)[1:] if section else []:
        names, _, text = entry.partition(": ")
        found.update(dict.fromkeys(re.split(r", ", names), " ".join(text.split())))
    return found


def _parameters(function: Any, texts: Mapping[str, str]) -> dict[str, Option]:
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and name in texts:
            # text where the module postpones the evaluation of annotations, else a type
            annotation = parameter.annotation
            text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
            kind, choices = _type(text), _choices(text)
            accepts = tuple(each for each in (str, Path, int, bool) if re.search(rf"\b{each.__name__}", text))
            found[name] = Option(name, kind, parameter.default, texts[name], choices, accepts)
    return found


def _type(annotation: str) -> Any:
    for kind, name in ((list[str], "Sequence[str]"), (Path, "Path"), (str, "str"), (bool, "bool")):
        if re.search(rf"\b{re.escape(name)}(?!\w)", annotation):
            return kind
    return int if re.search(r"\bint\b", annotation) else float if re.search(r"\bfloat\b", annotation) else str


def _choices(annotation: str) -> tuple[str, ...]:
    literal = re.match(r"Literal\[(.*)\]", annotation)
    return tuple(re.findall(r"'([^']*)'", literal[1])) if literal else ()
