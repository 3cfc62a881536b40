"""Statements: one question per claim; their mean, recall of references, and what is marked in the caption."""

import json
import re

import numpy as np
import pytest
import rich.console
from PIL import Image

import capscore
from capscore.errors import InputError, OptionError, RowWarning
from capscore.judges.asker import packed_text, unpacked_text
from capscore.judges.listing import LIST, Split, split_by
from capscore.judges.model import BOTH_WAYS, JudgeModel
from capscore.judges.prompts import Prompt
from capscore.judges.statements import Statements
from capscore.text.claims import claims
from tools.tiny.judges import FAMILIES, load, tiny_judge

from .test_parity import yes_or_no

PHOTO = np.full((42, 42, 3), (200, 40, 40), np.uint8)
CAPTION = "A dog runs on the beach, while two men watch it. It is brown."
CLAIMS = ["A dog runs on the beach", "two men watch it", "It is brown"]


def chances(claims, answers="yes/no"):
    """The probability of each claim, by the plain reading and one row per claim."""
    return load(question=Statements.question, answers=answers).score(claims, [PHOTO] * len(claims)).scores


@pytest.mark.parametrize("answers", ["yes/no", "no/yes"])  # what is false one way round is true the other
def test_a_score_is_the_mean_probability_of_the_claims(answers):
    scorer = load(reading="statements", answers=answers)
    found = scorer.score([CAPTION, "a cat"], [PHOTO, PHOTO])
    each = chances([*CLAIMS, "a cat"], answers)
    assert found.scores == pytest.approx([each[:3].mean(), each[3]], abs=1e-6)
    assert found.components["precision"] == pytest.approx(found.scores, abs=1e-12)
    assert found.components["margin"] == pytest.approx(np.log(found.scores / (1 - found.scores)), abs=1e-6)
    listed = found.details[0]["claims"]
    assert [CAPTION[claim["start"] : claim["end"]] for claim in listed] == CLAIMS
    assert [claim["p"] for claim in listed] == pytest.approx(each[:3], abs=1e-6)
    false = [claim for claim, p in zip(CLAIMS, each, strict=False) if p < 0.5]
    assert found.details[0]["false_claims"] == "; ".join(false)
    places = [(CAPTION.index(claim), CAPTION.index(claim) + len(claim), claim) for claim in false]
    assert scorer.wrong_words(found.details[0]) == places
    assert scorer.found(found.details[0]) == (f"likely false: {'; '.join(false)}" if false else "")


def recalled(family, claims, text):
    """The mean probability of yes where the library itself asks, without a photo, if a text says a claim."""
    question = f'Here is a description of a photo: "{text}"\nDoes the description say this: "{{}}"? '
    question += "Judge by the description alone. Answer yes or no."
    model, processor = tiny_judge(family).model, tiny_judge(family).processor
    margins = []
    for claim in claims:
        said = [{"role": "user", "content": [{"type": "text", "text": question.format(claim)}]}]
        settings = {"tokenize": True, "return_dict": True, "return_tensors": "pt"}
        inputs = processor.apply_chat_template([said], add_generation_prompt=True, **settings)
        margins.append(yes_or_no(model, processor, inputs)[0])
    return np.mean(1 / (1 + np.exp(-np.array(margins))))


@pytest.mark.parametrize("family", ["qwen2_5_vl", "smolvlm", "gemma3"])
def test_references_are_recalled_by_the_words_of_the_caption(family):
    references = [["A dog runs. It is brown.", "two men"], ["a cat"], ["a cat"]]
    rows = [CAPTION, "a cat", "a cat"], [PHOTO, PHOTO, PHOTO[::-1, :21]], references
    found = load(family, reading="statements", with_references=True).score(*rows)
    expected = [recalled(family, ["A dog runs", "It is brown", "two men"], CAPTION)]
    expected += [recalled(family, ["a cat"], "a cat")] * 2
    assert found.components["recall"] == pytest.approx(expected, abs=1e-6)
    precision, recall = found.components["precision"], found.components["recall"]
    assert found.components["f1"] == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-9)


