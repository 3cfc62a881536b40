"""A perturbation: one word is said three times."""

from capscore.registry import register_perturbation


@register_perturbation("stutter")
def stutter(caption, language, rng):
    """Repeat a random word twice; `rng` depends on the seed and the caption alone."""
    words = caption.split()
    index = rng.randrange(len(words))
    return " ".join([*words[:index], *[words[index]] * 3, *words[index + 1 :]])
