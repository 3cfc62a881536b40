"""Settings of all tests: no Hub, no network beyond this machine, no files outside the test's own folder."""

import atexit
import copy
import functools
import itertools
import os
import shutil
import signal
import tempfile
from importlib.metadata import PackageNotFoundError

from .python_source import hold_the_collector_while_parsing

# A shell that starts the tests in the background makes them, and every process that they start, ignore
# Ctrl-C; but some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

hold_the_collector_while_parsing()

# Set before any test imports the Hugging Face libraries, which read them once.
_OFFLINE = "HF_HUB_OFFLINE HF_DATASETS_OFFLINE HF_EVALUATE_OFFLINE TRANSFORMERS_OFFLINE"
os.environ |= dict.fromkeys([*_OFFLINE.split(), "HF_HUB_DISABLE_TELEMETRY"], "1")
os.environ |= dict.fromkeys(("GRADIO_ANALYTICS_ENABLED", "TOKENIZERS_PARALLELISM"), "false")
for name in "HF_HUB_CACHE HF_DATASETS_CACHE HF_MODULES_CACHE HF_METRICS_CACHE CAPSCORE_BACKBONE".split():
    os.environ.pop(name, None)
# The caches of embeddings, data sets, scripts and models are in a folder of this run, whoever runs it.
_CACHES = tempfile.mkdtemp(prefix="capscore-tests-")
atexit.register(shutil.rmtree, _CACHES, ignore_errors=True)
for name, folder in (("HF_HOME", "hub"), ("CAPSCORE_CACHE", "embeddings"), ("PYTHAINLP_DATA", "pythainlp")):
    os.environ[name] = os.path.join(_CACHES, folder)

import pytest
import torch
from hypothesis import HealthCheck, settings

from capscore import load_backbone
from capscore.backbones import find

# Tiny towers gain nothing from threads, and on a busy machine waiting threads cost a hundred times the work.
# `make test-kernels` asks for more, as numbers must not depend on it.
torch.set_num_threads(int(os.environ.get("CAPSCORE_TEST_THREADS", "1")))


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="slow tests too, every hostile input, new examples")


def pytest_configure(config):
    """Examples are the same in each run, and may take long on a busy machine."""
    every = config.getoption("--all")
    unhurried = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("capscore", derandomize=not every, max_examples=30, **unhurried)
    settings.load_profile("capscore")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--all"):
        skipped = pytest.mark.skip(reason="slow; --all runs it")
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(skipped)


_tests = itertools.count()


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch):
    """A folder for each test, which is not made: pytest would look at all that there are to number it."""
    monkeypatch.setenv("CAPSCORE_CACHE", os.path.join(_CACHES, f"embeddings-{next(_tests)}"))


@pytest.fixture(scope="session")
def embedded():
    return load_backbone("embedded", device="cpu")


@pytest.fixture(scope="session")
def embedded_free():
    """The backbone `embedded-free`, loaded once: its numbers are fixed, so that tests may state them."""
    return load_backbone("embedded-free", device="cpu")


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory):
    """Kind of `tools.tiny.backbones` → its tiny checkpoint, written once; not to be changed."""
    from tools.tiny.backbones import Checkpoint

    return functools.cache(lambda kind: Checkpoint(kind, tmp_path_factory.mktemp(kind.replace(" ", "-"))))


@pytest.fixture(scope="session")
def backbones(checkpoints, embedded, embedded_free):
    """Kind → its tiny backbone, loaded once; not to be changed."""
    made = {"embedded": embedded, "embedded-free": embedded_free}
    return functools.cache(lambda kind: made.get(kind) or checkpoints(kind).load())


@pytest.fixture
def online(monkeypatch, tmp_path):
    from tools.tiny.loopback_hub import allow_network

    allow_network(monkeypatch, tmp_path / "hub")


@pytest.fixture
def hub(online, monkeypatch):
    from tools.tiny.loopback_hub import LoopbackHub, taken_for_the_hub

    with taken_for_the_hub(LoopbackHub(), monkeypatch) as hub:
        yield hub


@pytest.fixture(scope="session")
def base_of_pr_mcs(backbones):
    """What `embedded-pr-mcs` was fine-tuned from."""
    return backbones(find("embedded-pr-mcs").base)


def _not_found(name):
    raise PackageNotFoundError(name)


@pytest.fixture
def no_weights_installed(monkeypatch):
    monkeypatch.setattr("capscore.files.shipped.find_spec", lambda name: None)
    monkeypatch.setattr("capscore.files.shipped.version", _not_found)


@pytest.fixture(scope="module")
def embedded_is_read_once(embedded, embedded_free):
    """Within a module, the embedded backbones are copied where they would be read from their files again."""
    from capscore.backbones.embedded import backbone, text_encoder

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backbone, "load_embedded", _copied(embedded, backbone.load_embedded))
        patch.setattr(backbone, "load_free", _copied(embedded_free, backbone.load_free))
        read_once = functools.cache(text_encoder.read_package)
        patch.setattr(text_encoder, "read_package", _package_copied(read_once))
        yield


def _copied(loaded, read):
    def load(*, device=None, dtype=None):
        same = device == loaded.device and dtype in (None, loaded.dtype)
        return copy_of(loaded) if same else read(device=device, dtype=dtype)

    return load


def _package_copied(read):
    def copied(*given):
        arrays, eps, tokenizer = read(*given)
        return {name: array.copy() for name, array in arrays.items()}, eps, tokenizer

    return copied


def copy_of(backbone):
    """A backbone to be changed, in place of one that is not."""
    # nothing changes a tokenizer, and its copy would be parsed anew: half a second
    kept = [value for name, value in vars(backbone).items() if "tokenizer" in name]
    return copy.deepcopy(backbone, {id(value): value for value in kept})
