"""Fit: the probability that a caption is of its photo, as an `evaluate` module. capscore does the work."""

import capscore  # From: capscore

_DESCRIPTION = """\
Fit is the probability that a caption is of its photo and not of another, in every language that the
backbone's text tower knows: the cosine of caption and photo, less the caption's mean cosine with the nearest
photos of a background, through a logistic curve.
"""

_CITATION = """\
@inproceedings{conneau-etal-2018-word,
  title = {Word Translation Without Parallel Data},
  author = {Conneau, Alexis and Lample, Guillaume and Ranzato, Marc'Aurelio and Denoyer, Ludovic and
    Jégou, Hervé},
  booktitle = {International Conference on Learning Representations}, year = {2018}}
"""

_EXAMPLES = """\
>>> import capscore, evaluate
>>> from skimage import data
>>> fit = evaluate.load(capscore.module_folder("fit"), backbone="embedded")
>>> captions = ["a cat with green eyes", "a dog runs on the beach"]
>>> results = fit.compute(predictions=captions, images=[data.cat()] * 2, language="en")
>>> [round(score, 2) for score in results["scores"]]
[1.0, 0.0]
>>> results["n_items"], results["n_scored"], results["n_failed"], results["n_empty"]
(2, 2, 0, 0)

References join by the best one's cosine; means and counts alone, as a trainer logs them:

>>> fit = evaluate.load(capscore.module_folder("fit"), backbone="embedded", with_references=True)
>>> references = [["a cat looks to the side"], ["the face of a cat"]]
>>> results = fit.compute(
...     predictions=captions, images=[data.cat()] * 2, references=references, language="en", per_row=False
... )
>>> round(results["fit"], 1)
0.5
"""


class Fit(capscore.CaptionModule):
    """Fit; `evaluate.load(…, backbone=…, background=…)` chooses the towers and the photos beside them."""

    metric = "fit"
    papers = ("https://arxiv.org/abs/1710.04087",)
    examples = _EXAMPLES

    @classmethod
    def describe(cls):
        return _DESCRIPTION, _CITATION