def test_a_claim_of_one_photo_is_asked_once_and_ten_claims_share_its_photo(passes):
    caption = " ".join(f"There is a red thing number {number}." for number in range(10))
    load(reading="statements").score([caption, caption], [PHOTO, PHOTO])
    assert len(passes) == 3, "the photo once, and the ten questions of both rows in two batches"


def test_the_command_writes_what_is_likely_false(tmp_path, monkeypatch):
    monkeypatch.setattr("capscore.judges.model.load_judge", lambda name, **options: tiny_judge())
    image, output = tmp_path / "one.png", tmp_path / "rows.jsonl"
    Image.fromarray(PHOTO).save(image)
    rows, options = [{"image": str(image), "caption": CAPTION}], {"reading": "statements", "output": output}
    found = capscore.score_file(rows, "judge", **options)
    expected = load(reading="statements").score([CAPTION], [PHOTO]).details[0]["false_claims"]
    assert found.to_pandas()["false_claims"][0] == expected
    assert json.loads(output.read_text())["false_claims"] == expected


@pytest.mark.parametrize(
    "caption, parts",
    [
        (CAPTION, CLAIMS),
        ("Ein Hund rennt am Strand.\nEr ist braun.", ["Ein Hund rennt am Strand", "Er ist braun"]),
        ("一只狗在海滩上奔跑，两个男人在看它。", ["一只狗在海滩上奔跑", "两个男人在看它"]),
        ("كلب يركض على الشاطئ. إنه بني.", ["كلب يركض على الشاطئ", "إنه بني"]),
    ],
    ids=["en", "de", "zh", "ar"],
)
def test_explanations_mark_false_claims_in_the_text(caption, parts):
    """Claims that are false with the answers one way round are true the other way round."""
    marked, printed = [], []
    for answers in ("yes/no", "no/yes"):
        found = capscore.explain(PHOTO, caption, load(reading="statements", answers=answers))
        marked += re.findall('<mark class="said word-wrong">(.*?)</mark>', found.to_html())
        with (console := rich.console.Console(width=40)).capture() as said:
            found.print(console)
        printed += re.findall(r"[✗x]\[(.*?)\]", said.get())
    assert sorted(marked) == sorted(printed) == sorted(parts)


REWRITTEN = ["A dog runs on a beach.", "Two men watch the dog.", "It is brown"]


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps(REWRITTEN),
        f"Sure!\n```json\n{json.dumps(REWRITTEN, indent=1)}\n```",
        json.dumps({"claims": [{"claim": text} for text in REWRITTEN]}),
        json.dumps([*REWRITTEN, "and it"])[:-4],
        repr(REWRITTEN),
        "<think>[1]</think>Here are the claims:\n\n" + "".join(f"- **{text}**\n" for text in REWRITTEN),
        "\n".join(f"{number}. {text}" for number, text in enumerate(REWRITTEN, 1)),
        "\n".join(f"[{number}] {text}" for number, text in enumerate([*REWRITTEN, REWRITTEN[0]])),
        "\n".join(["The claims:", *REWRITTEN]),
    ],
    ids="json fenced objects cut python bullets numbers brackets lines".split(),
)
def test_a_list_is_read_however_it_is_written(answer):
    found = split_by(answer, CAPTION)
    assert [claim.text for claim in found.claims] == REWRITTEN
    assert (found.is_listed, found.dropped) == (True, [])
    # reworded claims stand where the clause does that shares most words with them
    assert [CAPTION[claim.start : claim.end] for claim in found.claims] == CLAIMS


