"""Pairs of systems in a published order: by hand, in every form of the order, through every door."""

import json

import pytest

import capscore
from capscore.benchmarks.published import orders_of, sets_with_systems
from capscore.comparing.published_order import published_orders
from capscore.errors import InputError
from capscore.statistics.bootstrap import holm
from tools.tiny.official import coco_captions
from tools.tiny.systems import write_set, write_systems

from ..cli.conftest import run, write_jsonl
from .test_battles import rows

# metric → system → scores of six photos; means of "mcs": a .7, b .5, c .5, d .1
SCORES = {
    "a": [0.9, 0.5, 0.7, 0.7, 0.8, 0.6],
    "b": [0.5, 0.4, 0.6, 0.5, 0.6, 0.4],
    "c": [0.4, 0.5, 0.6, 0.5, 0.4, 0.6],
    "d": [0.1, 0.0, 0.2, 0.1, 0.0, 0.2],
}
PAPER = {"a": 3.0, "b": 1.0, "c": 2.0, "d": 2.0}


def systems(column="mcs"):
    return {name: rows(scores, column) for name, scores in SCORES.items()}


def test_pairs_by_hand_and_p_values_are_those_of_the_comparison():
    found = capscore.compare(systems(), "mcs", published=PAPER)
    (order,) = found.orders
    pairs = {(pair.better, pair.worse): pair for pair in order.pairs}
    # c and d are published as equal; b and c are measured as equal, which does not agree
    assert [*pairs] == [("a", "c"), ("a", "d"), ("a", "b"), ("c", "b"), ("d", "b")] and order.n_tied == 1
    assert [pair.agrees for pair in order.pairs] == [True, True, True, False, False]
    assert pairs["d", "b"].measured == pytest.approx(-0.4, abs=1e-6) and pairs["a", "b"].published == 2.0
    raw = {}
    for base in SCORES:
        for other in capscore.compare(systems(), "mcs", baseline=base).metrics["mcs"][0].differences:
            raw[base, other.system] = other.p_value
    assert [pair.p_value_holm for pair in order.pairs] == pytest.approx(holm([raw[pair] for pair in pairs]))
    assert raw["b", "d"] == 2 / 2**6 and not order.is_shown(pairs["c", "b"])
    assert (order.n_agree, order.n_contradicted) == (3, 0)  # 5 × 2/64 is above 0.05
    wide = capscore.compare(systems(), "mcs", published=PAPER, confidence=0.8)
    assert wide.orders[0].n_contradicted == 1 and "3 of 5, 1†" in str(wide)
    document = json.loads(json.dumps(wide.to_dict(), allow_nan=False))["published_orders"][0]
    assert (document["n_agree"], document["n_pairs"], document["pairs"][4]["shown"]) == (3, 5, True)
    assert "d above b" in wide.markdown() and "c above b" in wide.markdown()


def test_less_is_better_in_what_was_measured_and_in_what_was_published():
    for metric, paper in (("chair_i", {"chair_i": PAPER}), ("mcs", {"rank": PAPER})):
        (order,) = capscore.compare(systems(metric), metric, published=paper).orders
        kept = {(pair.better, pair.worse): pair.agrees for pair in order.pairs}
        assert kept["b", "d"] == (metric == "mcs") and kept["b", "a"] == (metric == "chair_i")


FORMS = {
    "order.csv": "model,year,score\na,old,3\nb,,1\nc,,2\nd,,2\n",
    "order.tsv": "System\tscore\na\t3\nb\t1\nc\t2\nd\t2\n",
    "order.jsonl": "".join(json.dumps({"name": name, "score": of}) + "\n" for name, of in PAPER.items()),
    "rows.json": json.dumps([{"captioner": name, "score": of} for name, of in PAPER.items()]),
    "numbers.json": json.dumps(PAPER),
    "nested.json": json.dumps({"score": PAPER}),
    "folded.json": json.dumps({" A ": 3, "B.": 1, "“c”": 2, "D": 2}),
    "figures.json": json.dumps({"metrics": {"score": {"figures": PAPER}}}),
    "battles.json": json.dumps({"metric": "judge", "ratings": PAPER}),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_same_numbers_in_every_form(name, tmp_path):
    path = tmp_path / name
    path.write_text(FORMS[name], encoding="utf-8")
    (order,) = published_orders(path, [*"abcd", "unknown"])
    assert order.values == PAPER and order.higher_is_better and order.source == str(path)


def test_lists_have_the_best_first_and_of_names_of_one_system_the_exact_one_has_the_number(tmp_path):
    path = tmp_path / "people.txt"
    path.write_text("\nd\n\na\nb\n")
    for given in (path, ["d", "a", "b"], {"people": ["d", "a", "b"]}):
        (order,) = published_orders(given, [*"abcd"])
        assert order.values == {"d": 1, "a": 2, "b": 3} and not order.higher_is_better
    (order,) = published_orders({"BLIP-2": 1, "X": 2, "Y": 3}, ["blip2", "BLIP-2", "x", "y!", "Y."])
    assert order.values == {"BLIP-2": 1, "x": 2}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("no_such_set", "published='no_such_set': there is no such file; .* coco_captions"),
        ({"a": 1, "x": 2}, "no column with numbers of two of a, b; its systems are a, x"),
        ({"a": 1, "A.": 2, "b": 3}, "two numbers of one system, a and A."),
        ({"a": "good", "b": 3}, "of 'a': 'good'; expected a finite number"),
        ({"a": float("inf"), "b": 3}, "of 'a': inf; expected a finite number"),
        ({"a": 1, "b": {"c": 2}}, "expected system → number"),
        ([{"system": "a", "model": "b", "score": 1}], "has the columns system, model, score; "),
        ([{"score": 1}], "has the columns score; expected one of system, name"),
        ([], "holds \\[\\]; expected system → number"),
    ],
)
def test_what_is_no_order_is_one_clear_error(given, message):
    with pytest.raises(InputError, match=message):
        published_orders(given, ["a", "b"])


