"""Ray Data: a Parquet corpus on a local cluster of two workers, through the example of the documentation."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import capscore
from capscore.errors import InputError, MissingExtraError
from capscore.integrations.ray import Score

from ..photos import encode
from ..toy import BLUE, GREEN, RED, ColourBackbone, JudgingColours

ROOT = Path(__file__).parents[1]
PIXELS = {"red": RED, "green": GREEN, "blue": BLUE}
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra ray")


def corpus(folder: Path, n_rows: int = 48, n_files: int = 4) -> pa.Table:
    names = [*PIXELS]
    table = pa.table(
        {
            "id": list(range(n_rows)),
            "image": [encode(PIXELS[names[row % 3]]) for row in range(n_rows)],
            "caption": [f"{names[row % 3]} {names[row % 2]}" for row in range(n_rows)],
            "references": [[names[row % 3], "red blue"][: 1 + row % 2] for row in range(n_rows)],
        }
    )
    folder.mkdir()
    size = n_rows // n_files
    for part in range(n_files):
        pq.write_table(table.slice(part * size, size), folder / f"{part}.parquet")
    return table


def batch_of(table: pa.Table) -> dict[str, np.ndarray]:
    """As Ray Data gives it to a function."""
    return {name: table.column(name).to_pandas().to_numpy().copy() for name in table.column_names}


@needs_ray
def test_a_batch_gets_columns(tmp_path):
    table = corpus(tmp_path / "corpus")
    score = Score(["mcs", "ref_clip_score"], backbone=ColourBackbone(), cache=False, language="en")
    found = score(batch_of(table))
    assert [*found][:4] == ["id", "image", "caption", "references"]
    assert found["mcs"].dtype == np.float64
    # the photo's colour alone: 2.5; another one beside it: 2.5 / √2
    np.testing.assert_allclose(found["mcs"][:4], [2.5, 2.5, 1.767767, 1.767767], atol=1e-6)
    rows = table.to_pylist()
    whole = capscore.load("ref_clip_score", backbone=ColourBackbone(), cache=False).score(
        [row["caption"] for row in rows], [row["image"] for row in rows], [row["references"] for row in rows]
    )
    np.testing.assert_allclose(found["ref_clip_score"], whole.scores, atol=1e-6)
    empty = score({name: values[:0] for name, values in batch_of(table).items()})
    assert len(empty["mcs"]) == 0


@needs_ray
def test_details_of_pr_mcs_are_columns(tmp_path):
    found = Score("pr_mcs", backbone=JudgingColours(), cache=False)(batch_of(corpus(tmp_path / "corpus")))
    # "red red" has four tokens, of which three differ
    assert found["kept"].dtype == np.float64 and found["kept"][:2].tolist() == [0.75, 0.75]
    assert found["kind"].dtype == object and found["kind"][:3].tolist() == ["none"] * 3


@needs_ray
def test_a_poisoned_row(tmp_path):
    batch = batch_of(corpus(tmp_path / "corpus"))
    batch["image"][5] = b"no photo"
    options = {"backbone": ColourBackbone(), "cache": False}
    with pytest.raises(InputError, match=r"row 5 of its batch, counted from 0 \('blue green'\)"):
        Score("mcs", **options)(batch)
    found = Score("mcs", on_error="skip", **options)(batch)
    assert np.flatnonzero(np.isnan(found["mcs"])).tolist() == [5]
    assert [row for row, error in enumerate(found["capscore_error"]) if error] == [5]


@needs_ray
def test_cider_needs_frequencies():
    with pytest.raises(InputError, match="document_frequencies"):
        Score("cider")


def test_without_ray(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"capscore\[ray\]"):
        Score("rouge_l")


@pytest.fixture
def cluster(tmp_path_factory, monkeypatch):
    """A cluster of two workers on this machine."""
    import ray

    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    path = ":".join([str(ROOT), *sys.path])
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        configure_logging=False,
        log_to_driver=False,
        object_store_memory=100 * 2**20,
        _temp_dir=str(tmp_path_factory.mktemp("r")),
        runtime_env={"env_vars": {"PYTHONPATH": path, "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}},
    )
    yield
    ray.shutdown()


@needs_ray
def test_a_corpus_on_two_workers(tmp_path, cluster):
    """The example: the result is that of one process, and both workers had a part in it."""
    from ..backbones.tiny_open_clip import write_open_clip

    sys.path.insert(0, str(ROOT / "docs"))
    from score_with_ray import score_corpus

    table = corpus(tmp_path / "corpus")
    backbone = write_open_clip(tmp_path / "tiny")
    options = {"metric": ["mcs"], "backbone": str(backbone), "cache": False, "device": "cpu"}
    n_rows = score_corpus(tmp_path / "corpus", tmp_path / "scored", workers=2, batch_rows=6, **options)
    assert n_rows == 48
    found = pq.read_table(tmp_path / "scored").sort_by("id")
    rows = table.to_pylist()
    expected = capscore.load("mcs", backbone=str(backbone), cache=False, device="cpu").score(
        [row["caption"] for row in rows], [row["image"] for row in rows]
    )
    np.testing.assert_allclose(found.column("mcs").to_numpy(), expected.scores, atol=1e-6)
    assert len(list((tmp_path / "scored").glob("*.parquet"))) >= 2
