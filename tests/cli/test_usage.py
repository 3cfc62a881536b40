"""Wrong usage of every command is one error that names what was given, before anything is written."""

import pytest

import capscore.backbones
from tools.tiny.colours import ColourBackbone

from ..datasets_scripts.conftest import official
from ..toy_command import write_photos
from .conftest import ROWS, assert_refused, run, write_jsonl

WHEEL = f"capscore-{capscore.__version__}-py3-none-any.whl"
KEEP = "score rows.jsonl --keep k.csv"
CASES = [
    ("score --quiet", "expected one thing to score: a file or a folder of photos, or --photo dog.jpg"),
    ("score --caption red", "--image-column: mcs needs images"),
    ("score --photo red.png --caption red -m cider", "--references-column: cider needs references"),
    ("score rows.jsonl -m mcs,cidr", "did you mean 'cider'?"),
    ("score rows.jsonl -m judge@a,judge@b", "--metric judge@b: judge is there twice"),
    ("score rows.jsonl -m cider --language km --on-error skip", "--language km: Khmer ('km')"),
    ("score rows.jsonl --language de --language-column id", "--language and --language-column: give only"),
    ("score rows.jsonl --no-cache --cache-dir x", "--no-cache and --cache-dir: give only one of them"),
    ("score a.jsonl -o o.jsonl", "needs the column name 'mcs', which the input already uses"),
    ("score rows.jsonl --output -", "--output -: rows are written to a file"),
    ("score rows.jsonl --report page.pdf", "expected a name that ends in .html"),
    ("score rows.jsonl --split test", "rows.jsonl has no split"),
    ("score rows.jsonl --device cudda", "cudda"),
    ("score rows.jsonl --sort kind", "--sort kind: expected mcs"),
    ("score rows.jsonl --min-score 0", "--keep or --drop is missing"),
    (KEEP, "expected one of --min-score, --min-rank and --top to say which rows stay"),
    ("score rows.jsonl --drop k.csv --min-score 0 --top 2", "one of --min-score, --min-rank and --top"),
    ("score rows.jsonl --drop k.csv --min-score 30", "--min-score 30.0: scores of mcs go from 0 to 2.5"),
    (f"{KEEP} -m cider --min-score -1", "--min-score -1.0: scores of cider go from 0 to 10"),
    (f"{KEEP} --min-score nan", "--min-score nan: expected a number"),
    (f"{KEEP} --min-rank 0", "--min-rank 0.0: expected a percentage"),
    (f"{KEEP} -m cider --min-rank 5", "--min-rank: by capscore's own calibrations, cider has no ranks"),
    *((f"{KEEP} --top {top}", f"--top {top}: expected a number") for top in ("0%", "100.1%", "half")),
    (f"{KEEP} --output k.csv --top 2", "k.csv is the file of --output too"),
    (f"{KEEP} --drop k.csv --top 2", "--drop k.csv is the file of --keep too"),
    *((f"score rows.jsonl --fail-under {of}", "expected a share, such as 5%") for of in ("1", "101%")),
    ("score rows.jsonl --fail-under 5% -m rouge_l", "--fail-under: by capscore's own calibrations, rouge_l"),
    ("score rows.jsonl --fail-under 5% --backbone openai/x", "has ranks with embedded, not with openai/x"),
    ("compare a.jsonl a.jsonl", "two files would be called"),
    ("compare a.jsonl b.jsonl --baseline z", "--baseline z: expected a or b"),
    ("compare a.jsonl b.jsonl --metric mcz", "--metric mcz: there is no such column"),
    ("compare a.jsonl b.jsonl --match-by references", "not all files have a column of references"),
    ("compare a.jsonl b.jsonl --confidence 2", "a share between 0 and 1"),
    ("compare a.jsonl b.jsonl --table t.docx", "ends in .tex or .md or .csv"),
    ("compare a.jsonl b.jsonl --data xm3600 --report o.html", "only one"),
    ("compare a.jsonl b.jsonl -m mcs --tie 0.2", "--tie 0.2 is for --battles"),
    ("compare a.jsonl b.jsonl -m mcs --pairs 9", "--pairs 9 is for --battles"),
    ("compare a.jsonl b.jsonl --battles -m mcs,bleu", "--metric mcs,bleu: battles take one metric"),
    ("compare a.jsonl b.jsonl -m mcs --battles --baseline b", "--baseline and --battles"),
    ("compare a.jsonl b.jsonl -m mcs --battles --pairs images", "--pairs images: expected a whole number"),
    ("robustness rows.jsonl", "there is nothing to measure: give --metric"),
    ("robustness rows.jsonl -m cider", "cider compares captions with references"),
    ("robustness rows.jsonl -m mcs --data xvnli", "give either INPUT, a file of captions, or --data"),
    ("robustness rows.jsonl -m mcs --config de", "--config and --data-dir belong to --data"),
    ("robustness rows.jsonl -m mcs --degrees --kind typos", "--degrees: expected one of repetition"),
    ("calibrate rows.jsonl", "--output: expected a file"),
    ("explain red.png red --reading grade", "an option of judge"),
    ("explain red.png red -m rouge_l", "compares with references"),
    ("explain red.png ", "caption 1 is empty"),
    (f"explain red.png {'dogs' * 2_000}", "texts of at most 5,000 characters; shorten it"),
    ("perturb rows.jsonl --seed 1", "no perturbation is chosen: give --kind"),
    ("perturb rows.jsonl -k jumble --p 0.5", "--p is an option of repetition, removal, masking, not of"),
    ("perturb rows.jsonl -k jumble --language km", "--language km: Khmer"),
    ("perturb rows.jsonl -k jumble -o -", "--output -: rows go to standard output"),
    ("benchmark --metric rouge_l", "give either --data, for one benchmark, or --suite"),
    ("benchmark --suite all --metric rouge_l", "--suite needs --data-dir"),
    ("benchmark --suite all --data-dir . --split test", "--split and --suite: give only one of them"),
    ("benchmark --data thumb", "nothing to measure: give --metric, or --scores"),
    ("benchmark --data thumb --scores =mine.jsonl", "expected NAME=FILE, or a file"),
    ("benchmark --data thumb -m cider --backbone embedded", "none of cider has a backbone"),
    ("benchmark --data thumb --backbone embeded-fre", "--backbone embeded-fre: it is not a known name"),
    ("benchmark --data thumb -m mcs --eval-results .", "--eval-results and --org go together"),
    ("benchmark --data thumb -m mcs --eval-results gone --org a", "--eval-results gone: there is no such"),
    ("app --metric cider --backbone embedded", "--backbone does not apply: cider has none"),
    ("publish metric mcs --org jo/tiny/more --install release --dry-run", "is not a Hub id"),
    ("publish metric mcs --org jo --install git+https://example.org/capscore@main", "expected release, or"),
    (f"publish metric mcs --org jo --install {WHEEL}", "expected release, or wheels of capscore"),
    ("publish weights nope --org jo --dry-run", "nope is neither a folder nor one of the installed weights"),
    ("data check xvnli -c fr --data-dir . --image-dir nowhere", "is not a folder"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Photos, rows, two systems with scores and a benchmark, which no command changes."""
    folder = tmp_path_factory.mktemp("usage")
    write_photos(folder)
    write_jsonl(folder / "rows.jsonl", ROWS)
    for name in "ab":
        rows = [{"image": f"{colour}.png", "caption": "red", "mcs": 0.1} for colour in ("red", "blue")]
        write_jsonl(folder / f"{name}.jsonl", rows)
    (folder / WHEEL).write_bytes(b"damaged")
    official("xvnli").write(folder)
    return folder


@pytest.mark.parametrize(("arguments", "message"), CASES)
def test_wrong_usage_is_refused_before_any_work(folder, monkeypatch, arguments, message):
    load = capscore.backbones.load_backbone

    def load_backbone(name, **options):
        real = options.get("device") or name == "embeded-fre"
        return load(name, **options) if real else ColourBackbone()

    monkeypatch.setattr("capscore.backbones.load_backbone", load_backbone)
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    done = run(*arguments.split(" "))
    assert_refused(done, message)
    assert len(done.stderr) < 400 and sorted(folder.rglob("*")) == before
