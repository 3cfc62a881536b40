"""Corpus figures against sacrebleu, intervals that agree with p-values, and the table of a paper."""

import csv
import re

import numpy as np
import pytest

import capscore
from capscore.comparing.systems import statistics_of
from capscore.errors import InputError
from capscore.options import Sampling
from capscore.statistics.bootstrap import multiplicities
from capscore.statistics.systems import compare_figures

from ..cli.conftest import assert_refused, flat, photos, run, toys, write_jsonl

__all__ = ["photos", "toys"]
REFERENCES = (
    "a brown dog runs across the green grass|two men sit on a bench in the park"
    "|a red car drives down a wet street|a cat sleeps on the back of a sofa"
    "|three women walk along the sandy beach|a boy jumps into a pool of water"
    "|people wait for a bus in the rain|a plane flies over the white clouds"
).split("|")
A = (
    "a brown dog runs across the grass|two men sit on a bench|a car drives down a wet street"
    "|a cat sleeps on the sofa|women walk along the sandy beach|a boy jumps into a pool"
    "|people wait for a bus|a plane flies over the clouds"
).split("|")
B = (
    "a dog runs across the green grass|men sit on a bench in the park today|a red car is on a wet street"
    "|a cat sleeps on a sofa|three women walk along the sandy shore|the boy swims in a pool of water"
    "|people wait for the bus in the rain|a plane is over the white clouds"
).split("|")
SYSTEMS = {"a": A, "b": B}


def files_of(folder, names=("a", "b")):
    """Captions of the systems, as files; c says what b says, and a name that LaTeX would read."""
    files = []
    for name in names:
        rows = [{"image_id": n, "caption": text} for n, text in enumerate(SYSTEMS.get(name, B))]
        files.append(write_jsonl(folder / f"{name}.jsonl", rows))
    listed = [{"image_id": n, "references": [text]} for n, text in enumerate(REFERENCES)]
    return [*files, "--references", write_jsonl(folder / "refs.jsonl", listed), "--language", "en"]


def test_corpus_bleu_is_tested_as_sacrebleu_does():
    """sacrebleu 2.6.0: scores, and its scores of the sums over 400 draws; by its test p is 0.249.

    It counts 64 of the 256 ways to swap, those with a larger difference; 4 more have an equal one.
    """
    scorer = capscore.load("bleu")
    lists = [[text] for text in REFERENCES]
    found = {name: scorer.score(texts, references=lists, language="en") for name, texts in SYSTEMS.items()}
    (compared,) = capscore.compare_systems(found, images=range(8), n=400, confidence=0.9, seed=3)
    assert compared.figures == pytest.approx({"a": 0.6651935239852759, "b": 0.5754669463550299}, abs=1e-9)
    (other,) = compared.differences
    assert other.p_value == (64 + 4) / 256 and compared.kind == "corpus"
    assert (other.interval.low, other.interval.high) == pytest.approx((-0.21419132, 0.03672429), abs=1e-8)
    other = capscore.load("rouge_l").score(SYSTEMS["b"], references=lists, language="en")
    with pytest.raises(InputError, match="metric 'bleu' against 'rouge_l'"):
        capscore.compare_systems({"a": found["a"], "b": other})


@pytest.mark.parametrize("metric", ["meteor", "chair"])
def test_corpus_figures_of_draws_are_those_of_the_drawn_rows(metric):
    if metric == "meteor":
        pytest.importorskip("snowballstemmer")
    scorer, component = capscore.load(metric), {"chair": "chair_s"}.get(metric, "")
    key, languages = f"corpus_{component or metric}", ["en", "de"] * 4 if metric == "meteor" else ["en"] * 8

    def scored(texts, rows=range(8)):
        lists = [[REFERENCES[row]] for row in rows]
        return scorer.score([texts[row] for row in rows], None, lists, [languages[row] for row in rows])

    drawn = multiplicities(np.random.default_rng(0), 8, 5)
    statistics = statistics_of(scored(SYSTEMS["b"]), component)
    expected = [scored(SYSTEMS["b"], np.repeat(range(8), times)).corpus[key] for times in drawn.T]
    assert statistics.figure(statistics.parts @ drawn) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("n", "confidence"), [(5, 0.5), (12, 0.95), (40, 0.95)])
def test_interval_and_p_value_never_contradict_each_other(n, confidence):
    rng = np.random.default_rng(n)
    for _ in range(40):
        base = rng.random(n)
        systems = {"base": base, **{name: base + rng.normal(0.08, 0.15, n) for name in "abc"}}
        found = compare_figures(systems, images=range(n), sampling=Sampling(300, confidence))
        for other in found.differences:
            if other.interval is None:
                assert any(f"interval of {other.system} is left out" in note for note in found.notes)
            else:
                excludes_0 = other.interval.low > 0 or other.interval.high < 0
                assert excludes_0 == found.is_shown(other) == (other.p_value_holm < 1 - confidence)


