"""The second stage: a tower that tells near-right captions apart, reads damaged photos, looks past openers.

In: the folder of an image tower with its card, and what the first stage takes. Out: as of the first stage.

First the text place gets a hidden layer: texts keep their places, and a caption with an opener ("a photo of")
gets the place of the caption without it. Then trunk and head are trained on random parts of photos, half of
them rescaled and compressed, by contrast with captions of all photos and with captions that have one wrong
word. Photos without captions keep the similarities that the start gives them. The weights that are written
are the mean of the trained ones and the start's (Wortsman et al. 2022, WiSE-FT).
"""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import xxhash
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.backbones.base import weights_digest
from capscore.backbones.embedded.backbone import load_image_tower
from capscore.backbones.embedded.image_tower import ImageTower, TextPlace, photo_pixels
from capscore.backbones.embedded.text_encoder import folded
from capscore.images.load import load_image
from training.data.batches import ShuffledBatches
from training.engine.config import main as run_as_command
from training.engine.loop import RunResult, run
from training.engine.loop_settings import require
from training.engine.model_card import read_card
from training.engine.processes import Gather, device, is_main_process, say
from training.engine.recipe import compute_of, own_settings, run_recipe
from weights.making.cards import image_tower_card
from weights.making.held_out import HeldOut, photo_files
from weights.making.image_tower import contrast
from weights.making.image_tower.data import CaptionDraws, CaptionEmbeddings, embeddings_of
from weights.making.image_tower.features import TrainedHalf, frozen_half, view_pixels
from weights.making.image_tower.rows import PhotoRow, TrainingRows, rows_of
from weights.making.jsonl import beside
from weights.making.package_texts import read_texts
from weights.making.settings import SecondStageSettings
from weights.measuring.planting import plant

# Languages and kinds of wrong words; of English captions three of each kind but numbers, of others one.
_NEAR_LANGUAGES = ("en", "de", "fr", "zh")
_NEAR_KINDS = ("same_kind", "colour", "number", "verb")
# Most captions of a language that get an opener, and sentences of languages with few captions.
_OPENED, _OPENED_ENGLISH, _SENTENCES = 4000, 12_000, 1500
_FEW_CAPTIONS = ("es", "it", "ko", "nl", "pl", "pt", "ru", "tr", "ar", "ja")
_TEXT_SETTINGS: dict[str, Any] = beside(__file__, "text_settings.yaml")
_TEXT_DROPOUT = 0.1
# Sides of a damaged photo, as a share of those that the network reads, and the qualities of its compression.
_RESCALED, _QUALITIES = (0.45, 1.2), (30, 90)
_FILTERS = tuple(getattr(Image.Resampling, name) for name in ("BICUBIC", "BILINEAR", "LANCZOS", "BOX"))
# So that English is drawn wherever a photo has it.
_ENGLISH = 1 - 1e-9


def near_right(rows: Sequence[PhotoRow]) -> list[PhotoRow]:
    """The rows with captions "right" and "wrong" in place of their own: each pair differs in one word."""
    found = []
    for row in rows:
        pairs = set()
        for language, kind, number in itertools.product(_NEAR_LANGUAGES, _NEAR_KINDS, range(3)):
            if language in row.captions and (number == 0 or (language == "en" and kind != "number")):
                chance = random.Random(f"{row.photo} {language} {kind} {number}")
                planted = plant(row.captions, language, kind, chance)
                if planted is not None:
                    pairs.add((planted.original, planted.caption))
        right, wrong = zip(*sorted(pairs), strict=True) if pairs else ((), ())
        found.append(row._replace(captions={"right": right, "wrong": wrong}))
    return found


