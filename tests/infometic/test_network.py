"""The networks of InfoMetIC and InfoCLIP: config, numbers, switches, padding, gradients, initial weights."""

import json
import os
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from capscore.backbones.checkpoint import CONFIG, WEIGHTS
from capscore.errors import BackboneUnavailable, CapscoreError, InputError
from capscore.infometic.network import InfoCLIP, InfoMetIC, InfoMetICConfig, WordContext, load_aligner
from tools.tiny.pairs import TINY, context_of, encode, encode_texts, images_of, texts_of, tiny_model

PUBLIC_CODE = {"shared_norm": True, "text_positions": False, "global_box": True}
ONE_LAYER = {"inter_layers": 0, "intra_layers": 1}
NARROW_WORDS = {"context_width": 7, "width": 4, "sharpness": 0.5}
# Recall, precision, scores of the first region and piece, of an image of three regions and a text of five:
# as a second forward pass gave them, with loops in numpy, in float64, one pair alone and without padding.
SWITCHED = {
    "as in the paper": ({}, [-0.453179, -0.2209778, 0.378881, 0.2458441]),
    "as in the public code": (PUBLIC_CODE, [-0.8926846, 1.0147927, 0.3474936, 0.1792164]),
    "no box positions": ({"box_positions": False}, [-0.0662821, 1.1803971, 0.2967406, 0.1468819]),
    "no image in the fusion": ({"global_in_fusion": False}, [-0.5659474, -0.1737705, 0.3577411, 0.2468604]),
    "no null token": ({"null_token": False}, [-0.4120071, -0.3240376, 0.5260996, 0.2451763]),
    "input scale": ({"input_scale": 1.0}, [-0.3040386, -0.142544, 0.2908789, 0.2224927]),
    "narrow": ({"width": 4}, [-0.5590088, 0.1327196, 0.3519996, 0.1963405]),
    "one head": ({"heads": 1}, [-0.4379358, -0.2252018, 0.3511138, 0.2365261]),
    "no intra layers": ({"intra_layers": 0}, [-0.2465356, -0.5262361, 0.2658305, 0.1864672]),
    "no inter layers": (ONE_LAYER, [-0.4912239, -0.4142723, 0.3638354, 0.0405284]),
    "no layers": ({"intra_layers": 0, "inter_layers": 0}, [0.1838241, -1.0148523, 0.2982938, 0.1558744]),
    "words": ({"context_width": 3}, [-0.453179, -0.2348046, 0.378881, 0.2502469]),
    "words, narrow and blunter": (NARROW_WORDS, [-0.5590088, 0.3263543, 0.3519996, 0.2039897]),
}
PLAIN, READER = tiny_model(), tiny_model(replace(TINY, context_width=3))
FILLED, NO_NULL = (tiny_model(replace(TINY, **{name: False})) for name in ("mask_padding", "null_token"))
SIZES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=3)


def scores(model, images, texts, pairs, **padding):
    with torch.no_grad():
        return model.pairs(*encode(model, images, texts, **padding), *zip(*pairs, strict=True))


def of_text(model, text, context=None, *, mask=None):
    """Scores of one image with one text, whose scored pieces are those of the mask."""
    (t_g, tokens), parts = text, None
    if context is not None and model.reads_words:
        parts = WordContext(*(torch.from_numpy(np.array(part)).float()[None] for part in context))
    t_g, tokens = (torch.from_numpy(np.array(part)).float()[None] for part in (t_g, tokens))
    here = torch.ones(tokens.shape[:2]).bool()
    with torch.no_grad():
        images, _ = encode(model, images_of([3]), texts_of([1]))
        texts = model.encode_texts(t_g, tokens, here, None if mask is None else torch.tensor([mask]), parts)
        return model.pairs(images, texts, [0], [0])


def close(found, expected, atol=1e-6):
    return torch.allclose(found, expected, rtol=0, atol=atol)