def test_one_command_makes_the_table_of_a_paper(tmp_path):
    given = files_of(tmp_path, ("a", "@b", "50%_c & <long> names that LaTeX reads"))
    done = run("compare", *given, "--preset", "coco", "--table", tmp_path / "t.tex")
    assert done.exit_code == 0 and max(map(len, done.stdout.partition("Written to")[0].splitlines())) <= 80
    latex = (tmp_path / "t.tex").read_text(encoding="utf-8")
    head = " & BLEU-1 & BLEU-2 & BLEU-3 & BLEU-4 & ROUGE-L & CIDEr \\\\\n"
    assert head in latex and r"\begin{tabular}{lrrrrrr}" in latex
    assert "Written to" in done.stdout and "t.tex" in flat(done.stdout)
    assert r"50\%\_c \& $<$long$>$ names that LaTeX reads & \textbf{79.5}" in latex  # .7952
    assert r"a & 73.6 & 69.9 & \textbf{68.2} & \textbf{66.5}" in latex
    assert "\n% BLEU-4: bleu|segmenter:ptb2|refs:1|lang:en|version:" in latex
    assert r"\caption{8 photos. Best in bold. $^\dagger$: differs from a, p $<$ 0.05 by" in latex
    assert "ref_clip_score left out, because the input lacks photos" in flat(done.output)
    for suffix in (".md", ".csv"):
        run("compare", *given, "-m", "bleu,rouge_l", "--table", tmp_path / f"t{suffix}", "-q")
    markdown = (tmp_path / "t.md").read_text(encoding="utf-8")
    assert "| a | **66.5** |" in markdown and "| 50%_c & \\<long> names" in markdown
    rows = [*csv.DictReader((tmp_path / "t.csv").read_text(encoding="utf-8").splitlines())]
    assert rows[1]["system"] == "'@b", "no formula"
    assert [row["BLEU-4"] for row in rows] == ["66.5", "57.5", "57.5"]
    assert [row["p BLEU-4"] for row in rows] == ["", "0.53125", "0.53125"]


def test_marks_follow_the_corrected_test_and_python_has_the_table_too():
    rows = {}
    for name, step in (("base", 0.0), ("better", 0.02), ("same", 0.0)):
        rows[name] = [{"image": f"{n}.jpg", "judge": n / 20 + step * (1 + n % 2)} for n in range(12)]
    found = capscore.compare(rows, "judge")
    table = found.table()
    assert table.cells == [["0.275"], ["0.305"], ["0.275"]] and table.best == table.marked == {(1, 0)}
    assert table.p_values == [[None], [2 * 2 / 2**12], [1.0]]
    assert r"better & \textbf{0.305}$^\dagger$ \\" in found.to_latex()
    assert "| better | **0.305†** |" in found.markdown() and "Holm-corrected for 2 systems" in str(found)
    assert "corrected" not in str(capscore.compare({name: rows[name] for name in ("base", "same")}, "judge"))
    assert [*found.to_pandas()["figure"].round(3)] == [0.275, 0.305, 0.275]


def test_a_component_is_a_metric_of_compare_and_elsewhere_an_error_that_helps(tmp_path):
    given = files_of(tmp_path)
    done = run("compare", *given, "-m", "bleu_4,bleu_1", "--json")
    assert done.exit_code == 0 and '"bleu_4"' in done.stdout
    for command, name in (("compare", "bleu_9"), ("score", "bleu_4")):
        done = run(command, *given, "-m", name)
        assert_refused(done, f"--metric {name}: ", 1, 2)
    assert "component of bleu; name bleu, whose results hold it as bleu_4" in flat(done.stderr)


def test_a_metric_on_two_backbones_is_two_columns(photos, toys):
    rows = {}
    for name in ("red", "blue green"):
        rows[name] = [{"image": f"{colour}.png", "caption": name} for colour in ("red", "blue")]
    found = capscore.compare(rows, ["mcs@toy", "mcs@other"], images=photos)
    assert [*found.metrics] == ["mcs@toy", "mcs@other"]
    assert re.search(r"backbone:\S*other", found.signatures["mcs@other"])


def test_files_of_scores_that_their_texts_do_not_make_have_means_of_rows(tmp_path):
    a, b, *references = files_of(tmp_path)
    scored = [tmp_path / f"{path.stem}.scored.jsonl" for path in (a, b)]
    for path, output in zip((a, b), scored, strict=True):
        assert run("score", path, *references, "-m", "bleu", "-o", output, "--quiet").exit_code == 0
    text = scored[0].read_text(encoding="utf-8")
    scored[0].write_text(re.sub(r'"bleu": [\d.e-]+', '"bleu": 0.5', text), encoding="utf-8")
    shown = flat(run("compare", *scored, "-m", "bleu").stdout)
    assert "bleu: means of rows, as the files hold no counts" in shown and "0.5000" in shown


def test_a_page_shows_table_differences_and_the_photos_that_differ_most(tmp_path, photos, toys):
    files = []
    for name, texts in {"<b>one": ("red", "red", "green"), "two": ("red", "blue", "red green")}.items():
        rows = zip(("red.png", "blue.png", "green.png"), texts, ("en", "de", "de"), strict=True)
        given = [dict(zip(("image", "caption", "language"), row, strict=True)) for row in rows]
        files.append(write_jsonl(tmp_path / f"{name[-3:]}.jsonl", given))
    page = tmp_path / "page.html"
    named = [f"<b>one={files[0]}", f"two={files[1]}"]
    done = run("compare", *named, "-m", "mcs", "--backbone", "toy", "--images", photos, "--report", page)
    text = page.read_text(encoding="utf-8")
    assert done.exit_code == 0 and "<h1>2 systems compared</h1>" in text and "<b>one" not in text
    better = text.partition("By MCS, two is better than &lt;b&gt;one")[2].partition("<h2")[0]
    assert "blue.png · German" in better and "red.png" not in better and ">blue</p>" in better
    worse = text.partition("By MCS, &lt;b&gt;one is better than two")[2].partition("<footer")[0]
    assert "green.png" in worse and text.count("data:image/jpeg;base64,") == 2
    table = text.partition(">Languages</h2>")[2].partition("</table>")[0]
    counts = dict(re.findall(r'<th scope="row">(\w+)</th><td>(\d)</td>', table))
    assert counts == {"all": "3", "de": "2", "en": "1"}
    assert "<script" not in text and "http" not in text.partition("</style>")[2] and "mcs|<wbr>" in text
