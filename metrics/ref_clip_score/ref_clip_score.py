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


class RefCLIPScore(capscore.CaptionModule):
    """RefCLIPScore; `evaluate.load(…, backbone=…, device=…)` chooses the towers."""

    metric = "ref_clip_score"
    papers = ("https://aclanthology.org/2021.emnlp-main.595",)

    @classmethod
    def describe(cls):
        return _DESCRIPTION, _CITATION
