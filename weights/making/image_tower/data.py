"""Settings → what is trained on: rows without what is held out, features, embeddings of captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xxhash
from PIL import Image

from capscore.backbones.embedded.backbone import SentenceEncoderBackbone
from capscore.backbones.embedded.image_tower import ImageTower
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from capscore.images.load import load_image
from training.engine.processes import main_process_first, say
from weights.making.held_out import HeldOut, held_out_photos, photo_of
from weights.making.image_tower.captions import CaptionEmbeddings, caption_embeddings
from weights.making.image_tower.features import FrozenHalf, blocks_of_stages, photo_features
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

_SIDE = 16
# Two versions of one photo correlate more: halved and saved again as JPEG, each of 300 kept 0.9987 or more.
# Of 6,181 labelled photos and 18,034 of Flickr8k, COCO and VOC the most alike two had 0.982.
ALIKE = 0.985


@dataclass(frozen=True)
class TrainingData:
    """What the image tower is trained on."""

    rows: TrainingRows
    # per view float16 (photos, channels, height, width), memory-mapped, in the order of `rows.photos`; view 0
    # is the whole photo
    views: list[np.ndarray]
    captions: CaptionEmbeddings  # of `rows.photos`, centred, of unit length
    texts: CaptionEmbeddings  # of `rows.texts`
    tower: ImageTower  # its trunk gave the features, and its texts have the encoder's centre
    frozen_blocks: int  # blocks of the trunk that gave the features and are not trained
    digest: str  # of rows, features and embeddings, for the identity of a run


def rows_of(settings: ImageTowerSettings) -> tuple[TrainingRows, HeldOut]:
    """The rows to train on, checked once more for what is held out, and what is held out."""
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
            f"{labelled[row].name} may not be trained on: it looks like {other}, which is held out (their "
            f"correlation is {correlation:.3f}). Remove its rows",
            row=row,
            field=LABELLED,
        )


def prepare(
    settings: ImageTowerSettings, rows: TrainingRows, tower: ImageTower, encoder: SentenceEncoderBackbone
) -> TrainingData:
    """Features and embeddings of the rows, computed where they are not on disk; the tower gets a centre."""
    folder = settings.features_folder
    blocks = blocks_of_stages(tower.config.stages, settings.frozen_stages)
    frozen = FrozenHalf(tower.trunk, blocks)
    tower.text.centre.copy_(encoder.centre)

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
    return TrainingData(rows, views, captions, texts, tower, blocks, digest.hexdigest())


def small_picture(image: Image.Image) -> np.ndarray:
    """The 16 × 16 grey levels of an image, centred and of unit length, float32 (256,); zeros for one colour.

    >>> ramp = Image.linear_gradient("L")
    >>> round(float(small_picture(ramp) @ small_picture(ramp.resize((90, 90)))), 4)
    1.0
    """
    grey = image.convert("L").resize((_SIDE, _SIDE), Image.Resampling.BOX)
    levels = np.asarray(grey, dtype=np.float32).ravel()
    levels = levels - levels.mean()
    length = np.linalg.norm(levels)
    return levels / length if length > 0 else levels


def look_alikes(
    files: Sequence[Path], held: Sequence[Path], alike: float = ALIKE
) -> list[tuple[int, Path, float]]:
    """The photos among `files` that look like one that is held out: row, most alike photo, correlation.

    A photo of a collection of labels has no number by which it could be recognised in a test set, so it is
    compared by what it shows: the correlation of two small grey pictures, which stays near 1 for another
    size, another encoder and other brightness.
    """
    if not files or not held:
        return []
    own, others = (np.stack([small_picture(load_image(file)) for file in part]) for part in (files, held))
    correlations = own @ others.T
    nearest = correlations.argmax(axis=1)
    found = correlations[np.arange(len(files)), nearest]
    return [(int(row), held[nearest[row]], float(found[row])) for row in np.flatnonzero(found > alike)]
