"""InfoMetIC as an `evaluate` module: wrong words, missed regions and scores, all computed by capscore."""

import capscore  # From: capscore

_DESCRIPTION = """\
InfoMetIC scores how well captions fit their images, without references, and says why: which words of a
caption are likely wrong, which regions of the image it leaves out, and three scores (text precision, vision
recall and their sum).
"""

_CITATION = """\
@inproceedings{hu-etal-2023-infometic,
  title = {{InfoMetIC}: An Informative Metric for Reference-free Image Caption Evaluation},
  author = {Hu, Anwen and Chen, Shizhe and Zhang, Liang and Jin, Qin},
  booktitle = {Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics
    (Volume 1: Long Papers)}, year = {2023}, pages = {3171--3185}}
"""

_EXAMPLES = """\
>>> import capscore, evaluate
>>> from PIL import Image, ImageDraw
>>> photo = Image.new("RGB", (224, 224), "white")
>>> ImageDraw.Draw(photo).ellipse((40, 40, 184, 184), fill="red")
>>> captions = ["a red circle on a white wall", "two dogs run through deep snow"]
>>> infometic = evaluate.load(capscore.module_folder("infometic"), backbone="embedded-free")
>>> results = infometic.compute(predictions=captions, images=[photo, photo], language="en")
>>> [word["text"] for word in results["words"][0] if word["semantic"]]
['red', 'circle', 'white', 'wall']
>>> len(results["regions"][0])
20
>>> abs(results["infometic"] - results["mean_recall"] - results["mean_precision"]) < 1e-9
True

Given boxes (left, top, right, bottom) are scored in place of windows:

>>> rows = {"predictions": captions[:1], "images": [photo], "boxes": [[(40, 40, 184, 184), (0, 0, 80, 80)]]}
>>> results = infometic.compute(**rows, language="en")
>>> [region["box"] for region in results["regions"][0]]
[[40.0, 40.0, 184.0, 184.0], [0.0, 0.0, 80.0, 80.0]]
"""


# Not `InfoMetIC`: `evaluate` turns the class name into snake case for cache folders and for the prefixes of
# `evaluate.combine`, and would get info_met_ic.
class Infometic(capscore.CaptionModule):
    """InfoMetIC; `evaluate.load(…, backbone=…, weights=…, regions=…)` chooses towers, network and regions."""

    metric = "infometic"
    papers = ("https://aclanthology.org/2023.acl-long.178",)
    examples = _EXAMPLES
    details = """\
"words": dicts of text, start and end in the caption, score, semantic, correct. "regions": dicts of box in
    pixels, score, mentioned, confidence, label. "null": score of the null token. "image_size": width, height.
    "n_words_cut": number of words beyond the limit, whose score is None.
    "boxes_given": whether the caller passed the boxes."""

    @classmethod
    def describe(cls):
        return _DESCRIPTION, _CITATION
