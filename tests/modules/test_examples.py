"""Every module has examples that run, and shows them where people look.

The checks are those of evaluate's own common test of metrics: each module loads, `_compute` takes no
`**kwargs`, and the doctest of its file has more than one example.
"""

from __future__ import annotations

import doctest
import inspect
import sys
from pathlib import Path

import evaluate
import pytest

import capscore

SLUGS = ["cider", "clip_score", "infometic", "mcs", "pr_mcs", "ref_clip_score"]


@pytest.fixture(scope="module", params=SLUGS)
def module(request, embedded_is_read_once):
    slug = request.param
    options = (
        {} if slug == "cider" else {"backbone": "embedded-pr-mcs" if slug == "pr_mcs" else "embedded-free"}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAPSCORE_BACKBONE", "embedded")
        yield evaluate.load(capscore.module_folder(slug), **options)


def test_slugs_are_the_folders():
    folders = Path(capscore.module_folder("mcs")).parent.iterdir()
    assert sorted(path.name for path in folders if (path / "app.py").is_file()) == SLUGS


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_examples_of_the_file_run(module):
    found = doctest.testmod(sys.modules[type(module).__module__], optionflags=doctest.ELLIPSIS)
    assert found.failed == 0 and found.attempted > 8


def test_compute_takes_named_arguments_only(module):
    kinds = {one.kind for one in inspect.signature(module._compute).parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}


def test_help_shows_inputs_outputs_and_examples(module):
    for text in (inspect.getdoc(type(module)), module.inputs_description):
        for part in ("Args:", "predictions (list of str)", "Returns:", '"signature"', "Examples:", ">>> "):
            assert part in text
        assert text.count(".compute(") >= 2
        assert max(map(len, text.splitlines())) <= 115
    assert module.description.splitlines()[0] in inspect.getdoc(type(module))
