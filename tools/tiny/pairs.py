"""Embeddings and weights for the tests of InfoMetIC's network, made by a formula and not by a generator."""

from __future__ import annotations

import numpy as np
import torch

from capscore.infometic.network import InfoMetIC, InfoMetICConfig, WordContext

TINY = InfoMetICConfig(
    dim=6, heads=2, intra_layers=2, inter_layers=2, n_regions=3, max_tokens=5, input_scale=2.0
)


def waves(*shape: int, start: int) -> np.ndarray:
    """Numbers in [-1, 1] without a pattern that a mistake could hide in."""
    return np.sin(np.arange(start, start + int(np.prod(shape))) ** 2 * 0.7).reshape(shape)


def tiny_model(config: InfoMetICConfig = TINY) -> InfoMetIC:
    model = InfoMetIC(config).eval()
    with torch.no_grad():
        for number, (name, parameter) in enumerate(model.named_parameters()):
            values = torch.from_numpy(waves(*parameter.shape, start=100 * number))
            if "norm" in name and name.endswith("weight"):
                parameter.copy_(1 + 0.3 * values)
            elif name == "log_scale":
                parameter.fill_(0.5)
            else:
                parameter.copy_(0.4 * values)
    return model


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def images_of(sizes) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each size an image of so many regions: global (d,), regions (m, d), boxes (m, 4)."""
    made = []
    for number, m in enumerate(sizes):
        seed = 1 + 31 * number
        boxes = np.sort(np.abs(waves(m, 2, 2, start=seed + 7)), axis=1).reshape(m, 4)
        made.append((unit(waves(TINY.dim, start=seed)), unit(waves(m, TINY.dim, start=seed + 3)), boxes))
    return made


def texts_of(sizes) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each size a text of so many pieces: global (d,), pieces (l, d)."""
    made = []
    for number, n in enumerate(sizes):
        seed = 500 + 37 * number
        made.append((unit(waves(TINY.dim, start=seed)), unit(waves(n, TINY.dim, start=seed + 5))))
    return made


def context_of(text: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """What the words of a text add, (l, d), and the weights of its pieces: of two, one that does not count,
    of one, and a part of a longer one."""
    tokens = text[1]
    return 0.3 * np.roll(tokens, 1, axis=1), np.array([0.5, 0.5, 0.0, 1.0, 0.25])[: len(tokens)]


def padded(rows, length: int | None = None, fill: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Arrays (s, w) of any s as one (n, length, w), and where there is something in it."""
    length = max((len(row) for row in rows), default=0) if length is None else length
    batch = np.full((len(rows), length, rows[0].shape[1]), fill)
    mask = np.zeros((len(rows), length), bool)
    for i, row in enumerate(rows):
        batch[i, : len(row)], mask[i, : len(row)] = row, True
    return torch.from_numpy(batch).float(), torch.from_numpy(mask)


def encode(model, images, texts, *, m: int | None = None, l: int | None = None, fill: float = 0.0):  # noqa: E741
    """The states of images and texts, padded to m regions and l pieces; with `context_of` if it is read."""
    regions, mask = padded([image[1] for image in images], m, fill)
    boxes, _ = padded([image[2] for image in images], m, fill)
    image_global = torch.from_numpy(np.stack([image[0] for image in images])).float()
    return (
        model.encode_images(image_global, regions, boxes, mask),
        encode_texts(model, texts, [context_of(text) for text in texts], l=l, fill=fill),
    )


def encode_texts(model, texts, contexts, *, l: int | None = None, fill: float = 0.0):  # noqa: E741
    """The states of texts, each with what its words add."""
    tokens, mask = padded([text[1] for text in texts], l, fill)
    text_global = torch.from_numpy(np.stack([text[0] for text in texts])).float()
    context = None
    if model.reads_words:
        added, _ = padded([added for added, _ in contexts], l, fill)
        weight, _ = padded([weight[:, None] for _, weight in contexts], l, fill)
        context = WordContext(added, weight[..., 0])
    return model.encode_texts(text_global, tokens, mask, context=context)
