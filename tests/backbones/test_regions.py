"""Embeddings of regions: crops where a tower has no feature map, one pass over the photo where it has one."""

import numpy as np
import pytest
import torch
from PIL import Image

from capscore.backbones.base import as_read
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, InputError
from capscore.metrics.clip_cider import CLIPCIDEr
from capscore.metrics.clip_score import CLIPScore
from capscore.metrics.infometic import InfoMetIC
from capscore.metrics.mcs import MCS
from capscore.metrics.ref_clip_score import RefCLIPScore
from tools.tiny.colours import RED, ColourBackbone, plain

S = 1 / np.sqrt(2)


class MapBackbone(ColourBackbone):
    """A photo's map are its pixels, at 8 × 8; a region is the mean of the cells whose centre it covers."""

    name = "maps"
    has_feature_map = True

    def __init__(self, **options):
        super().__init__(**options)
        self.passes: list[int] = []

    def preprocess(self, image):
        small = image.resize((8, 8), Image.Resampling.NEAREST)
        return torch.from_numpy(np.asarray(small, dtype=np.float32)).permute(2, 0, 1)

    def feature_maps(self, pixels):
        self.passes.append(len(pixels))
        return torch.stack(list(pixels))

    def encode_maps(self, maps):
        return self.encode_map_regions(maps, [np.array([[0.0, 0, 1, 1]])] * len(maps))

    def encode_pixels(self, pixels):
        return self.encode_maps(self.feature_maps(pixels))

    def encode_map_regions(self, maps, boxes):
        centres = (np.arange(8) + 0.5) / 8
        rows = []
        for own, listed in zip(maps.numpy(), boxes, strict=True):
            for left, top, right, bottom in listed:
                x, y = (centres > left) & (centres < right), (centres > top) & (centres < bottom)
                rows.append(own[:, y][:, :, x].mean(axis=(1, 2)))
        rows = np.array(rows).reshape(-1, 3)
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def halves(left, right, size=(8, 8)) -> Image.Image:
    return Image.fromarray(np.hstack([plain(left, size), plain(right, size)]))


def arrays(*boxes):
    return [np.array(own, np.float64).reshape(-1, 4) for own in boxes]


RED_GREEN = halves((200, 0, 0), (0, 200, 0))
BLUE_RED = halves((0, 0, 90), (90, 0, 0), (32, 16))
BOXES = [[0, 0, 8, 8], [8, 0, 16, 8], [0, 0, 16, 8], [4, 2, 12, 6]]
EXPECTED = [[1, 0, 0], [0, 1, 0], [S, S, 0], [S, S, 0]]
both_kinds = pytest.mark.parametrize("kind", [ColourBackbone, MapBackbone])


@both_kinds
def test_regions_of_one_photo(kind):
    rows = kind().encode_regions(RED_GREEN, BOXES)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, EXPECTED, atol=1e-6)
    # boxes reach beyond the photo as they do elsewhere
    np.testing.assert_allclose(kind().encode_regions(RED_GREEN, [[-9, -9, 8, 99]]), [[1, 0, 0]], atol=1e-6)
    with pytest.raises(InputError, match="box 1 is"):
        kind().encode_regions(RED_GREEN, [[0, 0, 4, 4], [3, 2, 3, 6]])


def test_crops_go_through_the_tower_in_batches():
    backbone = ColourBackbone()
    backbone.encode_regions(RED_GREEN, [[x, 0, x + 1, 1] for x in range(16)] * 5)
    assert backbone.encode_regions(RED_GREEN, []).shape == (0, 3)
    assert backbone.image_batches == [32, 32, 16]


def test_a_tower_without_a_feature_map_says_so():
    backbone, maps = ColourBackbone(), torch.zeros(1, 3, 8, 8)
    calls = {backbone.feature_maps: [[maps[0]]], backbone.encode_maps: [maps]}
    for call, given in (calls | {backbone.encode_map_regions: [maps, [np.zeros((0, 4))]]}).items():
        with pytest.raises(CapscoreError, match="'colours' does not offer a feature map"):
            call(*given)


@both_kinds
@pytest.mark.parametrize("batch_size", [1, None])
def test_the_embedder_gives_the_same_regions(kind, batch_size):
    photos = [RED_GREEN, BLUE_RED, RED_GREEN, BLUE_RED]
    boxes = arrays(BOXES, [[0, 0, 16, 32], [3, 3, 30, 8]], BOXES[:2], [])
    rows = Embedder(kind(), batch_size=batch_size).regions(photos, boxes)
    assert [own.shape for own in rows] == [(4, 3), (2, 3), (2, 3), (0, 3)]
    expected = [kind().encode_regions(photo, own) for photo, own in zip(photos, boxes, strict=True)]
    np.testing.assert_allclose(np.concatenate(rows), np.concatenate(expected), atol=1e-6)
    assert Embedder(kind()).regions([], []) == []