@pytest.mark.parametrize(
    "answer, caption, dropped",
    [
        *(("", CAPTION, []), ("I am sorry, I cannot see a dog.", CAPTION, []), ("[]", CAPTION, [])),
        ('["A unicorn flies over the sea"]', CAPTION, ["A unicorn flies over the sea"]),
        ('["Es gibt eine Katze"]', "Ein Hund rennt.", ["Es gibt eine Katze"]),
        ('["猫がいる"]', "犬が走っている。", ["猫がいる"]),
    ],
)
def test_without_a_claim_of_the_caption_the_rules_split_it(answer, caption, dropped):
    assert split_by(answer, caption) == Split(claims(caption), False, dropped)


def test_a_claim_needs_a_word_of_its_caption_in_any_script():
    listed = {"Ein brauner Hund.": "Der Hund ist braun", "茶色の犬が走る。": "犬は茶色", "A hat": "hat"}
    for caption, claim in (listed | {"犬。": "犬"}).items():
        assert split_by(json.dumps([claim]), caption).is_listed, caption


def test_the_model_lists_the_claims_each_text_once(monkeypatch, tmp_path):
    lists = {CAPTION: json.dumps(["A dog runs", "It flies"]), "a cat": "no", "two men": '["two men"]'}
    asked = []

    def generate(self, image, prompt, max_new_tokens=160):
        assert image is None and not prompt.has_photo
        asked.append(next(iter(prompt.data.values())))
        return lists[asked[-1]]

    monkeypatch.setattr(JudgeModel, "generate", generate)
    options = {"reading": "statements", "claims_by": "model", "with_references": True, "cache": tmp_path}
    scorer = load(**options)
    rows = [CAPTION, "a cat", CAPTION], [PHOTO] * 3, [["two men"], ["a cat"], ["two men"]]
    with pytest.warns(RowWarning) as caught:
        found = scorer.score(*rows)
    assert sorted(asked) == [CAPTION, "a cat", "two men"]
    message = " ".join(str(warning.message) for warning in caught)
    assert "1 have claims that the judge did not list as asked" in message
    assert "2 got claims of the judge's own beside those of their caption" in message
    assert found.details[0]["dropped"] == ["It flies"] and found.details[0]["claims_by"] == "model"
    assert [claim["text"] for claim in found.details[0]["claims"]] == ["A dog runs"]
    assert (found.details[1]["claims_by"], found.details[1]["dropped"]) == ("rules", [])
    assert found.components["precision"][:2] == pytest.approx(chances(["A dog runs", "a cat"]), abs=1e-6)
    assert "|claims:model|" in found.signature and "claims" not in load(reading="statements").settings
    assert load(**options).score(*rows).details == found.details and len(asked) == 3


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in BOTH_WAYS])
def test_a_list_is_asked_for_without_a_photo(family, monkeypatch):
    """Random models write anything: what is read of it has a word of the caption, or rules split it."""
    monkeypatch.setattr("capscore.judges.listing.MAX_TOKENS", 40)
    scorer = load(family, reading="statements", claims_by="model")
    (details,) = scorer.score([CAPTION], [PHOTO]).details
    prompt = Prompt((("user", LIST),), {"caption": CAPTION}, has_photo=False)
    split = split_by(scorer.model.generate(None, prompt, 40), CAPTION)
    assert details["claims_by"] == ("model" if split.is_listed else "rules")
    assert details["dropped"] == split.dropped
    assert [claim["text"] for claim in details["claims"]] == [claim.text for claim in split.claims]


def test_claims_by_something_else_is_refused():
    for family, reading, options, problem in (
        ("qwen2_5_vl", "yes", {"claims_by": "model"}, "claims_by='model' does not go with reading='yes'"),
        ("qwen2_5_vl", "statements", {"claims_by": "words"}, "'words': expected 'rules' or 'model'"),
        ("qwen2_5_vl", "statements", {"split": "model"}, "no split='…'; instead, use claims_by"),
        ("paligemma", "statements", {"claims_by": "model"}, "has no turns"),
    ):
        with pytest.raises((OptionError, InputError), match=problem):
            load(family, reading=reading, **options)


def test_a_text_survives_the_cache():
    for text in ("", "a", "犬 ż", "x" * 9000):
        assert unpacked_text(packed_text(text)) == text[:6144]
