"""Measured numbers → files of `.eval_results/`, which the Hub reads from the repository of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml

from ..benchmarks.result_file import runs_of
from ..errors import CapscoreError, InputError, Setting
from ..files.write import write_text
from ..metrics.rows import parse_signature
from ..tables import counted, level_text
from .push import check_repo_id

FOLDER = ".eval_results"
Content = dict[str, Any]  # of a file of results, or a part of one


def check_eval_results(folder: Path, org: str) -> None:
    """Raise an error before the work if `write_eval_results` cannot write into a model's folder."""
    check_repo_id(f"{org}/benchmark")
    if not folder.is_dir():
        raise InputError(Setting("eval_results", folder), ": there is no such folder")


def write_eval_results(document: Content, folder: Path, org: str) -> list[Path]:
    """Write the results of one model into its folder, as of today; see `eval_result_files`."""
    files = eval_result_files([document], org, date=f"{datetime.now(timezone.utc):%Y-%m-%d}")
    if not files:
        raise CapscoreError(Setting("eval_results"), ": no metric with weights was measured on all rows")
    for name, text in files.items():
        write_text(folder / name, text)
    return [folder / name for name in files]


def eval_result_files(
    documents: Iterable[Content], org: str, *, revision: str | None = None, date: str | None = None
) -> dict[str, str]:
    """Turn results of one model into files that `huggingface_hub.parse_eval_result_entries` reads.

    The data set of an entry is ORG/BENCHMARK, as `capscore publish dataset` names it; its task is a
    configuration, split and statistic; its value is times 100, as papers print it. Left out are metrics
    without weights, scores that others computed, and results on a part of the rows.

    Returns:
        Name in the repository → YAML; a file per benchmark, configuration, split and metric.
    """
    try:
        from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
    except ImportError:
        raise CapscoreError(f"{FOLDER} needs huggingface_hub 1.4 or newer: upgrade it with pip") from None
    model = ""
    files: dict[str, str] = {}
    for document, run, result in _results_on_all_rows(documents):
        of = _model(result)
        if not of or revision not in (None, of.rpartition("@")[2]):
            continue
        if revision is None and model not in ("", of):
            raise InputError(f"expected results of one model, got those of {model} and {of}")
        model = of
        benchmark, config = run["benchmark"], run["config"]
        metric = result["metric"].partition("@")[0]
        name = f"{FOLDER}/{benchmark}-{config}-{run['split']}-{metric}.yaml"
        if name in files:
            raise InputError(f"there are two results of {metric} on {benchmark}, {config}: give one")
        entries = [
            EvalResultEntry(
                dataset_id=f"{org}/{benchmark}",
                task_id=f"{config}_{run['split']}_{statistic['name'].replace('@', '_')}",
                value=round(100 * statistic["measured"], 2),
                date=date,
                source_url=f"https://pypi.org/project/capscore/{run['capscore_version']}/",
                source_name=f"capscore {run['capscore_version']}",
                notes=_notes(document, run, result, statistic),
            )
            for statistic in result["statistics"]
            if statistic["measured"] is not None
        ]
        if entries:
            files[name] = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, width=1000)
    return files


def _results_on_all_rows(documents: Iterable[Content]) -> Iterator[tuple[Content, Content, Content]]:
    """Each result that is of all rows, with its document and run."""
    for document in documents:
        for run in runs_of(document):
            for result in run["results"]:
                if result["n_rows"] == run["n_rows"]:
                    yield document, run, result


def _model(result: Content) -> str:
    """Weights that a result is of, as name@revision; "" if it has none, or others computed its scores."""
    if not result["backbone"]:
        return ""
    try:
        settings = parse_signature(result["signature"])[1]
    except ValueError:
        return ""
    return settings.get("weights") or settings.get("backbone", "")


def _notes(document: Content, run: Content, result: Content, statistic: Content) -> str:
    """Statistic with its interval, the command without its folders, signature, and versions of packages."""
    measured = f"{statistic['name']} times 100"
    if statistic["interval"]:
        low, high = statistic["interval"]
        measured += (
            f", {level_text(run['options']['confidence'])} interval {100 * low:.2f} to {100 * high:.2f}"
        )
    options = {"data": run["benchmark"], "config": run["config"], "split": run["split"]}
    options |= {"metric": result["metric"].partition("@")[0], "backbone": result["backbone"]}
    if run["options"]["raters"] != "flatten":
        options["raters"] = run["options"]["raters"]
    parts = [
        f"{measured}, {counted(result['n_rows'], 'row')}",
        " ".join(["capscore benchmark", *(f"--{name} {value}" for name, value in options.items())]),
        result["signature"],
    ]
    packages = document.get("environment", {}).get("packages", {})
    if packages:
        parts.append(", ".join(f"{name} {version}" for name, version in packages.items()))
    return ". ".join(parts)
