"""CapTokenEval: its columns are what its protocol takes."""

from __future__ import annotations

import pytest

import capscore
from capscore.benchmarks.data.load import benchmark_builder
from capscore.benchmarks.protocols import captokeneval

from .official import captokeneval as official

pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


@pytest.fixture
def data_dir(tmp_path):
    official.write(tmp_path)
    return tmp_path


def test_counts(data_dir):
    builder = benchmark_builder("captokeneval", data_dir=data_dir)
    rows = [row for _, row in builder.checked_rows("test")]
    assert builder.count(rows) == {"rows": 2, "images": 2, "words": 7, "semantic words": 4, "regions": 3}


def test_rows_go_into_the_protocol(data_dir):
    rows = capscore.load_benchmark("captokeneval", data_dir=data_dir, split="test")
    everything_right = [[1.0] * len(words) for words in rows["words"]]
    everything_mentioned = [[1.0] * len(boxes) for boxes in rows["regions"]]
    found = captokeneval(
        everything_right,
        rows["word_labels"],
        rows["semantic"],
        everything_mentioned,
        rows["region_labels"],
    )
    # of the semantic words two, dogs, sofa and kite two are right; of three regions one is mentioned
    shares = {name: (found.details[name]["right"], found.details[name]["n"]) for name in ("vision", "text")}
    assert shares == {"vision": (1, 3), "text": (2, 4)}
