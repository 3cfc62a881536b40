"""What is special about one benchmark: its options, other files, and what is odd about the official ones."""

import hashlib
import json
import unicodedata
import warnings
from pathlib import Path

import datasets
import pyarrow
import pytest
from pyarrow import parquet
from scipy.io import loadmat, savemat

import capscore
from capscore.benchmarks.data.load import benchmark_builder, builder_class
from capscore.benchmarks.protocols import VALSE_PIECES, xvnli
from tools.tiny.official import composite, detailcaps, pascal50s, polaris

from ..photos import encode, noise
from .conftest import load


def rows_of(slug, config, folder, split="test", **options):
    builder = benchmark_builder(slug, config, data_dir=folder, options=options)
    return [row for _, row in builder.checked_rows(split)]


def damage(path, old, new):
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))


def test_published_captions_add_up():
    counts = {slug: builder_class(slug).COUNTS for slug in ("xm3600", "nocaps", "xflickrco", "valse")}
    assert len(counts["xm3600"]) == 36
    assert sum(count["test"]["captions"] for count in counts["xm3600"].values()) == 261_375
    assert counts["nocaps"]["all"]["validation"] == {"rows": 4500, "images": 4500, "captions": 45000}
    assert counts["xflickrco"]["de"]["test"]["captions"] == 1999
    assert list(counts["valse"]) == ["all", *VALSE_PIECES]
    for name in ("rows", "valid"):
        numbers = [count["test"][name] for count in counts["valse"].values()]
        assert 2 * numbers[0] == sum(numbers)


def test_xm3600_without_the_list_of_photos_and_their_regions(written):
    folder = written("xm3600")
    (folder / "image_ids.txt").unlink()
    damage(folder / "captions.jsonl", b'"image/locale": "de", ', b"")
    assert [row["image_locale"] for row in rows_of("xm3600", "de", folder)] == [None, "de"]


def test_multi30k_offers_available_splits_and_requires_all_captions_of_task_2(written):
    folder = written("multi30k", "write_repository")
    assert benchmark_builder("multi30k", "de", data_dir=folder).splits() == ("train", "validation")
    everything = ("train", "validation", "test_2016_flickr", "test_2018_flickr")
    assert benchmark_builder("multi30k", "cs").splits() == everything
    assert {len(row["references"]) for row in rows_of("multi30k", "task2_de", folder, "train")} == {5}
    (folder / "data/task2/raw/train.4.de.gz").unlink()
    with pytest.raises(capscore.MissingAnnotations, match=r"train\.4\.de\.gz"):
        rows_of("multi30k", "task2_de", folder, "train")


def test_flickr30k_entities_reads_an_archive_which_lacks_the_unrelated_captions(written, tmp_path):
    (folder,) = rows_of("flickr30k_entities", None, written("flickr30k_entities"), "train")
    other = tmp_path / "archive"
    other.mkdir()
    packed = written("flickr30k_entities", "write_archive") / "annotations.zip"
    packed = packed.rename(other / "annotations.zip")
    (other / "train.txt").write_text("111\n")
    (archive,) = rows_of("flickr30k_entities", None, other, "train")
    assert (archive.pop("unrelated"), folder.pop("unrelated")) == (None, [2])
    assert archive == folder
    packed.write_bytes(packed.read_bytes()[:-60])
    with pytest.raises(capscore.AnnotationError, match=r"annotations\.zip: cannot be unpacked"):
        rows_of("flickr30k_entities", None, other, "train")


def composite_rows(folder, config="coco", **options):
    rows = rows_of("composite", config, folder, **options)
    return [(row["references"], row["rating"], row["system"]) for row in rows]


def test_composite_options(written):
    folder, cats = written("composite"), composite.OWN[composite.CAT]
    rated = [(4, "Human"), (5, "Karpathy"), (4, "SDG")]
    assert composite_rows(folder) == [([cats[0]], *row) for row in rated]
    assert [row[0] for row in composite_rows(folder, human_reference=True)] == [cats] * 3
    assert [row[1] for row in composite_rows(folder, question="thoroughness")] == [3.0, 4.0, 3.0]
    assert composite_rows(folder, candidates=4)[3][1:] == (1.0, "fourth")
    assert len(composite_rows(folder, "flickr8k", candidates=4)) == 6, "Flickr8k has three"
    assert benchmark_builder("composite", data_dir=folder).config.name == "all"
    with warnings.catch_warnings():  # other rows are not compared with published counts
        warnings.simplefilter("error", capscore.BenchmarkWarning)
        for options in ({"candidates": 4}, {"question": "thoroughness"}):
            load("composite", "coco", folder, options=options)
    for option, value in (("question", "correct"), ("candidates", 5)):
        with pytest.raises(capscore.InputError, match=rf"{option}: expected one of"):
            composite_rows(folder, **{option: value})


