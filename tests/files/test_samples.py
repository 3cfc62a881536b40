"""Photos with texts of the same name in a folder, a tar and a zip; several files that are one input."""

import io
import tarfile
import zipfile

import pytest

from capscore.errors import ImageError, InputError
from capscore.files.read import open_rows
from capscore.images.load import load_image
from capscore.options import RowOptions
from tools.tiny.command import write_jsonl

FILES = {"0.jpg": b"photo 0", "0.txt": b" a dog \n", "a/1.seg.png": b"photo 1"}
FILES |= {"a/1.json": b'{"caption": "a cat", "width": 3}', "2.txt": b"no photo", "3.webp": b"no caption"}
FILES |= {"4.JPEG": b"photo 4", "._5.jpg": b"of macOS", "5.jpg": b"photo 5", "4.caption": b"a cow"}
FILES |= {"5.txt": b"two cows"}


def archive(path, files, kind="w"):
    with tarfile.open(path, kind) as opened:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            opened.addfile(about, io.BytesIO(content))
    return path


@pytest.mark.parametrize("size", [1, 2, 9])
def test_samples_are_rows_and_incomplete_samples_are_named(tmp_path, size):
    source = open_rows(archive(tmp_path / "a.tar", FILES))
    rows = [row for chunk in source.chunks(size) for row in chunk.dicts()]
    assert [row["__key__"] for row in rows] == ["0", "a/1", "2", "3", "4", "5"]
    assert [row["caption"] for row in rows] == ["a dog", "a cat", "no photo", None, "a cow", "two cows"]
    photos = [row["image"] and row["image"]["bytes"] for row in rows]
    assert photos == [b"photo 0", b"photo 1", None, b"no caption", b"photo 4", b"photo 5"]
    found = {row: str(error) for row, error in source.faults.items()}
    assert found == {2: "image: the sample '2' has no photo", 3: "candidate: the sample '3' has no caption"}
    texts = [value for chunk in source.chunks(size, ["caption"]) for value in chunk.values("caption")]
    assert texts == [row["caption"] for row in rows]
    assert source.place(next(source.chunks(9)), 1) == f"{tmp_path / 'a.tar'}, sample a/1"


def written(kind, folder, files):
    path = folder / f"photos.{kind}"
    if kind == "tar":
        return archive(path, files)
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as packed:
            for name, content in files.items():
                packed.writestr(name, content)
        return path
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


# photos, texts, and the photo and caption of each row, or the error; the same in a folder, a tar and a zip
SAMPLES = {
    "a paragraph": ("0.jpg", {"0.txt": "A cat.\r\n\r\nIt sits.\n"}, [("0.jpg", "A cat.\n\nIt sits.")]),
    "the name with its suffix": ("0.jpg", {"0.jpg.txt": "a"}, [("0.jpg", "a")]),
    "dots": ("s.1.jpg s.2.jpg", {"s.1.txt": "a", "s.2.txt": "b"}, [("s.1.jpg", "a"), ("s.2.jpg", "b")]),
    "folders": ("10/0.jpg 5/0.jpg", {"10/0.txt": "a", "5/0.txt": "b"}, [("10/0.jpg", "a"), ("5/0.jpg", "b")]),
    "hidden": ("0.jpg .x/1.jpg __MACOSX/._0.jpg", {"0.txt": "a"}, [("0.jpg", "a")]),
    "UTF-16": ("0.jpg", {"0.txt": "eine Kätze".encode("utf-16")}, [("0.jpg", "eine Kätze")]),
    "JSON": ("0.jpg", {"0.json": '{"caption": ["a", "b"]}', "s.json": "{}"}, [("0.jpg", c) for c in "ab"]),
    "a text before JSON": ("0.jpg", {"0.json": '{"caption": "b"}', "0.txt": "a"}, [("0.jpg", "a")]),
    "one text twice": ("0.jpg", {"0.txt": "a", "0.caption": "a\n"}, [("0.jpg", "a")]),
    "two texts": ("0.jpg", {"0.txt": "a", "0.caption": "b"}, "candidate_column.* choose txt or caption"),
    "two texts of a kind": ("0.jpg", {"0.txt": "a", "0.jpg.txt": "b"}, "'0' has two texts, 0"),
    "two photos": ("0.jpg 0.png", {"0.txt": "a"}, "'0' has two photos, 0.jpg and 0.png"),
}


def files_of(case):
    photos, texts, _ = SAMPLES[case]
    files = {name: name.encode() for name in photos.split()}
    return files | {name: text if isinstance(text, bytes) else text.encode() for name, text in texts.items()}


@pytest.mark.parametrize("kind", ["folder", "tar", "zip"])
@pytest.mark.parametrize("case", SAMPLES)
def test_photos_and_texts_of_one_name_are_rows_in_folder_tar_and_zip(case, kind, tmp_path):
    path, rows = written(kind, tmp_path, files_of(case)), SAMPLES[case][-1]
    if isinstance(rows, str):
        with pytest.raises(InputError, match=rows):
            open_rows(path)
        return
    source = open_rows(path)
    found = [row for chunk in source.chunks(9) for row in chunk.dicts()]
    names = [row["image"] if kind == "folder" else row["image"]["path"] for row in found]
    assert [*zip(names, (row["caption"] for row in found), strict=True)] == rows and not source.faults
    assert bool(source.notes) == (case in ("a paragraph", "a text before JSON"))


