"""What models that judge captions have in common: names, batches, and errors about memory and tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from ..backbones.base import DTYPES
from ..errors import BackboneUnavailable, CapscoreError, InputError, Part, Setting, message_of
from .prompts import Prompt, Prompter
from .readings import Reading

if TYPE_CHECKING:
    from PIL import Image
    from transformers import PreTrainedModel, ProcessorMixin

Photo = TypeVar("Photo")


class TooLong(Exception):
    """Prompts that a model cannot read together with their photo."""

    def __init__(self, problems: dict[int, InputError]):
        super().__init__(problems)
        self.problems = problems


class PhotoModel(ABC, Generic[Photo]):
    """A model that reads photos and texts.

    Attributes:
        refused_options: Options of the judge that must keep their defaults.
        value_names: What `read` says of each answer: "number" and "mass", which a reading gives, and more.
        waits: Whether most of its time is waiting, so that threads read the photos they prepared.
        dtype, device: Number format and device of the weights, or "server".
        settings: How it computes, for the signature.
        identity: What tells its answers in the cache from those of others, besides the signature.
    """

    prompter: Prompter | None = None
    refused_options: tuple[str, ...] = ()
    value_names: ClassVar[tuple[str, ...]] = ("number", "mass")
    waits: ClassVar[bool] = False
    dtype: str
    device: str
    settings: Mapping[str, object]
    identity: tuple[str, ...] = ()

    def __init__(self, name: str, revision: str, batch_size: int):
        self.name, self.revision, self.batch_size = name, revision, batch_size

    def asking(self) -> AbstractContextManager[object]:
        """A block in which the model is asked; threads that wait give up if it ends with an error."""
        return nullcontext()

    @abstractmethod
    def fits(self, reading: Reading) -> bool:
        """Whether the model can be read in this way."""

    def limits(self) -> tuple[Part, ...]:
        """Why an option is refused, after its name."""
        return (f" does not go with {self.name}",)

    def check_lengths(self, questions: Sequence[tuple[int, Prompt]]) -> dict[int, InputError]:
        """Rows whose text is too long to be read → the error."""
        return {}

    @abstractmethod
    def prepare(self, image: Image.Image | None, prompts: Sequence[Prompt]) -> Photo:
        """A photo, or none, and its prompts, ready for `read`; threads may prepare several at once."""

    @abstractmethod
    def read(self, photos: Sequence[Photo], reading: Reading) -> list[np.ndarray]:
        """For each photo float32 (prompts, d): what is read of each answer, by `value_names`."""

    def problems(self, photo: Photo) -> Mapping[int, InputError]:
        """Index of each prompt that `read` found no answer to → the error."""
        return {}

    def generate(self, image: Image.Image | None, prompt: Prompt, max_new_tokens: int = 160) -> str:
        """What the model answers to a prompt, about a photo or none, at each place the likeliest token."""
        raise BackboneUnavailable(f"{self.name} answers no questions")


class LocalModel(PhotoModel[Photo]):
    """A model of transformers on this machine, and its processor."""

    gpu_batch: ClassVar[int] = 32

    def __init__(
        self,
        model: PreTrainedModel,
        processor: ProcessorMixin,
        name: str,
        revision: str,
        *,
        batch_size: int | None = None,
    ):
        super().__init__(name, revision, batch_size or (8 if model.device.type == "cpu" else self.gpu_batch))
        self.model, self.processor = model, processor
        self.dtype, self.device = str(model.dtype).removeprefix("torch."), str(model.device)
        self.settings = {"dtype": DTYPES[self.dtype]}
        if None in (getattr(processor, part, None) for part in ("image_processor", "tokenizer")):
            raise BackboneUnavailable(f"{name} has no image processor: a judge looks at photos")


@contextmanager
def clear_errors(judge: LocalModel[Any]) -> Iterator[None]:
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


def _misfit(judge: PhotoModel[Any], error: Exception) -> BackboneUnavailable:
    fits = "its configuration and its weights or processor do not fit together"
    return BackboneUnavailable(f"{judge.name} cannot answer: {fits} ({message_of(error)})")
