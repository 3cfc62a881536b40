"""Options that several commands take, and what they name: metrics, backbones, benchmarks, files."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from typer.models import ArgumentInfo, OptionInfo

from ..metrics.loading import PRESETS, Option, all_options, check_options, component_of, help_lines
from ..options import LoadOptions
from ..registry import METRICS
from .terminal import UsageError, as_usage

# options of metrics whose value is any text, not a name
_TEXTS = ("prefix", "question", "instruction")
_Function = TypeVar("_Function", bound=Callable[..., object])


def argument(name: str, **more: Any) -> ArgumentInfo:
    """An argument that is known by its position; the command's help explains it under this name."""
    return typer.Argument(metavar=name, hidden=True, **more)


def option(help: str, *flags: str, panel: str | None = None, **more: Any) -> OptionInfo:
    """An option of a command; `help` ends with the default if that is not obvious."""
    return typer.Option(*flags, help=help, rich_help_panel=panel, show_default=False, **more)


column_option = functools.partial(option, panel="Columns")
statistics_option = functools.partial(option, panel="Statistics")
noise_option = functools.partial(option, panel="Perturbations")


def split_metrics(texts: Sequence[str] | None) -> list[str]:
    """Metrics of an option that is repeatable, and may name several at once; each once, [] for none."""
    names: list[str] = []
    for text in texts or ():
        named = [name.strip() for name in text.split(",") if name.strip()]
        if not named:
            raise typer.BadParameter(f"{text!r} is empty; expected names of metrics, such as mcs,cider")
        names += named
    return list(dict.fromkeys(names))


def complete_metrics(incomplete: str) -> list[str]:
    """What a shell offers for metrics that are typed in part."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in METRICS.names() if name.startswith(last)]


def metrics_by_need() -> str:
    """Names of all metrics, by what they need of rows, for a command's help."""
    needs = {(True, False): "Images", (True, True): "Images and references", (False, True): "References"}
    groups: dict[str, list[str]] = {title: [] for title in (*needs.values(), "Captions alone")}
    for name in METRICS.names():
        kind = METRICS.get(name)
        groups[needs.get((kind.needs_images, kind.needs_references), "Captions alone")].append(name)
    return " ".join(f"[bold]{title}[/]: {', '.join(names)}." for title, names in groups.items() if names)


def columns(*named: str | None) -> dict[str, Any]:
    """The columns that options name, by what they hold."""
    names = ("image_column", "candidate_column", "references_column", "language_column")
    return dict(zip((*names, "references_id_column"), named, strict=False))


def metrics_option(help: str) -> OptionInfo:
    """The option --metric, which may be repeated; a shell completes the names."""
    return option(
        help, "--metric", "-m", metavar="METRIC", callback=split_metrics, autocompletion=complete_metrics
    )


Force = Annotated[bool, option("Overwrite existing files.", "--force")]
AsJson = Annotated[bool, option("Print the result as JSON.", "--json")]
Quiet = Annotated[bool, option("Print no tables and no progress.", "--quiet", "-q")]
OnError = Annotated[Literal["raise", "skip"], option("Bad rows: raise (default) or skip.", metavar="HOW")]
Language = Annotated[str | None, option("Language of all captions, such as de.", metavar="CODE")]
Images = Annotated[Path | None, option("Folder of the photos of a file.", metavar="FOLDER")]
Backbones = Annotated[list[str] | None, option("Backbone, as for score; repeatable.", panel="Backbone")]

Split = Annotated[str | None, column_option("Split of a file that has several.")]
ImageColumn = Annotated[str | None, column_option("Default: image, image_path, file_name, img.")]
CandidateColumn = Annotated[str | None, column_option("Default: caption, candidate, hyp, ….")]
References = Annotated[
    list[Path] | None, option("File of references, matched by photo; repeatable.", metavar="FILE")
]
ReferencesIdColumn = Annotated[
    str | None, column_option("Column of --references with ids or names of photos.", metavar="COLUMN")
]
ReferencesColumn = Annotated[str | None, column_option("Default: references, refs, reference_1, ….")]
LanguageColumn = Annotated[str | None, column_option("Default: language, lang.")]


