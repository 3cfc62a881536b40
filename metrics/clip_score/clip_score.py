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


class CLIPScore(capscore.CaptionModule):
    """CLIPScore; `evaluate.load(…, backbone=…, device=…)` chooses the towers."""

    metric = "clip_score"
    papers = ("https://aclanthology.org/2021.emnlp-main.595",)

    @classmethod
    def describe(cls):
        return _DESCRIPTION, _CITATION
