"""Ray Data: batches in a process, and a Parquet corpus on a local cluster of two workers."""

import importlib.util
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import capscore
from capscore.errors import InputError
from capscore.integrations.ray import Score
from tools.tiny.colours import BLUE, GREEN, RED, ColourBackbone, JudgingColours
from tools.tiny.open_clip_models import write_open_clip

from ..photos import encode

PIXELS = {"red": RED, "green": GREEN, "blue": BLUE}
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra ray")


def corpus(n_rows=48):
    names = [*PIXELS] * n_rows
    columns = {"id": list(range(n_rows)), "image": [encode(PIXELS[name]) for name in names[:n_rows]]}
    columns["caption"] = [f"{names[row]} {names[row % 2]}" for row in range(n_rows)]
    columns["references"] = [[names[row], "red blue"][: 1 + row % 2] for row in range(n_rows)]
    return pa.table(columns)


@pytest.fixture
def batch():
    table = corpus()
    return {name: table.column(name).to_pandas().to_numpy().copy() for name in table.column_names}


@needs_ray
def test_a_batch_gets_the_columns_of_its_metrics(batch):
    score = Score(["mcs", "ref_clip_score"], backbone=ColourBackbone(), cache=False, language="en")
    found = score(batch)
    assert [*found] == [*batch, "mcs", "ref_clip_score", "clip_score", "text_score"]
    # the photo's colour alone: 2.5; another one beside it: 2.5 / √2
    assert found["mcs"].dtype == np.float64
    np.testing.assert_allclose(found["mcs"][:4], [2.5, 2.5, 1.767767, 1.767767], atol=1e-6)
    empty = score({name: values[:0] for name, values in batch.items()})
    assert len(empty["mcs"]) == 0
    words = Score("pr_mcs", backbone=JudgingColours(), cache=False)(batch)
    # "red red" has four tokens, of which three differ
    assert words["kept"].dtype == np.float64 and words["kept"][:2].tolist() == [0.75, 0.75]
    assert words["kind"].dtype == object and words["kind"][:3].tolist() == ["none"] * 3
    table = corpus()
    found = Score("mcs", on_error="skip", backbone=ColourBackbone(), cache=False)(table)
    assert found.schema == pa.schema([*table.schema, ("mcs", pa.float64()), ("capscore_error", pa.string())])


@needs_ray
def test_a_poisoned_row_is_named_or_skipped(batch):
    batch["image"][5] = b"no photo"
    options = {"backbone": ColourBackbone(), "cache": False}
    with pytest.raises(InputError, match=r"row 5 of its batch, counted from 0 \('blue green'\)"):
        Score("mcs", **options)(batch)
    found = Score("mcs", on_error="skip", **options)(batch)
    assert np.flatnonzero(np.isnan(found["mcs"])).tolist() == [5]
    assert [row for row, error in enumerate(found["capscore_error"]) if error] == [5]


@pytest.fixture
def cluster(tmp_path_factory, monkeypatch):
    import ray

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    quiet = {"include_dashboard": False, "configure_logging": False, "log_to_driver": False}
    variables = {"PYTHONPATH": ":".join(sys.path), "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
    where = {"_temp_dir": str(tmp_path_factory.mktemp("r")), "object_store_memory": 100 * 2**20}
    ray.init(num_cpus=2, runtime_env={"env_vars": variables}, **where, **quiet)
    yield
    ray.shutdown()


@needs_ray
@pytest.mark.slow
def test_a_corpus_on_two_workers(tmp_path, cluster):
    """The example of the documentation: rows that stay have the scores of one process and all columns."""
    from score_with_ray import score_corpus

    table = corpus()
    images = [*table.column("image").to_pylist()[:-1], b"no photo"]
    table = table.set_column(1, "image", pa.array(images))
    (tmp_path / "corpus").mkdir()
    for part in range(4):
        pq.write_table(table.slice(part * 12, 12), tmp_path / "corpus" / f"{part}.parquet")
    options = {"backbone": str(write_open_clip(tmp_path / "tiny")), "cache": False, "device": "cpu"}
    scorer = capscore.load("mcs", **options)
    scores = scorer.score(table.column("caption").to_pylist(), images, on_error="skip").scores
    options |= {"workers": 2, "batch_rows": 6, "metric": "mcs", "on_error": "skip"}
    lowest = float(np.nanmedian(scores)) - 1e-6
    stay = np.flatnonzero(scores >= lowest)
    folders = tmp_path / "corpus", tmp_path / "kept"
    assert score_corpus(*folders, min_score=lowest, **options) == len(stay) < 48
    found = pq.read_table(tmp_path / "kept").sort_by("id")
    np.testing.assert_allclose(found.column("mcs").to_numpy(), scores[stay], atol=1e-6)
    assert found.select(table.column_names).to_pylist() == table.take(stay).to_pylist()
    files = [*(tmp_path / "kept").glob("*.parquet")]
    assert len(files) >= 2  # both workers had a part
    assert all(pq.read_schema(file).field("capscore_error").type == pa.string() for file in files)
