"""The study of PR-MCS weights with a toy that is harsh to short texts: what it counts, writes and refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from capscore.benchmarks.robustness import CaptionSet
from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from tests.toy import BLUE, RED, ColourBackbone
from weights.measuring import pr_mcs_alarms as study
from weights.measuring.pr_mcs_alarms import Tower

pytestmark = pytest.mark.filterwarnings("ignore::capscore.TruncationWarning")


class Harsh(ColourBackbone):
    """Turns texts of up to two words to the colour green."""

    def encode_tokens(self, ids):
        rows = super().encode_tokens(ids)
        rows[[len(sequence) < 5 for sequence in ids]] = [0.1, 0.99, 0.1]
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def tower():
    plain, harsh = ColourBackbone(fingerprint="plain"), Harsh(fingerprint="harsh")
    return Tower("harsh", Embedder(harsh, cache=None), Embedder(plain, cache=None))


@pytest.fixture
def captions():
    texts = ["red red ball", "red car by a tree", "blue sea", "blue sky and blue sea"]
    names, photos = ["1_a.jpg", "1_a.jpg", "2_b.jpg", "2_b.jpg"], [RED, RED, BLUE, BLUE]
    return CaptionSet("toy", "", "", "en", texts, names, photos)


def test_a_set_of_captions(tower, captions):
    found = study.measure_set("toys", captions, [tower])
    assert (found["language"], found["n_captions"], found["n_photos"]) == ("en", 4, 2)
    assert found["images"] == "photos"
    plain, harsh = found["results"].values()
    assert list(found["results"]) == ["mcs@colours", "harsh"]
    assert plain["kept"] == 1 and harsh["kept"] < 0.9
    assert plain["styles"] == {} and harsh["styles"]["given"]["below_half"] == 0.25
    assert harsh["styles"]["paragraph"]["n"] == 2
    assert len(plain["drops"]) == 5 + 6 + 1
    assert [*harsh["curves"]] == ["repetition", "removal", "masking", "jumble", "substitution"]
    json.dumps(found)


def test_five_photos_make_a_paragraph_where_each_has_one_caption(captions):
    assert study._with_paragraphs(captions) is captions
    alone = replace(captions, image_ids=list("abcd"))
    assert study._with_paragraphs(alone).image_ids == ["a"] * 4


def test_captions_of_models_are_held_against_themselves(tower):
    kept = study.kept_of_texts(tower, ["red ball", "red ball and a red car"])
    # the cosine of red with what the harsh one makes of it
    np.testing.assert_allclose(kept, [0.1 / np.sqrt(0.1**2 + 0.99**2 + 0.1**2), 1], atol=1e-6)


def test_captions_of_models_are_counted_in_each_data_set_and_in_all(tower, monkeypatch, tmp_path):
    def read(data):
        yield "one", lambda: ["red ball", "red ball and a red car"]
        yield "two", lambda: (_ for _ in ()).throw(InputError("not there"))

    monkeypatch.setattr(study, "model_captions", read)
    found = {"models": {}, "missing": {}}
    study.measure_models(found, tmp_path, [tower])
    assert (
        found["models"]["one"]["harsh"]["below_half"] == 0.5 == found["models"]["all"]["harsh"]["below_half"]
    )
    assert found["missing"] == {"captions of captioning models, two": "not there"}


def test_captions_of_models_as_they_are_compared():
    given = ["A man riding a wave .", "a man riding  a wave", "two dogs.", " . ", "A cat"]
    assert study.written_alike(given, 10) == ["a man riding a wave", "two dogs", "a cat"]
    some = study.written_alike([f"caption {number}" for number in range(100)], 7)
    assert len(some) == 7 and some == study.written_alike([f"caption {number}" for number in range(100)], 7)


def test_a_photo_that_is_trained_on_is_refused(captions, tmp_path):
    measured = replace(captions, image_ids=["1000268201_693b08cb0e.jpg"] * 4)
    trained = tmp_path / "captions.jsonl"
    trained.write_text('{"id": "flickr8k/1001773457_577c3a7d70.jpg#0"}\n{"id": "grammar/12"}\n')
    study.check_untrained([measured], trained)
    trained.write_text('{"id": "grammar/12"}\n{"id": "multi30k/1000268201.jpg"}\n')
    with pytest.raises(
        InputError, match=r"of toy \(en\) is trained on, as multi30k/1000268201\.jpg"
    ) as caught:
        study.check_untrained([measured], trained)
    assert caught.value.row == 1


def test_tables(tower, captions):
    found = {
        "sets": [study.measure_set("toys", captions, [tower])],
        "models": {},
        "agreement": {"τ_c": {"harsh": (53.7, 53.2)}},
        "search": {"search": {"harsh": {"R@1": (28.7, 28.4)}}},
        "missing": {"Dutch": "no file"},
    }
    text = study.markdown(found, ["harsh"])
    assert "| en | toys, 4 captions, photos | mcs@colours |" in text
    assert "| en | toys | below half | 25.0 |" in text
    assert "| τ_c | harsh | 53.70 | 53.20 | −0.50 |" in text
    assert "| search, R@1 | harsh | 28.70 | 28.40 | −0.30 |" in text
    assert "- Dutch: no file" in text
    tables = [line.count("|") for line in text.splitlines() if line.startswith("|")]
    assert tables and min(tables) > 4


def test_search_ranks_the_test_photos(tower, tmp_path):
    (tmp_path / "flickr8k").mkdir()
    for name, colour in (("1_a.jpg", "red"), ("2_b.jpg", "blue")):
        Image.new("RGB", (6, 6), colour).save(tmp_path / "flickr8k" / name)
    (tmp_path / "flickr8k" / "Flickr_8k.testImages.txt").write_text("1_a.jpg\n2_b.jpg\n")
    lines = "1_a.jpg#0\tred red red car\n2_b.jpg#0\tblue sea\n"
    (tmp_path / "flickr8k" / "Flickr8k.token.txt").write_text(lines)
    found = {"search": {}, "missing": {}}
    study.measure_search(found, tmp_path, tmp_path, [tower])
    values = found["search"]["search among 2 test photos of Flickr8k, en"]["harsh"]
    assert values["R@1"] == [100.0, 50.0] and values["R@5"] == [100.0, 100.0]