def test_every_set_with_systems_is_whole():
    for slug in sets_with_systems():
        assert slug in capscore.benchmarks.tasks.known_slugs()
        for order in orders_of(slug):
            assert len(order.values) > 20 and order.source
            published_orders([order], [*order.values])  # no two names are the same
    # read a second time in the source
    known = {order.title: order.values for order in orders_of("coco_captions", "karpathy")}
    assert known["CLIPScore"]["LLaVA-1.5"] == 0.813 and known["PAC-S++"]["LLaVA-1.5 brief"] == 0.707
    assert known["CIDEr"]["M² Transformer"] == 131.2 and "Humans" not in known["BLEU-4"]


def test_battles_are_held_against_an_order_by_the_share_of_draws(tmp_path):
    found = capscore.battles(systems(), "mcs", bootstrap=200).held_against(PAPER)
    (order,) = found.orders
    pair = order.pairs[-1]
    assert (pair.better, pair.worse, pair.agrees, order.n_contradicted) == ("d", "b", False, 1)
    assert pair.p_value_holm == pytest.approx(5 * 2 / 201)
    # c tied with a once, and is rated above b
    assert "4 of 5, 1†" in str(found) and found.to_dict()["published_orders"][0]["n_agree"] == 4
    untested = capscore.battles(systems(), "mcs", bootstrap=0)
    (tmp_path / "found.json").write_text(json.dumps(untested.to_dict()))
    (order,) = untested.held_against(PAPER).orders
    assert order.n_agree == 4 and order.pairs[0].p_value_holm is None
    # what `capscore compare` wrote is an order too
    (order,) = capscore.compare(systems(), "mcs", published=tmp_path / "found.json").orders
    assert order.published == "battles by mcs" and order.n_agree == len(order.pairs) - 1  # b and c tie


def test_the_command_takes_an_order_for_files_battles_and_sets(tmp_path):
    files = [write_jsonl(tmp_path / f"{name}.jsonl", scored) for name, scored in systems().items()]
    paper = tmp_path / "paper.json"
    paper.write_text(json.dumps({"CLIPScore": PAPER}))
    for more, n_agree in (([], 3), (["--battles"], 4)):
        done = run("compare", *files, "-m", "mcs", "--published", paper, "--samples", 50, "--json", *more)
        (order,) = json.loads(done.stdout)["published_orders"]
        assert (order["n_agree"], order["n_pairs"], order["published"]) == (n_agree, 5, "CLIPScore")
    page = tmp_path / "page.html"
    done = run("compare", *files, "-m", "mcs", "--published", paper, "--report", page, "--quiet")
    assert done.exit_code == 0 and "3 of 5" in page.read_text() and "c above b" in page.read_text()


def test_a_set_brings_what_is_published_of_its_systems_and_each_language_is_counted(tmp_path):
    coco_captions.write(tmp_path)
    files = []
    for name, caption in {"M2 Transformer": "the test", "BLIP-2": "no dog", "own": "a"}.items():
        row = {"image": "COCO_val2014_000000000004.jpg", "caption": caption}
        files.append(f"{name}={write_jsonl(tmp_path / f'{name[0]}.jsonl', [row])}")
    asked = ("--data", "coco_captions", "--config", "karpathy", "--data-dir", tmp_path, "--json")
    found = json.loads(run("compare", *files, *asked).stdout)["published_orders"]
    assert [order["published"] for order in found] == [order.title for order in orders_of("coco_captions")]
    assert {(order["n_agree"], order["n_pairs"], *order["without"]) for order in found} == {(0, 1, "own")}
    captions = write_systems(tmp_path, "other", "large")
    paper = {"large": 2, "other": 1}
    where = {"data": "xm3600", "data_dir": write_set(tmp_path)}
    several = capscore.compare(captions, "cider", published=paper, **where)
    assert [(order.rows, order.n_agree) for order in several.orders] == [("de", 1), ("qu", 0)]
    assert "published, de" in str(several)
