"""The options of `capscore.load`, one entry each: type, default, help, and which metrics take it.

`load`, `CaptionModule`, the commands and the modules' cards read this table. A new option needs an entry here
and a keyword parameter of its metric's scorer. Importing it is quick: the command line reads it for `--help`.
"""

# No `from __future__ import annotations`: `OPTIONS` is read from the annotations of `MetricOptions`.

import difflib
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, TypeVar

from ..errors import InputError, OptionError, Setting
from ..text.checks import text_problem
from .catalogue import METRICS, REFERENCES

if TYPE_CHECKING:
    from ..backbones.base import Backbone
    from ..embedding.cache import EmbeddingCache
    from ..infometic.alignment import Aligner
    from ..infometic.mark_calibration import MarkCalibration
    from ..infometic.regions import RegionFinder
    from .formulas.cider import DocumentFrequencies

Function = TypeVar("Function", bound=Callable[..., Any])
WITH_BACKBONE = tuple(name for name, entry in METRICS.items() if entry.has_backbone)
EMPTY = "raise"  # what happens to empty captions where nothing is said
WITH_IMAGES = tuple(name for name in WITH_BACKBONE if METRICS[name].looks_at != REFERENCES)


@dataclass(frozen=True)
class Option:
    """One option of `capscore.load`.

    Attributes:
        help: Description, in one line that begins with a noun and has no full stop.
        metrics: Metrics that take it.
        panel: Heading of `--help` under which it is listed; "" for the options of the command itself.
        short: Its line in `--help`, with the default and a full stop; "" for help and default as they are.
        metavar: Word in `--help` for its value; "" for one that the type suggests.
        type: Type of the value that a command line reads.
        default: Value that applies when it is not given, or None.
        unset: Meaning of None, in words; "" if nothing needs saying.
        more: Further sentences for the documentation of `capscore.load`.
        choices: Allowed values; () for any.
        minimum: Least whole number allowed, or None.
        own: Whether the scorer's class takes it; the other options go to the backbone and the embedder.
        rule: Further check of a value; raises an error that begins with the `Setting`.
        name: Name of the option.
        annotation: Type of the value in Python.
    """

    help: str
    metrics: tuple[str, ...] = WITH_BACKBONE
    panel: str = "Backbone"
    short: str = ""
    metavar: str = ""
    type: type = str
    default: Any = None
    unset: str = ""
    more: str = ""
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    own: bool = False
    rule: Callable[[str, Any], object] | None = None
    name: str = ""
    annotation: str = ""

    @property
    def default_in_words(self) -> str:
        """The default as a sentence's end, such as "20" or "a GPU if there is one"; "" for none."""
        if self.default is None or self.default is False:
            return self.unset
        return str(self.default)

    @property
    def in_help(self) -> str:
        """Its line in `--help`."""
        default = f" Default: {self.default_in_words}." if self.default_in_words else ""
        return self.short or f"{self.help}.{default}"

    @property
    def documentation(self) -> str:
        """Its entry in a docstring, on one line."""
        all_of = {tuple(METRICS): "", WITH_BACKBONE: "", WITH_IMAGES: " (for metrics that open images)"}
        taken_by = all_of.get(self.metrics, f" (for {', '.join(self.metrics)})")
        default = f" Default: {self.default_in_words}." if self.default_in_words else ""
        more = f" {self.more}" if self.more else ""
        return f"{self.name}: {self.help}{taken_by}.{more}{default}"

    def check(self, value: Any) -> Any:
        """The value, if it is allowed; None always is.

        Raises:
            InputError: it is not; begins with the option.
        """
        if value is None:
            return None
        if self.choices and value not in self.choices:
            expected = " or ".join(map(repr, self.choices))
            raise InputError(Setting(self.name, value), f": expected {expected}")
        if self.minimum is not None and (
            isinstance(value, bool) or not isinstance(value, Integral) or int(value) < self.minimum
        ):
            raise InputError(
                Setting(self.name, value), f": expected a whole number of at least {self.minimum}"
            )
        if self.rule is not None:
            self.rule(self.name, value)
        return value


def _check_dtype(name: str, value: Any) -> None:
    from ..backbones.base import resolve_dtype

    resolve_dtype(value)


