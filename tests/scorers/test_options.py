"""The table of options: what load, the modules and the commands take is what the scorers take."""

import inspect
import subprocess
import sys

import pytest

import capscore
from capscore.errors import InputError, OptionError
from capscore.metrics import scorer_class
from capscore.metrics.base import Scorer
from capscore.metrics.catalogue import BOTH, IMAGES, METRICS, REFERENCES
from capscore.metrics.options import OPTIONS, MetricOptions, check_options, options_of

LONGEST = 80


@pytest.mark.parametrize("metric", METRICS)
def test_a_scorer_takes_the_options_that_the_table_gives_it(metric):
    parameters = inspect.signature(scorer_class(metric)).parameters.values()
    takes = {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
    takes.pop("seed", None)  # of InfoMetIC's clusters; not an option of load
    own = {name: option.default for name, option in options_of(metric).items() if option.own}
    assert takes == own


@pytest.mark.parametrize("metric", METRICS)
def test_the_catalogue_says_what_the_class_says(metric):
    entry, kind = METRICS[metric], scorer_class(metric)
    assert kind.metric == metric and issubclass(kind, Scorer)
    assert kind.needs_images == (entry.looks_at in (IMAGES, BOTH))
    assert kind.needs_references == (entry.looks_at in (BOTH, REFERENCES))
    assert hasattr(kind, "backbone") == entry.has_backbone


@pytest.mark.parametrize("name", OPTIONS)
def test_entries_can_be_shown_in_one_line(name):
    option = OPTIONS[name]
    assert option.name == name and option.metrics and set(option.metrics) <= set(METRICS)
    assert option.help[0].isupper() and option.help[-1] not in ".:" and len(option.help) <= LONGEST
    assert option.check(option.default) == option.default


def test_help_and_signature_of_load_show_the_options():
    parameters = inspect.signature(capscore.load).parameters
    assert list(parameters) == ["metric", *OPTIONS] == ["metric", *MetricOptions.__annotations__]
    assert parameters["n_regions"].default == 20
    assert "        n_regions: Number of regions to score per image (for infometic). Default: 20." in (
        capscore.load.__doc__
    )


def test_a_permission_that_is_not_given_and_none_say_nothing():
    capscore.load("bleu", trust_remote_code=False, allow_urls=False, backbone=None)
    with pytest.raises(OptionError, match="bleu takes no progress=False; its options: empty, per_row"):
        capscore.load("bleu", progress=False)


@pytest.mark.parametrize(
    ("metric", "given", "message"),
    [
        ("mcs", {"bakbone": "embedded"}, "mcs takes no bakbone='embedded'; did you mean backbone? Its opt"),
        (
            "cider",
            {"varant": "paper"},
            "cider takes no varant='paper'; did you mean variant? Its options: doc",
        ),
        ("cider_d", {"variant": "paper"}, "cider_d takes no variant='paper'; its options: document_freq"),
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
    ],
)
def test_a_wrong_value_names_its_option(metric, option, wrong):
    with pytest.raises(InputError) as caught:
        check_options(metric, {option: wrong})
    assert caught.value.option == option
    assert str(caught.value).startswith(f"{option}={wrong!r}: expected ")


def test_importing_the_table_is_quick():
    code = (
        "import sys, capscore.metrics.options\n"
        "print(sorted({'numpy', 'torch', 'datasets', 'evaluate', 'PIL'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