@both_kinds
def test_known_regions_are_not_embedded_again(kind, tmp_path):
    cache = EmbeddingCache(tmp_path / "cache")
    embedder, fresh = (Embedder(kind(), cache=cache) for _ in range(2))
    embedder.regions([RED_GREEN, BLUE_RED], arrays(BOXES, [[0, 0, 5, 5]]))
    works = (embedder.backbone.encoded_images, list(getattr(embedder.backbone, "passes", [])))
    again = embedder.regions([RED_GREEN.copy()], arrays(BOXES[::-1]))
    stored = fresh.regions([BLUE_RED, RED_GREEN], arrays([], BOXES[::-1]))
    assert works == (embedder.backbone.encoded_images, list(getattr(embedder.backbone, "passes", [])))
    assert fresh.backbone.encoded_images == 0 and not getattr(fresh.backbone, "passes", [])
    np.testing.assert_allclose([again[0], stored[1]], [EXPECTED[::-1]] * 2, atol=1e-6)


def test_a_region_of_a_map_is_cached_by_photo_and_box():
    backbone = MapBackbone()
    embedder = Embedder(backbone)
    # the crops are the same pixels, but each region is seen within its own photo
    red = Image.fromarray(plain((200, 0, 0), (8, 16)))
    embedder.regions([RED_GREEN], arrays([[0, 0, 8, 8]]))
    embedder.regions([red], arrays([[0, 0, 8, 8]]))
    embedder.regions([red], arrays([[0, 0, 8, 8], [0, 0, 8, 7.5]]))
    embedder.regions([red], arrays([[0, 0, 8, 7.5], [0, 0, 8, 8]]))
    embedder.regions([BLUE_RED, BLUE_RED], arrays([[0, 0, 8, 8]], [[0, 0, 8, 8]]))
    assert backbone.passes == [1, 1, 1, 1]


def test_infometic_reads_each_photo_once_and_none_that_is_cached(tmp_path):
    random = np.random.default_rng(0)
    photos = [random.integers(30, 255, (40, 60, 3), dtype=np.uint8) for _ in range(5)]
    captions, results = ["a red dog"] * 5, []
    boxes = [[[0, 0, 30, 20], [10, 10, 50, 40]], None, None, None, None]
    for passes, cached, options in ((5, True, {}), (0, True, {}), (5, False, {"boxes": boxes})):
        cache = EmbeddingCache(tmp_path) if cached else None
        embedder = Embedder(MapBackbone(), batch_size=2, cache=cache)
        scorer = InfoMetIC(embedder, weights="info_clip", n_regions=4)
        results.append(scorer.score(captions, photos, language="en", **options).to_dict())
        assert sum(embedder.backbone.passes) == passes
    assert results[0] == results[1]


def test_a_backbone_as_a_network_reads_it_keeps_map_and_w():
    backbone = MapBackbone()
    backbone.w = 1.5
    read = as_read(backbone, caption_tokens=5)
    assert read is not backbone and read.w == 1.5 and read.has_feature_map
    np.testing.assert_allclose(read.encode_regions(RED_GREEN, BOXES), EXPECTED, atol=1e-6)
    assert read.tokenize(["red green blue dog"]).ids == [[0, 1, 2, 3, 4]]
    assert as_read(backbone) is backbone is as_read(backbone, caption_tokens=6)
    with pytest.raises(CapscoreError, match=r"caption_tokens=2.*2 special tokens"):
        as_read(backbone, caption_tokens=2)


def test_scorers_take_the_w_of_their_backbone():
    assert MCS(Embedder(ColourBackbone())).score(["red"], [RED]).mean == pytest.approx(2.5)
    backbone = ColourBackbone()
    backbone.w = 1.2
    embedder, yellow, references = Embedder(backbone), plain((255, 255, 0)), [["green red"]]
    # 1.2 / √2 = 0.848528, whose harmonic mean with 1 / √2 = 0.707107 is 0.771389
    for kind, mean in ((MCS, 0.8485281), (CLIPScore, 0.8485281), (RefCLIPScore, 0.7713892)):
        scores = kind(embedder).score(["red"], [yellow], *[references][: kind.needs_references])
        assert scores.mean == pytest.approx(mean, abs=1e-6) and "|w:1.2|" in scores.signature
    for clip, term in (("ref_clip_score", 0.7713892), ("clip_score", 0.8485281)):
        both = CLIPCIDEr(embedder, clip=clip).score(["red"], [yellow], references)
        assert both.components["clip_term"][0] == pytest.approx(term, abs=1e-6)
        assert "|w:1.2|" in both.signature