def test_composite_keeps_references_that_no_human_candidate_is_like_and_says_so(written):
    folder = written("composite")
    damage(folder / "coco_correctness.csv", b"A cat, lying down", b"Nothing of the kind, 12 zebras")
    with pytest.warns(capscore.BenchmarkWarning, match=rf"references of 1 photos, such as {composite.CAT}"):
        assert [len(row[0]) for row in composite_rows(folder)] == [2, 2, 2]
    (folder / "annotations" / "captions_val2014.json").unlink()
    with pytest.warns(capscore.BenchmarkWarning, match="1 photos have no references") as caught:
        assert [row[0] for row in composite_rows(folder)] == [[], [], []]
    assert len(caught) == 1


def test_composite_only_the_last_two_rows_may_lack_a_photo(written):
    folder = written("composite")
    lines = (folder / "coco_correctness.csv").read_text().splitlines()
    (folder / "coco_correctness.csv").write_text("\n".join(lines[:-2]))
    assert len(composite_rows(folder)) == 3
    (folder / "coco_correctness.csv").write_text("\n".join([*lines, lines[-1]]))
    with pytest.raises(capscore.AnnotationError, match=r"line 3: 'Input\.image_url' is ''"):
        composite_rows(folder)


def test_composite_decoded_rows_have_official_names(written):
    folder = written("composite", "write_decoded")
    names = {config: rows_of("composite", config, folder)[0]["image_id"] for config in composite.RATED}
    assert names == {"flickr8k": "333_c.jpg", "flickr30k": "555.jpg", "coco": composite.CAT}
    assert composite_rows(folder, "flickr8k")[0][0] == ["A girl jumps .", "Girl in the rain ."]
    path = folder / "umic_composite_coco_decoded.json"
    rated = json.loads(path.read_text())
    for rows in (rated[:2], [{**rated[0], "img": "flickr8k_1_a.npz"}, *rated[1:]]):
        path.write_text(json.dumps(rows))
        with pytest.raises(capscore.AnnotationError, match="entry 0: expected three rows of one photo"):
            composite_rows(folder)


def test_finecapeval_is_read_for_english_if_m_finecap3k_is_missing(written):
    folder = written("m_finecap3k", "write_finecapeval")
    rows = rows_of("m_finecap3k", "en", folder)
    phrases = {"critical_objects": ["woman", "red coat"], "backgrounds": ["tram stop", "grey sky"]}
    about = {"image_id": "41.jpg", "id": "41.jpg#1", "language": "en", "relationships": ["waits"]}
    assert rows[0] == {**about, **phrases, "caption": "A woman, in a red coat, waits."}
    assert [(row["id"], row["backgrounds"]) for row in rows[1:]] == [("41.jpg#2", []), ("42.jpg#1", ["sofa"])]
    phrases = {"critical objects": 4, "backgrounds": 3, "relationships": 3}
    assert benchmark_builder("m_finecap3k", "en").count(rows) == {"rows": 3, "images": 2, **phrases}
    with pytest.raises(capscore.MissingAnnotations, match=r"\(de\) reads de\.jsonl"):
        rows_of("m_finecap3k", "de", folder)
    with pytest.warns(capscore.BenchmarkWarning, match="has 3 rows where 5,000 were published"):
        load("m_finecap3k", "en", folder)
    written("m_finecap3k")
    with pytest.warns(capscore.BenchmarkWarning, match="has 2 rows where 1,000 were published"):
        assert load("m_finecap3k", "en", folder, "test")["id"][:] == ["en-0", "en-1"]


def write_concept(folder):
    folder.mkdir(parents=True)
    for number in range(6):
        (folder / f"7-{number}.jpg").write_bytes(encode(noise(seed=number), "JPEG"))


PLACES = ["marvl-images/sw/images/7-Ufagio", "images/sw/images/7-Ufagio", "sw/images/7-Ufagio"]
PLACES += [unicodedata.normalize(form, "marvl-images/tr/images/7-Süpürge") for form in ("NFC", "NFD")]


@pytest.mark.parametrize("place", PLACES)
def test_marvl_photos_are_found_wherever_an_archive_puts_them(place, written):
    folder = written("marvl")
    write_concept(folder / place)
    assert len(load("marvl", "tr" if "/tr/" in place else "sw", folder, "test", images=True)) == 7


def test_marvl_photos_elsewhere_and_those_of_another_language(written, tmp_path):
    folder = written("marvl")
    write_concept(tmp_path / "photos" / "sw" / "images" / "7-Ufagio")
    for image_dir in ("photos", "photos/sw/images"):
        assert len(load("marvl", "sw", folder, "test", image_dir=tmp_path / image_dir, images=True)) == 7
    # 7-0.jpg is a photo in all of them, and another one in each
    write_concept(folder / "marvl-images" / "tr" / "images" / "7-Süpürge")
    write_concept(folder / "images")
    with pytest.raises(capscore.MissingImages, match=r"no 7-Ufagio/7-0\.jpg or sw/images/7-Ufagio/7-0\.jpg"):
        load("marvl", "sw", folder, images=True)


