"""What tests of the weights share."""

import datasets
import pytest


@pytest.fixture(scope="module")
def prepared_here(tmp_path_factory):
    """Prepared rows of benchmarks go into a folder of the module's tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("prepared"))
        datasets.disable_progress_bars()
        yield


def pytest_collection_modifyitems(items):
    """Tiny files never have the published number of rows."""
    for item in items:
        if "prepared_here" in item.fixturenames:
            item.add_marker(pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning"))
