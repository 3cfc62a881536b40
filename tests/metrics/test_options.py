"""The options of metrics: what load, the modules and the commands take is what the classes document."""

import math

import numpy as np
import pandas
import pytest

import capscore
from capscore.errors import CapscoreError, InputError
from capscore.metrics.loading import all_options, options_of
from capscore.metrics.mcs import MCS
from capscore.options import OutputOptions, RowOptions
from capscore.registry import METRICS, register_metric
from tools.tiny.colours import ColourBackbone

UNUSABLE = ("x" * 5_000, "a\0b")  # no file system takes such names
WITH_BACKBONE = [metric for metric in METRICS.names() if METRICS.get(metric).takes_backbone]


def test_options_have_the_types_choices_and_metrics_of_their_classes():
    options = all_options()
    assert options["variant"].choices == ("coco", "paper")
    assert options["empty"].choices == ("worst", "score", "skip", "raise")
    assert options["beta"].metrics == ("infometic",) and options["device"].metrics == tuple(WITH_BACKBONE)
    types = {"n_regions": int, "beta": float, "prefix": str, "allow_urls": bool}
    assert {name: options[name].type for name in types} == types
    assert list(options_of("cider_d")) == ["document_frequencies", "empty"]
    # these ask for nothing
    capscore.load("bleu", allow_urls=False, backbone=None, progress=False, cache=False)


@pytest.mark.parametrize(
    ("metric", "options", "message"),
    [
        ("mcs", {"bakbone": "embedded"}, "^mcs takes no bakbone='embedded'; its options: backbone"),
        ("cider_d", {"variant": "paper"}, "^variant='paper': an option of cider, not of cider_d"),
        ("text_score", {"allow_urls": True}, "^allow_urls=True: an option of mcs, .*, not of text_score"),
        *(("cider", {"document_frequencies": name}, "cannot be read") for name in ("gone.npz", *UNUSABLE)),
        *(("chair", {"instances": name}, "cannot be read") for name in UNUSABLE),
        *(("fit", {"background": name, "backbone": ColourBackbone()}, "background") for name in UNUSABLE),
        *(("judge", {"backbone": name}, "there is no such folder") for name in UNUSABLE),
        ("judge", {"top_logprobs": pandas.NA}, "top_logprobs=<NA> goes with a server"),
        ("cider", {"document_frequencies": {"a": 1}}, "document_frequencies={'a': 1}: .* a path"),
    ],
)
def test_options_that_do_not_fit_are_named(metric, options, message):
    with pytest.raises(CapscoreError, match=message):
        capscore.load(metric, **options)


@pytest.mark.parametrize(
    ("metric", "option", "wrong"),
    [
        *(("mcs", "batch_size", value) for value in (0, 2.5, "8", True)),
        *(("mcs", "prefix", 5), ("cider", "variant", "D"), ("clip_cider", "clip", "mcs")),
        *(("infometic", "n_regions", value) for value in (2.0, 0, True)),
        *(("infometic", "beta", value) for value in (1, -0.1, math.nan, "high")),
        *(("infometic", "false_alarms", value) for value in (0, 0.6, True)),
        ("infometic", "regions", "window"),
        *(("mcs", "allow_urls", value) for value in ("no", 1)),
        *(("judge", "explain", pandas.NA), ("chair", "instances", object())),
        ("infometic", "progress", "no"),
    ],
)
def test_a_wrong_value_names_its_option_before_a_backbone_is_loaded(metric, option, wrong):
    backbone = {"backbone": "./nowhere"} if metric in WITH_BACKBONE else {}
    with pytest.raises(InputError) as caught:
        capscore.load(metric, **{option: wrong}, **backbone)
    assert caught.value.option == option and f"{option}={wrong!r}" in str(caught.value)


@pytest.mark.parametrize(("options", "name"), [(RowOptions, "allow_urls"), (OutputOptions, "force")])
@pytest.mark.parametrize("value", ["no", 1, None], ids=repr)
def test_permissions_are_true_or_false(options, name, value):
    with pytest.raises(InputError, match=f"^{name}={value!r}: expected True or False$"):
        options(**{name: value})


def test_an_option_of_a_class_goes_to_the_class_also_where_the_embedder_has_one_of_that_name():
    class Own(MCS):
        """Own.

        Args:
            batch_size: Number of rows.
        """

        def __init__(self, embedder, *, batch_size: int = 3, **more):
            super().__init__(embedder, **more)

    register_metric("own")(Own)
    try:
        options = options_of("own")
    finally:
        METRICS.unregister("own")
    assert (options["batch_size"].own, options["batch_size"].default) == (True, 3)
    assert options["prefix"].own and not options["device"].own


def test_the_prefix_of_clip_score_is_the_metrics_unless_the_backbone_states_another(backbones):
    towers, captions, photo = backbones("clip"), ["a black dog", "一只狗"], np.zeros((8, 8, 3), np.uint8)
    assert not towers.states_prefix and not towers.prefix  # a folder that says nothing

    def score(metric, **options):
        return capscore.load(metric, backbone=towers, cache=False, **options).score(captions, [photo] * 2)

    published = score("clip_score")
    for same in (score("mcs", prefix="A photo depicts "), score("clip_score", prefix="A photo depicts")):
        assert same.scores.tolist() == published.scores.tolist()
        assert "|prefix:A%20photo%20depicts%20|" in same.signature
    for none in (score("mcs"), score("clip_score", prefix="")):
        assert "|prefix:none|" in none.signature and none.scores.tolist() != published.scores.tolist()
