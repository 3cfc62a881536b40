"""What holds for every benchmark: rows, photos, counts, damage, export, card, one line on old `datasets`."""

import ast
import json
import re
import sys
import warnings
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest
import yaml
from packaging.version import Version

import capscore
from capscore.benchmarks.data.check import PROBLEM, check_benchmark
from capscore.benchmarks.data.export import export_benchmark
from capscore.benchmarks.data.load import benchmark_builder, builder_class
from capscore.files.shipped import benchmark_slugs
from capscore.text.languages import language_code
from tools.golden.plain import differences, plain

from ..laws import every
from ..photos import encode, noise
from .conftest import load, official

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "datasets_scripts"
# all rows and counts of the tiny files, written down
RESULTS = json.loads((ROOT / "tests" / "golden" / "results.json").read_text(encoding="utf-8"))
SHARED_COLUMNS = {
    "image": datasets.Image(),
    "image_id": datasets.Value("string"),
    "caption": datasets.Value("string"),
    "references": datasets.Sequence(datasets.Value("string")),
    "rating": datasets.Value("float64"),
    "language": datasets.Value("string"),
}
SECTIONS = "Description/How to load/Files/Configurations/Fields/Protocol/Citation/Changelog".split("/")


def configurations(benchmark: str) -> list[str]:
    return list(dict.fromkeys(config for config, _ in official(benchmark).ROWS))


def without_photos(row: dict) -> dict:
    return {name: value for name, value in row.items() if name != "image" and not name.endswith("_image")}


def test_no_benchmark_is_gone():
    names = {name.partition("_")[2] for name in RESULTS if name.startswith("benchmarks/rows_")}
    assert len(names) == 26 and names <= {*benchmark_slugs()}


@every("benchmark")
def test_rows_and_photos_are_those_of_the_files(benchmark, shared):
    numbers = {}
    for config in configurations(benchmark):
        builder = benchmark_builder(benchmark, config, data_dir=shared(benchmark))
        expected = RESULTS[f"benchmarks/rows_{benchmark}"][config]
        loaded = load(benchmark, config, shared(benchmark), images=True)
        assert set(loaded) == set(expected)
        for split, rows in loaded.items():
            numbers[config, split] = rows.num_rows
            assert rows.column_names == expected[split]["columns"]
            found = [without_photos(row) for row in rows]
            assert [*differences([*map(without_photos, expected[split]["rows"])], plain(found, {}))] == []
            for column in builder.IMAGE_COLUMNS:
                assert {photo.size for photo in rows[column]} == {(64, 48)}
                raw = rows.cast_column(column, datasets.Image(decode=False))
                assert [Path(photo["path"]).name for photo in raw[column]] == rows[f"{column}_id"][:]
        features = builder.info.features
        common = SHARED_COLUMNS.keys() & features.keys()
        assert "language" in common and all(features[name] == SHARED_COLUMNS[name] for name in common)
    assert numbers == official(benchmark).ROWS


@every("benchmark")
def test_a_stream_gives_the_same_rows(benchmark, shared):
    for config in configurations(benchmark)[:5]:
        loaded = load(benchmark, config, shared(benchmark), images=True)
        stream = load(benchmark, config, shared(benchmark), streaming=True)
        assert [*stream] == [*loaded] and all([*stream[split]] == [*loaded[split]] for split in stream)


