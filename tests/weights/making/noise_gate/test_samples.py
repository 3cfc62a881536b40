"""Batches: pairs of right and damaged texts, the same for the same seed, with marks where damage is."""

import hashlib
import itertools
import json
import random
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore import InputError
from capscore.backbones.embedded.noise_gate import FOUND
from capscore.perturbations import KINDS
from tools.tiny.marked_captions import marked_captions
from weights.making.noise_gate import samples
from weights.making.noise_gate.samples import SampleBatches, damaged, draw_pair, taken_of, token_marks
from weights.making.noise_gate.texts import MarkedText, marked
from weights.making.settings import NoiseGateSettings

TEXTS = marked_captions()
SENTENCE = marked(["A man rides a horse near two old boats."], "en")[0]


@pytest.fixture(scope="module")
def tokenizer(embedded):
    return embedded.tokenizer


def batches(tokenizer, **changes) -> SampleBatches:
    given = {"texts": ["captions.jsonl"], "languages": ["en:3", "de:1"], "batch_size": 16, "max_steps": 1}
    made = NoiseGateSettings(out="runs", **{**given, **changes})
    return SampleBatches(TEXTS, tokenizer, made, steps=40, seed=made.seed)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_damage_is_what_its_kind_says_and_takes_by_the_words_that_it_touches(kind, seed):
    found = damaged(SENTENCE, kind, random.Random(seed))
    if found is None:
        assert kind in ("removal", "jumble", "substitution")
        return
    before, after = SENTENCE.text.split(), found.text.split()
    assert 0 < found.taken <= 1 and found == damaged(SENTENCE, kind, random.Random(seed))
    assert all(0 <= start < end <= len(found.text) for start, end in found.touched) and found.touched
    if kind == "repetition":
        assert len(after) == len(before) + len(found.touched)
        assert found.taken == pytest.approx(taken_of(kind, len(found.touched) / 9))
    elif kind == "masking":
        assert sum("[MASK]" in word for word in after) == len(found.touched) and len(after) == len(before)
    elif kind == "removal":
        rest = iter(before)
        assert all(word in rest for word in after) and len(after) < len(before)
        left_out = Counter(before) - Counter(after)
        content = sum(n for word, n in left_out.items() if word.lower() not in ("a", "two"))
        assert found.taken == pytest.approx(taken_of(kind, content / 6))
    elif kind == "jumble":
        assert sorted(after) == sorted(before) and after != before
        order = [before.index(word) for word in after]
        moved = sum(place != number for number, place in enumerate(order))
        parted = sum(later != earlier + 1 for earlier, later in itertools.pairwise(order))
        assert found.taken == pytest.approx(taken_of(kind, (moved / 9 + parted / 8) / 2))
    else:
        assert sorted(word.strip(".") for word in after) == sorted(word.strip(".") for word in before)
        moved = sum(word.strip(".") != other.strip(".") for word, other in zip(after, before, strict=True))
        assert found.taken == pytest.approx(taken_of(kind, moved / 3))


def described(language: str, text: str, nouns) -> MarkedText:
    """A caption with words, classes and objects that no tagger has a say in."""
    pattern = r"\w{1,2}\W*" if language in ("ja", "zh") else r"\S+"
    words = tuple(word.span() for word in re.finditer(pattern, text))
    classes = "".join(
        "n" if any(a < end and b > start for a, b in nouns) else "ajva"[number % 4]
        for number, (start, end) in enumerate(words)
    )
    return MarkedText(text, language, words, nouns, classes)


# nouns between bars
SAID = {
    "ar": "ينام |كلب| بني كبير بجانب |لافتة| زرقاء أمام |منزل| قديم.",
    "cs": "Velký hnědý |pes| spí vedle modré |cedule| před starým |domem|.",
    "de": "Ein großer brauner |Hund| schläft neben einem blauen |Schild| vor einem alten |Haus|.",
    "en": "A big brown |dog| sleeps beside a blue |sign| in front of an old |house|.",
    "es": "Un |perro| marrón grande duerme junto a un |cartel| azul delante de una |casa| vieja.",
    "fr": "Un grand |chien| brun dort près d'un |panneau| bleu devant une vieille |maison|.",
    "it": "Un grande |cane| marrone dorme accanto a un |cartello| blu davanti a una vecchia |casa|.",
    "ja": "古い|家|の前で大きな茶色の|犬|が青い|看板|の横で寝ている。",
    "ko": "큰 갈색 |개|가 오래된 |집| 앞 파란 |표지판| 옆에서 자고 있다.",
    "nl": "Een grote bruine |hond| slaapt naast een blauw |bord| voor een oud |huis|.",
    "pl": "Duży brązowy |pies| śpi obok niebieskiego |znaku| przed starym |domem|.",
    "pt": "Um grande |cachorro| marrom dorme ao lado de uma |placa| azul em frente a uma |casa| velha.",
    "ru": "Большая коричневая |собака| спит рядом с синим |знаком| перед старым |домом|.",
    "tr": "Büyük kahverengi bir |köpek| eski bir |evin| önünde mavi bir |tabelanın| yanında uyuyor.",
    "zh": "一只棕色的大|狗|睡在旧|房子|前面的蓝色|牌子|旁边。",
}