def identity_network(**config):
    """No layers and the identity as every projection: products, softmax, mean and cosine remain."""
    switches = {"intra_layers": 0, "inter_layers": 0, "text_positions": False, "box_positions": False}
    model = InfoMetIC(InfoMetICConfig(heads=1, **switches, **config))
    with torch.no_grad():
        for linear in (model.region_query, model.region_key, model.token_query, model.token_key):
            linear.weight.copy_(torch.eye(config["dim"]))
    return model


IMAGE = (np.array([0.6, 0.8]), np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros((2, 4)))


def test_numbers_by_hand():
    model = identity_network(dim=2, input_scale=2.0)
    model.log_scale.data.fill_(np.log(10.0))
    text = (np.array([1.0, 0.0]), np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]))
    found = scores(model, [IMAGE], [text], [(0, 0)])
    # Everything comes in doubled. Regions: 2·2 = 4, 0, and 0 for null: e⁴ : 1 : 1; pieces: 2.4, 4, −2.4.
    assert found.region_scores[0].tolist() == pytest.approx([0.964663, 0.017668, 0.017668], abs=1e-6)
    assert found.token_scores[0].tolist() == pytest.approx([0.167750, 0.830870, 0.001381], abs=1e-6)
    # Regions' mean: 2·(0.964663, 0.017668); its cosine with (0.6, 0.8): 0.592933 / 0.964825. Pieces' mean:
    # x = 0.167750 + 0.6·0.830870 − 0.001381 = 0.664891, y = 0.8·0.830870 = 0.664696; x / √(x² + y²).
    assert found.recall.item() == pytest.approx(6.145494, abs=1e-5)
    assert found.precision.item() == pytest.approx(7.072106, abs=1e-5)
    assert found.overall.item() == pytest.approx(6.145494 + 7.072106, abs=2e-5)


def test_numbers_of_words_by_hand():
    model = identity_network(dim=2, input_scale=2.0, context_width=1, sharpness=0.5)
    with torch.no_grad():
        model.word_query.weight.copy_(10 * torch.eye(2))
        for name, row in (("image", [1, 0]), ("text", [0, 3]), ("alone", [1, 0]), ("added", [10, 0])):
            getattr(model, f"word_{name}").weight.copy_(torch.tensor([row]))
        model.word_image.bias.fill_(0.5)
        model.word_hidden.weight.fill_(1.0)
        model.word_hidden.bias.fill_(-1.0)
        model.word_out.weight.fill_(0.5)
        model.log_scale.fill_(np.log(10.0))
    text = (np.array([1.0, 0.0]), np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0], [0.0, 1.0]]))
    context = np.array([[0.1, 0.0], [0.1, 0.0], [0.0, -0.05], [0.0, 0.0]]), np.array([0.5, 0.5, 1.0, 0.0])
    states, _ = encode(model, [IMAGE], [text])
    found = model.pairs(states, encode_texts(model, [text], [context]), [0], [0])
    # Of the image 1.2 + 0.5, of the text 0, of the pieces 2, 1.2, −2, of what words add 2, 2, 0; after the
    # two gelu 4.699994, 3.899810, −0.147694, of which a half counts. What words add is asked for by
    # 10·0.6·0.1 twice and −10·0.8·0.05. With 2.4, 4, −2.4 as above: 5.349997, 6.549905, −2.873847.
    # Half of it, pieces of the first word half a weight: e^2.674998 / 2 : e^3.274953 / 2 : e^−1.436923
    assert found.token_scores[0].tolist() == pytest.approx([0.350289, 0.638238, 0.011473, 0], abs=1e-6)
    assert found.token_scores[0, 3] == 0
    # x = 0.350289 + 0.6·0.638238 − 0.011473 = 0.721759, y = 0.8·0.638238 = 0.510591
    assert found.precision.item() == pytest.approx(8.163739, abs=1e-5)


@pytest.mark.parametrize(("switches", "expected"), SWITCHED.values(), ids=SWITCHED.keys())
def test_every_switch_against_a_second_computation(switches, expected):
    model = tiny_model(replace(TINY, **switches))
    found = scores(model, images_of([3, 1]), texts_of([2, 5]), [(1, 0), (0, 1)])
    numbers = (found.recall, found.precision, found.region_scores[:, 0], found.token_scores[:, 0])
    assert [float(values[1]) for values in numbers] == pytest.approx(expected, abs=5e-6)
    assert not found.region_scores[0, 1:-1].any() and not found.token_scores[0, 2:].any()


