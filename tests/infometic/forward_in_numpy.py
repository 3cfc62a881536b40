"""InfoMetIC's forward pass a second time: one pair, no padding, float64, loops instead of tensors."""

from __future__ import annotations

import math

import numpy as np


def pair_scores(model, image, text, context=None) -> dict:
    """Scores of one image (global, regions, boxes) with one text (global, tokens), as arrays of numbers.

    `context` is what words add to the text and the weights of its pieces, for a model that reads words.
    """
    config = model.config
    weight = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    v_g, regions, boxes = (np.asarray(part, float) for part in image)
    t_g, tokens = (np.asarray(part, float) for part in text)
    scale = config.input_scale

    rows, places = [], []
    if config.global_in_fusion:
        rows.append(v_g * scale)
        places.append([0, 0, 1, 1] if config.global_box else [0, 0, 0, 0])
    first_region = len(rows)
    for region, box in zip(regions, boxes, strict=True):
        rows.append(region * scale)
        places.append(list(box))
    if config.null_token:
        rows.append(np.zeros(config.dim))
        places.append([0, 0, 0, 0])
    if config.width is not None:
        rows = [weight["image_in.weight"] @ row for row in rows]
    if config.box_positions:
        rows = [row + weight["box_position.weight"] @ place for row, place in zip(rows, places, strict=True)]

    words = [token * scale for token in tokens]
    if config.width is not None:
        words = [weight["text_in.weight"] @ word for word in words]
    if config.text_positions:
        words = [word + weight["text_position"][i] for i, word in enumerate(words)]

    norm = "norms.all" if config.shared_norm else "norms.{}"
    rows = transformer(weight, "image_layers", config.intra_layers, config.heads, rows, norm.format("image"))
    words = transformer(weight, "text_layers", config.intra_layers, config.heads, words, norm.format("text"))
    both = transformer(
        weight, "inter_layers", config.inter_layers, config.heads, [*rows, *words], norm.format("inter")
    )
    image_part, text_part = both[first_region : len(rows)], both[len(rows) :]

    query = weight["region_query.weight"] @ (t_g * scale)
    region_scores = softmax([query @ (weight["region_key.weight"] @ key) for key in image_part])
    query = weight["token_query.weight"] @ (v_g * scale)
    asked = [query @ (weight["token_key.weight"] @ key) for key in text_part]
    if context is not None:
        asked = [
            one + word_score(weight, v_g, t_g, token, added, scale)
            for one, token, added in zip(asked, tokens, context[0], strict=True)
        ]
    token_scores = softmax([one * config.sharpness for one in asked])
    if context is not None and any(context[1]):
        parts = [score * part for score, part in zip(token_scores, context[1], strict=True)]
        token_scores = [part / sum(parts) for part in parts]
    seen = sum(score * value for score, value in zip(region_scores, image_part, strict=True))
    read = sum(score * value for score, value in zip(token_scores, text_part, strict=True))
    if config.width is not None:
        seen, read = weight["image_out.weight"] @ seen, weight["text_out.weight"] @ read
    factor = math.exp(weight["log_scale"])
    return {
        "regions": np.array(region_scores),
        "tokens": np.array(token_scores),
        "recall": factor * (seen @ v_g) / np.linalg.norm(seen) / np.linalg.norm(v_g),
        "precision": factor * (read @ t_g) / np.linalg.norm(read) / np.linalg.norm(t_g),
    }


def word_score(weight, v_g, t_g, token, added, scale):
    """How much an image asks for what the word of one piece adds to a text."""
    hidden = weight["word_image.bias"].copy()
    for part, row in (("image", v_g), ("text", t_g), ("alone", token), ("added", added)):
        hidden += weight[f"word_{part}.weight"] @ (row * scale)
    hidden = weight["word_hidden.weight"] @ gelu(hidden) + weight["word_hidden.bias"]
    return weight["word_query.weight"] @ v_g @ added + weight["word_out.weight"][0] @ gelu(hidden)


def gelu(row):
    return np.array([0.5 * number * (1 + math.erf(number / math.sqrt(2))) for number in row])


def softmax(numbers) -> list[float]:
    powers = [math.exp(number - max(numbers)) for number in numbers]
    return [power / sum(powers) for power in powers]


def layer_norm(row, weight, name):
    centred = row - row.mean()
    return centred / math.sqrt((centred**2).mean() + 1e-5) * weight[f"{name}.weight"] + weight[f"{name}.bias"]


def transformer(weight, name, depth, heads, rows, norm):
    if not depth:
        return list(rows)
    for layer in range(depth):
        at = f"{name}.{layer}"
        rows = attention_layer(weight, at, heads, rows)
    return [layer_norm(row, weight, norm) for row in rows]


def attention_layer(weight, at, heads, rows):
    def linear(part, row):
        return weight[f"{at}.{part}.weight"] @ row + weight[f"{at}.{part}.bias"]

    width = len(rows[0])
    size = width // heads
    inner = [linear("attention_in", layer_norm(row, weight, f"{at}.attention_norm")) for row in rows]
    after = []
    for own, row in zip(inner, rows, strict=True):
        mixed = []
        for head in range(heads):
            query, key, value = (slice(part * width + head * size, None) for part in range(3))
            shares = softmax([own[query][:size] @ other[key][:size] / math.sqrt(size) for other in inner])
            mixed.append(sum(share * other[value][:size] for share, other in zip(shares, inner, strict=True)))
        row = row + linear("attention_out", np.concatenate(mixed))
        hidden = linear("mlp_in", layer_norm(row, weight, f"{at}.mlp_norm"))
        after.append(row + linear("mlp_out", hidden / (1 + np.exp(-1.702 * hidden))))
    return after
