"""What holds for every loading script: rows, streaming, photos, damaged files, one line on old `datasets`."""

from __future__ import annotations

import ast
import sys
import warnings

import datasets
import pytest
from packaging.version import Version

import capscore
from capscore.benchmarks.data.builder import BenchmarkWarning
from capscore.benchmarks.data.load import benchmark_builder, builder_class

from ..photos import encode, noise
from ..python_source import syntax_tree
from .conftest import SCRIPTS, SLUGS, configurations, official, write_photos

RUNS_SCRIPTS = Version(datasets.__version__) < Version("4")
SHARED_COLUMNS = {
    "image": datasets.Image(),
    "image_id": datasets.Value("string"),
    "caption": datasets.Value("string"),
    "references": datasets.Sequence(datasets.Value("string")),
    "rating": datasets.Value("float64"),
    "language": datasets.Value("string"),
}
pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


def without_photos(row: dict) -> dict:
    return {name: value for name, value in row.items() if name != "image" and not name.endswith("_image")}


def test_all_benchmarks_are_here():
    assert SLUGS == sorted(
        "flickr8k_human composite pascal50s thumb captokeneval vicr polaris nebula capeval1k m_capeval1k "
        "m_finecap3k valse xvnli marvl xm3600 multi30k xflickrco coco_captions flickr30k_entities nocaps "
        "vizwiz_captions foil hat".split()
    )


def test_a_folder_holds_a_script_and_a_card(slug):
    names = {path.name for path in (SCRIPTS / slug).iterdir() if path.name != "__pycache__"}
    assert names == {f"{slug}.py", "README.md"}


def test_rows(slug, data_dir):
    for config in configurations(slug):
        loaded = capscore.load_benchmark(slug, config, data_dir=data_dir)
        expected = {split: rows for (name, split), rows in official(slug).ROWS.items() if name == config}
        assert {split: rows.num_rows for split, rows in loaded.items()} == expected


def test_first_row(slug, data_dir):
    assert official(slug).FIRST
    for (config, split), first in official(slug).FIRST.items():
        loaded = capscore.load_benchmark(slug, config, data_dir=data_dir, split=split)
        assert without_photos(loaded[0]) == first
        assert [name for name in loaded.column_names if name in first] == list(first)


def test_streaming_gives_the_same_rows(slug, data_dir):
    for config in configurations(slug):
        loaded = capscore.load_benchmark(slug, config, data_dir=data_dir)
        stream = capscore.load_benchmark(slug, config, data_dir=data_dir, streaming=True)
        assert set(stream) == set(loaded)
        for split in loaded:
            assert list(stream[split]) == list(loaded[split])


def test_columns_mean_the_same_in_every_benchmark(slug, data_dir):
    for config in configurations(slug):
        builder = benchmark_builder(slug, config, data_dir=data_dir)
        features = builder.info.features
        for name, feature in SHARED_COLUMNS.items():
            if name in features:
                assert features[name] == feature, f"{config}: {name}"
        assert "language" in features
        assert str(builder.config.version) == str(builder_class(slug).VERSION)


def test_photos_that_are_there(slug, data_dir):
    write_photos(slug, data_dir)
    for config in configurations(slug):
        for split, rows in capscore.load_benchmark(slug, config, data_dir=data_dir, images=True).items():
            for column in benchmark_builder(slug, config, data_dir=data_dir).IMAGE_COLUMNS:
                sizes = {photo.size for photo in rows[column]}
                assert sizes, f"{config}, {split}"


def test_photos_left_out(slug, data_dir):
    write_photos(slug, data_dir)
    config = configurations(slug)[0]
    for rows in capscore.load_benchmark(slug, config, data_dir=data_dir, images=False).values():
        for column in benchmark_builder(slug, config, data_dir=data_dir).IMAGE_COLUMNS:
            assert set(rows[column]) == {None}


def test_a_missing_photo(slug, data_dir):
    write_photos(slug, data_dir)
    config = configurations(slug)[0]
    for name in official(slug).PHOTOS:
        (data_dir / name).unlink()
    with pytest.raises(capscore.MissingImages, match=r"images=True asks for all of them"):
        capscore.load_benchmark(slug, config, data_dir=data_dir, images=True)