@pytest.mark.parametrize("kind", ["folder", "tar", "zip"])
def test_one_of_two_texts_is_chosen_by_the_column(kind, tmp_path):
    path = written(kind, tmp_path, files_of("two texts"))
    for column, text in (("txt", "a"), ("caption", "b")):
        source = open_rows(path, RowOptions(candidate_column=column))
        assert source.cells(column) == [[text]] and "1 other captions are not read" in source.notes[0]


def test_texts_in_a_folder_of_their_own_are_rows_and_photos_are_found_elsewhere(tmp_path):
    path = written("folder", tmp_path, {"texts/0.txt": b"a", "texts/1.txt": b"b", "photos/0.jpg": b"x"})
    with pytest.raises(InputError, match=r"read the texts in .*/texts with .*/photos as the folder of"):
        open_rows(path)
    assert open_rows(path / "texts").cells("image", "caption") == [["0", "1"], ["a", "b"]]


def shards(folder):
    for number in range(2):
        rows = [{"image": f"{number}{row}.jpg", "caption": f"{number} {row}"} for row in range(2)]
        write_jsonl(folder / f"part-{number}.jsonl", rows)
        archive(folder / f"c-{number}.tar", {f"{number}.jpg": b"x", f"{number}.txt": f"{number} 0".encode()})
    return folder


@pytest.mark.parametrize(
    ("given", "captions", "last"),
    [
        ("part-*.jsonl", ["0 0", "0 1", "1 0", "1 1"], "part-1.jsonl, line 2"),
        ("part-{0..1}.jsonl", ["0 0", "0 1", "1 0", "1 1"], "part-1.jsonl, line 2"),
        (["part-1.jsonl", "part-0.jsonl"], ["1 0", "1 1", "0 0", "0 1"], "part-0.jsonl, line 2"),
        ("c-{0,1}.tar", ["0 0", "1 0"], "c-1.tar, sample 1"),
        ("c-0.t[a]r", ["0 0"], "c-0.tar, sample 0"),
        ("parts", ["0 0", "0 1"], "part-0.jsonl, line 2"),
    ],
)
def test_several_files_are_one_input_whose_rows_are_named_by_file(given, captions, last, tmp_path):
    shards(tmp_path)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "empty.jsonl").touch()
    (tmp_path / "parts" / "part-0.jsonl").write_bytes((tmp_path / "part-0.jsonl").read_bytes())
    path = [tmp_path / name for name in given] if isinstance(given, list) else f"{tmp_path}/{given}"
    source = open_rows(path)
    assert source.cells("caption") == [captions] and source.n_rows == len(captions)
    *_, chunk = source.chunks(9)
    assert source.place(chunk, len(chunk) - 1).endswith(f"/{last}")


SOME = [("part-*.jsonl", [1, 2], ["part-0.jsonl, line 2", "part-1.jsonl, line 1"])]
SOME += [("part-*.jsonl", [3], ["part-1.jsonl, line 2"]), ("c-*.tar", [1], ["c-1.tar, sample 1"])]


@pytest.mark.parametrize(("given", "numbers", "places"), SOME)
def test_some_rows_of_several_files_are_named_by_the_files_they_are_in(given, numbers, places, tmp_path):
    source = open_rows(f"{shards(tmp_path)}/{given}").only(numbers)
    named = [source.place(chunk, row) for chunk in source.chunks(9) for row in range(len(chunk))]
    assert named == [f"{tmp_path}/{place}" for place in places]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nothing-*.tar", "no file has a name of this pattern"),
        ("part-{0..2}.jsonl", "part-2.jsonl'?: no such file"),
        ("part-{0..999999999}.jsonl", "means over 100,000 files"),
        ("*", "is of another kind than .*: jsonl, webdataset"),
    ],
)
def test_files_that_are_no_one_input_are_named(given, message, tmp_path):
    with pytest.raises(InputError, match=message):
        open_rows(f"{shards(tmp_path)}/{given}")


def test_damaged_or_too_large_archives_are_named(tmp_path, monkeypatch):
    one_key = {"0.left.jpg": b"x", "0.right.jpg": b"y", "0.txt": b"a"}
    with pytest.raises(InputError, match=r"the sample '0' has two photos, 0\.left\.jpg and 0\.right\.jpg"):
        open_rows(archive(tmp_path / "one.tar", one_key))
    whole = archive(tmp_path / "a.tar", {"0.jpg": b"x" * 2000, "0.txt": b"a dog"})
    for content in (b"no archive", whole.read_bytes()[:1500]):
        (tmp_path / "b.tar").write_bytes(content)
        with pytest.raises(InputError, match=r"b\.tar is not a WebDataset archive"):
            open_rows(tmp_path / "b.tar")
    for name in ("c.tar", "c.zip", "c.parquet", "c.csv"):
        (tmp_path / name).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
        with pytest.raises(InputError, match=r"/c\.[a-z]+.*git lfs pull"):
            open_rows(tmp_path / name)
    with pytest.raises(ImageError, match=r"not an image.*git lfs pull"):
        load_image(tmp_path / name)
    monkeypatch.setenv("CAPSCORE_MAX_ROW_BYTES", "1000")
    with pytest.raises(InputError, match=r"a\.tar, 0\.jpg: longer than 1\.0 KB"):
        list(open_rows(whole).chunks(1))
