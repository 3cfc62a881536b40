"""CIDEr as an `evaluate` module. The library capscore does the work."""

import capscore  # From: capscore

_DESCRIPTION = """\
CIDEr scores captions against references, in any language. It counts sequences of one to four words that a
caption shares with its references; those that are rare in captions of other images count more.
From 0 to 10, averaged over the rows, without images or a model.
"""

_CITATION = """\
@inproceedings{vedantam-etal-2015-cider,
  title = {{CIDEr}: Consensus-based Image Description Evaluation},
  author = {Vedantam, Ramakrishna and Zitnick, C. Lawrence and Parikh, Devi},
  booktitle = {Proceedings of the IEEE Conference on Computer Vision and Pattern Recognition}, year = {2015}}
"""


class Cider(capscore.CaptionModule):
    """CIDEr; `evaluate.load(…, document_frequencies=…)` takes frequencies that were counted before."""

    metric = "cider"
    papers = ("https://arxiv.org/abs/1411.5726",)

    @classmethod
    def describe(cls):
        return _DESCRIPTION, _CITATION
