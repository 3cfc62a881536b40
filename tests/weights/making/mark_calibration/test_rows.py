"""Files that the recipe of the marks reads: what is damaged is one error that names the file."""

import pytest

from capscore.errors import InputError
from weights.making.mark_calibration.objects import read_boxes
from weights.making.mark_calibration.rows import read_mark_rows


def test_damaged_files_of_rows_and_boxes_are_named(tmp_path):
    rows, boxes = tmp_path / "rows.jsonl", tmp_path / "boxes.json"
    rows.write_text('{"split": "train", "file": "1.jpg", "captions": [["a dog", "en"]]}\n')
    with pytest.raises(InputError, match=r"rows\.jsonl, line 1"):
        read_mark_rows(rows)
    boxes.write_text('{"1.jpg": [[0, 0, 1, 1]]}')
    with pytest.raises(InputError, match=r"boxes\.json is not a file of boxes"):
        read_boxes(str(boxes), ["1.jpg"])
