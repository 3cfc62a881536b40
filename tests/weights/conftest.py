"""What tests of the weights share."""

import warnings

import datasets
import pytest


@pytest.fixture(scope="module")
def prepared_here(tmp_path_factory):
    """Prepared rows of benchmarks go into a folder of the module's tests."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("prepared"))
        datasets.disable_progress_bars()
        yield