def test_xvnli_counts_are_the_comparisons_of_the_protocol(written):
    rows = load("xvnli", "es", written("xvnli"), "test")
    counted = benchmark_builder("xvnli", "es").count(list(rows))
    names = ("pairs of experiment 1", "pairs of experiment 2", "triples of experiment 3")
    for premises, suffix in ((None, ""), (rows["premise_id"], " within a premise")):
        found = xvnli([0.1] * 6, rows["label"], rows["image_id"], premise_ids=premises)
        assert [row.n for row in found.statistics] == [counted[f"{name}{suffix}"] for name in names]
        assert found.counts["without label"] == counted["unlabelled"] == 1


@pytest.fixture
def mat(written):
    return written("pascal50s", "write_mat")


def pascal(folder, **options):
    return dict(benchmark_builder("pascal50s", data_dir=folder, options=options).rows("test"))


def test_pascal50s_votes_are_counted_by_caption_whichever_was_shown_first(mat):
    official = pascal(mat)
    votes = {"HC|0": [20, 28], "HC|1": [11, 37], "HI|0": [47, 1], "HM|0": [40, 8], "MM|0": [24, 24]}
    assert {key: row["votes"] for key, row in official.items()} == votes
    # the last is a tie: printf '2008_000001.jpg\\nthere is a cat\\na sofa' | sha256sum gives 0f…, an odd byte
    assert [row["label"] for row in official.values()] == [1, 1, 0, 0, 1]
    pascal50s.write(mat)
    labelled = pascal(mat)
    assert list(official) == list(labelled)
    for key, row in official.items():
        same = ("references", "captions", "image_id", *(() if key == "MM|0" else ("label",)))
        assert [row[name] for name in same] == [labelled[key][name] for name in same]
    with pytest.raises(capscore.AnnotationError, match="has 5 references, expected 6"):
        pascal(mat, n_references=6)


def test_pascal50s_has_the_requested_number_of_references(mat):
    for n in (0, 5, 48):
        assert {len(row["references"]) for row in pascal(mat, n_references=n).values()} == {n}
    with pytest.raises(capscore.InputError, match="n_references: -1: expected 0 to 48"):
        pascal(mat, n_references=-1)


def test_pascal50s_equal_captions_are_distinguished_by_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr(pascal50s, "PAIRS", [("MM", "2008_000001.jpg", ("a cat", "a cat"), 30)])
    pascal50s.write_mat(tmp_path)
    assert pascal(tmp_path)["MM|0"]["votes"] == [30, 18]


@pytest.mark.parametrize(
    "name, variable, edit, message",
    [
        ("pair", "category", lambda codes: codes[:, 1:], "has 5 pairs and 4 categories"),
        ("pair", "new_input", None, "lacks the variable 'new_input'"),
        ("consensus", "triplets", lambda votes: votes[:, 1:], "has 239 votes, expected 48 for each of 5"),
        ("consensus", "triplets", lambda votes: votes[:, [0, *range(239)]], "entry 48: compares "),
    ],
)
def test_pascal50s_damaged_files(mat, name, variable, edit, message):
    path = mat / f"{name}_pascal.mat"
    content = {key: value for key, value in loadmat(path).items() if not key.startswith("__")}
    value = content.pop(variable)
    savemat(path, content if edit is None else {**content, variable: edit(value)})
    with pytest.raises(capscore.AnnotationError, match=message):
        pascal(mat)
    for length in (0, 60, 130, -40):
        path.write_bytes(path.read_bytes()[:length])
        with pytest.raises(capscore.AnnotationError, match=rf"{path.name}: is not a MATLAB file"):
            pascal(mat)


def inside(folder, column, split):
    tables = [parquet.read_table(path) for path in sorted((folder / "data").glob(f"{split}-*"))]
    return [row["bytes"] for table in tables for row in table.column(column).to_pylist()]


def test_photos_inside_files_are_those_of_the_rows_and_written_once_for_what_needs_paths(written, tmp_path):
    folder = written("nebula", "write_parquet")
    loaded = load("nebula", "default", folder, "train", images=True)
    assert loaded["image_id"][:] == ["cc33.png", "dd44.png"]
    raw = loaded.cast_column("image", datasets.Image(decode=False))
    assert [photo["bytes"] for photo in raw["image"]] == inside(folder, "image", "train")
    assert load("nebula", "default", folder, "train", images=False)["image"][:] == [None, None]
    folder = written("polaris", "write_parquet")
    builder = benchmark_builder("polaris", "default", data_dir=folder, cache_dir=tmp_path / "cache")
    for _ in range(2):
        paths = [Path(row["image"]) for _, row in builder.examples("test")]
        assert [path.read_bytes() for path in paths] == inside(folder, "img", "test")
    files = [path for path in (tmp_path / "cache" / "polaris" / "photos").rglob("*") if path.is_file()]
    assert sorted(files) == sorted(set(paths)) and len(files) == 2, "two judgements are of one photo"