def test_without_masking_the_filling_is_attended_to():
    (t_g, tokens), masked = texts_of([3])[0], scores(PLAIN, images_of([3]), texts_of([3]), [(0, 0)])
    found = scores(FILLED, images_of([3]), texts_of([3]), [(0, 0)])
    filled = (t_g, np.concatenate([tokens, np.zeros((2, 6))]))
    expected = of_text(PLAIN, filled, mask=[True] * 3 + [False] * 2)
    assert found.token_scores.shape == (1, 3)
    assert close(found.token_scores, expected.token_scores[:, :3], 2e-6)
    assert close(found.overall, expected.overall, 5e-6)
    assert not close(found.recall, masked.recall, 1e-3)


MODELS = [PLAIN, READER, FILLED, NO_NULL, InfoCLIP(TINY.dim, 9.0, 2.0)]


@pytest.mark.parametrize("model", MODELS, ids="plain words filled null clip".split())
@given(sizes=SIZES, more=st.integers(0, 3), fill=st.sampled_from([0.0, 7.0, float("nan"), float("inf")]))
def test_padding_and_the_rest_of_the_batch_do_not_matter(model, sizes, more, fill):
    images, texts = images_of([m for m, _ in sizes]), texts_of([n for _, n in sizes])
    pairs = [(i, t) for i in range(len(sizes)) for t in range(len(sizes))]
    found = scores(model, images, texts, pairs, m=max(m for m, _ in sizes) + more, l=5, fill=fill)
    for row, (i, t) in enumerate(pairs):
        alone = scores(model, [images[i]], [texts[t]], [(0, 0)])
        (m, _), (_, n) = sizes[i], sizes[t]
        regions, tokens = found.region_scores[row], found.token_scores[row]
        assert close(torch.cat([regions[:m], regions[-1:]]), alone.region_scores[0], 1e-5)
        assert close(tokens[:n], alone.token_scores[0], 1e-5)
        assert not regions[m:-1].any() and not tokens[n:].any()
        assert close(found.recall[row], alone.recall[0], 1e-5)
        assert close(found.precision[row], alone.precision[0], 1e-5)
        assert torch.isfinite(found.overall[row])
        assert regions.sum().item() == pytest.approx(1.0 if m or model is not NO_NULL else 0.0, abs=1e-5)
        assert tokens.sum().item() == pytest.approx(1.0 if n else 0.0, abs=1e-5)
        assert n or found.precision[row] == 0


def test_an_empty_text_and_an_image_without_regions():
    bare = tiny_model(replace(TINY, null_token=False, global_in_fusion=False))
    for model, regions in ((bare, [[0.0]]), (InfoCLIP(TINY.dim), [[1.0]])):
        nothing = scores(model, images_of([0]), texts_of([0]), [(0, 0)])
        assert nothing.region_scores.tolist() == regions
        assert (nothing.recall.item(), nothing.precision.item()) == (0.0, 0.0)


@pytest.mark.parametrize("chunk", [None, 1, 4, 100])
def test_all_pairs_are_the_pairs_one_by_one(chunk):
    images, texts = encode(PLAIN, images_of([3, 0]), texts_of([2, 5, 1]))
    with torch.no_grad():
        recall, precision = PLAIN.all_pairs(images, texts, chunk)
        found = PLAIN.pairs(images, texts, [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])
    assert close(recall, found.recall.view(2, 3), 1e-5) and close(precision, found.precision.view(2, 3), 1e-5)
    none = PLAIN.pairs(images, texts, [], [])
    assert (none.region_scores.shape, none.token_scores.shape, none.recall.shape) == ((0, 4), (0, 5), (0,))
    empty = PLAIN.encode_images(*(torch.zeros(0, *shape) for shape in ((6,), (2, 6), (2, 4), (2,))))
    assert [part.shape for part in PLAIN.all_pairs(empty, texts, chunk)] == [(0, 3)] * 2


