"""The Gradio tab that compares captioning systems: scored files → means, intervals, p-values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CapscoreError
from .app_inputs import given_files
from .app_parts import errors_as_messages
from .systems_table import ComparedMetric, to_markdown

if TYPE_CHECKING:
    import gradio

ABOUT = (
    "# Compare systems\nDoes one captioning system score higher than another, on the same photos? Upload two "
    "or more files that `capscore score --output` wrote. The first is the baseline."
)
READING = (
    "The interval of a difference comes from a paired bootstrap over photos; p-values are corrected for the "
    "number of systems after Holm. Files with other rows, or scored with other settings, are refused."
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
                    label="Scored files, one per system",
                )
                button = gr.Button("Compare", variant="primary")
            with gr.Column(scale=2, min_width=340):
                table = gr.Markdown("Upload at least two files; then press Compare.")
                gr.Markdown(READING)
        button.click(compare, [files], [table], api_name="compare")
    return app


def compared(files: list[str]) -> str:
    """Tables of the comparisons, as Markdown.

    Raises:
        CapscoreError: there are fewer than two files, two have one name, or they cannot be compared.
    """
    from ..scorers.scored_files import read_systems
    from ..statistics.system_means import compare_means_by_language

    systems = {Path(file).name.split(".")[0]: Path(file) for file in files}
    if len(files) < 2 or len(systems) < len(files):
        raise CapscoreError("upload the files of at least two systems, each with a name of its own")
    rows = read_systems(systems)
    found = [
        ComparedMetric(
            metric,
            compare_means_by_language(scores, rows.languages, images=rows.photos, n=SAMPLES),
            rows.signatures.get(metric, ""),
            rows.corpus.get(metric, {}),
        )
        for metric, scores in rows.scores.items()
    ]
    return to_markdown(found)
