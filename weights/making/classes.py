"""Embed the 1,000 ImageNet classes for the image side of `embedded-free`.

    python -m weights.making.classes

In: WordNet's names and definitions of the classes (from timm) and the text network. Out:
capscore/backbones/embedded/free_classes.safetensors, float16 (1000, 512): per class the mean embedding
of its names and of its names with their definition. It takes seconds; nothing is trained or random.
"""

from __future__ import annotations

import torch
from safetensors.torch import save_file

from capscore.backbones.base import pad_batch
from capscore.backbones.embedded.backbone import CLASSES_FILE
from capscore.backbones.embedded.text_encoder import text_encoder


def class_descriptions() -> tuple[list[str], list[str]]:
    from timm.data import ImageNetInfo

    info = ImageNetInfo()
    names = [info.index_to_description(index) for index in range(1000)]
    defined = [info.index_to_description(index, detailed=True) for index in range(1000)]
    return names, defined


@torch.inference_mode()
def embed_classes() -> torch.Tensor:
    """Class embeddings, float32 (1000, 512), not centred."""
    network, tokenizer = text_encoder()
    names, defined = class_descriptions()
    texts = [*names, *defined]
    batches = (tokenizer(texts[start : start + 50]) for start in range(0, len(texts), 50))
    return sum(torch.cat([network(*pad_batch(ids, pad_id=0)) for ids in batches]).chunk(2)) / 2


if __name__ == "__main__":
    metadata = {
        "source": "WordNet names and definitions of the ImageNet classes, embedded by the multilingual "
        "Universal Sentence Encoder v3",
        "made_by": "python -m weights.making.classes",
    }
    save_file({"classes": embed_classes().half()}, CLASSES_FILE, metadata=metadata)