@pytest.mark.parametrize("config", [TINY, READER.config], ids=["plain", "words"])
def test_chunks_give_the_same_gradients(config):
    model, gradients = tiny_model(config), []
    for chunk in (None, 2):
        recall, precision = model.all_pairs(*encode(model, images_of([3, 1]), texts_of([2, 5])), chunk)
        (recall.softmax(0).diagonal().sum() + precision.softmax(1).diagonal().sum()).backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
        model.zero_grad()
    assert all(map(lambda first, second: close(first, second, 1e-5), *gradients))


@pytest.mark.parametrize(
    "switches",
    [{"width": 4}, {"shared_norm": True, "mask_padding": False}, {"context_width": 3, "mask_padding": False}],
)
def test_gradients_reach_every_weight(switches):
    model = tiny_model(replace(TINY, **switches))
    # one text without pieces and one image without regions: they must not spoil the others' gradients
    found = model.pairs(*encode(model, images_of([3, 0]), texts_of([5, 0])), [0, 0, 1, 1], [0, 1, 0, 1])
    (found.overall.sum() + found.region_scores[:, 0].sum() + found.token_scores[:, 0].sum()).backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter.grad).all() and parameter.grad.abs().sum() > 0, name


def test_special_tokens_are_context_without_a_score():
    (t_g, tokens), inner = texts_of([4])[0], [False, True, True, False]
    found = of_text(PLAIN, (t_g, tokens), mask=inner)
    every, alone = of_text(PLAIN, (t_g, tokens)), of_text(PLAIN, (t_g, tokens[1:3]))
    shares = every.token_scores[0] * torch.tensor(inner)
    assert close(found.token_scores[0], shares / shares.sum())  # the same states, another softmax
    assert close(found.region_scores, every.region_scores)
    assert not close(found.region_scores, alone.region_scores, 1e-3)
    clip = InfoCLIP(TINY.dim, sharpness=5.0)
    found, alone = of_text(clip, (t_g, tokens), mask=inner), of_text(clip, (t_g, tokens[1:3]))
    assert close(found.token_scores[:, 1:3], alone.token_scores) and not found.token_scores[0, [0, 3]].any()
    context = context_of((t_g, tokens))  # whose third piece is of no word that counts
    last, no = [False, False, True, False], [False] * 4
    for mask, scored in ((inner, [0, 1, 0, 0]), (last, [0, 0, 1, 0]), (no, [0] * 4)):
        found = of_text(READER, (t_g, tokens), context, mask=mask)
        assert found.token_scores[0].tolist() == scored and torch.isfinite(found.overall).all()


def test_only_pieces_of_words_that_count_are_scored_and_all_where_none_counts():
    (text,) = texts_of([4])
    added, weight = context_of(text)
    found = of_text(READER, text, (added, weight))
    assert weight.tolist() == [0.5, 0.5, 0.0, 1.0]
    assert found.token_scores[0, 2] == 0 and (found.token_scores[0, [0, 1, 3]] > 0).all()
    other = of_text(READER, (text[0], text[1] * [[1], [1], [-1], [1]]), (added, weight))
    assert not close(other.precision, found.precision, 1e-3)
    without = of_text(READER, text, (added * [[1], [1], [-9], [1]], weight))
    assert close(without.token_scores, found.token_scores)
    none, every = (of_text(READER, text, (added, np.full(4, weight))) for weight in (0, 1))
    assert (none.token_scores > 0).all() and close(none.token_scores, every.token_scores)


def test_a_context_of_words_is_needed_or_left_alone():
    (text,) = texts_of([3])
    with pytest.raises(InputError, match="need a WordContext"):
        of_text(READER, text)
    with pytest.raises(InputError, match=r"6 pieces.*at most 5"):
        of_text(PLAIN, texts_of([6])[0])
    nonsense = WordContext(torch.full((1, 1, 2), float("nan")), torch.full((7,), -1.0))
    t_g, tokens = (torch.from_numpy(part).float()[None] for part in text)
    for aligner in (PLAIN, InfoCLIP(TINY.dim)):
        assert not aligner.reads_words
        told = aligner.encode_texts(t_g, tokens, torch.ones(1, 3).bool(), context=nonsense)
        assert (told.words, told.hidden, told.log_weight) == (None, None, None)


