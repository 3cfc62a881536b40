"""Global switches of torch, transformers and Pillow are as they were, however threads overlap."""

import threading
import warnings
from contextlib import contextmanager

import pytest
import torch
import transformers.utils.logging as transformers_log
from PIL import ImageFile

from capscore.backbones.base import exact_convolutions
from capscore.backbones.checkpoint import quietly_refusing
from capscore.errors import LanguageWarning, RowWarning, warn, warnings_taken, without_warnings
from capscore.images import load

SWITCHES = {
    "torch": (lambda: exact_convolutions("float32"), lambda: torch.backends.cudnn.allow_tf32, False),
    "transformers": (
        lambda: quietly_refusing("a folder"),
        lambda: (transformers_log.get_verbosity(), transformers_log.is_progress_bar_enabled()),
        (40, False),
    ),
    "Pillow": (lambda: load._TRUNCATED_IMAGES.at(False), lambda: ImageFile.LOAD_TRUNCATED_IMAGES, False),
}


@contextmanager
def running(work):
    """Work in a thread, which has come to its `wait()`; what is given lets it go on, to its end."""
    entered, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=work, args=[lambda: entered.set() or leave.wait(300)])
    thread.start()
    entered.wait(300)
    yield lambda: leave.set() or thread.join(300)


@pytest.mark.parametrize("name", SWITCHES)
def test_blocks_that_overlap_hold_a_switch_and_leave_it_as_it_was(name, monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    block, read, within = SWITCHES[name]
    before, seen = read(), []

    def first(wait):
        with block():
            wait()
        seen.append(read())  # the second block still holds the switch

    with running(first) as end, block():
        end()
        seen.append(read())
    assert before != within and seen == [within, within] and read() == before


def test_a_block_drops_or_takes_the_warnings_of_its_own_thread_and_leaves_the_filters_alone():
    before, heard = [*warnings.filters], []

    def first(wait):
        with warnings_taken() as taken, without_warnings(RowWarning):
            wait()
            warn(RowWarning("dropped"))
            warn(LanguageWarning("taken"))
        heard.extend(map(str, taken))

    with running(first) as end, pytest.warns(RowWarning, match="given"), without_warnings(LanguageWarning):
        end()
        warn(RowWarning("given"))
        warn(LanguageWarning("dropped"))
    assert heard == ["taken"] and [*warnings.filters] == before
