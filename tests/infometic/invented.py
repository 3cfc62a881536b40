"""Explanations made up by hand, as the scorer would give them."""

import re

from capscore.show.explained import ExplainedCaption

SCORES = {"precision": 0.4, "recall": 0.6, "overall": 1.0}


def explanation(text, *, right="", wrong="", cut="", regions=(), size=(40, 30), split=r"\w+"):
    """Words that are named are right, wrong or cut off; regions are box, mentioned, confidence and label."""
    words, shown = [], []
    for match in re.finditer(split, text):
        word = match.group()
        made = {"text": word, "start": match.start(), "end": match.end(), "score": None, "correct": None}
        made["semantic"] = word in right.split() + wrong.split()
        if word not in cut.split():
            made["score"] = 0.02 if word in wrong.split() else 0.31
            made["correct"] = word in right.split() if made["semantic"] else None
        words.append(made)
    for box, mentioned, confidence, label in regions:
        score = 0.4 if mentioned else 0.01
        about = {"mentioned": mentioned, "confidence": confidence, "label": label}
        shown.append({"box": list(box), "score": score, **about})
    n_cut = sum(word["score"] is None for word in words)
    return {"words": words, "regions": shown, "null": 0.25, "image_size": list(size), "n_words_cut": n_cut}


def caption(text: str, language: str = "en", scores: dict[str, float] = SCORES, **told) -> ExplainedCaption:
    details = explanation(text, **told)
    wrong = frozenset(word["start"] for word in details["words"] if word["correct"] is False)
    return ExplainedCaption(text, language, details, scores, wrong=wrong)


# mentioned or not in no order; by confidence the missed ones are "sky", "tree", "sign", "bin"
REGIONS = [((0, 20, 40, 30), False, 0.3, "bin"), ((5, 5, 15, 25), True, 0.9, "dog")]
REGIONS += [((0, 0, 40, 8), False, 0.9, "sky"), ((20, 5, 30, 25), False, 0.4, "sign")]
REGIONS.append(((30, 5, 39, 25), False, 0.8, "tree"))
