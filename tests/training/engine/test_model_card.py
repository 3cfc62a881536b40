"""Model cards: what the Hub reads in them, what people read, and that nothing is made up or lost."""

from __future__ import annotations

import doctest
import re
from dataclasses import fields, replace

import pytest
import yaml
from huggingface_hub import ModelCard as HubCard

from capscore.errors import CapscoreError, InputError, ResultWriteError
from training.engine import model_card
from training.engine.model_card import DataSource, ModelCard, Result, card_text, write_card

SIGNATURE = "pr_mcs|backbone:embedded@w90e71b91|w:2.5|prefix:A%20photo%20|refs:0|lang:de"
CARD = ModelCard(
    name="Garden captions",
    recipe="pr_mcs",
    base="embedded",
    languages=["de", "pt-BR"],
    license="apache-2.0",
    command="python -m training.pr_mcs --config /home/jo/own.yaml",
    settings={
        "learning_rate": 5e-5,
        "betas": (0.9, 0.999),
        "clip_norm": None,
        "shared_draws": True,
        "weights": {"robust": 0.1, "hinge": 0.05},
        "out": "/home/jo/runs/7",
    },
    data=[
        DataSource("Garden captions", "CC0", rows=1200, url="https://example.org/garden"),
        DataSource("Kitchen captions", "CC BY 4.0", hub_id="org/kitchen", used_for="choosing λ1"),
    ],
    held_out="every tenth image, for choosing the settings.",
    results=[
        Result(
            data="garden_test",
            metric="mean_drop",
            metric_name="mean drop",
            value=-61.23456,
            unit="%",
            command="capscore benchmark garden --config /home/jo/g.yaml",
            language="de",
            split="test",
            rows=3000,
            base_value=-3.0,
            interval=(-64.5, -58.25),
            signature=SIGNATURE,
        ),
        Result(data="vicr", metric="kendall_tau_c", value=None, language="pt"),
    ],
    not_measured=["Captions longer than 20 words."],
    limitations=["Balconies are taken for gardens."],
    compute="2 CPU cores, 3.5 hours",
)


def front(text: str) -> dict:
    return yaml.safe_load(text.split("---\n")[1])


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n\n")[2].partition("\n\n## ")[0]


def test_what_the_hub_reads():
    assert front(card_text(CARD)) == {
        "language": ["de", "pt"],
        "license": "apache-2.0",
        "library_name": "capscore",
        "pipeline_tag": "feature-extraction",
        "tags": ["image-captioning", "evaluation", "pr-mcs", "perturbation-robustness"],
        "datasets": ["org/kitchen"],
        "metrics": ["mean_drop"],
        "model-index": [
            {
                "name": "Garden captions",
                "results": [
                    {
                        "task": {"type": "image-to-text", "name": "Evaluation of image captions"},
                        "dataset": {
                            "type": "garden_test",
                            "name": "garden_test",
                            "config": "de",
                            "split": "test",
                        },
                        "metrics": [
                            {
                                "type": "mean_drop",
                                "name": "mean drop",
                                "value": -61.23456,
                                "args": {
                                    "scorer": "pr_mcs",
                                    "backbone": "embedded@w90e71b91",
                                    "w": "2.5",
                                    "prefix": "A photo ",
                                    "refs": "0",
                                    "lang": "de",
                                    "rows": 3000,
                                },
                            }
                        ],
                    }
                ],
            }
        ],
    }


def test_the_hubs_own_class_reads_the_results_back():
    card = HubCard(card_text(replace(CARD, repo_id="org/garden")))
    (result,) = card.data.eval_results
    assert (card.data.model_name, result.metric_value) == ("garden", -61.23456)
    assert result.metric_args["backbone"] == "embedded@w90e71b91"


@pytest.mark.parametrize(
    "base, expected",
    [
        ("embedded", None),  # is on no Hub
        ("M-CLIP/XLM-Roberta-Large-Vit-B-32", "M-CLIP/XLM-Roberta-Large-Vit-B-32"),
        ("open_clip:xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k", None),
        ("org/own@0123456789abcdef0123456789abcdef01234567", "org/own"),
        ("/home/jo/runs/3", None),
    ],
)
def test_a_base_is_named_to_the_hub_only_if_it_is_there(base, expected):
    said = front(card_text(replace(CARD, base=base))).get("base_model")
    if base.startswith("open_clip:"):
        assert said == "laion/CLIP-ViT-B-32-xlm-roberta-base-laion5B-s13B-b90k"
    else:
        assert said == expected


