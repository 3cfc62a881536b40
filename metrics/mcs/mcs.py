"""MCS: multilingual CLIPScore as an `evaluate` module. The library capscore does the work."""

import capscore  # From: capscore

_DESCRIPTION = """\
MCS scores how well captions fit their images, without references, in every language that its backbone's text
tower knows: w · max(cos(caption, image), 0), averaged over the rows; w is the backbone's, 2.5 as published.
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
>>> mcs = evaluate.load(capscore.module_folder("mcs"), backbone="embedded-free")
>>> results = mcs.compute(predictions=captions, images=[photo, photo], language="en")
>>> results["scores"][0] > results["scores"][1]
True
>>> results["n_items"], results["n_scored"], results["n_failed"], results["n_empty"]
(2, 2, 0, 0)

Other languages; means and counts alone, as a trainer logs them:

>>> german = ["ein roter Kreis auf einer weißen Wand", "zwei Hunde laufen durch tiefen Schnee"]
>>> results = mcs.compute(predictions=german, images=[photo, photo], language="de", per_row=False)
>>> list(results)
['mcs', 'n_items', 'n_scored', 'n_failed', 'n_empty', 'n_unique_images', 'n_truncated', 'signature']
"""


class MCS(capscore.CaptionModule):
    """Multilingual CLIPScore; `evaluate.load(…, backbone=…, device=…)` chooses the towers."""

    metric = "mcs"
    papers = ("https://aclanthology.org/2023.findings-emnlp.819",)
    examples = _EXAMPLES

    @classmethod
    def describe(cls):
        return _DESCRIPTION, _CITATION
