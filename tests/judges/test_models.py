"""The list of judges: every entry says what it is, how large, and under which licence, with the source."""

from __future__ import annotations

import json
import re
from importlib.resources import files

MODELS = json.loads(files("capscore").joinpath("judges/models.json").read_text(encoding="utf-8"))["models"]


def test_entries_are_complete_and_of_known_kinds():
    fields = {"id", "kind", "billions", "licence", "commercial", "languages", "source"}
    for model in MODELS:
        assert fields <= set(model) <= fields | {"note"}, model
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", model["id"]) and 0 < model["billions"] < 20, model
        assert model["licence"] and type(model["commercial"]) is bool, model
        assert model["source"].startswith("https://"), model
        assert model["languages"] is None or all(len(code) == 2 for code in model["languages"]), model
    assert {model["kind"] for model in MODELS} == {"generative", "matching", "reranker"}
    assert len({model["id"] for model in MODELS}) == len(MODELS)
