"""The Gradio tab that compares captioning systems: scored files → means, intervals, p-values."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CapscoreError
from .app_inputs import given_files
from .app_parts import errors_as_messages, hint
from .markup import render
from .system_tables import ComparedMetric, comparison_report

if TYPE_CHECKING:
    import gradio

ABOUT = (
    "# Compare systems\nDoes one captioning system score higher than another, on the same photos? Upload two "
    "or more files that `capscore score --output` wrote, with their summaries. The first is the baseline."
)
_SUMMARY = ".summary.json"
READING = (
    "The interval of a difference comes from a paired bootstrap over photos; p-values are corrected for the "
    "number of systems after Holm. Files with other rows or other settings are refused."
)
SAMPLES = 2_000


def compare_app(gr: Any) -> gradio.Blocks:
    """The tab, as a page of its own."""

    def compare(files: list[str] | None) -> str:
        with errors_as_messages(gr):
            return compared(given_files(files))

    with gr.Blocks(title="Compare systems", analytics_enabled=False, delete_cache=(600, 3600)) as app:
        gr.Markdown(ABOUT)
        with gr.Row():
            with gr.Column(scale=1, min_width=300):
                files = gr.File(
                    file_count="multiple",
                    type="filepath",
                    file_types=[".jsonl", ".json", ".csv", ".tsv", ".parquet"],
                    label="Scored files and their summaries",
                )
                button = gr.Button("Compare", variant="primary")
            with gr.Column(scale=2, min_width=340):
                table = hint(gr, "Upload at least two files; then press Compare.", "Comparison")
                gr.Markdown(READING)
        button.click(compare, [files], [table], api_name="compare")
    return app


def compared(files: list[str]) -> str:
    """Tables of the comparisons, as HTML.

    Args:
        files: Scored files, one per system, the baseline first; those named `….summary.json` are summaries.

    Raises:
        CapscoreError: there are fewer than two systems, two have one name, or they cannot be compared.
    """
    from ..files.write import summary_path
    from ..metrics.scored_files import read_systems
    from ..statistics.system_means import compare_means_by_language

    scored = [Path(file) for file in files if not file.endswith(_SUMMARY)]
    systems = {file.stem: file for file in scored}
    if len(scored) < 2 or len(systems) < len(scored):
        raise CapscoreError("upload the files of at least two systems, each with a name of its own")
    # every upload lies in a folder of its own, and a summary is read from beside its file
    with tempfile.TemporaryDirectory() as folder:
        beside = {name: Path(shutil.copy(file, folder)) for name, file in systems.items()}
        known = {summary_path(file).name for file in beside.values()}
        for summary in (Path(file) for file in files if file.endswith(_SUMMARY)):
            if summary.name not in known:
                raise CapscoreError(f"{summary.name} is the summary of none of {', '.join(systems)}")
            shutil.copy(summary, folder)
        rows = read_systems(beside)
    found = [
        ComparedMetric(
            metric,
            compare_means_by_language(scores, rows.languages, images=rows.photos, n=SAMPLES),
            rows.signatures.get(metric, ""),
            rows.corpus.get(metric, {}),
        )
        for metric, scores in rows.scores.items()
    ]
    report = comparison_report(found)
    notes = [f"note: {note}" for note in rows.notes]
    return render("compared_systems.html", tables=report.tables, remarks=[*report.remarks, *notes])
