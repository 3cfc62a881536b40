"""CIDEr as an `evaluate` module. The work is done by the library capscore."""

import capscore  # From: capscore

_DESCRIPTION = """\
CIDEr scores captions against references, in any language: runs of one to four words that a caption shares
with its references count the more, the fewer captions of other images have them.
From 0 to 10, averaged over the rows, without images or a model.
"""

_CITATION = """\
@inproceedings{vedantam-etal-2015-cider,
  title = {{CIDEr}: Consensus-based Image Description Evaluation},
  author = {Vedantam, Ramakrishna and Zitnick, C. Lawrence and Parikh, Devi},
  booktitle = {Proceedings of the IEEE Conference on Computer Vision and Pattern Recognition}, year = {2015}}
"""


class Cider(capscore.CaptionModule):
    """CIDEr; `evaluate.load(…, document_frequencies=…)` brings frequencies that were counted before."""

    metric = "cider"
    papers = ("https://arxiv.org/abs/1411.5726",)

    @classmethod
    def describe(cls):
        return _DESCRIPTION, _CITATION
