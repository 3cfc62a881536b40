"""What models that judge captions have in common: names, batches, and errors about memory and tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from ..errors import BackboneUnavailable, CapscoreError, InputError, Part, Setting, message_of

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image
    from transformers import PreTrainedModel, ProcessorMixin

    from .prompts import Prompt, Prompter
    from .readings import Reading

Photo = TypeVar("Photo")


class TooLong(Exception):
    """Prompts that a model cannot read together with their photo.

    Attributes:
        problems: Index of the prompt → the error.
    """

    def __init__(self, problems: dict[int, InputError]):
        super().__init__(problems)
        self.problems = problems


class PhotoModel(ABC, Generic[Photo]):
    """A model of transformers that reads photos and texts, and its processor.

    Args:
        model: The model, in eval mode.
        processor: Its processor.
        name, revision: As in `Backbone`.
        batch_size: Number of rows per batch; None takes 8 on a CPU and `gpu_batch` on a GPU.

    Attributes:
        prompter: What turns prompts into token ids; None for a model that is asked nothing.
        refused_options: Options of the judge that must keep their defaults.

    Raises:
        BackboneUnavailable: the processor reads no images.
    """

    gpu_batch: ClassVar[int] = 32
    prompter: Prompter | None = None
    refused_options: tuple[str, ...] = ()

    def __init__(
        self,
        model: PreTrainedModel,
        processor: ProcessorMixin,
        name: str,
        revision: str,
        *,
        batch_size: int | None = None,
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

    @abstractmethod
    def fits(self, reading: Reading) -> bool:
        """Whether the model can be read in this way."""

    @abstractmethod
    def limits(self) -> tuple[Part, ...]:
        """Why an option is refused, after its name."""

    @abstractmethod
    def check_lengths(self, questions: Sequence[tuple[int, Prompt]]) -> dict[int, InputError]:
        """Rows whose text is too long to be read → the error."""

    @abstractmethod
    def prepare(self, image: Image.Image, prompts: Sequence[Prompt]) -> Photo:
        """A photo and its prompts, ready for `read`; threads may prepare several at once.

        Raises:
            TooLong: the model cannot read some of the prompts together with the photo.
        """

    @abstractmethod
    def read(self, photos: Sequence[Photo], reading: Reading) -> list[np.ndarray]:
        """For each photo float32 (prompts, 2): what is read of each answer, and its probability mass."""

    def generate(self, image: Image.Image, prompt: Prompt, max_new_tokens: int = 160) -> str:
        """What the model answers to a prompt about a photo, at each place the likeliest token."""
        raise BackboneUnavailable(f"{self.name} answers no questions")


@contextmanager
def clear_errors(judge: PhotoModel) -> Iterator[None]:
    """Make an error of the model one line: which options need less memory, or what does not fit."""
    import torch

    try:
        yield
    except IndexError as error:
        raise BackboneUnavailable(f"the tokenizer of {judge.name} has tokens that the model lacks") from error
    except RuntimeError as error:
        if not isinstance(error, torch.cuda.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise _misfit(judge, error) from error
        torch.cuda.empty_cache()
        smaller = Setting("batch_size", max(1, judge.batch_size // 2))
        tried = f"{judge.name} needs more memory than {judge.device} has: try "
        more = (" or ", Setting("dtype", "bfloat16")) if judge.dtype == "float32" else ()
        raise CapscoreError(tried, smaller, ", a lower ", Setting("max_pixels"), *more) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _misfit(judge, error) from error


def _misfit(judge: PhotoModel, error: Exception) -> BackboneUnavailable:
    fits = "its configuration and its weights or processor do not fit together"
    return BackboneUnavailable(f"{judge.name} cannot answer: {fits} ({message_of(error)})")
