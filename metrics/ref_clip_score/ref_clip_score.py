"""RefCLIPScore as an `evaluate` module. The library capscore does the work."""

import capscore  # From: capscore

_DESCRIPTION = """\
RefCLIPScore scores captions against their images and against references: per row the harmonic mean of
2.5 · max(cos(caption, image), 0) and of the largest cosine with a reference (at least 0),
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
>>> references = [["a red dot on white paper"], ["a red dot on white paper", "a red ball"]]
>>> ref_clip_score = evaluate.load(capscore.module_folder("ref_clip_score"), backbone="embedded-free")
>>> rows = {"predictions": captions, "images": [photo, photo], "references": references}
>>> results = ref_clip_score.compute(**rows, language="en")
>>> results["scores"][0] > results["scores"][1]
True
>>> sorted(set(results) - set(ref_clip_score.compute(**rows, per_row=False)))
['clip_score', 'failures', 'scores', 'text_score']

Rows may come in batches:

>>> ref_clip_score.add_batch(predictions=captions, images=[photo, photo], references=references)
>>> ref_clip_score.add(prediction="a red ball", image=photo, reference=["a red dot"])
>>> ref_clip_score.compute()["n_items"]
3
"""


class RefCLIPScore(capscore.CaptionModule):
    """RefCLIPScore; `evaluate.load(…, backbone=…, device=…)` chooses the towers."""

    metric = "ref_clip_score"
    papers = ("https://aclanthology.org/2021.emnlp-main.595",)
    examples = _EXAMPLES

    @classmethod
    def describe(cls):
        return _DESCRIPTION, _CITATION