def test_what_people_read():
    text = card_text(CARD)
    assert "**Languages**: German (`de`), Portuguese (`pt`)" in text
    assert section(text, "Training data") == (
        "| data | licence | rows | used for |\n"
        "| --- | --- | --- | --- |\n"
        "| [Garden captions](https://example.org/garden) | CC0 | 1,200 | training |\n"
        "| [Kitchen captions](https://huggingface.co/datasets/org/kitchen) | CC BY 4.0 | not counted "
        "| choosing λ1 |\n\n"
        "Held out: every tenth image, for choosing the settings.\n\n"
        "The licence of these weights does not change the licences of the data."
    )
    assert section(text, "Training") == (
        "```bash\npython -m training.pr_mcs --config …/own.yaml\n```\n\n"
        "Machine and time: 2 CPU cores, 3.5 hours.\n\n"
        "| setting | value |\n| --- | --- |\n"
        "| `learning_rate` | 5e-05 |\n| `betas` | 0.9, 0.999 |\n| `clip_norm` | none |\n"
        "| `shared_draws` | yes |\n| `weights.robust` | 0.1 |\n| `weights.hinge` | 0.05 |\n"
        "| `out` | …/7 |"
    )
    assert section(text, "Results") == (
        "| data | language | measure | this tower | base | rows |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| `garden_test`, test | de | mean drop, % | -61.23 [-64.5, -58.25] | -3 | 3,000 |\n"
        "| `vicr` | pt | kendall_tau_c | not measured | not measured | not counted |\n\n"
        "In brackets: 95 % intervals.\n\n"
        "Measured with:\n\n```bash\ncapscore benchmark garden --config …/g.yaml\n```\n\n"
        f"Signatures of the scores:\n\n```text\n{SIGNATURE}\n```"
    )
    assert section(text, "Not measured") == (
        "- kendall_tau_c on `vicr` in pt\n- Captions longer than 20 words.\n"
        "- Whatever is not in the table above."
    )
    assert section(text, "Limitations and bias").startswith("- Balconies are taken for gardens.\n")
    assert "kim-etal-2023-pr-mcs" in section(text, "Citation")
    assert "/home" not in text, "a card tells nothing of the machine"


def test_a_card_without_numbers_says_so():
    text = card_text(replace(CARD, results=(), not_measured=(), compute="", held_out=""))
    assert section(text, "Results") == "Nothing was measured."
    assert "model-index" not in front(text) and "metrics" not in front(text)
    assert "Machine and time: not recorded." in text and "What was held out was not recorded." in text
    unmeasured = card_text(replace(CARD, results=[CARD.results[1]]))
    assert section(unmeasured, "Results") == "Nothing was measured."
    assert "- kendall_tau_c on `vicr` in pt\n" in section(unmeasured, "Not measured")


@pytest.mark.parametrize("recipe, metric", [("pr_mcs", "pr_mcs"), ("teacher_learning", "mcs")])
def test_how_to_load_it(recipe, metric):
    text = card_text(replace(CARD, recipe=recipe, repo_id="org/garden", teacher="ViT-B-32/openai"))
    assert f'capscore.load("{metric}", backbone="org/garden")\n' in text
    assert f'evaluate.load(capscore.module_folder("{metric}"), backbone="org/garden")\n' in text
    assert "- **Teacher**: `ViT-B-32/openai`" in text
    unpushed = card_text(replace(CARD, recipe=recipe))
    assert 'backbone="path/to/this/folder")  # or the id of this page\n' in unpushed


def test_a_cell_stays_a_cell():
    text = card_text(replace(CARD, settings={"template": "a|b\nc", "none": [], "set": {"b", "a"}}))
    assert "| `template` | a\\|b c |\n| `none` | none |\n| `set` | a, b |" in text


