"""Model cards: what the Hub reads in them, what people read, and that nothing is made up or lost."""

import re
from dataclasses import replace

import pytest
import yaml
from huggingface_hub import ModelCard as HubCard

from capscore.errors import CapscoreError, InputError, ResultWriteError
from capscore.metrics.loading import options_of
from training.data.source import DataSource
from training.engine.model_card import RECIPES, ModelCard, Result, card_text, read_card, write_card

SIGNATURE = "pr_mcs|backbone:embedded@w90e71b91|w:2.5|prefix:A%20photo%20|refs:0|lang:de"
CARD = ModelCard(
    name="Garden captions",
    recipe="pr_mcs",
    base="embedded",
    languages=["de", "pt-BR"],
    license="apache-2.0",
    command="python -m training.pr_mcs --config /srv/us/own.yaml",
    settings={"betas": [0.9, 5e-5], "clip_norm": None, "out": "/srv/us/runs/7", "template": "a|b\nc"},
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
            command="capscore benchmark garden --config /srv/us/g.yaml",
            language="de",
            split="test",
            rows=3000,
            base_value=-3.0,
            interval=[-64.5, -58.25],
            signature=SIGNATURE,
        ),
        Result(data="vicr", metric="kendall_tau_c", value=None, language="pt"),
    ],
    not_measured=["Captions longer than 20 words."],
    limitations=["Balconies are taken for gardens."],
    compute="2 CPU cores, 3.5 hours",
)


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n\n")[2].partition("\n\n## ")[0]


def test_the_hub_reads_languages_licence_data_and_results():
    data = HubCard(card_text(CARD)).data
    assert (data.language, data.license, data.datasets) == (["de", "pt"], "apache-2.0", ["org/kitchen"])
    assert data.tags == ["image-captioning", "evaluation", "pr-mcs", "perturbation-robustness"]
    (result,) = data.eval_results
    assert (data.model_name, result.metric_name) == ("Garden captions", "mean drop")
    assert (result.metric_type, result.metric_value) == ("mean_drop", -61.23456)
    assert (result.dataset_name, result.dataset_config, result.dataset_split) == ("garden_test", "de", "test")
    assert (result.metric_args["w"], result.metric_args["rows"]) == ("2.5", 3000)


XLM_R = "laion/CLIP-ViT-B-32-xlm-roberta-base-laion5B-s13B-b90k"


@pytest.mark.parametrize(
    ("base", "stated", "on_hub", "licence", "of_base"),
    [
        ("embedded-free", "mit", None, "mit", ["apache-2.0"]),  # is on no Hub
        ("embedded", "unknown", None, "cc-by-nc-4.0", ["cc-by-nc-4.0"]),
        ("embedded@w1", "unknown", None, "cc-by-nc-4.0", ["cc-by-nc-4.0"]),
        ("open_clip:xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k", "mit", XLM_R, "mit", []),
        (f"org/own@{'0123456789' * 4}", "unknown", "org/own", "unknown", []),
        ("FOLDER", "unknown", None, "cc-by-4.0", ["cc-by-4.0"]),
        ("/srv/us/runs/3", "mit", None, "mit", []),
    ],
)
def test_a_base_and_its_licence_are_named_if_known(base, stated, on_hub, licence, of_base, tmp_path):
    write_card(tmp_path, replace(CARD, license="cc-by-4.0"))
    text = card_text(replace(CARD, base=base.replace("FOLDER", str(tmp_path)), license=stated))
    assert HubCard(text).data.base_model == on_hub and "/srv" not in text and str(tmp_path) not in text
    assert f"license: {licence}\n" in text and f"**Licence**: {licence}\n" in text
    assert re.findall(r"\*\*Licence of the base\*\*: (.*)", text) == of_base