def with_openers(rows: Sequence[PhotoRow], folder: Path, seed: int) -> PhotoRow:
    """A row whose captions are "plain" ones and the same "opened", in 15 languages.

    `folder` is that of `weights.making.package_texts`, with sentences for languages of few captions.
    """
    openers = beside(__file__, "openers.json")
    chance, plain, opened = random.Random(seed), [], []
    for language, own in openers.items():
        texts = [text for row in rows for text in row.captions.get(language, ())]
        drawn = chance.sample(texts, min(len(texts), _OPENED_ENGLISH if language == "en" else _OPENED))
        if language in _FEW_CAPTIONS:
            read = read_texts(folder / f"{language}.jsonl")
            sentences = [row["text"] for row in read if row["source"] == "tatoeba"]
            drawn += chance.sample(sentences, min(len(sentences), _SENTENCES))
        plain += drawn
        opened += [chance.choice(own).replace("{}", folded(text)) for text in drawn]
    return rows[0]._replace(captions={"plain": tuple(plain), "opened": tuple(opened)})


def learn_text_place(
    text: TextPlace,
    before: TextPlace,
    texts: np.ndarray,
    opened: CaptionEmbeddings,
    settings: SecondStageSettings,
    identity: Mapping[str, Any],
) -> RunResult:
    """Train a text place: `texts` (n, dim) keep the places of `before`, `opened` get those of "plain"."""
    inner, outer = cast(nn.Linear, text.inner), cast(nn.Linear, text.outer)
    plain, changed = (opened.matrix[slice(*opened.offsets[name])] for name in ("plain", "opened"))

    def loss(model: nn.Module, rows: Sequence[int], gather: Gather) -> dict[str, Tensor]:
        drawn = texts[contrast.chance_of_step().integers(len(texts), size=len(rows))]
        losses = {}
        for name, given, wanted in (("kept", drawn, drawn), ("opened", changed[rows], plain[rows])):
            item, other = (torch.from_numpy(part).to(device()).float() for part in (given, wanted))
            hidden = F.dropout(F.gelu(inner(item)), _TEXT_DROPOUT)
            place = F.normalize(item + text.adapter(item) + outer(hidden), dim=-1)
            losses[name] = 1.0 - (place * before.adapted(other)).sum(dim=-1).mean()
        return {"loss": losses["kept"] + losses["opened"], **losses}

    folder = str(Path(settings.out) / "text")
    own = replace(settings, out=folder, max_steps=settings.text_steps, **_TEXT_SETTINGS)
    batches = ShuffledBatches(range(len(plain)), own.batch_size, settings.seed)
    return run(text, batches, loss, own, identity=identity)


