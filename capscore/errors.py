"""What capscore raises: each error says what was given, what was expected, and which row."""

from __future__ import annotations


class CapscoreError(Exception):
    """The parent of every error that capscore raises on purpose."""


class InputError(CapscoreError, ValueError):
    """Something a person handed over cannot be scored.

    Args:
        message: what was given and what was expected, without the row.
        row: 0-based row that is at fault, or None if no single row is.
        field: the argument at fault, in the field's own words ("image", "candidate", "references").
    """

    def __init__(self, message: str, *, row: int | None = None, field: str | None = None):
        self.message = message
        self.row = row
        self.field = field
        super().__init__(message)

    def __str__(self) -> str:
        place = [] if self.row is None else [f"row {self.row}"]
        if self.field is not None:
            place.append(self.field)
        return f"{', '.join(place)}: {self.message}" if place else self.message

    def message_with_field(self) -> str:
        """The message with the field before it, for lists that name the row themselves."""
        return f"{self.field}: {self.message}" if self.field else self.message

    def at(self, row: int, field: str | None = None) -> InputError:
        """The same error, placed at a row."""
        return type(self)(self.message, row=row, field=field or self.field)

    def __reduce__(self):
        return _rebuild, (type(self), self.message, self.row, self.field)


def _rebuild(cls: type[InputError], message: str, row: int | None, field: str | None) -> InputError:
    return cls(message, row=row, field=field)


class ImageError(InputError):
    """An image that cannot be read, or that is not what it should be."""


class MissingExtraError(CapscoreError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str, purpose: str):
        self.package, self.extra, self.purpose = package, extra, purpose
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed: "
            f"pip install 'capscore[{extra}]'"
        )


class BackboneUnavailable(CapscoreError, OSError):
    """A backbone's weights cannot be had here; the message says why and what can be had."""


class ResultWriteError(CapscoreError, OSError):
    """A result could not be written; nothing half-written carries the result's name."""


class CacheWarning(UserWarning):
    """The embedding cache could not be used; scores are right, only slower."""


class TruncationWarning(UserWarning):
    """Texts were longer than the backbone's context and were cut."""


class CorpusWarning(UserWarning):
    """A score that compares rows with each other was asked of rows that cannot be compared."""


class LanguageWarning(UserWarning):
    """The backbone was not trained on a language it is asked to score, or texts are not in the one stated."""


class RecipeWarning(UserWarning):
    """A metric that needs a text tower trained for it was given another one."""


class RegionWarning(UserWarning):
    """No region was found in an image, so that nothing in it can be mentioned."""
