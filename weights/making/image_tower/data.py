"""Settings → what the eye is trained on: rows without what is held out, features, embeddings of captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xxhash

from capscore.backbones.embedded.backbone import SentenceEncoderBackbone
from capscore.backbones.embedded.image_tower import ImageTower
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from training.engine.processes import main_process_first, say
from weights.making.held_out import HeldOut, held_out_photos
from weights.making.image_tower.caption_embeddings import CaptionEmbeddings, caption_embeddings
from weights.making.image_tower.features import photo_features
from weights.making.image_tower.labelled import labelled_captions
from weights.making.image_tower.rows import (
    LABELLED,
    PHOTO_SUFFIXES,
    TrainingRows,
    photo_files,
    read_captions,
    training_rows,
)
from weights.making.image_tower.settings import ImageTowerSettings
from weights.making.image_tower.trunk_halves import FrozenHalf, blocks_of_stages
from weights.making.look_alikes import look_alikes
from weights.making.photo_names import photo_of


@dataclass(frozen=True)
class TrainingData:
    """What the eye is trained on.

    Attributes:
        rows: `rows.photos`, the photos with their captions, and `rows.texts`, captions without pixels.
        views: Per view float16 (photos, channels, height, width), memory-mapped: row n is of
            `rows.photos[n]`. View 0 is the whole photo.
        captions: Embeddings of the captions of `rows.photos`, centred, of unit length.
        texts: Those of `rows.texts`.
        eye: Network to train: its trunk gave the features, and its texts have the encoder's centre.
        frozen_blocks: Number of blocks of the trunk that gave the features and are not trained.
        digest: Digest of rows, features and embeddings, for the identity of a run.
    """

    rows: TrainingRows
    views: list[np.ndarray]
    captions: CaptionEmbeddings
    texts: CaptionEmbeddings
    eye: ImageTower
    frozen_blocks: int
    digest: str


def rows_of(settings: ImageTowerSettings) -> tuple[TrainingRows, HeldOut]:
    """The rows to train on, checked once more for what is held out, and what is held out.

    Raises:
        CapscoreError: a file is missing or damaged, or a photo that is held out is in a file of captions that
            was made for the training; names photo, set and row.
    """
    data, texts = Path(settings.data).expanduser(), Path(settings.texts).expanduser()
    folder = Path(settings.photos).expanduser()
    photos = photo_files(folder)
    coco = [Path(path).expanduser() for path in settings.coco]
    captions = read_captions(data, texts, coco, settings.sources)
    for path in settings.labelled:
        labels, files = labelled_captions(Path(path).expanduser(), folder)
        captions += labels
        photos = replace(photos, files={**photos.files, **files})
    held = held_out_photos(data, [*photos.names, *(caption.name for caption in captions)])
    rows = training_rows(
        captions, photos, held, most_photos=settings.most_photos, captionless=settings.captionless
    )
    rows.check(held)
    _refuse_look_alikes(rows, held, folder)
    return rows, held


def _refuse_look_alikes(rows: TrainingRows, held: HeldOut, folder: Path) -> None:
    """Raise if a labelled photo, which has no number, looks like one in the folder that is held out."""
    labelled = [row for row in rows.photos if row.source == LABELLED]
    if not labelled:
        return
    say(f"comparing {len(labelled):,} labelled photos with those that are held out")
    own = {row.name for row in labelled}
    files = (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in PHOTO_SUFFIXES)
    kept_back = [
        path
        for path in files
        if (name := path.relative_to(folder).as_posix()) not in own
        and (photo := photo_of(name)) is not None
        and held.reason(photo, name)
    ]
    for row, other, correlation in look_alikes([row.file for row in labelled if row.file], kept_back):
        raise InputError(
            f"{labelled[row].name} may not be trained on: it looks like {other}, which is held out (small "
            f"pictures of both correlate by {correlation:.3f}). Remove its rows",
            row=row,
            field=LABELLED,
        )


def prepare(
    settings: ImageTowerSettings, rows: TrainingRows, eye: ImageTower, encoder: SentenceEncoderBackbone
) -> TrainingData:
    """Features and embeddings of the rows, computed where they are not on disk.

    Args:
        settings: Settings of the run.
        rows: Rows to train on.
        eye: Network to train, with the trunk as published.
        encoder: Backbone whose text encoder embeds the captions; the eye gets its centre.

    Raises:
        CapscoreError: as in `photo_features` and `caption_embeddings`.
    """
    folder = settings.features_folder
    blocks = blocks_of_stages(eye.config.stages, settings.frozen_stages)
    frozen = FrozenHalf(eye.trunk, blocks)
    eye.text.centre.copy_(encoder.centre)

    def encode(texts: Sequence[str]) -> np.ndarray:
        found = Embedder(encoder, cache=EmbeddingCache(None)).texts(texts)
        return found.matrix[found.index]

    with main_process_first():  # the others find the files
        say(f"features of {len(rows.photos):,} photos, {settings.views} views each, in {folder}")
        views = photo_features(rows.photos, frozen, folder, settings.views, settings.view_settings)
        captions = caption_embeddings(
            rows.photos, encode, encoder.fingerprint, folder / "captions-of-photos.npy"
        )
        texts = caption_embeddings(rows.texts, encode, encoder.fingerprint, folder / "captions-alone.npy")
    manifests = [(folder / f"view-{view}.json").read_bytes() for view in range(settings.views)]
    digest = xxhash.xxh3_128(b"\0".join([*manifests, captions.digest.encode(), texts.digest.encode()]))
    return TrainingData(rows, views, captions, texts, eye, blocks, digest.hexdigest())
