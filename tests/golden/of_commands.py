"""The commands on files: score, perturb, robustness, explain, backbones, cache; their answers and tables."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from .place import DEMO, Place, file_rows, visible, write_rows
from .table import case

LANGUAGES = ("en", "de", "fr", "ja", "zh")
WITHOUT_TOWERS = ("cider", "cider_d", "bleu", "rouge_l", "meteor", "spice")
HELPS = (
    (),
    ("score",),
    ("benchmark",),
    ("robustness",),
    ("perturb",),
    ("explain",),
    ("backbones",),
    ("data",),
    ("data", "list"),
    ("data", "check"),
    ("data", "export"),
    ("cache",),
    ("cache", "info"),
    ("cache", "clear"),
)


def rows(place: Place, languages: tuple[str, ...] = LANGUAGES, mark: str = "right") -> list[dict[str, Any]]:
    """The demo's captions as rows of a file: image, caption, references, language, id."""
    return [
        {
            "id": f"{language}-{name}",
            "image": entry["file"],
            "caption": entry["captions"][language][mark],
            "references": entry["captions"][language]["references"],
            "language": language,
        }
        for language in languages
        for name, entry in place.entries.items()
    ]


def written(path: str) -> dict[str, Any]:
    """A result and its summary beside it."""
    found = file_rows(path)
    first = list(found[0]) if isinstance(found[0], dict) else found[0]
    return {"columns": first, "rows": found, "summary": file_rows(Path(path).with_suffix(".summary.json"))}


@case("commands/score")
def _(place: Place) -> Any:
    """JSONL to JSONL, several metrics that share the towers, rows in five languages."""
    place.photos()
    write_rows("rows.jsonl", rows(place, mark="half"))
    metrics = "mcs clip_score ref_clip_score clip_cider text_score cider cider_d bleu rouge_l".split()
    options = [option for metric in metrics for option in ("-m", metric)]
    told = place.capscore(
        "score",
        "rows.jsonl",
        *options,
        "--images",
        "photos",
        "--backbone",
        "embedded",
        "--json",
        "-o",
        "out.jsonl",
    )
    return {"told": told, **written("out.jsonl")}


@case("commands/score_infometic")
def _(place: Place) -> Any:
    place.photos()
    write_rows("rows.jsonl", [row for row in rows(place, ("en", "de")) if "cat" in row["id"]])
    options = ("--images", "photos", "--backbone", "embedded", "--json")
    told = place.capscore("score", "rows.jsonl", "-m", "infometic", *options, "-o", "out.jsonl")
    other = place.capscore(
        "score",
        "rows.jsonl",
        "-m",
        "infometic",
        *options,
        "--weights",
        "info_clip",
        "--beta",
        0.2,
        "--n-regions",
        4,
    )
    return {"told": told, "other": other, **written("out.jsonl")}


