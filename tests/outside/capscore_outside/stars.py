"""A reading of the judge: how many stars, from 1 to 5, the model would give a caption."""

import numpy as np

from capscore.judges.readings import Reading, among
from capscore.registry import register_reading


@register_reading("stars")
class Stars(Reading):
    """Expected number of stars; the mass is the probability of a number from 1 to 5."""

    question = 'How many stars, from 1 to 5, does the caption "{caption}" deserve? Answer with one digit.'
    read_answers = "stars"  # what the signature names

    def bind(self, prompter, prompt):  # once, when the model is loaded
        self.digits = [prompter.natural_ids(prompt, digit)[-1] for digit in "12345"]

    def read(self, n, run):  # `run` takes the tokens with which n answers begin, and gives their logits
        shares, mass = among(run([()] * n)[:, 0], self.digits)
        return np.stack([shares @ np.arange(1, 6), mass], axis=1)

    def scores(self, numbers, mass):  # scores, and margins by which rows are ranked
        return (numbers - 1) / 4, numbers

    def said(self, number):
        return f"{number:.0f}"
