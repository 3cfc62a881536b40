"""Files through the real code: what the result holds, quality control, resuming, shards, and bad input."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from capscore.errors import InputError
from capscore.translation import run
from capscore.translation.model import BeamSearch
from capscore.translation.quartiles import quartiles
from capscore.translation.run import (
    TranslationOptions,
    quartile_path,
    split_by_quartile,
    tag_of,
    translate_file,
)

from .conftest import Lengths, Letters
from .tiny_translator import TEXTS

ROWS = [
    {
        "id": number,
        "image": f"{number}.jpg",
        "caption": text,
        "rating": number / 2,
        "references": [text[:9], text],
    }
    for number, text in enumerate([*TEXTS, "a dog", "two cats"])
]


@pytest.fixture(autouse=True)
def _judges(monkeypatch, translator):
    """The tiny translator, read once, with quality and language that a test can compute itself."""
    monkeypatch.setattr(run, "load_translator", lambda spec, **_: translator)
    monkeypatch.setattr(run, "load_quality", lambda spec, **_: Lengths())
    monkeypatch.setattr(run, "Py3LangId", Letters)


def options(**more):
    given = {"languages": ("de",), "language": "en", "search": BeamSearch(4, 3, 8), "shard_rows": 3}
    return TranslationOptions(**{**given, **more})


def write(path, rows=ROWS):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def captions(tmp_path):
    return write(tmp_path / "captions.jsonl")


def best(translator, text, target="de"):
    """The longest candidate of an even length, or of any if there is none: computed without `choose`."""
    made = [one for one in translator.candidates([text], "en", target, BeamSearch(4, 3, 8))[0] if one]
    right = [one for one in made if len(one) % 2 == 0]
    return max(right or made, key=len, default=""), bool(right)


def test_rows_are_carried_along_and_the_best_is_kept(captions, tmp_path, translator):
    done = translate_file(captions, tmp_path / "de.jsonl", options())
    rows = read(tmp_path / "de.jsonl")
    assert [(row["id"], row["image"], row["rating"], row["references"]) for row in rows] == [
        (row["id"], row["image"], row["rating"], row["references"]) for row in ROWS
    ]
    assert [row["original"] for row in rows] == [row["caption"] for row in ROWS]
    assert [row["source_row"] for row in rows] == [*range(7)]
    assert {(row["language"], row["original_language"]) for row in rows} == {("de", "en")}
    for row in rows:
        text, right = best(translator, row["original"])
        assert row["caption"] == text
        assert (row["translation_problem"] is None) == right
        assert row["quality"] == (pytest.approx(len(text) / len(row["original"])) if text else None)
    kept = [row["quality"] if row["translation_problem"] is None else None for row in rows]
    assert [row["quartile"] for row in rows] == quartiles(kept)
    summary = json.loads((tmp_path / "de.summary.json").read_text())
    assert summary == done.summary
    assert summary["settings"]["quality"] == "lengths"
    assert summary["languages"]["de"]["rejected"] == sum(
        row["translation_problem"] is not None for row in rows
    )
    assert not (tmp_path / "de.jsonl.shards").exists()


def test_several_languages_and_references(captions, tmp_path, translator):
    translate_file(captions, tmp_path / "both.jsonl", options(languages=("de", "fr"), references=True))
    rows = read(tmp_path / "both.jsonl")
    assert [(row["id"], row["language"]) for row in rows] == [
        (row["id"], language) for row in ROWS for language in ("de", "fr")
    ]
    for row in rows[::2]:
        assert row["original_references"] == ROWS[row["id"]]["references"]
        assert row["references"] == [best(translator, text)[0] for text in row["original_references"]]
        assert row["references_quality"] == [
            pytest.approx(len(made) / len(text)) if made else None
            for text, made in zip(row["original_references"], row["references"], strict=True)
        ]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_other_kinds_of_files_hold_the_same(captions, tmp_path, suffix):
    translate_file(captions, tmp_path / "a.jsonl", options(references=True))
    translate_file(captions, tmp_path / f"in{suffix}", options(references=True))  # then from that kind
    if suffix == ".csv":
        rows = list(csv.DictReader((tmp_path / "in.csv").open(encoding="utf-8")))
        lists = ("references", "original_references", "references_quality")
        for row in rows:
            row.update({name: json.loads(row[name]) for name in lists})
            for name in ("quality", "rating", "id", "source_row", "quartile"):
                row[name] = json.loads(row[name]) if row[name] else None
            row["translation_problem"] = row["translation_problem"] or None
    else:
        rows = pq.read_table(tmp_path / "in.parquet").to_pylist()
    assert rows == read(tmp_path / "a.jsonl")
    plain = ["id", "caption", "rating", "references"]
    if suffix == ".csv":
        with (tmp_path / "plain.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerows(
                [plain, *([*(row[n] for n in plain[:3]), json.dumps(row["references"])] for row in ROWS)]
            )
    else:
        import pyarrow as pa

        pq.write_table(pa.Table.from_pylist(ROWS).select(plain), tmp_path / "plain.parquet")
    translate_file(tmp_path / f"plain{suffix}", tmp_path / "again.parquet", options(references=True))
    again = pq.read_table(tmp_path / "again.parquet").to_pylist()
    assert [row["caption"] for row in again] == [row["caption"] for row in rows]
    assert [row["quality"] for row in again] == [row["quality"] for row in rows]


class _Killed(BaseException):
    pass


def test_a_killed_run_goes_on_where_it_was(captions, tmp_path, monkeypatch, translator):
    translate_file(captions, tmp_path / "whole.jsonl", options())
    seen = []
    plain = run.translate_texts

    def counted(texts, *arguments, **named):
        if len(seen) == 2:
            raise _Killed
        seen.append(list(texts))
        return plain(texts, *arguments, **named)

    monkeypatch.setattr(run, "translate_texts", counted)
    with pytest.raises(_Killed):
        translate_file(captions, tmp_path / "de.jsonl", options())
    assert not (tmp_path / "de.jsonl").exists()
    assert [len(texts) for texts in seen] == [3, 3]
    monkeypatch.setattr(
        run, "translate_texts", lambda texts, *a, **n: (seen.append(texts), plain(texts, *a, **n))[1]
    )
    translate_file(captions, tmp_path / "de.jsonl", options())
    assert [text for texts in seen for text in texts] == [row["caption"] for row in ROWS]  # each once
    assert (tmp_path / "de.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    translate_file(captions, tmp_path / "de.jsonl", options())  # it is there: nothing is done
    assert len(seen) == 3


def test_shares_of_the_work_make_the_whole(captions, tmp_path):
    translate_file(captions, tmp_path / "whole.jsonl", options(shard_rows=2))
    for part in (2, 1, 3):
        done = translate_file(captions, tmp_path / "de.jsonl", options(shard_rows=2, shard=(part, 3)))
        assert done.output is None
    assert (done.summary["blocks"], done.summary["done"], done.summary["made"]) == (4, 4, 1)
    assert not (tmp_path / "de.jsonl").exists()
    translate_file(captions, tmp_path / "de.jsonl", options(shard_rows=2))
    assert (tmp_path / "de.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_two_workers_with_one_share_and_a_share_without_rows(captions, tmp_path):
    folder = tmp_path / "de.jsonl.shards"
    with pytest.raises(
        InputError, match=r"shard='5/5': the 7 rows make 3 blocks of shard_rows=3, so .* no rows"
    ):
        translate_file(captions, tmp_path / "de.jsonl", options(shard=(5, 5)))
    with (
        FileLock(folder / "000000.lock"),
        pytest.raises(InputError, match=r"another process is translating block 0 of this job"),
    ):
        translate_file(captions, tmp_path / "de.jsonl", options())


def test_unfinished_work_of_other_settings(captions, tmp_path):
    translate_file(captions, tmp_path / "de.jsonl", options(shard=(1, 2)))
    other = options(search=BeamSearch(5, 3, 8))
    with pytest.raises(InputError, match=r"other settings: num_beams was 4, now 5; force=True starts again"):
        translate_file(captions, tmp_path / "de.jsonl", other)
    translate_file(captions, tmp_path / "de.jsonl", other, force=True)
    with pytest.raises(InputError, match="exists; force=True overwrites it"):
        translate_file(captions, tmp_path / "de.jsonl", options())


def test_rows_without_a_good_translation(captions, tmp_path, monkeypatch):
    class OneBad(Letters):
        def identify(self, texts):
            return ["en" for _ in texts] if self.bad else ["de" for _ in texts]

    plain = run.translate_texts

    def some_bad(texts, *arguments, identifier, **named):
        made = []
        for text in texts:
            identifier.bad = text == "a dog"
            made += plain([text], *arguments, identifier=identifier, **named)
        return made

    monkeypatch.setattr(run, "Py3LangId", OneBad)
    monkeypatch.setattr(run, "translate_texts", some_bad)
    done = translate_file(captions, tmp_path / "keep.jsonl", options())
    rows = read(tmp_path / "keep.jsonl")
    bad = rows[5]
    if bad["caption"]:
        assert "is in de by the language check" in bad["translation_problem"]
    assert bad["translation_problem"] and bad["quartile"] is None
    n_bad = sum(row["translation_problem"] is not None for row in rows)
    assert done.summary["languages"]["de"]["rejected"] == n_bad
    translate_file(captions, tmp_path / "drop.jsonl", options(on_rejected="drop"))
    assert read(tmp_path / "drop.jsonl") == [row for row in rows if row["translation_problem"] is None]
    with pytest.raises(InputError, match=r"captions.jsonl, line \d: .*; on_rejected='keep' keeps such rows"):
        translate_file(captions, tmp_path / "stop.jsonl", options(on_rejected="stop"))
    assert not (tmp_path / "stop.jsonl").exists()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"caption": "  "}, r"line 2 \(row 1 counted from 0\): caption: the text is empty"),
        ({"caption": 3}, r"line 2 .*caption: 3: expected a text"),
        ({"caption": "a dog " * 40}, r"line 2: the text has \d+ tokens, and .* reads at most 64"),
        ({"id": 1}, r"line 2 .*candidate: the row has no 'caption'"),
    ],
)
def test_bad_rows(tmp_path, row, message):
    path = write(tmp_path / "in.jsonl", [ROWS[0], row, ROWS[5]])
    with pytest.raises(InputError, match=message):
        translate_file(path, tmp_path / "out.jsonl", options())
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in.jsonl"]
    done = translate_file(path, tmp_path / "out.jsonl", options(on_error="skip"))
    rows = read(tmp_path / "out.jsonl")
    assert rows[1].get("caption") == row.get("caption") and rows[1]["quality"] is None
    assert list(done.failures) == [1]
    assert rows[1]["translation_problem"] == done.failures[1][1]
    assert done.summary["bad_rows"] == 1


def test_languages_of_captions(tmp_path):
    rows = [{**ROWS[0], "language": "en"}, {**ROWS[1], "language": "de-AT"}, {**ROWS[2], "language": "te"}]
    path = write(tmp_path / "in.jsonl", rows)
    with pytest.raises(
        InputError, match=r"line 3 .*language: the translator .* does not know the language 'te'"
    ):
        translate_file(path, tmp_path / "out.jsonl", options(language=None))
    translate_file(write(path, rows[:2]), tmp_path / "out.jsonl", options(language=None))
    made = read(tmp_path / "out.jsonl")
    assert [(row["language"], row["original_language"]) for row in made] == [("de", "en"), ("de", "de")]
    assert made[1]["caption"] == rows[1]["caption"] and made[1]["quality"] is None  # it is in German already
    path = write(tmp_path / "none.jsonl")
    with pytest.raises(
        InputError, match=r"language: the language of the captions is not stated.*language='en'"
    ):
        translate_file(path, tmp_path / "out2.jsonl", options(language=None))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"languages": ()}, "to: expected at least one language to translate into"),
        ({"languages": ("de", "deu")}, "to=['de', 'deu']: a language is named twice"),
        ({"on_rejected": "skip"}, "on_rejected='skip': expected one of keep, drop, stop"),
        ({"shard_rows": 0}, "shard_rows=0: expected a whole number of at least 1"),
    ],
)
def test_options(changed, message):
    with pytest.raises(InputError) as caught:
        options(**changed)
    assert str(caught.value) == message
    assert [tag_of(one) for one in ("deu_Latn", "zh-TW", "nb")] == ["de", "zh-TW", "no"]


def test_a_column_that_the_result_needs(tmp_path):
    path = write(tmp_path / "in.jsonl", [{"caption": "a dog", "quality": 1}])
    with pytest.raises(InputError, match="needs the column name 'quality', which the input already uses"):
        translate_file(path, tmp_path / "out.jsonl", options())


def test_a_file_for_each_quartile(captions, tmp_path):
    translate_file(captions, tmp_path / "de.jsonl", options(language_check=False))
    made = split_by_quartile(tmp_path / "de.jsonl")
    rows = read(tmp_path / "de.jsonl")
    values = [row["quality"] for row in rows if row["quality"] is not None]
    low, high = np.percentile(values, (25, 75))
    assert quartile_path(tmp_path / "de.jsonl", 1).name == "de.quartile1.jsonl"
    assert read(quartile_path(tmp_path / "de.jsonl", 1)) == [r for r in rows if (r["quality"] or 9e9) < low]
    assert read(quartile_path(tmp_path / "de.jsonl", 4)) == [r for r in rows if (r["quality"] or 0) > high]
    parts = [row for path in made for row in read(path)]
    assert sorted(row["id"] for row in parts) == [row["id"] for row in rows if row["quality"] is not None]
    with pytest.raises(InputError, match="exists; force=True overwrites it"):
        split_by_quartile(tmp_path / "de.jsonl")
