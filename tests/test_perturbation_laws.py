"""Laws of every perturbation: of the published five, of the others, and of one from another package."""

import json
import os
import subprocess
import sys
from collections import Counter
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.benchmarks.robustness import CaptionSet, RobustnessOptions
from capscore.benchmarks.robustness.run import perturbed_captions
from capscore.errors import CapscoreError, InputError
from capscore.options import Sampling
from capscore.perturbations import KINDS, MASK, kind_of, perturb
from capscore.perturbations.by_degree import DEGREES, by_degree
from capscore.registry import PERTURBATIONS
from tools.tiny.command import json_lines, run, write_jsonl

from .laws import every

# captions with a number, a verb and two nouns, in every language that any kind has rules for, and in others
CAPTIONS = {
    "ar": "ثلاثة كلاب تركض على الشاطئ مع كرة حمراء",
    "cs": "Dva psi běží po písečné pláži s červeným míčem.",
    "da": "To hunde løber på stranden med en rød bold.",
    "de": "Zwei Hunde laufen mit einem roten Ball über den Strand.",
    "en": "Two brown dogs are running on the beach with a red ball.",
    "es": "Dos perros corren por la playa con una pelota roja.",
    "fr": "Deux chiens courent sur la plage avec un ballon rouge.",
    "he": "שני כלבים רצים על החוף עם כדור אדום",
    "hi": "दो कुत्ते लाल गेंद के साथ समुद्र तट पर दौड़ रहे हैं",
    "id": "Dua anjing berlari di pantai dengan bola merah.",
    "it": "Due cani corrono sulla spiaggia con una palla rossa.",
    "ja": "二匹の犬が赤いボールをくわえて砂浜を走っている。",
    "ko": "개 두 마리가 빨간 공을 물고 해변을 달리고 있다.",
    "nl": "Twee honden rennen met een rode bal over het strand.",
    "no": "To hunder løper på stranden med en rød ball.",
    "pl": "Dwa psy biegną po plaży z czerwoną piłką.",
    "pt": "Dois cachorros correm na praia com uma bola vermelha.",
    "ro": "Doi câini aleargă pe plajă cu o minge roșie.",
    "ru": "Две собаки бегут по пляжу с красным мячом.",
    "sv": "Två hundar springer på stranden med en röd boll.",
    "sw": "Mbwa wawili wanakimbia ufukweni na mpira mwekundu.",
    "th": "สุนัขสองตัววิ่งบนชายหาดกับลูกบอลสีแดง",
    "tr": "Kumsalda iki köpek kırmızı bir topla koşuyor.",
    "uk": "Дві собаки біжать по пляжу з червоним м'ячем.",
    "zh": "两只棕色的狗叼着红色的球在沙滩上奔跑。",
}
CASED = [code for code in CAPTIONS if code not in ("ar", "he", "hi", "ja", "ko", "th", "zh")]
ODD = ["owl", "owl owl, Owl", "...", "👍🏽", "哈哈哈哈", "안녕", " so \t long\n", MASK, "犬", "ß e\u0301"]
NO_TAGGER = {"sw"}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def words(text):
    return text.casefold().split()


def letters(text):
    return Counter("".join(text.casefold().split()))


def is_part(part, whole):
    rest = iter(whole)
    return all(item in rest for item in part)


def replaced(before, after):
    """Number of stretches in which two texts differ."""
    changes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return sum(tag != "equal" for tag, *_ in changes)


# kind → what its captions have in common with the original ones; a kind that is not here may change anything
ALLOWED = {
    "repetition": lambda a, b: is_part(a, b) and letters(a).keys() == letters(b).keys(),
    "removal": lambda a, b: is_part(b, a),
    "masking": lambda a, b: len(words(a)) == len(words(b)) and not letters(b.replace(MASK, "")) - letters(a),
    "jumble": lambda a, b: letters(a) == letters(b),
    "substitution": lambda a, b: letters(a) == letters(b),
    "neighbours": lambda a, b: letters(a) == letters(b),
    "typos": lambda a, b: abs(len(a) - len(b)) <= 2 and not letters(b).keys() - letters(a).keys(),
    "number": lambda a, b: replaced(words(a), words(b)) == 1,
    "negation": lambda a, b: replaced(words(a), words(b)) <= 2,
    "foreign": lambda a, b: replaced(words(a), words(b)) == 1,
    "truncation": lambda a, b: a.startswith(b.rstrip()) and len(b) < len(a),
    "outside": lambda a, b: b == a.upper(),
}