Data = Annotated[list[str] | None, option("Benchmark, such as xvnli; repeatable.", "--data", "-d")]
Configs = Annotated[list[str] | None, option("Configuration; repeatable, or all.", "--config", "-c")]
AllConfigs = Annotated[list[str] | None, option("Configuration; repeatable. Default: all.", "--config", "-c")]
DataDir = Annotated[Path | None, option("Folder of the files, or of such folders.", metavar="FOLDER")]
ImageDir = Annotated[Path | None, option("Folder of the photos, if elsewhere.", metavar="FOLDER")]
Preset = Annotated[
    Literal["coco", "clipscore", "multilingual", "reference-free"] | None,
    option(f"Metrics: {', '.join(PRESETS)}.", metavar="NAME"),
]
TestSplit = Annotated[str | None, option("Split. Default: test.")]
Report = Annotated[Path | None, option("HTML page: distributions, all rows.")]
Output = Annotated[Path | None, option("File for the results, as JSON.", "--output", "-o")]
Markdown = Annotated[Path | None, option("File for the tables, as Markdown.")]
Partial = Annotated[bool, option("Score only rows whose photos are available.", "--partial")]
MatchBy = Annotated[
    Literal["id", "photo", "references", "order"] | None,
    option("id, photo, references or order.", metavar="HOW"),
]
IdColumn = Annotated[str | None, column_option("Default: id.")]
Samples = Annotated[int, option("Number of samples. Default: 10000.", min=1, panel="Statistics")]
CommonRows = Annotated[bool, option("Compare only rows that every system scored.", "--common-rows")]
Bootstrap = Annotated[int, statistics_option("Bootstrap draws; 0 for none. Default: 1000.", min=0)]
Confidence = Annotated[float, statistics_option("Level of the intervals. Default: 0.95.")]
Seed = Annotated[int, statistics_option("Seed for all random draws. Default: 0.", min=0)]

Kinds = Annotated[
    list[str] | None, option("Perturbation, or paper, unseen, all; repeatable.", "--kind", "-k")
]


def chosen_kinds(names: Sequence[str]) -> tuple[str, ...]:
    from ..perturbations import chosen_kinds

    with as_usage():
        return chosen_kinds([name.strip() for name in ",".join(names).split(",")])


def of_score() -> dict[str, Option]:
    """Options of all metrics; --quiet stands for one of them."""
    return {name: item for name, item in all_options().items() if name != "progress"}


def of_captions() -> dict[str, Option]:
    """The same for commands that only know captions of photos."""
    return {name: item for name, item in of_score().items() if name != "pairs"}


def of_explaining() -> dict[str, Option]:
    """The same for captions of one photo."""
    left_out = ("allow_urls", "allow_private_urls", "empty", "explain", "with_references")
    return {name: item for name, item in of_captions().items() if name not in left_out}


def of_several() -> dict[str, Option]:
    """The same for commands that choose backbones by another option."""
    left_out = ("backbone", "revision", "image_tower", "allow_urls", "allow_private_urls")
    return {name: item for name, item in of_captions().items() if name not in left_out}


def with_metric_options(choose: Callable[[], dict[str, Option]]) -> Callable[[_Function], _Function]:
    """Add metrics' options to a command once it is called; it gets those that are given as one argument."""

    def parameters() -> list[inspect.Parameter]:
        entries = choose()
        lines = help_lines(entries)
        made: list[inspect.Parameter] = []
        for name, entry in entries.items():
            made += _parameters(entry, lines[name])
        return made

    def mark(function: _Function) -> _Function:
        vars(function)["metric_options"] = parameters
        vars(function)["metric_names"] = metrics_by_need
        return function

    return mark


