"""Teacher learning: the loss, the teacher's file, the evaluation, and a student taught from nothing."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoModel

import capscore
from capscore.backbones.text_towers import read_student
from capscore.errors import BackboneUnavailable, CapscoreError
from tools.tiny.backbones import make_student
from tools.tiny.colours import ColourBackbone
from tools.tiny.transformers_models import write_encoder
from training import teacher_learning
from training.data.parallel_text import read_parallel_text
from training.engine import student as student_module
from training.engine.config import parse
from training.engine.processes import gather_rows
from training.engine.student import Example, evaluation, examples_of, squared_distance, teacher_embeddings
from training.teacher_learning import TeacherLearning, train

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

CONFIG = Path(__file__).parents[2] / "training/configs/teacher_learning.yaml"
COLOURS = {"red": "rot", "green": "grün", "blue": "blau"}
WHO = {"a dog": "ein Hund", "a cat": "eine Katze", "a child": "ein Kind", "a woman": "eine Frau"}
WHAT = {"sleeps": "schläft", "runs": "rennt", "waits": "wartet"}
WHERE = {"on the beach": "am Strand", "in the kitchen": "in der Küche", "in the snow": "im Schnee"}
WHERE |= {"under a tree": "unter einem Baum"}


def write(path: Path, rows) -> str:
    path.write_text("".join(json.dumps({"en": en, "de": de}) + "\n" for en, de in rows), encoding="utf-8")
    return str(path)


@pytest.fixture
def colours(tmp_path, monkeypatch):
    """Words for colours in two languages, and the teacher that knows them in one."""
    backbone = ColourBackbone()
    monkeypatch.setattr(teacher_learning, "load_backbone", lambda spec, device: backbone)
    rows = [
        (" ".join(words), " ".join(COLOURS[word] for word in words))
        for count in (1, 2, 3)
        for words in product(COLOURS, repeat=count)
    ]
    given = dict(out=str(tmp_path / "run"), teacher="colours", student=write_encoder(tmp_path / "encoder"))
    given |= dict(data=[write(tmp_path / "train.jsonl", rows[::2])], learning_rate=5e-3, batch_size=16)
    given |= dict(validation=[write(tmp_path / "val.jsonl", rows[1::2])], max_tokens=16, max_steps=2)
    return backbone, TeacherLearning(**given)


@pytest.mark.slow
def test_a_student_takes_the_teachers_images(tmp_path):
    parts = product(WHO, WHAT, WHERE)
    sentences = [(" ".join(row), f"{WHO[row[0]]} {WHAT[row[1]]} {WHERE[row[2]]}") for row in parts]
    held_out = sentences[::6]
    write(tmp_path / "train.jsonl", [row for row in sentences if row not in held_out])
    write(tmp_path / "val.jsonl", held_out)
    files = f"--data {tmp_path}/train.jsonl --validation {tmp_path}/val.jsonl --out {tmp_path}/run"
    line = f"--config {CONFIG} {files} --student {write_encoder(tmp_path / 'encoder')} --max_tokens null"
    line += " --teacher embedded --precision no --languages de"
    line += " --epochs 40 --batch_size 20 --learning_rate 4e-3 --warmup_steps 10"
    result = train(parse(TeacherLearning, line.split(), ""))
    assert result.evaluation["de cosine"] > 0.7
    assert result.evaluation["de r@5"] > 0.8, "10 sentences, none of them seen"
    folder = tmp_path / "run" / "student"
    student, teacher = (capscore.load_backbone(spec, device="cpu") for spec in (str(folder), "embedded"))
    assert student.languages == {"de", "en"} and student.dim == 512 and student.max_tokens == 38
    seen = [row for row in sentences if row not in held_out][:8]
    german, english = (
        tower.encode_texts([row[side] for row in seen]) for tower, side in ((student, 1), (teacher, 0))
    )
    assert (german * english).sum(axis=1).min() > 0.8
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    mcs = capscore.load("mcs", backbone=str(folder), device="cpu", cache=False)
    cosine = (german[:1] * teacher.encode_images([photo])).sum()
    score = mcs.score([seen[0][1]], images=[photo]).scores[0]
    assert score == pytest.approx(teacher.w * max(cosine, 0), abs=1e-5)


def test_a_stopped_run_continues_with_the_teachers_embeddings(colours):
    backbone, settings = colours
    part = train(replace(settings, max_minutes=1e-9))
    embedded = backbone.encoded_texts
    assert train(settings).resumed_from == part.step == 1
    assert backbone.encoded_texts == embedded, "the teacher's embeddings are in the cache"
    path = Path(settings.data[0])
    with pytest.raises(CapscoreError, match="digest of the data"):
        train(replace(settings, data=[write(path.with_name("x.jsonl"), [("red", "rot")])]))
    # where the data lies, and what it is evaluated on, may change
    moved = path.rename(path.with_name("moved.jsonl"))
    assert train(replace(settings, data=[str(moved)], validation=[])).resumed_from == 2


def test_the_card_counts_the_rows_of_each_file_and_sentences_that_are_in_both_texts(colours, tmp_path):
    _, settings = colours
    data = tmp_path / "more.jsonl"
    data.write_text('{"en": "red red red red", "de": "rot rot rot rot"}\n' * 2, encoding="utf-8")
    told = {"held_out": "", "sources": [{"name": "Colour words", "license": "CC0", "rows": 2}]}
    Path(f"{data}.sources.json").write_text(json.dumps(told))
    both = [settings.data[0], str(data)]
    held = [settings.validation[0], both[0]]
    train(replace(settings, data=both, validation=held, data_license="CC BY 4.0", name="toy"))
    card = Path(settings.out, "student", "README.md").read_text(encoding="utf-8")
    n, own = (len(Path(path).read_text(encoding="utf-8").splitlines()) for path in (both[0], held[0]))
    assert f"train.jsonl | CC BY 4.0 | {n} |" in card and "Colour words | CC0 | 2 |" in card
    assert f"{own} sentences of the validation text; {n} other sentences of it" in card
    assert "cosine to the teacher's embedding" in card


@pytest.mark.parametrize(("english", "languages"), [(True, ["de", "en"]), (False, ["de"])])
def test_english_is_learnt_too_or_not(colours, english, languages):
    _, settings = colours
    result = train(replace(settings, with_english=english, max_steps=1))
    marker = json.loads(Path(settings.out, "student", "capscore_student.json").read_text())
    assert (marker["languages"], marker["image_tower"]) == (languages, "colours")
    assert {name.split()[0] for name in result.evaluation} == set(languages)


def test_a_student_starts_from_the_weights_of_its_folder(colours):
    _, settings = colours
    train(replace(settings, max_steps=1, learning_rate=1e-6))
    now = read_student(Path(settings.out) / "student")[0].encoder.state_dict()
    before = AutoModel.from_pretrained(settings.student).state_dict()
    moved = [(now[name] - before[name]).abs().max().item() for name in now]
    assert 0 < max(moved) < 1e-4, "it starts from the weights in the folder, and all of it may move"
    with pytest.raises(BackboneUnavailable, match=r"student 'no-such-encoder' is not available: .*folder"):
        train(replace(settings, student="no-such-encoder"))


def test_the_loss_is_the_papers(monkeypatch):
    teacher = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], np.float32)
    rows = [Example("a", "de", 2), Example("b", "de", 0)]
    student = {"a": [1.0, 0.0], "b": [2.0, 2.0]}
    monkeypatch.setattr(student_module, "embed", lambda _, texts: torch.tensor([student[t] for t in texts]))
    # (0.4² + 0.8²) and (1² + 2²), their mean; cosines 0.6 and 1/√2
    got = squared_distance(teacher)(torch.nn.Identity(), rows, gather_rows(2, 0, 1))
    assert got["loss"].item() == pytest.approx((0.8 + 5.0) / 2)
    assert got["cosine"].item() == pytest.approx((0.6 + 0.5**0.5) / 2)


def test_the_evaluation_ranks_translations_among_the_english_sentences(monkeypatch):
    teacher = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]], np.float32)
    student = {"a": [3, 1, 0], "b": [3, 1, 0], "c": [0, 0, 2], "d": [1, 1, 1], "e": [0, 5, 0], "f": [0, 0, 0]}
    student = {text: np.array(row, float) for text, row in student.items()}
    monkeypatch.setattr(
        student_module, "embed_sorted", lambda _, texts: np.stack([student[t] for t in texts])
    )
    # German: sentences 0, 1, 2. a is nearest to its own; b to another, its own comes second; c is right.
    # Of French there are 1 and 2 alone: e is right, d is as near to both, and a tie is a miss.
    examples = [Example("a", "de", 0), Example("b", "de", 1), Example("c", "de", 2)]
    examples += [Example("e", "fr", 1), Example("d", "fr", 2)]
    expected = {"de cosine": (3 / 10**0.5 + 1 / 10**0.5 + 1) / 3, "de r@1": 2 / 3, "de r@5": 1.0}
    expected |= {"fr cosine": (1 + 1 / 3**0.5) / 2, "fr r@1": 0.5, "fr r@5": 1.0}
    expected |= {"de r@10": 1.0, "fr r@10": 1.0}
    assert evaluation(examples, teacher)(None, 0) == pytest.approx(expected)
    with pytest.raises(CapscoreError, match="after step 7 the student gives fr texts embeddings"):
        evaluation([Example("f", "fr", 1)], teacher)(None, 7)


def test_examples_are_pairs_and_then_english(tmp_path):
    rows = [("one", "eins"), ("two", "zwei"), ("one", "ein")]
    text = read_parallel_text([write(tmp_path / "t.jsonl", rows)])
    pairs = [("eins", "de", 5), ("zwei", "de", 3), ("ein", "de", 5)]
    numbers = {"one": 5, "two": 3}
    assert examples_of(text, numbers, with_english=True) == [*pairs, ("one", "en", 5), ("two", "en", 3)]
    assert examples_of(text, numbers, with_english=False) == pairs


def test_texts_of_any_length_are_embedded_in_their_own_order(tmp_path):
    student = make_student(tmp_path, "bert").eval()
    texts = ["a dog runs on the beach", "cat", "two cats sleep"]
    with torch.no_grad():
        found = student_module.embed_sorted(student, texts)
        alone = [student_module.embed(student, [text])[0].numpy() for text in texts]
    np.testing.assert_allclose(found, alone, atol=1e-5)


def test_the_teacher_embeds_a_sentence_once(monkeypatch):
    monkeypatch.setattr(student_module, "_SLAB", 2)
    sentences = ["red", "green blue", "blue", "red red blue", "green"]
    backbone = ColourBackbone()
    rows = teacher_embeddings(backbone, sentences)
    np.testing.assert_allclose(rows, ColourBackbone().encode_texts(sentences), rtol=0, atol=1e-6)
    assert isinstance(rows, np.memmap) and rows.dtype == np.float32
    n_embedded = backbone.encoded_texts
    assert teacher_embeddings(backbone, sentences).shape == (5, 3)
    assert backbone.encoded_texts == n_embedded
