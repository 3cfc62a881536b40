"""Runs every check, and prints what is wrong; the exit code is 1 if anything is."""

from __future__ import annotations

from collections.abc import Callable

from . import documents, licences, pages, structure

CHECKS: tuple[Callable[[], list[str]], ...] = (
    *(documents.missing_places, documents.missing_commands, documents.unknown_in_code),
    *(structure.too_many_packages, structure.names_of_two_classes, structure.imports_of_the_command_line),
    *(structure.undeclared_libraries, structure.files_that_the_source_archive_lacks),
    *(pages.metadata_of_cards, pages.made_pages, pages.figures_of_pages, pages.names_that_pages_lack),
    *(pages.lines_too_many_of_the_readme, pages.captions_of_the_demo, pages.calibrations_that_ship),
)
# a source archive has no weights
if (licences.WEIGHTS / "pyproject.toml").exists():
    CHECKS += (licences.packages, licences.weights, licences.backbones, licences.spaces, licences.pages)


def main() -> int:
    problems = [f"{check.__name__}: {problem}" for check in CHECKS for problem in check()]
    print(*problems, f"{len(problems)} problems in {len(CHECKS)} checks", sep="\n")
    return bool(problems)


if __name__ == "__main__":
    raise SystemExit(main())
