"""What models that judge captions have in common: names, batches, and errors about memory and tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from ..errors import BackboneUnavailable, CapscoreError, Setting

Photo = TypeVar("Photo")


class PhotoModel:
    """A model of transformers that reads photos and texts, and its processor.

    Args:
        model: The model, in eval mode.
        processor: Its processor.
        name, revision: As in `Backbone`.
        batch_size: Number of rows per batch; None takes 8 on a CPU and `gpu_batch` on a GPU.

    Raises:
        BackboneUnavailable: the processor reads no images.
    """

    gpu_batch: ClassVar[int] = 32

    def __init__(
        self, model: Any, processor: Any, name: str, revision: str, *, batch_size: int | None = None
    ):
        self.model, self.processor, self.name, self.revision = model, processor, name, revision
        self.batch_size = batch_size or (8 if model.device.type == "cpu" else self.gpu_batch)
        if None in (getattr(processor, part, None) for part in ("image_processor", "tokenizer")):
            raise BackboneUnavailable(f"{name} has no image processor: a judge looks at photos")

    @property
    def dtype(self) -> str:
        """Number format of the weights."""
        return str(self.model.dtype).removeprefix("torch.")

    @property
    def device(self) -> str:
        """Device of the weights."""
        return str(self.model.device)


@contextmanager
def clear_errors(judge: PhotoModel) -> Iterator[None]:
    """Make an error about memory one that names the options that need less, and one about tokens clear."""
    import torch

    try:
        yield
    except IndexError as error:
        raise BackboneUnavailable(f"the tokenizer of {judge.name} has tokens that the model lacks") from error
    except RuntimeError as error:
        if not isinstance(error, torch.cuda.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        torch.cuda.empty_cache()
        smaller = Setting("batch_size", max(1, judge.batch_size // 2))
        tried = f"{judge.name} needs more memory than {judge.device} has: try "
        more = (" or ", Setting("dtype", "bfloat16")) if judge.dtype == "float32" else ()
        raise CapscoreError(tried, smaller, ", a lower ", Setting("max_pixels"), *more) from error


def batched_photos(
    photos: Iterable[Photo], batch_size: int, n_rows: Callable[[Photo], int]
) -> Iterator[list[Photo]]:
    """Photos in turn that have `batch_size` rows together, or a few more."""
    waiting: list[Photo] = []
    for photo in photos:
        waiting.append(photo)
        if sum(map(n_rows, waiting)) >= batch_size:
            yield waiting
            waiting = []
    if waiting:
        yield waiting
