"""How the authors' public code scores a pair, written a second time in plain torch from its description.

In: a state dict under that code's names, a CLIP of transformers, a photo, boxes and a caption. Out: its
scores. One pair at a time, as its `inference.py` has it, with nothing of capscore.
"""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

LENGTH = 32  # tokens of a text, with start and end
HEADS = 16


def random_checkpoint(dim: int = 16, intra: int = 4, inter: int = 2) -> dict[str, Tensor]:
    """Random weights under the names and in the shapes of the public code, without CLIP."""
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int, std: float = 0.25) -> Tensor:
        return torch.randn(*shape, generator=generator) * std

    state = {"ln.weight": 1 + drawn(dim), "ln.bias": drawn(dim), "logit_scale": torch.tensor(2.5)}
    state["bbox_position_embedding"] = drawn(4, dim)
    for name in ("img_att_query", "img_att_key", "text_att_query", "text_att_key"):
        state[name] = drawn(dim, dim)
    for stack, depth in (("image_encoder", intra), ("text_encoder", intra), ("fusion_encoder", inter)):
        for layer in range(depth):
            at = f"{stack}.resblocks.{layer}"
            state[f"{at}.attn.in_proj_weight"] = drawn(3 * dim, dim)
            state[f"{at}.attn.in_proj_bias"] = drawn(3 * dim)
            state[f"{at}.attn.out_proj.weight"] = drawn(dim, dim)
            state[f"{at}.attn.out_proj.bias"] = drawn(dim)
            for norm in ("ln_1", "ln_2"):
                state[f"{at}.{norm}.weight"], state[f"{at}.{norm}.bias"] = 1 + drawn(dim), drawn(dim)
            for linear, sizes in (("c_fc", (4 * dim, dim)), ("c_proj", (dim, 4 * dim))):
                state[f"{at}.mlp.{linear}.weight"] = drawn(*sizes)
                state[f"{at}.mlp.{linear}.bias"] = drawn(sizes[0])
    return state


class Clip:
    """Features of a CLIP checkpoint of transformers, before normalisation."""

    def __init__(self, folder: Path):
        from transformers import AutoTokenizer, CLIPImageProcessor, CLIPModel

        self.model = CLIPModel.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.processor = CLIPImageProcessor.from_pretrained(folder)
        self.start, self.end = self.tokenizer.bos_token_id, self.tokenizer.eos_token_id

    def image(self, photo) -> Tensor:
        pixels = self.processor(images=photo, return_tensors="pt")["pixel_values"]
        return _tensor(self.model.get_image_features(pixel_values=pixels))[0]

    def text(self, ids: list[int]) -> Tensor:
        return _tensor(self.model.get_text_features(input_ids=torch.tensor([ids])))[0]

    def ids(self, caption: str) -> list[int]:
        return self.tokenizer(caption, add_special_tokens=False)["input_ids"]


def _tensor(features) -> Tensor:
    return features if isinstance(features, Tensor) else features.pooler_output


@torch.no_grad()
def public_scores(state: dict[str, Tensor], clip: Clip, photo, boxes, caption: str) -> dict:
    """Recall, precision, overall, cosine of photo and caption, and the scores of regions and tokens."""
    width, height = photo.size
    v_g = clip.image(photo)
    seen = [v_g, *(clip.image(photo.crop(tuple(box))) for box in boxes), torch.zeros_like(v_g)]
    places = torch.tensor([(0, 0, width, height), *boxes, (0, 0, 0, 0)], dtype=torch.float32)
    places = places / torch.tensor([width, height, width, height])
    image = torch.stack(seen) + places @ state["bbox_position_embedding"]
    ids = [clip.start, *clip.ids(caption), clip.end]
    if len(ids) > LENGTH:
        ids = [*ids[: LENGTH - 1], clip.end]
    n = len(ids)
    ids = ids + [0] * (LENGTH - n)
    t_g = clip.text(ids[:n])  # what follows the end token is not seen by it
    text = torch.stack([clip.text([clip.start, token, clip.end]) for token in ids])
    image, text = _stack(state, "image_encoder", image), _stack(state, "text_encoder", text)
    both = _stack(state, "fusion_encoder", torch.cat([image, text]))
    image, text = both[: len(image)], both[len(image) :]
    asked = (image @ state["img_att_key"]) @ (t_g @ state["img_att_query"])
    asked[0] -= 10000.0
    regions = asked.softmax(0)
    asked = (text @ state["text_att_key"]) @ (v_g @ state["text_att_query"])
    asked[[0, *range(n - 1, LENGTH)]] -= 10000.0
    tokens = asked.softmax(0)
    scale = state["logit_scale"].exp()
    recall = scale * functional.cosine_similarity(regions @ image, v_g, 0)
    precision = scale * functional.cosine_similarity(tokens @ text, t_g, 0)
    return {
        "recall": recall.item(),
        "precision": precision.item(),
        "overall": (recall + precision).item(),
        "cosine": functional.cosine_similarity(v_g, t_g, 0).item(),
        "regions": regions[1:].tolist(),
        "tokens": tokens[1 : n - 1].tolist(),
    }


def _stack(state: dict[str, Tensor], name: str, rows: Tensor) -> Tensor:
    depth = len({key.split(".")[2] for key in state if key.startswith(f"{name}.")})
    for layer in range(depth):
        at = f"{name}.resblocks.{layer}."
        part = {key.removeprefix(at): tensor for key, tensor in state.items() if key.startswith(at)}
        rows = rows + _attention(part, _norm(rows, part, "ln_1"))
        hidden = _norm(rows, part, "ln_2") @ part["mlp.c_fc.weight"].T + part["mlp.c_fc.bias"]
        hidden = hidden * torch.sigmoid(1.702 * hidden)
        rows = rows + hidden @ part["mlp.c_proj.weight"].T + part["mlp.c_proj.bias"]
    return _norm(rows, state, "ln")


def _norm(rows: Tensor, part: dict[str, Tensor], name: str) -> Tensor:
    return functional.layer_norm(rows, rows.shape[1:], part[f"{name}.weight"], part[f"{name}.bias"])


def _attention(part: dict[str, Tensor], rows: Tensor) -> Tensor:
    n, width = rows.shape
    inner = rows @ part["attn.in_proj_weight"].T + part["attn.in_proj_bias"]
    query, key, value = inner.view(n, 3, HEADS, width // HEADS).permute(1, 2, 0, 3)
    shares = (query @ key.transpose(1, 2) / (width // HEADS) ** 0.5).softmax(2)
    mixed = (shares @ value).transpose(0, 1).reshape(n, width)
    return mixed @ part["attn.out_proj.weight"].T + part["attn.out_proj.bias"]
