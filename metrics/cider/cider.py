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

_EXAMPLES = """\
>>> import capscore, evaluate
>>> cider = evaluate.load(capscore.module_folder("cider"))
>>> captions = ["a dog runs on the beach", "a cat sleeps"]
>>> references = [["a dog runs along the beach", "a brown dog on the beach"],
...               ["a cat is sleeping", "the cat sleeps on a sofa"]]
>>> results = cider.compute(predictions=captions, references=references, language="en")
>>> [round(score, 4) for score in results["scores"]]
[3.7909, 2.2561]
>>> results["n_items"], results["n_scored"], results["n_failed"], results["n_empty"]
(2, 2, 0, 0)

An empty caption is an error, unless it is to be scored or left out:

>>> cider = evaluate.load(capscore.module_folder("cider"), empty="score", per_row=False)
>>> results = cider.compute(predictions=[captions[0], ""], references=references, language="en")
>>> round(results["cider"], 4), results["n_empty"]
(1.8954, 1)
"""


class Cider(capscore.CaptionModule):
    """CIDEr; `evaluate.load(…, document_frequencies=…)` takes frequencies that were counted earlier."""

    metric = "cider"
    papers = ("https://arxiv.org/abs/1411.5726",)
    examples = _EXAMPLES

    @classmethod
    def describe(cls):
        return _DESCRIPTION, _CITATION