@pytest.fixture(scope="module", autouse=True)
def outside():
    @PERTURBATIONS.register("outside")
    def shout(caption, language, rng):
        return caption.upper()

    yield
    PERTURBATIONS.unregister("outside")


every_kind = every("perturbation", also=["outside"])


def possible(perturbation, code):
    needs_tagger = perturbation == "substitution"
    return kind_of(perturbation).has_rules(code) and not (needs_tagger and code in NO_TAGGER)


@every_kind
@pytest.mark.parametrize("code", CAPTIONS)
def test_a_caption_is_changed_as_its_kind_may_or_its_language_is_refused(perturbation, code):
    caption = CAPTIONS[code]
    if not possible(perturbation, code):
        with pytest.raises(InputError, match=f"'{code}'"):
            perturb([caption], perturbation, code)
        return
    found = perturb([caption, caption], perturbation, code, seed=3)
    assert (found.kind, found.language, found.settings["seed"]) == (perturbation, code, 3)
    changed = [caption.upper()] * 2 if perturbation == "outside" and code in CASED else found.captions
    assert found.captions == changed and changed[0] == changed[1]
    if perturbation != "outside" or code in CASED:
        assert caption not in changed
        assert perturbation not in ALLOWED or ALLOWED[perturbation](caption, changed[0])
        assert found.unchanged.tolist() == [False, False]


@every_kind
def test_another_seed_may_give_another_caption(perturbation):
    found = {perturb([CAPTIONS["en"]], perturbation, "en", seed=seed).captions[0] for seed in range(20)}
    assert len(found) > 1 or perturbation in ("negation", "outside")


@every_kind
def test_odd_captions_are_changed_or_counted_as_unchanged(perturbation):
    for code in ("en", "zh", "ko"):
        found = perturb(ODD, perturbation, code, seed=1)
        assert found.unchanged.tolist() == [a == b for a, b in zip(ODD, found.captions, strict=True)]
        assert all(text.strip() for text in found.captions)
        assert found.not_found.tolist() == [0] * len(ODD)


@every_kind
@settings(max_examples=10)
@given(captions=st.lists(st.sampled_from([*ODD, *CAPTIONS.values()]), max_size=8), seed=st.integers(-5, 5))
def test_order_other_rows_and_repeated_calls_do_not_matter(perturbation, captions, seed):
    together = perturb(captions, perturbation, "en", seed=seed).captions
    back = perturb(captions[::-1], perturbation, "en", seed=seed).captions[::-1]
    alone = [perturb([text], perturbation, "en", seed=seed).captions[0] for text in captions]
    assert together == back == alone


@every_kind
def test_bad_captions_are_named_with_their_row(perturbation):
    empty = perturb([], perturbation)
    assert empty.captions == [] and empty.unchanged.shape == empty.not_found.shape == (0,)
    assert empty.unchanged.dtype == bool
    for caption in ("", " \n\u3000", "\0 ", None, 5, "\ud83d dog"):
        with pytest.raises(InputError) as caught:
            perturb(["a dog", caption], perturbation)
        assert (caught.value.row, caught.value.field) == (1, "caption")
    with pytest.raises(InputError, match="expected a list of captions"):
        perturb("a dog", perturbation)
    for name, value in (("seed", 0.5), ("seed", True), ("language", "xx-nope")):
        with pytest.raises(InputError, match=name):
            perturb(["a dog"], perturbation, **{name: value})
    if perturbation != "substitution":
        with pytest.raises(CapscoreError, match=f"objects are for substitution; {perturbation} takes none"):
            perturb(["a dog"], perturbation, objects=[["dog"]])