def test_a_seed_draws_the_same_as_when_the_weights_were_made():
    digest, kinds = hashlib.sha256(), Counter()
    for language, pieces in {language: said.split("|") for language, said in SAID.items()}.items():
        ends = list(itertools.accumulate(map(len, pieces)))
        text = described(language, "".join(pieces), tuple(zip(ends[::2], ends[1::2], strict=False)))
        for number in range(200):
            chance = random.Random(f"{language} {number}")
            for made in draw_pair([text] * 3, chance):
                row = [made.text, made.touched, round(made.taken, 6), made.kind]
                digest.update(json.dumps(row, ensure_ascii=False).encode())
                kinds[made.kind] += 1
    assert kinds.keys() == set(FOUND) and kinds["none"] >= 3000
    assert digest.hexdigest()[:12] == "c11ea24b5071"


CAPTIONS = [
    MarkedText("A man sits on a bench.", "en", spans, ((2, 5), (16, 21)), "anvaan")
    for spans in [((0, 1), (2, 5), (6, 10), (11, 13), (14, 15), (16, 22))]
] * 2


@pytest.mark.parametrize(
    ("made", "texts"),
    [
        (samples._cut, {"A man sits on", "A man sits on a"}),
        (samples._dangling, {f"A man sits on a bench {end}" for end in ("on", "sits on", "a", "on a")}),
        (samples._words_listed, {"man, sits, bench", "man; sits; bench", "man sits bench", None}),
        (samples._twice, {f"A man sits on a bench{sign}A man sits on a bench" for sign in (" ", ", ", "; ")}),
    ],
)
def test_what_nobody_writes_of_a_photo(made, texts):
    chances = map(random.Random, range(300))
    drawn = [made(CAPTIONS, "same", chance) for chance in chances]
    assert {each and each.text for each in drawn if each is None or each.text[0] in "Am"} >= texts
    for each in filter(None, drawn):
        assert each.taken >= 0.85 and each.kind in ("removal", "repetition")
        assert all(0 <= start < end <= len(each.text) for start, end in each.touched)


def test_a_batch_depends_on_seed_epoch_and_step_alone(tokenizer):
    made = batches(tokenizer)
    late = made.batch(0, 20)
    assert batches(tokenizer).batch(0, 20) == late
    assert late not in (batches(tokenizer, seed=1).batch(0, 20), made.batch(1, 20), made.batch(0, 21))
    drawn = [sample for step in range(32) for sample in made.batch(0, step)]
    assert len(drawn) == 512 and Counter(sample.language for sample in drawn)["en"] > 320
    for sample in drawn:
        assert (sample.taken == 0) == (sample.found == 0) and (sample.found or not any(sample.touched))
        assert len(sample.ids) == len(sample.touched) and sample.touched[0] == sample.touched[-1] == 0


def test_marks_lie_on_the_tokens_of_the_touched_words(tokenizer):
    (ids, rewritten) = tokenizer(["A dog dog runs.", "ﬁsh  ﬁsh"])
    marks = token_marks(tokenizer, ids, "A dog dog runs.", [(2, 9)])
    pieces = tokenizer.pieces(ids[1:-1])
    assert "".join(piece for piece, mark in zip(pieces, marks[1:-1], strict=True) if mark) == "▁dog▁dog"
    assert marks[0] == marks[-1] == 0
    # a text that the tokenizer rewrites: places are not known
    assert set(token_marks(tokenizer, rewritten, "ﬁsh  ﬁsh", [(0, 3)])[1:-1]) == {-1}


def test_a_language_without_captions_is_named(tokenizer):
    with pytest.raises(InputError, match="there are no captions in fr"):
        batches(tokenizer, languages=["fr:1"])
