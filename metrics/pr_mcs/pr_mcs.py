"""PR-MCS: perturbation-robust MCS as an `evaluate` module. The library capscore does the work."""

import capscore  # From: capscore

_DESCRIPTION = """\
PR-MCS scores how well captions fit their images, without references and in many languages, as MCS does; but
captions whose words are repeated, missing, masked or jumbled lose most of their score, and captions
with exchanged objects lose a part of it, in English two thirds.
"""

_CITATION = """\
@inproceedings{kim-etal-2023-pr-mcs,
  title = {{PR-MCS}: Perturbation Robust Metric for MultiLingual Image Captioning},
  author = {Kim, Yongil and Hwang, Yerin and Yun, Hyeongu and Yoon, Seunghyun and Bui, Trung and
    Jung, Kyomin},
  booktitle = {Findings of the Association for Computational Linguistics: EMNLP 2023}, year = {2023}}
"""

_EXAMPLES = """\
>>> import capscore, evaluate
>>> from PIL import Image, ImageDraw
>>> photo = Image.new("RGB", (224, 224), "white")
>>> ImageDraw.Draw(photo).ellipse((40, 40, 184, 184), fill="red")
>>> captions = ["a red circle on a white wall", "two dogs run through deep snow"]
>>> pr_mcs = evaluate.load(capscore.module_folder("pr_mcs"), backbone="embedded-pr-mcs")
>>> results = pr_mcs.compute(predictions=captions, images=[photo, photo], language="en")
>>> results["scores"][0] > results["scores"][1]
True

A caption whose words are jumbled loses its score:

>>> jumbled = ["wall red a on white circle a"]
>>> after = pr_mcs.compute(predictions=jumbled, images=[photo], language="en", per_row=False)
>>> after["pr_mcs"] < results["scores"][0] / 2
True
"""


class PrMcs(capscore.CaptionModule):
    """PR-MCS; `evaluate.load(…, backbone=…, device=…)` chooses towers that were fine-tuned for it."""

    metric = "pr_mcs"
    papers = ("https://aclanthology.org/2023.findings-emnlp.819",)
    examples = _EXAMPLES
    details = """\
The verdict of the backbone's gate on the caption; None with a backbone without a gate. "kept": share of its
    MCS that the caption keeps, 0 to 1; for several sentences their mean, weighted by length. "lost": 1 −
    kept.
    "kind": the most likely noise, "none" if nothing is wrong, else "repetition", "removal", "masking",
    "jumble" or "substitution". "p_kind": its probability."""

    @classmethod
    def describe(cls):
        return _DESCRIPTION, _CITATION
