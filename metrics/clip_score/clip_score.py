"""CLIPScore as an `evaluate` module. The library capscore does the work."""

import capscore  # From: capscore

_DESCRIPTION = """\
CLIPScore scores how well English captions fit their images, without references:
2.5 · max(cos(caption, image), 0) with OpenAI's ViT-B/32 and the prefix "A photo depicts ",
averaged over the rows.
"""

_CITATION = """\
@inproceedings{hessel-etal-2021-clipscore,
  title = {{CLIPScore}: A Reference-free Evaluation Metric for Image Captioning},
  author = {Hessel, Jack and Holtzman, Ari and Forbes, Maxwell and Le Bras, Ronan and Choi, Yejin},
  booktitle = {Proceedings of EMNLP}, year = {2021}}
"""

_EXAMPLES = """\
>>> import capscore, evaluate
>>> from PIL import Image, ImageDraw
>>> photo = Image.new("RGB", (224, 224), "white")
>>> ImageDraw.Draw(photo).ellipse((40, 40, 184, 184), fill="red")
>>> captions = ["a red circle on a white wall", "two dogs run through deep snow"]
>>> clip_score = evaluate.load(capscore.module_folder("clip_score"), backbone="embedded-free")
>>> results = clip_score.compute(predictions=captions, images=[photo, photo])
>>> results["scores"][0] > results["scores"][1]
True
>>> results["clip_score"] == sum(results["scores"]) / 2
True

A bad row can be left out, and is counted:

>>> rows = {"predictions": [captions[0], None], "images": [photo, photo]}
>>> results = clip_score.compute(**rows, on_error="skip")
>>> results["n_scored"], results["failures"]
(1, [{'row': 1, 'error': 'candidate: expected a caption, got None'}])
"""


class CLIPScore(capscore.CaptionModule):
    """CLIPScore; `evaluate.load(…, backbone=…, device=…)` chooses the towers."""

    metric = "clip_score"
    papers = ("https://aclanthology.org/2021.emnlp-main.595",)
    examples = _EXAMPLES

    @classmethod
    def describe(cls):
        return _DESCRIPTION, _CITATION