def test_numbers_of_info_clip_by_hand():
    model = InfoCLIP(2, sharpness=5.0, scale=100.0)
    found = scores(model, [IMAGE], [(np.array([1.0, 0.0]), np.array([[0.6, 0.8], [-1.0, 0.0]]))], [(0, 0)])
    assert found.region_scores[0].tolist() == pytest.approx([0.986703, 0.006648, 0.006648], abs=1e-6)
    assert found.token_scores[0].tolist() == pytest.approx([0.999665, 0.000335], abs=1e-6)
    # (0.986703, 0.006648) with (0.6, 0.8); (0.599463, 0.799732) with (1, 0)
    assert found.recall.item() == pytest.approx(60.5377, abs=1e-3)
    assert found.precision.item() == pytest.approx(59.9785, abs=1e-3)
    assert not any(part.requires_grad for part in model.parameters())


def test_a_new_network_has_the_papers_start():
    torch.manual_seed(0)
    model = InfoMetIC(InfoMetICConfig(dim=64, width=32, heads=4))
    assert model.scale.item() == pytest.approx(1 / 0.07, rel=1e-6)
    deviations = {
        **{"region_query.weight": 64**-0.5, "token_key.weight": 32**-0.5, "text_position": 0.01},
        **{"box_position.weight": 0.01, "image_layers.0.attention_in.weight": 32**-0.5},
        **{"image_layers.3.mlp_out.weight": 32**-0.5 * 8**-0.5, "text_layers.2.mlp_in.weight": 64**-0.5},
        "inter_layers.1.attention_out.weight": 32**-0.5 * 4**-0.5,
    }
    for name, expected in deviations.items():
        assert model.get_parameter(name).std().item() == pytest.approx(expected, rel=0.2), name
    torch.manual_seed(0)
    assert InfoMetIC(model.config).fingerprint() == model.fingerprint()
    assert InfoMetIC(model.config).fingerprint() != model.fingerprint()
    reader = InfoMetIC(InfoMetICConfig(dim=64, heads=4, context_width=16))
    assert torch.equal(reader.word_query.weight, 5 * torch.eye(64))
    assert reader.token_query.weight.std().item() == pytest.approx(0.1 * 64**-0.5, rel=0.1)


RELEASED = {
    "shared_norm": True, "mask_padding": False, "pad_token": 0, "frame": True, "text_positions": False,
    "global_box": True, "input_scale": 1.0, "caption_tokens": 12, "unit_inputs": False, "prefix": "",
}  # fmt: skip
NEW = {"pad_token": None, "frame": False, "caption_tokens": None, "unit_inputs": True, "prefix": None}


def test_the_papers_values_and_those_of_the_public_code():
    paper = InfoMetICConfig()
    assert (paper.dim, paper.heads, paper.intra_layers, paper.inter_layers) == (512, 16, 4, 2)
    assert (paper.input_scale, paper.n_regions, paper.max_tokens, paper.sharpness) == (10.0, 20, 32, 1.0)
    released = InfoMetICConfig(dim=64, width=32, context_width=8, sharpness=2.0, max_tokens=12).released()
    assert asdict(released) == asdict(InfoMetICConfig(dim=64, max_tokens=12)) | RELEASED
    assert (paper.reading, paper.released().reading) == ("", "frame,pad=0,32+32tokens,raw")
    assert InfoMetICConfig(mask_padding=False).reading == "pad=zeros"
    assert InfoMetICConfig(frame=True, caption_tokens=8).reading == "frame,32+8tokens"


