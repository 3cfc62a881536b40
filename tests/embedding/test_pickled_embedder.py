"""An embedder goes to another process: a copy with a lock of its own and the same embeddings."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from capscore.embedding.embedder import Embedder

from ..backbones import tiny_kinds


@pytest.mark.parametrize("kind", ["open_clip clip", "clip", "m-clip", "student"])
def test_a_copy_with_a_backbone_of_a_folder(kind, tmp_path):
    embedder = Embedder(tiny_kinds.Checkpoint(kind, tmp_path).load(), batch_size=3)
    texts = ["a red cat", "a dog"]
    embedder.texts(texts[:1])
    copy = pickle.loads(pickle.dumps(embedder))
    assert (copy.fingerprint, copy.image_batch) == (embedder.fingerprint, 3)
    np.testing.assert_allclose(copy.texts(texts).matrix, embedder.texts(texts).matrix, atol=1e-6)
