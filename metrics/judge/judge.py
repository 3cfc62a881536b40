"""A vision–language model that judges captions, as an `evaluate` module; capscore does the work."""

import capscore  # From: capscore

_DESCRIPTION = """\
Judge scores how well captions fit their images, in every language that its vision–language model reads: the
model is asked whether a caption describes its image, and the score is the probability of yes against no.
"""

_CITATION = """\
@inproceedings{lin-etal-2024-vqascore,
  title = {Evaluating Text-to-Visual Generation with Image-to-Text Generation},
  author = {Lin, Zhiqiu and Pathak, Deepak and Li, Baiqi and Li, Jiayao and Xia, Xide and Neubig, Graham and
    Zhang, Pengchuan and Ramanan, Deva},
  booktitle = {Computer Vision -- ECCV}, year = {2024}}
"""

_EXAMPLES = """\
>>> import capscore, evaluate
>>> from PIL import Image
>>> photo = Image.new("RGB", (64, 64), "red")
>>> judge = evaluate.load(capscore.module_folder("judge"))
>>> results = judge.compute(predictions=["a red wall", "two dogs"], images=[photo, photo], language="en")
>>> all(0 <= score <= 1 for score in results["scores"])
True
>>> results["n_items"], results["n_scored"], results["n_failed"], results["n_empty"]
(2, 2, 0, 0)

Means and counts alone, as a trainer logs them, with the text around the photo:

>>> rows = {"predictions": ["a red wall"], "images": [photo], "context": ["Our house has a new wall."]}
>>> results = judge.compute(**rows, language="en", per_row=False)
>>> list(results)[:5]
['judge', 'mean_margin', 'mean_mass', 'n_items', 'n_scored']
"""


class Judge(capscore.CaptionModule):
    """A model as a judge; `evaluate.load(…, backbone=…, reading=…)` chooses the model and what is read."""

    metric = "judge"
    papers = ("https://arxiv.org/abs/2404.01291", "https://aclanthology.org/2024.acl-long.205")
    examples = _EXAMPLES
    details = '"reason": what the model says is wrong, in the caption\'s language; None unless explain=True.'

    @classmethod
    def describe(cls):
        return _DESCRIPTION, _CITATION
