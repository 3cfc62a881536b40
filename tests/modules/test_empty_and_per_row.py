"""Modules count empty captions, and leave out their lists where a trainer wants numbers only."""

from __future__ import annotations

import evaluate
import pytest

import capscore
from capscore.errors import InputError

CAPTIONS, REFERENCES = ["a dog", " ", "two cats"], [["a dog runs"], ["a cat"], ["two cats sit"]]
BOTH = 3.7564711970301374  # of the two captions, by themselves


def load(**options):
    return evaluate.load(capscore.module_folder("cider"), **options)


def test_an_empty_caption_is_an_error_that_on_error_does_not_hide():
    module = load()
    with pytest.raises(InputError, match=r"^row 1, candidate: .*empty='score' scores it .*empty='skip'"):
        module.compute(predictions=CAPTIONS, references=REFERENCES, on_error="skip")
    module.add(prediction="a dog", reference=["a dog"])  # nothing of the refused batch is left
    assert module.compute()["n_items"] == 1


def test_rows_that_come_in_pieces_are_counted_together():
    module = load(empty="skip")
    module.add_batch(predictions=CAPTIONS[:2], references=REFERENCES[:2])
    module.add(prediction=CAPTIONS[2], reference=REFERENCES[2])
    result = module.compute()
    assert result["scores"] == [pytest.approx(BOTH), None, pytest.approx(BOTH)]
    assert [result[key] for key in ("n_items", "n_scored", "n_failed", "n_empty")] == [3, 2, 0, 1]
    assert result["cider"] == pytest.approx(BOTH) and "|empty:skip|" in result["signature"]
    # a second call begins anew
    assert module.compute(predictions=["a"], references=[["a"]])["n_empty"] == 0


def test_scored_as_coco_caption_does():
    result = load(empty="score").compute(predictions=CAPTIONS, references=REFERENCES)
    assert result["scores"][1] == 0 and result["n_scored"] == 3 and result["n_empty"] == 1


def test_without_lists_at_load_and_at_compute():
    names = [
        "cider",
        "n_items",
        "n_scored",
        "n_failed",
        "n_empty",
        "n_unique_images",
        "n_truncated",
        "signature",
    ]
    rows = {"predictions": CAPTIONS, "references": REFERENCES}
    assert list(load(empty="skip").compute(**rows, per_row=False)) == names
    always = load(empty="skip", per_row=False)
    assert list(always.compute(**rows)) == names
    assert always.compute(**rows, per_row=True)["scores"][1] is None
    assert always.compute(**rows, per_row=False)["cider"] == pytest.approx(BOTH)
    with pytest.raises(InputError, match="per_row='no': expected True or False"):
        always.compute(**rows, per_row="no")


def test_combined_modules_leave_out_their_lists_too():
    both = evaluate.combine([load(), load(variant="paper")], force_prefix=True)
    result = both.compute(predictions=["a dog", "a cat"], references=[["a dog"], ["a cat"]], per_row=False)
    assert all(isinstance(value, (float, int, str)) for value in result.values())