def test_a_card_states_data_settings_results_and_limits_but_not_the_machine():
    text = card_text(CARD)
    assert "**Languages**: German (`de`), Portuguese (`pt`)" in text and "/srv" not in text
    for title, said in {
        "Training data": "| [Garden captions](https://example.org/garden) | CC0 | 1,200 | training |",
        "Training": "python -m training.pr_mcs --config …/own.yaml",
        "Results": "| `garden_test`, test | de | mean drop, % | -61.23 [-64.5, -58.25] | -3 | 3,000 |",
        "Limitations and bias": "- Balconies are taken for gardens.",
    }.items():
        assert said in section(text, title)
    _, _, settings = section(text, "Training").partition("```yaml\n")
    assert yaml.safe_load(settings.partition("```")[0]) == {**CARD.settings, "out": "…/7"}
    assert SIGNATURE in section(text, "Results")


def test_a_card_without_numbers_says_so():
    text = card_text(replace(CARD, results=[CARD.results[1]], not_measured=(), compute="", held_out=""))
    assert section(text, "Results") == "Nothing was measured." and not HubCard(text).data.eval_results
    assert "Machine and time: not recorded." in text and "What was held out was not recorded." in text
    missing = "- kendall_tau_c on `vicr` in pt\n- Everything that is not in the table above."
    assert section(text, "Not measured") == missing


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_card_of_every_recipe_says_what_it_is_and_how_to_load_it(recipe):
    text = card_text(replace(CARD, recipe=recipe, teacher="ViT-B-32/openai"))
    about, code = RECIPES[recipe], section(text, "How to load it")
    option = {"infometic": "weights", "mark_calibration": "marks"}.get(recipe, "backbone")
    assert option == "backbone" or option in options_of(about.metric)
    assert code.count(f'("{about.metric}"') == code.count(f'{option}="path/to/this/folder"') == 2
    assert text.count("\n# ") == 1 and "- **Teacher**: `ViT-B-32/openai`" in text
    assert f"- **{about.about_base}**: `embedded`" in text and f"- The {about.thing} inherits" in text
    assert section(text, "Citation").count("@inproceedings") >= 1 and "{%" not in text
    assert ("[Gomes et al. 2025]" in text) == (recipe == "human_ratings")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe": "magic"}, r"recipe='magic': expected one of teacher_learning, pr_mcs"),
        ({"command": " "}, "needs command"),
        ({"languages": []}, "needs languages"),
        ({"languages": ["xq-nothing"]}, r"language: .*xq"),
        ({"data": []}, "needs data"),
        ({"data": [CARD.data[0], DataSource("Attic", "")]}, "row 1, data: needs a name and a licence"),
    ],
)
def test_a_card_that_says_too_little_or_wrong_is_refused(change, message):
    with pytest.raises(CapscoreError, match=message):
        card_text(replace(CARD, **change))


def test_the_facts_of_a_card_are_read_back_as_they_were_written(tmp_path):
    assert write_card(tmp_path / "new", CARD).read_text(encoding="utf-8") == card_text(CARD)
    assert read_card(tmp_path / "new") == CARD
    with pytest.raises(ResultWriteError, match="model card"):
        write_card(tmp_path / "new" / "run.json", CARD)
    for text in (None, "{", "{}", "[1]"):
        if text is not None:
            (tmp_path / "run.json").write_text(text)
        with pytest.raises(InputError, match=r"run\.json"):
            read_card(tmp_path)


def test_a_card_is_written_again_unless_it_was_edited(tmp_path):
    path = write_card(tmp_path, CARD)
    written = path.read_bytes()
    for edited in (b"# Mine\n", written + b"One more thing.\n", b"\xff\xfe" + written):
        path.write_bytes(edited)
        with pytest.raises(CapscoreError, match=r"README\.md was not written by a recipe"):
            write_card(tmp_path, CARD)
        assert path.read_bytes() == edited
    path.write_bytes(written)
    write_card(tmp_path, replace(CARD, name="Another name"))
    assert path.read_bytes() != written