def test_a_config_survives_json_and_so_does_the_digest_of_one_from_before():
    config = InfoMetICConfig(dim=320, width=64, heads=4, context_width=96, sharpness=0.8, backbone="embedded")
    assert InfoMetICConfig(**json.loads(json.dumps(asdict(config)))) == config
    old = {name: value for name, value in asdict(InfoMetICConfig()).items() if name not in NEW}
    assert {name: getattr(InfoMetICConfig(), name) for name in NEW} == NEW
    assert InfoMetICConfig().identity() == old
    assert InfoMetICConfig(unit_inputs=False).identity() == {**old, "unit_inputs": False}


WRONG = [*(("dim", value) for value in (0, True, 2**14 + 1)), ("intra_layers", -1), ("shared_norm", 1)]
WRONG += [("input_scale", float("nan")), ("backbone", None), ("pad_token", 0)]


@pytest.mark.parametrize(("name", "value"), [*WRONG, ("width", 30)])
def test_impossible_values_are_refused(name, value):
    message = "heads=16 does not divide the width 30" if name == "width" else f"{name}={value}"
    with pytest.raises(CapscoreError, match=message):
        InfoMetICConfig(**{name: value})


def backbone(**changes):
    parts = {"name": "some/tower", "revision": "abc123", "dim": 512, "fingerprint": "f" * 32}
    return SimpleNamespace(**{**parts, **changes})


def test_which_backbone_goes_with_the_weights():
    config = InfoMetICConfig().on(backbone())
    assert (config.backbone, config.backbone_revision) == ("some/tower", "abc123")
    for same in ({}, {"fingerprint": "0" * 32}, {"revision": "main"}):
        config.check_backbone(backbone(**same))
    for other in ({"revision": "w1", "fingerprint": "0" * 32}, {"dim": 64}):
        with pytest.raises(CapscoreError, match="made for some/tower @ abc123, not for some/tower @"):
            config.check_backbone(backbone(**other))
    InfoMetICConfig().check_backbone(backbone())
    with pytest.raises(CapscoreError, match="an unnamed backbone, not for some/tower"):
        InfoMetICConfig().check_backbone(backbone(dim=64))


@pytest.fixture
def folder(tmp_path):
    tiny_model().save_pretrained(tmp_path / "weights", notes={"steps": 7})
    return tmp_path / "weights"


WORDS = replace(TINY, context_width=3, sharpness=0.7)


@pytest.mark.parametrize("config", [TINY, WORDS], ids=["plain", "words"])
def test_a_network_loads_as_it_was_saved(config, tmp_path):
    model, folder = tiny_model(config), tmp_path / "weights"
    model.save_pretrained(folder, notes={"steps": 7})
    again = InfoMetIC.from_pretrained(folder)
    assert again.config == config and again.notes == {"steps": 7} and not again.training
    assert (again.name, again.revision) == ("weights", f"w{model.fingerprint()[:8]}")
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in model.state_dict().items())
    pairs = [0, 0, 1], [0, 1, 1]
    towers = images_of([3, 1]), texts_of([2, 5])
    found, expected = (each.pairs(*encode(each, *towers), *pairs).overall for each in (again, model))
    assert torch.allclose(found, expected, rtol=0, atol=1e-6)
    assert again.fingerprint() != tiny_model(replace(config, sharpness=0.5)).fingerprint()
    model.save_pretrained(tmp_path / "half", dtype="fp16")
    half = InfoMetIC.from_pretrained(tmp_path / "half")
    assert {tensor.dtype for tensor in load_file(tmp_path / "half" / WEIGHTS).values()} == {torch.float16}
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor.half().float(), half.state_dict()[name])
    assert half.revision != again.revision
    again.save_pretrained(tmp_path / "again")
    for name in (CONFIG, WEIGHTS):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_weights_that_cannot_be_saved(tmp_path):
    model = tiny_model()
    model.region_key.weight.data[0, 0] = 1e6
    for options, message in (
        ({"dtype": "bf16"}, "dtype='bf16': .* float32 or float16"),
        ({"notes": {"x": float("nan")}}, "JSON"),
        ({"dtype": "float16"}, r"region_key\.weight of .* torch.float16"),
    ):
        with pytest.raises(CapscoreError, match=message):
            model.save_pretrained(tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_another_models_folder_is_refused(tmp_path):
    save_file({"x": torch.zeros(1)}, tmp_path / WEIGHTS)
    with pytest.raises(CapscoreError, match="already holds a model of type None"):
        tiny_model().save_pretrained(tmp_path)
    (tmp_path / CONFIG).write_text('{"model_type": "clip"}')
    with pytest.raises(CapscoreError, match="already holds a model of type 'clip'"):
        tiny_model().save_pretrained(tmp_path)


BAD = [("width", -1), ("width", 2**40), ("heads", 0), ("inter_layers", 10**6)]
BAD += [("input_scale", "NaN"), ("mask_padding", "no")]
NO_FILES = {
    "a folder": os.mkdir,
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a list": lambda path: path.write_text("[]"),
    "UTF-16": lambda path: path.write_text('{"model_type": "infometic"}', "utf-16"),
}


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_of_weights_is_refused(folder, name, kind):
    (folder / name).unlink()
    NO_FILES[kind](folder / name)
    with pytest.raises(BackboneUnavailable, match=name):
        InfoMetIC.from_pretrained(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "clip"}, "describes a model of type 'clip', not 'infometic'"),
        ({"format": 2}, "config.json is of format 2; .* reads format 1"),
        ({"weights": None}, "config.json"),
        ({"heads": 5}, "config.json: heads=5 does not divide the width 6"),
        *(({name: value}, "config.json") for name, value in BAD),
        ({"layers": 5}, "config.json: .*'layers'"),
        ({"inter_layers": 1}, r"Unexpected key.*inter_layers\.1\."),
        ({"inter_layers": 3}, r"Missing key.*inter_layers\.2\."),
        ({"max_tokens": 9}, "size mismatch for text_position"),
    ],
)
def test_a_config_that_does_not_fit(folder, changes, message):
    (folder / CONFIG).write_text(json.dumps(json.loads((folder / CONFIG).read_text()) | changes))
    with pytest.raises(BackboneUnavailable, match=message):
        InfoMetIC.from_pretrained(folder)


