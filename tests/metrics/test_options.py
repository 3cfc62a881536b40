"""The options of metrics: what load, the modules and the commands take is what the classes document."""

import inspect
import math
import subprocess
import sys

import pytest

import capscore
from capscore.errors import InputError, OptionError
from capscore.metrics.base import Scorer
from capscore.metrics.loading import all_options, options_of
from capscore.registry import METRICS

WITH_BACKBONE = [metric for metric in METRICS.names() if METRICS.get(metric).takes_backbone]


@pytest.mark.parametrize("metric", METRICS.names())
def test_every_argument_of_a_metric_is_a_documented_option(metric):
    parameters = inspect.signature(METRICS.get(metric)).parameters.values()
    takes = {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
    takes.pop("seed", None)  # of InfoMetIC's clusters; not an option of load
    assert takes == {name: option.default for name, option in options_of(metric).items() if option.own}


@pytest.mark.parametrize("metric", METRICS.builtin)
def test_a_metric_says_what_it_is(metric):
    kind = METRICS.get(metric)
    assert kind.metric == metric and issubclass(kind, Scorer) and kind.title and kind.citation
    assert bool(kind.default_backbone) == kind.takes_backbone == hasattr(kind, "backbone")


def test_every_option_has_a_summary_and_the_choices_of_its_type():
    options = all_options()
    assert options["variant"].choices == ("coco", "paper")
    assert options["empty"].choices == ("raise", "score", "skip")
    assert options["n_regions"].type is int
    assert options["beta"].metrics == ("infometic",) and options["device"].metrics == tuple(WITH_BACKBONE)
    for option in options.values():
        assert option.summary[0].isupper() and option.summary[-1] == ".", option


def test_a_permission_that_is_not_given_and_none_say_nothing():
    capscore.load("bleu", allow_urls=False, backbone=None)
    with pytest.raises(OptionError, match=r"progress=False: an option of mcs, .*, not of bleu"):
        capscore.load("bleu", progress=False)


@pytest.mark.parametrize(
    ("metric", "given", "message"),
    [
        ("mcs", {"bakbone": "embedded"}, "mcs takes no bakbone='embedded'; its opt"),
        (
            "cider",
            {"varant": "paper"},
            "cider takes no varant='paper'; its options: doc",
        ),
        ("cider_d", {"variant": "paper"}, "variant='paper': an option of cider, not of cider_d"),
    ],
)
def test_a_misspelt_option(metric, given, message):
    with pytest.raises(OptionError) as caught:
        capscore.load(metric, **given)
    assert str(caught.value).startswith(message)
    # a wrong keyword is a TypeError in Python
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("metric", "option", "wrong"),
    [
        ("mcs", "batch_size", 0),
        ("mcs", "batch_size", True),
        ("mcs", "prefix", 3),
        ("cider", "variant", "D"),
        ("clip_cider", "clip", "clip"),
        ("infometic", "n_regions", 2.0),
        ("infometic", "beta", 1),
        ("infometic", "beta", math.inf),
        ("infometic", "beta", math.nan),
    ],
)
def test_a_wrong_value_names_its_option(metric, option, wrong):
    with pytest.raises(InputError) as caught:
        capscore.load(
            metric, **{option: wrong}, **({"backbone": "embedded"} if metric in WITH_BACKBONE else {})
        )
    assert caught.value.option == option
    assert f"{option}={wrong!r}: " in str(caught.value)


def test_reading_the_options_needs_no_torch():
    code = (
        "import sys, capscore.metrics.loading as loading; loading.all_options()\n"
        "print(sorted({'torch', 'transformers', 'datasets', 'evaluate'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