def anchor_photos(settings: SecondStageSettings, rows: TrainingRows, held: HeldOut) -> list[PhotoRow]:
    """COCO's photos without a caption that may be trained on, evenly spread."""
    used, folder = {row.photo for row in rows.photos}, Path(settings.photos).expanduser()
    free = {
        photo: PhotoRow(photo, name, folder / name, {})
        for name, photo in photo_files(folder).items()
        if photo.collection == "coco" and photo not in used and not held.reason(photo, name)
    }
    found, n = list(free.values()), min(settings.anchors, len(free))
    return [found[index * len(found) // n] for index in range(n)]


def damaged(image: Image.Image, side: int, chance: np.random.Generator) -> Image.Image:
    """The photo as it comes from the web: rescaled to a square of about `side` and compressed."""
    size = max(1, round(side * chance.uniform(*_RESCALED)))
    rescaled = image.resize((size, size), _FILTERS[chance.integers(len(_FILTERS))])
    stream = io.BytesIO()
    rescaled.save(stream, ("JPEG", "WEBP")[chance.integers(2)], quality=int(chance.integers(*_QUALITIES)))
    return Image.open(stream).convert("RGB")


class SecondStageLoss(contrast.Contrast):
    """The loss of a batch of photos, given by their numbers; the text place of `tower` is fixed.

    `captions` and `near` are embeddings of the captions of `photos` and of `near_right`; `start` is the tower
    whose similarities the `anchors` keep.
    """

    settings: SecondStageSettings

    def __init__(
        self,
        settings: SecondStageSettings,
        tower: ImageTower,
        start: ImageTower,
        photos: Sequence[PhotoRow],
        anchors: Sequence[PhotoRow],
        captions: CaptionEmbeddings,
        near: CaptionEmbeddings,
    ):
        self.start, self.photos, self.anchors = start, photos, anchors
        self.early = frozen_half(tower.trunk, settings.frozen_blocks)
        self.half = TrainedHalf(tower, settings.frozen_blocks)
        self.english = CaptionDraws(captions, _ENGLISH)
        self.draws = CaptionDraws(captions, settings.english_share)
        owner = np.full(len(captions.matrix), -1)  # place of a caption → number of its photo
        for own in self.draws.offsets:
            owner[own[0] : own[-1]] = np.repeat(np.arange(len(photos)), np.diff(own))
        self.pool = np.flatnonzero(owner >= 0)
        self.near_starts = [near.offsets[name] for name in ("right", "wrong")]
        self.threads = ThreadPoolExecutor()
        where = contrast.device_of(tower)
        with torch.no_grad():
            self.owner = torch.from_numpy(owner).to(where)
            self.captions, self.near = (
                tower.text.adapted(torch.from_numpy(part.matrix.astype(np.float32)).to(where))
                for part in (captions, near)
            )
            sums = torch.zeros(len(photos), tower.config.dim, device=where)
            sums.index_add_(0, self.owner[self.pool], self.captions[self.pool])
        super().__init__(settings, F.normalize(sums, dim=-1))

    def __call__(self, average: nn.Module, rows: Sequence[int], gather: Gather) -> Mapping[str, Tensor]:
        settings, learner = self.settings, average.model
        tower, chance, scale = learner.tower, contrast.chance_of_step(), self.settings.logit_scale
        numbers, n = np.asarray(rows), len(rows)
        anchors = chance.integers(len(self.anchors), size=-(-n // 4)) if self.anchors else np.zeros(0, int)
        pixels = self._pixels(numbers, anchors, chance).to(contrast.device_of(tower))
        with torch.autocast(pixels.device.type, torch.bfloat16, enabled=settings.half_precision):
            with torch.no_grad():
                early = self.early(pixels.contiguous(memory_format=torch.channels_last))
            maps = self.half(early).float()
        seen = tower.head(maps[:n], contrast.random_boxes(n, chance).to(pixels.device))

        own = torch.from_numpy(numbers).to(pixels.device)
        places = [draws.places(numbers, chance) for draws in (self.english, self.draws)]
        places.append(chance.choice(self.pool, size=settings.pool))
        drawn = torch.from_numpy(np.concatenate(places)).to(pixels.device)
        captions, owner = self.captions[drawn], self.owner[drawn]
        asked = torch.arange(2 * n, device=own.device)
        which, right, wrong = self._near(numbers, chance)
        of_photos = contrast.Drawn(captions, owner, asked, self.means[owner[asked]])
        losses = self.contrasts(learner, gather, own, seen, of_photos, wrong)
        loss = torch.lerp(losses["caption"], losses["photo"], settings.photo_share)
        loss = loss + settings.region_weight * losses["region"] + settings.pair_weight * losses["pair"]
        if len(wrong):
            ahead = (seen[which, 0] * (right - wrong)).sum(dim=1)
            losses["near"] = F.softplus(-scale * ahead).mean()
            loss = loss + settings.near_weight * losses["near"]
        if len(anchors):
            with torch.no_grad():
                before = self.start.embed(self.start.feature_map(pixels[n:]))
            kept = (scale * before @ captions.T).softmax(dim=-1)
            losses["anchor"] = contrast.cross_entropy(scale * tower.embed(maps[n:]) @ captions.T, kept)
            loss = loss + settings.anchor_weight * losses["anchor"]
        return {"loss": loss, **losses}

    def _pixels(self, numbers: np.ndarray, anchors: np.ndarray, chance: np.random.Generator) -> Tensor:
        """Random parts of photos, some of them damaged, and then the anchors, (n, 3, side, side)."""
        side = self.start.config.side
        views = chance.integers(1, 2**31, size=len(numbers))
        bad = chance.random(len(numbers)) < self.settings.damaged_share

        def read(row: PhotoRow, view: int, bad: bool) -> np.ndarray:
            image = load_image(row.file)
            image = damaged(image, side, np.random.default_rng(view)) if bad else image
            return view_pixels(image, row.photo, view, side, least_area=self.settings.least_area)

        rows = [*(self.photos[row] for row in numbers), *(self.anchors[row] for row in anchors)]
        whole = [0] * len(anchors)
        found = self.threads.map(read, rows, [*views.tolist(), *whole], [*bad.tolist(), *whole])
        return torch.from_numpy(np.stack(list(found)))

    def _near(self, numbers: np.ndarray, chance: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Two pairs of each photo that has some: place of the photo in the batch, right and wrong caption."""
        counts = np.diff(self.near_starts[0])[numbers]
        which = np.tile(np.flatnonzero(counts), 2)
        pair = (chance.random(len(which)) * counts[which]).astype(np.int64)
        right, wrong = (self.near[torch.from_numpy(at[numbers[which]] + pair)] for at in self.near_starts)
        return torch.from_numpy(which).to(self.near.device), right, wrong


def train(settings: SecondStageSettings) -> RunResult:
    """Run the recipe: read rows, embed captions, train the text place, then the tower, save."""
    folder = Path(settings.start).expanduser()
    start, before = load_image_tower(folder)[0].to(device()), read_card(folder)
    own, hidden = start.config.text_hidden, settings.text_hidden
    require(own in (0, hidden), "text_hidden", hidden, f"{own}, the start's")
    rows, held = rows_of(settings)
    photos, anchors = rows.photos, anchor_photos(settings, rows, held)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        tower = ImageTower(replace(start.config, text_hidden=hidden))
    tower.load_state_dict(start.state_dict(), strict=False)
    tower.to(device())
    openers = with_openers([*photos, *rows.texts], Path(settings.texts).expanduser(), settings.seed)
    parts = embeddings_of(settings, photos, rows.texts, near_right(photos), [openers])
    captions, texts, near, opened = parts
    names = [part.digest for part in parts] + [row.name for row in anchors]
    identity = {
        **own_settings(settings, (*contrast.NO_IDENTITY, "start")),
        "start_digest": weights_digest(start),
        "data_digest": xxhash.xxh3_128_hexdigest("\0".join(names).encode()),
    }

    say("training the place of texts")
    matrices = [captions.matrix, texts.matrix, near.matrix, opened.matrix[slice(*opened.offsets["plain"])]]
    result = learn_text_place(tower.text, start.text, np.concatenate(matrices), opened, settings, identity)
    if not result.finished:
        return result
    say(f"training with {len(photos):,} photos, and {len(anchors):,} that keep their similarities")
    loss = SecondStageLoss(settings, tower, start, photos, anchors, captions, near)
    result = contrast.train_tower(settings, tower, loss, len(photos), identity)
    if not result.finished or not is_main_process():
        return result
    with torch.no_grad():
        for name, weights in (*tower.trunk.named_parameters("trunk"), *tower.head.named_parameters("head")):
            weights.lerp_(start.get_parameter(name), settings.start_share)

    def maps_of(chosen: np.ndarray) -> Tensor:
        pixels = [photo_pixels(load_image(photos[row].file), tower.config.side) for row in chosen]
        return tower.feature_map(torch.stack(pixels).to(device()))

    w = contrast.measured_w(tower, maps_of, loss.draws, np.arange(len(photos)))
    card = image_tower_card(settings, rows, held, w=w, compute=f"{before.compute}; then {compute_of(result)}")
    sources = {source.name: source for source in (*before.data, *card.data)}
    began = f"It began as {before.name}, and {len(anchors):,} photos without captions kept its similarities."
    card = replace(card, data=list(sources.values()), limitations=[*card.limitations, began])
    contrast.save(settings, tower, result.step, card, w)
    return result


def main(argv: Sequence[str] | None = None) -> None:
    run_recipe(SecondStageSettings, train, argv, "Train the image tower of `embedded` further.")


if __name__ == "__main__":
    run_as_command(main)