def test_errors_name_torn_and_missing_files(folder):
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-4] + b"\0\0\0\1")
    with pytest.raises(BackboneUnavailable, match=r"does not belong to config.json"):
        InfoMetIC.from_pretrained(folder)
    (folder / CONFIG).unlink()
    with pytest.raises(BackboneUnavailable, match=r"has no config.json"):
        InfoMetIC.from_pretrained(folder)


def test_weights_come_from_the_hub_with_their_commit(hub, folder, monkeypatch):
    (folder / "README.md").write_text("a card")
    commit = hub.add("org/infometic", folder)
    model = InfoMetIC.from_pretrained("org/infometic")
    assert (model.name, model.revision) == ("org/infometic", commit)
    assert model.fingerprint() == tiny_model().fingerprint()
    assert load_aligner("org/infometic", backbone(dim=6, device="cpu"))[1] == f"org/infometic@{commit}"
    assert sorted(hub.served) == [f"org/infometic/{name}" for name in (CONFIG, WEIGHTS)]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert InfoMetIC.from_pretrained("org/infometic").revision == commit
    with pytest.raises(BackboneUnavailable, match="'org/other' is not available: HF_HUB_OFFLINE is set"):
        InfoMetIC.from_pretrained("org/other")


def test_revisions(hub, folder):
    commit = hub.add("org/infometic", folder, tag="v1")
    for asked in ({"spec": "org/infometic@v1"}, {"spec": "org/infometic", "revision": "v1"}):
        assert InfoMetIC.from_pretrained(**asked).revision == commit
    for spec, options, message in (
        ("org/infometic@v1", {"revision": "v2"}, "revision='v2' does not go with"),
        ("org/infometic@v2", {}, "'org/infometic' is not on the Hub at revision 'v2'"),
        (folder / "nowhere", {}, "there is no such folder"),
        (folder, {"revision": "main"}, "revision='main' does not go with"),
        (folder, {"backbone": backbone()}, r"not for some/tower @ abc.*length of the embeddings: 6"),
    ):
        with pytest.raises(CapscoreError, match=message):
            InfoMetIC.from_pretrained(spec, **options)
