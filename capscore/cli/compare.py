"""Compare captioning systems: does one score higher than another, on the same photos?

Each FILE holds the captions of one system; NAME=FILE gives the system a name. Metrics without a column in a
file are computed first, with the options of `capscore score`. Rows are matched by [bold]id[/], or else
by photo or references (--match-by order: by their order), and by language where rows have one. Files with
different rows or settings are refused.

First comes the table as papers print it (--table table.tex, .md, .csv); then for each metric the differences
to the first system (or --baseline), with intervals (paired bootstrap over photos) and p-values (approximate
randomisation, Holm-corrected for the number of systems), also for each language: of BLEU and METEOR those of
the corpus, computed anew for each draw of photos; otherwise of the mean of rows.

With [bold]--battles[/], systems are ranked by which of two captions of a photo is better: -m judge sees both
captions, in both orders; of other metrics the better score wins.

With [bold]--published[/], it is counted how many pairs of systems are in a published order: that of a set
(coco_captions), or of a file of systems and numbers (CSV, JSON), or of systems alone, the best first (.txt).

With [bold]--data[/], a set of captioned photos (xm3600, multi30k, …), each file has one caption per photo and
language; each language is scored with all references of the set. Default metric there: cider.

[bold]Exit codes[/]: 0 compared; 1 failed (other rows or settings, bad files); 2 wrong usage; 130 interrupted.

[bold]Example[/]: capscore compare ours.json baseline.json --references captions.json --images photos
--preset clipscore --table table.tex --report page.html
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from ..errors import Setting
from ..options import MAX_DRAWS, RowOptions, Sampling, check_whole_number
from . import options, terminal
from .options import argument, column_option, option

Metrics = Annotated[
    list[str] | None,
    options.metrics_option("METRIC, METRIC@BACKBONE, or a column of scores. Default: all columns."),
]
Paper = Annotated[Path | None, option("File for the table of a paper: .tex, .md or .csv.", "--table")]
Page = Annotated[Path | None, option("HTML page: table, chart, photos that differ most.")]
Baseline = Annotated[str | None, option("System to compare with. Default: the first.")]
ImageColumn = Annotated[str | None, column_option("Default: image, image_path, file_name, img, image_id.")]
Fights = Annotated[bool, option("Rank by battles of captions. Default metric: judge.", "--battles")]
Tie = Annotated[float | None, option("Largest difference that is a tie in battles.", metavar="BAND")]
Pairs = Annotated[str | None, option("Number of battles. Default: all. Else images or texts, of clip_score.")]
Published = Annotated[str | None, option("Set or file of published systems, such as coco_captions.")]
Data = Annotated[str | None, option("Set of captioned photos, such as xm3600.", "--data", "-d")]


@options.with_metric_options(options.of_captions)
def compare(
    files: Annotated[list[str], argument("FILE")],
    metric: Metrics = None,
    preset: options.Preset = None,
    baseline: Baseline = None,
    common_rows: options.CommonRows = False,
    match_by: options.MatchBy = None,
    battles: Fights = False,
    pairs: Pairs = None,
    tie: Tie = None,
    published: Published = None,
    output: options.Output = None,
    markdown: options.Markdown = None,
    table: Paper = None,
    report: Page = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    samples: options.Samples = 10_000,
    confidence: options.Confidence = 0.95,
    seed: options.Seed = 0,
    data: Data = None,
    config: options.Configs = None,
    data_dir: options.DataDir = None,
    image_dir: options.ImageDir = None,
    split: options.TestSplit = None,
    partial: options.Partial = False,
    id_column: options.IdColumn = None,
    image_column: ImageColumn = None,
    candidate_column: options.CandidateColumn = None,
    references_column: options.ReferencesColumn = None,
    references_id_column: options.ReferencesIdColumn = None,
    language_column: options.LanguageColumn = None,
    images: options.Images = None,
    references: options.References = None,
    language: options.Language = None,
    on_error: options.OnError = "raise",
    metric_options: Mapping[str, object] = {},
) -> None:
    from ..benchmarks.reading import Configuration
    from ..comparing import Comparison
    from ..comparing import battles as ranking
    from ..comparing.languages import compare_on_benchmark
    from ..comparing.published_order import published_orders
    from ..comparing.systems import read_systems
    from ..show.comparison_report import write_comparison_report

    with terminal.as_usage():
        check_whole_number("samples", samples, 1, MAX_DRAWS)
        sampling = Sampling(samples, confidence, seed)
    systems = options.named_files(files)
    if baseline is not None and baseline not in systems:
        raise terminal.UsageError(Setting("baseline", baseline), f": expected {' or '.join(systems)}")
    terminal.check_result_files(force, output=output, markdown=markdown, table=table, report=report)
    terminal.check_only_one(Setting("language", language), Setting("language_column", language_column))
    columns = options.columns(
        image_column, candidate_column, references_column, language_column, references_id_column
    )
    columns |= {"id_column": id_column, "language": language, "images": images}
    rows = RowOptions(**columns, references=references or None, on_error=on_error)
    own = dict(metric_options)
    if pairs is not None and not battles:
        own["pairs"] = pairs
    load = options.load_options({"progress": False if quiet or as_json else None, **own})
    orders = published_orders(published, [*systems]) if published else None
    matching: Mapping[str, Any] = {"match_by": match_by, "common_rows": common_rows}
    found: Comparison | ranking.Battles
    if battles:
        others = {"data": data, "preset": preset, "report": report, "baseline": baseline}
        terminal.check_alone("battles", others)
        if metric is not None and len(metric) > 1:
            raise terminal.UsageError(Setting("metric", ",".join(metric)), ": battles take one metric")
        n_pairs: Any = int(pairs) if pairs and pairs.isdecimal() else pairs
        matching = {**matching, **vars(rows), **load.arguments(), **vars(sampling)}
        found = ranking.battles(systems, *(metric or ["judge"]), pairs=n_pairs, tie=tie, **matching)
        found = found if orders is None else found.held_against(orders)
    elif tie is not None or (pairs and pairs.isdecimal()):
        stray = Setting("pairs", pairs) if tie is None else Setting("tie", tie)
        raise terminal.UsageError(stray, " is for --battles")
    elif data is not None:
        terminal.check_alone("data", {"preset": preset, "report": report})
        where, of_set = Configuration(data, None, data_dir), RowOptions(split=split, images=image_dir)
        matching = {"load": load, "sampling": sampling, "partial": partial, "published": orders}
        named = metric or ["cider"]
        found = compare_on_benchmark(where, systems, named, config or (), rows=of_set, **matching)
    elif len(systems) < 2:
        raise terminal.UsageError("give the scored files of at least 2 systems")
    else:
        read = read_systems(systems, metric or [], rows, load, preset=preset, **matching)
        found = read.compare(baseline, sampling, orders or ())
        if report is not None:
            write_comparison_report(report, read, found)
    if table is not None:
        found.table().write(table)
    terminal.show_results(found, output, markdown, table, report, as_json=as_json, quiet=quiet)
