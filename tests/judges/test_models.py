"""The list of judges: every entry says what it is, how large, and under which licence, with the source."""

import re

from capscore.judges.model import known_models

from ..processes import ROOT

MODELS = known_models()


def test_entries_are_complete_and_of_known_kinds():
    fields = {"kind", "billions", "licence", "commercial", "languages", "source"}
    for name, model in MODELS.items():
        assert fields <= set(model) <= fields | {"note"}, model
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", name) and 0 < model["billions"] < 20, name
        assert model["licence"] and type(model["commercial"]) is bool, model
        assert model["source"].startswith("https://"), model
        assert model["languages"] is None or all(len(code) == 2 for code in model["languages"]), model
    assert {model["kind"] for model in MODELS.values()} == {"generative", "matching", "reranker"}


def test_the_guide_shows_every_model():
    guide = (ROOT / "docs" / "judge.md").read_text(encoding="utf-8")
    for name, model in MODELS.items():
        languages = ", ".join(model["languages"] or ())
        cells = [f"`{name}`", model["kind"], str(model["billions"]), languages]
        cells += [f"[{model['licence']}]({model['source']})", "yes" if model["commercial"] else "no"]
        assert " ".join(f"| {' | '.join([*cells, model.get('note', '')])} |".split()) in guide
