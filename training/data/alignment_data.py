"""Stored features and labels for InfoMetIC → batches of tensors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from capscore.errors import CapscoreError
from capscore.infometic.alignment import WordContext
from capscore.infometic.words import spread
from training.data.captions import Captions

# Files of the features, and their format.
VECTORS, PIECES, ADDED = "vectors.npy", "pieces.npy", "added.npy"
INDEX, TEXTS, ABOUT = "index.npz", "texts.jsonl", "about.json"
FORMAT = 1


@dataclass(frozen=True)
class ImageBatch:
    """Images as `Aligner.encode_images` takes them: (b, d), (b, m, d), (b, m, 4), bool (b, m)."""

    global_: Tensor
    regions: Tensor
    boxes: Tensor
    mask: Tensor


@dataclass(frozen=True)
class TextBatch:
    """Texts as `Aligner.encode_texts` takes them, with the labels of their words.

    Attributes:
        global_: (b, d), embeddings of the texts.
        tokens: (b, l, d), embeddings of their pieces.
        mask: bool (b, l), True for a piece.
        shares: (b, l, w), share of each piece that lies in each semantic word.
        labels: (b, w), 1 for right, 0 for wrong.
        counted: bool (b, w), True for a semantic word of which a piece is seen.
        context: What the words add to the texts; None where the features lack it.
    """

    global_: Tensor
    tokens: Tensor
    mask: Tensor
    shares: Tensor
    labels: Tensor
    counted: Tensor
    context: WordContext | None


@dataclass(frozen=True, eq=False)
class AlignmentData:
    """Features and labels of n pairs of an image and a caption, among u images and t texts.

    Lists of lists are flat arrays with the places where each list begins: list i is
    `flat[start[i]:start[i + 1]]`.

    Attributes:
        vectors: float32 (v, d), embeddings of images, regions and whole texts; a memory map.
        pieces: float32 (p, d), embeddings of pieces, each alone; a memory map.
        texts: t captions, including polluted ones.
        image_vector: int64 (u,), place in `vectors`.
        region_start: int64 (u + 1,).
        region_vector: int64, places in `vectors`.
        region_box: float32 (…, 4), in shares of the image; all 0 for a region without a place.
        text_vector: int64 (t,), place in `vectors`.
        piece_start: int64 (t + 1,).
        piece: int64, places in `pieces`.
        word_start: int64 (t + 1,).
        word_label: uint8, 1 for right and 0 for wrong, for the semantic words of which a piece is seen.
        added: float16 (…, d), what each of these words adds to its text; a memory map. None if not wanted.
        share_start: int64 (t + 1,), for the next three.
        share_piece, share_word: int64, numbers within the text.
        share: float32, share of the piece that lies in the word.
        n_semantic: int64 (t,), number of semantic words of a text, including words that were cut off.
        pair_image, pair_text: int64 (n,).
        pair_language: n languages.
        label_start: int64 (n + 1,), for `region_label`.
        region_label: uint8, for the image's regions and the null region; a pair has none where it is unknown
            what the caption mentions.
        polluted_start: int64 (n + 1,), for `polluted`.
        polluted: int64, numbers of texts.
        photo: int64 (n,), number of each pair's photo.
        photo_keys: Content key of each photo.
        names: Names by which a list may refer to a pair.
        counts: Number of things cut, left out or not found, by name.
        digest: Digest of the rows, the options and the backbone.
    """

    vectors: np.ndarray
    pieces: np.ndarray
    added: np.ndarray | None
    texts: list[str]
    image_vector: np.ndarray
    region_start: np.ndarray
    region_vector: np.ndarray
    region_box: np.ndarray
    text_vector: np.ndarray
    piece_start: np.ndarray
    piece: np.ndarray
    word_start: np.ndarray
    word_label: np.ndarray
    share_start: np.ndarray
    share_piece: np.ndarray
    share_word: np.ndarray
    share: np.ndarray
    n_semantic: np.ndarray
    pair_image: np.ndarray
    pair_text: np.ndarray
    pair_language: np.ndarray
    label_start: np.ndarray
    region_label: np.ndarray
    polluted_start: np.ndarray
    polluted: np.ndarray
    photo: np.ndarray
    photo_keys: np.ndarray
    names: list[tuple[str, ...]]
    counts: dict[str, int]
    digest: str

    def __len__(self) -> int:
        return len(self.pair_image)

    def images(self, numbers: Sequence[int], device: str = "cpu") -> ImageBatch:
        """Images by their numbers, padded to the most regions among them."""
        spans = [(self.region_start[number], self.region_start[number + 1]) for number in numbers]
        n, most, dim = (
            len(spans),
            max((stop - start for start, stop in spans), default=0),
            self.vectors.shape[1],
        )
        regions, boxes = np.zeros((n, most, dim), np.float32), np.zeros((n, most, 4), np.float32)
        mask = np.zeros((n, most), dtype=bool)
        for row, (start, stop) in enumerate(spans):
            regions[row, : stop - start] = self.vectors[self.region_vector[start:stop]]
            boxes[row, : stop - start] = self.region_box[start:stop]
            mask[row, : stop - start] = True
        whole = np.asarray(self.vectors[self.image_vector[list(numbers)]], dtype=np.float32)
        return ImageBatch(*(torch.from_numpy(array).to(device) for array in (whole, regions, boxes, mask)))

    def text_batch(self, numbers: Sequence[int], device: str = "cpu", *, length: int = 0) -> TextBatch:
        """Texts by their numbers, padded to the most pieces among them, or to `length` if that is more."""
        n, dim = len(numbers), self.vectors.shape[1]
        length = max(length, max((self.length(number) for number in numbers), default=0))
        width = max((self.word_start[number + 1] - self.word_start[number] for number in numbers), default=0)
        tokens, mask = np.zeros((n, length, dim), np.float32), np.zeros((n, length), dtype=bool)
        shares = np.zeros((n, length, width), np.float32)
        labels, counted = np.zeros((n, width), np.float32), np.zeros((n, width), dtype=bool)
        added, weight = np.zeros((n, length, dim), np.float32), np.zeros((n, length), np.float32)
        for row, number in enumerate(numbers):
            own = self.pieces[self.piece[self.piece_start[number] : self.piece_start[number + 1]]]
            tokens[row, : len(own)], mask[row, : len(own)] = own, True
            words = self.word_label[self.word_start[number] : self.word_start[number + 1]]
            labels[row, : len(words)], counted[row, : len(words)] = words, True
            span = slice(self.share_start[number], self.share_start[number + 1])
            shares[row, self.share_piece[span], self.share_word[span]] = self.share[span]
            if self.added is not None:
                own = self.added[self.word_start[number] : self.word_start[number + 1]]
                added[row], weight[row] = spread(shares[row, :, : len(words)], own.astype(np.float32))
        whole = np.asarray(self.vectors[self.text_vector[list(numbers)]], dtype=np.float32)
        arrays = (whole, tokens, mask, shares, labels, counted)
        context = None
        if self.added is not None:
            context = WordContext(*(torch.from_numpy(array).to(device) for array in (added, weight)))
        return TextBatch(*(torch.from_numpy(array).to(device) for array in arrays), context)

    def length(self, text: int) -> int:
        """Number of pieces of a text."""
        return int(self.piece_start[text + 1] - self.piece_start[text])

    def region_labels(self, pairs: Sequence[int], most: int, device: str = "cpu") -> Tensor:
        """Labels of the regions of pairs and, last, of the null region: (b, most + 1)."""
        labels = np.zeros((len(pairs), most + 1), np.float32)
        for row, pair in enumerate(pairs):
            own = self.region_label[self.label_start[pair] : self.label_start[pair + 1]]
            labels[row, : len(own) - 1], labels[row, -1] = own[:-1], own[-1]
        return torch.from_numpy(labels).to(device)

    def polluted_texts(self, pair: int) -> np.ndarray:
        """Numbers of a pair's polluted captions; the wrong word of each is seen."""
        return self.polluted[self.polluted_start[pair] : self.polluted_start[pair + 1]]

    def with_region_labels(self) -> np.ndarray:
        """bool (n,): the pairs for which it is known what the caption mentions."""
        return np.diff(self.label_start) > 0

    def with_pollution(self) -> np.ndarray:
        """bool (n,): the pairs that have a polluted caption."""
        return np.diff(self.polluted_start) > 0

    def hard_negatives(self) -> list[np.ndarray]:
        """For each pair, the image's other captions in the same language with fewer semantic words."""
        groups: dict[tuple[int, str], list[int]] = {}
        for pair, key in enumerate(zip(self.pair_image.tolist(), self.pair_language.tolist(), strict=True)):
            groups.setdefault(key, []).append(pair)
        found: list[np.ndarray] = [np.zeros(0, np.int64)] * len(self)
        for pairs in groups.values():
            texts = np.unique(self.pair_text[pairs])
            for pair in pairs:
                found[pair] = texts[self.n_semantic[texts] < self.n_semantic[self.pair_text[pair]]]
        return found

    def photo_captions(self) -> Captions:
        """The pairs' captions and photos, for a split that keeps photos together; without embeddings."""
        return Captions(
            texts=[self.texts[text] for text in self.pair_text],
            languages=self.pair_language.tolist(),
            objects=[None] * len(self),
            image=self.photo,
            names=self.names,
            embeddings=np.zeros((0, 0), np.float32),
            keys=self.photo_keys.tolist(),
            n_stand_ins=0,
            n_truncated=0,
        )


