"""Mark calibration: its network, its folder."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from capscore.errors import BackboneUnavailable, CapscoreError
from capscore.infometic.mark_calibration import (
    MarkNetwork,
    MarkNetworkConfig,
    PhotoBatch,
    load_mark_calibration,
    save_mark_calibration,
)
from tests.infometic.tiny_marks import SIZES, seen_photos, tiny_marks

WORDS = torch.nn.functional.normalize(torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(1)), dim=2)
CLASSES = torch.tensor([[0, 1, 2, 4], [0, 0, 3, 1], [4, 2, 1, 0]])


@pytest.fixture(scope="module")
def loaded():
    return tiny_marks()


def test_a_word_is_judged_without_its_neighbours(loaded):
    seen = seen_photos(3)
    together = loaded.network.word_logits(seen, WORDS, CLASSES)
    alone = loaded.network.word_logits(
        PhotoBatch(*(part[1:2] for part in vars(seen).values())), WORDS[1:2, 2:3], CLASSES[1:2, 2:3]
    )
    assert together[1, 2].item() == pytest.approx(alone[0, 0].item(), abs=1e-6)


def test_padding_of_windows_changes_nothing(loaded):
    seen = seen_photos(3)
    more = PhotoBatch(
        seen.cells,
        seen.whole,
        torch.cat([seen.windows, torch.full((3, 2, 8), 9.0)], dim=1),
        torch.cat([seen.mask, torch.zeros(3, 2, dtype=torch.bool)], dim=1),
    )
    first, second = (loaded.network.word_logits(one, WORDS, CLASSES) for one in (seen, more))
    assert torch.allclose(first, second, atol=1e-6)


def test_one_window_is_enough(loaded):
    seen = seen_photos(2)
    few = PhotoBatch(seen.cells, seen.whole, seen.windows[:, :1], seen.mask[:, :1])
    assert torch.isfinite(loaded.network.word_logits(few, WORDS[:2], CLASSES[:2])).all()


def test_a_box_holds_the_centre_of_its_cell(loaded):
    logits, boxes = loaded.network.object_boxes(torch.randn(2, 6, SIZES.reduced), 2, 3)
    assert logits.shape == (2, 6)
    x = torch.tensor([1, 3, 5, 1, 3, 5]) / 6
    y = torch.tensor([1, 1, 1, 3, 3, 3]) / 4
    assert ((boxes[..., 0] < x) & (x < boxes[..., 2]) & (boxes[..., 1] < y) & (y < boxes[..., 3])).all()


def test_features_of_a_caption_without_words(loaded):
    seen = seen_photos(2)
    none = torch.zeros(2, 0)
    features = loaded.network.fit_features(seen, seen.whole, none, none.bool())
    assert torch.isfinite(features).all()
    assert features[:, 3:].abs().max() == 0


def test_features_of_a_caption():
    """By hand: cosine .6, background cosines 0 and 1 (mean .5, standard deviation .7071), best window .8."""
    sizes = replace(SIZES, dim=2, background=2)
    network = MarkNetwork(sizes)
    network.background.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    seen = PhotoBatch(
        torch.zeros(1, 6, SIZES.reduced),
        torch.tensor([[0.6, 0.8]]),
        torch.tensor([[[0.8, 0.6], [0.0, 1.0]]]),
        torch.ones(1, 2).bool(),
    )
    logits = torch.tensor([[2.0, -1.0, 9.0]])
    found = network.fit_features(
        seen, torch.tensor([[1.0, 0.0]]), logits, torch.tensor([[True, True, False]])
    )
    expected = [3.0, (0.6 - 0.5) / np.sqrt(0.5) / 2, 4.0, 0.25, -1 / 3, 0.5, np.log(3) / 2, 1.0]
    assert found[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_features_of_words_in_a_caption():
    """By hand: two words, the second likely wrong; without it the caption is nearer to the photo."""
    network = MarkNetwork(replace(SIZES, dim=2, background=2))
    network.background.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    naming_by_cosine(network)
    seen = PhotoBatch(
        torch.zeros(1, 6, SIZES.reduced),
        torch.tensor([[1.0, 0.0]]),
        torch.tensor([[[0.8, 0.6]]]),
        torch.ones(1, 1).bool(),
    )
    found = network.word_features(
        seen,
        torch.tensor([[0.6, 0.8]]),
        torch.tensor([[[0.0, 1.0], [1.0, 0.0], [9.0, 9.0]]]),
        torch.tensor([[3.0, -1.0, 7.0]]),
        torch.tensor([[True, True, False]]),
        torch.tensor([[0, 4, 0]]),
        network.best_window_logits(seen, torch.tensor([[[0.6, 0.8], [0.0, 1.0], [0.0, 0.0]]])),
    )
    clear = (0.6 - 0.7) / np.sqrt(0.02)
    # own, mean of the others, differences from it and from the lowest other, gain, gain above the other's,
    # gain with the best window, cosine, the same beside the background, number of the others, whether it
    # names the window: cosine · 5 + 0.25
    of_caption = [3.0, clear / 2, np.log(2) / 2]
    first = [1.5, -0.5, 2.0, 2.0, 12.0, (0.6 + 0.4) * 20, (0.96 - 0.6) * 20, *of_caption, 5.05 / 2]
    second = [-0.5, 1.5, -2.0, -2.0, -8.0, -20.0, (0.96 - 0.8) * 20, *of_caption, 3.25 / 2]
    assert found[0, 0].tolist() == pytest.approx([*first, 1, 0, 0, 0, 0], abs=1e-5)
    assert found[0, 1].tolist() == pytest.approx([*second, 0, 0, 0, 0, 1], abs=1e-5)


def test_a_word_alone_in_its_caption(loaded):
    seen = seen_photos(1)
    one = torch.ones(1, 1)
    highest = loaded.network.best_window_logits(seen, seen.windows[:, :1])
    rest = seen.windows[:, 1:2]
    found = loaded.network.word_features(seen, seen.whole, rest, one, one.bool(), one.long(), highest)
    assert torch.isfinite(found).all() and found[0, 0, 3] == 0 and found[0, 0, 9] == 0
    assert torch.isfinite(loaded.network.in_caption_logits(found)).all()


def test_features_of_a_mention():
    """By hand: one noun like the region, one verb unlike it."""
    region, noun, verb, whole = [1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.8, 0.6]
    network = MarkNetwork(replace(SIZES, dim=2))
    naming_by_cosine(network)
    words, regions, photo = torch.tensor([[noun, verb]]), torch.tensor([[region]]), torch.tensor([whole])
    found = network.mention_features(
        regions,
        torch.tensor([[[0.0, 0.0, 0.5, 0.5]]]),
        photo,
        torch.tensor([noun]),
        words,
        torch.tensor([[True, True]]),
        torch.tensor([[True, False]]),
        network.naming_logits(words, regions, photo),
    )
    named = 5 * 0.6 + 0.25
    expected = [3.0, -1.5, 3.0, (0.6 - 0.96) * 5, 3.0, 4.0, 0.5, 1.5, named / 2, named / 2]
    assert found[0, 0].tolist() == pytest.approx(expected, abs=1e-6)


def naming_by_cosine(network: MarkNetwork) -> None:
    """Nothing learned, only the cosine and a bias."""
    network.named_word.weight.data.zero_()
    network.named_cosine.data[:] = torch.tensor([1.0, 0.25])


def test_which_word_names_which_region():
    """The second way: one word and one region at a time."""
    network = tiny_marks().network
    seen = seen_photos(2)
    words, regions = WORDS[:2], seen.windows
    found = network.naming_logits(words, regions, seen.whole)
    for photo, word, region in ((0, 0, 1), (1, 2, 4)):
        one, other, whole = words[photo, word], regions[photo, region], seen.whole[photo]
        told = network.named_word.weight @ one * 20
        shown = network.named_region.weight @ torch.cat([other, other - whole]) * 20
        weight, bias = network.named_cosine.tolist()
        expected = (told @ shown) / np.sqrt(SIZES.named) + weight * 5 * (one @ other) + bias
        assert found[photo, word, region].item() == pytest.approx(expected.item(), abs=1e-4)


def test_without_windows_no_word_is_seen_in_one():
    network, seen = tiny_marks().network, seen_photos(2)
    none = PhotoBatch(seen.cells, seen.whole, seen.windows, torch.zeros(2, 5).bool())
    assert network.best_window_logits(none, WORDS[:2]).unique().tolist() == [-6.0]
    none = PhotoBatch(seen.cells, seen.whole, seen.windows[:, :0], none.mask[:, :0])
    assert network.best_window_logits(none, WORDS[:2]).unique().tolist() == [-6.0]


@pytest.mark.parametrize("value", [0, -1, True, 2.5, 10**6])
def test_a_bad_size(value):
    with pytest.raises(CapscoreError, match="hidden"):
        MarkNetworkConfig(hidden=value)


# ------------------------------------------------------------------ folders


def test_a_folder_gives_the_calibration_back(loaded, tmp_path):
    save_mark_calibration(loaded, tmp_path)
    again = load_mark_calibration(tmp_path)
    seen = seen_photos(3)
    with torch.inference_mode():
        expected = loaded.network.word_logits(seen, WORDS, CLASSES)
        found = again.network.word_logits(seen, WORDS, CLASSES)
    assert torch.allclose(found, expected, atol=2e-2)  # its weights are stored in float16
    assert again.nouns == loaded.nouns
    curve, read = loaded.words["shared"]["noun"], again.words["shared"]["noun"]
    assert read == again.mentions and read.quantiles == pytest.approx(curve.quantiles)
    assert again.name.startswith("w") and len(again.name) == 9


def test_the_name_changes_with_the_calibration(loaded, tmp_path):
    save_mark_calibration(loaded, tmp_path)
    before = load_mark_calibration(tmp_path).name
    record = json.loads((tmp_path / "config.json").read_text())
    record["calibration"]["words"]["shared"]["noun"]["bias"] += 1
    (tmp_path / "config.json").write_text(json.dumps(record))
    assert load_mark_calibration(tmp_path).name != before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "bert"}, "of type 'bert'"),
        ({"format": 1}, "format 1"),
        ({"sizes": {"dim": 8}}, "do not fit"),
        ({"sizes": None}, "not that of a mark calibration"),
        ({"weights": "0" * 32}, "interrupted"),
        ({"nouns": [1]}, "not that of a mark calibration"),
        ({"calibration": {"words": {}}}, "not that of a mark calibration.*alone"),
        ({"calibration": 7}, "not that of a mark calibration"),
    ],
)
def test_a_damaged_config(loaded, tmp_path, change, said):
    save_mark_calibration(loaded, tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises((BackboneUnavailable, CapscoreError), match=said):
        load_mark_calibration(tmp_path)


def test_a_missing_folder(tmp_path):
    with pytest.raises(BackboneUnavailable):
        load_mark_calibration(tmp_path / "nowhere")


def test_sizes_that_do_not_fit_the_weights(loaded, tmp_path):
    save_mark_calibration(loaded, tmp_path)
    path = tmp_path / "config.json"
    record = json.loads(path.read_text())
    record["sizes"]["inner"] += 1
    path.write_text(json.dumps(record))
    with pytest.raises(BackboneUnavailable, match="shape"):
        load_mark_calibration(tmp_path)


def test_another_backbone(loaded, tmp_path, embedded):
    save_mark_calibration(loaded, tmp_path)
    with pytest.raises(CapscoreError, match="is for the backbone tiny@w0, not for embedded@"):
        load_mark_calibration(tmp_path, backbone=embedded)
