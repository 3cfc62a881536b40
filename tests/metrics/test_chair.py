"""CHAIR: mentions as the authors' script finds them, truth from three sources, and what systems make up."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import capscore
from capscore.errors import InputError
from capscore.metrics.chair import mentioned_objects

from ..cli.conftest import run

# captions, and the objects that utils/chair.py of LisaAnne/Hallucination (a967f2fc) found in them, with the
# singulars of pattern 3.7 and the tokens of NLTK 3.10
MENTIONS = {
    "Two women holding wine glasses and a wine glass": ("person", "wine glass", "wine glass"),
    "knives and forks, a baby": ("knife", "fork", "person"),
    "a baby elephant and an adult bird near a passenger jet": ("elephant", "bird", "airplane"),
    "A man's bow tie, bows and ties": ("person", "tie", "tie"),
    "the toilet seat is up": ("toilet",),
    "the seat of the toilet, a chair": ("toilet", "chair"),
    "train tracks, trains; home plate": ("train",),
    "A bus, two buses, a motor bike, cheesecake, canoes and an iPhone": ("bus",),
    "people, children, geese, oxen, mice, calves": ("person", "person", "bird", "cow", "mouse", "cow"),
    "hot-dog stand, hot dogs, scissors, skis": ("hot dog", "scissors", "skis"),
    "a stop, sign and a stop sign": ("stop sign",),
    # a sign between words is no end of a word unless the tokens end there
    "dog/cat, dog…cat, dog_cat, dog.cat, dog+cat, dog|cat, dog\\cat, dog=cat, dog~cat, dog,3": (),
    "A dog.A cat": ("cat",),
    "a dog. A cat, (train): 'car'! \"kite\"? dog’s; truck--boat... bed—bird": (
        "dog", "cat", "train", "car", "kite", "dog", "truck", "boat", "bed", "bird"
    ),
    "the dog's and dogs' bowl, cat; 'horse' [sheep] *cow* bear&zebra #giraffe $cup %fork": (
        "dog", "dog", "bowl", "cat", "horse", "sheep", "cow", "bear", "zebra", "giraffe", "cup", "fork"
    ),
}  # fmt: skip
CAPTIONS = ["a dog and a cat on a bench", "a red bus", "two dogs, a dog", "blue sky"]
REFERENCES = [["a puppy on a seat", "one dog"], ["two buses"], ["a cat"], ["clouds"]]


def score(captions=CAPTIONS, references=REFERENCES, *, on_error="raise", options=None, **columns):
    given = {"references": references, "language": "en", "on_error": on_error}
    return capscore.load("chair", **options or {}).score(captions, **given, **columns)


@pytest.fixture
def instances(tmp_path):
    objects, path = {3: "bench", 5: "bus"}, tmp_path / "instances.json"
    document = {"images": [{"id": 9}, {"id": 12}]}
    document["categories"] = [{"id": number, "name": name} for number, name in objects.items()]
    document["annotations"] = [{"image_id": 9, "category_id": number} for number in objects]
    return path.write_text(json.dumps(document)) and path


def test_objects_are_found_as_by_the_authors_script():
    assert {text: mentioned_objects(text) for text in MENTIONS} == MENTIONS
    mended = mentioned_objects("A bus, a motor bike, cheesecake, canoes, ties and an iPhone", "mended")
    assert mended == ("bus", "motorcycle", "cake", "boat", "tie", "cell phone")


def test_rows_and_the_corpus():
    found = score()
    assert [detail["mentioned"] for detail in found.details] == ["dog, cat, bench", "", "dog, dog", ""]
    assert [detail["made_up"] for detail in found.details] == ["cat, bench", "", "dog, dog", ""]
    np.testing.assert_allclose(found.components["chair_i"], [2 / 3, 0, 1, 0])
    np.testing.assert_allclose(found.scores, [1 / 3, 1, 0, 1])
    assert found.components["chair_s"].tolist() == [1, 0, 1, 0]
    # photos show dog and chair; bus; cat; nothing
    assert found.components["recall"].tolist() == [0.5, 0, 0, 1]
    corpus = {"corpus_chair_s": 2 / 4, "corpus_chair_i": 4 / 5, "corpus_recall": 1 / 4}
    assert found.corpus == pytest.approx(corpus)
    assert score(options={"rules": "mended"}).details[1] == {"mentioned": "bus", "made_up": ""}


def test_objects_of_the_photo_come_from_names_instances_and_references(instances):
    ids = {"image_id": ["000009", 12, 9, 12], "options": {"instances": instances}}
    partly = {"references": [["a dog"], [], None, []], "objects": [None, ["cat"], "dog", []]}
    named = {"references": None, "objects": ["dog", ["bus"], [], []]}
    for given, made_up, n_references, stated in (
        ({"objects": [["bench"], None, "Dog, kite", []]}, "cat|||", [2, 1, 1, 1], "references+given,var|"),
        (named, "cat, bench||dog, dog|", [0] * 4, "given|refs:0|"),
        (partly, "cat, bench|||", [1, 0, 0, 0], "references+given,var|"),
        (ids, "cat||dog, dog|", [2, 1, 1, 1], "references+instances@"),
        (ids | {"references": None}, "dog, cat||dog, dog|", [0] * 4, "instances@"),
    ):
        found = score(**given)
        assert "|".join(detail["made_up"] for detail in found.details) == made_up
        assert found.n_references.tolist() == n_references and f"|objects:{stated}" in found.signature
    assert found.corpus["corpus_recall"] == 1 / 4


def test_bad_rows_and_files_are_named(instances, tmp_path):
    for columns, message in (
        ({"objects": [["window"], None, None, None]}, "row 0, objects: 'window' is not one of COCO's 80"),
        ({"objects": [None, 3, None, None]}, "row 1, objects: .* got 3"),
        ({"references": None, "objects": ["dog", None, "", "dog"]}, "row 1, objects: .*image_id and inst"),
        ({"image_id": [9, 9, 7, 9], "options": {"instances": instances}}, "row 2, image_id: image_id 7 "),
        ({"references": None}, "chair compares with references"),
        ({"references": [[]] * 4, "objects": ["dog", None, [], []]}, "row 1, references: .*at least one"),
        ({"options": {"rules": "mine"}}, "rules='mine': expected 'published' or 'mended'"),
        ({"options": {"instances": tmp_path / "gone.json"}}, "gone.json'? cannot be read"),
        ({"options": {"instances": Path("/dev/zero")}}, "/dev/zero'?: expected a file"),
    ):
        with pytest.raises(InputError, match=message):
            score(**columns)
    skipped = score(objects=[["window"], None, None, None], on_error="skip")
    assert [*skipped.failures] == [0] and skipped.corpus["corpus_chair_i"] == 1
    with pytest.raises(InputError, match="chair knows English words only, not those of 'de'"):
        capscore.load("chair").score(["ein Hund"], references=[["ein Hund"]], language="de")


def test_the_command_reads_objects_and_instances(instances, tmp_path):
    rows = [{"image_id": 9, "caption": "a dog on a bench"}, {"image_id": 12, "caption": "a dog"}]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    options = ("-m", "chair", "--instances", instances, "-o", tmp_path / "out.jsonl")
    done = run("score", tmp_path / "rows.json", *options)
    assert done.exit_code == 0 and "corpus_chair_s 1.0000, corpus_chair_i 0.6667" in done.output
    cells = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    found = [(row["chair_i"], row["mentioned"], row["made_up"]) for row in cells]
    assert found == [(0.5, "dog, bench", "dog"), (1, "dog", "dog")]


def word(correct, word_class="noun", score=0.1):
    return {"word_class": word_class, "correct": correct, "score": score}


def test_what_systems_make_up():
    ids = ["1", "1", "2", "3"]
    chair = capscore.hallucinated({"a": score()}, images=ids)["a"]
    assert (chair.captions, chair.nouns, chair.n_captions, chair.n_nouns) == (2 / 4, 4 / 5, 4, 5)
    # photos 1, 2, 3 have 1 of 2, 1 of 1 and 0 of 1 captions with a made-up object
    samples = [[1 / 2, 1, 0][first] for first in range(3)]
    low, high = chair.captions_interval.low, chair.captions_interval.high
    assert min(samples) <= low < chair.captions < high <= max(samples)
    words = [word(False), word(True), word(None), word(False, "verb"), word(False, score=None)]
    details = [{"fits": True, "words": words}, None, {"fits": None, "words": [word(True)]}]
    details.append({"fits": False, "words": [word(None), word(None)]})  # it does not fit as a whole
    marks = dataclasses.replace(score(), details=details, detail_names=("fits", "words"), metric="infometic")
    found = capscore.hallucinated({"a": marks}, images=ids, n=0)["a"]
    assert (found.captions, found.nouns, found.n_captions, found.n_nouns) == (2 / 3, 3 / 6, 3, 6)
    assert found.captions_interval is None and json.loads(json.dumps(found.to_dict()))["nouns"] == 0.5
    rouge = capscore.load("rouge_l").score(["a"], references=[["a"]], language="en")
    with pytest.raises(InputError, match=r"^b: .*infometic or chair.* rouge_l"):
        capscore.hallucinated({"b": rouge})
