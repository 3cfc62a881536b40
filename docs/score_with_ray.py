"""Scores a Parquet corpus on a Ray cluster: one loaded backbone per worker, files of Parquet out.

    python docs/score_with_ray.py corpus/ scored/ --metric mcs --backbone embedded --workers 2 --min-score 0.5

Without `--address` a cluster starts on this machine. Needs the extra `ray`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow.compute as pc
import ray

from capscore.integrations.ray import Score


def score_corpus(
    corpus: str | Path,
    output: str | Path,
    *,
    workers: int,
    batch_rows: int = 256,
    gpus: float = 0,
    min_score: float | None = None,
    **options,
) -> int:
    """Score every row of a Parquet file or folder, and write a folder of Parquet files.

    Args:
        corpus: Rows with the columns image (path, or bytes) and caption; or those of the metric.
        output: Folder of the results.
        workers: Number of workers, each with a backbone of its own.
        batch_rows: Rows per batch.
        gpus: GPUs of each worker.
        min_score: Lowest score of a row that is written; None writes all rows.
        **options: Arguments of `capscore.integrations.ray.Score`.

    Returns:
        Number of rows that were written.
    """
    # Ray reads small files together; in blocks of a batch, every worker gets its share
    rows = ray.data.read_parquet(str(corpus)).repartition(target_num_rows_per_block=batch_rows)
    scored = rows.map_batches(
        Score,
        fn_constructor_kwargs=options,
        batch_size=batch_rows,
        batch_format="pyarrow",  # every column keeps its type
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=0.5,  # workers that took every core would leave none to read the corpus, and wait for ever
        num_gpus=gpus or None,
    )
    if min_score is not None:
        stays = pc.field(options.get("metric", "mcs")) >= min_score  # a row that failed has NaN
        scored = scored.map_batches(lambda table: table.filter(stays), batch_format="pyarrow")
    scored.write_parquet(str(output))
    return ray.data.read_parquet(str(output)).count()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, help="Parquet file, or folder of Parquet files")
    parser.add_argument("output", type=Path, help="folder of the results")
    parser.add_argument("--metric", default="mcs")
    parser.add_argument("--backbone", default=None)
    parser.add_argument("--language", default=None)
    parser.add_argument("--images", type=Path, default=None, help="folder that names of images start from")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--gpus", type=float, default=0, help="GPUs of each worker")
    parser.add_argument("--min-score", type=float, default=None, help="lowest score of a row that is written")
    parser.add_argument("--address", default=None, help="address of a running cluster")
    given = vars(parser.parse_args())
    ray.init(address=given.pop("address"))
    corpus, output = given.pop("corpus"), given.pop("output")
    options = {name: value for name, value in given.items() if value is not None}
    print(f"{score_corpus(corpus, output, on_error='skip', **options):,} rows written to {output}")


if __name__ == "__main__":
    main()
