"""Signatures and scores that are stored here are those of this installation, whatever its versions.

Needs capscore with its weights, and pytest: `make release-check` runs it on every Python of the machine, and
with the lowest declared versions.
"""

import re

import numpy as np
import pytest

import capscore

# versions of capscore and of the packages that split captions are those that are installed
_VERSION = re.compile(r"(?<=-)\d+(\.\d+)+|(?<=version:)[^|]+")
_ROWS = "lang:de+en|dtype:fp32|exif:yes|version:*"
_EMBEDDED = "backbone:embedded@w5ffb627b"
OF_MCS = f"w:1.03926|prefix:none|text:folded2|refs:0|{_ROWS}"
STORED = {
    "mcs": (f"mcs|{_EMBEDDED}|{OF_MCS}", [0.3580264, 0.0]),
    "ref_clip_score": (f"ref_clip_score|{_EMBEDDED}|{OF_MCS.replace('refs:0', 'refs:1')}", [0.4425139, 0.0]),
    "pr_mcs": (f"pr_mcs|backbone:embedded-pr-mcs@wbe8dad62|{OF_MCS}", [0.3580264, 0.0]),
    "infometic": (
        f"infometic|{_EMBEDDED}|weights:infometic@w53827c13|regions:things@d87755dc|n_regions:20"
        "|marks:learned@w1e707017|false_alarms:0.05|plus:30|prefix:none|text:folded2|words:classes2+hanta-*"
        f"|refs:0|{_ROWS}",
        [-1.6706865, -13.7388682],
    ),
}


@pytest.mark.parametrize("metric", STORED)
def test_a_stored_signature_and_score_is_that_of_any_version(metric):
    signature, expected = STORED[metric]
    name = "embedded-pr-mcs" if metric == "pr_mcs" else "embedded"
    scorer = capscore.load(metric, backbone=name, device="cpu", cache=False)
    square = np.zeros((96, 96, 3), np.uint8)
    square[24:72, 24:72] = (200, 30, 30)
    references = [["a red box"], ["zwei Hunde rennen"]] if scorer.needs_references else None
    captions = ["A red square on black.", "Zwei Hunde am Strand"]
    found = scorer.score(captions, images=[square] * 2, references=references, language=["en", "de"])
    assert _VERSION.sub("*", found.signature) == signature
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-5)