@every_kind
def test_command_library_and_robustness_perturb_alike(perturbation, tmp_path):
    codes = [code for code in CAPTIONS if possible(perturbation, code)]
    expected = {code: perturb([CAPTIONS[code]], perturbation, code, seed=7) for code in codes}
    rows = [{"caption": CAPTIONS[code], "language": code} for code in codes]
    file = write_jsonl(tmp_path / "captions.jsonl", rows)
    done = run("perturb", file, "--kind", perturbation, "--seed", 7)
    assert done.exit_code == 0, done.output
    of_command = [(row["caption"], row["unchanged"]) for row in json_lines(done.stdout)]
    assert of_command == [(found.captions[0], bool(found.unchanged[0])) for found in expected.values()]
    for code, found in expected.items():
        captions = CaptionSet("file", "", "", code, [CAPTIONS[code]], ["photo"], [None])
        noise = RobustnessOptions(kinds=(perturbation,), sampling=Sampling(seed=7))
        of_metric, skipped = perturbed_captions(captions, noise)
        assert of_metric[perturbation].captions == found.captions and not skipped
        assert of_metric[perturbation].settings == found.settings


def test_the_same_in_every_process():
    """Nothing depends on the order of sets, which differs between processes."""
    code = (
        "import json\nfrom capscore.perturbations import all_kinds, perturb\n"
        f"print(json.dumps({{kind: perturb([{CAPTIONS['en']!r}], kind).captions for kind in all_kinds()}}))\n"
        f"print(perturb(['a cat by a dog'], 'substitution', objects=[{{'cat', 'dog', 'do'}}]).captions)"
    )
    options = {"env": {**os.environ, "PYTHONHASHSEED": "2"}, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", code], check=True, **options)
    by_kind, exchanged = done.stdout.splitlines()
    for kind, captions in json.loads(by_kind).items():
        assert perturb([CAPTIONS["en"]], kind).captions == captions
    assert exchanged == "['a dog by a cat']"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", [code for code in CAPTIONS if code not in NO_TAGGER])
def test_more_is_touched_the_higher_the_degree(kind, code):
    caption = CAPTIONS[code]
    found = [by_degree([caption], kind, code, degree=degree) for degree in DEGREES]
    shares = [part.touched[0] for part in found]
    assert shares == sorted(shares) and 0 < shares[0] <= shares[-1] <= 1
    assert kind == "substitution" or shares[-1] > max(0.6, shares[0])
    for part in found:
        assert not part.unchanged.any() and part.captions != [caption]
        assert part.captions[0].strip() and ALLOWED[kind](caption, part.captions[0])
    if kind in ("removal", "masking"):  # words of a lower degree are among those of a higher one
        left = [letters(part.captions[0].replace(MASK, "")) for part in found]
        assert all(not fewer - more for more, fewer in pairwise(left))


@every_kind
def test_a_degree_depends_on_the_caption_alone_and_is_for_published_kinds(perturbation):
    captions = [CAPTIONS["en"], "owl", "two men ride horses", CAPTIONS["en"], *ODD]
    if perturbation not in KINDS:
        with pytest.raises(CapscoreError, match=f"'{perturbation}' is not one of repetition"):
            by_degree(captions, perturbation, degree=0.5)
        return
    found = by_degree(captions, perturbation, "en", degree=0.5, seed=3)
    back = by_degree(captions[::-1], perturbation, "en", degree=0.5, seed=3)
    assert found.captions == back.captions[::-1] and found.captions[0] == found.captions[3]
    np.testing.assert_array_equal(found.touched, back.touched[::-1])
    changed = [a != b for a, b in zip(captions, found.captions, strict=True)]
    assert changed == (~found.unchanged).tolist() == (found.touched > 0).tolist()
    with pytest.raises(InputError, match="blank") as caught:
        by_degree(["a dog", " "], perturbation, degree=0.5)
    assert caught.value.row == 1
