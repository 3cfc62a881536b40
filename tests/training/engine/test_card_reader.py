"""What is read back from a card is what it was written from."""

from __future__ import annotations

import pytest

from capscore.errors import InputError
from training.data.origin import DataSource
from training.engine.card_reader import read_origins
from training.engine.model_card import ModelCard, write_card

SOURCES = [
    DataSource("Photos, training split", "CC BY 4.0", rows=12_345, url="https://a.org/b"),
    DataSource("captions (file a|b)", "none stated"),
]


def card(**changes) -> ModelCard:
    plain = dict(
        name="toy",
        recipe="pr_mcs",
        base="embedded",
        languages=["de", "en"],
        license="apache-2.0",
        command="python -m training.pr_mcs",
        settings={"seed": 0},
        data=SOURCES,
    )
    return ModelCard(**{**plain, **changes})


def test_origins_come_back(tmp_path):
    write_card(tmp_path, card(held_out="the 83", limitations=["Only a toy."], compute="cpu, 1.5 minutes"))
    found = read_origins(tmp_path)
    assert found.data == SOURCES
    assert (found.held_out, found.compute) == ("the 83", "cpu, 1.5 minutes")
    assert found.limitations[0] == "Only a toy." and len(found.limitations) > 3


def test_what_was_not_recorded_is_empty(tmp_path):
    write_card(tmp_path, card())
    found = read_origins(tmp_path)
    assert (found.held_out, found.compute) == ("", "")


def test_limitations_that_come_back_are_listed_once(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir(), second.mkdir()
    write_card(first, card(limitations=["Only a toy."]))
    write_card(second, card(limitations=read_origins(first).limitations))
    assert read_origins(second).limitations == read_origins(first).limitations


@pytest.mark.parametrize(
    "text", ["", "# toy\n", "\n## Training data\n\n| data | licence |\n| --- | --- |\n| a | b |\n"]
)
def test_other_cards_are_refused(text, tmp_path):
    (tmp_path / "README.md").write_text(text)
    with pytest.raises(InputError, match="has no table of the training data"):
        read_origins(tmp_path)


def test_a_folder_without_a_card_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"README.md cannot be read \(FileNotFoundError\)"):
        read_origins(tmp_path)