@case("commands/score_csv")
def _(place: Place) -> Any:
    """CSV and TSV with other names of columns; a saved data set and Parquet."""
    import csv

    import datasets

    place.photos()
    given = rows(place, ("de",))
    names = ["img", "hyp", "reference_1", "reference_2"]
    table = [[row["image"], row["caption"], *row["references"]] for row in given]
    for suffix, delimiter in (("csv", ","), ("tsv", "\t")):
        with open(f"rows.{suffix}", "w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=delimiter).writerows([names, *table])
    options = ("-m", "rouge_l", "-m", "cider", "-m", "ref_clip_score", "--language", "de", "--json")
    towers = ("--images", "photos", "--backbone", "embedded")
    found = {}
    for suffix in ("csv", "tsv"):
        told = place.capscore(
            "score", f"rows.{suffix}", *options, *towers, "--output", f"{suffix}-out.{suffix}"
        )
        found[suffix] = {"told": told, **written(f"{suffix}-out.{suffix}")}
    datasets.Dataset.from_list(given).save_to_disk("saved")
    datasets.Dataset.from_list(given).to_parquet("rows.parquet")
    for source, output in (
        ("saved", "a.parquet"),
        ("rows.parquet", "b.json"),
        ("rows.parquet", "folder"),
    ):
        words = ("-m", "bleu", "-m", "cider", "--variant", "paper", "--json")
        told = place.capscore("score", source, *words, "--output", output)
        scored = file_rows(output) if "." in output else datasets.load_from_disk(output).to_list()
        found[f"{source} {output}"] = {"told": told, "rows": scored}
    return found


@case("commands/score_skip")
def _(place: Place) -> Any:
    """Rows that cannot be scored: left out, and where the first of them stops the work."""
    place.photos()
    given = rows(place, ("en",))
    given[1]["image"], given[2]["caption"], given[3]["references"] = "nowhere.png", "", []
    Path("photos", "broken.png").write_bytes(b"no image")
    given[4]["image"] = "broken.png"
    write_rows("rows.jsonl", given)
    options = ("-m", "mcs", "-m", "rouge_l", "--images", "photos", "--backbone", place.clip())
    return {
        "skip": place.capscore(
            *("score", "rows.jsonl", *options, "--on-error", "skip", "--empty", "skip", "--json"),
            *("-o", "a.jsonl"),
        ),
        "rows": written("a.jsonl"),
        "raise": place.capscore("score", "rows.jsonl", *options, "--json", "-o", "b.jsonl"),
        "files": sorted(path.name for path in Path().iterdir()),
    }


@case("commands/score_tiny")
def _(place: Place) -> Any:
    """A folder as backbone: batches, no cache, no output."""
    place.photos()
    write_rows("rows.jsonl", rows(place, ("en",)))
    options = ("score", "rows.jsonl", "--images", "photos", "--backbone", place.clip(), "--json")
    return {
        "plain": place.capscore(*options),
        "batches": place.capscore(*options, "--batch-size", 2, "--no-cache", "-m", "mcs", "-m", "text_score"),
        "cached": place.capscore(*options, "--cache-dir", "kept", "--language-column", "language"),
        "kept": place.capscore("cache", "info", "--cache-dir", "kept", "--json"),
        "cleared": place.capscore("cache", "clear", "--yes", "--cache-dir", "kept"),
        "again": place.capscore("cache", "info", "--cache-dir", "kept", "--json"),
    }


@case("commands/perturb", quick=True)
def _(place: Place) -> Any:
    """All kinds in five languages; one kind with options; wide; objects that are given."""
    given = [
        {key: value for key, value in row.items() if key in ("id", "caption", "language")}
        for row in rows(place)
    ]
    write_rows("rows.jsonl", given)
    found = {"all": place.capscore("perturb", "rows.jsonl", "--all-kinds", "--json", "-o", "all.jsonl")}
    found["all rows"] = written("all.jsonl")
    for name, options in {
        "removal": ("--kind", "removal", "--removal", "drop", "--p", 0.3, "--seed", 9),
        "wide": ("--kind", "jumble", "--kind", "masking", "--wide", "--independent-draws"),
    }.items():
        told = place.capscore("perturb", "rows.jsonl", *options, "--json", "-o", f"{name}.csv")
        found[name] = {"told": told, **written(f"{name}.csv")}
    with_objects = [
        {
            "caption": entry["captions"]["en"]["right"],
            "objects": entry["captions"]["en"]["objects"],
        }
        for entry in place.entries.values()
    ]
    write_rows("objects.jsonl", with_objects)
    found["objects"] = place.capscore("perturb", "objects.jsonl", "-k", "substitution", "--language", "en")
    found["nouns"] = place.capscore(
        "perturb", "objects.jsonl", "-k", "substitution", "--nouns", "--language", "en"
    )
    found["finder"] = place.capscore("perturb", "rows.jsonl", "--noun-finder", "--json")
    return found


def _robust_rows(place: Place, languages: tuple[str, ...]) -> str:
    given = [
        {
            "image": f"photos/{entry['file']}",
            "caption": entry["captions"][language]["right"],
            "language": language,
            "stand_in": entry["captions"]["en"]["references"][0],
        }
        for language in languages
        for entry in place.entries.values()
    ]
    return write_rows("captions.jsonl", given)


@case("commands/robustness")
def _(place: Place) -> Any:
    """MCS and PR-MCS, all kinds, beside what was published."""
    place.photos()
    captions = _robust_rows(place, LANGUAGES)
    towers = ("-m", "mcs@embedded", "-m", "pr_mcs@embedded-pr-mcs")
    ratings = place.rated("ratings")
    return {
        "photos": place.capscore(
            "robustness", *towers, "--captions", captions, "--kinds", "all", "--bootstrap", 20, "--json"
        ),
        "stand-in": place.capscore(
            *("robustness", *towers, "--captions", captions, "--stand-in", "--beside", "coco_captions"),
            *("--languages", "en,de", "--agreement", f"flickr8k_human/expert={ratings}"),
            *("--bootstrap", 20, "--json"),
        ),
    }


@case("commands/robustness_options")
def _(place: Place) -> Any:
    """A benchmark's captions, few kinds, own draws, unchanged ones left out; files that are written."""
    place.benchmark("xflickrco")
    place.photos()
    clip = place.clip()
    where = ("--data", "xflickrco", "--data-dir", "xflickrco", "--languages", "en,de")
    draws = ("--kinds", "jumble,removal,typos", "--p", 0.6, "--seed", 2, "--own-draws", "--removal", "drop")
    files = ("--output", "r.json", "--markdown", "r.md", "--figure", "r.svg", "--bars", "r.png")
    told = place.capscore(
        *("robustness", "-m", "mcs", "--backbone", clip, *where, *draws, "--leave-out-unchanged"),
        *("--bootstrap", 20, "--quiet", *files),
    )
    captions = _robust_rows(place, ("en", "ja"))
    sampled = place.capscore(
        *("robustness", "-m", "clip_score", "-m", "mcs", "--backbone", clip, "--captions", captions),
        *("--sample", 3, "--seed", 1, "--bootstrap", 0, "--json"),
    )
    return {
        "told": told,
        "document": file_rows("r.json"),
        "files": sorted(path.name for path in Path().iterdir()),
        "sampled": sampled,
    }


@case("commands/explain")
def _(place: Place) -> Any:
    """A right and a half-right caption of a photo, in three languages; given boxes; the baseline."""
    photos = place.photos()
    entries = list(place.entries.values())
    found = {}
    for language in ("en", "de", "zh"):
        texts = [entries[0]["captions"][language][mark] for mark in ("right", "half")]
        found[language] = place.capscore(
            "explain", photos[0], *texts, "--language", language, "--backbone", "embedded", "--json"
        )
    Path("boxes.json").write_text(json.dumps([[0, 0, 225, 300], [225, 0, 451, 300]]))
    texts = [entries[0]["captions"]["en"]["right"]]
    found["boxes"] = place.capscore(
        "explain", photos[0], *texts, "--boxes", "boxes.json", "--backbone", "embedded", "-o", "out.json"
    )["exit"]
    found["written"] = file_rows("out.json")
    found["info_clip"] = place.capscore(
        "explain",
        photos[0],
        *texts,
        "--weights",
        "info_clip",
        "--backbone",
        place.clip(),
        "--json",
        "--beta",
        0.02,
    )
    return found


@case("commands/backbones", quick=True)
def _(place: Place) -> Any:
    return place.capscore("backbones", "--json")


@case("commands/cache", quick=True)
def _(place: Place) -> Any:
    return place.capscore("cache", "info", "--cache-dir", "empty", "--json")


@case("commands/options", quick=True)
def _(place: Place) -> Any:
    """What `load` takes, what each metric takes of it, and what is public."""
    import inspect

    import capscore

    parameters = inspect.signature(capscore.load).parameters
    given = {
        "prefix": "A photo: ",
        "variant": "paper",
        "clip": "clip_score",
        "weights": "info_clip",
        "n_regions": 3,
        "beta": 0.2,
        "regions": "windows",
        "allow_urls": True,
        "progress": False,
        "batch_size": 2,
    }
    taken: dict[str, Any] = {}
    for metric in (
        *("mcs", "pr_mcs", "clip_score", "infometic", "ref_clip_score", "clip_cider"),
        *("text_score", "cider", "cider_d", "bleu", "rouge_l", "meteor", "spice"),
    ):
        taken[metric] = []
        towers = {"backbone": "no-such/backbone"} if metric not in WITHOUT_TOWERS else {}
        for name, value in given.items():
            try:
                capscore.load(metric, **towers, **{name: value})
                taken[metric].append(name)
            except capscore.CapscoreError as error:
                taken[metric] += [] if f"takes no {name}" in str(error) else [name]
    return {
        "load": {name: str(parameter.default) for name, parameter in parameters.items()},
        "taken": taken,
        "public": sorted(capscore.__all__),
    }


# ------------------------------------------------------------------ what a person sees


@case("printed/help")
def _(place: Place) -> Any:
    return {" ".join(words): place.capscore(*words, "--help") for words in HELPS}


@case("printed/score")
def _(place: Place) -> Any:
    place.photos()
    given = rows(place, ("en",))
    given[1]["image"] = "nowhere.png"
    write_rows("rows.jsonl", given)
    options = ("-m", "mcs", "-m", "rouge_l", "-m", "bleu", "--images", "photos", "--backbone", "embedded")
    return place.capscore("score", "rows.jsonl", *options, "--on-error", "skip", "--output", "out.csv")


@case("printed/explain")
def _(place: Place) -> Any:
    """The terminal, and what a reader sees of the page."""
    photos, entry = place.photos(), next(iter(place.entries.values()))
    texts = [entry["captions"]["en"][mark] for mark in ("right", "half")]
    options = ("--language", "en", "--backbone", "embedded")
    found = {"terminal": place.capscore("explain", photos[0], *texts, *options)}
    found["told"] = place.capscore("explain", photos[0], *texts, *options, "--output", "page.html")
    found["page"] = visible(Path("page.html").read_text(encoding="utf-8"))
    return found


@case("printed/robustness")
def _(place: Place) -> Any:
    place.photos()
    captions = _robust_rows(place, ("en", "de"))
    options = ("--captions", captions, "--kinds", "all", "--bootstrap", 20, "--markdown", "r.md")
    told = place.capscore("robustness", "-m", "mcs@embedded", *options)
    return {"terminal": told, "markdown": file_rows("r.md")}


@case("printed/perturb")
def _(place: Place) -> Any:
    write_rows(
        "rows.jsonl", [{"caption": row["caption"], "language": row["language"]} for row in rows(place)]
    )
    return {
        "summary": place.capscore("perturb", "rows.jsonl", "--all-kinds", "-o", "out.jsonl"),
        "finder": place.capscore("perturb", "rows.jsonl", "--noun-finder"),
    }


@case("printed/backbones")
def _(place: Place) -> Any:
    return {
        "backbones": place.capscore("backbones"),
        "cache": place.capscore("cache", "info", "--cache-dir", "empty"),
    }


@case("printed/demo")
def _(place: Place) -> Any:
    """The demo: its tables, and what a reader sees of its page."""
    import io
    import runpy
    from contextlib import redirect_stdout

    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with redirect_stdout(stream):
        sys.path.insert(0, str(DEMO.parent))  # as `python docs/demo.py` does
        code = runpy.run_path(str(DEMO))["main"]([])
    text = re.sub(r"\d+\.\d+ s\b", "* s", stream.buffer.getvalue().decode("utf-8"))
    page = visible(Path("demo.html").read_text(encoding="utf-8"))
    return {"exit": code, "terminal": [line.rstrip() for line in text.splitlines()], "page": page}