def test_parquet_is_preferred_to_tables_and_a_missing_part_is_noticed(written):
    folder = written("polaris")
    polaris.write_parquet(folder)
    assert [len(rows_of("polaris", "default", folder, split)) for split in ("test", "validation")] == [3, 1]
    (folder / "data" / "test-00001-of-00002.parquet").unlink()
    with pytest.warns(capscore.BenchmarkWarning, match="were published: is a file cut short"):
        load("polaris", "default", folder, "test")


def test_a_parquet_file_with_other_columns_or_a_photo_without_a_name(tmp_path):
    def read(slug, **row):
        parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "test-00000-of-00001.parquet")
        return [row["image_id"] for row in rows_of(slug, "default", tmp_path)]

    photo = encode(noise(), "JPEG")
    named = read("polaris", refs=["a"], cand="b", img={"bytes": photo, "path": None}, human_score=1.0)
    assert named == [f"{hashlib.md5(photo).hexdigest()}.jpg"]  # after its content
    with pytest.raises(capscore.AnnotationError, match="entry 0: lacks the field 'file_name'"):
        read("nebula", refs=["a"], mt="b")


def test_splits_are_those_that_are_there_or_can_be_downloaded(written):
    every = ("train", "validation", "test")
    packed = written("polaris", "write_parquet")
    assert benchmark_builder("polaris", "default", data_dir=packed).splits() == ("test",)
    assert benchmark_builder("polaris", "default", data_dir=written("polaris")).splits() == every
    assert benchmark_builder("polaris", "default").splits() == every
    assert benchmark_builder("nebula", "default").splits() == ("test",)
    assert benchmark_builder("nebula", "explained").splits() == ("validation",)


def test_a_photo_is_looked_for_with_and_without_a_suffix(written):
    folder = written("polaris")
    assert rows_of("polaris", "default", folder, "validation")[0]["image"] == ["aa11.jpg", "aa11"]
    damage(folder / "polaris_val.csv", b"aa11", b"aa11.PNG")
    (row,) = rows_of("polaris", "default", folder, "validation")
    assert (row["image_id"], row["image"]) == ("aa11.PNG", ["aa11.PNG"])


@pytest.mark.parametrize(
    "column, value, problem",
    [
        ("CogVLM", " ", "'CogVLM' is ' ', expected a caption"),
        ("GPT4_Eval", "4", "'GPT4_Eval' is '4', expected a JSON object"),
        ("GPT4_Eval", '{"CogVLM": NaN}', "'CogVLM' is nan, expected a number from 0 to 100"),
        ("binary", encode(noise(), "JPEG")[:-400], "'binary' holds no photo that can be read, or a damaged"),
        ("binary", b"", "'binary' is b'', expected the bytes of a photo"),
    ],
)
def test_detailcaps_names_file_and_row_of_what_is_wrong(column, value, problem, tmp_path):
    rows = detailcaps.table().to_pylist()
    rows[1][column] = value
    detailcaps.save(pyarrow.Table.from_pylist(rows), tmp_path / "DetailCaps-4870.parquet")
    with pytest.raises(capscore.AnnotationError) as caught:
        rows_of("detailcaps", None, tmp_path)
    assert "DetailCaps-4870.parquet, entry 1" in str(caught.value) and problem in str(caught.value)


def test_detailcaps_leaves_out_photos_without_grades_and_takes_further_models(tmp_path):
    rows = detailcaps.table().to_pylist()
    rows[1]["GPT4_Eval"] = None
    for row in rows:
        row["Ours"] = "Ours."
    rows[2]["GPT4_Eval"] = json.dumps({**json.loads(rows[2]["GPT4_Eval"]), "Ours": 1})
    detailcaps.save(pyarrow.Table.from_pylist(rows), tmp_path / "DetailCaps-4870.parquet")
    with pytest.warns(capscore.BenchmarkWarning, match=r"1 of 3 photos have no grades, .*parquet, entry 1 "):
        found = rows_of("detailcaps", None, tmp_path)
    rated = dict(zip([*detailcaps.SYSTEMS, "Ours"], (2, 5, 2, 1), strict=True))
    assert {row["system"]: row["rating"] for row in found[3:]} == rated
    assert {row["source"] for row in found[3:]} == {"Flickr"}
