"""Layouts of JSON that people have: small files as each format's documents describe it, and their rows."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import capscore
from capscore.files.columns import columns_of
from capscore.files.layouts import line_reader, nearest, read_document
from capscore.files.read import open_rows
from capscore.files.references import open_with_references, photo_cells, photo_columns
from capscore.options import RowOptions
from capscore.registry import LAYOUTS, register_layout

from ..laws import every

# layout → (image, image_id, caption) of each row of its file below, or of the example that it states
CASES = {
    "COCO annotations": [("a.jpg", 42, "A dog."), ("x.jpg", 7, "A cat."), ("a.jpg", 42, "Two dogs.")],
    "Karpathy's splits": [("a.jpg", 42, "A dog."), ("a.jpg", 42, "Two dogs.")],
    "TextCaps": [("0a.jpg", "0a", "A sign.")],
    "samples of lmms-eval under `logs`": [(3, None, "a dog runs")],
    "captions by photo": [("a.jpg", None, "a dog"), ("a.jpg", None, "two dogs"), ("b.jpg", None, None)],
    "scores by photo": [("dog.jpg", None, None), ("cat.jpg", None, None)],
    "MSR-VTT": [(None, "video1", "a dog")],
    "predictions of MSR-VTT": [(None, "video1", "a dog")],
    "rows by split": [(None, "p1", "The lungs are clear.")],
    "results of coco-caption": [(None, 1, "a dog"), (None, "2", "a cat")],
    "pandas, split": [("dog.jpg", None, "a dog")],
    "pandas, by columns": [("dog.jpg", None, "a dog")],
    "rows by name": [("dog.jpg", None, "a dog"), ("1", None, "a cat")],
    "rows under one name": [(None, 1, "a dog")],
    "columns": [("a.jpg", None, "a cat"), ("b.jpg", None, "a cup")],
    "Crossmodal-3600": [("0a.jpg", None, "Ein Hund.")],
    "samples of lmms-eval": [("dog.jpg", None, "a dog")],
    "conversations": [("dog.jpg", None, "a dog")],
    "results of ms-swift": [("dog.jpg", None, "a dog")],
    "output of a batch": [(None, "dog.jpg", "a dog")],
    "sentences of a photo": [("dog.jpg", 42, "A dog.")],
    "numbered captions": [("dog.wav", None, "a dog"), ("dog.wav", None, "a dog barks")],
    "reports": [(None, "p2", "no change")],
    "a photo per object": [(None, "391895", "a man on a motorcycle")],
    "scores per caption": [("dog.jpg", None, "a dog"), ("dog.jpg", None, "a cat")],
    "open_clip": [("dog.jpg", None, "a dog")],
    "rows of WebDataset": [("dog.jpg", None, "a dog")],
    "LLaMA-Factory": [("a.jpg", None, "a cat")],
    "LAION": [("https://example.org/dog.jpg", None, "a dog")],
    "Shopify": [("dog.jpg", None, "a dog")],
    "DCASE": [("dog.wav", None, "a dog barks")],
    "ImageCLEF": [("ROCO_1", None, "an x-ray")],
    "mPLUG": [(None, "video1", "a dog"), (None, "video1", "a dog runs")],
    "lmms-lab/COCO-Caption": [("a.jpg", None, "a cat"), ("a.jpg", None, "one cat")],
    "descriptions of photos": [("dog.jpg", None, "a dog")],
}
_KARPATHY = {"filename": "a.jpg", "cocoid": 42, "sentences": [{"raw": "A dog.", "tokens": []}]}
_KARPATHY["sentences"].append({"raw": "Two dogs."})
_DOGS = [(42, "A dog."), (7, "A cat."), (42, "Two dogs.")]
_SAMPLE = {"doc_id": 3, "doc": {}, "filtered_resps": ["a dog runs"]}
FILES = {
    "COCO annotations": {"images": [{"id": 42, "file_name": "a.jpg"}, {"id": 7, "file_name": "x.jpg"}]}
    | {"annotations": [{"image_id": photo, "caption": text} for photo, text in _DOGS]},
    "Karpathy's splits": {"dataset": "coco", "images": [_KARPATHY]},
    "samples of lmms-eval under `logs`": {"model_configs": {}, "logs": [_SAMPLE]},
    "captions by photo": {"a.jpg": ["a dog", "two dogs"], "b.jpg": []},
    "columns": {"image": ["a.jpg", "b.jpg"], "caption": ["a cat", "a cup"], "model": "m"},
    "reports": {"id": "p2", "report": "no change"},
    "LLaMA-Factory": {"image": "a.jpg", "prompt": "Describe", "predict": "a cat", "label": "a cat"},
    "lmms-lab/COCO-Caption": {"question_id": "a.jpg", "image": {"bytes": "…", "path": None}}
    | {"answer": ["a cat", "one cat"], "file_name": "a.jpg"},
}
# what is no layout of a tool, but a way in which any rows may be written
WAYS = {
    "several captions": (
        {"url": "…", "image_id": "0a.jpg", "caption": ["一只狗", "两只狗"]},
        [(None, "0a.jpg", "一只狗"), (None, "0a.jpg", "两只狗")],
    ),
    "capitals and blanks": ({" Image ": "a.jpg", "CAPTION": "a cat"}, [("a.jpg", None, "a cat")]),
}


def rows_of(value, lines):
    return line_reader()(value) if lines else read_document(value, [])[1]


def written(value, path, file_format):
    path = path / f"rows.{file_format}"
    if file_format == "parquet":
        pq.write_table(pa.Table.from_pylist([value]), path)
    elif file_format == "csv":
        cells = [json.dumps(cell) if isinstance(cell, list) else cell for cell in value.values()]
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([[*value], cells])
    else:
        path.write_text(json.dumps([value] if file_format == "list.json" else value), encoding="utf-8")
    return path


def formats_of(value, lines):
    if not lines:
        return ["json"]
    parts = [part for cell in value.values() for part in (cell if isinstance(cell, list) else [cell])]
    flat = all(isinstance(part, str | int) for part in parts) and "score" not in value
    return ["list.json", "jsonl", "parquet"] + ["csv"] * flat


def photos_and_captions(path):
    source = open_rows(path)
    names = columns_of(source)
    columns, photos, captions = photo_columns(source.columns), [], []
    for chunk in source.chunks(9):
        photos += photo_cells(chunk, names.image, columns)
        captions += chunk.values(names.candidate)
    return photos, captions


def case_of(name):
    if name in WAYS:
        return WAYS[name][0], True, WAYS[name][1]
    known = LAYOUTS.get(name)
    return FILES.get(name) or json.loads(known.example), known.lines, CASES[name]


@every("layout")
def test_a_layout_is_recognised_and_gives_a_row_per_caption(layout):
    known = LAYOUTS.get(layout)
    for value in (case_of(layout)[0], json.loads(known.example)) if callable(known) else ():
        assert rows_of(value, known.lines) == known(value, []) != []


@pytest.mark.parametrize("file_format", ["json", "list.json", "jsonl", "parquet", "csv"])
@pytest.mark.parametrize("name", [*CASES, *WAYS])
def test_the_same_rows_in_each_layout_and_format_are_the_same_texts(name, file_format, tmp_path):
    value, is_of_lines, expected = case_of(name)
    if file_format not in formats_of(value, is_of_lines) or name == "scores by photo":
        return
    path = written(value, tmp_path, file_format)
    photos, captions = photos_and_captions(path)
    wanted = [str(image or image_id) for image, image_id, _ in expected]
    assert ([*map(str, photos)], captions) == (wanted, [caption for *_, caption in expected])
    texts: dict[str, list[str]] = {}
    for photo, caption in zip(wanted, captions, strict=True):
        if caption is not None:
            texts.setdefault(photo, []).append(caption)
    plain = tmp_path / "plain.jsonl"
    plain.write_text("".join(json.dumps({"image": photo, "caption": "a cat"}) + "\n" for photo in texts))
    if not {"references", "labels", "label", "answer"} & {*value} and None not in captions:
        assert capscore.read_rows(plain, references=path).references == [*texts.values()]


@pytest.mark.parametrize("lines", [False, True])
def test_a_layout_of_another_package_comes_before_those_of_the_library(tmp_path, lines):
    @register_layout("photos", '{"id": 1, "photos": [{"file": "a.jpg", "tag": "a dog"}]}', lines=lines)
    def photos(value, notes):
        if "photos" in value:
            return [{"image": photo["file"], "caption": photo["tag"]} for photo in value["photos"]]

    try:
        value = {"id": 1, "photos": [{"file": f"{tag}.jpg", "tag": tag} for tag in "ab"]}
        path = tmp_path / "a.json"
        path.write_text(f"{json.dumps(value)}\n" * (1 + lines))
        found = open_rows(path).cells("image", "caption")
        assert found == [["a.jpg", "b.jpg"] * (1 + lines), ["a", "b"] * (1 + lines)]
        path.write_text('{"id": 1, "photographs": [{"file": "a.jpg", "tag": "a dog"}], "tags": 1}')
        assert nearest(json.loads(path.read_text())).startswith("photos: ")
    finally:
        LAYOUTS.unregister("photos")


def test_captions_that_vizwiz_leaves_out_are_left_out_and_counted():
    said = [("Quality issues", True, False), ("spam", False, True), ("A can.", False, False)]
    names = ("caption", "is_precanned", "is_rejected")
    annotations = [dict(zip(names, cells, strict=True), image_id=1) for cells in said]
    photos = [{"id": 1, "file_name": "VizWiz_val_00000000.jpg"}]
    notes: list[str] = []
    rows = read_document({"images": photos, "annotations": annotations}, notes)[1]
    assert [row["caption"] for row in rows] == ["A can."]
    assert "2 rejected or precanned" in notes[0] and "0 photos have no other" in notes[0]


def test_samples_without_a_document_have_photo_and_references_of_what_metrics_got():
    """lmms-eval 0.3 and later drop `doc` from the samples that they log."""
    found = {"answer": ["A dog.", "Dogs."], "pred": "a dog", "image_id": 1007129816}
    line = {"doc_id": 0, "target": "", "filtered_resps": ["a dog"], "doc_hash": "0", "flickr_CIDEr": found}
    (row,) = rows_of(line, True)
    assert row == {"image": 1007129816, "caption": "a dog", "answer": ["A dog.", "Dogs."]}


DOG = {"image": "dog.jpg", "caption": "a dog"}


@pytest.mark.parametrize("value", [DOG, DOG | {"caption": ["a", "b"]}, {"a": None}, [], {}, "text"])
def test_rows_as_they_are_and_what_is_unknown_have_no_layout(value):
    assert read_document(value, [])[1] is None
    assert not isinstance(value, dict) or line_reader()(value) is None


def file_of(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def lines(pattern, *columns):
    return "\n".join(map(pattern.format, *columns))


CAPTIONS = ["a red bus on a street", "two dogs in snow", "soup with bread"]
TEXTS = ["a red bus on the street", "two dogs play in the snow", "a bowl of soup and bread"]
# of pycocoevalcap, row by row
CIDER = [5.9299696, 2.6976074, 1.1240899]
ROWS = [{"caption": text, "references": [other]} for text, other in zip(CAPTIONS, TEXTS, strict=True)]
EXCEL = "sep=;\ncaption;references;;\n"
NUMBERED = {f"{n}.jpg": [text] for n, text in enumerate(TEXTS)}
# the same three rows: name of the file → its content, and the content of a file of references
SAME = {
    "columns.json": ({"predictions": CAPTIONS, "references": TEXTS}, None),
    "lists.json": ({"caption": CAPTIONS, "references": [[text] for text in TEXTS]}, None),
    "rows.json": (ROWS, None),
    "model.json": ({"model": "m", "rows": ROWS}, None),
    "label.json": ([{"predict": row["caption"], "label": row["references"][0]} for row in ROWS], None),
    "lines.txt": ("\n".join(CAPTIONS), "\n".join(TEXTS)),
    "mac.txt": ("\r".join(CAPTIONS) + "\r", "\r\n".join(TEXTS)),
    "texts.json": (CAPTIONS, [[text] for text in TEXTS]),
    "ids.jsonl": (
        "\n".join(json.dumps({"ID": n, "Prediction": text}) for n, text in enumerate(CAPTIONS)),
        [{"id": n, "references": [text]} for n, text in [*enumerate(TEXTS)][::-1]],
    ),
    "pairs.json": ([{f"{n}": text} for n, text in enumerate(CAPTIONS)], NUMBERED),
    "commas.tsv": ("Caption,References\n" + lines("{},{}", CAPTIONS, TEXTS), None),
    "excel.csv": (EXCEL + lines("{};\"['{}']\";;", CAPTIONS, TEXTS) + "\n;;;", None),
    "headless.tsv": (lines("X_{}\t{}", range(3), CAPTIONS), lines("X_{}\t{}", range(3), TEXTS)),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_rows_in_each_way_of_writing_them_have_the_same_scores(name, tmp_path):
    content, references = SAME[name]
    if references is not None:
        suffix = "txt" if isinstance(references, str) else "json"
        references = file_of(tmp_path / f"references.{suffix}", references)
    found = capscore.score_file(file_of(tmp_path / name, content), "cider", references=references)
    assert found.scores["cider"].scores.tolist() == pytest.approx(CIDER, abs=1e-6)


TOKENS = [caption.split() for caption in CAPTIONS]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", [{"image_id": 1, "caption": words} for words in TOKENS], "hold single words"),
        ("a.json", {f"{n}.jpg": words for n, words in enumerate(TOKENS)}, "hold single words"),
        ("a.json", [{"caption": "x", "references": words} for words in TOKENS], "hold single words"),
        ("a.csv", f'caption\n"{TOKENS[0]}"', "hold single words"),
        ("a.json", [{"caption": "x", "references": [words] * 3} for words in TOKENS], "hold single words"),
        ("a.json", {"caption": ["a b", "c d"], "references": ["x", "y", "z"]}, "several lengths .caption 2"),
        ("a.json", {"prompt": ["a b", "c d"], "completion": ["x", "y"]}, "columns of a table, or captions"),
        ("a.csv", "image,caption\na.jpg,\"['a dog' 'a cat']\"", "expected a JSON list such as"),
        ("a.tsv", "a dog runs\tthe dog is running\nx\ty", "if the first line holds a row"),
        ("a.json", [{"image": "a.jpg", "messages": [{"role": "user"}]}], "0 answers; expected one"),
    ],
)
def test_what_cannot_be_told_apart_is_refused_by_name(name, content, message, tmp_path):
    path = file_of(tmp_path / name, content)
    with pytest.raises(capscore.InputError, match=message) as caught:
        source = open_rows(path)
        columns = columns_of(source)
        raise source.faults[0] if source.faults else AssertionError(columns)
    assert f"capscore score {path} --dry-run" in str(caught.value) or "JSON list" in message


def test_python_refuses_tokens_as_files_do():
    with pytest.raises(capscore.InputError, match=r"single words.*join the tokens"):
        capscore.load("cider").score(CAPTIONS, references=TOKENS)


@pytest.mark.parametrize(
    ("captions", "references", "options", "message"),
    [
        (CAPTIONS, TEXTS[:2], {}, "it has 2 rows, and that file 3"),
        (ROWS, ROWS, {"references_column": "caption"}, "has a column 'caption' already"),
        (CAPTIONS, ROWS, {"references_id_column": "keys"}, "'keys': there is no such column"),
    ],
)
def test_references_that_do_not_fit_are_refused(captions, references, options, message, tmp_path):
    path = file_of(tmp_path / "a.json", captions)
    with pytest.raises(capscore.InputError, match=message):
        capscore.score_file(path, "cider", references=file_of(tmp_path / "r.json", references), **options)


def test_columns_of_references_can_be_named_and_files_of_references_be_several(tmp_path):
    rows = file_of(tmp_path / "a.json", [{"image": f"{n}.jpg", "caption": "x"} for n in range(3)])
    first = file_of(tmp_path / "1.csv", "Key,Gold\n" + lines("{},{}", range(3), TEXTS))
    named = RowOptions(references=[first, first], references_column="gold", references_id_column=" KEY")
    assert open_with_references(rows, named).cells("gold")[0] == [[text, text] for text in TEXTS]
