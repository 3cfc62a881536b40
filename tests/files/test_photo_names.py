"""Which names mean one photo: the longest agreeing tail decides, and what could mean two means none."""

import json

import pytest

from capscore import InputError, read_rows
from capscore.comparing.systems import read_systems
from capscore.files.matching import PhotoIndex, match_hold_out
from capscore.files.photo_names import KnownNames
from tools.tiny.command import write_jsonl

COCO = "COCO_val2014_000000000042.jpg"
# names of one file, of the other, and what each of the latter means in the former (None: nothing)
NAMES = {
    "the same": ("a.jpg", "a.jpg", ["a.jpg"]),
    "letters and their marks": ("cafe\u0301.jpg", "café.jpg", ["cafe\u0301.jpg"]),
    "without suffix": ("a.jpg b.jpg", "b a", ["b.jpg", "a.jpg"]),
    "a stem that two have": ("a.jpg a.png", "a a.png", [None, "a.png"]),
    "another folder": ("bus/1.jpg cat/2.jpg", "dog/1.jpg bus/1.jpg", [None, "bus/1.jpg"]),
    "another folder, alone": ("bus/1.jpg", "dog/1.jpg", [None]),
    "longer tails": ("dog/1.jpg bus/1.jpg", "/x/bus/1.jpg /x/dog/1.jpg", ["bus/1.jpg", "dog/1.jpg"]),
    "the longest tail": ("x/dog/1.jpg dog/1.jpg", "/y/x/dog/1.jpg", ["x/dog/1.jpg"]),
    "outer folders": ("train/dog/1.jpg", "val/dog/1.jpg /val/dog/1.jpg", [None, None]),
    "two machines": ("/data/dog/1.jpg", r"C:\me\dog\1.jpg", ["/data/dog/1.jpg"]),
    "two folders of a machine": ("/data/train/dog/1.jpg", "/data/val/dog/1.jpg", [None]),
    "Windows": ("dog/1.jpg bus/1.jpg", r"dog\1.jpg .\bus\1.jpg", ["dog/1.jpg", "bus/1.jpg"]),
    "a bare name": ("dog/1.jpg bus/2.jpg", "1.jpg", ["dog/1.jpg"]),
    "a bare name that two have": ("dog/1.jpg bus/1.jpg", "1.jpg dog/1.jpg", [None, "dog/1.jpg"]),
    "two names for a bare one": ("1.jpg 2.jpg", "train/1.jpg val/1.jpg val/2.jpg", [None, None, "2.jpg"]),
    "a bare one beside a folder": ("1.jpg bus/1.jpg", "dog/1.jpg", [None]),
    "zeros": ("1.jpg 01.jpg 001.jpg", "001.jpg 1.jpg 01.jpg", ["001.jpg", "1.jpg", "01.jpg"]),
    "zeros of one name": ("1 2", "01 002", ["1", "2"]),
    "zeros of two names": ("1 2", "01 001 2", [None, None, "2"]),
    "zeros beside the same": ("1 2", "01 1", [None, "1"]),
    "numbers with a point": ("42 43", "42.0 43.0", ["42", "43"]),
    "numbers of COCO": (f"val2014/{COCO}", "42", [f"val2014/{COCO}"]),
    "COCO in another folder": (f"val2014/{COCO}", f"images/{COCO}", [f"val2014/{COCO}"]),
    "numbers of two parts of COCO": (COCO, COCO.replace("val", "train"), [None]),
    "numbers of two names": (f"{COCO} {COCO.replace('val', 'train')}", "42", [None]),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_name_means_a_photo_by_one_rule_for_references_systems_and_lists(case, tmp_path):
    known, asked, meant = NAMES[case]
    known, asked = known.split(), asked.split()
    found = KnownNames(known).match(asked)
    assert [found.matches.get(name) for name in asked] == meant
    index = PhotoIndex()
    for name in known:
        index.add(None, name)
    composed = [name and name.replace("e\u0301", "é") for name in meant]
    assert index.match([None] * len(asked), asked).photos == composed
    files = {}
    for file, names in (("a", known), ("b", asked)):
        rows = [{"image": name, "score": number} for number, name in enumerate(names)]
        files[file] = write_jsonl(tmp_path / f"{file}.jsonl", rows)
    if any(meant):
        numbers = read_systems(files, common_rows=True).scores["score"]
        pairs = {(known.index(other), row) for row, other in enumerate(meant) if other}
        assert {*zip(*(map(int, numbers[file]) for file in "ab"), strict=True)} == pairs
    else:
        with pytest.raises(InputError, match="no row is in every file"):
            read_systems(files, common_rows=True)


def test_rules_that_were_needed_are_said_and_so_is_what_came_near(tmp_path):
    refs, rows = tmp_path / "refs.json", tmp_path / "rows.json"
    refs.write_text(json.dumps({"bus/1.jpg": ["a bus"], "007.jpg": ["a spy"]}))
    rows.write_text(json.dumps({"dog/1.jpg": "a dog", "7": "a spy"}))
    with pytest.raises(InputError, match=r"dog/1.jpg' has no caption.*: 'bus/1.jpg' is in another folder"):
        read_rows(rows, references=refs)
    (note,) = KnownNames(["007.jpg", "x"]).match(["7", "x"]).notes
    assert note == "1 names of photos are matched as numbers, whatever their zeros (first: '7' is '007.jpg')"
    (note,) = KnownNames(["007.jpg"]).match(["dog/007.jpg"]).notes
    assert note == "1 names of photos are matched without their folders (first: 'dog/007.jpg' is '007.jpg')"
    assert not KnownNames([COCO]).match(["42"]).notes


def test_a_list_holds_out_rows_by_any_name_of_their_photo():
    rows = [[f"val2014/{COCO}", "42"], ["dog/1.jpg", "7"], ["bus/1.jpg", "8"], [f"val2014/{COCO}", "42"], []]
    lists = {"42": [0, 3], f"{COCO} 000042": [0, 3], "/data/dog/1.jpg 8": [1, 2], "cat/1.jpg 1.jpg 9": []}
    for listed, held in lists.items():
        names = listed.split()
        found = match_hold_out(names, rows)
        assert (found.rows, found.n_matched + len(found.unmatched)) == (held, len(names))
    assert "0 of the 3 names on the list match" in found.sentence()
    assert "'cat/1.jpg': 'dog/1.jpg' is in another folder" in found.sentence()