def _check_prefix(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise InputError(Setting(name, value), ": expected a string, or None for the backbone's own")
    problem = text_problem(value)
    if problem:
        raise InputError(Setting(name, value), f": {problem}")


def _check_beta(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise InputError(Setting(name, value), ": expected a number from 0 to below 1")


def _check_rate(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 0.5:
        raise InputError(Setting(name, value), ": expected a rate above 0, at most 0.5")


def _check_per_row(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise InputError(Setting(name, value), ": expected True or False")


_CIDER = {"panel": "CIDEr", "own": True}
_ROWS = {"panel": "", "own": True, "metrics": tuple(METRICS)}
_REGIONS = {"panel": "InfoMetIC", "own": True, "metrics": ("infometic",)}


class MetricOptions(TypedDict, total=False):
    """The keyword arguments of `capscore.load`, for type checkers and for `OPTIONS`."""

    backbone: Annotated[
        "str | Backbone | None",
        Option(
            "Name, Hub id (org/name@revision) or folder of the backbone",
            short="Name, Hub id or folder of the backbone.",
            unset="the variable CAPSCORE_BACKBONE, else the metric's own",
            more="A `Backbone` is used as it is.",
        ),
    ]
    device: Annotated[
        "str | None",
        Option(
            "Torch device, such as cpu, cuda or cuda:1",
            short="cpu, cuda, cuda:1. Default: a GPU.",
            unset="a GPU if there is one",
        ),
    ]
    dtype: Annotated[
        "str | None",
        Option(
            "Number format of the towers: float32, bfloat16 or float16",
            short="float32 (default), bfloat16 or float16.",
            default="float32",
            rule=_check_dtype,
        ),
    ]
    batch_size: Annotated[
        "int | None",
        Option(
            "Number of images or texts per batch",
            short="Number of images or texts per batch.",
            type=int,
            unset="what suits the device",
            minimum=1,
        ),
    ]
    cache: Annotated[
        "bool | str | Path | EmbeddingCache | None",
        Option(
            "Folder that keeps embeddings; False keeps none",
            short="Folder that keeps embeddings.",
            metavar="FOLDER",
            type=Path,
            unset="the user's cache folder",
        ),
    ]
    prefix: Annotated[
        "str | None",
        Option(
            "Text before each candidate and reference",
            short="Text before candidates and references.",
            metavar="TEXT",
            own=True,
            unset="the backbone's own",
            rule=_check_prefix,
        ),
    ]
    revision: Annotated[
        "str | None",
        Option(
            "Commit, branch or tag of the backbone on the Hub",
            short="Commit, branch or tag on the Hub.",
            unset="the pinned one, else main",
        ),
    ]
    image_tower: Annotated[
        "str | None",
        Option(
            "Image tower to go with a text tower that was published alone",
            short="Image tower, if the text tower is alone.",
        ),
    ]
    trust_remote_code: Annotated[
        bool,
        Option(
            "Permission to run Python code that comes with weights",
            short="Run Python code that comes with weights.",
            type=bool,
            default=False,
        ),
    ]
    allow_urls: Annotated[
        bool,
        Option(
            "Permission to fetch images from http(s) addresses",
            short="Fetch images from http(s) addresses.",
            metrics=WITH_IMAGES,
            type=bool,
            default=False,
        ),
    ]
    allow_private_urls: Annotated[
        bool,
        Option(
            "Permission to fetch them from hosts that are not public, such as localhost",
            short="Fetch from hosts that are not public.",
            metrics=WITH_IMAGES,
            type=bool,
            default=False,
        ),
    ]
    progress: Annotated[
        "bool | None",
        Option("Progress bar on or off", type=bool, unset="on for long work in a terminal"),
    ]
    document_frequencies: Annotated[
        "str | Path | DocumentFrequencies | None",
        Option(
            "Document frequencies, or the file that DocumentFrequencies.save wrote",
            short="Saved document frequencies, for cider.",
            **_CIDER,
            metrics=("cider", "cider_d", "clip_cider"),
            type=Path,
            unset="counted in the references of the scored rows",
        ),
    ]
    variant: Annotated[
        "str | None",
        Option(
            "Formula of CIDEr: coco, as papers report it, or paper, as first defined",
            short="CIDEr: coco (default) or paper.",
            **_CIDER,
            metrics=("cider",),
            default="coco",
            choices=("coco", "paper"),
        ),
    ]
    clip: Annotated[
        "str | None",
        Option(
            "Score that is averaged with CIDEr: ref_clip_score or clip_score",
            short="ref_clip_score (default) or clip_score.",
            **_CIDER,
            metrics=("clip_cider",),
            default="ref_clip_score",
            choices=("ref_clip_score", "clip_score"),
        ),
    ]
    weights: Annotated[
        "str | Path | Aligner | None",
        Option(
            "Folder or Hub id of trained weights, or info_clip for the baseline",
            short="Weights of infometic, or info_clip.",
            **_REGIONS,
            unset="the weights shipped for the backbone, else info_clip",
        ),
    ]
    marks: Annotated[
        "str | Path | MarkCalibration | None",
        Option(
            "How words are marked: learned, published, or by a judge (folder or Hub id)",
            short="learned, published, or a folder.",
            **_REGIONS,
            metavar="HOW",
            unset="learned where the backbone has a judge of marks, else published",
        ),
    ]
    false_alarms: Annotated[
        "float | None",
        Option(
            "Rate of right words that may be marked as likely wrong, with learned marks",
            short="Rate of right words marked. Default: 0.05.",
            **_REGIONS,
            type=float,
            metavar="RATE",
            default=0.05,
            rule=_check_rate,
        ),
    ]
    regions: Annotated[
        "str | RegionFinder | None",
        Option(
            "Finder of regions: things, windows, or a detector such as detr:ID or owlv2:ID",
            short="things, windows, detr:ID, owlv2:ID, …",
            **_REGIONS,
            unset="things where the backbone has a judge of marks, else windows",
            more="The kinds are things, windows, detr:ID, owlv2:ID, grounding-dino:ID (a Hub id or a folder) "
            "and torchvision:NAME.",
        ),
    ]
    region_names: Annotated[
        "Sequence[str] | None",
        Option(
            "Names for owlv2 and grounding-dino to look for, such as 'red ball'",
            short="Name to find, as 'red ball'; repeatable.",
            **_REGIONS,
            type=list[str],
        ),
    ]
    n_regions: Annotated[
        "int | None",
        Option(
            "Number of regions to score per image",
            short="Regions per image. Default: 20.",
            **_REGIONS,
            type=int,
            default=20,
            minimum=1,
        ),
    ]
    beta: Annotated[
        "float | None",
        Option(
            "Threshold of the scores of words and regions, with marks as published",
            short="Threshold of published marks. Default: 0.1.",
            **_REGIONS,
            type=float,
            default=0.1,
            rule=_check_beta,
        ),
    ]
    empty: Annotated[
        "str | None",
        Option(
            "Treatment of empty captions: raise, score or skip",
            **_ROWS,
            short="Empty captions: raise, score or skip.",
            metavar="HOW",
            default=EMPTY,
            choices=("raise", "score", "skip"),
            more="An empty caption has no visible character. 'raise' is an error, also with on_error='skip', "
            "so that no captioning system gains by saying nothing; 'score' scores the text without words as "
            "reference code does (with a backbone the prefix alone; CIDEr, BLEU and ROUGE-L are 0); 'skip' "
            "leaves the row out of the mean. n_empty counts such rows, and the signature then says which.",
        ),
    ]
    per_row: Annotated[
        bool,
        Option(
            "Scores of each row in the result, besides means and counts",
            **_ROWS,
            type=bool,
            default=True,
            rule=_check_per_row,
        ),
    ]


def _named(name: str, hint: Any) -> Option:
    python = hint.__origin__
    annotation = getattr(python, "__forward_arg__", None) or python.__name__
    return replace(hint.__metadata__[0], name=name, annotation=annotation)


OPTIONS: dict[str, Option] = {
    name: _named(name, hint) for name, hint in MetricOptions.__annotations__.items()
}


def options_of(metric: str) -> dict[str, Option]:
    """The options that a metric takes, by name.

    >>> list(options_of("cider"))
    ['document_frequencies', 'variant', 'empty', 'per_row']
    """
    return {name: option for name, option in OPTIONS.items() if metric in option.metrics}


def own_options(metric: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options that the metric's scorer class takes itself.

    >>> own_options("mcs", {"device": "cpu", "prefix": "A photo of ", "beta": 0.2})
    {'prefix': 'A photo of '}
    """
    takes = options_of(metric)
    return {name: value for name, value in given.items() if name in takes and takes[name].own}


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without those that say nothing: None, and permissions that are not given."""
    return {
        name: value
        for name, value in options.items()
        if value is not None and not (value is False and name in OPTIONS and OPTIONS[name].default is False)
    }


def check_options(metric: str, given: Mapping[str, Any]) -> None:
    """Check that a metric takes the given options, and that each value is allowed.

    Raises:
        OptionError: the metric does not take an option; says what it takes.
        InputError: a value is not allowed.

    >>> check_options("cider", {"variants": "paper"})
    Traceback (most recent call last):
        ...
    capscore.errors.OptionError: cider takes no variants='paper'; did you mean variant? \
Its options: document_frequencies, variant, empty, per_row
    """
    takes = options_of(metric)
    for name, value in given.items():
        if name not in takes:
            # an option of another metric is not a misspelling
            close = [] if name in OPTIONS else difflib.get_close_matches(name, takes, n=1)
            hint = ("did you mean ", Setting(close[0]), "? Its options: ") if close else ("its options: ",)
            listed = [part for option in takes for part in (", ", Setting(option))][1:] or ["none"]
            raise OptionError(f"{metric} takes no ", Setting(name, value), "; ", *hint, *listed)
        takes[name].check(value)


def takes_options(*, without: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Decorator that shows the options in the signature and docstring of a function with `**options`.

    Args:
        without: Names of options that the function does not take.
    """
    shown = [option for name, option in OPTIONS.items() if name not in without]

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        keyword = inspect.Parameter.KEYWORD_ONLY
        options = [
            inspect.Parameter(option.name, keyword, default=option.default, annotation=option.annotation)
            for option in shown
        ]
        function.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
        if function.__doc__:  # not there under python -OO
            function.__doc__ = re.sub(
                r"^( *)\*\*options: .*$",
                lambda line: "\n".join(_wrapped(option.documentation, line[1]) for option in shown),
                function.__doc__,
                flags=re.MULTILINE,
            )
        return function

    return decorate


def _wrapped(entry: str, indent: str) -> str:
    return textwrap.fill(entry, 100, initial_indent=indent, subsequent_indent=f"{indent}    ")