def load_features(folder: str | Path) -> AlignmentData:
    """Read what `training.data.alignment_features.prepare` stored.

    Raises:
        CapscoreError: there are no features, or a file is damaged.
    """
    folder = Path(folder).expanduser()
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        if about["format"] != FORMAT:
            raise CapscoreError(f"{folder} has features of another version of this recipe; remove it")
        with np.load(folder / INDEX, allow_pickle=False) as index:
            arrays = {name: index[name] for name in index.files}
        lines = [json.loads(line) for line in (folder / TEXTS).read_text(encoding="utf-8").splitlines()]
        return AlignmentData(
            vectors=np.load(folder / VECTORS, mmap_mode="r"),
            pieces=np.load(folder / PIECES, mmap_mode="r"),
            added=np.load(folder / ADDED, mmap_mode="r") if (folder / ADDED).exists() else None,
            texts=lines[: len(arrays["text_vector"])],
            names=[tuple(names) for names in lines[len(arrays["text_vector"]) :]],
            counts=about["counts"],
            digest=about["digest"],
            **arrays,
        )
    except CapscoreError:
        raise
    except Exception as error:  # every library raises its own error for a damaged file
        raise CapscoreError(
            f"the features in {folder} cannot be read ({type(error).__name__}: {error}); remove the folder, "
            "and the same command computes them again"
        ) from error


def stored_digest(folder: Path) -> str | None:
    """Digest of the features in a folder; "" for damaged ones, None without any."""
    if not folder.exists():
        return None
    try:
        return str(json.loads((folder / ABOUT).read_text(encoding="utf-8"))["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