def test_other_photos_than_those_named(slug, data_dir, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday.jpg").write_bytes(encode(noise(seed=0), "JPEG"))
    config = configurations(slug)[0]
    with pytest.raises(capscore.MissingImages, match=r"0 of its .* photos are in .*missing is"):
        capscore.load_benchmark(slug, config, data_dir=data_dir, image_dir=tmp_path / "photos")


DAMAGES = [
    pytest.param(slug, *damage, id=f"{slug}-{number}")
    for slug in SLUGS
    for number, damage in enumerate(official(slug).DAMAGE)
]


@pytest.mark.parametrize("slug, config, file, change", DAMAGES)
def test_a_damaged_file_is_named_and_leaves_nothing_behind(slug, config, file, change, data_dir, tmp_path):
    path = data_dir / file
    if change is None:
        path.unlink()
    else:
        old, new = change
        content = path.read_bytes()
        assert old in content, "the damage does not touch the file"
        path.write_bytes(content.replace(old, new, 1))
    cache = tmp_path / "cache"
    with pytest.raises(capscore.AnnotationError) as caught:
        capscore.load_benchmark(slug, config, data_dir=data_dir, cache_dir=cache)
    if change is not None:
        assert str(data_dir) in caught.value.file
    assert not [found for found in cache.rglob("*") if found.suffix in (".arrow", ".json", ".incomplete")]


def test_every_benchmark_knows_damage():
    for slug in SLUGS:
        kinds = official(slug).DAMAGE
        assert len(kinds) >= 3
        assert any(change is None for _, _, change in kinds), slug


@pytest.mark.parametrize(
    "slug, variant",
    [
        pytest.param(slug, number, id=f"{slug}-{variant[0]}")
        for slug in SLUGS
        for number, variant in enumerate(getattr(official(slug), "VARIANTS", []))
    ],
)
def test_other_layouts(slug, variant, tmp_path):
    _, write, rows = official(slug).VARIANTS[variant]
    write(tmp_path)
    for (config, split), number in rows.items():
        loaded = capscore.load_benchmark(slug, config, data_dir=tmp_path, split=split)
        assert loaded.num_rows == number


def test_a_changed_file_is_read_again(slug, data_dir):
    config, split = next(iter(official(slug).ROWS))
    before = benchmark_builder(slug, config, data_dir=data_dir)
    (data_dir / "a_new_file.txt").write_text("new")
    after = benchmark_builder(slug, config, data_dir=data_dir)
    assert before.cache_dir != after.cache_dir
    assert split in after.splits()


def test_published_counts_are_of_configurations_that_exist(slug):
    kind = builder_class(slug)
    names = {config.name for config in kind.BUILDER_CONFIGS}
    assert set(kind.COUNTS) <= names
    for splits in kind.COUNTS.values():
        for counts in splits.values():
            assert all(isinstance(number, int) and number > 0 for number in counts.values())


def test_counts_can_be_counted(slug, data_dir):
    kind = builder_class(slug)
    for config in configurations(slug):
        builder = benchmark_builder(slug, config, data_dir=data_dir)
        for split in builder.splits():
            counted = builder.count([row for _, row in builder.checked_rows(split)])
            assert counted["rows"] == official(slug).ROWS[config, split]
            assert set(kind.COUNTS.get(config, {}).get(split, {})) <= set(counted)


@pytest.mark.skipif(not RUNS_SCRIPTS, reason="datasets 4 and later run no loading scripts")
def test_one_line_of_datasets_itself(slug, data_dir):
    write_photos(slug, data_dir)
    for config in configurations(slug):
        theirs = datasets.load_dataset(
            str(SCRIPTS / slug), config, data_dir=str(data_dir), trust_remote_code=True
        )
        ours = capscore.load_benchmark(slug, config, data_dir=data_dir)
        for split in ours:
            assert theirs[split].features == ours[split].features
            assert list(map(without_photos, theirs[split])) == list(map(without_photos, ours[split]))


def test_fewer_rows_than_published_are_pointed_out(slug, data_dir):
    kind = builder_class(slug)
    config, split = next(iter(official(slug).ROWS))
    if "rows" not in kind.COUNTS.get(config, {}).get(split, {}):
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        capscore.load_benchmark(slug, config, data_dir=data_dir)
    texts = [str(warning.message) for warning in caught if warning.category is BenchmarkWarning]
    assert any("were published: is a file cut short?" in text for text in texts)


def test_a_script_imports_only_what_everybody_has(slug):
    """On the Hub it lies alone: no file beside it, and nothing that capscore does not bring."""
    tree = syntax_tree(SCRIPTS / slug / f"{slug}.py")
    packages = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            packages.add(str(node.module).split(".")[0])
    assert packages <= {"capscore", "datasets", "scipy", "numpy"} | sys.stdlib_module_names