def _parameters(entry: Option, help_line: str) -> list[inspect.Parameter]:
    """What typer makes an option of `capscore.load` from."""
    panel = None
    if not entry.own:
        panel = "Backbone"
    elif len(entry.titles) == 1:
        panel = entry.titles[0]
    if entry.name == "cache":
        folder = option("Folder that keeps embeddings.", "--cache-dir", panel=panel, metavar="FOLDER")
        none = option("Keep no embeddings on disk.", "--no-cache", panel=panel)
        return [_parameter("cache", Path | None, folder), _parameter("no_cache", bool, none)]
    metavar = "TEXT" if entry.name in _TEXTS else None
    info = option(help_line, f"--{entry.name.replace('_', '-')}", panel=panel, metavar=metavar)
    if entry.type is bool:
        return [_parameter(entry.name, bool, info)]
    return [_parameter(entry.name, entry.type | None, info)]


def _parameter(name: str, kind: Any, info: OptionInfo) -> inspect.Parameter:
    annotation = Annotated[kind, info]
    default = {bool: False}.get(kind)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def check_metric_options(metrics: Sequence[str], options: Mapping[str, object]) -> None:
    """Raise UsageError for an unknown metric, an option of other metrics, or a value that is not allowed."""
    with as_usage():
        check_options([name.partition("@")[0] for name in metrics], options)


def load_options(given: Mapping[str, object]) -> LoadOptions:
    """The options of metrics and backbones that a command got."""
    known, shared, own = all_options(), dict[str, Any](), dict[str, Any]()
    for name, value in given.items():
        part = own if name in known and known[name].own else shared
        part[name] = value
    return LoadOptions(**shared, metric_options=own)


def loading(
    metric_options: Mapping[str, object], backbones: Sequence[str] | None, quiet: bool
) -> dict[str, Any]:
    """How metrics are loaded, as the library takes it; of several backbones, metrics name theirs."""
    found = {"progress": False if quiet else None, **metric_options}
    if backbones and len(backbones) == 1:
        found["backbone"] = backbones[0]
    return found


def on_backbones(metrics: Sequence[str], backbones: Sequence[str] | None) -> list[str]:
    """Metrics, as METRIC@BACKBONE once for each of several backbones, unless one names its own or has none.

    >>> on_backbones(["mcs", "cider"], ["embedded", "embedded-free"])
    ['mcs@embedded', 'mcs@embedded-free', 'cider']
    """
    with as_usage():
        kinds = {metric: METRICS.get(component_of(metric)[0]) for metric in metrics}
    if backbones and metrics and not any(kind.takes_backbone for kind in kinds.values()):
        raise UsageError(f"--backbone: none of {', '.join(metrics)} has a backbone")
    names: list[str] = []
    for metric, kind in kinds.items():
        if kind.takes_backbone and "@" not in metric and len(backbones or ()) > 1:
            names += [f"{metric}@{backbone}" for backbone in backbones or ()]
        else:
            names.append(metric)
    return names


def named_files(entries: Sequence[str]) -> dict[str, Path]:
    """NAME=FILE, or FILE with the file's name → name and file; folders tell equal names apart."""
    named = [_name_and_file(entry) for entry in entries]
    stems = Counter(path.stem for name, path in named if not name)
    files: dict[str, Path] = {}
    for name, path in named:
        if not name and stems[path.stem] == 1:
            name = path.stem
        elif not name:
            name = str(path.with_suffix(""))
        if name in files:
            raise UsageError(f"two files would be called {name!r}; give names with NAME=FILE")
        files[name] = path
    return files


def _name_and_file(entry: str) -> tuple[str, Path]:
    name, sign, file = entry.partition("=")
    if entry and (not sign or Path(entry).exists()):
        return "", Path(entry)
    if not name or not file:
        raise UsageError(f"{entry!r}: expected NAME=FILE, or a file")
    return name, Path(file)
