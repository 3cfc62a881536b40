"""PR-MCS: perturbation-robust MCS as an `evaluate` module. The library capscore does the work."""

import capscore  # From: capscore

_DESCRIPTION = """\
PR-MCS scores how well captions fit their images, without references and in many languages, as MCS does; but
captions whose words are repeated, missing, masked, jumbled or exchanged lose nearly all of their score.
"""

_CITATION = """\
@inproceedings{kim-etal-2023-pr-mcs,
  title = {{PR-MCS}: Perturbation Robust Metric for MultiLingual Image Captioning},
  author = {Kim, Yongil and Hwang, Yerin and Yun, Hyeongu and Yoon, Seunghyun and Bui, Trung and
    Jung, Kyomin},
  booktitle = {Findings of the Association for Computational Linguistics: EMNLP 2023}, year = {2023}}
"""


class PrMcs(capscore.CaptionModule):
    """PR-MCS; `evaluate.load(…, backbone=…, device=…)` chooses towers that were fine-tuned for it."""

    metric = "pr_mcs"
    papers = ("https://aclanthology.org/2023.findings-emnlp.819",)

    @classmethod
    def describe(cls):
        return _DESCRIPTION, _CITATION
