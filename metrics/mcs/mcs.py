"""MCS: multilingual CLIPScore as an `evaluate` module. The library capscore does the work."""

import capscore  # From: capscore

_DESCRIPTION = """\
MCS scores how well captions fit their images, without references, in every language that its backbone's text
tower knows: 2.5 · max(cos(caption, image), 0), averaged over the rows.
"""

_CITATION = """\
@inproceedings{kim-etal-2023-pr-mcs,
  title = {{PR-MCS}: Perturbation Robust Metric for MultiLingual Image Captioning},
  author = {Kim, Yongil and Hwang, Yerin and Yun, Hyeongu and Yoon, Seunghyun and Bui, Trung and
    Jung, Kyomin},
  booktitle = {Findings of the Association for Computational Linguistics: EMNLP 2023}, year = {2023}}
"""


class MCS(capscore.CaptionModule):
    """Multilingual CLIPScore; `evaluate.load(…, backbone=…, device=…)` chooses the towers."""

    metric = "mcs"
    papers = ("https://aclanthology.org/2023.findings-emnlp.819",)

    @classmethod
    def describe(cls):
        return _DESCRIPTION, _CITATION