def test_a_licence_of_its_own():
    own = replace(CARD, license="other", license_name="garden-1.0", license_link="LICENSE")
    assert "- **Licence**: [garden-1.0](LICENSE)" in card_text(own)
    assert front(card_text(own))["license_name"] == "garden-1.0"
    with pytest.raises(CapscoreError, match="needs license_name and license_link"):
        card_text(replace(own, license_link=""))


@pytest.mark.parametrize(
    "base, licence",
    [
        ("embedded-free", "apache-2.0"),
        ("embedded-pr-mcs", "cc-by-nc-4.0"),
        ("BAAI/AltCLIP", None),
        ("me/mine", None),
    ],
)
def test_the_licence_of_the_base_where_it_is_known(base, licence):
    found = re.findall(r"^- \*\*Licence of the base\*\*: (.*)$", card_text(replace(CARD, base=base)), re.M)
    assert found == ([licence] if licence else [])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"recipe": "magic"}, r"recipe='magic': expected one of teacher_learning, pr_mcs"),
        ({"license": ""}, "needs license"),
        ({"command": " "}, "needs command"),
        ({"languages": []}, "expected a list of language codes"),
        ({"languages": "de"}, "expected a list of language codes"),
        ({"languages": ["xq-nothing"]}, "language: .*xq"),
        ({"settings": {}}, "needs the settings"),
        ({"data": []}, "needs the training data"),
        ({"data": [CARD.data[0], DataSource("Attic", "")]}, "row 1, data: needs a name and a licence"),
        ({"repo_id": "garden"}, "repo_id='garden' is not an id"),
        ({"results": [Result("a", "b", 1.0)]}, "row 0, results: b on a has a value, but no command"),
        ({"results": [Result("a", "b", float("nan"), "c")]}, "row 0, results: b on a is not finite"),
        ({"results": [Result("a", "", None)]}, "row 0, results: needs the data set and the metric"),
        ({"results": [Result("a", "b", None, signature="mcs|w")]}, "row 0, results: 'w' in signature"),
    ],
)
def test_what_a_card_refuses(change, message):
    with pytest.raises(CapscoreError, match=message):
        card_text(replace(CARD, **change))


def test_an_unmeasured_row_is_an_input_error_with_its_place():
    with pytest.raises(InputError) as error:
        card_text(replace(CARD, results=[CARD.results[1], Result("a", "b", 1.0)]))
    assert (error.value.row, error.value.field) == (1, "results")


# An existing README.md


def test_a_card_of_its_own_is_replaced(tmp_path):
    path = write_card(tmp_path / "new", CARD)
    assert path == tmp_path / "new" / "README.md" and path.read_text(encoding="utf-8") == card_text(CARD)
    write_card(tmp_path / "new", replace(CARD, name="Second"))
    assert "# Second" in path.read_text(encoding="utf-8")
    assert [each.name for each in path.parent.iterdir()] == ["README.md"]


@pytest.mark.parametrize("edit", ["somebody's own", "added at the end", "added at the front", "not UTF-8"])
def test_what_somebody_wrote_is_kept(tmp_path, edit):
    written = write_card(tmp_path, CARD).read_bytes()
    kept = {
        "somebody's own": b"# Mine\n",
        "added at the end": written + b"One more thing.\n",
        "added at the front": written.replace(b"license: apache-2.0", b"license: mit"),
        "not UTF-8": b"\xff\xfe" + written,
    }[edit]
    path = tmp_path / "README.md"
    path.write_bytes(kept)
    with pytest.raises(CapscoreError, match=r"README\.md was not written by training\.model_card"):
        write_card(tmp_path, CARD)
    assert path.read_bytes() == kept
    write_card(tmp_path, CARD, force=True)
    assert path.read_bytes() == written


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultWriteError, match="model card"):
        write_card(tmp_path / "file", CARD)


def test_every_field_is_explained():
    for kind in (ModelCard, DataSource, Result):
        for field in fields(kind):
            assert f"        {field.name}: " in kind.__doc__


def test_docstring_examples():
    failed, attempted = doctest.testmod(model_card)
    assert (failed, attempted > 2) == (0, True)