@every("benchmark")
def test_an_export_gives_datasets_the_same_rows_and_nothing_of_this_machine(benchmark, shared, tmp_path):
    names = configurations(benchmark)[:3]
    out = export_benchmark(benchmark, tmp_path / "out", names, data_dir=shared(benchmark))
    for config in names:
        ours = load(benchmark, config, shared(benchmark), images=True)
        theirs = datasets.load_dataset(str(out), config)
        assert set(theirs) == set(ours)
        for split in ours:
            assert theirs[split].column_names == ours[split].column_names
            assert list(theirs[split]) == list(ours[split])
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".parquet", ".md"}
    assert not [path for path in files if str(tmp_path).encode() in path.read_bytes()]
    assert not [path for path in files if path.suffix == ".parquet" and pq.read_schema(path).metadata]
    front = yaml.safe_load((out / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    assert [entry["config_name"] for entry in front["configs"]] == names
    splits = [split for config, split in official(benchmark).ROWS if config == names[0]]
    assert [entry["split"] for entry in front["configs"][0]["data_files"]] == splits


@every("benchmark")
def test_missing_photos_are_none_or_an_error_by_option(benchmark, written, tmp_path):
    folder, config = written(benchmark), configurations(benchmark)[0]
    columns = benchmark_builder(benchmark, config).IMAGE_COLUMNS
    are_inside = not official(benchmark).PHOTOS
    for images in (None, False):
        for rows in load(benchmark, config, folder, images=images).values():
            photos = [photo for column in columns for photo in rows[column]]
            assert {photo is None for photo in photos} == {images is False or not are_inside}
    if not are_inside:
        with pytest.raises(capscore.MissingImages, match="images=True asks for all of them"):
            load(benchmark, config, folder, images=True)
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "holiday.jpg").write_bytes(encode(noise(), "JPEG"))
        with pytest.raises(capscore.MissingImages, match=r"0 of its .* photos are in .*missing is"):
            load(benchmark, config, folder, image_dir=tmp_path / "photos")
    before = benchmark_builder(benchmark, config, data_dir=folder).cache_dir
    (folder / "a_new_file.txt").write_text("new")
    assert benchmark_builder(benchmark, config, data_dir=folder).cache_dir != before


@every("benchmark")
def test_counts_and_checksums_are_compared_with_those_published(benchmark, shared):
    kind, folder = builder_class(benchmark), shared(benchmark)
    assert set(kind.COUNTS) <= set(kind.CONFIGS)
    expected = {part["config"]: part for part in RESULTS[f"benchmarks/check_{benchmark}"]["out"]}
    for part in check_benchmark(benchmark, list(expected), data_dir=folder):
        assert part.counts == expected[part.config]["counts"]
        assert part.missing_images == []
        problems = {(finding.what, finding.message) for finding in part.problems}
        for split, counts in part.counts.items():
            published = kind.COUNTS.get(part.config, {}).get(split, {})
            assert set(published) <= set(counts)
            assert all(isinstance(number, int) and number > 0 for number in published.values())
        told = [finding for finding in expected[part.config]["findings"] if finding["level"] == PROBLEM]
        assert problems == {(finding["what"], finding["message"]) for finding in told}
    config, split = next(iter(official(benchmark).ROWS))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(benchmark, config, folder)
    texts = [str(warning.message) for warning in caught if warning.category is capscore.BenchmarkWarning]
    is_published = "rows" in kind.COUNTS.get(config, {}).get(split, {})
    assert any("were published: is a file cut short?" in text for text in texts) is is_published


DAMAGED = [
    pytest.param(benchmark, config, file, *damage, id=f"{benchmark}-{file}-{number}")
    for benchmark in benchmark_slugs()
    for (config, file), damages in official(benchmark).DAMAGE.items()
    for number, damage in enumerate(damages)
]


def refused(benchmark: str, config: str, folder: Path) -> capscore.AnnotationError:
    with pytest.raises(capscore.AnnotationError) as caught:
        load(benchmark, config, folder)
    kept = (".arrow", ".json", ".incomplete")
    assert not [path for path in (folder / "cache").rglob("*") if path.suffix in kept]
    return caught.value


@pytest.mark.parametrize("benchmark, config, file, old, new", DAMAGED)
def test_a_wrong_field_is_named_with_its_file_and_nothing_is_left(benchmark, config, file, old, new, written):
    folder = written(benchmark)
    content = (folder / file).read_bytes()
    assert old.encode() in content, "the damage does not touch the file"
    (folder / file).write_bytes(content.replace(old.encode(), new.encode(), 1))
    assert str(folder) in refused(benchmark, config, folder).file


@every("benchmark")
def test_a_file_that_is_gone_cut_short_or_no_text_is_named(benchmark, written):
    folder = written(benchmark)
    assert official(benchmark).DAMAGE
    for number, (config, file) in enumerate(official(benchmark).DAMAGE):
        if file == "UNRELATED_CAPTIONS":
            continue  # a list of exceptions, which may be empty
        content, middle = (folder / file).read_bytes(), len((folder / file).read_bytes()) // 2
        for damaged in (content[:middle] + b"\xff" + content[middle:], content[: len(content) * 3 // 5], b""):
            (folder / file).write_bytes(damaged)
            assert str(folder) in refused(benchmark, config, folder).file
        (folder / file).unlink()
        if number == 0:
            gone = refused(benchmark, config, folder)
            assert isinstance(gone, capscore.MissingAnnotations) or "No such file" in str(gone)
        (folder / file).write_bytes(content)


VARIANTS = {name: getattr(official(name), "VARIANTS", {}) for name in benchmark_slugs()}


@pytest.mark.parametrize("benchmark, variant", [(name, each) for name in VARIANTS for each in VARIANTS[name]])
def test_files_may_be_elsewhere_or_packed_differently(benchmark, variant, tmp_path):
    write, rows = VARIANTS[benchmark][variant]
    write(tmp_path)
    found = {(config, split): load(benchmark, config, tmp_path, split).num_rows for config, split in rows}
    assert found == rows


@pytest.mark.skipif(Version(datasets.__version__) >= Version("4"), reason="datasets 4 runs no scripts")
@every("benchmark")
def test_datasets_itself_runs_the_script(benchmark, shared):
    for config in configurations(benchmark):
        where = {"data_dir": str(shared(benchmark)), "trust_remote_code": True}
        theirs = datasets.load_dataset(str(SCRIPTS / benchmark), config, **where)
        ours = load(benchmark, config, shared(benchmark), images=True)
        for split in ours:
            assert theirs[split].features == ours[split].features
            assert list(map(without_photos, theirs[split])) == list(map(without_photos, ours[split]))


@every("benchmark")
def test_a_script_stands_alone_with_its_card(benchmark):
    """On the Hub it lies alone: no file beside it, and nothing that capscore does not bring."""
    names = {path.name for path in (SCRIPTS / benchmark).iterdir() if path.name != "__pycache__"}
    assert names == {f"{benchmark}.py", "README.md"}
    packages = set()
    for node in ast.walk(ast.parse((SCRIPTS / benchmark / f"{benchmark}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            packages.add(str(node.module).split(".")[0])
    assert packages <= {"capscore", "datasets", "scipy", "numpy"} | sys.stdlib_module_names


@every("benchmark")
def test_the_card_says_what_the_script_does(benchmark, shared):
    kind = builder_class(benchmark)
    text = (SCRIPTS / benchmark / "README.md").read_text(encoding="utf-8")
    _, head, body = re.split(r"^---\n", text, maxsplit=2, flags=re.MULTILINE)
    front = yaml.safe_load(head)
    required = "language license pretty_name size_categories source_datasets task_categories tags".split()
    assert set(required) <= set(front)
    assert "configs" not in front, "a script's configurations are the script's; the exported card has them"
    assert {"image-captioning", "capscore"} <= set(front["tags"])
    assert re.search(r"^# (.*)$", body, re.MULTILINE)[1] == front["pretty_name"]
    languages = {language_code(language) for language in front["language"]}
    assert {config.language for config in kind.BUILDER_CONFIGS} - {""} <= languages

    parts = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", body, re.DOTALL | re.MULTILINE))
    assert list(parts) == SECTIONS
    names, loads = [config.name for config in kind.BUILDER_CONFIGS], parts["How to load"]
    for call, end in (("capscore.load_benchmark(", ")"), ("load_dataset(", ", trust_remote_code=True)")):
        pattern = rf'{re.escape(call)}"(?:datasets_scripts/)?{benchmark}", "(.+?)", data_dir="{benchmark}"'
        assert re.search(pattern + re.escape(end), loads)[1] in names
    assert first_cells(parts["Configurations"]) == names
    configs = configurations(benchmark)
    builders = [benchmark_builder(benchmark, config, data_dir=shared(benchmark)) for config in configs]
    columns = set().union(*(builder.info.features for builder in builders))
    assert sorted(first_cells(parts["Fields"])) == sorted(columns)
    assert kind.citation() in parts["Citation"]
    assert re.findall(r"^- \*\*(.+?)\*\*", parts["Changelog"], re.MULTILINE)[0] == str(kind.VERSION)
    assert kind.__doc__ and kind.LICENSE and kind.HOMEPAGE.startswith("http")


def first_cells(table: str) -> list[str]:
    cells = re.findall(r"^\| *(`.*?) *\|", table, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
